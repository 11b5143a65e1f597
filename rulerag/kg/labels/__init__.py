"""Readable, unique labels for raw names."""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.kg.labels.candidates import (
        LabelCandidates,
        entity_candidates,
        make_labels,
        relation_candidates,
    )
    from rulerag.kg.labels.files import GivenLabels, find_labels, read_labels
else:
    __getattr__ = lazy_names(__name__)
