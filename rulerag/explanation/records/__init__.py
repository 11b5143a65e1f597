"""What explainers return: rules of sources with what was shown about each, and their English."""

from typing import TYPE_CHECKING

from rulerag.lazy import front_door

if TYPE_CHECKING:
    from rulerag.explanation.records.certificates import (
        SUBSETS,
        Certificate,
        Minimality,
        NamedRule,
        OfSize,
        Smaller,
        among,
        becomes,
        certificates_of,
        correctness,
        evidence,
        holding,
        percent,
        strongest,
    )
    from rulerag.explanation.records.record import Record
    from rulerag.explanation.records.results import (
        CertifiedRules,
        ExactRules,
        RuleHook,
        SourceRule,
        SourceRules,
        check_kind,
    )
    from rulerag.explanation.records.trace import (
        DocumentTrace,
        RuleTrace,
        document_of,
        trace_documents,
        trace_rules,
    )
    from rulerag.explanation.wording import capital, factored, shortened
else:
    __getattr__ = front_door(__name__)
