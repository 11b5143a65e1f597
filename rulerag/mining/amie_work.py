"""The work of a mining run, one relation at a time: in parallel, kept on disk, with a bar."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rulerag.mining.amie_index import Ints, Longs
from rulerag.parallel import in_this_process

if TYPE_CHECKING:
    from rulerag.mining.checkpoint import Checkpoint
    from rulerag.parallel import Backend

__all__ = ["Arrays", "Counting", "Scratch", "Work", "join"]

Arrays = tuple[Longs, Longs]
Task = Callable[[int], Arrays]


class Counting(NamedTuple):
    """What is counted of a body.

    Args:
        min_pca_confidence: candidates certain to stay below it are not counted to the end.
        standard: whether to count standard body sizes.
    """

    min_pca_confidence: float
    standard: bool


class Work:
    """Maps tasks over relations.

    Args:
        backend: where the tasks run; the result does not depend on it.
        progress: show a bar for each stage.
        checkpoint: keeps finished relations on disk.
    """

    def __init__(
        self, backend: Backend, *, progress: bool = False, checkpoint: Checkpoint | None = None
    ) -> None:
        self._backend = backend
        self._progress = progress
        self._checkpoint = checkpoint

    def map(self, label: str, stage: str, task: Task, items: list[int]) -> list[Arrays]:
        """The results in order of the items.

        Args:
            label: the bar's words.
            stage: names the task's results on disk.
            task: picklable where the backend's workers are other processes.
            items: what the task is called with.
        """
        run = task if self._checkpoint is None else self._checkpoint.wrap(stage, task)
        if not items:
            return []
        if in_this_process(self._backend):
            return list(self._bar(self._backend.map(run, items), label, len(items)))
        # A task holds the graph: it travels once to every worker, not with every relation.
        results = self._backend.map(_call, items, initializer=_install, initargs=(run,))
        return list(self._bar(results, label, len(items)))

    def _bar(self, results: Iterator[Arrays], label: str, total: int) -> Iterator[Arrays]:
        if not self._progress:
            return results
        from tqdm import tqdm

        return iter(tqdm(results, desc=label, total=total, unit=" relations"))


_installed: Task | None = None


def _install(task: Task) -> None:
    global _installed
    _installed = task


def _call(item: int) -> Arrays:
    assert _installed is not None  # noqa: S101  (every worker is initialised)
    return _installed(item)


class Scratch(threading.local):
    """Arrays over entities for each thread, made once: clearing them would cost more.

    Args:
        entities: N.
        places: how many of the first kind.

    Attributes:
        place: int32 arrays of shape (N,), all -1 between two tasks.
        seen: int64 array of shape (N + 1,), marks; the last entry is the last mark given.
    """

    def __init__(self, entities: int, places: int = 1) -> None:
        self._arguments = entities, places
        self.place: list[Ints] = [np.full(entities, -1, np.int32) for _ in range(places)]
        self.seen: Longs = np.zeros(entities + 1, np.int64)

    def __reduce__(self) -> tuple[Any, ...]:
        return Scratch, self._arguments


def join(parts: Sequence[Arrays]) -> Arrays:
    """All first and all second arrays, end to end."""
    none = np.zeros(0, dtype=np.int64)
    first = np.concatenate([none, *(first for first, _ in parts)])
    return first, np.concatenate([none, *(second for _, second in parts)])
