"""What is kept and removed of an answer's documents: together, one by one, or part by part.

``passages`` reads documents in any form, ``units`` cuts them to a level (groups, documents,
sections, sentences, spans), ``removal`` is what the answer function reads then, ``priors`` and
``proposer`` what is tried first.
"""

from typing import TYPE_CHECKING

from rulerag.lazy import front_door

if TYPE_CHECKING:
    from rulerag.explanation.levels.passages import Passage, passages_of, scores_of
    from rulerag.explanation.levels.priors import Priors
    from rulerag.explanation.levels.proposer import expected_weights
    from rulerag.explanation.levels.removal import NEUTRAL, Context
    from rulerag.explanation.levels.units import LEVELS, opened, units_of
else:
    __getattr__ = front_door(__name__)
