"""What is kept and removed of an answer's documents: together, one by one, or part by part.

``passages`` reads documents in any form, ``context`` cuts them to a level and says what the answer
function reads without some of the parts.
"""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.explanation.units.context import (
        LEVELS as LEVELS,
        NEUTRAL as NEUTRAL,
        Context as Context,
        Unit as Unit,
        opened as opened,
        units_of as units_of,
    )
    from rulerag.explanation.units.passages import (
        Hit as Hit,
        Passage as Passage,
        Reason as Reason,
        passages_of as passages_of,
    )
else:
    __getattr__ = lazy_names(__name__)
