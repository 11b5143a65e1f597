"""The page about other frameworks: its blocks run in order and print what stands below them."""

from __future__ import annotations

import contextlib
import io
import os
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.integrations.apart import run

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"
PAGE = Path(__file__).parent.parent / "docs" / "integrations.md"
BLOCKS = re.findall(
    r"\n## ([^\n]+)\n(?:(?!\n## ).)*?```python\n(.*?)```\n\n```text\n(.*?)```",
    PAGE.read_text(encoding="utf-8"),
    re.DOTALL,
)
FOLDER, APART = BLOCKS[0], {"RAGAS": "ragas"}
NEEDS = {"LangChain": "langchain_core", "LlamaIndex": "llama_index.core", "Haystack": "haystack"}


def printed_by(code: str) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, str(PAGE), "exec"), {"__name__": "page"})
    return re.sub(r"\d+\.\d s\.", "0.0 s.", out.getvalue())


@pytest.mark.parametrize(("title", "code", "printed"), BLOCKS, ids=[one[0] for one in BLOCKS])
def test_a_block_prints_what_stands_below_it(
    title: str, code: str, printed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = next((APART[name] for name in APART if title.endswith(name)), None)
    if package is not None:
        assert run(package, tmp_path, "-c", code, here=find_spec(package) is not None) == printed
        return
    if title in NEEDS:
        pytest.importorskip(NEEDS[title])
    monkeypatch.chdir(tmp_path)
    if title != FOLDER[0]:
        printed_by(FOLDER[1])
    assert printed_by(code) == printed


def test_every_section_with_code_is_run() -> None:
    assert len(BLOCKS) == PAGE.read_text(encoding="utf-8").count("```python") == 5
