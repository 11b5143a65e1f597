"""Our explainers beside the installed ``context-cite`` package, at equal numbers of model calls.

The model is the nano reader, the questions are those of a generated world, the score that is
explained is the log-probability of what the model wrote. A call is the scoring of that text behind
one subset of the documents; the one generation that wrote it is everybody's and is not counted.
The measures are ContextCite's own (top-k drop of the log-probability, linear datamodeling score on
fresh random subsets) and how well the documents named are those that support the answer.

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
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

from tqdm import tqdm

from benchmarks.explanation_contextcite_cases import SIZES, ContextCite, Question, questions
from rulerag.errors import ProbeBudgetError, RuleRAGError
from rulerag.evaluation.significance import paired_randomization_test
from rulerag.explanation.approximate import CertifiedMiner
from rulerag.explanation.attribution import Attribution, leave_one_out, shapley_values
from rulerag.explanation.certificates import CertifiedRules
from rulerag.explanation.faithfulness import comprehensiveness, linear_datamodeling_score
from rulerag.explanation.guided_surrogate import LOG_MARGIN, guided_surrogate
from rulerag.explanation.surrogate import LinearSurrogate, RuleSurrogate, linear_surrogate
from rulerag.generation.huggingface import HuggingFaceGenerator
from rulerag.io import prepare_folder, write_json, write_text

__all__ = ["BUDGETS", "EXPLAINERS", "MEASURES", "main", "measure", "named_by_gap"]

BUDGETS = (32, 64, 128, 256)
PEER = "context-cite"
OURS = "guided surrogate"
MEASURES = ("drop_1", "drop_2", "drop_3", "drop_5", "lds", "top_truth", "precision", "recall")
_SAMPLES = 128
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
        predict: the score of a subset, up to a constant.
        named: the documents that it names as those that the answer rests on.
        calls: the distinct subsets that were scored.
    """

    ranking: Sequence[int]
    predict: Callable[[int], float]
    named: frozenset[int]
    calls: int


def named_by_gap(values: Sequence[float]) -> frozenset[int]:
    """The sources above the widest gap between two neighbours in the order of their values.

    The same rule for all that give values, since none of them says where to stop.
    """
    order = sorted(range(len(values)), key=lambda i: (-values[i], i))
    gaps = [values[one] - values[other] for one, other in pairwise(order)]
    cut = max(range(len(gaps)), key=lambda i: (gaps[i], -i)) if gaps else 0
    return frozenset(order[: cut + 1])


def _from_values(found: Attribution) -> Found:
    predict = LinearSurrogate(found.values, 0.0)
    return Found(found.ranking, predict, named_by_gap(found.values), found.num_probes)


def _linear(question: Question, calls: int, seed: int) -> Found:
    return _from_values(linear_surrogate(question.engine(calls), float, ablations=calls, seed=seed))


def _shapley(question: Question, calls: int, seed: int) -> Found | None:
    permutations = (calls - 2) // (question.scores.num_sources - 1)
    if permutations < 2:
        return None
    return _from_values(
        shapley_values(question.engine(calls), float, permutations=permutations, seed=seed)
    )


def _leave_one_out(question: Question, calls: int, seed: int) -> Found:
    return _from_values(leave_one_out(question.engine(calls), float))


def _certified(question: Question, calls: int, seed: int) -> Found:
    """Rules of "the text is at least a tenth as probable as with every document"."""
    engine = question.engine(calls)
    least = float(engine.probe([question.scores.full])[0]) - LOG_MARGIN
    try:
        found = CertifiedMiner("retention", seed=seed).mine(engine, lambda t: float(t) >= least)
    except ProbeBudgetError as error:
        if not isinstance(error.partial, CertifiedRules):
            raise
        found = error.partial
    surrogate = RuleSurrogate(found.minimal, engine.names)
    named = frozenset(index for rule in found.minimal for index in rule)
    return Found(surrogate.attribution().ranking, surrogate, named, engine.num_probes)


def _guided(question: Question, calls: int, seed: int) -> Found:
    found = guided_surrogate(
        question.engine(calls), float, probes=calls, margin=LOG_MARGIN, seed=seed
    )
    named = named_by_gap(found.attribution.values)
    return Found(found.removals, found, named, found.attribution.num_probes)


EXPLAINERS: dict[str, Callable[[Question, int, int], Found | None]] = {
    OURS: _guided,
    "linear surrogate": _linear,
    "Shapley": _shapley,
    "certified rules": _certified,
    "leave-one-out": _leave_one_out,
}


