"""Odd places to write to, made for tests: never the system's own devices."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest


def full_device(folder: Path) -> Path:
    """A device of our own that is always full, as ``/dev/full`` is; skips where none can be made.

    A test that fails must not cost the machine its ``/dev/full``.
    """
    device = folder / "full"
    try:
        os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(1, 7))
        with open(device, "wb"):
            pass
    except OSError as error:
        pytest.skip(f"no device can be made here ({error.strerror})")
    return device


class Fifo:
    """A named pipe and a thread that reads it to its end.

    Args:
        path: where to make it.
    """

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = path
        self._read = b""
        self._thread = threading.Thread(target=self._drain, daemon=True)
        self._thread.start()

    def _drain(self) -> None:
        self._read = self.path.read_bytes()

    def content(self) -> bytes:
        """What was written; waits for the writer to finish."""
        self._thread.join(timeout=30)
        assert not self._thread.is_alive(), "nobody wrote to it"
        assert stat.S_ISFIFO(self.path.lstat().st_mode), "it was replaced"
        return self._read
