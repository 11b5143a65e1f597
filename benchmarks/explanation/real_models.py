"""Our explainers beside ``context-cite`` on real models, from tables of all subsets.

``python -m benchmarks.explanation.lattices`` asks a model once for the log-probability of an answer
behind every subset of eight documents; here every explainer reads from that table, so that all of
them explain the same numbers. A call is the reading of one distinct subset. ContextCite's ablations
and its regression are the installed package's own functions, on the seeds that it takes; a test
runs the whole package, the model included, and finds the same weights.

Measures are those of ``contextcite``. The LDS of an explainer is taken on the subsets that neither
it nor context-cite asked, and context-cite's on the same ones stands beside it. The kernel
surrogate was designed on the first questions of SmolLM2, which are left out (``DESIGN``).

References:
    Cohen-Wang et al. 2024 (ContextCite, arXiv:2409.00729), section 4; version 0.0.4 of the package.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from tqdm import tqdm

from benchmarks.explanation.contextcite import Found, correct, explained_by, named_by_gap
from benchmarks.explanation.contextcite_cases import Cited, Question, context_cite
from benchmarks.explanation.lattices import Lattice, read_lattices
from rulerag.console import guarded
from rulerag.evaluation import markdown_table, paired_randomization_test
from rulerag.explanation.attribution import LinearSurrogate
from rulerag.explanation.faithfulness import comprehensiveness, linear_datamodeling_score
from rulerag.explanation.lattice import mask_of
from rulerag.explanation.probing import SetValue
from rulerag.io import prepare_folder, write_json, write_text
from rulerag.types import Document, GenerationRequest, Query

BUDGETS = (16, 32, 64, 128)
PEER = "context-cite"
EXPLAINERS = ("kernel", "guided", "shapley")
MEASURES = ("drop_1", "drop_2", "drop_3", "drop_5", "lds", "top_truth", "precision", "recall")
DESIGN = {"smollm2-ruleqa-i": 10, "smollm2-hotpotqa": 10}
"""So many first questions of these tables were looked at while the kernel surrogate was made."""

_REPEATED = 2  # ablations of ContextCite for each call allowed, at most
_SWAPS = 100_000
_NEVER_ONE = -1e-6  # the largest log-probability: of a probability of 1 there is no logit


def cited(lattice: Lattice, calls: int) -> Cited:
    """What ContextCite says of a table from so many distinct ablations."""
    return cited_from(lattice.scores(), lattice.tokens, calls)


def cited_from(scores: SetValue, tokens: int, calls: int) -> Cited:
    """What ContextCite says from so many distinct ablations, drawn with repetition.

    Args:
        scores: the log-probability of the response for subsets of the sources.
        tokens: of the response.
        calls: how many distinct subsets it may ask.

    Raises:
        MissingDependencyError: ``context-cite`` is not installed.
    """
    package, count = context_cite(), scores.num_sources
    ablations: list[int] = []
    known: set[int] = set()
    for seed in range(_REPEATED * calls):
        kept = package.utils._create_mask(count, 0.5, seed)
        mask = mask_of(np.flatnonzero(kept).tolist())
        if len(known | {mask}) > calls:
            break
        known.add(mask)
        ablations.append(mask)
    logs = np.minimum(scores(ablations), _NEVER_ONE)
    logits = logs - np.log(-np.expm1(logs))
    kept = np.array([[mask >> i & 1 for i in range(count)] for mask in ablations], dtype=bool)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its LASSO on flat scores
        weights, _ = package.solver.LassoRegression().fit(kept, logits, tokens)
    return Cited(tuple(map(float, weights)), tuple(ablations))


def question_of(lattice: Lattice) -> Question:
    """A lattice as what the explainers are run on."""
    documents = tuple(Document(str(n), text) for n, text in enumerate(lattice.documents))
    request = GenerationRequest(Query(lattice.id, lattice.question), documents)
    return Question(request, lattice.answer, frozenset(lattice.truth), lattice.scores())


def measured(question: Question, found: Found, peer: Found) -> dict[str, float]:
    """Every measure of one explanation, and the LDS of the peer on the same subsets."""
    value, truth = question.scores, question.truth
    hits, asked = len(found.named & truth), found.asked | peer.asked
    row = {f"drop_{k}": comprehensiveness(value, found.removals, k) for k in (1, 2, 3, 5)}
    every = 1 << value.num_sources
    for key, one in (("lds", found), ("peer_lds", peer)):
        row[key] = linear_datamodeling_score(value, one.predict, samples=every, asked=asked)
    return row | {
        "top_truth": len(frozenset(found.ranking[: len(truth)]) & truth) / len(truth),
        "precision": hits / len(found.named) if found.named else 0.0,
        "recall": hits / len(truth),
        "calls": float(len(found.asked)),
    }


def rows_of(name: str, lattices: Sequence[Lattice]) -> list[dict[str, Any]]:
    """Means of every explainer at every budget on one table's questions, with p-values."""
    collected: dict[tuple[int, str], list[dict[str, float]]] = {}
    for number, lattice in enumerate(tqdm(lattices, name, unit="question")):
        question = question_of(lattice)
        for calls in BUDGETS:
            one = cited(lattice, calls)
            ranking = sorted(range(len(one.weights)), key=lambda i: (-one.weights[i], i))
            predict = LinearSurrogate(one.weights, 0.0)
            peer = Found(ranking, ranking, predict, named_by_gap(one.weights), one.asked)
            said = {PEER: peer}
            for method in EXPLAINERS:
                ours = explained_by(method, question, calls, number)
                if ours is not None:
                    said[method] = ours
            for method, ours in said.items():
                collected.setdefault((calls, method), []).append(measured(question, ours, peer))
    found = []
    for (calls, method), rows in collected.items():
        row: dict[str, Any] = {"table": name, "budget": calls, "explainer": method}
        row |= {"questions": len(rows)} | {key: fmean(r[key] for r in rows) for key in rows[0]}
        if method != PEER:
            peers = collected[calls, PEER]
            pairs = {key: ([r[key] for r in rows], [p[key] for p in peers]) for key in MEASURES}
            pairs["lds"] = (pairs["lds"][0], [r["peer_lds"] for r in rows])
            row["peer_on_the_same"] = {key: fmean(other) for key, (_, other) in pairs.items()}
            row["p_values"] = {
                key: paired_randomization_test(*pair, samples=_SWAPS) for key, pair in pairs.items()
            }
        found.append(row)
    return found


