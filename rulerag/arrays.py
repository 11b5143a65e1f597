"""Names for the arrays that travel between modules."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["Bools", "Doubles", "Floats", "Ints", "Longs"]

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
