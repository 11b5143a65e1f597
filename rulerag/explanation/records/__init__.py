"""What explainers return: rules of sources with what was shown about each, and their English."""

from typing import TYPE_CHECKING

from rulerag.lazy import front_door

if TYPE_CHECKING:
    from rulerag.explanation.records.record import Record
    from rulerag.explanation.records.results import (
        CertifiedRules,
        ExactRules,
        RuleHook,
        SourceRule,
        SourceRules,
        check_kind,
    )
    from rulerag.explanation.records.shown import (
        SUBSETS,
        Certificate,
        Minimality,
        ShownRule,
        Smaller,
        among,
        becomes,
        certificates_of,
        evidence,
        holding,
        percent,
        strongest,
        verdict,
    )
    from rulerag.explanation.records.trace import (
        DocumentTrace,
        RuleTrace,
        document_of,
        trace_documents,
        trace_rules,
    )
    from rulerag.explanation.records.wording import (
        capital,
        factored,
        finding,
        in_words,
        listing,
        quoted,
        runs,
        shortened,
        told_sets,
    )

__all__ = [
    "SUBSETS",
    "Certificate",
    "CertifiedRules",
    "DocumentTrace",
    "ExactRules",
    "Minimality",
    "Record",
    "RuleHook",
    "RuleTrace",
    "ShownRule",
    "Smaller",
    "SourceRule",
    "SourceRules",
    "among",
    "becomes",
    "capital",
    "certificates_of",
    "check_kind",
    "document_of",
    "evidence",
    "factored",
    "finding",
    "holding",
    "in_words",
    "listing",
    "percent",
    "quoted",
    "runs",
    "shortened",
    "strongest",
    "told_sets",
    "trace_documents",
    "trace_rules",
    "verdict",
]

__getattr__ = front_door(__name__)
