"""The rows of the generator tables: which experiment file each is, and what it is compared with."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache

from benchmarks.common.folders import PUBLISHED
from benchmarks.experiments.retrieval.rows import named
from benchmarks.experiments.retrieval.rows import row as finding_row

__all__ = [
    "FT",
    "LEARNED",
    "OTHERS",
    "PAIRS",
    "PAPER_BEST_EM",
    "READING",
    "Paper",
    "ReadingRow",
    "finder_training",
    "paper_value",
    "reading_row",
]

Paper = tuple[str, str, str, str]


@dataclass(frozen=True)
class ReadingRow:
    """One way to retrieve and to read.

    Args:
        name: its experiment file, ``configs/<benchmark>/<name>.yaml``.
        title: what tables call it.
        training: ``rgft`` or ``ssft`` when the reader is fine-tuned.
        paper: the row of the paper beside it: table, method, retriever, generator.
        learned: whether a language model reads, alone.
        sample: so many queries at most, for what costs many calls a query; all when 0.
    """

    name: str
    title: str
    training: str = ""
    paper: Paper | None = None
    learned: bool = True
    sample: int = 0

    @property
    def finding(self) -> str:
        """The retrieval half: the name of a row of the retrieval tables, or ``none``."""
        return self.name.partition("__")[0]


def _two(method: str, retriever: str, generator: str) -> Paper:
    return ("2", method, retriever, generator)


_LLAMA, _RG, _RGFT, _SSFT = (f"{part}LLAMA2_7B" for part in ("", "RG-", "RGFT-", "SSFT-"))

READING = (
    ReadingRow(
        "none__llama", "standard prompting", paper=_two("Standard Prompting", "none", _LLAMA)
    ),
    ReadingRow(
        "dense__ve", "verify-and-edit", paper=_two("VE (3-shot)", "DPR", _LLAMA), sample=100
    ),
    ReadingRow(
        "dense__cok", "chain-of-knowledge", paper=_two("CoK (3-shot)", "DPR", _LLAMA), sample=100
    ),
    ReadingRow("dense__llama", "standard RAG", paper=_two("Standard RAG", "DPR", _LLAMA)),
    ReadingRow("dense-pooled__llama", "no rules, merging by evidence"),
    ReadingRow("dense-pooled__llama-guided", "rules in the reader alone"),
    ReadingRow(
        "dense-guided__llama",
        "rules in the retriever alone",
        paper=_two("RuleRAG-ICL", "RG-DPR", _LLAMA),
    ),
    ReadingRow(
        "dense-guided__llama-guided",
        "RuleRAG-ICL",
        paper=_two("RuleRAG-ICL", "RG-DPR", _RG),
    ),
    ReadingRow(
        "dense-paper__llama-guided",
        "RuleRAG-ICL, as the paper writes it",
        paper=_two("RuleRAG-ICL", "RG-DPR", _RG),
    ),
    ReadingRow("dense-guided-learned__llama-guided", "RuleRAG-ICL, learned merging"),
    ReadingRow(
        "dense-guided-rgft-learned__llama-rgft",
        "RuleRAG-FT: RGFT + RGFT",
        training="rgft",
        paper=_two("RuleRAG-FT", "RGFT-DPR", _RGFT),
    ),
    ReadingRow(
        "dense-pooled-ssft-learned__llama-rgft",
        "SSFT + RGFT",
        training="rgft",
        paper=_two("Rule Ablation", "SSFT-DPR", _RGFT),
    ),
    ReadingRow(
        "dense-guided-rgft-learned__llama-ssft",
        "RGFT + SSFT",
        training="ssft",
        paper=_two("Rule Ablation", "RGFT-DPR", _SSFT),
    ),
    ReadingRow(
        "dense-pooled-ssft-learned__llama-ssft",
        "SSFT + SSFT",
        training="ssft",
        paper=_two("Rule Ablation", "SSFT-DPR", _SSFT),
    ),
    ReadingRow(
        "dense-paper-rgft__llama-rgft",
        "RuleRAG-FT, as the paper writes it",
        training="rgft",
        paper=_two("RuleRAG-FT", "RGFT-DPR", _RGFT),
    ),
    ReadingRow(
        "dense-guided-learned__llama-rgft",
        "ICL + RGFT",
        training="rgft",
        paper=_two("RGFT Ablation", "RG-DPR", _RGFT),
    ),
    ReadingRow(
        "dense-guided-rgft-learned__llama-guided",
        "RGFT + ICL",
        paper=_two("RGFT Ablation", "RGFT-DPR", _RG),
    ),
    ReadingRow("bm25-guided__symbolic", "BM25, rule-guided + symbolic reader", learned=False),
    ReadingRow(
        "dense-guided-rgft-learned__symbolic",
        "dense RGFT, learned merging + symbolic reader",
        learned=False,
    ),
    ReadingRow(
        "bm25-guided-learned__candidate",
        "BM25, rule-guided, learned merging + candidate reader",
        learned=False,
    ),
    ReadingRow("symbolic__symbolic", "symbolic retrieval + symbolic reader", learned=False),
    ReadingRow(
        "dense-guided-rgft-learned__hybrid",
        "dense RGFT, learned merging + hybrid reader",
        training="rgft",
        learned=False,
    ),
    ReadingRow(
        "bm25-guided-learned__hybrid",
        "BM25, rule-guided, learned merging + hybrid reader",
        training="rgft",
        learned=False,
    ),
)
"""The rows of Table 2, in order."""

PAIRS = (
    ("dense-guided__llama-guided", "dense-pooled__llama-guided", "retriever"),
    ("dense-guided__llama-guided", "dense-guided__llama", "reader"),
    ("dense-guided__llama-guided", "dense-pooled__llama", "both"),
    (
        "dense-guided-rgft-learned__llama-rgft",
        "dense-pooled-ssft-learned__llama-rgft",
        "retriever",
    ),
    ("dense-guided-rgft-learned__llama-rgft", "dense-guided-rgft-learned__llama-ssft", "reader"),
    ("dense-guided-rgft-learned__llama-rgft", "dense-pooled-ssft-learned__llama-ssft", "both"),
)
"""With and without rules, and where they are left out; merging, depth, budget, training queries
and seeds are the same."""

OTHERS = (
    ReadingRow("dense-ssft__llama-rgft", "dense, SSFT, plain search", training="rgft"),
    ReadingRow("bm25__llama", "BM25: standard RAG"),
    ReadingRow("bm25-pooled__llama", "BM25: no rules, merging by evidence"),
    ReadingRow("bm25-guided__llama", "BM25: rules in the retriever alone"),
    ReadingRow("bm25-guided__llama-guided", "BM25: RuleRAG-ICL"),
    ReadingRow("dense-guided-rgft__llama-rgft", "RGFT, merging by evidence", training="rgft"),
    ReadingRow("dense__llama-rgft", "dense", training="rgft"),
    ReadingRow("bm25__llama-rgft", "BM25", training="rgft"),
    ReadingRow("bm25-guided-learned__llama-rgft", "BM25, rule-guided", training="rgft"),
    ReadingRow("bm25__symbolic", "BM25 + symbolic reader", learned=False),
    ReadingRow("dense__symbolic", "dense + symbolic reader", learned=False),
    ReadingRow(
        "dense-guided-learned__symbolic",
        "dense, rule-guided, learned merging + symbolic reader",
        learned=False,
    ),
)
"""Rows of the other tables."""

FT = "dense-guided-rgft-learned__llama-rgft"
"""RuleRAG-FT: both halves fine-tuned with rules."""

LEARNED = tuple(row.name for row in READING if row.learned)
"""The rows of Table 2 in which a language model reads alone."""

PAPER_BEST_EM = {
    "ruleqa-i": 0.258,
    "ruleqa-y": 0.492,
    "ruleqa-w": 0.531,
    "ruleqa-f": 0.724,
    "ruleqa-n": 0.681,
}
"""The paper's best exact match of any row (its Tables 3 and 4)."""


def reading_row(name: str) -> ReadingRow:
    """The row of a name.

    Raises:
        ConfigError: there is none.
    """
    return named({row.name: row for row in (*READING, *OTHERS)}, name)


def finder_training(row: ReadingRow) -> str:
    """How the retriever of a row is fine-tuned: ``rgft``, ``ssft``, or not at all."""
    return "" if row.finding == "none" else finding_row(row.finding).training


def paper_value(paper: Paper | None, benchmark: str, metric: str) -> float | None:
    """A published value as a fraction.

    Args:
        paper: table, method, retriever, generator.
        benchmark: its name.
        metric: ``em`` or ``token_f1``.
    """
    return None if paper is None else _published().get((*paper, benchmark, metric))


@cache
def _published() -> dict[tuple[str, ...], float]:
    keys = ("table", "method", "retriever", "generator", "benchmark", "metric")
    with open(PUBLISHED / "rulerag_generation.csv", encoding="utf-8", newline="") as file:
        return {
            tuple(line[key] for key in keys): float(line["value"]) / 100
            for line in csv.DictReader(file)
        }
