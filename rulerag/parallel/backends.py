"""Ordered maps over items: here, in threads (joblib), or on a Ray cluster.

The backends agree: results come in the order of the items, as they are ready, and an error names
the item that it comes from. On Ray functions, items and results travel between processes and must
be picklable; the function travels once to every worker.
"""

from __future__ import annotations

import copy
import ctypes
import importlib
import logging
import os
import pickle
import re
import signal
import socket
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np

from rulerag.errors import ConfigError, MissingDependencyError, RuleRAGError

T = TypeVar("T")
R = TypeVar("R")

LOCAL = "local"
"""The address of a Ray that is started here."""
_SECONDS, _AGAIN, _AHEAD = 5.0, 5, 8
"""Until a cluster has to answer; how often an item is done again whose worker died; results that
wait for an earlier one, a worker."""


@runtime_checkable
class Backend(Protocol):
    """Maps a function over items, in order."""

    @property
    def workers(self) -> int:
        """How many items are worked on at a time."""
        ...

    def map(self, function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """Yield ``function(item)`` for every item, in the order of the items.

        Args:
            function: what to do with one item.
            items: a finite number of items.

        Raises:
            RuleRAGError: a worker died.
            Exception: the error that ``function`` raised, its message or notes naming the item.
        """
        ...


class SerialBackend:
    """Works here, one item after the other."""

    workers = 1

    def map(self, function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """See :meth:`Backend.map`."""
        for number, item in enumerate(items):
            yield _run(function, number, item)


class ThreadBackend:
    """Works in threads of this process: for functions that let go of Python's global lock.

    Nothing is pickled, so that functions may be closures and share large arrays.

    Args:
        workers: how many threads; all cores when None.

    Raises:
        ConfigError: fewer than one worker.
    """

    def __init__(self, workers: int | None = None) -> None:
        self.workers = _worker_count(workers)

    def map(self, function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """See :meth:`Backend.map`."""
        import joblib

        run = joblib.Parallel(self.workers, backend="threading", return_as="generator")
        yield from run(joblib.delayed(_run)(function, *pair) for pair in enumerate(items))


class RayBackend:
    """Works on a Ray cluster, one task for each item.

    Args:
        workers: how many tasks at a time, each on one CPU; every CPU of the cluster but one when
            None.
        address: ``host:port`` or ``ray://host:port`` of a running cluster, ``auto`` for the one of
            this machine; ``local`` starts one here.

    Attributes:
        gpus: GPUs of a worker.

    Raises:
        ConfigError: fewer than one worker, or more than the cluster has CPUs.
        RuleRAGError: no cluster of this version of Ray can be used there.
        MissingDependencyError: ray is not installed.
    """

    def __init__(self, workers: int | None = None, *, address: str = LOCAL) -> None:
        try:
            self._ray = importlib.import_module("ray")
        except ImportError as error:
            raise MissingDependencyError("ray", extra="ray") from error
        if workers is not None:
            _worker_count(workers)
        if not self._ray.is_initialized():
            self._begin(workers, address)
        cpus = int(self._ray.cluster_resources().get("CPU", 1))
        self.workers = workers or max(1, cpus - 1)
        self.gpus = 0
        if self.workers > cpus:
            raise ConfigError(
                f"{workers} workers on a Ray cluster of {cpus} CPUs would wait forever",
                key="workers",
                hint=f"give {cpus} or fewer",
            )

    def with_gpus(self) -> RayBackend:
        """The same workers, each with a GPU of its own, where the cluster has GPUs."""
        gpus = int(self._ray.cluster_resources().get("GPU", 0))
        if gpus:
            chosen = copy.copy(self)
            chosen.gpus, chosen.workers = 1, min(gpus, self.workers)
            return chosen
        return self

    def _begin(self, workers: int | None, address: str) -> None:
        options: dict[str, Any] = {"address": address, "logging_level": logging.ERROR}
        if address == LOCAL:  # it counts the cores itself; more workers would wait forever
            options |= {"include_dashboard": False} | ({"num_cpus": workers} if workers else {})
        try:
            if place := re.fullmatch(r"(?:ray://)?([^:/]+):(\d+)", address):
                # Ray itself would try for minutes, and tell nobody.
                socket.create_connection((place[1], int(place[2])), _SECONDS).close()
            with fault_handlers_kept():
                self._ray.init(log_to_driver=False, **options)
        except (OSError, RuntimeError, ValueError, SystemExit) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            hint = "`ray start --head` prints an address; --ray local starts one here"
            raise RuleRAGError(f"no Ray can be used at {address!r}: {reason}", hint=hint) from error

    def map(self, function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """See :meth:`Backend.map`."""
        ray = self._ray
        # A lost node is no lost run: its items are done again elsewhere. Actors would come back
        # only where there is room for all of them.
        run = ray.remote(num_cpus=1, num_gpus=self.gpus, max_retries=_AGAIN)(_run_sent)
        sent = [self._put(function)]
        name, feed = uuid.uuid4().hex, enumerate(items)
        running, ready = dict[Any, int](), dict[int, Any]()
        pair: tuple[int, Any] | None = (-1, None)
        wanted = 0
        try:
            while True:
                while len(running) < self.workers and len(ready) < _AHEAD * self.workers:
                    if (pair := next(feed, None)) is None:
                        break
                    running[run.remote(name, sent, *pair)] = pair[0]
                while wanted in ready:
                    yield ray.get(ready.pop(wanted))
                    wanted += 1
                if running:
                    for one in ray.wait(list(running))[0]:
                        ready[running.pop(one)] = one
                elif pair is None:
                    return
        except ray.exceptions.RayTaskError as error:
            raise error.cause from error
        except ray.exceptions.RayError as error:
            raise _worker_died() from error
        finally:
            for one in running:
                ray.cancel(one, force=True)

    def _put(self, function: Callable[[T], R]) -> Any:
        """A function in the object store, the arrays that it holds behind it: not copied there."""
        arrays: list[Any] = []
        code = importlib.import_module("ray.cloudpickle").dumps(
            function,
            protocol=5,
            buffer_callback=lambda one: arrays.append(np.frombuffer(one.raw(), np.uint8)),
        )
        return self._ray.put([code, *arrays])


@contextmanager
def fault_handlers_kept() -> Iterator[None]:
    """Put back who handles memory faults and the like in this process.

    Ray takes them for itself when it starts. A Java machine in this process (Lucene) uses them for
    its everyday work, and the first one that Ray gets instead would end the process.
    """
    names = ("SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL") if os.name == "posix" else ()
    c_library = ctypes.CDLL(None)
    handlers = {}
    for name in names:
        handlers[name] = ctypes.create_string_buffer(512)  # a struct sigaction, on any system
        c_library.sigaction(getattr(signal, name), None, handlers[name])
    try:
        yield
    finally:
        for name, handler in handlers.items():
            c_library.sigaction(getattr(signal, name), handler, None)


def _worker_count(workers: int | None) -> int:
    import joblib

    count = workers if workers is not None else joblib.cpu_count()
    if count < 1:
        raise ConfigError(f"{count} workers cannot work", key="workers", hint="give 1 or more")
    return int(count)


def _worker_died() -> RuleRAGError:
    return RuleRAGError(
        "a worker process died", hint="it may have run out of memory: try fewer workers"
    )


_loaded: tuple[str, Callable[[Any], Any], Sequence[Any]] | None = None


def _run_sent(name: str, sent: Sequence[Any], number: int, item: Any) -> Any:
    """An item in a worker of Ray, which keeps the function of the last map."""
    global _loaded
    if _loaded is None or _loaded[0] != name:
        code, *arrays = importlib.import_module("ray").get(sent[0])
        # They lie in the store, for every worker of a machine. Nobody writes to them (threads share
        # theirs too), but Numba would compile all anew for arrays that may not be written to.
        open_ones = [(ctypes.c_char * one.nbytes).from_address(one.ctypes.data) for one in arrays]
        _loaded = name, pickle.loads(code, buffers=open_ones), arrays
    return _run(_loaded[1], number, item)


def _run(function: Callable[[Any], Any], number: int, item: Any) -> Any:
    """The result of an item; an error names the item, in the message where it is one of ours."""
    try:
        return function(item)
    except Exception as error:
        text = repr(item)
        place = f"while working on item {number} ({text[:79] + '…' * (len(text) > 79)})"
        if isinstance(error, RuleRAGError):
            error.message = f"{error.message} ({place})"
            error.args = (str(error),)
        else:
            error.add_note(place)
        raise
