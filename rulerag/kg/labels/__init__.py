"""Readable, unique labels for raw names."""

from typing import TYPE_CHECKING

from rulerag.lazy import front_door

if TYPE_CHECKING:
    from rulerag.kg.labels.candidates import (
        LabelCandidates,
        entity_candidates,
        make_labels,
        relation_candidates,
    )
    from rulerag.kg.labels.files import GivenLabels, find_labels, read_labels
else:
    __getattr__ = front_door(__name__)
