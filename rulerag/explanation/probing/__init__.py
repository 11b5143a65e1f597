"""The only way from an explainer to a model: subsets of the sources, and what is answered to them.

Read :mod:`~rulerag.explanation.probing.engine` first; ``answer_function`` asks any
function, ``reader`` a generator of rulerag. ``cache`` has answers on disk under a name of
everything that is read (``generators``).
"""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.explanation.probing.answer_function import (
        CHARACTERS_A_TOKEN,
        AnswerFunction,
        answer_text,
    )
    from rulerag.explanation.probing.cache import AnswerCache, CachedGenerator
    from rulerag.explanation.probing.engine import ProbeEngine
    from rulerag.explanation.probing.generators import (
        VotingGenerator,
        refuse_another_answer,
        refuse_unread_documents,
        self_explaining,
    )
    from rulerag.explanation.probing.log_probability import (
        ResponseScorer,
        refuse_without_scores,
        response_engine,
    )
    from rulerag.explanation.probing.predicates import (
        OutputPredicate,
        Predicate,
        PredicateValues,
        is_correct,
        judged,
        matches_answer,
        named,
        of_short_answers,
        predicate_of,
    )
    from rulerag.explanation.probing.reader import answer_function_of
    from rulerag.explanation.probing.values import Probed, Score, SetValue, valued
else:
    __getattr__ = lazy_names(__name__)
