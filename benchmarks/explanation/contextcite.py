"""Our explainers beside the installed ``context-cite`` package, at equal numbers of model calls.

The model is the nano reader, the questions are those of a generated world, the score that is
explained is the log-probability of what the model wrote (its logit, by ContextCite). A call is the
scoring of that text behind one subset of the documents; the one generation that wrote it is
everybody's and is not counted, nor is a subset that is scored again. Ours are the functions behind
``rulerag explain --attribution NAME --value log-probability``, with the settings used there.

The measures are ContextCite's own: top-k drop of the log-probability, in the order of removal that
an explainer states, else in that of its values; and the linear datamodeling score, on random
subsets that no explainer of the question asked at that budget. Others tell how well the documents
named are those that support the answer. p-values are corrected over every comparison of the table
(Holm 1979).

References:
    Cohen-Wang et al. 2024 (ContextCite, arXiv:2409.00729), section 4; version 0.0.4 of the package.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

from tqdm import tqdm

from benchmarks.explanation.contextcite_cases import (
    SIZES,
    Cited,
    ContextCite,
    Question,
    questions,
)
from rulerag.errors import ProbeBudgetError, RuleRAGError
from rulerag.evaluation import holm, paired_randomization_test
from rulerag.explanation.attribution import (
    LOG_MARGIN,
    LinearSurrogate,
    attributions,
    rule_surrogate,
)
from rulerag.explanation.faithfulness import (
    comprehensiveness,
    linear_datamodeling_score,
    unasked_subsets,
)
from rulerag.explanation.records import CertifiedRules
from rulerag.explanation.source_rules import CertifiedMiner
from rulerag.generation.huggingface import HuggingFaceGenerator
from rulerag.io import prepare_folder, write_json, write_text

BUDGETS = (32, 64, 128, 256)
PEER = "context-cite"
OURS = "guided surrogate"
MEASURES = ("drop_1", "drop_2", "drop_3", "drop_5", "lds", "top_truth", "precision", "recall")
_SAMPLES = 128
_LEAST = 16  # subsets that nobody asked; with fewer a question has no LDS
_SWAPS = 100_000  # of the tests: fine enough for p-values times the number of comparisons
_HEADINGS = {
    "drop_1": "drop, k=1",
    "drop_2": "k=2",
    "drop_3": "k=3",
    "drop_5": "k=5",
    "lds": "LDS",
    "top_truth": "truth on top",
    "precision": "precision",
    "recall": "recall",
}


@dataclass(frozen=True)
class Found:
    """What an explainer says.

    Args:
        ranking: the documents, the one that counts most first.
        removals: in which order to remove them, so that most is lost: the ranking, but for
            explainers that state an order of removal.
        predict: the score of a subset, up to a constant.
        named: the documents that it names as those that the answer rests on.
        asked: the masks of the subsets that were scored.
    """

    ranking: Sequence[int]
    removals: Sequence[int]
    predict: Callable[[int], float]
    named: frozenset[int]
    asked: frozenset[int]


def named_by_gap(values: Sequence[float]) -> frozenset[int]:
    """The sources above the widest gap between two neighbours in the order of their values.

    The same rule for all that give values, since none of them says where to stop.
    """
    order = sorted(range(len(values)), key=lambda i: (-values[i], i))
    gaps = [values[one] - values[other] for one, other in pairwise(order)]
    cut = max(range(len(gaps)), key=lambda i: (gaps[i], -i)) if gaps else 0
    return frozenset(order[: cut + 1])


def _attributed(
    method: str, question: Question, calls: int, samples: int | None, seed: int
) -> Found:
    """What ``explain_answer`` returns for ``attribution=[method], value="log-probability"``."""
    asked: set[int] = set()
    engine = question.engine(calls, asked)
    (found,), _ = attributions(engine, None, [method], samples=samples, seed=seed)
    removals = found.ranking if found.removals is None else found.removals
    named = named_by_gap(found.values)
    return Found(found.ranking, removals, found.predict, named, frozenset(asked))


def explained_by(method: str, question: Question, calls: int, seed: int) -> Found | None:
    """What a registered explainer says from so many calls; None where it needs more."""
    samples: int | None = calls
    if method == "shapley":
        samples = (calls - 2) // (question.scores.num_sources - 1)
        if samples < 4:  # fewer are refused there, too
            return None
    elif method == "leave-one-out":
        samples = None
    return _attributed(method, question, calls, samples, seed)


def _certified(question: Question, calls: int, seed: int) -> Found:
    """Rules of "the text is at least a tenth as probable as with every document"."""
    asked: set[int] = set()
    engine = question.engine(calls, asked)
    least = float(engine.probe([question.scores.full])[0]) - LOG_MARGIN
    try:
        found = CertifiedMiner("retention", seed=seed).mine(engine, lambda t: float(t) >= least)
    except ProbeBudgetError as error:
        if not isinstance(error.partial, CertifiedRules):
            raise
        found = error.partial
    found_values = rule_surrogate(found.minimal, engine.names)
    named = frozenset(index for rule in found.minimal for index in rule)
    ranking = found_values.ranking
    return Found(ranking, ranking, found_values.predict, named, frozenset(asked))


EXPLAINERS: dict[str, Callable[[Question, int, int], Found | None]] = {
    OURS: partial(explained_by, "guided"),
    "linear surrogate": partial(explained_by, "linear"),
    "Shapley": partial(explained_by, "shapley"),
    "certified rules": _certified,
    "leave-one-out": partial(explained_by, "leave-one-out"),
}


def scores(question: Question, found: Found, asked: frozenset[int], seed: int) -> dict[str, float]:
    """Every measure of one explanation; what measuring asks of the model is not counted.

    Args:
        question: what was explained.
        found: the explanation.
        asked: every subset that this explainer or one beside it asked. Without 16 others there is
            no ``lds``, a score that :func:`keep_comparable` may take away later.
        seed: of the subsets that predictions are tried on.
    """
    value, truth = question.scores, question.truth
    hits = len(found.named & truth)
    row = {f"drop_{k}": comprehensiveness(value, found.removals, k) for k in (1, 2, 3, 5)}
    fresh: dict[str, Any] = {"samples": _SAMPLES, "seed": seed, "asked": asked}
    if len(unasked_subsets(value.num_sources, **fresh)) >= _LEAST:
        row["lds"] = linear_datamodeling_score(value, found.predict, **fresh)
    return row | {
        "top_truth": len(frozenset(found.ranking[: len(truth)]) & truth) / len(truth),
        "precision": hits / len(found.named) if found.named else 0.0,
        "recall": hits / len(truth),
        "calls": float(len(found.asked)),
    }


def measure(asked: Sequence[Question], reader: HuggingFaceGenerator) -> dict[str, Any]:
    """Every explainer on every question at every budget.

    Returns:
        ``rows``, one for each budget and explainer, with the mean of each measure and the p-value
        of its difference to ContextCite on the same questions, as it is and corrected for all
        ``comparisons``; and ``apart``, the largest difference between ContextCite's
        log-probabilities and ours.
    """
    peer = ContextCite(reader)
    collected: dict[tuple[int, str], dict[int, dict[str, float]]] = {}
    apart = 0.0
    for number, question in enumerate(tqdm(asked, "explaining", unit="question")):
        cited, difference = peer.attributions(question, BUDGETS)
        apart = max(apart, difference)
        for calls, one in cited.items():
            found = {PEER: _from_peer(one)} | explained(question, calls, number)
            seen = frozenset[int]().union(*(one.asked for one in found.values()))
            for name, said in found.items():
                row = scores(question, said, seen, number + 10_000)
                collected.setdefault((calls, name), {})[number] = row
    keep_comparable(collected)
    rows = [
        _row(calls, name, rows, collected[calls, PEER]) for (calls, name), rows in collected.items()
    ]
    return {"rows": rows, "comparisons": correct(rows), "apart": apart}


def keep_comparable(collected: dict[tuple[int, str], dict[int, dict[str, float]]]) -> None:
    """Take the LDS from questions that have none at some budget: all budgets have the same ones.

    Args:
        collected: the measures of each question, by budget and explainer.
    """
    lacking = {
        number for rows in collected.values() for number, row in rows.items() if "lds" not in row
    }
    for rows in collected.values():
        for number in lacking & rows.keys():
            rows[number].pop("lds", None)


def explained(question: Question, calls: int, seed: int) -> dict[str, Found]:
    """What each of our explainers says at a budget; those that need more calls are left out."""
    found = {name: explain(question, calls, seed) for name, explain in EXPLAINERS.items()}
    return {name: one for name, one in found.items() if one is not None}


def _from_peer(cited: Cited) -> Found:
    weights = cited.weights
    ranking = sorted(range(len(weights)), key=lambda i: (-weights[i], i))
    predict = LinearSurrogate(weights, 0.0)
    return Found(ranking, ranking, predict, named_by_gap(weights), cited.asked)


def _row(
    calls: int,
    name: str,
    rows: dict[int, dict[str, float]],
    peers: dict[int, dict[str, float]],
) -> dict[str, Any]:
    """Means of one explainer at one budget, against the peer on the same questions."""
    having = {key: [n for n, one in rows.items() if key in one] for key in (*MEASURES, "calls")}
    row: dict[str, Any] = {"budget": calls, "explainer": name, "questions": len(rows)}
    row["lds_questions"] = len(having["lds"])
    row |= {key: fmean(rows[n][key] for n in of) if of else None for key, of in having.items()}
    if name != PEER:
        pairs = {
            key: ([rows[n][key] for n in having[key]], [peers[n][key] for n in having[key]])
            for key in MEASURES
            if having[key]
        }
        row["peer_on_the_same"] = {key: fmean(other) for key, (_, other) in pairs.items()}
        row["p_values"] = {
            key: paired_randomization_test(*pair, samples=_SWAPS) for key, pair in pairs.items()
        }
    return row


def correct(rows: Sequence[dict[str, Any]]) -> int:
    """Add to each row its p-values corrected for all comparisons of all rows; their number."""
    places = [(row, key) for row in rows for key in row.get("p_values", ())]
    adjusted = holm([row["p_values"][key] for row, key in places])
    for (row, key), p_value in zip(places, adjusted, strict=True):
        row.setdefault("p_corrected", {})[key] = p_value
    return len(places)


def table(result: dict[str, Any]) -> str:
    """The rows in Markdown, with what is above and what is below the peer beyond chance."""
    lines = [
        f"{result['questions']} questions with {', '.join(map(str, SIZES))} documents, "
        f"`{result['model']}`, context-cite {result['context_cite']}. Drops in nats. "
        "**Bold**: above context-cite on the same questions, _italic_: below it, with p < 0.05 "
        "(paired randomization, corrected by Holm for all "
        f"{result['comparisons']} comparisons of the table); all else is within chance.",
        "",
        f"LDS on up to {_SAMPLES} random subsets that no explainer of the question asked at that "
        f"budget, over the questions of which {_LEAST} are left at every budget. Calls used: "
        "distinct subsets scored, on average.",
        "",
        "| calls | explainer | questions | "
        + " | ".join(_HEADINGS.values())
        + " | questions with LDS | calls used |",
        "| ---: | --- | ---: |" + " ---: |" * (len(_HEADINGS) + 2),
    ]
    for row in result["rows"]:
        cells = [_cell(row, key) for key in MEASURES]
        head = f"| {row['budget']} | {row['explainer']} | {row['questions']} | "
        tail = f" | {row['lds_questions']} | {row['calls']:.0f} |"
        lines.append(head + " | ".join(cells) + tail)
    return "\n".join(lines) + "\n"


def _cell(row: dict[str, Any], key: str) -> str:
    if row[key] is None:
        return "n/a"
    text = f"{row[key]:.2f}" if key.startswith("drop") else f"{row[key]:.3f}"
    if row["explainer"] == PEER or row["p_corrected"][key] >= 0.05:
        return text
    return f"**{text}**" if row[key] > row["peer_on_the_same"][key] else f"_{text}_"


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Run everything, print the table, and write it into ``--out``."""
    parser = argparse.ArgumentParser(
        description="Our explainers beside context-cite at equal numbers of model calls.",
        epilog="example: python -m benchmarks.explanation.contextcite --questions 64",
    )
    parser.add_argument("--questions", type=int, default=64)
    parser.add_argument("--seed", type=int, default=2, help="of the world and of the documents")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/explanations"))
    given = parser.parse_args(arguments)
    if given.questions < 1:
        parser.error(f"--questions {given.questions} is below 1")
    start = time.perf_counter()
    try:
        prepare_folder(given.out)
        reader = HuggingFaceGenerator(device="cpu", dtype="float32")
        asked = questions(reader, given.questions, seed=given.seed)
        result = {
            "benchmark": "explanation-contextcite",
            "model": "rulerag-nano-llama",
            "fingerprint": reader.fingerprint,
            "context_cite": importlib.metadata.version("context-cite"),
            "seed": given.seed,
            "questions": len(asked),
            "documents": sorted({len(question.request.documents) for question in asked}),
            **measure(asked, reader),
            "seconds": round(time.perf_counter() - start, 1),
        }
    except (RuleRAGError, importlib.metadata.PackageNotFoundError) as error:
        print(error, file=sys.stderr)
        raise SystemExit(2) from None
    text = table(result)
    print(text)
    write_json(given.out / "contextcite.json", result)
    write_text(given.out / "contextcite.md", text)
    if importlib.util.find_spec("matplotlib") is not None:
        from benchmarks.explanation.plots import plot_budgets

        plot_budgets(result, given.out / "contextcite.png")
    return result


if __name__ == "__main__":
    main()
