"""Commands in processes of their own, and the CPU seconds that each took."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import rulerag

_ROOT = Path(str(rulerag.__file__)).parent


class Commands:
    """Runs ``rulerag`` in a folder, with a cache folder of its own.

    The library's byte code is compiled before, as an installer does; what Python loads at its start
    counts.

    Args:
        home: where the commands run, and where their cache is.
    """

    def __init__(self, home: Path) -> None:
        self.home = home = home.resolve()
        self._environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(home / "compiled")}
        self._environment.pop("PYTHONDONTWRITEBYTECODE", None)
        compiled = [sys.executable, "-m", "compileall", "-q", str(_ROOT)]
        subprocess.run(compiled, env=self._environment, check=True)

    def seconds(self, *words: str, cache: str = "cache") -> float:
        """The CPU seconds of one command.

        Args:
            words: its arguments.
            cache: the cache folder, in :attr:`home`.
        """
        before = _used()
        subprocess.run(
            [sys.executable, "-m", "rulerag.cli", *words],
            cwd=self.home,
            env={**self._environment, "RULERAG_CACHE": str(self.home / cache)},
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        return _used() - before


def _used() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
