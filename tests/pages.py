"""Runs the blocks of a page of the documentation, one after another, as a reader would."""

from __future__ import annotations

import contextlib
import io
import math
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rulerag.cli import main

ROOT = Path(__file__).resolve().parent.parent
_BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
_SECONDS = re.compile(r"\d+\.\d+ s\b")
_NUMBER = re.compile(r"\d+\.\d+")


def printed_and_shown(page: Path) -> Iterator[tuple[str, str]]:
    """Run a page's blocks in the folder that is current; what they print, and what stands there.

    Args:
        page: blocks ``python`` are run, lines of ``sh`` are commands of rulerag or modules of the
            checkout, ``text`` is what all blocks since the last one print.
    """
    said = io.StringIO()
    space = {"__name__": "page"}
    for kind, code in _BLOCK.findall(page.read_text(encoding="utf-8")):
        if kind == "text":
            yield steady(said.getvalue()), steady(code)
            said = io.StringIO()
        elif kind == "python":
            with contextlib.redirect_stdout(said):
                exec(compile(code, str(page), "exec"), space)
        else:
            assert kind == "sh", f"{page.name}: a block {kind!r} that nothing runs"
            for line in code.splitlines():
                _command(shlex.split(line), said)


def printed_by(code: str) -> str:
    """What a block of Python prints by itself."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(code, "page", "exec"), {"__name__": "page"})
    return steady(said.getvalue())


def steady(text: str) -> str:
    """A text without what differs from run to run: seconds."""
    return _SECONDS.sub("0.0 s", text).rstrip()


def _command(words: list[str], said: io.StringIO) -> None:
    if words[0] == "rulerag":
        with contextlib.redirect_stdout(said), pytest.raises(SystemExit) as stop:
            main(words[1:])
        assert not stop.value.code, words
        return
    assert words[:2] == ["python", "-m"], words
    path = os.pathsep.join([str(ROOT), *sys.path])
    done = subprocess.run(
        [sys.executable, *words[1:]],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    said.write(done.stdout)


def alike(printed: str, shown: str, *, within: float) -> bool:
    """Whether texts are equal but for numbers with a point, which may differ by so much."""
    if _NUMBER.sub("#", printed) != _NUMBER.sub("#", shown):
        return False
    pairs = zip(_NUMBER.findall(printed), _NUMBER.findall(shown), strict=True)
    return all(math.isclose(float(one), float(other), rel_tol=within) for one, other in pairs)
