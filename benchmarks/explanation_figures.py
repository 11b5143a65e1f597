"""Figures 4, 5 and 6 of the paper on rule-based explanations, each by one command.

``python -m benchmarks.explanation_figures 6a --out DIR`` needs no data; 4, 5 and 6b take
HotpotQA from ``--data``. Numbers go to ``figure_NAME.json``, plots beside them where matplotlib is
installed.

The paper's reader is gpt-4o-mini. Here it is ``ExtractiveReader``, which is right far less often:
the share of the lattice explored compares the miners, and is no measure of a language model.

References:
    Rorseth et al. 2025 (arXiv:2510.22689), sections 5.2 and 5.3.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.explanation_hotpotqa import SentenceQuestion, sentence_questions
from benchmarks.explanation_reader import ExtractiveReader
from rulerag.errors import RuleRAGError
from rulerag.explanation.miners import DualMiner, MonoMiner
from rulerag.explanation.predicates import OutputPredicate, is_correct
from rulerag.explanation.probe import ProbeEngine
from rulerag.io import prepare_folder, write_json

__all__ = ["FIGURES", "figure_6a", "hotpotqa_lattices", "main"]

FIGURES = ("6a", "4", "5", "6b")
MOST_SENTENCES = 6


def figure_6a(num_sources: int = 4) -> dict[str, Any]:
    """Every assignment of validity to the subsets of four sources, mined one by one.

    Returns:
        For each number of valid rules: how many assignments have it, and how many subsets the
        miner visits for them, on average, at least and at most.
    """
    size = 1 << num_sources
    visited: dict[int, list[int]] = {}
    for assignment in range(1 << size):
        outputs = ["yes" if assignment >> mask & 1 else "no" for mask in range(size)]
        engine = ProbeEngine.from_function(_lookup(outputs), num_sources=num_sources)
        rules = MonoMiner("retention").mine(engine, _is_yes)
        visited.setdefault(len(rules.valid), []).append(engine.num_probes)
    rows = [
        {
            "valid": valid,
            "assignments": len(counts),
            "visited_mean": fmean(counts),
            "visited_min": min(counts),
            "visited_max": max(counts),
        }
        for valid, counts in sorted(visited.items())
    ]
    return {"figure": "6a", "num_sources": num_sources, "assignments": 1 << size, "rows": rows}


def hotpotqa_lattices(
    questions: Sequence[SentenceQuestion], *, most: int = MOST_SENTENCES
) -> list[dict[str, Any]]:
    """Both miners on every question with zero to ``most`` sentences.

    Returns:
        One row for a question and a number of sentences: subsets visited by each miner, valid
        rules of each kind, and whether the answer with every sentence is correct.
    """
    rows = []
    for question in questions:
        correct = is_correct([question.answer], contained=True)
        for count in range(most + 1):
            rows.append(
                {"question": question.id, "sources": count, **_mine(question, count, correct)}
            )
    return rows


def _mine(question: SentenceQuestion, count: int, correct: OutputPredicate) -> dict[str, Any]:
    retention = MonoMiner("retention").mine(_engine(question, count), correct)
    omission = MonoMiner("omission").mine(_engine(question, count), ~correct)
    engine = _engine(question, count)
    both = DualMiner().mine(engine, retention=correct, omission=~correct)
    dual = engine.num_probes
    for alone, together in zip((retention, omission), both, strict=True):
        if alone.valid != together.valid:
            raise RuntimeError(f"{question.id}: the miners disagree on {count} sentences")
    return {
        "correct": correct(engine.probe([(1 << count) - 1])[0]),
        "valid_retention": len(retention.valid),
        "valid_omission": len(omission.valid),
        "mono_retention": retention.num_probes,
        "mono_omission": omission.num_probes,
        "dual": dual,
    }


def _engine(question: SentenceQuestion, count: int) -> ProbeEngine:
    reader = ExtractiveReader()
    request, sources = question.request(count)
    if sources:
        return ProbeEngine.from_generator(reader, request, sources)
    return ProbeEngine.from_function(
        lambda kept: [reader.generate([request])[0].text for _ in kept], num_sources=0
    )


def figure_4(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Mean share of the lattice explored (4a) and of valid rules (4b), by number of sources."""
    names = ("mono_retention", "mono_omission", "dual", "valid_retention", "valid_omission")
    return [
        {
            "sources": count,
            "correct": fmean(r["correct"] for r in of),
            **{name: fmean(r[name] / 2**count for r in of) for name in names},
        }
        for count, of in _by_sources(rows)
    ]


