"""Rule-guided retrieval: select rules, search for each, follow chains, merge.

Read :mod:`~rulerag.retrieval.guided.retriever` first.
"""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.retrieval.guided.chains import PathStep as PathStep, RulePath as RulePath
    from rulerag.retrieval.guided.provenance import grounds as grounds
    from rulerag.retrieval.guided.query_text import (
        append_rule as append_rule,
        substitute_body as substitute_body,
    )
    from rulerag.retrieval.guided.retriever import RuleGuidedRetriever as RuleGuidedRetriever
    from rulerag.retrieval.guided.selection import (
        HeadRelationSelector as HeadRelationSelector,
        WordedSelector as WordedSelector,
    )
    from rulerag.retrieval.guided.settings import GuidedSettings as GuidedSettings
else:
    __getattr__ = lazy_names(__name__)
