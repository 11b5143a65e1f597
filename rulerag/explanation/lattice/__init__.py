"""Sets of sources as bits of integers, and families of sets as truth tables."""

from typing import TYPE_CHECKING

from rulerag.lazy import front_door

if TYPE_CHECKING:
    from rulerag.explanation.lattice.subsets import (
        full_mask,
        indices_of,
        level,
        mask_of,
        minimal_elements,
        minimal_transversals,
        random_masks,
    )
    from rulerag.explanation.lattice.truth_tables import (
        Masks,
        SubsetFamily,
        children,
        kept_indices,
        masks_of,
        table_of,
        without_child,
    )

__all__ = [
    "Masks",
    "SubsetFamily",
    "children",
    "full_mask",
    "indices_of",
    "kept_indices",
    "level",
    "mask_of",
    "masks_of",
    "minimal_elements",
    "minimal_transversals",
    "random_masks",
    "table_of",
    "without_child",
]

__getattr__ = front_door(__name__)
