"""The rows of the retrieval tables: which experiment file each is, and what it is compared with."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from benchmarks.common.folders import PUBLISHED
from rulerag.errors import ConfigError, did_you_mean

__all__ = [
    "CONTROLS",
    "FUSIONS",
    "LEARNED",
    "PAIRS",
    "PAPER_BEST",
    "ROWS",
    "Row",
    "named",
    "paper_values",
    "row",
]

T = TypeVar("T")


@dataclass(frozen=True)
class Row:
    """One way to retrieve.

    Args:
        name: the first half of its experiment file, ``configs/<benchmark>/<name>__symbolic.yaml``.
        title: what tables call it.
        training: ``ssft``, ``rgft`` or ``paper`` when its query encoder is fine-tuned (without
            rules, on q∘r and plain queries, on q∘r alone); one run a seed.
        dense: whether it searches vectors.
        paper: the row of the paper's tables beside it: table, method, retriever.
    """

    name: str
    title: str
    training: str = ""
    dense: bool = False
    paper: tuple[str, str, str] | None = None


_DPR = ("2", "Standard RAG", "DPR")
_RG_DPR = ("2", "RuleRAG-ICL", "RG-DPR")
_SSFT = ("2", "Rule Ablation", "SSFT-DPR")
_RGFT = ("2", "RuleRAG-FT", "RGFT-DPR")

ROWS = (
    Row("bm25", "BM25"),
    Row("bm25-guided", "BM25, rule-guided"),
    Row("lucene", "Lucene"),
    Row("lucene-guided", "Lucene, rule-guided"),
    Row("symbolic", "symbolic"),
    Row("dense", "dense, untrained", dense=True, paper=_DPR),
    Row("dense-guided", "dense, untrained, rule-guided", dense=True, paper=_RG_DPR),
    Row("dense-ssft", "dense, SSFT", training="ssft", dense=True, paper=_SSFT),
    Row("dense-guided-rgft", "dense, RGFT", training="rgft", dense=True, paper=_RGFT),
    Row("dense-paper", "dense, untrained, as the paper writes it", dense=True, paper=_RG_DPR),
    Row(
        "dense-paper-rgft",
        "dense, RGFT, as the paper writes it",
        training="paper",
        dense=True,
        paper=_RGFT,
    ),
    Row("bm25-guided-learned", "BM25, rule-guided, learned merging"),
    Row("dense-guided-learned", "dense, untrained, rule-guided, learned merging", dense=True),
    Row("dense-guided-rgft-learned", "dense, RGFT, learned merging", training="rgft", dense=True),
)
"""The rows of every table, in order."""

CONTROLS = (
    Row("bm25-pooled", "BM25, pooled (control)"),
    Row("bm25-pooled-learned", "BM25, pooled, learned merging (control)"),
    Row("dense-pooled", "dense, untrained, pooled (control)", dense=True),
    Row("dense-pooled-learned", "dense, untrained, pooled, learned merging (control)", dense=True),
    Row("dense-pooled-ssft", "dense, SSFT, pooled (control)", training="ssft", dense=True),
    Row(
        "dense-pooled-ssft-learned",
        "dense, SSFT, pooled, learned merging (control)",
        training="ssft",
        dense=True,
    ),
    Row("dense-guided-ssft", "dense, SSFT, with rules (control)", training="ssft", dense=True),
)
"""What part of a gain is not the rules': evidence pooled without them, rules never trained on."""

PAIRS = (
    ("bm25-guided", "bm25-pooled"),
    ("dense-guided", "dense-pooled"),
    ("dense-guided-rgft", "dense-pooled-ssft"),
    ("bm25-guided-learned", "bm25-pooled-learned"),
    ("dense-guided-learned", "dense-pooled-learned"),
    ("dense-guided-rgft-learned", "dense-pooled-ssft-learned"),
)
"""With and without rules, everything else equal: merging, depth, budget, queries, seeds."""

LEARNED = (
    "bm25-guided",
    "bm25-pooled",
    "dense-guided",
    "dense-pooled",
    "dense-guided-rgft",
    "dense-pooled-ssft",
)
"""Rows whose merging is learned too, as ``NAME-learned``: :mod:`benchmarks.tuning.merging`."""

FUSIONS = (
    ("bm25-guided", "symbolic"),
    ("bm25-guided", "dense-guided-rgft"),
    ("symbolic", "dense-guided-rgft"),
    ("bm25-guided", "symbolic", "dense-guided-rgft"),
    ("dense-ssft", "dense-guided-rgft"),
    ("bm25-guided-learned", "symbolic", "dense-guided-rgft-learned"),
)
"""Members of the fused rows, reciprocal rank fusion; which is best is chosen on validation."""

PAPER_BEST = {
    "ruleqa-i": 0.455,
    "ruleqa-y": 0.557,
    "ruleqa-w": 0.632,
    "ruleqa-f": 0.951,
    "ruleqa-n": 0.925,
}
"""The paper's best answer recall@10 (its Tables 2, 4 and 6)."""


def row(name: str) -> Row:
    """The row of a name.

    Raises:
        ConfigError: there is none.
    """
    return named({r.name: r for r in (*ROWS, *CONTROLS)}, name)


def named(known: Mapping[str, T], name: str) -> T:
    """One of some rows.

    Raises:
        ConfigError: there is none of that name.
    """
    if name not in known:
        raise ConfigError(f"no row is called {name!r}", key="row", hint=did_you_mean(name, known))
    return known[name]


def paper_values(table: str, method: str, retriever: str) -> dict[str, float]:
    """The published answer recall@10 by benchmark, fractions; empty where there is none."""
    with open(PUBLISHED / "rulerag_retrieval.csv", encoding="utf-8", newline="") as file:
        return {
            line["benchmark"]: float(line["value"]) / 100
            for line in csv.DictReader(file)
            if (line["table"], line["method"], line["retriever"]) == (table, method, retriever)
        }
