"""Rules with constants against AMIE's operators, applied one by one to graphs of a few facts."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from benchmarks.amie_agreement import count_by_definition, pairs_by_relation
from rulerag.errors import MiningError
from rulerag.kg.graph import FactTable, KnowledgeGraph
from rulerag.mining.amie import AmieMiner
from rulerag.mining.formats import load_amie, load_anyburl, save_amie, save_anyburl
from rulerag.mining.normal_form import normal_form
from rulerag.rules import Atom, Rule, RuleBank
from rulerag.types import Fact

Folder = Callable[[str], Path]
Counts = tuple[int, int, int, int]
EVERYTHING = {"min_head_size": 1, "min_head_coverage": 0.0, "min_pca_confidence": 0.0}
FRESH = ("?z", "?w")


def is_variable(term: str) -> bool:
    return term.startswith("?")


def variables(atoms: tuple[Atom, ...]) -> list[str]:
    return list(dict.fromkeys(e for a in atoms for e in (a.subject, a.object) if is_variable(e)))


def covers(one: Atom, two: Atom) -> bool:
    """AMIE's test for redundant atoms: any variable of the first fits anything in the second."""
    return one.relation == two.relation and all(
        is_variable(a) or a == b for a, b in ((one.subject, two.subject), (one.object, two.object))
    )


def redundant(new: Atom, atoms: tuple[Atom, ...]) -> list[Atom]:
    return [atom for atom in atoms if covers(atom, new) or covers(new, atom)]


class Operators:
    """AMIE's search with ``-const``: start atoms, then dangling, closing and instantiated atoms.

    Counts are made by trying all bindings. It knows nothing of shapes, unary atoms or joins.
    """

    def __init__(
        self, facts: FactTable, *, coverage: float, head_size: int, limit: int, max_atoms: int
    ) -> None:
        self.triples = {(f.relation, f.subject, f.object) for f in facts}
        self.entities = sorted({e for _, s, o in self.triples for e in (s, o)})
        self.relations = sorted({r for r, _, _ in self.triples})
        self.coverage, self.head_size = Fraction(coverage).limit_denominator(1000), head_size
        self.limit, self.max_atoms = limit, max_atoms
        self._bindings: dict[tuple[Atom, ...], list[dict[str, str]]] = {}

    def facts_of(self, relation: str) -> list[tuple[str, str]]:
        return [(s, o) for r, s, o in self.triples if r == relation]

    def functional(self, relation: str) -> int:
        pairs = self.facts_of(relation)
        return int(len({o for _, o in pairs}) > len({s for s, _ in pairs}))

    def bindings(self, atoms: tuple[Atom, ...]) -> list[dict[str, str]]:
        if not atoms:
            return [{}]
        if atoms not in self._bindings:
            found = []
            last = atoms[-1]
            for bound in self.bindings(atoms[:-1]):
                for s, o in self.facts_of(last.relation):
                    new = dict(bound)
                    if all(
                        (new.setdefault(term, end) if is_variable(term) else term) == end
                        for term, end in ((last.subject, s), (last.object, o))
                    ):
                        found.append(new)
            self._bindings[atoms] = found
        return self._bindings[atoms]

    def distinct(self, atoms: tuple[Atom, ...], terms: tuple[str, ...]) -> int:
        named = [t for t in terms if is_variable(t)]
        return len({tuple(b[t] for t in named) for b in self.bindings(atoms)})

    def support(self, atoms: tuple[Atom, ...]) -> int:
        return self.distinct(atoms, (atoms[0].subject, atoms[0].object))

    def enough(self, atoms: tuple[Atom, ...]) -> bool:
        support, size = self.support(atoms), len(self.facts_of(atoms[0].relation))
        return support >= 1 and Fraction(support, size) >= self.coverage

    def within_limit(self, atoms: tuple[Atom, ...]) -> bool:
        relations = [atom.relation for atom in atoms]
        return relations.count(atoms[-1].relation) <= self.limit

    def start(self) -> Iterator[tuple[Atom, ...]]:
        for relation in self.relations:
            if len(self.facts_of(relation)) < self.head_size:
                continue
            yield (Atom(relation, "?x", "?y"),)
            for constant in self.entities:
                ends = (constant, "?y") if self.functional(relation) else ("?x", constant)
                head = (Atom(relation, *ends),)
                if len(self.bindings(head)) >= max(self.head_size, 2):
                    yield head

    def is_closed(self, atoms: tuple[Atom, ...]) -> bool:
        ends = [end for a in atoms for end in (a.subject, a.object)]
        return all(ends.count(v) >= 2 for v in variables(atoms))

    def open_variables(self, atoms: tuple[Atom, ...]) -> list[str]:
        ends = [end for a in atoms for end in (a.subject, a.object)]
        return [v for v in variables(atoms) if ends.count(v) < 2]

    def refine(self, atoms: tuple[Atom, ...]) -> Iterator[tuple[Atom, ...]]:
        if len(atoms) >= self.max_atoms:
            return
        is_open = self.open_variables(atoms)
        fresh = next(v for v in FRESH if v not in variables(atoms))
        for relation, join, swap in itertools.product(
            self.relations, is_open or variables(atoms), (False, True)
        ):
            yield from self._dangling(atoms, Atom(relation, *self._ends(join, fresh, swap)))
        for relation, one, two in itertools.product(
            self.relations, is_open or variables(atoms), variables(atoms)
        ):
            if one != two and (len(is_open) < 2 or two in is_open):
                for swap in (False, True):
                    new = (*atoms, Atom(relation, *self._ends(one, two, swap)))
                    if new[-1] not in atoms and self.enough(new) and self.within_limit(new):
                        yield new

    @staticmethod
    def _ends(one: str, two: str, swap: bool) -> tuple[str, str]:
        return (two, one) if swap else (one, two)

    def _dangling(self, atoms: tuple[Atom, ...], new: Atom) -> Iterator[tuple[Atom, ...]]:
        refined = (*atoms, new)
        if not self.enough(refined) or not self.within_limit(refined):
            return
        fresh_is_object = new.object in FRESH and new.object not in variables(atoms)
        # AMIE would add that the fresh variable is not this constant: no rule without it.
        needs_inequality = any(
            not is_variable(a.object if fresh_is_object else a.subject)
            for a in redundant(new, atoms)
        )
        if not needs_inequality:
            yield refined
        join = new.subject if fresh_is_object else new.object
        for constant in self.entities:
            ends = (join, constant) if fresh_is_object else (constant, join)
            atom = Atom(new.relation, *ends)
            candidate = (*atoms, atom)
            if redundant(atom, atoms) or not self.enough(candidate):
                continue
            if len({bound[join] for bound in self.bindings(candidate)}) >= 2:
                yield candidate

    def rules(self) -> dict[Rule, Counts]:
        """Support, head size, body size and PCA body size of every rule that is reached."""
        found = {}
        seen: set[tuple[Atom, frozenset[Atom]]] = set()
        waiting = list(self.start())
        while waiting:
            atoms = waiting.pop()
            waiting += [
                new
                for new in self.refine(atoms)
                if (key := (new[0], frozenset(new[1:]))) not in seen and not seen.add(key)  # type: ignore[func-returns-value]
            ]
            if len(atoms) > 1 and self.is_closed(atoms):
                head, body = normal_form(atoms[0], atoms[1:])
                found[Rule(head, body)] = self.counts(head, body)
        return found

    def counts(self, head: Atom, body: tuple[Atom, ...]) -> Counts:
        ends = (head.subject, head.object)
        side = self.functional(head.relation)
        known = {pair[side] for pair in self.facts_of(head.relation)}
        pairs = {tuple(bound.get(end, end) for end in ends): bound for bound in self.bindings(body)}
        return (
            self.support((head, *body)),
            len(self.facts_of(head.relation)),
            len(pairs),
            sum(pair[side] in known for pair in pairs),
        )


