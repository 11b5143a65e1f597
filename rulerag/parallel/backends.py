"""Ordered maps over items: here, in threads, in a pool of processes, or on a Ray cluster.

The backends agree: results come in the order of the items, as they are ready, and an error names
the item that it comes from. Where functions, items and results travel between processes
(``process`` and ``ray``) they must be picklable: functions stand at the top level of a module, and
a script that starts a pool keeps its work behind ``if __name__ == "__main__":``.
"""

from __future__ import annotations

import ctypes
import importlib
import itertools
import multiprocessing
import os
import pickle
import signal
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, Protocol, TypeVar, runtime_checkable
from weakref import WeakSet

from rulerag.errors import ConfigError, MissingDependencyError, did_you_mean
from rulerag.parallel.items import (
    Initializer,
    Outcome,
    in_order,
    initialize,
    name_item,
    run_item,
    short,
    start_worker,
)

T = TypeVar("T")
R = TypeVar("R")
Submit = Callable[[Any], Callable[[], Outcome]]
Start = tuple[Initializer | None, tuple[Any, ...]]


@runtime_checkable
class Backend(Protocol):
    """Maps a function over items, in order."""

    @property
    def workers(self) -> int:
        """How many items are worked on at a time."""
        ...

    def map(
        self,
        function: Callable[[T], R],
        items: Iterable[T],
        *,
        initializer: Initializer | None = None,
        initargs: tuple[Any, ...] = (),
    ) -> Iterator[R]:
        """Yield ``function(item)`` for every item, in the order of the items.

        Args:
            function: what to do with one item.
            items: the items; taken as workers become free, so that the iterable may be endless.
            initializer: called once in every worker before its first item.
            initargs: its arguments.

        Raises:
            Exception: the error that ``function`` raised, its message or notes naming the item.
        """
        ...


class SerialBackend:
    """Works here, one item after the other."""

    workers = 1

    def map(
        self,
        function: Callable[[T], R],
        items: Iterable[T],
        *,
        initializer: Initializer | None = None,
        initargs: tuple[Any, ...] = (),
    ) -> Iterator[R]:
        """See :meth:`Backend.map`."""
        if initializer is not None:
            initializer(*initargs)
        for number, item in enumerate(items):
            try:
                result = function(item)
            except Exception as error:
                name_item(error, number, item)
                raise
            yield result


class _Pool:
    """A backend of several workers; each kind says how an item is sent to one of them."""

    workers: int
    _lost: type[Exception] = BrokenProcessPool
    _worker = "worker process"

    def map(
        self,
        function: Callable[[T], R],
        items: Iterable[T],
        *,
        initializer: Initializer | None = None,
        initargs: tuple[Any, ...] = (),
    ) -> Iterator[R]:
        """See :meth:`Backend.map`."""
        with self._started(function, (initializer, initargs)) as submit:
            yield from in_order(submit, self.workers, items, lost=self._lost, worker=self._worker)

    @abstractmethod
    def _started(
        self, function: Callable[[Any], Any], start: Start
    ) -> AbstractContextManager[Submit]:
        """Workers for one map; after an error or Ctrl-C the items that wait are dropped."""


class ThreadBackend(_Pool):
    """Works in threads of this process: for functions that let go of Python's global lock.

    Nothing is pickled, so that functions may be closures and share large arrays.

    Args:
        workers: how many threads; all cores when None.

    Raises:
        ConfigError: fewer than one worker.
    """

    def __init__(self, workers: int | None = None) -> None:
        self.workers = _worker_count(workers)

    @contextmanager
    def _started(self, function: Callable[[Any], Any], start: Start) -> Iterator[Submit]:
        thread = threading.local()
        initializer, initargs = start

        def run(item: Any) -> Outcome:
            if initializer is not None and not hasattr(thread, "ready"):
                initializer(*initargs)
                thread.ready = True
            return run_item(function, item)

        executor = ThreadPoolExecutor(self.workers)
        try:
            yield lambda item: executor.submit(run, item).result
        finally:
            executor.shutdown(cancel_futures=True)


class ProcessBackend(_Pool):
    """Works in a pool of fresh processes on this machine.

    Processes are spawned, not forked: JVM, FAISS and thread pools do not survive a fork.

    Args:
        workers: how many processes; all cores when None.

    Raises:
        ConfigError: fewer than one worker.
    """

    def __init__(self, workers: int | None = None) -> None:
        self.workers = _worker_count(workers)

    @contextmanager
    def _started(self, function: Callable[[Any], Any], start: Start) -> Iterator[Submit]:
        _check_picklable(function)
        executor = ProcessPoolExecutor(
            self.workers,
            mp_context=multiprocessing.get_context("spawn"),
            initializer=start_worker,
            initargs=start,
        )
        done = False
        try:
            yield lambda item: executor.submit(run_item, function, item).result
            done = True
        finally:
            # After an error or Ctrl-C the rest is not wanted: do not wait for running items.
            processes = list((getattr(executor, "_processes", None) or {}).values())
            executor.shutdown(wait=done, cancel_futures=True)
            if not done:
                for process in processes:
                    process.terminate()


