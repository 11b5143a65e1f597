"""Facts that rules can infer, taken out of a graph and asked for.

As BRINK does (Zhou et al. 2026, arXiv:2508.08344): rules are mined from the complete graph, a fact
that one of them infers is removed, the facts of that proof stay, and the question asks for it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np
from tqdm import tqdm

from rulerag.arrays import Longs
from rulerag.errors import EmptyDataError
from rulerag.kg import FactTable, KnowledgeGraph
from rulerag.kg.grounding import RulePlans, TableIndex
from rulerag.ruleqa.validation_split import joined
from rulerag.rules import RuleBank


def complete_facts(graph: KnowledgeGraph) -> FactTable:
    """The distinct facts of all splits, as one table."""
    whole = joined(list(graph.splits.values()), "train")
    return whole.select(np.sort(np.unique(whole.rows, axis=0, return_index=True)[1]), "train")


def inferable_rows(
    facts: FactTable, rules: RuleBank, number: int, *, seed: int, progress: bool = False
) -> Longs:
    """Facts that may be removed together: each has a proof by one rule in what is then left.

    One fact at most of each subject, relation and time. The relations take turns, and within a
    relation its objects, so that no frequent answer is right for many questions.

    Args:
        facts: the complete graph, without duplicates.
        rules: mined from it.
        number: how many; fewer where there are no more.
        seed: decides the draw.
        progress: show a progress bar.

    Returns:
        int64 array of shape (n,): rows, in a random order.

    Raises:
        EmptyDataError: no fact has such a proof.
    """
    index, random = TableIndex(facts), np.random.default_rng([seed, 2])
    removed, needed = (np.zeros(len(facts), dtype=bool) for _ in range(2))
    asked: set[tuple[str, str, int | None]] = set()
    turns = {}
    for head in sorted(rules.head_relations):
        guides = sorted(rules.for_head(head), key=lambda rule: -rule.ranking_confidence)
        rows = _in_turns(facts, facts.relations.id(head), random)
        turns[head] = RulePlans(guides, index), rows
    chosen: list[int] = []
    with tqdm(total=number, desc="facts to remove", disable=not progress) as bar:
        while turns and len(chosen) < number:
            for head, (plans, rows) in list(turns.items()):
                for row in rows:
                    fact = facts.fact(row)
                    question = fact.subject, fact.relation, fact.timestamp
                    if needed[row] or question in asked:
                        continue
                    table = plans.ground(fact.subject, fact.timestamp)
                    proofs = table.rows[table.answer == facts.object[row]]
                    gone = (removed[proofs] & (proofs >= 0)) | (proofs == row)
                    proofs = proofs[~gone.any(axis=1)]
                    if len(proofs):
                        needed[proofs[0][proofs[0] >= 0]] = True  # by the most confident rule
                        removed[row] = True
                        asked.add(question)
                        chosen.append(row)
                        bar.update()
                        break
                else:
                    del turns[head]
                if len(chosen) == number:
                    break
    if not chosen:
        raise EmptyDataError(
            f"none of {len(facts):,} facts can be inferred from the others by {len(rules):,} rules",
            hint="lower thresholds (min_confidence, min_head_coverage), or a graph with more facts",
        )
    return random.permutation(np.array(chosen, dtype=np.int64))


def _in_turns(facts: FactTable, relation: int, random: np.random.Generator) -> Iterator[int]:
    """The rows of a relation in a random order in which its objects take turns."""
    rows = random.permutation(np.flatnonzero(facts.relation == relation))
    turn: dict[int, int] = defaultdict(int)
    turns = np.zeros(len(rows), dtype=np.int64)
    for place, object_ in enumerate(facts.object[rows].tolist()):
        turns[place] = turn[object_]
        turn[object_] += 1
    return iter(rows[np.argsort(turns, kind="stable")].tolist())


def without(graph: KnowledgeGraph, facts: FactTable, rows: Longs, variant: str) -> KnowledgeGraph:
    """The graph that a variant of the questions is built from.

    A fifth of the removed facts is asked in tests, a fifth in validation, the rest in training.

    Args:
        graph: the complete graph.
        facts: its facts, as one table.
        rows: those that are removed, in a random order.
        variant: ``incomplete``; ``validation``, whose test questions are those for validation;
            ``complete``, from which nothing is removed.
    """
    fifth = len(rows) // 5
    test, valid, train = np.split(rows, [fifth, 2 * fifth])
    if variant == "validation":
        test = valid
    left = np.ones(len(facts), dtype=bool)
    left[rows] = variant == "complete"
    splits = {
        "train": facts.select(left, "train"),
        "valid": facts.select(np.sort(train), "valid"),
        "test": facts.select(np.sort(test), "test"),
    }
    return KnowledgeGraph(
        graph.entities, graph.relations, splits, calendar=graph.calendar, name=graph.name
    )
