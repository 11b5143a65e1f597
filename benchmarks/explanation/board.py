"""The figures: every explainer at every budget on every table, tested against the best baseline."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Any

from threadpoolctl import threadpool_limits
from tqdm import tqdm

from benchmarks.explanation.cases import Case, read_cases
from benchmarks.explanation.explainers import EXPLAINERS, Explainer, Ranking
from benchmarks.explanation.measures import MEASURES, agreement, least_changing, measured
from rulerag.errors import ProbeBudgetError
from rulerag.evaluation import holm, paired_randomization_test
from rulerag.text import contains_answer

BUDGETS = (16, 32, 64)
SHOWN = 32
"""The budget at which explainers stand side by side in the summary and are compared."""
TESTED = ("average_precision", "changed")
_SWAPS = 100_000

Rows = list[dict[str, float]]
QuestionRankings = dict[str, Ranking]
"""What explainers say of one question, by their names."""


def explained(one: Explainer, case: Case, calls: int, seed: int) -> tuple[Ranking, int] | None:
    """What an explainer says, and its calls; None where it cannot.

    Args:
        one: the explainer.
        case: the question.
        calls: allowed; ignored where the explainer takes as many as it takes.
        seed: of anything drawn.
    """
    asked = case.asked(case.full + 1 if one.fixed else calls, seed)
    try:
        found = one.explain(asked)
    except ProbeBudgetError:
        return None
    return None if found is None else (found, asked.scores.num_probes + one.calls)


def judged(
    one: Explainer, case: Case, calls: int, seed: int
) -> tuple[dict[str, float], Ranking] | None:
    """Every measure of an explainer on a question, the mean over its draws; and the first draw."""
    rows, first = [], None
    for draw in range(one.draws):
        result = explained(one, case, calls, seed + 1_000_003 * draw)
        if result is None:
            return None
        first = first or result[0]
        rows.append(measured(case, result[0], seed + draw) | {"calls": float(result[1])})
    if first is None:
        return None
    return {key: fmean(row[key] for row in rows) for key in rows[0]}, first


def budgets_of(one: Explainer) -> tuple[int, ...]:
    """The budgets at which an explainer is run; one that has a cost of its own, once."""
    return (0,) if one.fixed else BUDGETS


def rows_of(
    name: str, cases: Sequence[Case]
) -> tuple[list[dict[str, Any]], list[QuestionRankings]]:
    """Means of every explainer at every budget on one table's questions.

    An explainer that cannot say anything about one of the questions has no row.

    Returns:
        The rows, with the questions' own measures in ``each`` for :func:`compared`; and what each
        explainer with a row said of each question, at ``SHOWN`` calls or its own cost.
    """
    collected: dict[tuple[str, int], Rows] = defaultdict(list)
    judgements: list[QuestionRankings] = []
    for number, case in enumerate(tqdm(cases, name, unit="question")):
        judgements.append({})
        for one in EXPLAINERS.values():
            for budget in budgets_of(one):
                judgement = judged(one, case, budget, number)
                if judgement is None:
                    continue
                collected[one.name, budget].append(judgement[0])
                if budget in (0, SHOWN):
                    judgements[-1][one.name] = judgement[1]
    rows = [
        {
            "table": name,
            "explainer": explainer,
            "kind": EXPLAINERS[explainer].kind,
            "budget": budget or None,
            "questions": len(measures),
            **{key: fmean(row[key] for row in measures) for key in (*MEASURES, "calls")},
            "each": measures,
        }
        for (explainer, budget), measures in collected.items()
        if len(measures) == len(cases)
    ]
    whole = {row["explainer"] for row in rows}
    return rows, [{key: found[key] for key in found if key in whole} for found in judgements]


def compared(rows: Sequence[dict[str, Any]]) -> int:
    """Add p-values against the best baseline of the same table, corrected for all of them (Holm).

    The best baseline is that with the highest mean on these very questions, which favours it.

    Args:
        rows: of :func:`rows_of`, of every table; ``each`` is taken out.

    Returns:
        How many comparisons there are.
    """
    places = []
    for row in rows:
        beside = [b for b in rows if b["kind"] == "baseline" and b["table"] == row["table"]]
        if row["kind"] == "baseline" or not beside:
            continue
        row["best_baseline"], row["p_values"] = {}, {}
        for key in TESTED:
            best = max(beside, key=lambda one, key=key: one[key])  # type: ignore[misc]
            pair = ([one[key] for one in some["each"]] for some in (row, best))
            row["best_baseline"][key] = best["explainer"]
            row["p_values"][key] = paired_randomization_test(*pair, samples=_SWAPS)
            places.append((row, key))
    corrected = holm([row["p_values"][key] for row, key in places])
    for (row, key), p_value in zip(places, corrected, strict=True):
        row.setdefault("p_corrected", {})[key] = p_value
    for row in rows:
        row.pop("each", None)
    return len(places)


def agreements(judgements: Iterable[QuestionRankings]) -> list[dict[str, Any]]:
    """How alike each two explainers are, on average over questions that both explained."""
    pairs: dict[tuple[str, str], list[tuple[float | None, float]]] = defaultdict(list)
    for found in judgements:
        for one, other in combinations(found, 2):
            pairs[one, other].append(agreement(found[one], found[other]))
    rows = []
    for (one, other), each in pairs.items():
        ranks = [rho for rho, _ in each if rho is not None]
        row: dict[str, Any] = {"one": one, "other": other, "questions": len(each)}
        row["rank_correlation"] = fmean(ranks) if ranks else None
        rows.append(row | {"jaccard": fmean(shared for _, shared in each)})
    return rows


def _same_answer(case: Case) -> bool:
    """Whether the model's self-explanation comes to the answer that is explained."""
    wanted = case.lattice.answer.strip().rstrip(".")
    return case.reading is not None and contains_answer(case.reading.answer, [wanted])


def measure(files: Sequence[Path]) -> dict[str, Any]:
    """Everything that the board shows.

    Args:
        files: tables of ``python -m benchmarks.explanation tables``, each of one model.

    Raises:
        DataError: a table cannot be read.
        EmptyDataError: there is nothing to explain in one.
    """
    tables: dict[str, Any] = {}
    rows: list[dict[str, Any]] = []
    judgements: list[QuestionRankings] = []
    for file in files:
        cases, others = read_cases(file)
        tables[file.stem] = {
            "model": Path(cases[0].lattice.model).name,
            "dataset": file.stem.partition("-")[2],
            "questions": len(cases),
            "left_out": others,
            "readings": sum(case.reading is not None for case in cases),
            "same_answer": sum(map(_same_answer, cases)),
            "least_changing": fmean(least_changing(case) for case in cases),
            "marked": fmean(len(case.lattice.truth) for case in cases),
            "documents": fmean(len(case.lattice.documents) for case in cases),
        }
        with threadpool_limits(1):  # many small matrices, for which threads only wait
            more, found = rows_of(file.stem, cases)
        rows += more
        judgements += found
    sys.stderr.write("testing, and comparing explainers with each other\n")
    comparisons = compared(rows)
    return {
        "benchmark": "leaderboard",
        "budgets": list(BUDGETS),
        "tables": tables,
        "explainers": {
            one.name: {"kind": one.kind, "note": one.note} for one in EXPLAINERS.values()
        },
        "comparisons": comparisons,
        "rows": rows,
        "agreement": agreements(judgements),
    }