class RayBackend(_Pool):
    """Works on a Ray cluster, one actor for each worker.

    Args:
        workers: how many actors, each on one CPU; every CPU of the cluster but one when None.
        address: the cluster's address; a local one is started when None.

    Raises:
        ConfigError: fewer than one worker.
        MissingDependencyError: ray is not installed.
    """

    def __init__(self, workers: int | None = None, *, address: str | None = None) -> None:
        try:
            self._ray = importlib.import_module("ray")
        except ImportError as error:
            raise MissingDependencyError("ray", extra="ray") from error
        if workers is not None:
            _worker_count(workers)
        self._lost, self._worker = self._ray.exceptions.RayActorError, "Ray worker"
        self._actors: list[Any] = []
        self._maps = 0
        self._running = 0
        if not self._ray.is_initialized():
            # A local Ray counts the cores itself; more workers than that would wait forever.
            local = {"num_cpus": workers} if workers and address is None else {}
            with fault_handlers_kept():
                self._ray.init(
                    address=address, log_to_driver=False, include_dashboard=False, **local
                )
        cpus = int(self._ray.cluster_resources().get("CPU", 1))
        self.workers = workers or max(1, cpus - 1)
        if self.workers > cpus:
            raise ConfigError(
                f"{workers} workers on a Ray cluster of {cpus} CPUs would wait forever",
                key="workers",
                hint=f"give {cpus} or fewer",
            )

    @contextmanager
    def _started(self, function: Callable[[Any], Any], start: Start) -> Iterator[Submit]:
        _check_picklable(function)
        actors = itertools.cycle(self._living_actors())
        self._maps += 1
        self._running += 1
        # As bytes, so that workers get arrays that they may write to, like those of a process pool;
        # inside a list, so that only the first item of each worker fetches them.
        start_up = [self._maps, self._ray.put(pickle.dumps(start))]
        shared = self._ray.put(function)
        done = False
        try:
            yield lambda item: partial(
                self._ray.get, next(actors).run.remote(shared, item, start_up)
            )
            done = True
        finally:
            self._running -= 1
            if not done:
                self._stop()  # the items that wait are dropped with their workers

    def _living_actors(self) -> list[Any]:
        """The actors; they stay from one map to the next, since starting Python takes seconds."""
        if not self._actors:
            # Each actor holds a CPU: those of idle backends would keep ours waiting.
            for other in list(_WITH_ACTORS):
                if not other._running:
                    other._stop()
            _WITH_ACTORS.add(self)
            # A lost node is no lost run: its items are done again elsewhere, a few times.
            options = {"num_cpus": 1, "max_restarts": 3, "max_task_retries": 3}
            actor = self._ray.remote(**options)(_RayWorker)
            self._actors = [actor.remote() for _ in range(self.workers)]
        return self._actors

    def _stop(self) -> None:
        actors, self._actors = self._actors, []
        for handle in actors:
            self._ray.kill(handle)


@contextmanager
def fault_handlers_kept() -> Iterator[None]:
    """Put back who handles memory faults and the like in this process.

    Ray takes them for itself when it starts. A Java machine in this process (Lucene) uses them for
    its everyday work, and the first one that Ray gets instead would end the process.
    """
    names = ("SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL") if os.name == "posix" else ()
    c_library = ctypes.CDLL(None)
    kept = {}
    for name in names:
        kept[name] = ctypes.create_string_buffer(512)  # a struct sigaction, on any system
        c_library.sigaction(getattr(signal, name), None, kept[name])
    try:
        yield
    finally:
        for name, handler in kept.items():
            c_library.sigaction(getattr(signal, name), handler, None)


_WITH_ACTORS: WeakSet[RayBackend] = WeakSet()


_BACKENDS: dict[str, Callable[[int | None], Backend]] = {
    "process": ProcessBackend,
    "ray": RayBackend,
    "serial": lambda workers: SerialBackend(),
    "thread": ThreadBackend,
}


def backend(name: str = "serial", workers: int | None = None) -> Backend:
    """The backend of a name.

    Args:
        name: ``serial``, ``thread``, ``process`` or ``ray``.
        workers: how many; every core when None (one in the serial backend, always).

    Raises:
        ConfigError: an unknown name, or fewer than one worker.
        MissingDependencyError: ray is not installed.
    """
    if name not in _BACKENDS:
        raise ConfigError(f"unknown backend {name!r}", hint=did_you_mean(name, _BACKENDS))
    return _BACKENDS[name](workers)


def in_this_process(backend: Backend) -> bool:
    """Whether a backend's workers see the objects of this process, so that nothing must travel."""
    return isinstance(backend, SerialBackend | ThreadBackend)


class _RayWorker:
    """An actor; what a map starts with is fetched by the first item that it gets of that map."""

    def __init__(self) -> None:
        self._map = 0

    def run(self, function: Callable[[Any], Any], item: Any, start_up: list[Any]) -> Outcome:
        number, content = start_up
        if number != self._map:
            content = importlib.import_module("ray").get(content)
            initialize(*pickle.loads(content))
            self._map = number
        return run_item(function, item)


def _worker_count(workers: int | None) -> int:
    count = workers if workers is not None else _cores()
    if count < 1:
        raise ConfigError(f"{count} workers cannot work", key="workers", hint="give 1 or more")
    return count


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):  # the cores that this process may use, where known
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _check_picklable(function: Callable[..., object]) -> None:
    try:
        pickle.dumps(function)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ConfigError(
            f"{short(function)} cannot be sent to another process ({error})",
            hint="define it at the top level of a module, or use the serial backend",
        ) from error
