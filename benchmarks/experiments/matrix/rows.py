"""The rows of the tables: which method each is, and what the paper shows beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ConfigDict, TypeAdapter

from benchmarks.common.published import Paper
from rulerag.composition import parse_file
from rulerag.errors import ConfigError, did_you_mean

T = TypeVar("T")

MATRIX: Mapping[str, Any] = parse_file(Path(__file__).with_name("tables.yaml"))
"""The content of ``tables.yaml``."""
NOTES: Mapping[str, str] = MATRIX["notes"]
"""What stands above, between and below the tables."""
_MODELS = {"symbolic", "candidate", "hybrid"}
"""Generators that are no language model, or not one alone."""


@dataclass(frozen=True)
class Row:
    """One way to retrieve.

    Args:
        name: the first half of its method, ``<name>__symbolic``.
        title: what tables call it.
        training: ``ssft``, ``rgft`` or ``paper`` when its query encoder is fine-tuned.
        paper: the row of the paper's tables beside it: table, method, retriever.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    name: str
    title: str
    training: str = ""
    paper: tuple[str, str, str] | None = None

    @property
    def dense(self) -> bool:
        """Whether it searches vectors."""
        return self.name.startswith("dense")


@dataclass(frozen=True)
class ReadingRow:
    """One way to retrieve and to read.

    Args:
        name: its method.
        title: what tables call it.
        training: ``rgft`` or ``ssft`` when the reader is fine-tuned.
        paper: the row of the paper beside it.
        sample: so many queries at most, for what costs many calls a query; all when 0.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    name: str
    title: str
    training: str = ""
    paper: Paper | None = None
    sample: int = 0

    @property
    def retriever(self) -> str:
        """The first half: the name of a row of the retrieval tables, or ``none``."""
        return self.name.partition("__")[0]

    @property
    def reader(self) -> str:
        """The second half."""
        return self.name.partition("__")[2]

    @property
    def learned(self) -> bool:
        """Whether a language model reads, alone."""
        return self.reader not in _MODELS

    @property
    def retriever_training(self) -> str:
        """How the retriever is fine-tuned: ``rgft``, ``ssft``, or not at all."""
        return "" if self.retriever == "none" else row(self.retriever).training


def _rows(kind: type[T], section: str) -> tuple[T, ...]:
    records = [{"name": name, **one} for name, one in MATRIX[section].items()]
    return TypeAdapter(tuple[kind, ...]).validate_python(records)  # type: ignore[valid-type]


def _lists(section: str) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(one) for one in MATRIX[section])


ROWS, CONTROLS = _rows(Row, "retrievers"), _rows(Row, "controls")
PAIRS = TypeAdapter(tuple[tuple[str, str], ...]).validate_python(MATRIX["pairs"])
LEARNED = tuple(MATRIX["learned"])
FUSIONS = _lists("fusions")
FINE_TUNING = TypeAdapter(tuple[tuple[str, str, str], ...]).validate_python(MATRIX["fine_tuning"])
READING, OTHERS = _rows(ReadingRow, "readings"), _rows(ReadingRow, "other_readings")
READING_PAIRS = TypeAdapter(tuple[tuple[str, str, str], ...]).validate_python(
    MATRIX["reading_pairs"]
)
PAPER_BEST = {name: best["recall"] for name, best in MATRIX["paper_best"].items()}
PAPER_BEST_EM = {name: best["exact_match"] for name, best in MATRIX["paper_best"].items()}

FT = "dense-guided-rgft-learned__llama-rgft"
"""RuleRAG-FT: both halves fine-tuned with rules."""
LANGUAGE_MODELS = tuple(one.name for one in READING if one.learned)
"""The rows of Table 2 in which a language model reads alone."""


def row(name: str) -> Row:
    """The retrieval row of a name.

    Raises:
        ConfigError: there is none.
    """
    return _named({one.name: one for one in (*ROWS, *CONTROLS)}, name)


def reading_row(name: str) -> ReadingRow:
    """The reading row of a name.

    Raises:
        ConfigError: there is none.
    """
    return _named({one.name: one for one in (*READING, *OTHERS)}, name)


def _named(known: Mapping[str, T], name: str) -> T:
    if name not in known:
        raise ConfigError(f"no row is called {name!r}", key="row", hint=did_you_mean(name, known))
    return known[name]
