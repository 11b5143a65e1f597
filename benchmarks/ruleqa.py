"""Builds RuleQA from a knowledge graph (RuleRAG, arXiv:2410.22353, section 2).

The corpus D linearises the training facts; queries come from test facts, popular and long-tail
entities in balance; F_R and F_G come from two disjoint halves of the validation facts, with
oracle documents found by entity and relation; the rule bank R is mined from the training facts.
What the paper leaves open is an option of :class:`RuleQASettings` with a stated default.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.ruleqa_check import check_leakage
from rulerag.console import guarded
from rulerag.dataset import RuleQADataset
from rulerag.errors import ConfigError, EmptyDataError, did_you_mean
from rulerag.io import prepare_folder
from rulerag.kg.graph import FactTable, KnowledgeGraph
from rulerag.kg.grounding import TableIndex
from rulerag.kg.grounding_table import RulePlans
from rulerag.kg.questions import graph_labels, queries_from_facts
from rulerag.kg.verbalization import Verbalizer
from rulerag.rules import RuleBank
from rulerag.types import Document, Query

__all__ = ["BENCHMARKS", "RuleQASettings", "build", "main"]


@dataclass(frozen=True)
class RuleQASettings:
    """The choices that the paper leaves open.

    Args:
        num_queries: size of the balanced query set; the paper's |Q|.
        miner: ``tlogic`` for temporal graphs, ``amie`` for static ones.
        max_atoms: longest rule, head included.
        min_support: least support of a rule in R.
        min_confidence: least confidence of a rule in R (PCA confidence for static rules).
        oracle_rules: how many guiding rules of a query give oracle documents, most supported first.
    """

    num_queries: int
    miner: str
    max_atoms: int = 2
    min_support: int = 2
    min_confidence: float = 0.01
    oracle_rules: int = 10


BENCHMARKS = {
    "ruleqa-i": RuleQASettings(1559, "tlogic"),
    "ruleqa-y": RuleQASettings(1864, "tlogic"),
    "ruleqa-w": RuleQASettings(2065, "tlogic"),
    "ruleqa-f": RuleQASettings(1233, "amie", max_atoms=3, min_confidence=0.1),
    "ruleqa-n": RuleQASettings(815, "amie", max_atoms=3, min_confidence=0.1),
}


def build(
    name: str,
    graph: KnowledgeGraph,
    *,
    seed: int = 0,
    settings: RuleQASettings | None = None,
    progress: bool = False,
) -> RuleQADataset:
    """Build one benchmark and prove that it does not leak.

    Args:
        name: one of :data:`BENCHMARKS`.
        graph: its knowledge graph, with the splits train, valid and test.
        seed: decides the balanced sample and the two halves of the validation facts.
        settings: the open choices; the benchmark's own when None.
        progress: show progress bars.

    Raises:
        ConfigError: an unknown name, a graph of the other kind, a negative seed, or no query is
            wanted.
        EmptyDataError: a split is empty, or no query has a guiding rule.
        DataError: it leaks.
    """
    known = _settings(name)
    settings = settings or known
    _check(name, graph, settings, seed)
    words = Verbalizer(graph)
    full = queries_from_facts(graph.test, words, "test")
    train = queries_from_facts(graph.valid, words, "valid")
    rules = _mine(graph, settings, progress)
    corpus = words.corpus(graph.train)
    random = np.random.default_rng(seed)
    # A static graph asks some (subject, relation) in validation and in test, about other objects:
    # such a question must not be trained on.
    tested = {(query.subject, query.relation, query.timestamp) for query in full}
    guided = [
        query
        for query in train
        if rules.for_head(query.relation)
        and (query.subject, query.relation, query.timestamp) not in tested
    ]
    order = random.permutation(len(guided))
    halves = order[: len(order) // 2], order[len(order) // 2 :]
    oracle = _Oracle(graph, corpus, rules, settings.oracle_rules)
    queries = {"test": full}
    qrels = {"test": oracle.qrels(full)}
    for split, half in zip(("f_r", "f_g"), halves, strict=True):
        chosen = [guided[i] for i in sorted(half)]
        qrels[split] = oracle.qrels(chosen)
        # F_R is made of query-document pairs: a query without an oracle document gives none.
        queries[split] = [q for q in chosen if split == "f_g" or q.id in qrels[split]]
    dataset = RuleQADataset(
        corpus=corpus,
        queries=queries,
        qrels=qrels,
        rules=rules,
        query_sets={"balanced": _balanced(full, graph, rules, settings.num_queries, random)},
        labels=graph_labels(graph),
        calendar=asdict(graph.calendar) if graph.is_temporal else None,
        name=name,
        settings={**asdict(settings), "graph": graph.name, "graph_fingerprint": graph.fingerprint},
        seed=seed,
    )
    check_leakage(dataset)
    return dataset


def _settings(name: str) -> RuleQASettings:
    if name not in BENCHMARKS:
        raise ConfigError(
            f"no benchmark is called {name!r}", key="name", hint=did_you_mean(name, BENCHMARKS)
        )
    return BENCHMARKS[name]


def _check(name: str, graph: KnowledgeGraph, settings: RuleQASettings, seed: int) -> None:
    """Refuse, before any work, what cannot be built."""
    if settings.num_queries < 1:
        raise ConfigError(f"{settings.num_queries} is below 1", key="num_queries", hint="say 1000")
    if seed < 0:
        raise ConfigError(f"{seed} is below 0", key="seed", hint="say 0")
    if graph.is_temporal != (settings.miner == "tlogic"):
        needed, found = ("dated", "static") if settings.miner == "tlogic" else ("static", "dated")
        raise ConfigError(
            f"{name} is made of {needed} facts, and those of {graph.name!r} are {found}",
            key="kg",
            hint="choose another graph or another benchmark",
        )


def _mine(graph: KnowledgeGraph, settings: RuleQASettings, progress: bool) -> RuleBank:
    if settings.miner == "tlogic":
        from rulerag.mining.tlogic import TLogicMiner

        return TLogicMiner(
            min_support=settings.min_support,
            min_confidence=settings.min_confidence,
            progress=progress,
        ).mine(graph.train)
    from rulerag.mining.amie import AmieMiner

    bank = AmieMiner(
        max_atoms=settings.max_atoms, min_pca_confidence=settings.min_confidence, progress=progress
    ).mine(graph.train)
    return bank.filter(min_support=settings.min_support)


def _balanced(
    queries: Sequence[Query],
    graph: KnowledgeGraph,
    rules: RuleBank,
    size: int,
    random: np.random.Generator,
) -> list[str]:
    """Ids of a sample with equal parts of popular and long-tail subjects and answers.

    An entity's popularity is its number of training facts. Queries with a guiding rule fall into
    four cells: subject above or up to the median, best-known answer above or up to the median.
    Each cell gives the same number of queries; what a small cell cannot give, the others do.
    """
    train = graph.train
    ends = np.concatenate([train.subject, train.object])
    popularity = np.bincount(ends, minlength=len(graph.entities))
    guided = [query for query in queries if rules.for_head(query.relation)]
    if not guided:
        raise EmptyDataError(
            f"no test query of {graph.name!r} has a guiding rule",
            hint="a larger graph, or settings with lower thresholds",
        )
    ids = graph.entities.id
    subject = np.array([popularity[ids(query.subject)] for query in guided])
    label = graph.entities.name_of_label
    answer = np.array([max(popularity[ids(label(a))] for a in query.answers) for query in guided])
    cell = 2 * (subject > np.median(subject)) + (answer > np.median(answer))
    pools = [random.permutation(np.flatnonzero(cell == c)).tolist() for c in range(4)]
    chosen: list[int] = []
    while len(chosen) < min(size, len(guided)):
        for pool in pools:
            if pool and len(chosen) < size:
                chosen.append(pool.pop())
    return [guided[i].id for i in sorted(chosen)]


class _Oracle:
    """Finds the documents that ground a guiding rule of a query for an acceptable answer."""

    def __init__(
        self, graph: KnowledgeGraph, corpus: Sequence[Document], rules: RuleBank, per_query: int
    ) -> None:
        self.graph = graph
        self.document_of = self._documents(graph.train, corpus)
        self.index = TableIndex(graph.train)
        self.guides = {
            head: sorted(rules.for_head(head), key=lambda r: -(r.quality.support or 0))[:per_query]
            for head in rules.head_relations
        }
        self._plans: dict[str, RulePlans] = {}

    @staticmethod
    def _documents(train: FactTable, corpus: Sequence[Document]) -> list[str]:
        by_fact = {fact: document.id for document in corpus for fact in document.facts}
        return [by_fact[fact] for fact in train]

    def qrels(self, queries: Iterable[Query]) -> dict[str, dict[str, int]]:
        """Query id → document id → 1; queries without an oracle document are left out."""
        found = {}
        for query in queries:
            rows = self._rows(query)
            if rows:
                found[query.id] = {self.document_of[row]: 1 for row in sorted(rows)}
        return found

    def _rows(self, query: Query) -> set[int]:
        rules = self.guides.get(query.relation, [])
        entities, relations = self.graph.entities, self.graph.relations
        names = {entities.name_of_label(answer) for answer in query.answers}
        wanted = [entities.id(name) for name in names]
        around = self.index.neighbours(entities.id(query.subject))
        direct = [rule for rule in rules if len(rule.body) == 1]
        asked = [relations.id(r.body[0].relation) + len(relations) * r.is_inverse for r in direct]
        keep = np.isin(around.relation, asked) & np.isin(around.other, wanted)
        if around.timestamp is not None and query.timestamp is not None:
            keep &= around.timestamp < query.timestamp
        rows = set(around.row[keep].tolist())
        if len(direct) < len(rules):
            found = self._longer(query.relation).ground(query.subject, query.timestamp)
            grounded = found.rows[np.isin(found.answer, wanted)]
            rows |= set(grounded[grounded >= 0].tolist())
        return rows

    def _longer(self, relation: str) -> RulePlans:
        """The guiding rules of a relation with several body atoms, ready to be grounded."""
        if relation not in self._plans:
            longer = [rule for rule in self.guides[relation] if len(rule.body) > 1]
            self._plans[relation] = RulePlans(longer, self.index)
        return self._plans[relation]


def _build_command(arguments: argparse.Namespace) -> None:
    settings = _settings(arguments.name)
    if arguments.num_queries is not None:
        settings = replace(settings, num_queries=arguments.num_queries)
    prepare_folder(arguments.out)
    graph = KnowledgeGraph.load(arguments.kg)
    dataset = build(
        arguments.name, graph, seed=arguments.seed, settings=settings, progress=not arguments.quiet
    )
    dataset.save(arguments.out)
    counts = dataset.manifest["counts"]
    queries = counts["queries"]
    sys.stdout.write(
        f"{dataset.name}: |R| {counts['rules']:,}  |D| {counts['documents']:,}  "
        f"|F_R| {counts['judgements']['f_r']:,} pairs of {queries['f_r']:,} queries  "
        f"|F_G| {sum(len(q.answers) for q in dataset.query_set('f_g')):,}  "
        f"|Q| {counts['query_sets']['balanced']:,} balanced, {queries['test']:,} full\n"
        f"written to {arguments.out}, fingerprint {dataset.fingerprint}\n"
    )


def _check_command(arguments: argparse.Namespace) -> None:
    dataset = RuleQADataset.load(Path(arguments.folder))
    for line in check_leakage(dataset):
        sys.stdout.write(f"ok  {line}\n")


def main(argv: Sequence[str] | None = None) -> int:
    """The command line: ``build`` and ``check``."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.ruleqa",
        description="Build a RuleQA benchmark from a knowledge graph, or check a built one.",
        epilog="example: python -m benchmarks.ruleqa build --name ruleqa-i "
        "--kg ../shared/data/icews14 --out runs/ruleqa-i",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    make = commands.add_parser("build", help="build one benchmark", epilog=parser.epilog)
    make.add_argument("--name", required=True, help=f"one of {', '.join(BENCHMARKS)}")
    make.add_argument("--kg", required=True, type=Path, help="the graph folder")
    make.add_argument("--out", required=True, type=Path, help="the dataset folder to write")
    make.add_argument("--seed", type=int, default=0, help="decides samples and halves (0)")
    make.add_argument("--num-queries", type=int, help="size of the balanced set (the paper's |Q|)")
    make.add_argument("--quiet", action="store_true", help="no progress bars")
    make.set_defaults(run=_build_command)
    check = commands.add_parser(
        "check",
        help="prove that a built benchmark does not leak",
        epilog="example: python -m benchmarks.ruleqa check runs/ruleqa-i",
    )
    check.add_argument("folder", help="the dataset folder")
    check.set_defaults(run=_check_command)
    arguments = parser.parse_args(argv)
    return guarded(lambda: arguments.run(arguments))


if __name__ == "__main__":
    sys.exit(main())
