"""Which output each subset of the sources gave: every distinct output text is kept once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from rulerag.explanation.tables import Masks

__all__ = ["DENSE_SOURCES", "OutputStore"]

DENSE_SOURCES = 20
"""Up to here an array of 2**n codes (4 MB at most) holds the outputs; beyond it a dictionary."""

_UNKNOWN = -1


class _Codes(dict[str, int]):
    """Texts to codes 0, 1, 2 … in order of appearance; an unknown text gets the next code."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def __missing__(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(type(text).__name__)
        code = len(self.texts)
        self.texts.append(text)
        self[text] = code
        return code


class OutputStore:
    """The outputs of the subsets asked so far, as codes into a table of distinct texts.

    Args:
        num_sources: how many sources the masks run over.
    """

    def __init__(self, num_sources: int) -> None:
        self._codes = _Codes()
        self._sparse: dict[int, int] = {}
        self._dense: npt.NDArray[np.int32] | None = None
        if num_sources <= DENSE_SOURCES:
            self._dense = np.full(1 << num_sources, _UNKNOWN, dtype=np.int32)

    @property
    def texts(self) -> list[str]:
        """The distinct outputs; a code is a place in this list."""
        return self._codes.texts

    def codes(self, masks: Masks | Sequence[int]) -> npt.NDArray[np.int32]:
        """The code of each mask's output, -1 where it was never asked."""
        if self._dense is not None:
            return self._dense[np.asarray(masks, dtype=np.int64)]
        known = (self._sparse.get(int(mask), _UNKNOWN) for mask in masks)
        return np.fromiter(known, dtype=np.int32, count=len(masks))

    def unknown(self, masks: Masks | Sequence[int]) -> Masks | list[int]:
        """The distinct masks never asked, in order of first appearance."""
        if self._dense is None:
            return list(dict.fromkeys(int(m) for m in masks if int(m) not in self._sparse))
        array: Masks = np.asarray(masks, dtype=np.int64)
        array = array[self._dense[array] == _UNKNOWN]
        if array.size < 2 or bool((array[1:] > array[:-1]).all()):
            return array  # a lattice level comes sorted: nothing to look for
        first_seen: Masks = array[np.sort(np.unique(array, return_index=True)[1])]
        return first_seen

    def record(self, masks: Masks | Sequence[int], outputs: Sequence[str]) -> None:
        """Keep the output of each mask.

        Raises:
            TypeError: an output is no text.
        """
        code = self._codes.__getitem__
        codes = np.fromiter(map(code, outputs), dtype=np.int32, count=len(outputs))
        if self._dense is not None:
            self._dense[np.asarray(masks, dtype=np.int64)] = codes
        else:
            self._sparse.update(zip((int(m) for m in masks), codes.tolist(), strict=True))
