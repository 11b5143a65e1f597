"""What cannot travel to a worker (a model, an index) is built there, once, and used for each item.

A worker keeps what it built for the next map too; only the function that builds it travels.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from rulerag.parallel.backends import Backend


class Copies:
    """An object of which each worker has its own copy.

    Args:
        build: makes a copy, in a worker; picklable.
        backend: the workers.
    """

    def __init__(self, build: Callable[[], Any], backend: Backend) -> None:
        self._name, self._build, self._backend = uuid.uuid4().hex, build, backend

    def map(self, method: str, items: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
        """Yield what a method of the copies gives for each item's arguments, in order.

        Args:
            method: its name.
            items: the arguments of each call.

        Raises:
            RuleRAGError: a worker died.
            Exception: what ``build`` or the method raised.
        """
        return self._backend.map(partial(_call, self._name, self._build, method), items)


_built: tuple[str, Any] | None = None


def _call(name: str, build: Callable[[], Any], method: str, arguments: tuple[Any, ...]) -> Any:
    """What a method of this worker's copy gives."""
    global _built
    if _built is None or _built[0] != name:
        _built = name, build()
    return getattr(_built[1], method)(*arguments)
