"""The tables and figures: which rows each runs and shows, of which benchmarks and queries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from pydantic import ConfigDict, TypeAdapter

from benchmarks.common.published import Paper
from benchmarks.experiments.matrix.rows import CONTROLS, MATRIX, READING, ROWS

Readers = Literal["own", "others", "all"]


@dataclass(frozen=True)
class PipelineTable:
    """A table of whole pipelines, one run a method and query set.

    Args:
        title: what it shows.
        benchmark: the RuleQA benchmark, whose dataset is built when it is missing.
        methods: by name, see :mod:`rulerag.assembly.presets`.
        query_sets: the query sets to run each on.
        note: what to compare with, in words.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    title: str
    benchmark: str
    methods: tuple[str, ...]
    query_sets: tuple[str, ...]
    note: str = ""


@dataclass(frozen=True)
class RetrievalTable:
    """The retrieval half of a published table or figure.

    Args:
        title: what it shows.
        rows: what is run and shown; every retriever when empty.
        query_set: which queries; ``degenerate`` are those that the corpus answers directly.
        benchmarks: where the paper shows it; all when empty.
        controls: run the controls too.
        fusions: fuse rows too.
        banks: disjoint parts of R, one fine-tuned with, another retrieved with.
        banked: the row that is run with every two banks.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    title: str
    rows: tuple[str, ...] = ()
    query_set: str = "balanced"
    benchmarks: tuple[str, ...] = ()
    controls: bool = False
    fusions: bool = False
    banks: tuple[str, ...] = ()
    banked: str = ""

    @property
    def shown(self) -> tuple[str, ...]:
        """The rows that its tables show."""
        return self.rows or tuple(row.name for row in ROWS)

    @property
    def run(self) -> tuple[str, ...]:
        """The rows that are run."""
        return (*self.shown, *(row.name for row in CONTROLS if self.controls))


@dataclass(frozen=True)
class Step:
    """What a reading table runs.

    Args:
        rows: by name; all of Table 2 when empty.
        readers: the reader that is installed (``own``), further ones (``others``), or both.
        seeds: with each seed what is fine-tuned; else with the first.
        top_k: read with so many documents each; as the methods say when empty.
        train: fine-tune the readers so, and read nothing.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    rows: tuple[str, ...] = ()
    readers: Readers = "own"
    seeds: bool = False
    top_k: tuple[int, ...] = ()
    train: str = ""


@dataclass(frozen=True)
class ReadingTable:
    """The reading half of a published table or figure.

    Args:
        title: what it shows.
        steps: what is run.
        note: what the paper shows and this does not, and why.
        query_set: which queries.
        benchmarks: where the paper shows it; all when empty.
        papers: the paper's row beside a row; those of Table 2 when None.
        banks: disjoint parts of R, one fine-tuned with, another read with.
        banked: the row that is run with every two banks.
        named: readers go by their names, so that several stand in one folder.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    title: str
    steps: tuple[Step, ...]
    note: str = ""
    query_set: str = "balanced"
    benchmarks: tuple[str, ...] = ()
    papers: Mapping[str, Paper] | None = None
    banks: tuple[str, ...] = ()
    banked: str = ""
    named: bool = False

    def shown(self, *, others: bool = False) -> tuple[str, ...]:
        """The rows that its tables show.

        Args:
            others: of further readers, instead of the one that is installed.
        """
        readers = ("others", "all") if others else ("own", "all")
        every = tuple(row.name for row in READING)
        steps = [step for step in self.steps if step.readers in readers and not step.train]
        return tuple(dict.fromkeys(name for step in steps for name in step.rows or every))

    @property
    def has_others(self) -> bool:
        """Whether further readers have tables of their own."""
        return any(step.readers != "own" and not step.train for step in self.steps)


PIPELINES = TypeAdapter(dict[str, PipelineTable]).validate_python(MATRIX["pipelines"])
RETRIEVAL = TypeAdapter(dict[str, RetrievalTable]).validate_python(MATRIX["retrieval"])
READINGS = TypeAdapter(dict[str, ReadingTable]).validate_python(MATRIX["reading"])
"""By name; those that are in :data:`RETRIEVAL` too run both halves."""
