"""Training examples from a RuleQA dataset's F_R: a query, or query∘rule, and its documents.

RuleRAG (arXiv:2410.22353, section 3.2) fine-tunes the retriever on pairs of query∘rule and oracle
document; SSFT is the same without rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from rulerag.dataset import RuleQADataset
from rulerag.errors import ConfigError, EmptyDataError
from rulerag.evaluation.metrics import AnswerMatcher
from rulerag.retrieval.composition import append_rule
from rulerag.retrieval.rule_selection import HeadRelationSelector
from rulerag.rules import Atom, Rule
from rulerag.types import Document, Fact, Query

__all__ = ["METHODS", "Example", "TrainingData", "is_evidence", "mine_hard_negatives", "prepare"]

METHODS = ("rgft", "ssft", "mixed")

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Example:
    """One text to train on.

    Args:
        text: the query, or query∘rule.
        query: the number of its query in :attr:`TrainingData.oracle`.
        positives: int64 array, the corpus rows that may be its positive.
        hard: int64 array, corpus rows mined as hard negatives; may be empty.
    """

    text: str
    query: int
    positives: Rows
    hard: Rows


@dataclass(frozen=True)
class TrainingData:
    """Examples, and queries kept for tuning.

    Args:
        examples: what is trained on.
        queries: the training queries.
        oracle: by number of a training query, its oracle documents (corpus rows): none of them is
            ever its negative.
        tuning: queries that are never trained on.
        selector: gives the guiding rules of the tuning queries; None for SSFT.
    """

    examples: list[Example]
    queries: list[Query]
    oracle: list[Rows]
    tuning: list[Query]
    selector: HeadRelationSelector | None


def prepare(
    dataset: RuleQADataset,
    *,
    method: str = "rgft",
    split: str = "f_r",
    max_rules: int | None = 10,
    rank_by: str = "support",
    tuning_share: float = 0.1,
    seed: int = 0,
) -> TrainingData:
    """Make the examples of a dataset.

    ``rgft`` makes one example for each guiding rule that has an oracle document of the query,
    with that rule's oracle documents as positives; ``ssft`` one for each query with all of its
    oracle documents; ``mixed`` both, for an encoder that must still read plain queries.

    Args:
        dataset: with judged queries in ``split`` and, but for SSFT, rules.
        method: one of :data:`METHODS`.
        split: whose queries and judgements are used.
        max_rules: guiding rules of one query at most; all when None.
        rank_by: which rules come first.
        tuning_share: share of the queries kept for tuning, drawn by seed.
        seed: decides the share.

    Raises:
        ConfigError: an unknown method, or a share that is none.
        EmptyDataError: no judged query, or no query has evidence for a rule.
    """
    if method not in METHODS:
        raise ConfigError(
            f"unknown method {method!r}", key="method", hint=f"one of {', '.join(METHODS)}"
        )
    if not 0 <= tuning_share < 1:
        raise ConfigError(f"{tuning_share} is no share", key="tuning_share", hint="0.1")
    judged = [query for query in dataset.query_set(split) if dataset.qrels(split).get(query.id)]
    kept = np.random.default_rng([seed, 7]).permutation(len(judged))
    tuned = set(kept[: round(tuning_share * len(judged))].tolist())
    training = [query for n, query in enumerate(judged) if n not in tuned]
    if not training:
        raise EmptyDataError(f"the split {split!r} of {dataset.name!r} has no query to train on")
    selector = None
    if method != "ssft":
        selector = HeadRelationSelector(dataset.rules, max_rules=max_rules, rank_by=rank_by)
    examples, oracle = _examples(dataset, split, training, selector, plain=method != "rgft")
    if not examples:
        raise EmptyDataError(
            f"no query of {split!r} in {dataset.name!r} has an oracle document for a guiding rule",
            hint="raise max_rules, or train without rules: method=ssft",
        )
    return TrainingData(examples, training, oracle, [judged[n] for n in sorted(tuned)], selector)


def _examples(
    dataset: RuleQADataset,
    split: str,
    queries: Sequence[Query],
    selector: HeadRelationSelector | None,
    *,
    plain: bool,
) -> tuple[list[Example], list[Rows]]:
    row_of = {document.id: row for row, document in enumerate(dataset.corpus)}
    labels = dataset.labels["entities"]
    none = np.empty(0, dtype=np.int64)
    examples: list[Example] = []
    oracle: list[Rows] = []
    guides = selector.select(queries) if selector is not None else [[] for _ in queries]
    for number, (query, rules) in enumerate(zip(queries, guides, strict=True)):
        rows = np.array(sorted(row_of[i] for i in dataset.qrels(split)[query.id]), dtype=np.int64)
        oracle.append(rows)
        if plain:
            examples.append(Example(query.text, number, rows, none))
        answers = frozenset(query.answers)
        for rule in rules:
            fits = [
                row
                for row in rows.tolist()
                if _states(dataset.corpus[row], query, rule, answers, labels)
            ]
            if fits:
                positives = np.array(fits, dtype=np.int64)
                examples.append(Example(append_rule(query, rule), number, positives, none))
    return examples, oracle


def _states(
    document: Document,
    query: Query,
    rule: Rule,
    answers: frozenset[str],
    labels: dict[str, str],
) -> bool:
    return any(
        is_evidence(fact, query, rule, atom, answers, labels)
        for fact in document.facts
        for atom in rule.body
    )


def is_evidence(
    fact: Fact,
    query: Query,
    rule: Rule,
    atom: Atom,
    answers: frozenset[str],
    labels: dict[str, str],
) -> bool:
    """Whether a fact can stand for an atom of a rule's body in a proof of an acceptable answer.

    The head's subject is the query's, the head's object an answer; a variable in between may be
    anything (that the fact lies on a whole proof was settled when the judgements were made).
    """
    if fact.relation != atom.relation:
        return False
    for variable, name in ((atom.subject, fact.subject), (atom.object, fact.object)):
        if variable == rule.head.subject and name != query.subject:
            return False
        if variable == rule.head.object and labels.get(name, name) not in answers:
            return False
        if not variable.startswith("?") and variable != name:
            return False
    return True


def mine_hard_negatives(
    data: TrainingData,
    dataset: RuleQADataset,
    *,
    per_example: int,
    depth: int = 50,
    search: Callable[[Sequence[Query], int], Iterable[Iterable[Document]]] | None = None,
) -> TrainingData:
    """Give each example the best BM25 documents that are neither oracle nor hold an answer.

    Args:
        data: the examples.
        dataset: their corpus.
        per_example: how many each gets at most.
        depth: how many documents are looked at.
        search: another search than BM25: from queries and a depth to documents.

    Raises:
        ConfigError: the counts are below 1.
    """
    if per_example < 1 or depth < per_example:
        raise ConfigError(f"{per_example} of {depth} documents", key="hard_negatives", hint="1")
    row_of = {document.id: row for row, document in enumerate(dataset.corpus)}
    asked = [
        replace(data.queries[e.query], id=f"x{n}", text=e.text) for n, e in enumerate(data.examples)
    ]
    found = (search or _bm25(dataset))(asked, depth)
    matcher = AnswerMatcher()
    examples = []
    for example, documents in zip(data.examples, found, strict=True):
        answers, oracle = (
            data.queries[example.query].answers,
            set(data.oracle[example.query].tolist()),
        )
        hard = [
            row_of[d.id]
            for d in documents
            if row_of[d.id] not in oracle and matcher.first_rank([d], answers) is None
        ]
        examples.append(replace(example, hard=np.array(hard[:per_example], dtype=np.int64)))
    return replace(data, examples=examples)


def _bm25(dataset: RuleQADataset) -> Callable[[Sequence[Query], int], list[list[Document]]]:
    from rulerag.retrieval.bm25 import BM25Retriever

    retriever = BM25Retriever(dataset.corpus)

    def search(queries: Sequence[Query], depth: int) -> list[list[Document]]:
        return [[s.document for s in found] for found in retriever.retrieve(queries, depth)]

    return search
