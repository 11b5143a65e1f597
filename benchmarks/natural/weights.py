"""What each sign of a relation counts: learned from validation questions, and told by others.

A conditional logit (McFadden 1974) over what a question may ask: questions worded by hand, by the
seen half of the templates with the label's words or with every second synonym, for the object and
the subject, and MetaQA's one-hop questions that settings are chosen on. Every benchmark counts
alike. *left out*: the weights are learned without the benchmark that is asked, so that they have
to hold for other graphs; the linker has those of all.

    python -m benchmarks.natural.weights runs/val/ruleqa-i … --encoder all-minilm-l6-v2 --out
    benchmarks/results/linking
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize

from benchmarks.common.folders import data_folder
from benchmarks.linking import metaqa
from benchmarks.linking.study import cases, sample
from benchmarks.natural.rewriting import natural_dataset
from benchmarks.natural.study import drawn
from rulerag.console import guarded
from rulerag.evaluation import markdown_table
from rulerag.io import write_json, write_text
from rulerag.linking import INVERSE, QuestionLinker
from rulerag.linking.relations import Doubles, weights_of
from rulerag.retrieval.dense.encoders import load_encoder
from rulerag.ruleqa import RuleQADataset
from rulerag.rules import RuleBank

_SEED, _RIDGE, _QUERIES = 3, 0.005, 60
_SHARES = {"by hand": 1.0, "worded": 0.5, "synonyms": 0.5, "metaqa": 1.0}
"""What the kinds of questions of a benchmark count."""
METAQA = "metaqa"


@dataclass(frozen=True)
class SignedQuestion:
    """A question, and what speaks for each thing that it may ask.

    Args:
        kind: of question, one of :data:`_SHARES`.
        asked: the relations, from either end.
        signs: shape (relations, signs).
        meant: what it asks.
    """

    kind: str
    asked: Sequence[str]
    signs: Doubles
    meant: str


def questions(dataset: RuleQADataset, size: int) -> Iterator[tuple[str, str, str]]:
    """The kind, the text and the meaning of the validation questions of a benchmark."""
    said = {q.id: q.text for q in natural_dataset(dataset, seed=_SEED).query_set("full")}
    for query in drawn(dataset, "balanced", size, _SEED):
        yield "by hand", said[query.id], query.relation
    queries = sample(dataset, "balanced", _QUERIES, _SEED)
    for variant in ("worded", "synonyms"):
        for end in ("object", "subject"):
            for case in cases(dataset, queries, end, variant, held_out=False, seed=_SEED):
                yield variant, case.text, INVERSE * case.asks_subject + case.relation


def films() -> tuple[RuleQADataset, list[tuple[str, str, str]]]:
    """MetaQA's graph, and the one-hop questions that are looked at while settings are chosen."""
    folder = data_folder() / METAQA
    dataset = metaqa.dataset_of(metaqa.read_facts(folder), RuleBank([]))
    found = []
    for file in ("1hop_dev.txt", "1hop_dev_paraphrased.txt"):
        all_cases = metaqa.read_cases(folder, file, "1hop_dev_types.txt")
        looked_at, _ = metaqa.parted(len(all_cases), 1)
        found += [(METAQA, all_cases[n].text, all_cases[n].path) for n in looked_at]
    return dataset, found


def seen(linker: QuestionLinker, asked: Sequence[tuple[str, str, str]]) -> list[SignedQuestion]:
    """The signs of questions that mention somebody."""
    found = []
    for kind, text, meant in asked:
        _, relations, signs = linker.signs(text)
        if relations:
            found.append(SignedQuestion(kind, relations, signs, meant))
    return found


def learn(benchmarks: Sequence[Sequence[SignedQuestion]]) -> Doubles:
    """The weights under which what is meant is likeliest, every benchmark counting alike."""
    rows: list[Doubles] = []
    meant: list[int] = []
    shares: list[float] = []
    for benchmark in benchmarks:
        usable = [one for one in benchmark if one.meant in one.asked]
        for one in usable:
            alike = sum(other.kind == one.kind for other in usable)
            meant.append(sum(map(len, rows)) + list(one.asked).index(one.meant))
            rows.append(one.signs)
            shares.append(_SHARES[one.kind] / alike)
    signs, weights = np.vstack(rows), np.array(shares)
    scale = signs.std(axis=0) + 1e-9
    signs = signs / scale
    sizes = np.array([len(one) for one in rows])
    starts = np.cumsum([0, *sizes[:-1].tolist()])
    question = np.repeat(np.arange(len(sizes)), sizes)

    def loss(values: Doubles) -> tuple[float, Doubles]:
        scores = signs @ values
        likely = np.exp(scores - np.maximum.reduceat(scores, starts)[question])
        likely /= np.add.reduceat(likely, starts)[question]
        gradient = weights @ signs[meant] - (weights[question] * likely) @ signs
        value = -float(weights @ np.log(likely[meant])) + _RIDGE / 2 * float(values @ values)
        return value, _RIDGE * values - gradient

    found = minimize(loss, np.zeros(signs.shape[1]), jac=True, method="L-BFGS-B")
    return np.asarray(found.x / scale, dtype=np.float64)


