"""Finished parts of a long run on disk, so that an interrupted one resumes."""

from __future__ import annotations

import io
import logging
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rulerag.io import atomic_write, prepare_folder

__all__ = ["Checkpoint"]

Longs = npt.NDArray[np.int64]
Arrays = tuple[Longs, Longs]

logger = logging.getLogger(__name__)


class Checkpoint:
    """A folder of finished relations, for one graph and one setting only.

    Args:
        folder: where to keep them.
        fingerprint: names the graph and every setting that changes results; another fingerprint
            uses another folder inside, so a changed setting never reads old counts.

    Raises:
        OutputError: the folder cannot be written.
    """

    def __init__(self, folder: str | Path, fingerprint: str) -> None:
        self._folder = prepare_folder(Path(folder) / fingerprint)

    def wrap(self, stage: str, function: Callable[[int], Arrays]) -> Callable[[int], Arrays]:
        """The function, with results that are read from the folder when they are there.

        It writes where it runs, so that what a worker has finished is kept whenever the run ends.
        """
        return _Kept(self._folder, stage, function)


@dataclass(frozen=True)
class _Kept:
    folder: Path
    stage: str
    function: Callable[[int], Arrays]

    def __call__(self, item: int) -> Arrays:
        path = self.folder / f"{self.stage}-{item}.npz"
        found = _read(path)
        if found is not None:
            return found
        first, second = self.function(item)
        with atomic_write(path, "wb") as file:
            np.savez(file, first=first, second=second)
        return first, second


def _read(path: Path) -> Arrays | None:
    if not path.exists():
        return None
    try:
        # From memory: numpy leaves the file open when its content is damaged.
        with np.load(io.BytesIO(path.read_bytes())) as arrays:
            return arrays["first"], arrays["second"]
    except (EOFError, OSError, ValueError, KeyError, zipfile.BadZipFile):
        logger.warning("%s is damaged and is counted anew", path)
        return None
