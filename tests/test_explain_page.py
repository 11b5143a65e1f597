"""The page about explaining any answer: its blocks run and print what stands below them."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import re
from pathlib import Path

import pytest

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"
PAGE = Path(__file__).parent.parent / "docs" / "explain.md"
BLOCKS = re.findall(
    r"\n## ([^\n]+)\n(?:(?!\n## ).)*?```python\n(.*?)```\n\n```text\n(.*?)```",
    PAGE.read_text(encoding="utf-8"),
    re.DOTALL,
)
NEEDS = {"LangChain": "langchain_core", "LlamaIndex": "llama_index.core", "Haystack": "haystack"}


@pytest.mark.parametrize(("title", "code", "printed"), BLOCKS, ids=[one[0] for one in BLOCKS])
def test_a_block_prints_what_stands_below_it(title: str, code: str, printed: str) -> None:
    for name, package in NEEDS.items():
        if name in title:
            pytest.importorskip(package)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, str(PAGE), "exec"), {"__name__": "page"})
    assert re.sub(r"\d+\.\d s\.", "0.0 s.", out.getvalue()) == printed


def test_every_section_with_code_is_run() -> None:
    assert len(BLOCKS) == PAGE.read_text(encoding="utf-8").count("```python") == 7
    assert importlib.import_module("rulerag").explain