def right(benchmark: Sequence[SignedQuestion], weights: Doubles) -> dict[str, dict[str, float]]:
    """By kind of question: shares with what is asked first, and its relation in the first 3."""
    found: dict[str, dict[str, float]] = {}
    for kind in dict.fromkeys(one.kind for one in benchmark):
        first, third, number = 0, 0, 0
        for one in (one for one in benchmark if one.kind == kind):
            scores = one.signs @ weights
            order = [one.asked[n] for n in np.argsort(-scores, kind="stable")]
            relations = list(dict.fromkeys(name.removeprefix(INVERSE) for name in order))
            first += order[0] == one.meant
            third += one.meant.removeprefix(INVERSE) in relations[:3]
            number += 1
        found[kind] = {"all": first / number, "in first 3": third / number, "number": number}
    return found


def _run(arguments: argparse.Namespace) -> None:
    encoder = load_encoder(arguments.encoder) if arguments.encoder else None
    found: dict[str, dict[str, list[SignedQuestion]]] = {"letters": {}, "encoder": {}}
    for folder in (*arguments.datasets, None):
        if folder is None:
            dataset, asked = films()
        else:
            dataset = RuleQADataset.load(folder)
            asked = list(questions(dataset, arguments.questions))
        linker = QuestionLinker(dataset, max_readings=16)
        found["letters"][dataset.name] = seen(linker, asked)
        if encoder is not None:
            found["encoder"][dataset.name] = seen(linker.with_encoder(encoder), asked)
    report: dict[str, Any] = {}
    for linker_name, benchmarks in found.items():
        if not benchmarks:
            continue
        names = list(weights_of(encoder if linker_name == "encoder" else None))
        weights = learn(list(benchmarks.values()))
        report[linker_name] = {
            "weights": dict(zip(names, np.round(weights, 2).tolist(), strict=True)),
            "left out": {
                name: right(one, learn([o for n, o in benchmarks.items() if n != name]))
                for name, one in benchmarks.items()
            },
            "without": {sign: _without(benchmarks, n) for n, sign in enumerate(names)},
        }
    write_json(arguments.out / "weights.json", report)
    write_text(arguments.out / "weights.md", table(report) + "\n")
    sys.stdout.write(table(report) + "\n")


def _without(benchmarks: Mapping[str, Sequence[SignedQuestion]], sign: int) -> dict[str, float]:
    """The share of right questions, by hand or of MetaQA, where a sign is left out as well."""
    less = {
        name: [
            SignedQuestion(s.kind, s.asked, np.delete(s.signs, sign, axis=1), s.meant) for s in one
        ]
        for name, one in benchmarks.items()
    }
    return {
        name: next(iter(right(one, learn([o for n, o in less.items() if n != name])).values()))[
            "all"
        ]
        for name, one in less.items()
    }


def table(report: Mapping[str, Any]) -> str:
    """Markdown: weights, and percent of right questions with weights learned from others."""
    signs = list(dict.fromkeys(name for one in report.values() for name in one["weights"]))
    weights = [
        (linker, *(f"{one['weights'][s]:.2f}" if s in one["weights"] else "" for s in signs))
        for linker, one in report.items()
    ]
    left = [
        (name, kind, linker, f"{row['number']}", f"{100 * row['all']:.1f}",
         f"{100 * row['in first 3']:.1f}")
        for linker, one in report.items()
        for name, kinds in one["left out"].items()
        for kind, row in kinds.items()
    ]  # fmt: skip
    benchmarks = list(next(iter(report.values()))["left out"])
    without = [
        (linker, sign, *(f"{100 * row[name]:.1f}" for name in benchmarks),
         f"{100 * np.mean(list(row.values())):.1f}")
        for linker, one in report.items()
        for sign, row in one["without"].items()
    ]  # fmt: skip
    return "\n\n".join(
        (
            markdown_table(("linker", *signs), weights, "l" + "r" * len(signs)),
            markdown_table(
                ("benchmark left out", "questions", "linker", "number", "all", "in first 3"),
                left,
                "lllrrr",
            ),
            markdown_table(
                ("linker", "without", *benchmarks, "mean"),
                without,
                "ll" + "r" * (len(benchmarks) + 1),
            ),
        )
    )


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.natural.weights",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("datasets", nargs="+", type=Path, help="RuleQA folders, of validation")
    parser.add_argument("--questions", type=int, default=400, help="by hand, of a benchmark")
    parser.add_argument("--encoder", help="a folder or name; letters alone without one")
    parser.add_argument("--out", type=Path, required=True, help="a folder for the figures")
    return guarded(lambda: _run(parser.parse_args(argv)))


if __name__ == "__main__":
    sys.exit(main())
