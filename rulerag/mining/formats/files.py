"""Rule files of this library and of AMIE, AnyBURL and TLogic, by one pair of functions."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from rulerag.composition import check_choice
from rulerag.errors import ConfigError, DataFormatError
from rulerag.io import read_text
from rulerag.mining.formats.amie import load_amie, save_amie
from rulerag.mining.formats.anyburl import load_anyburl, save_anyburl
from rulerag.mining.formats.tlogic import load_tlogic, save_tlogic
from rulerag.rules import RuleBank

if TYPE_CHECKING:
    from rulerag.kg import KnowledgeGraph

FORMATS = ("jsonl", "amie", "anyburl", "tlogic")
"""``jsonl`` holds everything; the others what those tools write."""


def export_rules(
    bank: RuleBank, path: str | Path, format: str = "jsonl", graph: KnowledgeGraph | None = None
) -> None:
    """Write a rule bank in one of :data:`FORMATS`.

    Args:
        bank: the rules.
        path: the file.
        format: its format.
        graph: needed by ``tlogic`` for relation ids; ``amie`` takes the functional variable
            from it.

    Raises:
        ConfigError: an unknown format, or ``tlogic`` without a graph.
        DataFormatError: a rule that the format cannot hold.
        OutputError: the file cannot be written.
    """
    check_choice("format", format, FORMATS, "rule format")
    if format == "jsonl":
        bank.save(path)
    elif format == "amie":
        save_amie(bank, path, graph)
    elif format == "anyburl":
        save_anyburl(bank, path)
    else:
        save_tlogic(bank, path, _needed(graph, path))


def import_rules(
    path: str | Path, format: str = "auto", graph: KnowledgeGraph | None = None
) -> RuleBank:
    """Read a rule bank in one of :data:`FORMATS`.

    Args:
        path: the file; compressed when its name ends in ``.gz``. Of a folder its ``rules.jsonl``.
        format: its format; ``auto`` tells it from the content.
        graph: needed by ``tlogic`` for relation ids; gives ``amie`` and ``anyburl`` rules their
            readable relation names.

    Raises:
        ConfigError: an unknown format, or ``tlogic`` without a graph.
        DataError: the file cannot be read; DataFormatError: a line is wrong, or no format fits.
    """
    check_choice("format", format, ("auto", *FORMATS), "rule format")
    if format == "auto":
        format = "jsonl" if Path(path).is_dir() else detect_format(path)
    if format == "jsonl":
        return RuleBank.load(path)
    if format == "amie":
        return load_amie(path, graph)
    if format == "anyburl":
        return load_anyburl(path, graph)
    return load_tlogic(path, _needed(graph, path))


def detect_format(path: str | Path) -> str:
    """The format of a rule file, from its first line.

    Raises:
        DataError: the file cannot be read.
        DataFormatError: no format fits.
    """
    text = read_text(path).lstrip("\ufeff \r\n")
    first = text.partition("\n")[0]
    if re.match(r'\{\s*("\d+"\s*:|\})', text):
        return "tlogic"
    if first.startswith("{") or not first:  # a bank of no rules is an empty file
        return "jsonl"
    if first.lower().startswith("rule\t"):
        return "amie"
    if first.count("\t") == 3 and " <=" in first:
        return "anyburl"
    raise DataFormatError(
        "no rule file that is known here",
        path=path,
        line=1,
        hint=f"name the format: {', '.join(FORMATS)}",
    )


def _needed(graph: KnowledgeGraph | None, path: str | Path) -> KnowledgeGraph:
    if graph is None:
        raise ConfigError(
            "TLogic's format names relations by their ids in a graph",
            path=path,
            key="graph",
            hint="name the graph that the rules were mined from: --kg FOLDER",
        )
    return graph
