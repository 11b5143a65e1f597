"""Readable, unique labels for raw names."""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.kg.labels.candidates import (
        LabelCandidates as LabelCandidates,
        entity_candidates as entity_candidates,
        make_labels as make_labels,
        relation_candidates as relation_candidates,
    )
    from rulerag.kg.labels.files import (
        GivenLabels as GivenLabels,
        find_labels as find_labels,
        read_labels as read_labels,
    )
else:
    __getattr__ = lazy_names(__name__)
