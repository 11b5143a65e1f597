"""Figures 4, 5 and 6 of the paper on rule-based explanations: how much of a lattice miners visit.

``python -m benchmarks.explanation figures --out DIR`` mines every assignment of validity to the
subsets of four sources (Figure 6a). With tables of real models it makes the others, too: a table
holds what a model says on every subset of eight documents, and so on every subset of the first of
them. The supporting documents come first, as in the paper; the answer is kept where it is at least
a tenth as probable as with all eight. The paper's reader is gpt-4o-mini on HotpotQA: shares compare
the miners, not the models.

References:
    Rorseth et al. 2025 (arXiv:2510.22689), sections 5.2 and 5.3.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from tqdm import tqdm

from benchmarks.explanation.cases import Case
from benchmarks.explanation.tables import read_lattices
from rulerag.evaluation import markdown_table
from rulerag.explanation.probing import OutputPredicate, ProbeEngine
from rulerag.explanation.search import DualMiner, MonoMiner
from rulerag.io import prepare_folder, write_json, write_text

MOST_SOURCES = 6
_LATTICE = {"mono_retention", "mono_omission", "dual", "valid_retention", "valid_omission"}
_KEPT = OutputPredicate(lambda output: output == "kept", "it is kept", "it is not kept")


def figure_6a(num_sources: int = 4) -> list[dict[str, Any]]:
    """Every assignment of validity to the subsets of some sources, mined one by one.

    Returns:
        For each number of valid rules: how many assignments have it, and how many subsets the
        miner visits for them, on average, at least and at most.
    """
    size = 1 << num_sources
    visited: dict[int, list[int]] = {}
    for assignment in range(1 << size):
        held = {mask for mask in range(size) if assignment >> mask & 1}
        engine = _engine(num_sources, held.__contains__)
        rules = MonoMiner("retention").mine(engine, _KEPT)
        visited.setdefault(len(rules.valid), []).append(engine.num_probes)
    return [
        {
            "valid": valid,
            "assignments": len(counts),
            "visited": fmean(counts),
            "least": min(counts),
            "most": max(counts),
        }
        for valid, counts in sorted(visited.items())
    ]


def _engine(num_sources: int, holds: Callable[[int], bool]) -> ProbeEngine:
    def answer(batch: Sequence[tuple[int, ...]]) -> list[str]:
        masks = [sum(1 << place for place in kept) for kept in batch]
        return ["kept" if holds(mask) else "changed" for mask in masks]

    return ProbeEngine.from_function(answer, num_sources=num_sources)


def mined(case: Case, count: int) -> dict[str, int]:
    """Both miners on the first documents of a question, those that support its answer first.

    Returns:
        Subsets visited by each miner, and valid rules of each kind.

    Raises:
        RuntimeError: the miners disagree.
    """
    truth, places = case.lattice.truth, range(len(case.lattice.documents))
    order = [*truth, *(place for place in places if place not in truth)][:count]

    def holds(mask: int) -> bool:
        return case.kept[sum(1 << place for n, place in enumerate(order) if mask >> n & 1)]

    retention = MonoMiner("retention").mine(_engine(count, holds), _KEPT)
    omission = MonoMiner("omission").mine(_engine(count, holds), ~_KEPT)
    engine = _engine(count, holds)
    both = DualMiner().mine(engine, retention=_KEPT, omission=~_KEPT)
    for alone, together in zip((retention, omission), both, strict=True):
        if alone.valid != together.valid:
            raise RuntimeError(f"{case.lattice.id}: the miners disagree on {count} documents")
    return {
        "sources": count,
        "valid_retention": len(retention.valid),
        "valid_omission": len(omission.valid),
        "mono_retention": retention.num_probes,
        "mono_omission": omission.num_probes,
        "dual": engine.num_probes,
    }


def figures_4_and_5(rows: Sequence[dict[str, int]]) -> list[dict[str, Any]]:
    """Mean shares by number of sources.

    Returns:
        Of one lattice: what is visited (4a) and valid (4b); of two, one for each kind of rule: what
        the dual miner and the other one run twice visit (5).
    """
    found = []
    for count in sorted({row["sources"] for row in rows}):
        of, size = [row for row in rows if row["sources"] == count], 2.0**count
        row: dict[str, Any] = {"sources": count}
        row |= {name: fmean(one[name] / size for one in of) for name in sorted(_LATTICE)}
        twice = fmean((one["mono_retention"] + one["mono_omission"]) / size / 2 for one in of)
        found.append(row | {"dual_of_two": row["dual"] / 2, "mono_twice_of_two": twice})
    return found


def figure_6b(rows: Sequence[dict[str, int]]) -> list[dict[str, Any]]:
    """Valid rules and visited subsets of questions with most sources, and how many have both."""
    found = Counter(
        (kind, row[f"valid_{kind}"], row[f"mono_{kind}"])
        for row in rows
        if row["sources"] == MOST_SOURCES
        for kind in ("retention", "omission")
    )
    names = ("kind", "valid", "visited", "questions")
    return [dict(zip(names, (*key, number), strict=True)) for key, number in sorted(found.items())]


def run(files: list[Path] | None = None, *, out: Path | None = None) -> dict[str, Any]:
    """What the paper's miners visit: Figures 4, 5 and 6.

    Args:
        files: tables of the command ``tables``; without any, Figure 6a alone.
        out: the folder of ``figures.json`` and ``figures.md``.

    Raises:
        DataError: a table cannot be read.
    """
    rows = list[dict[str, int]]()
    for file in files or ():
        cases = [Case(lattice) for lattice in read_lattices(file)]
        for case in tqdm(cases, file.stem, unit="question"):
            rows += [mined(case, count) for count in range(MOST_SOURCES + 1)]
    figures = {"4 and 5": figures_4_and_5(rows), "6a": figure_6a()}
    figures["6b"] = figure_6b(rows)
    text = "\n".join(
        f"Figure {name}\n\n"
        + markdown_table(list(of[0]), [[_cell(one) for one in row.values()] for row in of])
        for name, of in figures.items()
        if of
    )
    sys.stdout.write(text)
    if out is not None:
        tables = [file.stem for file in files or ()]
        write_json(prepare_folder(out) / "figures.json", {"tables": tables, **figures})
        write_text(out / "figures.md", text)
    return figures


def _cell(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:.4g}"
