"""The tutorials as notebooks: ``python scripts/notebooks.py`` writes them to ``docs/notebooks``.

What a page shows below a block stands as the output of its cell until the cell is run.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent.parent / "docs"
FOLDER = DOCS / "notebooks"
TUTORIALS = ("own-data", "train", "benchmark", "other-benchmarks", "explain")
_BLOCK = re.compile(r"^```(python|sh|text)\n(.*?)^```\n", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\((?!https?:|#)([^)]+)\)")
_KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
_FIRST = (
    "# once: this package, and the folder that `python -m training…` needs is a checkout of it\n"
    '# %pip install "rulerag[all]"'
)


def notebook(page: str) -> dict[str, Any]:
    """A page as a notebook of nbformat 4.5.

    Args:
        page: its text in Markdown.
    """
    page = re.sub(r"\[The same as a notebook\].*\n\n?", "", page)
    cells = [_code(_FIRST)]
    end = 0
    for match in _BLOCK.finditer(page):
        kind, code = match.groups()
        before = page[end : match.start()].strip()
        end = match.end()
        if before:
            cells.append(_markdown(before))
        if kind == "text" and cells[-1]["cell_type"] == "code" and not before:
            stream = {"name": "stdout", "output_type": "stream", "text": code}
            cells[-1]["outputs"] = [stream]
        elif kind == "text" or (kind == "sh" and not page[end:].lstrip().startswith("```text")):
            cells.append(_markdown(match[0].strip()))  # an illustration, which nothing runs
        elif kind == "sh":
            cells.append(_code("%%bash\n" + code.rstrip("\n")))
        else:
            cells.append(_code(code.rstrip("\n")))
    if page[end:].strip():
        cells.append(_markdown(page[end:].strip()))
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    metadata = {"kernelspec": _KERNEL, "language_info": {"name": "python"}}
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def _markdown(text: str) -> dict[str, Any]:
    # The notebook lies one folder below the page.
    source = _LINK.sub(lambda link: f"](../{link[1]})", text)
    return {"cell_type": "markdown", "metadata": {}, "source": source}


def _code(source: str) -> dict[str, Any]:
    return {
        "cell_type": "code",
        "execution_count": None,
        "metadata": {},
        "outputs": [],
        "source": source,
    }


def main() -> None:
    """Write them all."""
    FOLDER.mkdir(exist_ok=True)
    for name in TUTORIALS:
        made = notebook((DOCS / f"{name}.md").read_text(encoding="utf-8"))
        text = json.dumps(made, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
        (FOLDER / f"{name}.ipynb").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
