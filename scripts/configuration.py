"""Write docs/configuration.md: every component, its keys, their types, defaults and meanings.

``python scripts/configuration.py`` writes the page from the registry and the docstrings, so that
it says what the code does; a test compares the two.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from rulerag.composition.registry import FAMILIES, Entry, find, names
from rulerag.composition.settings import Settings

PAGE = Path(__file__).resolve().parent.parent / "docs" / "configuration.md"

_FAMILIES = {
    "miner": "Miners make a rule bank of a graph's facts: `rulerag mine`, `Miner.mine(facts)`.",
    "selector": "Selectors choose the rules that guide a question.",
    "scorer": "Scorers order the candidate answers of a question, each with the facts that speak "
    "for it ([candidates](candidates.md)).",
    "evidence": "How what documents state is weighed into an answer.",
    "retriever": "Retrievers find documents; wrappers hold another retriever under `retriever`.",
    "merge": "How the searches of rule-guided retrieval become one ranking.",
    "generator": "Generators read documents and answer.",
    "prompt": "How a request is put into words for a model: `generator.template`. Each is one of "
    "these, whose keys it takes, with some of them set:",
    "explainer": "How much each document counts: `rulerag explain --attribution NAME`. Every one "
    "takes `samples`, how many draws are made (null: all subsets where documents are few, else the "
    "method's own number), and `seed`, which decides them.",
    "dataset": "Where questions, documents and rules come from.",
}
_HEAD = """\
# Configuration

Every component goes by a name: the `type` of its section. What else the section may say stands
below, with what holds where it says nothing. Sections nest as the objects do:

```yaml
retriever:
  type: guided
  merge: evidence
  retriever: {type: bm25, k1: 1.2}
generator: {type: symbolic}
```

`rulerag evaluate CONFIG retriever.retriever.k1=0.9` changes a key for one run. A key that nobody
knows, a value of another kind or out of range is an error that names the key and what would do.
`python scripts/configuration.py` writes this page from the code.
"""


def page() -> str:
    """The page's text."""
    parts = [_HEAD]
    for family, default in FAMILIES.items():
        parts.append(f"## {family.capitalize()}\n\n{_FAMILIES[family]}\n")
        if family == "prompt":
            parts.append(_table(Entry(family, "", "rulerag.generation.prompts:PromptTemplate")))
        if default:
            parts.append(f"A section without `type` means `{default}`.\n")
        parts += [_component(find(family, name)) for name in names(family)]
    return "\n".join(parts)


def _component(entry: Entry) -> str:
    said = inspect.getdoc(entry.maker if entry.make else entry.component)
    first = _markdown(_paragraphs(said)[0])
    table = "" if entry.family == "explainer" else _table(entry)
    return f"### `{entry.name}`\n\n{first}\n" + (f"\n{table}" if table else "")


def _table(entry: Entry) -> str:
    rows = list(_rows(entry))
    head = ["| key | kind | default | meaning |", "|---|---|---|---|"]
    return "\n".join([*head, *rows, ""]) if rows else ""


def _rows(entry: Entry) -> Iterator[str]:
    meanings = _meanings(entry)
    for key, family in entry.holds.items():
        kind = f"a list of {family[:-1]}s" if family.endswith("*") else f"a {family}"
        default = FAMILIES[family.rstrip("*")]
        yield _row(key, kind, f"`{default}`" if default else "", meanings.get(key, ""))
    defaults = _defaults(entry)
    fields: Mapping[str, Any] = {
        key: one.annotation for key, one in entry.settings.model_fields.items()
    }
    if isinstance(entry.component, type) and issubclass(entry.component, Settings):
        fields = {key: one.annotation for key, one in entry.component.model_fields.items()}
    for key, kind in fields.items():
        if entry.make or key in entry.holds:
            continue
        needed = key in entry.settings.model_fields and entry.settings.model_fields[key]
        shown = "needed" if needed and needed.is_required() else _value(defaults.get(key))
        yield _row(key, _kind(kind), shown, meanings.get(key, ""))