def in_skyline(rule: Rule, every: dict[Rule, Counts]) -> bool:
    own = Fraction(every[rule][0], every[rule][3])
    for size in range(1, len(rule.body)):
        for body in itertools.combinations(rule.body, size):
            within = every.get(Rule(rule.head, normal_form(rule.head, body)[1]))
            if within is not None and Fraction(within[0], within[3]) >= own:
                return False
    return True


def random_graph(seed: int) -> FactTable:
    rng = np.random.default_rng([seed, 5])
    entities = int(rng.integers(2, 6))
    relations = int(rng.integers(1, 4))
    facts = int(rng.integers(2, 1 + min(3 * entities * relations, 18)))
    rows = rng.integers(0, [entities, relations, entities], size=(facts, 3)).tolist()
    return KnowledgeGraph.from_facts([Fact(f"e{s}", f"r{r}", f"e{o}") for s, r, o in rows]).train


def counts(rule: Rule) -> tuple[object, ...]:
    q = rule.quality
    return (q.support, q.head_coverage, q.standard_confidence, q.pca_confidence, q.body_size)


@pytest.mark.parametrize("block", range(6))
def test_the_same_rules_and_counts_as_amies_operators(block: int) -> None:
    shapes = set()
    for seed in range(block * 30, block * 30 + 30):
        rng = np.random.default_rng([seed, 6])
        facts = random_graph(seed)
        coverage, pca = (float(rng.choice([0.0, 0.1, 0.34, 0.5])) for _ in range(2))
        limit, skyline = int(rng.integers(1, 4)), bool(rng.integers(2))
        max_atoms, head_size = int(rng.integers(2, 4)), int(rng.integers(1, 4))
        every = Operators(
            facts, coverage=coverage, head_size=head_size, limit=limit, max_atoms=max_atoms
        ).rules()
        expected = {}
        for rule, (support, total, body_size, pca_size) in every.items():
            ratios = support / total, support / body_size, support / pca_size
            if ratios[2] >= pca and not (skyline and not in_skyline(rule, every)):
                expected[rule] = (support, *ratios, body_size)
        miner = AmieMiner(
            constants=True,
            max_atoms=max_atoms,
            min_head_size=head_size,
            min_head_coverage=coverage,
            min_pca_confidence=pca,
            recursivity_limit=limit,
            skyline=skyline,
            threads=int(rng.integers(1, 3)),
        )
        assert {rule: counts(rule) for rule in miner.mine(facts)} == expected, seed
        shapes |= {
            tuple(
                "C" if not is_variable(e) else e
                for a in (r.head, *r.body)
                for e in (a.subject, a.object)
            )
            for r in expected
        }
    assert len({shape for shape in shapes if "C" in shape}) > 15


