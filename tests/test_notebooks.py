"""The notebooks are the tutorials, and run from the top."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from scripts.notebooks import DOCS, FOLDER, TUTORIALS, notebook
from tests.pages import steady


@pytest.mark.parametrize("name", TUTORIALS)
def test_a_notebook_is_what_its_page_says(name: str) -> None:
    made = notebook((DOCS / f"{name}.md").read_text(encoding="utf-8"))
    hint = "python scripts/notebooks.py"
    assert json.loads((FOLDER / f"{name}.ipynb").read_text(encoding="utf-8")) == made, hint


@pytest.mark.slow
@pytest.mark.parametrize("name", ["own-data", "explain"])
def test_a_notebook_runs_and_prints_what_it_shows(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nbformat = pytest.importorskip("nbformat")
    client = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    for package in ("networkx", "bs4", "pypdf", "langchain_core"):
        pytest.importorskip(package)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    book = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    nbformat.validate(book)
    shown = [cell.get("outputs", []) for cell in book.cells]
    resources = {"metadata": {"path": str(tmp_path)}}
    client.NotebookClient(book, timeout=200, resources=resources).execute()
    for cell, before in zip(book.cells, shown, strict=True):
        if before:
            printed = "".join(one.get("text", "") for one in cell.outputs)
            assert steady(printed).strip() == steady(before[0]["text"]).strip(), cell.source