def figure_5(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Mean share of two lattices that dual, and mono run twice, evaluate."""
    return [
        {
            "sources": count,
            "dual": fmean(r["dual"] / 2 ** (count + 1) for r in of),
            "two_monos": fmean(
                (r["mono_retention"] + r["mono_omission"]) / 2 ** (count + 1) for r in of
            ),
        }
        for count, of in _by_sources(rows)
    ]


def figure_6b(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Valid rules and visited subsets of each question with six sources."""
    return [
        {
            "question": row["question"],
            **{
                kind: {"valid": row[f"valid_{kind}"], "visited": row[f"mono_{kind}"]}
                for kind in ("retention", "omission")
            },
        }
        for row in rows
        if row["sources"] == MOST_SENTENCES
    ]


def _by_sources(rows: Sequence[dict[str, Any]]) -> list[tuple[int, list[dict[str, Any]]]]:
    counts = sorted({row["sources"] for row in rows})
    return [(count, [row for row in rows if row["sources"] == count]) for count in counts]


def _lookup(outputs: list[str]) -> Callable[[list[tuple[int, ...]]], list[str]]:
    def answer(kept: list[tuple[int, ...]]) -> list[str]:
        return [outputs[sum(1 << index for index in subset)] for subset in kept]

    return answer


def _is_yes(output: str) -> bool:
    return output == "yes"


def make(name: str, data: Path | None, out: Path) -> dict[str, Any]:
    """Make one figure: its numbers, and its plot where that is possible.

    Raises:
        DataError: HotpotQA is needed and not there.
    """
    start = time.perf_counter()
    if name == "6a":
        result = figure_6a()
    else:
        questions = list(sentence_questions(data or Path("hotpotqa"), most=MOST_SENTENCES))
        rows = hotpotqa_lattices(questions)
        table = {"4": figure_4, "5": figure_5, "6b": figure_6b}[name](rows)
        result = {
            "figure": name,
            "reader": ExtractiveReader.fingerprint,
            "questions": len(questions),
            "rows": table,
        }
    result["seconds"] = round(time.perf_counter() - start, 2)
    write_json(out / f"figure_{name}.json", result)
    if importlib.util.find_spec("matplotlib") is not None:
        from benchmarks.explanation_plots import plot

        plot(result, out / f"figure_{name}.png")
    return result


def main(arguments: Sequence[str] | None = None) -> None:
    """Make the figures named on the command line, or all of them."""
    parser = argparse.ArgumentParser(description="Figures 4, 5, 6a and 6b, by name or all.")
    parser.add_argument("figures", nargs="*", default=["all"], metavar="|".join((*FIGURES, "all")))
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/explanations"))
    parser.add_argument("--data", type=Path, help="the folder with HotpotQA's test.jsonl")
    given = parser.parse_args(arguments)
    names = FIGURES if "all" in given.figures else tuple(given.figures)
    if unknown := [name for name in names if name not in FIGURES]:
        parser.error(f"unknown figure {unknown[0]!r}; known: {', '.join((*FIGURES, 'all'))}")
    try:
        prepare_folder(given.out)
        for name in names:
            _show(make(name, given.data, given.out))
    except RuleRAGError as error:
        print(error, file=sys.stderr)
        raise SystemExit(2) from None


def _show(result: dict[str, Any]) -> None:
    print(f"figure {result['figure']} ({result['seconds']} s)")
    rows = result["rows"]
    if result["figure"] == "6b":
        for kind in ("retention", "omission"):
            extra = [row[kind]["visited"] - row[kind]["valid"] for row in rows]
            valid = fmean(row[kind]["valid"] for row in rows)
            print(f"  {kind}: {valid:.1f} valid rules and {fmean(extra):.1f} more subsets visited")
        return
    print("  " + "  ".join(f"{name:>15}" for name in rows[0]))
    for row in rows:
        print("  " + "  ".join(f"{value:>15.4g}" for value in row.values()))


if __name__ == "__main__":
    main()
