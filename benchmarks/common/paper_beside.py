"""What must be said where the paper's columns are beside ours, counted from its own tables."""

from __future__ import annotations

import csv
import math
from functools import cache
from pathlib import Path

from benchmarks.common.folders import PUBLISHED

NOT_PUBLIC = ("ruleqa-f", "ruleqa-n")
"""Benchmarks whose published figures cannot be those of the public splits."""
_NO_RULES = ("4", "Standard RAG", "Contriever")


@cache
def published_pairs(published: Path = PUBLISHED) -> tuple[int, int]:
    """How many pairs of EM and T-F1 the paper prints, and in how many T-F1 is below EM.

    T-F1 over tokens is never below EM on the same answers: an exact match shares every token.
    """
    pairs: dict[tuple[str, ...], dict[str, float]] = {}
    with open(published / "rulerag_generation.csv", encoding="utf-8", newline="") as file:
        for line in csv.DictReader(file):
            key = [line[k] for k in ("table", "method", "retriever", "generator", "benchmark")]
            pairs.setdefault(tuple(key), {})[line["metric"]] = float(line["value"])
    whole = [pair for pair in pairs.values() if {"em", "token_f1"} <= pair.keys()]
    return len(whole), sum(pair["token_f1"] < pair["em"] for pair in whole)


@cache
def recall_without_rules(benchmark: str, published: Path = PUBLISHED) -> float:
    """The published answer recall@10, a fraction, of Contriever without rules (Table 4)."""
    with open(published / "rulerag_retrieval.csv", encoding="utf-8", newline="") as file:
        for line in csv.DictReader(file):
            if (line["table"], line["method"], line["retriever"]) == _NO_RULES and (
                line["benchmark"] == benchmark
            ):
                return float(line["value"]) / 100
    return math.nan


def paper_note(
    benchmark: str,
    reachable: float | None = None,
    *,
    answers: bool = True,
    published: Path = PUBLISHED,
) -> str:
    """The note under a table that shows the paper's columns.

    Args:
        benchmark: the table's.
        reachable: the fraction of our questions with an answer in any document about the subject;
            None where it was not measured.
        answers: whether the columns hold EM and T-F1, rather than recall.
        published: the folder of the figures that papers print.
    """
    sentences = ["Paper: its own queries and corpora, ten documents in all."]
    if answers:
        pairs, below = published_pairs(published)
        sentences.append(
            "Its published evaluator takes the first known entity name in the output for EM "
            "(our column EM, lenient) and computes T-F1 over characters against one gold answer "
            f"(our char-F1): {below} of its {pairs} published pairs have T-F1 below EM."
        )
    if benchmark in NOT_PUBLIC:
        sentences.append(
            "They cannot be those of the public split: there Contriever without rules reaches "
            f"recall {100 * recall_without_rules(benchmark, published):.1f}"
            + (
                ", where an answer stands in any document about the subject for "
                f"{100 * reachable:.1f} % of our questions."
                if reachable is not None
                else "."
            )
        )
    return " ".join(sentences)