def table(result: dict[str, Any]) -> str:
    """The rows in Markdown, with what is above and what is below the peer beyond chance."""
    lines = [
        f"Eight documents, all 256 subsets asked once; context-cite {result['context_cite']}. "
        "Drops in nats. **Bold**: above context-cite on the same questions, _italic_: below it, "
        "with p < 0.05 (paired randomization, corrected by Holm for all "
        f"{result['comparisons']} comparisons of these tables); all else is within chance. LDS on "
        "the subsets that neither the explainer nor context-cite asked; behind the stroke "
        "context-cite's on the same ones.",
        "",
        _tally(result["rows"]),
    ]
    head = ["calls", "explainer", "drop, k=1", "k=2", "k=3", "k=5", "LDS", "truth on top"]
    head += ["precision", "recall", "calls used"]
    for name, about in result["tables"].items():
        cells = [
            [str(row["budget"]), row["explainer"]]
            + [_cell(row, key) for key in MEASURES]
            + [f"{row['calls']:.0f}"]
            for row in result["rows"]
            if row["table"] == name
        ]
        lines += ["", f"## {name}: {about['questions']} questions, `{about['model']}`", ""]
        lines.append(markdown_table(head, cells).rstrip())
    return "\n".join(lines) + "\n"


def _tally(rows: Sequence[dict[str, Any]]) -> str:
    """How often the first explainer is above, level and below."""
    ours = [row for row in rows if row["explainer"] == EXPLAINERS[0]]
    counts = {"above": 0, "below": 0, "higher": 0, "lower": 0, "equal": 0}
    for row in ours:
        for key in MEASURES:
            difference = row[key] - row["peer_on_the_same"][key]
            counts["higher" if difference > 0 else "lower" if difference < 0 else "equal"] += 1
            if row["p_corrected"][key] < 0.05:
                counts["above" if difference > 0 else "below"] += 1
    return (
        f"`{EXPLAINERS[0]}` beside context-cite in {len(ours) * len(MEASURES)} cells: the mean is "
        f"higher in {counts['higher']}, equal in {counts['equal']}, lower in {counts['lower']}; "
        f"beyond chance it is above in {counts['above']} and below in {counts['below']}."
    )


def _cell(row: dict[str, Any], key: str) -> str:
    text = f"{row[key]:.2f}" if key.startswith("drop") else f"{row[key]:.3f}"
    if row["explainer"] == PEER:
        return text
    if row["p_corrected"][key] < 0.05:
        text = f"**{text}**" if row[key] > row["peer_on_the_same"][key] else f"_{text}_"
    return f"{text} / {row['peer_lds']:.3f}" if key == "lds" else text


def run(files: Sequence[Path], out: Path | None) -> dict[str, Any]:
    """Measure every table, print the figures, and write them.

    Args:
        files: of ``python -m benchmarks.explanation.lattices``.
        out: the folder of ``real_models.json`` and ``real_models.md``.
    """
    tables: dict[str, Any] = {}
    rows: list[dict[str, Any]] = []
    for file in files:
        every = read_lattices(file)
        lattices = every[DESIGN.get(file.stem, 0) :]
        rows += rows_of(file.stem, lattices)
        tables[file.stem] = {"model": every[0].model, "questions": len(lattices)}
    result: dict[str, Any] = {
        "benchmark": "explanation-real-models",
        "context_cite": importlib.metadata.version("context-cite"),
        "tables": tables,
        "comparisons": correct(rows),
        "rows": rows,
    }
    text = table(result)
    sys.stdout.write(text)
    if out is not None:
        write_json(prepare_folder(out) / "real_models.json", result)
        write_text(out / "real_models.md", text)
    return result


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.explanation.real_models",
        description="Our explainers beside context-cite, from tables of all subsets.",
        epilog="example: python -m benchmarks.explanation.real_models runs/lattices/*.jsonl "
        "--out benchmarks/results/explanations",
    )
    parser.add_argument("files", type=Path, nargs="+", help="tables that lattices made")
    parser.add_argument("--out", type=Path, help="the folder of the figures")
    given = parser.parse_args(argv)
    return guarded(lambda: run(given.files, given.out))


if __name__ == "__main__":
    sys.exit(main())
