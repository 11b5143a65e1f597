"""Learns how the searches of a rule-guided retriever are merged, on queries with known answers.

Every hit of a query's searches is evidence for a candidate answer, ``exp(w · features)``; ``w``
maximises the fraction of all evidence that right candidates get, the mean of its logarithm over the
queries (softmax over candidates, each with many hits), with a quadratic penalty. Use a validation
variant (``rulerag ruleqa build --variant validation``), never test queries. The weights are used by
``retriever.merge=learned retriever.weights=FILE``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from tqdm import tqdm

from rulerag.arrays import Doubles, Longs
from rulerag.assembly import experiment, make_retriever, make_selector, open_dataset
from rulerag.composition import Config, innermost
from rulerag.console import guarded
from rulerag.errors import EmptyDataError
from rulerag.evaluation import AnswerMatcher
from rulerag.io import check_output, read_json
from rulerag.retrieval.guided import RuleGuidedRetriever
from rulerag.retrieval.guided.merging import (
    FEATURES,
    DiversifiedRetriever,
    LearnedMerger,
    MergeWeights,
    SearchHits,
    check_rows,
)
from rulerag.ruleqa import RuleQADataset
from rulerag.types import Query

START = {"confidence": 1.0, "share": 8.0}
"""Where the weights begin, and what the penalty draws them to: plain evidence merging."""
_FOLDS = 4
_STEPS = 150


class Example(NamedTuple):
    """A query's hits, n of them, about c candidates.

    Args:
        features: shape (n, number of features).
        candidate: shape (n,), from 0.
        right: shape (c,), whether a document of the candidate holds an answer.
    """

    features: Doubles
    candidate: Longs
    right: npt.NDArray[np.bool_]


def examples_of(
    retriever: RuleGuidedRetriever | DiversifiedRetriever,
    queries: Sequence[Query],
    *,
    progress: bool = False,
) -> list[Example]:
    """The hits of queries that have some.

    Args:
        retriever: its searches are made, as deep as its ``pool``.
        queries: with answers.
        progress: show a progress bar.

    Raises:
        ConfigError: the wrapped retriever cannot answer in rows.
    """
    searcher = check_rows(retriever.retriever, "retriever")
    merger = LearnedMerger(searcher.documents, weights=MergeWeights(START))
    matcher = AnswerMatcher()
    examples: list[Example] = []
    searched = retriever.searches(queries)
    for query, searches in tqdm(searched, "queries", len(queries), disable=not progress):
        hits = SearchHits.of(searches)
        if not len(hits.row):
            continue
        features, candidate = merger.features(query, searches, hits)
        rows, document = np.unique(hits.row, return_inverse=True)
        documents = [searcher.documents[row] for row in rows.tolist()]
        holds = [matcher.first_rank([d], query.answers) is not None for d in documents]
        right = np.zeros(int(candidate.max()) + 1, dtype=bool)
        np.logical_or.at(right, candidate, np.array(holds)[document])
        examples.append(Example(features, candidate, right))
    return examples


def fit(examples: Sequence[Example], *, penalty: float = 1e-3) -> Doubles:
    """The weights, in the order of the features.

    Args:
        examples: queries; those without a right candidate teach nothing.
        penalty: on the squared distance from :data:`START`.

    Raises:
        EmptyDataError: no query has a right candidate.
    """
    able = [one for one in examples if one.right.any()]
    if not able:
        raise EmptyDataError(
            "no query has an answer in what its searches found",
            hint="more queries, or a larger guided.pool",
        )
    sizes = [len(one.right) for one in able]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    features = torch.from_numpy(np.concatenate([one.features for one in able]))
    of_hit = torch.from_numpy(
        np.concatenate([one.candidate + at for one, at in zip(able, starts, strict=False)])
    )
    of_candidate = torch.from_numpy(np.repeat(np.arange(len(able)), sizes))
    right = torch.from_numpy(np.concatenate([one.right for one in able])).double()
    begin = torch.from_numpy(MergeWeights(START).vector)
    weights = begin.clone().requires_grad_()
    optimizer = torch.optim.LBFGS([weights], max_iter=_STEPS, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        scores = (features @ weights).clamp(-60, 60).exp()
        joined = torch.zeros(len(right), dtype=torch.float64).index_add(0, of_hit, scores)
        whole = torch.zeros(len(able), dtype=torch.float64).index_add(0, of_candidate, joined)
        good = torch.zeros(len(able), dtype=torch.float64).index_add(
            0, of_candidate, joined * right
        )
        value = -(good / whole).clamp_min(1e-12).log().mean()
        value = value + penalty * ((weights - begin) ** 2).sum()
        torch.autograd.backward(value)
        return value

    step: Callable[[Callable[[], torch.Tensor]], Any] = optimizer.step
    step(loss)
    learned: Doubles = weights.detach().numpy()
    return learned


def recall_at(examples: Sequence[Example], weights: Doubles, top_k: int = 10) -> float:
    """Fraction of the queries with a right one among the k candidates with most evidence."""
    hits = 0
    for one in examples:
        scores = one.features @ weights
        joined = np.bincount(one.candidate, np.exp(scores - scores.max()), minlength=len(one.right))
        hits += bool(one.right[np.argsort(-joined, kind="stable")[:top_k]].any())
    return hits / max(1, len(examples))


def learn_merge_weights(
    config: Config,
    dataset: RuleQADataset,
    *,
    query_set: str = "balanced",
    progress: bool = False,
) -> MergeWeights:
    """Learn the weights of an experiment's merging.

    Args:
        config: an experiment with rule-guided or pooled retrieval; how it merges does not matter.
        dataset: a validation variant, or any dataset whose queries may be learned from.
        query_set: which of its queries.
        progress: show progress.

    Raises:
        ConfigError: the experiment's retrieval is neither.
        EmptyDataError: no query is left that the encoder was not fine-tuned on, or none has an
            answer in what its searches found.
        DataError: the encoder was fine-tuned on a dataset that is not here.
    """
    changed = _unlearned(config)
    retriever = make_retriever(changed, dataset, make_selector(changed, dataset.rules))
    assert isinstance(retriever, RuleGuidedRetriever | DiversifiedRetriever)  # noqa: S101  (by its type)
    seen = {_question(query) for query in fine_tuning_queries(changed)}
    queries = [q for q in dataset.query_set(query_set) if _question(q) not in seen]
    if not queries:
        raise EmptyDataError(
            f"the encoder was fine-tuned on every query of {query_set!r}",
            hint="take another query set, or an encoder fine-tuned on others",
        )
    examples = examples_of(retriever, queries, progress=progress)
    weights = fit(examples)
    about: dict[str, Any] = {
        "dataset": dataset.name,
        "dataset_fingerprint": dataset.fingerprint,
        "query_set": query_set,
        "queries": len(examples),
        "queries_of_fine_tuning": len(seen),
        "candidates_hold_an_answer": round(float(np.mean([a.right.any() for a in examples])), 4),
        "recall@10 at the start": round(recall_at(examples, MergeWeights(START).vector), 4),
        "recall@10 cross-validated": round(_cross_validated(examples), 4),
    }
    rounded = {name: round(float(w), 4) for name, w in zip(FEATURES, weights, strict=True)}
    return MergeWeights(rounded, about)


def _unlearned(config: Config) -> Config:
    """The experiment with plain evidence merging."""
    settings = config.to_dict()
    section = settings["retriever"]
    if section["type"] not in ("guided", "pooled"):
        raise config.error(
            f"{section['type']} merges no searches",
            "retriever.type",
            hint="an experiment with guided or pooled retrieval",
        )
    section["weights"] = None
    if section["type"] == "guided":
        section["merge"] = "evidence"
    return Config(settings, source=config.source)


def fine_tuning_queries(config: Config) -> list[Query]:
    """The queries that an experiment's query encoder was fine-tuned on; none where it was not.

    Weights learned on them would trust the encoder as far as it remembers.

    Raises:
        DataError: the dataset of the fine-tuning is not here.
    """
    encoder = innermost(config.section("retriever")).get("query_encoder")
    record = Path(str(encoder)) / "run" / "settings.json"
    if not encoder or not record.exists():
        return []
    stated = read_json(record)["dataset"]
    return RuleQADataset.load(stated["path"]).query_set(stated["split"])


def _question(query: Query) -> tuple[str, str, int | None]:
    return query.subject, query.relation, query.timestamp


def _cross_validated(examples: Sequence[Example]) -> float:
    fold = np.random.default_rng(0).permutation(len(examples)) % _FOLDS
    total = 0.0
    for number in range(_FOLDS):
        rest = [one for one, f in zip(examples, fold, strict=True) if f != number]
        part = [one for one, f in zip(examples, fold, strict=True) if f == number]
        if part and any(one.right.any() for one in rest):
            total += recall_at(part, fit(rest)) * len(part)
    return total / max(1, len(examples))


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m training.merging",
        description="Learns how the searches of rule-guided retrieval are merged.",
        epilog="example: python -m training.merging bm25-guided__symbolic "
        "--dataset runs/validation --out weights.json",
    )
    parser.add_argument("method", help="a method or a file with rule-guided or pooled retrieval")
    parser.add_argument("changes", nargs="*", metavar="key=value", help="changes of it")
    parser.add_argument("--dataset", type=Path, help="the dataset folder (a file states its own)")
    parser.add_argument("--out", type=Path, required=True, help="the file to write")
    parser.add_argument("--query-set", default="balanced", help="whose queries")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    given = parser.parse_intermixed_args(argv)

    def work() -> None:
        check_output(given.out)
        config = experiment(given.method, given.changes, dataset=given.dataset)
        weights = learn_merge_weights(
            config,
            open_dataset(config),
            query_set=given.query_set,
            progress=not given.quiet,
        )
        weights.save(given.out)
        about = weights.about
        sys.stdout.write(
            f"recall@10 of candidates on {about['queries']:,} queries: "
            f"{100 * about['recall@10 at the start']:.1f} before, "
            f"{100 * about['recall@10 cross-validated']:.1f} cross-validated, "
            f"{100 * about['candidates_hold_an_answer']:.1f} at most; written to {given.out}\n"
        )

    return guarded(work)


if __name__ == "__main__":
    sys.exit(main())
