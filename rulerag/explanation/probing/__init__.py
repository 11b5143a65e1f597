"""The only way from an explainer to a model: subsets of the sources, and what is answered to them.

Read :mod:`~rulerag.explanation.probing.engine` first; ``answer_function`` asks any
function, ``reader`` a generator of rulerag. ``cache`` has answers on disk under a name of
everything that is read (``generators``).
"""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.explanation.probing.answer_function import (
        CHARACTERS_A_TOKEN as CHARACTERS_A_TOKEN,
        AnswerFunction as AnswerFunction,
        answer_text as answer_text,
    )
    from rulerag.explanation.probing.cache import (
        AnswerCache as AnswerCache,
        CachedGenerator as CachedGenerator,
    )
    from rulerag.explanation.probing.engine import ProbeEngine as ProbeEngine
    from rulerag.explanation.probing.generators import (
        VotingGenerator as VotingGenerator,
        refuse_another_answer as refuse_another_answer,
        refuse_unread_documents as refuse_unread_documents,
        self_explaining as self_explaining,
    )
    from rulerag.explanation.probing.log_probability import (
        ResponseScorer as ResponseScorer,
        refuse_without_scores as refuse_without_scores,
        response_engine as response_engine,
    )
    from rulerag.explanation.probing.predicates import (
        OutputPredicate as OutputPredicate,
        Predicate as Predicate,
        PredicateValues as PredicateValues,
        is_correct as is_correct,
        judged as judged,
        matches_answer as matches_answer,
        named as named,
        of_short_answers as of_short_answers,
        predicate_of as predicate_of,
    )
    from rulerag.explanation.probing.reader import answer_function_of as answer_function_of
    from rulerag.explanation.probing.values import (
        Probed as Probed,
        Score as Score,
        SetValue as SetValue,
        valued as valued,
    )
else:
    __getattr__ = lazy_names(__name__)
