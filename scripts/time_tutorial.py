"""Follow docs/own-data.md as somebody new would, in an empty clone, and time it.

    python scripts/time_tutorial.py --out benchmarks/results/own-data/timing.json

Clones the checkout's last commit into an empty folder, sets up what the page says, runs every block
of it with the commands of that environment, and compares what they print with what stands there.
Seconds are wall clock, of this machine and its line; reading is not in them.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGE = "docs/own-data.md"
SET_UP = (
    "scripts/setup demo",
    ".venv/bin/python -m pip install -q -c constraints.txt -e '.[texts]' networkx",
)
_BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
_SECONDS = re.compile(r"\d+\.\d+ s\b")


def follow(page: Path, programs: Path, folder: Path) -> Iterator[dict[str, Any]]:
    """Run the blocks of a page; for each its seconds, and whether it printed what stands there.

    Args:
        page: blocks ``python`` and ``sh`` are run, ``text`` is what they print together.
        programs: the folder with ``python`` and ``rulerag``.
        folder: the empty folder in which to work.
    """
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "XDG_CACHE_HOME": str(folder / ".cache")}
    environment.pop("RULERAG_CACHE", None)
    said = ""
    for number, (kind, code) in enumerate(_BLOCK.findall(page.read_text(encoding="utf-8")), 1):
        if kind == "text":
            printed, shown = (_SECONDS.sub("0.0 s", one).rstrip() for one in (said, code))
            yield {"block": number, "kind": kind, "as_shown": printed == shown, "printed": printed}
            said = ""
            continue
        command = ["python", "-c", code] if kind == "python" else ["bash", "-ec", code]
        begun = time.perf_counter()
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        said += done.stdout
        yield {
            "block": number,
            "kind": kind,
            "seconds": round(time.perf_counter() - begun, 2),
            "status": done.returncode,
            "error": done.stderr[-2000:] if done.returncode else "",
        }


def _timed(command: str, folder: Path) -> float:
    begun = time.perf_counter()
    subprocess.run(["bash", "-ec", command], cwd=folder, check=True)
    return round(time.perf_counter() - begun, 2)


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, help="the JSON file to write")
    parser.add_argument(
        "--installed", action="store_true", help="with the commands beside this Python, no clone"
    )
    arguments = parser.parse_args()
    out = arguments.out.resolve() if arguments.out else None
    with tempfile.TemporaryDirectory() as name:
        clone, work = Path(name) / "clone", Path(name) / "work"
        work.mkdir()
        seconds: dict[str, float] = {}
        home, programs = ROOT, Path(sys.executable).parent
        if not arguments.installed:
            seconds["clone"] = _timed(f"git clone -q '{ROOT}' '{clone}'", Path(name))
            seconds["set-up"] = sum(_timed(command, clone) for command in SET_UP)
            home, programs = clone, clone / ".venv/bin"
        blocks = list(follow(home / PAGE, programs, work))
    seconds["page"] = round(sum(block.get("seconds", 0.0) for block in blocks), 2)
    total = sum(seconds.values())
    wrong = [one for one in blocks if one.get("status") or not one.get("as_shown", True)]
    for one in wrong:
        sys.stderr.write(f"block {one['block']}: {one.get('error') or one.get('printed')}\n")
    compared = sum(one["kind"] == "text" for one in blocks)
    sys.stdout.write(
        f"{total / 60:.1f} minutes: "
        + ", ".join(f"{what} {spent:.0f} s" for what, spent in seconds.items())
        + f"; {len(blocks) - compared} blocks run, {compared} compared, {len(wrong)} wrong\n"
    )
    if out is not None:
        kept = [{k: v for k, v in one.items() if k not in ("printed", "error")} for one in blocks]
        values = {"seconds": seconds, "minutes": round(total / 60, 2), "wrong": len(wrong)}
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps({**values, "blocks": kept}, indent=2) + "\n", encoding="utf-8")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
