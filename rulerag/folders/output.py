"""Folders that one process writes at a time, and that a failed run does not leave behind empty.

A folder is locked by a small file in it (filelock, which asks the system). The system gives the
lock back however its holder ends, a ``kill -9`` included, so that a lock file which was left behind
stops nobody.
"""

from __future__ import annotations

import atexit
import logging
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from rulerag.errors import OutputError
from rulerag.io import check_folder, made_folder

if TYPE_CHECKING:
    from filelock import FileLock

LOCK = ".rulerag.lock"
"""The lock file of a folder; it names the process that writes there, and goes when that ends."""

_log = logging.getLogger(__name__)
_until_exit = ExitStack()


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
    with made_folder(path) as folder, locked(folder / LOCK, folder) as first:
        check_folder(folder)
        for half in folder.glob(".*.part") if first else ():  # of a process that was killed
            half.unlink(missing_ok=True)
        yield folder


def hold_folder(path: str | Path) -> Path:
    """The same until this process ends: for runs that are no block.

    Raises:
        OutputError: as in :func:`output_folder`.
    """
    folder = _until_exit.enter_context(output_folder(path))
    # After filelock is imported, whose own end would else give the lock back first.
    atexit.register(_until_exit.close)
    return folder


@contextmanager
def locked(file: Path, place: Path, *, wait: bool = False) -> Iterator[bool]:
    """Hold a lock file; it is made when missing, and removed when the block ends.

    Yields true where this process did not hold it before.

    Args:
        file: the lock file, in a folder that stands.
        place: what it locks, for the message.
        wait: until its holder has ended, in place of an error.

    Raises:
        OutputError: another process or thread holds it, or it cannot be written.
    """
    from filelock import FileLock

    # One object for a file, so that a thread which has the lock may take it again.
    lock = FileLock(os.path.realpath(file), is_singleton=True)
    try:
        _acquire(lock, file, place, wait)
    except OSError as error:
        raise OutputError(f"cannot be written ({error.strerror})", path=place) from error
    owner = os.getpid()
    try:
        yield lock.lock_counter == 1
    finally:
        # Removed while it is held: who waits for it sees that it is gone. A worker that was forked
        # from the holder must leave it to the holder.
        if lock.lock_counter == 1 and os.getpid() == owner:
            with suppress(OSError):
                file.unlink()
        lock.release()


def _acquire(lock: FileLock, file: Path, place: Path, wait: bool) -> None:
    """Take a lock, and write into its file who has it."""
    from filelock import Timeout

    try:
        lock.acquire(timeout=0)
    except Timeout:
        who = _holder(file)
        if not wait:
            raise OutputError(
                f"is being written by {who}",
                path=place,
                hint="wait until it has finished, or choose another folder",
            ) from None
        _log.info("%s is being written by %s, which is waited for", place, who)
        while not lock.is_locked:
            # A holder that failed may have removed the folder that it made.
            file.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileNotFoundError):
                lock.acquire()
    file.write_text(f"process {os.getpid()} on {socket.gethostname()}\n", encoding="utf-8")


def _holder(file: Path) -> str:
    with suppress(OSError):
        return file.read_text(encoding="utf-8").strip() or "another process"
    return "another process"
