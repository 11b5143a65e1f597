"""Folders that one process writes at a time, and that a failed run does not leave behind empty.

A folder is locked by ``flock`` on a small file in it. The system gives the lock back however its
holder ends, a ``kill -9`` included, so that a lock file which was left behind stops nobody.
"""

from __future__ import annotations

import atexit
import logging
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO

from rulerag.errors import OutputError
from rulerag.io import check_folder, made_folder

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

LOCK = ".rulerag.lock"
"""The lock file of a folder; it names the process that writes there, and goes when that ends."""

_log = logging.getLogger(__name__)
# Locks of this process and the threads that hold them, which may take them again.
_held: dict[str, int] = {}
_until_exit = ExitStack()
atexit.register(_until_exit.close)


@contextmanager
def output_folder(path: str | Path) -> Iterator[Path]:
    """A folder to write to, made when missing, for this process alone as long as the block lasts.

    A thread that has the folder may take it again. If the block fails, folders that it made and
    that are still empty go again.

    Raises:
        OutputError: the folder cannot be made or written, or another process or thread writes
            there.
    """
    check_folder(path)
    with made_folder(path) as folder, locked(folder / LOCK, folder):
        check_folder(folder)
        yield folder


def hold_folder(path: str | Path) -> Path:
    """The same until this process ends: for runs that are no block.

    Raises:
        OutputError: as in :func:`output_folder`.
    """
    return _until_exit.enter_context(output_folder(path))


@contextmanager
def locked(file: Path, place: Path, *, wait: bool = False) -> Iterator[None]:
    """Hold a lock file; it is made when missing, and removed when the block ends.

    Args:
        file: the lock file, in a folder that stands.
        place: what it locks, for the message.
        wait: until its holder has ended, in place of an error.

    Raises:
        OutputError: another process or thread holds it, or it cannot be written.
    """
    key = os.path.realpath(file)
    if _held.get(key) == threading.get_ident():
        yield
        return
    try:
        handle = _take(file, place, wait)
    except OSError as error:
        raise OutputError(f"cannot be written ({error.strerror})", path=place) from error
    _held[key], owner = threading.get_ident(), os.getpid()
    try:
        yield
    finally:
        del _held[key]
        # Removed while it is held: who opened it meanwhile will see that it is gone. A worker that
        # was forked from the holder has the lock too, and must leave it to the holder.
        with suppress(OSError):
            if os.getpid() == owner:
                file.unlink()
        handle.close()


def _take(file: Path, place: Path, wait: bool) -> IO[str]:
    """The lock file, open and locked."""
    while True:
        if wait:  # a holder that failed may have removed the folder that it made
            file.parent.mkdir(parents=True, exist_ok=True)
        handle = open(file, "a+", encoding="utf-8")  # noqa: SIM115  (closed by who asked for it)
        try:
            _lock(handle, place, wait)
            # Its last holder may have removed it between our opening and locking it.
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(handle.fileno()), os.stat(file)):
                    handle.truncate(0)
                    handle.write(f"process {os.getpid()} on {socket.gethostname()}\n")
                    handle.flush()
                    return handle
        except BaseException:
            handle.close()
            raise
        handle.close()


def _lock(handle: IO[str], place: Path, wait: bool) -> None:
    if fcntl is None:
        _log.warning("%s: this system has no file locks, a second writer is not refused", place)
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        handle.seek(0)
        who = handle.readline().strip() or "another process"
        if wait:
            _log.info("%s is being written by %s, which is waited for", place, who)
            fcntl.flock(handle, fcntl.LOCK_EX)
            return
        raise OutputError(
            f"is being written by {who}",
            path=place,
            hint="wait until it has finished, or choose another folder",
        ) from None
    except OSError as error:
        _log.warning(
            "%s: no lock on this file system (%s), a second writer is not refused",
            place,
            error.strerror,
        )