def scores(question: Question, found: Found, seed: int) -> dict[str, float]:
    """Every measure of one explanation; what measuring asks of the model is not counted."""
    value, truth = question.scores, question.truth
    hits = len(found.named & truth)
    row = {f"drop_{k}": comprehensiveness(value, found.ranking, k) for k in (1, 2, 3, 5)}
    return row | {
        "lds": linear_datamodeling_score(value, found.predict, samples=_SAMPLES, seed=seed),
        "top_truth": len(frozenset(found.ranking[: len(truth)]) & truth) / len(truth),
        "precision": hits / len(found.named) if found.named else 0.0,
        "recall": hits / len(truth),
        "calls": float(found.calls),
    }


def measure(asked: Sequence[Question], reader: HuggingFaceGenerator) -> dict[str, Any]:
    """Every explainer on every question at every budget.

    Returns:
        ``rows``, one for each budget and explainer, with the mean of each measure and the p-value
        of its difference to ContextCite on the same questions; and ``apart``, the largest
        difference between ContextCite's log-probabilities and ours.
    """
    peer = ContextCite(reader)
    collected: dict[tuple[int, str], dict[int, dict[str, float]]] = {}
    apart = 0.0
    for number, question in enumerate(tqdm(asked, "explaining", unit="question")):
        by_budget, difference = peer.attributions(question, BUDGETS)
        apart = max(apart, difference)
        for calls, weights in by_budget.items():
            found: dict[str, Found | None] = {
                PEER: Found(
                    sorted(range(len(weights)), key=lambda i, w=weights: (-w[i], i)),  # type: ignore[misc]
                    LinearSurrogate(weights, 0.0),
                    named_by_gap(weights),
                    calls,
                )
            }
            found |= {
                name: explain(question, calls, number) for name, explain in EXPLAINERS.items()
            }
            for name, one in found.items():
                if one is not None:
                    row = scores(question, one, number + 10_000)
                    collected.setdefault((calls, name), {})[number] = row
    return {
        "rows": [
            _row(calls, name, rows, collected[calls, PEER])
            for (calls, name), rows in collected.items()
        ],
        "apart": apart,
    }


def _row(
    calls: int,
    name: str,
    rows: dict[int, dict[str, float]],
    peers: dict[int, dict[str, float]],
) -> dict[str, Any]:
    """Means of one explainer at one budget, against the peer on the same questions."""
    row: dict[str, Any] = {"budget": calls, "explainer": name, "questions": len(rows)}
    row |= {key: fmean(one[key] for one in rows.values()) for key in (*MEASURES, "calls")}
    if name != PEER:
        pairs = {
            key: ([rows[n][key] for n in rows], [peers[n][key] for n in rows]) for key in MEASURES
        }
        row["peer_on_the_same"] = {key: fmean(other) for key, (_, other) in pairs.items()}
        row["p_values"] = {key: paired_randomization_test(*pair) for key, pair in pairs.items()}
    return row


def table(result: dict[str, Any]) -> str:
    """The rows in Markdown; bold where ours is above the peer and not by chance."""
    lines = [
        f"{result['questions']} questions with {', '.join(map(str, SIZES))} documents, "
        f"`{result['model']}`, context-cite {result['context_cite']}. Drops in nats; "
        "**bold**: above context-cite on the same questions with p < 0.05 (paired randomization).",
        "",
        "| calls | explainer | questions | " + " | ".join(_HEADINGS.values()) + " | calls used |",
        "| ---: | --- | ---: |" + " ---: |" * (len(_HEADINGS) + 1),
    ]
    for row in result["rows"]:
        cells = []
        for key in MEASURES:
            text = f"{row[key]:.2f}" if key.startswith("drop") else f"{row[key]:.3f}"
            better = (
                row["explainer"] != PEER
                and row[key] > row["peer_on_the_same"][key]
                and row["p_values"][key] < 0.05
            )
            cells.append(f"**{text}**" if better else text)
        head = f"| {row['budget']} | {row['explainer']} | {row['questions']} | "
        lines.append(head + " | ".join(cells) + f" | {row['calls']:.0f} |")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Run everything, print the table, and write it into ``--out``."""
    parser = argparse.ArgumentParser(
        description="Our explainers beside context-cite at equal numbers of model calls.",
        epilog="example: python -m benchmarks.explanation_contextcite --questions 64",
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
        from benchmarks.explanation_plots import plot_budgets

        plot_budgets(result, given.out / "contextcite.png")
    return result


if __name__ == "__main__":
    main()
