"""What is kept and removed of an answer's documents: together, one by one, or part by part.

``passages`` reads documents in any form, ``context`` cuts them to a level and says what the answer
function reads without some of the parts.
"""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.explanation.units.context import (
        LEVELS,
        NEUTRAL,
        Context,
        Unit,
        opened,
        units_of,
    )
    from rulerag.explanation.units.passages import Hit, Passage, Reason, passages_of
else:
    __getattr__ = lazy_names(__name__)
