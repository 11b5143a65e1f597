"""Figures 4, 5 and 6 of the paper on rule-based explanations, each by one command.

``python -m benchmarks.explanation.figures 6a --out DIR`` needs no data; 4, 5 and 6b take
HotpotQA from ``--data``. Numbers go to ``figure_NAME.json``, plots beside them where matplotlib is
installed.

The paper's reader is gpt-4o-mini. Here it is ``ExtractiveReader``, which is right far less often:
the share of the lattice explored compares the miners, and is no measure of a language model. With
``--generator FILE`` it is the ``generator`` section of that file (YAML), as in an experiment; its
figures are named after the file, and what it answered is kept in ``--cache``.

References:
    Rorseth et al. 2025 (arXiv:2510.22689), sections 5.2 and 5.3.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from tqdm import tqdm

from benchmarks.explanation.hotpotqa import SentenceQuestion, sentence_questions
from benchmarks.explanation.reader import ExtractiveReader
from rulerag.assembly import make_generator
from rulerag.composition import Config, load_config
from rulerag.errors import RuleRAGError
from rulerag.explanation.probing import (
    AnswerCache,
    CachedGenerator,
    OutputPredicate,
    ProbeEngine,
    is_correct,
)
from rulerag.explanation.source_rules import DualMiner, MonoMiner
from rulerag.io import prepare_folder, write_json
from rulerag.protocols import Generator
from rulerag.ruleqa import RuleQADataset

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
    questions: Sequence[SentenceQuestion],
    *,
    most: int = MOST_SENTENCES,
    reader: Generator | None = None,
) -> list[dict[str, Any]]:
    """Both miners on every question with zero to ``most`` sentences.

    Args:
        questions: in order.
        most: the most sentences.
        reader: what answers; the extractive reader by default. Each miner asks it anew: give one
            with a cache where that costs.

    Returns:
        One row for a question and a number of sentences: subsets visited by each miner, valid
        rules of each kind, and whether the answer with every sentence is correct.
    """
    rows = []
    reader = reader or ExtractiveReader()
    for question in tqdm(questions, "mining", unit="question", disable=len(questions) < 2):
        correct = is_correct([question.answer], contained=True)
        for count in range(most + 1):
            mined = _mine(reader, question, count, correct)
            rows.append({"question": question.id, "sources": count, **mined})
    return rows


def _mine(
    reader: Generator, question: SentenceQuestion, count: int, correct: OutputPredicate
) -> dict[str, Any]:
    retention = MonoMiner("retention").mine(_engine(reader, question, count), correct)
    omission = MonoMiner("omission").mine(_engine(reader, question, count), ~correct)
    engine = _engine(reader, question, count)
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


def _engine(reader: Generator, question: SentenceQuestion, count: int) -> ProbeEngine:
    request, sources = question.request(count)
    if sources:
        return ProbeEngine.from_generator(reader, request, sources)
    return ProbeEngine.from_function(
        lambda kept: [reader.generate([request])[0].text for _ in kept], num_sources=0
    )


def figure_4(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Mean fraction of the lattice explored (4a) and of valid rules (4b), by number of sources."""
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
    """Mean fraction of two lattices that dual, and mono run twice, evaluate."""
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


def generator_of(file: Path) -> Generator:
    """The reader that the section ``generator`` of a file names.

    Raises:
        ConfigError: there is no such section, it is wrong, or names a reader of facts.
    """
    section = load_config(file).section("generator")
    name = section.check(tuple(section), required=("type",)).read("type", str)
    if name in ("symbolic", "candidate", "hybrid"):
        raise section.error(
            f"{name} reads facts of a graph, and these are sentences", "type", hint="huggingface"
        )
    nothing = RuleQADataset(corpus=(), queries={})
    return make_generator(Config({"generator": section.to_dict()}), nothing)


def make(
    name: str,
    data: Path | None,
    out: Path,
    *,
    reader: Generator | None = None,
    label: str = "",
    limit: int | None = None,
    sources: int = 4,
) -> dict[str, Any]:
    """Make one figure: its numbers, and its plot where that is possible.

    Args:
        name: one of ``FIGURES``.
        data: the folder with HotpotQA's ``test.jsonl``.
        out: where the figure goes.
        reader: what answers; the extractive reader by default.
        label: part of the names of the files, with a reader of one's own.
        limit: only the first so many questions.
        sources: of Figure 6a.

    Raises:
        DataError: HotpotQA is needed and not there.
    """
    start = time.perf_counter()
    if name == "6a":
        result, label = figure_6a(sources), ""
    else:
        found = sentence_questions(data or Path("hotpotqa"), most=MOST_SENTENCES)
        questions = list(itertools.islice(found, limit))
        rows = hotpotqa_lattices(questions, reader=reader)
        table = {"4": figure_4, "5": figure_5, "6b": figure_6b}[name](rows)
        result = {
            "figure": name,
            "reader": label or ExtractiveReader.fingerprint,
            "questions": len(questions),
            "rows": table,
        }
    result["seconds"] = round(time.perf_counter() - start, 2)
    stem = f"figure_{name}" + (f"-{label}" if label else "")
    write_json(out / f"{stem}.json", result)
    if importlib.util.find_spec("matplotlib") is not None:
        from benchmarks.explanation.plots import plot

        plot(result, out / f"{stem}.png")
    return result


def main(arguments: Sequence[str] | None = None) -> None:
    """Make the figures named on the command line, or all of them."""
    parser = argparse.ArgumentParser(
        description="Figures 4, 5, 6a and 6b, by name or all.",
        epilog="example: python -m benchmarks.explanation.figures 4 5 --data hotpotqa",
    )
    parser.add_argument("figures", nargs="*", default=["all"], metavar="|".join((*FIGURES, "all")))
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/explanations"))
    parser.add_argument("--data", type=Path, help="the folder with HotpotQA's test.jsonl")
    parser.add_argument("--generator", type=Path, help="a YAML file with a section generator")
    parser.add_argument("--cache", type=Path, help="what that generator answered, to go on from")
    parser.add_argument("--limit", type=int, help="only the first N questions")
    parser.add_argument(
        "--sources", type=int, default=4, choices=(1, 2, 3, 4), help="of figure 6a (4)"
    )
    given = parser.parse_args(arguments)
    names = FIGURES if "all" in given.figures else tuple(given.figures)
    if unknown := [name for name in names if name not in FIGURES]:
        parser.error(f"unknown figure {unknown[0]!r}; known: {', '.join((*FIGURES, 'all'))}")
    if given.limit is not None and given.limit < 1:
        parser.error(f"--limit {given.limit} is below 1")
    try:
        prepare_folder(given.out)
        with tempfile.TemporaryDirectory() as folder:
            reader, label = None, ""
            if given.generator is not None:
                # Every miner asks anew: what is known is taken from the cache.
                cache = AnswerCache(given.cache or Path(folder) / "answers.sqlite")
                reader = CachedGenerator(generator_of(given.generator), cache)
                label = given.generator.stem
            for name in names:
                options = {
                    "reader": reader,
                    "label": label,
                    "limit": given.limit,
                    "sources": given.sources,
                }
                _show(make(name, given.data, given.out, **options))
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
