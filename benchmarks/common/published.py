"""What the papers print, and what must be said where it stands beside ours."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from functools import cache

from benchmarks.common.folders import PUBLISHED

NOT_PUBLIC = ("ruleqa-f", "ruleqa-n")
"""Benchmarks whose published figures cannot be those of the public splits."""
Paper = tuple[str, str, str, str]
"""A row of the paper: table, method, retriever, generator."""
_NO_RULES = ("4", "Standard RAG", "Contriever")


@cache
def _figures(name: str, *keys: str) -> Mapping[tuple[str, ...], float]:
    with open(PUBLISHED / name, encoding="utf-8", newline="") as file:
        return {
            tuple(line[key] for key in keys): float(line["value"]) for line in csv.DictReader(file)
        }


def paper_readings() -> Mapping[tuple[str, ...], float]:
    """Per cent by table, method, retriever, generator, benchmark, and ``em`` or ``token_f1``."""
    keys = ("table", "method", "retriever", "generator", "benchmark", "metric")
    return _figures("rulerag_generation.csv", *keys)


def paper_recalls() -> Mapping[tuple[str, ...], float]:
    """Answer recall@10, per cent, by table, method, retriever and benchmark."""
    return _figures("rulerag_retrieval.csv", "table", "method", "retriever", "benchmark")


def paper_value(paper: Paper | None, benchmark: str, metric: str) -> float | None:
    """A published value of reading as a fraction; None where there is none.

    Args:
        paper: the row.
        benchmark: its name.
        metric: ``em`` or ``token_f1``.
    """
    value = None if paper is None else paper_readings().get((*paper, benchmark, metric))
    return None if value is None else value / 100


def paper_recall(paper: tuple[str, str, str] | None, benchmark: str) -> float | None:
    """The published answer recall@10 of a row as a fraction; None where there is none."""
    value = None if paper is None else paper_recalls().get((*paper, benchmark))
    return None if value is None else value / 100


def published_pairs() -> tuple[int, int]:
    """How many pairs of EM and T-F1 the paper prints, and in how many T-F1 is below EM.

    T-F1 over tokens is never below EM on the same answers: an exact match shares every token.
    """
    known = paper_readings()
    pairs = [
        (value, known[*row, "token_f1"])
        for (*row, metric), value in known.items()
        if metric == "em" and (*row, "token_f1") in known
    ]
    return len(pairs), sum(f1 < em for em, f1 in pairs)


def paper_note(benchmark: str, reachable: float | None = None, *, answers: bool = True) -> str:
    """The note under a table that shows the paper's columns.

    Args:
        benchmark: the table's.
        reachable: the fraction of our questions with an answer in any document about the subject;
            None where it was not measured.
        answers: whether the columns hold EM and T-F1, rather than recall.
    """
    sentences = ["Paper: its own queries and corpora, ten documents in all."]
    if answers:
        pairs, below = published_pairs()
        sentences.append(
            "Its published evaluator takes the first known entity name in the output for EM "
            "(our column EM, lenient) and computes T-F1 over characters against one gold answer "
            f"(our char-F1): {below} of its {pairs} published pairs have T-F1 below EM."
        )
    if benchmark in NOT_PUBLIC:
        sentences.append(
            "They cannot be those of the public split: there Contriever without rules reaches "
            f"recall {paper_recalls()[*_NO_RULES, benchmark]:.1f}"
            + (
                ", where an answer stands in any document about the subject for "
                f"{100 * reachable:.1f} % of our questions."
                if reachable is not None
                else "."
            )
        )
    return " ".join(sentences)
