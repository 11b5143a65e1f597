"""Ordered maps over items: here, in threads or processes (joblib), or on a Ray cluster.

The backends agree: results come in the order of the items, as they are ready, and an error names
the item that it comes from. Where functions, items and results travel between processes
(``process`` and ``ray``) they must be picklable; the function travels once to every worker.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import pickle
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar, runtime_checkable

from rulerag.errors import ConfigError, MissingDependencyError, RuleRAGError, did_you_mean

T = TypeVar("T")
R = TypeVar("R")


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


class ProcessBackend:
    """Works in a pool of fresh processes on this machine; one worker works here.

    Processes are not forked: JVM, FAISS and thread pools do not survive that.

    Args:
        workers: how many processes; all cores when None.

    Raises:
        ConfigError: fewer than one worker.
    """

    def __init__(self, workers: int | None = None) -> None:
        self.workers = _worker_count(workers)

    def map(self, function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """See :meth:`Backend.map`."""
        import joblib
        from joblib.externals.loky.process_executor import TerminatedWorkerError

        if self.workers == 1:
            yield from SerialBackend().map(function, items)
            return
        run = joblib.Parallel(
            self.workers,
            backend="loky",
            return_as="generator",
            initializer=_install,
            initargs=(function,),
        )
        try:
            yield from run(joblib.delayed(_run_installed)(*pair) for pair in enumerate(items))
        except TerminatedWorkerError as error:
            raise _worker_died() from error


class RayBackend:
    """Works on a Ray cluster, one actor for each worker.

    Args:
        workers: how many actors, each on one CPU; every CPU of the cluster but one when None.
        address: the cluster's address; a local one is started when None.

    Raises:
        ConfigError: fewer than one worker, or more than the cluster has CPUs.
        MissingDependencyError: ray is not installed.
    """

    def __init__(self, workers: int | None = None, *, address: str | None = None) -> None:
        try:
            self._ray = importlib.import_module("ray")
        except ImportError as error:
            raise MissingDependencyError("ray", extra="ray") from error
        if workers is not None:
            _worker_count(workers)
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

    def map(self, function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """See :meth:`Backend.map`."""
        pools = importlib.import_module("ray.util.actor_pool")
        pickler = importlib.import_module("ray.cloudpickle")
        # A lost node is no lost run: its items are done again elsewhere, a few times.
        again = {"num_cpus": 1, "max_restarts": 3, "max_task_retries": 3}
        worker = self._ray.remote(**again)(_RayWorker)
        # As bytes, so that workers get arrays that they may write to, like those of processes.
        sent = self._ray.put(pickler.dumps(function))
        actors = [worker.remote(sent) for _ in range(self.workers)]
        try:
            yield from pools.ActorPool(actors).map(
                lambda actor, pair: actor.run.remote(*pair), enumerate(items)
            )
        except self._ray.exceptions.RayActorError as error:
            raise _worker_died() from error
        except self._ray.exceptions.RayTaskError as error:
            raise error.cause from error
        finally:
            for actor in actors:
                self._ray.kill(actor)


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


_installed: Callable[[Any], Any]


def _install(function: Callable[[Any], Any]) -> None:
    """Begin a worker process."""
    global _installed
    # Ctrl-C reaches the whole process group; only the parent reports it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _installed = function


def _run_installed(number: int, item: Any) -> Any:
    return _run(_installed, number, item)


class _RayWorker:
    """An actor that holds the function of one map."""

    def __init__(self, function: bytes) -> None:
        self._function = pickle.loads(function)

    def run(self, number: int, item: Any) -> Any:
        return _run(self._function, number, item)


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
