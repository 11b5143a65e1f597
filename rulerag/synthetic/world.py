"""Generated worlds: readable graphs of any size that know their own truth.

A world is a :class:`~rulerag.kg.KnowledgeGraph` about invented people, places, organisations
and works, in which rules of known confidence were planted. It knows every rule, and for every
held-out fact the training facts that lead to it. Demo, tests and benchmarks use it in place of
data that nobody can check by hand.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rulerag.arrays import Longs
from rulerag.composition import check_choice
from rulerag.errors import ConfigError, did_you_mean
from rulerag.kg import Calendar, FactTable, KnowledgeGraph, Vocabulary
from rulerag.rules import Rule, RuleBank, readable
from rulerag.synthetic.draft import Draft, DraftFacts, QueryTruth
from rulerag.synthetic.files import save_graph
from rulerag.synthetic.names import NameMaker
from rulerag.synthetic.plan import WorldPlan
from rulerag.synthetic.planting import QUERY_KINDS, PlantedRule, plant
from rulerag.synthetic.schema import SCHEMAS, WORLD_CALENDAR
from rulerag.types import Fact

_SPLITS = ("train", "valid", "test")
_LEAST, _MOST = 100, 100_000_000


@dataclass(frozen=True, slots=True)
class WorldQuery:
    """A held-out fact to be asked for, with all that leads to it.

    Args:
        fact: the held-out fact; its object is the answer.
        kind: ``plain`` (one rule leads to it), ``conflict`` (a weaker rule of the same head leads
            elsewhere), ``agree`` (two rules lead to it), ``chain`` (a rule of two atoms), ``echo``
            (the same fact on an earlier day), ``tail`` (nothing leads to it).
        rules: the rules that lead to the answer, most confident first.
        supports: for each of these rules the training facts of its body, in the body's order.
            There are no other ways to the answer.
    """

    fact: Fact
    kind: str
    rules: tuple[Rule, ...] = ()
    supports: tuple[tuple[Fact, ...], ...] = ()

    @property
    def rule(self) -> Rule | None:
        """The most confident rule that leads to the answer; None in the long tail."""
        return self.rules[0] if self.rules else None


@dataclass(eq=False, repr=False)
class World:
    """A generated graph and its truth; see :meth:`generate`.

    Args:
        graph: the facts, in the splits train, valid and test.
        planted: the rules that the world was made with, one-atom rules first.
        truth: by split, what leads to each held-out fact.
        kind: ``static`` or ``temporal``.
        seed: the seed that made it.
        max_body_atoms: the longest planted rule body that was allowed, in atoms.
    """

    graph: KnowledgeGraph
    planted: tuple[PlantedRule, ...]
    truth: dict[str, QueryTruth]
    kind: str
    seed: int
    max_body_atoms: int = 2

    @classmethod
    def generate(
        cls,
        num_facts: int = 5000,
        *,
        kind: str = "temporal",
        seed: int = 0,
        max_body_atoms: int = 2,
    ) -> World:
        """Make a world: the same arguments give the same world everywhere, whatever else runs.

        From 500 facts on, every one-atom rule that the training facts hold with a confidence of
        0.3 and a support of 20 is a planted one, and every planted rule is held with its planted
        confidence up to 0.01: by construction, since no two entities share two relations unless a
        rule says so. (The reverse of a static rule is held with less than 0.2.) Smaller worlds
        hold the same rules with less support. A larger world has more rules (5,000 facts hold
        all), then more of everything. Rules of two atoms may also hold by accident.

        Planted confidence means PCA confidence in a static world (the subjects of held-out facts
        have no other fact of that relation) and temporal confidence in a dated one, over the
        training facts. Dated worlds run from 2020-01-01 to 2021-12-31; the last two months are
        validation and test. Static and dated worlds of one seed draw on the same names.

        Args:
            num_facts: facts of all splits together, exactly; 100 or more.
            kind: ``static`` or ``temporal``.
            seed: any whole number from 0.
            max_body_atoms: 1 leaves the rule of two atoms out.

        Raises:
            ConfigError: an argument out of range.
        """
        _check(num_facts, kind, seed, max_body_atoms)
        plan = WorldPlan.solve(int(num_facts), kind, max_body_atoms)
        rng = np.random.default_rng([seed, list(SCHEMAS).index(kind)])
        draft = Draft(plan.pools, rng)
        planted = plant(draft, plan)
        facts, queries = draft.finish()
        graph, rows = _graph(draft, facts, plan, NameMaker(seed))
        truth = {
            split: _truth(queries, facts, rows, number)
            for number, split in enumerate(_SPLITS)
            if split != "train"
        }
        return cls(graph, tuple(planted), truth, kind, seed, max_body_atoms)

    @property
    def num_facts(self) -> int:
        """Facts of all splits."""
        return sum(len(table) for table in self.graph.splits.values())

    @property
    def rules(self) -> RuleBank:
        """The planted rules with their exact counts over the training facts."""
        return RuleBank(planted.rule for planted in self.planted)

    @property
    def queries(self) -> list[WorldQuery]:
        """One query for every test fact, in the order of the table."""
        return self.queries_of("test")

    def queries_of(self, split: str) -> list[WorldQuery]:
        """One query for every fact of ``test`` or ``valid``, in the order of the table.

        Raises:
            ConfigError: the split holds no queries.
        """
        if split not in self.truth:
            raise ConfigError(
                f"the split {split!r} holds no queries", hint=did_you_mean(split, self.truth)
            )
        return self._queries[split]

    @cached_property
    def _queries(self) -> dict[str, list[WorldQuery]]:
        return {split: list(self._queries_of(split)) for split in self.truth}

    def _queries_of(self, split: str) -> Iterator[WorldQuery]:
        train, held_out, truth = self.graph.train, self.graph.split(split), self.truth[split]
        columns = (truth.row, truth.kind, truth.rule, truth.support)
        for row, kind, numbers, supports in zip(*(c.tolist() for c in columns), strict=True):
            used = [n for n in numbers if n >= 0]
            yield WorldQuery(
                held_out.fact(row),
                QUERY_KINDS[kind],
                tuple(self.planted[n].rule for n in used),
                tuple(
                    tuple(train.fact(i) for i in rows if i >= 0) for rows in supports[: len(used)]
                ),
            )

    def find(self, subject: str, relation: str, timestamp: int | None = None) -> WorldQuery | None:
        """The query about a subject, a relation and a time; None when nothing is held out there.

        Every subject is asked at most once for each relation, so there is at most one.
        """
        return self._by_question.get((subject, relation, timestamp))

    @cached_property
    def _by_question(self) -> dict[tuple[str, str, int | None], WorldQuery]:
        queries = (query for split in self.truth for query in self.queries_of(split))
        return {(q.fact.subject, q.fact.relation, q.fact.timestamp): q for q in queries}

    def save(self, folder: str | Path) -> None:
        """Write the graph: ``train.txt``, ``valid.txt`` and ``test.txt``, in readable names.

        It is read like any other; its truth comes again from :meth:`generate`.

        Raises:
            OutputError: the folder cannot be written.
        """
        save_graph(folder, self.graph)

    def __repr__(self) -> str:
        return (
            f"World({self.kind}, seed {self.seed}, {self.num_facts:,} facts, "
            f"{len(self.graph.entities):,} entities, {len(self.planted)} planted rules, "
            f"{len(self.truth['test'].row):,} test queries)"
        )


def _check(num_facts: int, kind: str, seed: int, max_body_atoms: int) -> None:
    check_choice("kind", kind, SCHEMAS, "kind of world")
    _check_whole(num_facts, "num_facts", _LEAST, _MOST)
    _check_whole(seed, "seed", 0, None)
    _check_whole(max_body_atoms, "max_body_atoms", 1, 2)


def _check_whole(value: int, key: str, least: int, most: int | None) -> None:
    span = f"{least:,} or more" if most is None else f"{least:,} to {most:,}"
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise ConfigError(f"{value!r} is no whole number", key=key, hint=span)
    if value < least or (most is not None and value > most):
        raise ConfigError(f"{value:,} is out of range", key=key, hint=span)


def _graph(
    draft: Draft, columns: DraftFacts, plan: WorldPlan, maker: NameMaker
) -> tuple[KnowledgeGraph, Longs]:
    """The graph, and for every drafted fact its row in the table of its split."""
    rows = np.empty(len(columns.subject), dtype=np.int64)
    facts: list[Longs] = []
    for number in range(len(_SPLITS)):
        chosen = draft.rng.permutation(np.flatnonzero(columns.split == number))
        if plan.dated:
            chosen = chosen[np.argsort(columns.time[chosen], kind="stable")]
        rows[chosen] = np.arange(len(chosen))
        facts.append(chosen)
    order = np.concatenate(facts)
    # Ids follow first appearance, as they do when the saved files are read again.
    ends = np.stack([columns.subject[order], columns.object[order]], axis=1).reshape(-1)
    used, ids = _by_appearance(ends, sum(draft.pools.values()))
    entities = Vocabulary(_names(used, draft, maker))
    named, relation_ids = _by_appearance(columns.relation[order], len(draft.relations))
    raw = list(draft.relations)
    names = [raw[i] for i in named.tolist()]
    relations = Vocabulary(names, [readable(name) for name in names])
    calendar = WORLD_CALENDAR if plan.dated else Calendar()
    columns_of = [ids[columns.subject], relation_ids[columns.relation], ids[columns.object]]
    table = np.stack([*columns_of, columns.time] if plan.dated else columns_of, axis=1)
    splits = {
        split: FactTable.of(table[chosen], entities, relations, calendar, split)
        for split, chosen in zip(_SPLITS, facts, strict=True)
    }
    return KnowledgeGraph(entities, relations, splits, calendar=calendar, name="world"), rows


def _by_appearance(
    values: npt.NDArray[np.integer], size: int
) -> tuple[Longs, npt.NDArray[np.int32]]:
    """The values in the order of their first appearance, and the new id of every value."""
    first = np.full(size, len(values), dtype=np.int64)
    first[values[::-1]] = np.arange(len(values) - 1, -1, -1)
    used = np.argsort(first, kind="stable")[: int((first < len(values)).sum())]
    ids = np.full(size, -1, dtype=np.int32)
    ids[used] = np.arange(len(used), dtype=np.int32)
    return used, ids


def _names(used: Longs, draft: Draft, maker: NameMaker) -> list[str]:
    names = np.empty(len(used), dtype=object)
    for kind, size in draft.pools.items():
        start = draft.start[kind]
        here = np.flatnonzero((used >= start) & (used < start + size))
        if len(here):
            names[here] = maker.names(kind, used[here] - start)
    spelt: list[str] = names.tolist()
    return spelt


def _truth(queries: QueryTruth, facts: DraftFacts, rows: Longs, split: int) -> QueryTruth:
    """The queries whose fact is in a split, in the order of its table."""
    here = np.flatnonzero(facts.split[queries.row] == split)
    here = here[np.argsort(rows[queries.row[here]])]
    support = queries.support[here]
    return QueryTruth(
        rows[queries.row[here]],
        queries.kind[here],
        queries.rule[here],
        np.where(support >= 0, rows[support], -1),
    )
