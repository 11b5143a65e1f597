"""Rule-guided retrieval: select rules, search for each, follow chains, merge.

Read :mod:`~rulerag.retrieval.guided.retriever` first.
"""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.retrieval.guided.chains import PathStep, RulePath
    from rulerag.retrieval.guided.provenance import grounds
    from rulerag.retrieval.guided.query_text import append_rule, substitute_body
    from rulerag.retrieval.guided.retriever import RuleGuidedRetriever
    from rulerag.retrieval.guided.selection import HeadRelationSelector, WordedSelector
    from rulerag.retrieval.guided.settings import GuidedSettings
else:
    __getattr__ = lazy_names(__name__)
