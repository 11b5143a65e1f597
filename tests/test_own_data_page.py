"""The page about data of one's own: its blocks, run one after another, print what stands there."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest

from rulerag.cli import main

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "own-data.md"
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def test_the_page_prints_what_stands_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("networkx", "bs4", "pypdf"):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    said = io.StringIO()
    compared = 0
    for kind, code in BLOCKS:
        if kind == "text":
            assert _steady(said.getvalue()) == _steady(code)
            said, compared = io.StringIO(), compared + 1
            continue
        with contextlib.redirect_stdout(said):
            if kind == "python":
                exec(compile(code, str(PAGE), "exec"), {"__name__": "page"})
                continue
            for line in code.splitlines():
                name, *arguments = shlex.split(line)
                assert name == "rulerag"
                with pytest.raises(SystemExit) as stop:
                    main(arguments)
                assert not stop.value.code, line
    assert compared == 9
    assert {kind for kind, _ in BLOCKS} == {"python", "sh", "text"}


def _steady(text: str) -> str:
    """A text without what differs from run to run: seconds."""
    return re.sub(r"\d+\.\d+ s\b", "0.0 s", text).rstrip()