def _row(key: str, kind: str, default: str, meaning: str) -> str:
    cells = (f"`{key}`", kind, default, _markdown(meaning))
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _groups(maker: Callable[..., Any]) -> list[type[Settings]]:
    """The settings models that a maker takes, and those that their fields come from."""
    function = maker.__init__ if isinstance(maker, type) else maker  # type: ignore[misc]
    scope = getattr(inspect.unwrap(function), "__globals__", {})
    found: list[type[Settings]] = []
    for parameter in inspect.signature(maker).parameters.values():
        for word in re.findall(r"\w+", str(parameter.annotation)):
            kind = scope.get(word)
            if isinstance(kind, type) and issubclass(kind, Settings):
                found += [one for one in kind.__mro__ if issubclass(one, Settings)]
    return found


def _defaults(entry: Entry) -> dict[str, Any]:
    values = {
        key: one.default
        for key, one in inspect.signature(entry.maker).parameters.items()
        if one.default is not one.empty
    }
    groups = _groups(entry.maker)[::-1]
    if isinstance(entry.component, type) and issubclass(entry.component, Settings):
        groups.append(entry.component)
    for group in groups:
        values |= {
            key: None if one.is_required() else one.get_default(call_default_factory=True)
            for key, one in group.model_fields.items()
        }
    return values


def _meanings(entry: Entry) -> dict[str, str]:
    """What each key means, by the docstrings of what takes it."""
    sources: list[Any] = [entry.component, entry.maker, *_groups(entry.maker)]
    if isinstance(entry.component, type):
        sources += [one for one in entry.component.__mro__[1:] if one is not object]
    found: dict[str, str] = {}
    for source in sources:
        for key, text in _arguments(inspect.getdoc(source)).items():
            if not re.match(r"(as in|see there|see :)", text):
                found.setdefault(key, text)
    for key in entry.settings.model_fields:
        if key not in found:  # passed on to something else that takes settings
            for group in _every(Settings):
                text = _arguments(inspect.getdoc(group)).get(key)
                if text is not None:
                    found[key] = text
                    break
    return found


def _every(kind: type[Settings]) -> Iterator[type[Settings]]:
    for one in sorted(kind.__subclasses__(), key=lambda k: (k.__module__, k.__qualname__)):
        if one.__module__ != "rulerag.composition.registry":
            yield one
        yield from _every(one)


def _arguments(text: str | None) -> dict[str, str]:
    """What a docstring's section ``Args:`` says of each name."""
    section = re.search(r"^Args:\n((?:[ \t]+.*\n?|\n(?=[ \t]))*)", (text or "") + "\n", re.M)
    if section is None:
        return {}
    found = re.findall(r"^ {4}(\w+):\s+(.*(?:\n {5,}.*|\n(?= {5,}))*)", section[1], re.M)
    return {name: re.sub(r"\s+", " ", said).strip() for name, said in found}


def _paragraphs(text: str | None) -> list[str]:
    return [re.sub(r"\s+", " ", one) for one in (text or "").split("\n\n")]


def _markdown(text: str) -> str:
    """A docstring's text without the marks of reStructuredText."""
    text = re.sub(r":\w+:`~?([^`<]+?)(?:\(\))?`", lambda m: f"`{m[1].rpartition('.')[2]}`", text)
    return text.replace("``", "`")


def _kind(kind: Any) -> str:
    if isinstance(kind, str):
        return f"`{kind}`"
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return " or ".join(_kind(one) for one in arguments)
    if origin is Literal:
        return ", ".join(f"`{one}`" for one in arguments)
    if origin is tuple:
        return f"a list of {_kind(arguments[0])}s" if arguments else "a list"
    words = {
        str: "text", int: "whole number", float: "number", bool: "true or false",
        type(None): "null", Any: "any",
    }  # fmt: skip
    if kind in words:
        return words[kind]
    if origin is not None and issubclass(origin, Mapping):
        return "a section"
    return f"`{getattr(kind, '__name__', kind)}`"


def _value(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (tuple, list)):
        return "[" + ", ".join(map(str, value)) + "]"
    if isinstance(value, str):
        return f"`{value}`" if value else "empty"
    return str(value)


if __name__ == "__main__":
    text = page()
    PAGE.write_text(text, encoding="utf-8")
    sys.stdout.write(f"{PAGE.name}: {text.count('### ')} components\n")
