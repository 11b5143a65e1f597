"""What a rule's body matches: bindings, joins, what that is worth, and what documents state."""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.kg.grounding.bindings import (
        FactIndex,
        body_order,
        ground,
        groundings_of,
    )
    from rulerag.kg.grounding.evidence import EvidenceModel, evidence_sum, noisy_or_exponents
    from rulerag.kg.grounding.execution import (
        ExtendedIndex,
        QueryResult,
        Solution,
        execute,
        known_end,
        solve,
        values_in_words,
    )
    from rulerag.kg.grounding.index import TableIndex
    from rulerag.kg.grounding.joins import MAX_ROWS, RulePlans
    from rulerag.kg.grounding.statements import Statements, compare, statement_lines
else:
    __getattr__ = lazy_names(__name__)
