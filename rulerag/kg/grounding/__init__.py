"""What a rule's body matches: bindings, joins, what that is worth, and what documents state."""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.kg.grounding.bindings import (
        FactIndex as FactIndex,
        body_order as body_order,
        ground as ground,
        groundings_of as groundings_of,
    )
    from rulerag.kg.grounding.evidence import (
        EvidenceModel as EvidenceModel,
        evidence_sum as evidence_sum,
        noisy_or_exponents as noisy_or_exponents,
    )
    from rulerag.kg.grounding.execution import (
        ExtendedIndex as ExtendedIndex,
        QueryResult as QueryResult,
        Solution as Solution,
        execute as execute,
        known_end as known_end,
        solve as solve,
        values_in_words as values_in_words,
    )
    from rulerag.kg.grounding.index import TableIndex as TableIndex
    from rulerag.kg.grounding.joins import MAX_ROWS as MAX_ROWS, RulePlans as RulePlans
    from rulerag.kg.grounding.statements import (
        Statements as Statements,
        compare as compare,
        statement_lines as statement_lines,
    )
else:
    __getattr__ = lazy_names(__name__)
