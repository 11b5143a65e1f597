"""The only way from an explainer to a model: sources, subsets, answers, and what is asked of them.

Read :mod:`~rulerag.explanation.probing.engine` first. Answers are kept on disk by ``cache`` under
a name of everything that is read (``asking``).
"""

from typing import TYPE_CHECKING

from rulerag.lazy import front_door

if TYPE_CHECKING:
    from rulerag.explanation.probing.asking import (
        VotingGenerator,
        refuse_another_answer,
        refuse_dropped_documents,
        self_explaining,
    )
    from rulerag.explanation.probing.cache import AnswerCache, CachedGenerator
    from rulerag.explanation.probing.engine import ProbeEngine, stopped
    from rulerag.explanation.probing.log_probability import (
        ResponseScorer,
        check_value,
        response_engine,
    )
    from rulerag.explanation.probing.predicates import (
        OutputPredicate,
        Predicate,
        PredicateValues,
        is_correct,
        judged,
        judged_correct,
        matches_answer,
        named,
        of_short_answers,
        predicate_pair,
    )
    from rulerag.explanation.probing.sources import (
        PartitionedDocuments,
        Piece,
        Source,
        group,
        partition,
    )
    from rulerag.explanation.probing.values import Probed, Score, SetValue, valued
else:
    __getattr__ = front_door(__name__)
