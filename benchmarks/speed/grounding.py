"""Speed of grounding on FB15k-237: all guiding rules of a query at once, against one by one."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common.folders import data_folder
from rulerag.errors import DataError
from rulerag.evaluation import peak_memory_mb
from rulerag.io import prepare_folder, write_json
from rulerag.kg import FactTable, KnowledgeGraph
from rulerag.kg.grounding import FactIndex, RulePlans, TableIndex, ground
from rulerag.mining.amie import AmieMiner
from rulerag.rules import Atom, Rule, RuleBank

Question = tuple[str, str]
# Queries asked of the plain loop too; subjects with the most facts; rules of three body atoms.
_PLAIN, _HUBS, _LONG = 300, 100, 30


def _longer(bank: RuleBank, per_head: int) -> RuleBank:
    """Chains of three body atoms: the last atom of a chain gives way to a chain that implies it."""
    longer: list[Rule] = []
    for head in bank.head_relations:
        made: list[Rule] = []
        for rule in bank.for_head(head):
            if len(made) == per_head:
                break
            last = rule.body[-1]
            inner = next((r for r in bank.for_head(last.relation) if len(r.body) == 2), None)
            if len(rule.body) != 2 or inner is None:
                continue
            names = {inner.head.subject: last.subject, inner.head.object: last.object}
            rest = {end for atom in inner.body for end in (atom.subject, atom.object)} - {*names}
            names.update(dict.fromkeys(rest, "?w"))
            body = [Atom(a.relation, names[a.subject], names[a.object]) for a in inner.body]
            made.append(replace(rule, body=(rule.body[0], *body), text=""))
        longer.extend(made)
    return RuleBank(longer)


def _unselective(train: FactTable, count: int) -> RuleBank:
    """Chains back and forth along the relations with the most facts: the worst for hubs."""
    sizes = np.bincount(train.relation, minlength=len(train.relations))
    names = [train.relations.names[i] for i in np.argsort(-sizes, kind="stable")[:count]]
    ways = [("?x", "?z"), ("?w", "?z"), ("?w", "?y")]
    head = Atom(names[0], "?x", "?y")
    bodies = [[Atom(name, *way) for way in ways] for name in names]
    bodies += [[Atom(name, *way[::-1]) for way in ways] for name in names]
    return RuleBank(Rule(head, tuple(body)) for body in bodies)


class _Run:
    """Times of every query, in milliseconds of CPU."""

    def __init__(self, bank: RuleBank, index: TableIndex) -> None:
        self.plans = {head: RulePlans(bank.for_head(head), index) for head in bank.head_relations}
        self.times: list[float] = []
        self.rows = self.groundings = self.incomplete = 0

    def ask(self, questions: Sequence[Question]) -> None:
        for subject, relation in questions:
            plans = self.plans.get(relation)
            started = time.process_time()
            if plans is not None:
                found = plans.ground(subject)
                self.rows = max(self.rows, len(found))
                self.groundings += int(found.count.sum())
                self.incomplete += not found.is_complete
            self.times.append(1000 * (time.process_time() - started))

    def figures(self) -> dict[str, Any]:
        return {
            "queries": len(self.times),
            "groundings_per_query": round(self.groundings / len(self.times), 1),
            "cpu_ms_per_query": round(float(np.mean(self.times)), 3),
            "slowest_cpu_ms": round(max(self.times), 1),
            "most_rows": self.rows,
            "queries_with_groundings_left_out": self.incomplete,
            "peak_mb": round(peak_memory_mb()),
        }


def _questions(facts: FactTable) -> list[Question]:
    return list(dict.fromkeys((fact.subject, fact.relation) for fact in facts))


def _most_linked(train: FactTable) -> list[str]:
    """The entities with the most facts."""
    ends = np.concatenate([train.subject, train.object])
    most = np.argsort(-np.bincount(ends, minlength=len(train.entities)), kind="stable")[:_HUBS]
    return [train.entities.names[entity] for entity in most]


def _hubs(train: FactTable, bank: RuleBank) -> list[Question]:
    """The entities with the most facts, each asked for every relation that it has."""
    heads, most = set(bank.head_relations), set(_most_linked(train))
    asked = {(fact.subject, fact.relation) for fact in train if fact.subject in most}
    return sorted((subject, relation) for subject, relation in asked if relation in heads)


def _plainly(bank: RuleBank, index: FactIndex, questions: Sequence[Question]) -> tuple[float, int]:
    """CPU milliseconds a query of the plain loop, and how many groundings it finds."""
    groundings, started = 0, time.process_time()
    for subject, relation in questions:
        for rule in bank.for_head(relation):
            groundings += len(ground(rule, subject, index))
    return 1000 * (time.process_time() - started) / len(questions), groundings


def _compared(
    bank: RuleBank, table: TableIndex, plain: FactIndex, questions: Sequence[Question], sample: int
) -> dict[str, Any]:
    run = _Run(bank, table)
    run.ask(questions)
    chance = np.random.default_rng(0)
    chosen = [questions[i] for i in sorted(chance.permutation(len(questions))[:sample])]
    same = _Run(bank, table)
    same.ask(chosen)
    plain_ms, groundings = _plainly(bank, plain, chosen)
    if same.groundings != groundings:
        raise DataError(f"{same.groundings} groundings, the plain loop finds {groundings}")
    fast = float(np.mean(same.times))
    return {
        "rules": len(bank),
        **run.figures(),
        "sample": len(chosen),
        "plain_loop_cpu_ms_per_query": round(plain_ms, 2),
        "times_faster": round(plain_ms / fast, 1),
    }


def main(out: Path | None = None) -> dict[str, Any]:
    """Measure, print, and write ``grounding.json``.

    Raises:
        DataError: the FB15k-237 folder is not there, or the two ways find different groundings.
    """
    folder = data_folder() / "fb15k237"
    if not folder.is_dir():
        raise DataError("the graph folder is not here", path=folder, hint="set RULERAG_DATA")
    graph = KnowledgeGraph.load(folder)
    train = graph.train
    mined = AmieMiner(max_atoms=3).mine(train)
    chains = RuleBank(rule for rule in mined if len(rule.body) == 2)
    long = _longer(mined, _LONG)
    table, plain = TableIndex(train), FactIndex(enumerate(train))
    queries = _questions(graph.test)
    figures: dict[str, Any] = {"before_mb": round(peak_memory_mb())}
    figures["two body atoms"] = _compared(chains, table, plain, queries, _PLAIN)
    figures["three body atoms"] = _compared(long, table, plain, queries, _PLAIN // 3)
    for name, bank in (("hubs, two body atoms", chains), ("hubs, three body atoms", long)):
        run = _Run(bank, table)
        run.ask(_hubs(train, bank))
        figures[name] = {"rules": len(bank), **run.figures()}
    worst = _unselective(train, _LONG)
    run = _Run(worst, table)
    run.ask([(subject, worst.head_relations[0]) for subject in _most_linked(train)])
    figures["hubs, unselective bodies"] = {"rules": len(worst), **run.figures()}
    for name, row in figures.items():
        if isinstance(row, dict):
            cells = ", ".join(f"{key} {value:,}" for key, value in row.items())
            sys.stdout.write(f"FB15k-237, {name}: {cells}\n")
    if out is not None:
        write_json(prepare_folder(out) / "grounding.json", figures)
    return figures


if __name__ == "__main__":
    main()
