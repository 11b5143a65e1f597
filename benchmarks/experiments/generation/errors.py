"""Why answers are wrong: RuleRAG's appendix A.8, computed for every wrong answer.

The paper sorts sixty wrong answers a benchmark by hand. Here each wrong answer has one class:

* retrieval error: no document that the reader saw holds an answer;
* rule failure: one does, but no guiding rule leads to an answer from any document of the corpus;
* attribution error: one does, a rule leads there, and the reader answered something else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.common.results import Result, percent
from rulerag.evaluation import markdown_table

ERRORS = ("rule failure", "retrieval error", "attribution error")
PUBLISHED = {"rule failure": 0.05, "retrieval error": 0.55, "attribution error": 0.40}
SAMPLE = 60
"""Wrong answers a benchmark that the paper looked at."""


def error_classes(result: Result) -> dict[str, Any]:
    """The classes of a row's wrong answers.

    Args:
        result: a row with values ``exact_match``, ``in_documents`` and ``supported``, one a query.

    Returns:
        ``wrong``, how many; ``shares`` of them by class; ``sampled`` the same of sixty drawn by
        seed 0; ``unreachable`` the fraction of retrieval errors for which no rule leads from any
        document to an answer; ``abstained`` the fraction without an answer.
    """
    values = result.values[0]
    wrong = np.flatnonzero(values["exact_match"] == 0)
    seen = values["in_documents"][wrong] > 0
    led = values["supported"][wrong] > 0
    kinds = np.where(~seen, "retrieval error", np.where(led, "attribution error", "rule failure"))
    drawn = np.random.default_rng(0).permutation(len(wrong))[:SAMPLE]

    def shares(chosen: Any) -> dict[str, float]:
        return {kind: round(float(np.mean(chosen == kind)), 4) for kind in ERRORS}

    return {
        "wrong": len(wrong),
        "shares": shares(kinds),
        "sampled": shares(kinds[drawn]),
        "unreachable": round(float(np.mean(~led[~seen])), 4) if (~seen).any() else 0.0,
        "abstained": round(float(np.mean(values["answered"][wrong] == 0)), 4),
    }


def error_table(
    benchmarks: Mapping[str, Mapping[str, Result]], rows: tuple[str, ...]
) -> tuple[str, dict[str, Any]]:
    """Markdown and figures of the classes of some rows.

    Args:
        benchmarks: the rows by benchmark.
        rows: which.
    """
    reach = "retrieval errors out of the rules' reach"
    titles = ["benchmark", "row", "wrong", *ERRORS, reach, "no answer"]
    lines = []
    classes: dict[str, Any] = {}
    for name, results in benchmarks.items():
        for row in (row for row in rows if row in results):
            found = error_classes(results[row])
            classes.setdefault(name, {})[row] = found
            if not found["wrong"]:
                continue
            cells = [name, results[row].title, f"{found['wrong']:,}"]
            cells += [percent(found["shares"][kind]) for kind in ERRORS]
            cells += [percent(found["unreachable"]), percent(found["abstained"])]
            lines.append(cells)
    published = [percent(PUBLISHED[kind]) for kind in ERRORS]
    lines.append(["paper, all five", "RGFT, 60 each", "300", *published, "–", "–"])
    return markdown_table(titles, lines, "ll" + "r" * 6), classes
