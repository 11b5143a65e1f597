"""Train the small model that says which documents to try first, and count the probes that it saves.

``python -m training.proposer runs/ruleqa-i runs/ruleqa-n --unseen runs/ruleqa-f runs/ruleqa-y
--lattices runs/lattices/*.jsonl --out benchmarks/results/proposer``. It learns from the minimal
sets found for F_G questions of the first datasets (30 documents of BM25, the symbolic reader), and
is tried on test questions of these and of the unseen ones, and on the tables of
``benchmarks.explanation.lattices``, whose answers are those of language models. Sets and probes are
those of :class:`~rulerag.explanation.source_rules.BorderSearch`; whatever comes first, it finds the
same sets, which is checked. Questions whose answer does not stand with more documents are left out:
there the order of the questions decides which sets are met.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from tqdm import tqdm

from benchmarks.explanation.lattices import Lattice, read_lattices
from rulerag import BM25Retriever, ProbeEngine, RuleQADataset, SymbolicReader
from rulerag.console import guarded
from rulerag.evaluation import holm, markdown_table, paired_randomization_test
from rulerag.explanation.attribution import LOG_MARGIN
from rulerag.explanation.lattice import mask_of
from rulerag.explanation.levels import Priors
from rulerag.explanation.levels.priors import by_rank
from rulerag.explanation.levels.proposer import WEIGHTS, expected_weights, signs_of
from rulerag.explanation.probing import matches_answer
from rulerag.explanation.source_rules import BorderSearch, CoarseToFine, RuleOracle
from rulerag.io import prepare_folder, write_json, write_text
from rulerag.types import GenerationRequest

_DOCUMENTS, _RULES, _MOST_PROBES, _MAX_SIZE = 30, 8, 400, 10
_ARMS = ("as given", "rank", "words of the claim", "mixture", "learned", "mixture, learned")


@dataclass(frozen=True)
class Case:
    """A question whose minimal sets are known.

    Args:
        question: in words.
        claim: the answer.
        texts: of the documents.
        scores: of the retriever; None where the documents have no order.
        sets: the masks of all minimal sets that are enough.
    """

    question: str
    claim: str
    texts: tuple[str, ...]
    scores: tuple[float, ...] | None
    sets: tuple[int, ...]


def ruleqa_cases(folder: Path, split: str, number: int) -> Iterator[Case]:
    """Questions of a dataset with the sets that decide what the symbolic reader says."""
    dataset = RuleQADataset.load(folder)
    asked = list(dataset.queries[split])
    random.Random(0).shuffle(asked)
    retriever = BM25Retriever(dataset.corpus)
    reader = SymbolicReader(labels=dataset.labels["entities"])
    asked = asked[:number]
    found = zip(asked, retriever.retrieve(asked, top_k=_DOCUMENTS), strict=True)
    for query, hits in tqdm(found, f"{folder.name} {split}", total=len(asked), unit="question"):
        rules = tuple(dataset.rules.for_head(query.relation))[:_RULES]
        request = GenerationRequest(query, tuple(hit.document for hit in hits), rules)
        answer = reader.generate([request])[0].text
        if not answer:
            continue
        engine = ProbeEngine.from_generator(reader, request)
        oracle = RuleOracle("retention", engine, matches_answer(answer))
        search = BorderSearch(oracle, max_size=_MAX_SIZE, max_probes=_MOST_PROBES, seed=0)
        search.run()
        if search.complete and oracle.monotone and search.found and 0 not in search.found:
            texts = tuple(hit.document.text for hit in hits)
            scores = tuple(hit.score for hit in hits)
            yield Case(query.text, answer, texts, scores, tuple(search.found))


def lattice_cases(file: Path) -> Iterator[Case]:
    """Questions of a table: what keeps a tenth of the answer's probability, with more as well."""
    for lattice in read_lattices(file):
        sets = minimal_sets(lattice)
        if sets and 0 not in sets:
            count = len(lattice.documents)
            ranked = "ruleqa" in file.stem  # those of HotpotQA stand in no order of merit
            scores = tuple(float(count - n) for n in range(count)) if ranked else None
            answer = lattice.answer.strip().rstrip(".")
            yield Case(lattice.question, answer, lattice.documents, scores, tuple(sets))


def minimal_sets(lattice: Lattice) -> list[int]:
    """The masks of the minimal valid retention rules of a table."""
    count = len(lattice.documents)
    least = lattice.values[-1] - LOG_MARGIN
    valid = [value >= least for value in lattice.values]
    for mask in reversed(range(1 << count)):
        above = (mask | 1 << i for i in range(count))
        valid[mask] = valid[mask] and all(valid[one] for one in above if one != mask)
    below = {m: [m ^ 1 << i for i in range(count) if m >> i & 1] for m in range(1 << count)}
    return [m for m in range(1 << count) if valid[m] and not any(valid[b] for b in below[m])]


def fitted(cases: Sequence[Case], scored: bool) -> list[float]:
    """The coefficients of the signs, and behind them the bias."""
    from sklearn.linear_model import LogisticRegression

    rows, labels = [], list[int]()
    for case in cases:
        rows.append(
            signs_of(case.question, case.claim, case.texts, case.scores if scored else None)
        )
        deciding = np.bitwise_or.reduce(np.array(case.sets, dtype=object))
        labels += [deciding >> n & 1 for n in range(len(case.texts))]
    table = np.concatenate(rows)
    middle, spread = table.mean(axis=0), table.std(axis=0)
    spread[spread == 0] = 1.0
    model = LogisticRegression(max_iter=2000).fit((table - middle) / spread, labels)
    weights = model.coef_[0] / spread
    return [*weights.tolist(), float(model.intercept_[0] - weights @ middle)]


