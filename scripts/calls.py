"""How much of the project one command runs through: files, functions, calls, depth, CPU time.

``python scripts/calls.py answer "Time 2014-12-01 what does China Consult ?" --dataset FOLDER`` runs
a command of rulerag three times in one process, with what it writes thrown away. The first run
warms up, the second is traced by ``sys.setprofile``, the third is timed without it. Only frames of
the package ``rulerag`` count; a step of a generator is a call. ``--top N`` before the command lists
the functions that are called most. Run it in a folder of its own with ``RULERAG_CACHE`` set.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import sys
import time
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType


class Trace:
    """Counts the calls of functions whose source stands in a folder.

    Args:
        folder: the folder.

    Attributes:
        calls: by code object, how often it was called.
        depth: the most frames of the folder that were open at once.
    """

    def __init__(self, folder: Path) -> None:
        self.calls: Counter[CodeType] = Counter()
        self.depth = 0
        self._open = 0
        self._folder = f"{folder}/"

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        """What :func:`sys.setprofile` calls."""
        if event not in ("call", "return"):
            return
        if not frame.f_code.co_filename.startswith(self._folder):
            return
        self._open += 1 if event == "call" else -1
        if event == "call":
            self.calls[frame.f_code] += 1
            self.depth = max(self.depth, self._open)

    def figures(self) -> dict[str, int]:
        """Files, functions, calls and depth."""
        return {
            "files": len({code.co_filename for code in self.calls}),
            "functions": len(self.calls),
            "calls": self.calls.total(),
            "depth": self.depth,
        }

    def most_called(self, count: int) -> dict[str, int]:
        """The functions that are called most, by file and name."""
        return {
            f"{code.co_filename.removeprefix(self._folder)}:{code.co_qualname}": calls
            for code, calls in self.calls.most_common(count)
        }


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--top", type=int, default=0, help="functions to list")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="of rulerag, with its arguments")
    arguments = parser.parse_args()

    import rulerag
    from rulerag.cli import main as command_line

    sys.argv = ["rulerag", *arguments.command]

    def run() -> None:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
            command_line()

    run()
    trace = Trace(Path(rulerag.__file__).parent)
    sys.setprofile(trace)
    try:
        run()
    finally:
        sys.setprofile(None)
    started = time.process_time()
    run()
    figures: dict[str, object] = {**trace.figures()}
    figures["cpu_ms"] = round(1000 * (time.process_time() - started))
    if arguments.top:
        figures["most called"] = trace.most_called(arguments.top)
    sys.stdout.write(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
