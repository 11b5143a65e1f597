"""What miners return: sets of sources with what was shown about each; and how records are written.

``record`` is the base of everything that stands in ``explanations.jsonl``.
"""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.explanation.records.record import Record
    from rulerag.explanation.records.rules import (
        SUBSETS,
        Certificate,
        CertifiedRules,
        DocumentSet,
        ExactRules,
        OfSize,
        SourceRule,
        SourceRules,
        Spoiler,
        check_kind,
        percent,
    )
else:
    __getattr__ = lazy_names(__name__)
