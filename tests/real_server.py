"""A real OpenAI-compatible server for tests: `transformers serve`, which may be killed."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class TransformersServe:
    """The server's process. It answers for any model folder by its path, one call at a time.

    Args:
        log: the file that it writes to.
    """

    def __init__(self, log: Path) -> None:
        self._log = log
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = probe.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/v1"

    def start(self) -> None:
        """Start it where it does not run, and wait until it listens."""
        if self._process is not None and self._process.poll() is None:
            return
        program = Path(sys.executable).parent / "transformers"
        place = ["--host", "127.0.0.1", "--port", str(self._port), "--device", "cpu"]
        environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
        with open(self._log, "ab") as log:
            self._process = subprocess.Popen(
                [str(program), "serve", *place], env=environment, stdout=log, stderr=log
            )
        until = time.monotonic() + 120
        while not self._listens():
            assert self._process.poll() is None, self._log.read_text(errors="replace")
            assert time.monotonic() < until, "it does not listen"
            time.sleep(0.1)

    def _listens(self) -> bool:
        with socket.socket() as attempt:
            return attempt.connect_ex(("127.0.0.1", self._port)) == 0

    def kill(self) -> None:
        """End it at once, whatever it does (SIGKILL)."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(timeout=20)


@contextmanager
def serving_models(log: Path) -> Iterator[TransformersServe]:
    """A server at work; it ends with the block."""
    server = TransformersServe(log)
    try:
        server.start()
        yield server
    finally:
        server.kill()
