"""The work of a mining run, one relation at a time: in parallel, kept on disk, with a bar."""

from __future__ import annotations

import io
import logging
import zipfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from rulerag.io import atomic_write, fingerprint_object, prepare_folder
from rulerag.parallel import SerialBackend, ThreadBackend

if TYPE_CHECKING:
    from rulerag.parallel import Backend

Arrays = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]
Task = Callable[[int], Arrays]

logger = logging.getLogger(__name__)


def thread_backend(threads: int) -> Backend:
    """Threads of this process."""
    return ThreadBackend(threads) if threads > 1 else SerialBackend()


def checkpoint_folder(
    parent: str | Path | None, miner: str, settings: Sequence[object]
) -> Path | None:
    """The folder for finished relations of one graph under one setting; None without a parent.

    Args:
        parent: where a user wants them.
        miner: its name.
        settings: the graph's fingerprint and every setting that changes counts: another setting
            uses another folder, so it never reads old counts.

    Raises:
        OutputError: the folder cannot be written.
    """
    if parent is None:
        return None
    return prepare_folder(Path(parent) / f"{miner}-{fingerprint_object(settings)}")


@dataclass(frozen=True)
class TaskRunner:
    """Maps tasks over relations.

    Args:
        backend: where the tasks run; the result does not depend on it.
        progress: show a bar for each stage.
        checkpoint: a folder that keeps finished relations, so that an interrupted run resumes.
    """

    backend: Backend
    progress: bool = False
    checkpoint: Path | None = None

    def map(self, label: str, stage: str, task: Task, items: list[int]) -> list[Arrays]:
        """The results in order of the items.

        Args:
            label: the bar's words.
            stage: names the task's results on disk.
            task: picklable where the backend's workers are other processes.
            items: what the task is called with.
        """
        if not items:
            return []
        if self.checkpoint is not None:
            task = partial(_read_or_run, self.checkpoint, stage, task)
        results: Iterable[Arrays] = self.backend.map(task, items)
        if self.progress:
            from tqdm import tqdm

            results = tqdm(results, desc=label, total=len(items), unit=" relations")
        return list(results)


def _read_or_run(folder: Path, stage: str, task: Task, item: int) -> Arrays:
    """A task's result from its file, or made anew and written by the worker that made it."""
    path = folder / f"{stage}-{item}.npz"
    try:
        # From memory: numpy leaves the file open when its content is damaged.
        with np.load(io.BytesIO(path.read_bytes())) as arrays:
            return arrays["first"], arrays["second"]
    except FileNotFoundError:
        pass
    except (EOFError, OSError, ValueError, KeyError, zipfile.BadZipFile):
        logger.warning("%s is damaged and is counted anew", path)
    first, second = task(item)
    with atomic_write(path, "wb") as file:
        np.savez(file, first=first, second=second)
    return first, second