def ordered(arm: str, case: Case) -> list[float] | None:
    """How often an arm expects each document; None for all alike."""
    signs = [] if case.scores is None else [list(case.scores)]
    learned = expected_weights(case.question, case.claim, case.texts, case.scores)
    said = signs_of(case.question, case.claim, case.texts)[:, 0]
    mixture = Priors(case.texts, signs).weights(case.claim) or [1.0] * len(case.texts)
    ways: dict[str, Callable[[], list[float] | None]] = {
        "as given": lambda: None,
        "rank": lambda: by_rank(case.scores) if case.scores else None,
        "words of the claim": lambda: by_rank(said.tolist()),
        "mixture": lambda: mixture,
        "learned": lambda: learned,
        "mixture, learned": lambda: [(a + b) / 2 for a, b in zip(mixture, learned, strict=True)],
    }
    return ways[arm]()


def probes(case: Case, weights: Sequence[float] | None) -> tuple[int, int]:
    """Probes until the first set is known, and until all are and there is no other."""
    oracle_engine = ProbeEngine.from_function(
        lambda batch: [str(any(s & ~mask_of(kept) == 0 for s in case.sets)) for kept in batch],
        num_sources=len(case.texts),
    )
    oracle = RuleOracle("retention", oracle_engine, lambda text: text == "True")
    first = list[int]()
    search = BorderSearch(
        oracle,
        max_size=_MAX_SIZE,
        max_probes=10 * _MOST_PROBES,
        seed=0,
        on_found=lambda: first.append(oracle.num_probes),
        shrink=CoarseToFine((), weights),
    )
    search.run()
    if set(search.found) != set(case.sets):
        raise AssertionError(f"another order found other sets for {case.question!r}")
    return first[0], oracle.num_probes


def compared(groups: dict[str, list[Case]]) -> list[dict[str, Any]]:
    """Mean probes of every arm in every group, with p-values of the learned ones beside each."""
    rows, pairs = [], []
    for name, cases in groups.items():
        counted = {arm: [probes(case, ordered(arm, case)) for case in cases] for arm in _ARMS}
        row: dict[str, Any] = {"questions": name, "number": len(cases), "first": {}, "all": {}}
        for arm, found in counted.items():
            row["first"][arm] = fmean(one for one, _ in found)
            row["all"][arm] = fmean(one for _, one in found)
        row["p_values"] = {}
        ours = [float(one) for _, one in counted["learned"]]
        for arm in ("rank", "words of the claim", "mixture"):
            theirs = [float(one) for _, one in counted[arm]]
            row["p_values"][arm] = paired_randomization_test(ours, theirs, samples=20_000)
            pairs.append((row["p_values"], arm))
        rows.append(row)
    for (told, arm), p in zip(pairs, holm([told[arm] for told, arm in pairs]), strict=True):
        told[arm] = p
    return rows


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The rows in Markdown."""
    cells = [
        [row["questions"], str(row["number"]), part]
        + [f"{row[part][arm]:.1f}" for arm in _ARMS]
        + [f"{p:.3f}" if part == "all" else "" for p in row["p_values"].values()]
        for row in rows
        for part in ("first", "all")
    ]
    head = ["questions", "number", "probes until", *_ARMS]
    head += [f"p, learned and {arm}" for arm in ("rank", "words", "mixture")]
    return markdown_table(head, cells)


def run(
    datasets: Sequence[Path],
    unseen: Sequence[Path],
    lattices: Sequence[Path],
    out: Path | None,
    number: int,
) -> None:
    """Train, write the weights into the library, and compare.

    Args:
        datasets: to learn from F_G of, and to try on test questions of.
        unseen: to try on only.
        lattices: tables to try on.
        out: the folder of ``proposer.json`` and ``proposer.md``.
        number: questions of each dataset and split.
    """
    learned = [case for folder in datasets for case in ruleqa_cases(folder, "f_g", number)]
    weights = {"words": fitted(learned, False), "scores": fitted(learned, True)}
    rounded = {key: [float(f"{one:.4g}") for one in row] for key, row in weights.items()}
    write_json(WEIGHTS, rounded)
    groups = {
        f"{folder.name} test": list(ruleqa_cases(folder, "test", number))
        for folder in (*datasets, *unseen)
    }
    groups |= {file.stem: list(lattice_cases(file)) for file in lattices}
    rows = compared({name: cases for name, cases in groups.items() if cases})
    text = table(rows)
    sys.stdout.write(text)
    if out is not None:
        figures = {"learned_from": len(learned), "weights": rounded, "rows": rows}
        write_json(prepare_folder(out) / "proposer.json", figures)
        write_text(out / "proposer.md", text)


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m training.proposer",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("datasets", type=Path, nargs="+", help="to learn from and to try on")
    parser.add_argument("--unseen", type=Path, nargs="*", default=[], help="to try on only")
    parser.add_argument("--lattices", type=Path, nargs="*", default=[], help="tables to try on")
    parser.add_argument("--out", type=Path, help="the folder of the figures")
    parser.add_argument("--questions", type=int, default=60, help="of each dataset and split (60)")
    given = parser.parse_args(argv)
    return guarded(
        lambda: run(given.datasets, given.unseen, given.lattices, given.out, given.questions)
    )


if __name__ == "__main__":
    sys.exit(main())
