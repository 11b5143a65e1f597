"""What is kept and removed of an answer's documents: together, one by one, or part by part.

``passages`` reads documents in any form, ``units`` cuts them to a level (groups, documents,
sections, sentences, spans, words), ``context`` is what the answer function reads then.
"""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.explanation.units.context import NEUTRAL, Context
    from rulerag.explanation.units.cutting import BY_RULE, LEVELS, Unit, opened, units_of
    from rulerag.explanation.units.passages import Hit, Passage, Reason, passages_of
else:
    __getattr__ = lazy_names(__name__)
