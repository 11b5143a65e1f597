"""Training examples from a RuleQA dataset's F_R: a query, or query∘rule, and its documents.

RuleRAG (arXiv:2410.22353, section 3.2) fine-tunes the retriever on pairs of query∘rule and oracle
document; SSFT is the same without rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rulerag.errors import EmptyDataError
from rulerag.retrieval.base import latest_of
from rulerag.retrieval.guided import (
    HeadRelationSelector,
    RulePath,
    append_rule,
    grounds,
)
from rulerag.ruleqa import RuleQADataset
from rulerag.rules import Atom, Rule
from rulerag.types import Document, Query
from training.retriever.settings import RetrieverSettings

Rows = npt.NDArray[np.int64]
Evidence = list[tuple[int, Document]]
"""Documents with their rows of the corpus."""

_BRIDGES = 3
"""Entities in between that a chain is followed through, as in retrieval."""


@dataclass(frozen=True)
class Example:
    """One text to train on.

    Args:
        text: the query, or query∘rule.
        query: the number of its query in :attr:`TrainingData.oracle`.
        positives: int64 array, the corpus rows that may be its positive.
    """

    text: str
    query: int
    positives: Rows


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


def prepare(dataset: RuleQADataset, settings: RetrieverSettings) -> TrainingData:
    """Make the examples of a dataset.

    ``rgft`` makes one example for each guiding rule that has an oracle document of the query,
    with that rule's oracle documents as positives; ``ssft`` one for each query with all of its
    oracle documents; ``mixed`` both, for an encoder that must still read plain queries.

    A rule with several body atoms is searched hop by hop when it guides retrieval
    (:mod:`rulerag.retrieval.guided.chains`), and makes one example for each of these searches: the
    first atom searched for the query's subject, the next about an entity in between that lies on a
    proof.

    Args:
        dataset: with judged queries in the split of the settings and, but for SSFT, rules.
        settings: of the run.

    Raises:
        EmptyDataError: no judged query, or no query has evidence for a rule.
    """
    split, seed, method = settings.dataset.split, settings.seed, settings.data.method
    judged = [query for query in dataset.query_set(split) if dataset.qrels(split).get(query.id)]
    order = np.random.default_rng([seed, 7]).permutation(len(judged))
    size = 0 if settings.validation.split else round(settings.data.tuning_share * len(judged))
    tuned = set(order[:size].tolist())
    few = set(order[size:][: settings.data.num_queries or None].tolist())
    training = [query for n, query in enumerate(judged) if n in few]
    if not training:
        raise EmptyDataError(f"the split {split!r} of {dataset.name!r} has no query to train on")
    selector = None
    if method != "ssft":
        selector = HeadRelationSelector(
            dataset.rules, max_rules=settings.data.max_rules, rank_by=settings.data.rank_by
        )
    examples, oracle = _examples(dataset, split, training, selector, plain=method != "rgft")
    if not examples:
        raise EmptyDataError(
            f"no query of {split!r} in {dataset.name!r} has an oracle document for a guiding rule",
            hint="raise max_rules, or train without rules: method=ssft",
        )
    tuning = [judged[n] for n in sorted(tuned)]
    if settings.validation.split:
        others = dataset.query_set(settings.validation.split)
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
        rows = sorted(row_of[i] for i in dataset.qrels(split)[query.id])
        oracle.append(np.array(rows, dtype=np.int64))
        if plain:
            examples.append(Example(query.text, number, oracle[-1]))
        evidence = [(row, dataset.corpus[row]) for row in rows]
        for rule in rules:
            for text, found in _searches(query, rule, evidence, labels):
                positives = np.array([row for row, _ in found], dtype=np.int64)
                examples.append(Example(text, number, positives))
    return examples, oracle


def _searches(
    query: Query, rule: Rule, evidence: Evidence, labels: dict[str, str]
) -> Iterator[tuple[str, Evidence]]:
    """What a rule is searched with, each text with the evidence that it should find.

    The head's subject is the query's, the head's object an answer; a variable in between may be
    anything (that the fact lies on a whole proof was settled when the judgements were made).
    """
    facts = [fact for _, document in evidence for fact in document.facts]
    named = {name for fact in facts for name in (fact.subject, fact.object)}
    answers = {name for name in named if labels.get(name, name) in query.answers}
    known = {rule.head.subject: {query.subject}, rule.head.object: answers}

    def grounding(atom: Atom, bound: dict[str, set[str]]) -> Evidence:
        may = {**known, **bound}
        return [one for one in evidence if any(grounds(atom, f, may) for f in one[1].facts)]

    if len(rule.body) == 1:
        if found := grounding(rule.body[0], {}):
            yield append_rule(query, rule), found
        return
    path = RulePath(query, rule, beam_width=_BRIDGES)
    for hop in range(len(rule.body)):
        for step in path.steps(hop):
            if found := grounding(rule.body[step.atom], {step.variable: {step.entity}}):
                words = [labels.get(name, name) for name in (query.subject, step.entity)]
                yield append_rule(*path.question(step, (words[0], words[1]))), found
                path.bind(step, [(path.far_ends(step, document), 1.0) for _, document in found])


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
        info=dataset.info,
    )
