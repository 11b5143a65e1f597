"""The proofs of missing facts: what is left when they go, and whether answers rest on them."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from tqdm import tqdm

from benchmarks.missing.study import MissingFacts, answered, drawn, measured, over, pipeline_of
from rulerag import explain_answer
from rulerag.arrays import Longs
from rulerag.kg import corpus_facts
from rulerag.kg.grounding import RulePlans, TableIndex, groundings_of
from rulerag.ruleqa import RuleQADataset
from rulerag.rules import Rule, RuleBank
from rulerag.types import Answer, Document, GenerationRequest, Query

SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Of the proofs that are taken away."""
FEW = 5
"""So many documents are read where answers are explained: each of their subsets is tried."""


def proofs(dataset: RuleQADataset, rules: RuleBank, queries: Sequence[Query]) -> list[Longs]:
    """For each question the proofs of its hard answer: corpus rows, shape (p, k), -1 for none."""
    facts, owner = corpus_facts(dataset.corpus)
    index, labels = TableIndex(facts), dataset.labels["entities"]
    plans: dict[str, RulePlans] = {}
    made = []
    for query in queries:
        if query.relation not in plans:
            plans[query.relation] = RulePlans(rules.for_head(query.relation), index)
        found = plans[query.relation].ground(query.subject, query.timestamp)
        names = [facts.entities.names[one] for one in np.unique(found.answer)]
        right = [facts.entities.id(n) for n in names if labels.get(n, n) == query.answers[0]]
        rows = found.rows[np.isin(found.answer, right)]
        made.append(np.where(rows >= 0, owner[rows], -1))
    return made


def without_proofs(
    dataset: RuleQADataset, found: Sequence[Longs], share: float, seed: int = 0
) -> list[Document]:
    """The corpus without the documents that break a share of the proofs of the mean question.

    Documents that proofs need are taken away in a random order, the same for every share.

    Args:
        dataset: whose corpus it is.
        found: of :func:`proofs`.
        share: of the proofs of a question, the mean over the questions that have some.
        seed: of the order.
    """
    some = [rows for rows in found if len(rows)]
    needed = np.unique(np.concatenate([rows.ravel() for rows in some]))
    needed = needed[needed >= 0]
    turn = np.full(len(dataset.corpus) + 1, len(needed))  # -1, the last, is never taken
    turn[needed] = np.random.default_rng(seed).permutation(len(needed))
    broken = np.concatenate([turn[rows].min(axis=1) for rows in some])
    weight = np.concatenate([np.full(len(rows), 1 / len(rows)) for rows in some]) / len(some)
    order = np.argsort(broken)
    reached = int(np.searchsorted(np.cumsum(weight[order]), share - 1e-9))
    last = broken[order][min(reached, len(order) - 1)] if share else -1
    taken = set(needed[turn[needed] <= last].tolist())
    return [one for row, one in enumerate(dataset.corpus) if row not in taken]


def removal(
    facts: MissingFacts, rows: Sequence[Mapping[str, Any]], kept: Mapping[str, Any], most: int
) -> dict[str, list[float]]:
    """Hits@Hard of systems, for each share of the proofs that is taken away.

    Args:
        facts: the datasets.
        rows: the systems.
        kept: for each title what was chosen for it.
        most: how many questions.
    """
    dataset = facts.dataset("incomplete")
    queries = drawn(dataset, most)
    found = proofs(dataset, facts.dataset("complete").rules, queries)
    hits: dict[str, list[float]] = {row["title"]: [] for row in rows}
    for share in SHARES:
        left = over(dataset, without_proofs(dataset, found, share), dataset.rules)
        for row in rows:
            one = kept[row["title"]]
            answers, _ = answered(row, one["choice"], left, queries)
            values = measured(answers, queries, one["inferred"])
            hits[row["title"]].append(float(values["hard"].mean()))
    return hits


def explained(
    facts: MissingFacts, row: Mapping[str, Any], choice: Mapping[str, Any], most: int, asked: int
) -> dict[str, Any]:
    """Whether the minimal sets of documents behind right hard answers are proofs.

    Args:
        facts: the datasets.
        row: a system that reads documents.
        choice: what was chosen for it.
        most: how many right answers are explained.
        asked: how many questions are asked to find them.
    """
    dataset = facts.dataset("incomplete")
    system = pipeline_of(row, choice, dataset, FEW)
    records = system.answer(drawn(dataset, asked))
    right = [one for one in records if one.text == one.query.answers[0]][:most]
    labels = dataset.labels["entities"]
    banks = RuleBank({r.id: r for r in (*facts.dataset("complete").rules, *dataset.rules)}.values())
    made = []
    for record in tqdm(right, row["title"], disable=not sys.stderr.isatty()):
        why = explain_answer(record, system.generator)
        if not why.claims[0].retention:
            continue
        smallest = min(why.claims[0].retention, key=len)
        shown = tuple(record.documents[place].document for place in sorted(smallest))
        guides = tuple(banks.for_head(record.query.relation))
        all_shown = tuple(one.document for one in record.documents)
        few, many = (_leading(record, texts, guides, labels) for texts in (shown, all_shown))
        made.append(
            {
                "question": record.query.text,
                "answer": record.text,
                "documents": [one.text for one in shown],
                "proof": any(len(used) == len(shown) for used in few),
                "holds_proof": bool(few),
                "proof_shown": bool(many),
                "calls": why.num_calls,
            }
        )
    return {"right": len(right), "asked": len(records), "explained": made}


def _leading(
    record: Answer,
    documents: tuple[Document, ...],
    rules: tuple[Rule, ...],
    labels: Mapping[str, str],
) -> list[set[int]]:
    """The places of the documents of each grounding that leads to the hard answer."""
    found = groundings_of(GenerationRequest(record.query, documents, rules)).found
    hard = record.query.answers[0]
    return [set(owners) for _, name, owners, _ in found if labels.get(name, name) == hard]
