"""What miners return: sets of sources with what was shown about each; and how records are written.

``record`` is the base of everything that stands in ``explanations.jsonl``.
"""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.explanation.records.record import Record as Record
    from rulerag.explanation.records.rules import (
        SUBSETS as SUBSETS,
        Certificate as Certificate,
        CertifiedRules as CertifiedRules,
        DocumentSet as DocumentSet,
        ExactRules as ExactRules,
        OfSize as OfSize,
        SourceRule as SourceRule,
        SourceRules as SourceRules,
        Spoiler as Spoiler,
        check_kind as check_kind,
        percent as percent,
    )
else:
    __getattr__ = lazy_names(__name__)