# --- real graphs, files, bad input ---------------------------------------------------------------


def constants_of(rule: Rule) -> set[str]:
    ends = {end for atom in (rule.head, *rule.body) for end in (atom.subject, atom.object)}
    return {end for end in ends if not is_variable(end)}


@pytest.fixture(scope="module")
def nell_bank(graph_folder: Folder) -> RuleBank:
    train = KnowledgeGraph.load(graph_folder("nell995")).train
    return AmieMiner(constants=True, min_head_coverage=0.1, min_pca_confidence=0.5).mine(train)


def test_a_real_graph_agrees_with_counts_by_definition(
    nell_bank: RuleBank, graph_folder: Folder
) -> None:
    train = KnowledgeGraph.load(graph_folder("nell995")).train
    pairs = pairs_by_relation(train)
    ours = [rule for rule in nell_bank if constants_of(rule)]
    assert len(ours) > 500
    cheap = [
        rule
        for rule in ours
        if rule.quality.body_size < 1_000 and sum(len(pairs[a.relation]) for a in rule.body) < 900
    ]
    assert len(cheap) > 100
    for rule in cheap[:: len(cheap) // 60]:
        support, head_size, body_size, pca_size = count_by_definition(rule, pairs)
        quality = rule.quality
        assert (quality.support, quality.body_size) == (support, body_size)
        assert (quality.pca_body_size, quality.head_coverage) == (pca_size, support / head_size)
    plain = AmieMiner(min_head_coverage=0.1, min_pca_confidence=0.5).mine(train)
    assert [r.to_json() for r in plain] == [r.to_json() for r in nell_bank if not constants_of(r)]


def test_rules_with_constants_survive_every_format(nell_bank: RuleBank, tmp_path: Path) -> None:
    nell_bank.save(tmp_path / "rules.jsonl")
    assert RuleBank.load(tmp_path / "rules.jsonl").fingerprint == nell_bank.fingerprint
    save_amie(nell_bank, tmp_path / "rules.tsv")
    read = load_amie(tmp_path / "rules.tsv")
    assert [(r.id, r.quality) for r in read] == [(r.id, r.quality) for r in nell_bank]
    save_anyburl(nell_bank, tmp_path / "rules.txt")
    assert [r.id for r in load_anyburl(tmp_path / "rules.txt")] == [r.id for r in nell_bank]


def test_texts_name_constants_by_their_labels() -> None:
    rows = [(f"p{i}", "lives_in", "new_york") for i in range(3)]
    rows += [(f"p{i}", "speaks", "english_language") for i in range(3)]
    rows += [("p3", "lives_in", "rome"), ("p3", "speaks", "italian")]
    facts = KnowledgeGraph.from_facts([Fact(*row) for row in rows]).train
    bank = AmieMiner(constants=True, max_atoms=2, **EVERYTHING).mine(facts)
    body = (Atom("lives_in", "?x", "new_york"),)
    rule = bank.get(Rule(Atom("speaks", "?x", "english_language"), body).id)
    assert rule.text == (
        "[Entity 1, lives in, new york] leads to [Entity 1, speaks, english language]"
    )
    assert counts(rule) == (3, 3 / 4, 1.0, 1.0, 3)


def test_names_like_variables_are_refused() -> None:
    facts = KnowledgeGraph.from_facts([("?a", "r", "b"), ("c", "r", "b"), ("c", "s", "b")]).train
    assert len(AmieMiner(**EVERYTHING).mine(facts))
    with pytest.raises(MiningError, match=r"'\?a' would read as a variable"):
        AmieMiner(constants=True, **EVERYTHING).mine(facts)


def test_a_join_that_would_not_fit_is_refused(graph_folder: Folder) -> None:
    train = KnowledgeGraph.load(graph_folder("umls")).train
    with pytest.raises(MiningError, match=r"needs about [\d.]+ GB and 0.25 GB is allowed"):
        AmieMiner(constants=True, max_memory_gb=0.25).mine(train)


def test_an_interrupted_run_resumes(tmp_path: Path, graph_folder: Folder) -> None:
    train = KnowledgeGraph.load(graph_folder("umls")).train
    settings = {"constants": True, "min_head_coverage": 0.3, "min_pca_confidence": 0.8}
    expected = AmieMiner(**settings).mine(train).fingerprint
    miner = AmieMiner(checkpoint=tmp_path, **settings)
    assert miner.mine(train).fingerprint == expected
    files = sorted(tmp_path.rglob("constants-*.npz"))
    assert len(files) > 5
    for file in files[::2]:
        file.unlink()
    assert miner.mine(train).fingerprint == expected
