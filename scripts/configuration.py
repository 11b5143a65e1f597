"""Write the lists of docs/configuration.md: every component, its keys and their defaults.

``python scripts/configuration.py`` writes what follows the mark in the page from the registry and
the tables of ``configs/``, so that it says what the code does; a test compares the two.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rulerag.assembly import CONFIGS
from rulerag.composition import FAMILIES, Entry, find, names, parse_file
from rulerag.generation.prompts import PromptTemplate

PAGE = Path(__file__).resolve().parent.parent / "docs" / "configuration.md"
MARK = "<!-- The rest is written by python scripts/configuration.py. -->\n"

_FAMILIES = {
    "miner": "Make a rule bank of a graph's facts: `rulerag mine --miner NAME`.",
    "selector": "Choose the rules that guide a question.",
    "scorer": "Order the candidate answers of a question ([candidates](candidates.md)).",
    "evidence": "Weighs what documents state into an answer.",
    "retriever": "Find documents.",
    "merge": "Make one ranking of the searches of a guided retriever: its key `merge` is a name.",
    "generator": "Read documents and answer.",
    "prompt": "Put a request into words for a model: `template` of a generator is a name, or a "
    "section with `type` and keys. Keys of every prompt: ",
    "explainer": "Say how much each document counts: `rulerag explain --attribution NAME`. They "
    "take `samples`, the number of draws, and `seed`.",
    "dataset": "Where questions, documents and rules come from.",
}
_YAML = {None: "null", True: "true", False: "false"}
_LONGEST = 24  # characters of a default that is shown


def page() -> str:
    """The page's text, its lists anew."""
    prose = PAGE.read_text(encoding="utf-8").partition(MARK)[0]
    return prose + MARK + "\n".join(_lists())


def _lists() -> Iterator[str]:
    for table in ("retriever", "generator"):
        known = ", ".join(f"`{name}`" for name in parse_file(CONFIGS / f"{table}s.yaml"))
        yield f"\n### {table.capitalize()} tables\n\n{known}"
    for family, default in FAMILIES.items():
        shared = ", ".join(_keys(PromptTemplate)) + "." if family == "prompt" else ""
        usual = f" Without `type`: `{default}`." if default else ""
        yield f"\n### {family.capitalize()}\n\n{_FAMILIES[family]}{shared}{usual}\n"
        yield "| name | what it is | keys |\n| --- | --- | --- |"
        for name in names(family):
            entry = find(family, name)
            keys = "" if family == "explainer" else ", ".join(_all_keys(entry))
            cells = (f"`{name}`", _first_sentence(entry), keys)
            yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _all_keys(entry: Entry) -> Iterator[str]:
    for key, family in entry.holds.items():
        yield f"`{key}` *{'list of ' if family.endswith('*') else ''}{family.rstrip('*')}*"
    of_all = set(_keys(PromptTemplate)) if entry.family == "prompt" else set()
    yield from (key for key in _keys(entry.settings) if key not in of_all)


def _keys(settings: Any) -> list[str]:
    return [_key(key, field) for key, field in settings.model_fields.items()]


def _key(key: str, field: Any) -> str:
    """``key=default``, as it would be written behind a command."""
    if field.is_required():
        return f"`{key}` *needed*"
    value = field.get_default(call_default_factory=True)
    if value is None or isinstance(value, bool):
        return f"`{key}={_YAML[value]}`"
    text = str(list(value) if isinstance(value, tuple) else value)
    quoted = f"'{text}'" if " " in text or not text else text
    return f"`{key}={quoted if len(text) <= _LONGEST else '…'}`"


def _first_sentence(entry: Entry) -> str:
    """What a component is, without the marks of reStructuredText."""
    text = inspect.getdoc(entry.maker if entry.make else entry.component) or ""
    text = re.sub(r"\s+", " ", text.partition("\n\n")[0])
    text = re.sub(r":\w+:`~?([^`<]+?)(?:\(\))?`", lambda m: f"`{m[1].rpartition('.')[2]}`", text)
    return text.replace("``", "`")


if __name__ == "__main__":
    text = page()
    PAGE.write_text(text, encoding="utf-8")
    sys.stdout.write(f"{PAGE.name}: {len(text.split()):,} words\n")
