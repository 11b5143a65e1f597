"""Training examples from a RuleQA dataset's F_R: a query, or query∘rule, and its documents.

RuleRAG (arXiv:2410.22353, section 3.2) fine-tunes the retriever on pairs of query∘rule and oracle
document; SSFT is the same without rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from rulerag.dataset import RuleQADataset
from rulerag.errors import ConfigError, EmptyDataError
from rulerag.evaluation.metrics import AnswerMatcher
from rulerag.retrieval.composition import append_rule
from rulerag.retrieval.grounded import grounds
from rulerag.retrieval.hops import Step, Trail
from rulerag.retrieval.latest import latest_of
from rulerag.retrieval.rule_selection import HeadRelationSelector
from rulerag.rules import Atom, Rule
from rulerag.types import Document, Fact, Query

__all__ = [
    "METHODS",
    "Example",
    "TrainingData",
    "is_evidence",
    "mine_hard_negatives",
    "prepare",
    "with_latest_statements",
]

METHODS = ("rgft", "ssft", "mixed")

Rows = npt.NDArray[np.int64]
_NONE: Rows = np.empty(0, dtype=np.int64)
_BRIDGES = 3
"""Entities in between that a chain is followed through, as in retrieval."""


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
    num_queries: int = 0,
    tuning_split: str = "",
    seed: int = 0,
) -> TrainingData:
    """Make the examples of a dataset.

    ``rgft`` makes one example for each guiding rule that has an oracle document of the query,
    with that rule's oracle documents as positives; ``ssft`` one for each query with all of its
    oracle documents; ``mixed`` both, for an encoder that must still read plain queries.

    A rule with several body atoms is searched hop by hop when it guides retrieval
    (:mod:`rulerag.retrieval.hops`), and makes one example for each of these searches: the first
    atom asked about the query's subject, the next about an entity in between that lies on a proof.

    Args:
        dataset: with judged queries in ``split`` and, but for SSFT, rules.
        method: one of :data:`METHODS`.
        split: whose queries and judgements are used.
        max_rules: guiding rules of one query at most; all when None.
        rank_by: which rules come first.
        tuning_share: share of the queries kept for tuning, drawn by seed.
        num_queries: few-shot: train on so many of the others, drawn by seed; on all when 0.
        tuning_split: the queries to tune on, in an order drawn by seed, instead of that share.
        seed: decides what is kept and what is drawn.

    Raises:
        ConfigError: an unknown method, a share that is none, or a negative number of queries.
        EmptyDataError: no judged query, or no query has evidence for a rule.
    """
    if method not in METHODS:
        raise ConfigError(
            f"unknown method {method!r}", key="method", hint=f"one of {', '.join(METHODS)}"
        )
    if not 0 <= tuning_share < 1:
        raise ConfigError(f"{tuning_share} is no share", key="tuning_share", hint="0.1")
    if num_queries < 0:
        raise ConfigError(f"{num_queries} is negative", key="num_queries", hint="0 for all")
    judged = [query for query in dataset.query_set(split) if dataset.qrels(split).get(query.id)]
    kept = np.random.default_rng([seed, 7]).permutation(len(judged))
    size = 0 if tuning_split else round(tuning_share * len(judged))
    tuned = set(kept[:size].tolist())
    few = set(kept[size:][: num_queries or None].tolist())
    training = [query for n, query in enumerate(judged) if n in few]
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
    tuning = [judged[n] for n in sorted(tuned)]
    if tuning_split:
        others = dataset.query_set(tuning_split)
        order = np.random.default_rng([seed, 8]).permutation(len(others))
        tuning = [others[n] for n in order.tolist()]
    return TrainingData(examples, training, oracle, tuning, selector)


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
    examples: list[Example] = []
    oracle: list[Rows] = []
    guides = selector.select(queries) if selector is not None else [[] for _ in queries]
    for number, (query, rules) in enumerate(zip(queries, guides, strict=True)):
        rows = np.array(sorted(row_of[i] for i in dataset.qrels(split)[query.id]), dtype=np.int64)
        oracle.append(rows)
        if plain:
            examples.append(Example(query.text, number, rows, _NONE))
        answers = frozenset(query.answers)
        evidence = [(row, dataset.corpus[row]) for row in rows.tolist()]
        for rule in rules:
            told = [pair for pair in evidence if _states(pair[1], query, rule, answers, labels)]
            for text, fits in _asked(query, rule, told, answers, labels):
                positives = np.array(fits, dtype=np.int64)
                examples.append(Example(text, number, positives, _NONE))
    return examples, oracle


def _asked(
    query: Query,
    rule: Rule,
    evidence: Sequence[tuple[int, Document]],
    answers: frozenset[str],
    labels: dict[str, str],
) -> Iterator[tuple[str, list[int]]]:
    """The texts that a rule is searched with, each with the rows that it should find."""
    if len(rule.body) == 1:
        if evidence:
            yield append_rule(query, rule), [row for row, _ in evidence]
        return
    trail = Trail(query, rule, bridges=_BRIDGES)
    for hop in range(len(rule.body)):
        for step in trail.steps(hop):
            fits = [
                (row, document)
                for row, document in evidence
                if _grounds_step(document, trail, step, answers, labels)
            ]
            if fits:
                words = [labels.get(name, name) for name in (query.subject, step.entity)]
                yield append_rule(*trail.asked(step, (words[0], words[1]))), [r for r, _ in fits]
                trail.learn(step, [(document, 1.0) for _, document in fits])


def _grounds_step(
    document: Document,
    trail: Trail,
    step: Step,
    answers: frozenset[str],
    labels: dict[str, str],
) -> bool:
    """Whether a document grounds a step's atom and, where it names the answer, names one."""
    atom = trail.rule.body[step.atom]
    for fact in document.facts:
        if grounds(atom, fact, {step.variable: {step.entity}}):
            far = fact.object if atom.subject == step.variable else fact.subject
            if not trail.names_answer(step) or labels.get(far, far) in answers:
                return True
    return False


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


def with_latest_statements(dataset: RuleQADataset, split: str, *more: str) -> RuleQADataset:
    """The dataset with one document of each fact, the latest, and the judgements of one split.

    Of the queries it keeps those of this split and of ``more``.

    A document that is left out is judged by the one that repeats its facts.
    """
    documents = dataset.corpus
    last = latest_of(documents)
    stands = {document.id: documents[last[row]].id for row, document in enumerate(documents)}
    qrels = {
        query: {stands[document]: grade for document, grade in grades.items()}
        for query, grades in dataset.qrels(split).items()
    }
    return RuleQADataset(
        corpus=[documents[place] for place in sorted(set(last))],
        queries={name: dataset.query_set(name) for name in (split, *more)},
        qrels={split: qrels},
        rules=dataset.rules,
        labels=dataset.labels,
        calendar=dataset.calendar,
        name=dataset.name,
        seed=dataset.seed,
    )


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
