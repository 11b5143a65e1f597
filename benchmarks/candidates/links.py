"""Link prediction with candidate scorers: filtered ranks in both directions of every fact.

The protocol and the ranks are those of :mod:`rulerag.evaluation.link_prediction`: of a dated fact
the facts before its time are known, of a static one the training facts; other true answers are
taken out; ties share their mean rank. The scorers are those of the configuration. What joins them
learns from validation facts; where these are asked, from one half of them, of dated ones the
earlier, and the other half is asked. Every scorer's figures are kept as soon as they are there, and
a run that was killed goes on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.candidates.study import METHOD
from rulerag.arrays import Longs
from rulerag.assembly import method
from rulerag.candidates import CorpusFacts
from rulerag.candidates.embeddings import Embeddings
from rulerag.candidates.learned import LearnedScorer
from rulerag.composition import find
from rulerag.errors import ConfigError
from rulerag.evaluation import peak_memory_mb, versions
from rulerag.evaluation.link_prediction import load_rules
from rulerag.evaluation.link_prediction.ranks import (
    Prior,
    Queries,
    Ranks,
    measures,
    queries_of,
    rank_answers,
)
from rulerag.io import fingerprint_object
from rulerag.kg import FactTable, KnowledgeGraph
from rulerag.mining.amie import AmieMiner
from rulerag.mining.inference import Candidates
from rulerag.mining.temporal import TLogicMiner
from rulerag.protocols import CandidateScorer
from rulerag.ruleqa.validation_split import joined
from rulerag.rules import RuleBank
from rulerag.types import Query

if TYPE_CHECKING:
    from training.embeddings import EmbeddingSettings

# Validation facts that weights are learned from, and queries that are ranked at once.
_LEARNED_FROM, _PART = 2000, 2048


def link_prediction(
    folder: Path,
    *,
    rules: Path | None = None,
    split: str = "test",
    limit: int | None = None,
    vectors: EmbeddingSettings | None = None,
    earlier: Mapping[str, Any] | None = None,
    keep: Callable[[dict[str, Any]], None] = lambda _: None,
) -> dict[str, Any]:
    """Ranks of each scorer, and of all joined.

    Args:
        folder: a graph with splits.
        rules: a rule file; rules are mined from the training facts when None.
        split: the facts that are predicted.
        limit: only so many, drawn by seed where they are validation facts, else the first.
        vectors: how vectors are trained that are scored and joined too; none when None.
        earlier: what this gave before; its figures of the same scorers and queries are taken over.
        keep: called with everything so far after each scorer.

    Raises:
        ConfigError: vectors of a dated graph, which know facts that come after a query.
    """
    graph = KnowledgeGraph.load(folder)
    if vectors is not None and graph.is_temporal:
        raise ConfigError(
            f"vectors know all facts of {graph.name}, those after a query's time too",
            key="vectors",
            hint="leave them out where facts are dated",
        )
    started = time.process_time()
    bank = load_rules(rules, graph) if rules is not None else _mined(graph)
    mining = time.process_time() - started
    taught, wanted = _parts(graph, split, limit)
    queries = queries_of(wanted, list(graph.splits.values()), limit=limit)
    tables = [table.fingerprint for table in graph.splits.values()]
    asked = fingerprint_object([*tables, split, limit])
    facts = known_facts(graph)
    both = facts, facts.reversed
    config = method(METHOD, static=not graph.is_temporal).section("retriever").section("scorer")
    sections = [one.to_dict() for one in config.read("scorers", tuple)]
    pairs = [([_made(one, part, bank) for part in both], one) for one in sections]
    if vectors is not None:
        from training.embeddings import train_embeddings

        train_embeddings(vectors, facts=facts)
        section = {"type": "embeddings", "rank": vectors.rank, "epochs": vectors.epochs}
        pairs.append(([Embeddings(part, folder=vectors.out) for part in both], section))
    examples = [_examples(taught, facts, reverse) for reverse in (False, True)]
    joined_pair = [
        LearnedScorer(one, parts, examples=taught_, questions=_LEARNED_FROM)
        for one, parts, taught_ in zip(
            both, zip(*(pair for pair, _ in pairs), strict=True), examples, strict=True
        )
    ]
    pairs.append((joined_pair, {"type": "learned"}))
    known = {}
    if earlier is not None and earlier.get("fingerprint") == asked:
        known = {row["fingerprint"]: row for row in earlier["scorers"]}
    found: dict[str, Any] = {
        "graph": graph.name,
        "split": split,
        "queries": len(queries),
        "fingerprint": asked,
        "rules": len(bank),
        "mining_cpu_seconds": round(mining, 1),
        "scorers": [],
        "versions": versions(),
    }
    for pair, section in pairs:
        name = pair[0].fingerprint
        row = known.get(name) or {
            "scorer": str(getattr(pair[0], "title", section["type"])),
            "settings": section,
            "fingerprint": name,
            **ranked(pair, queries, graph),
            "peak_memory_mb": round(peak_memory_mb(), 1),
        }
        found["scorers"].append(row)
        keep(found)
    return found


def _parts(graph: KnowledgeGraph, split: str, limit: int | None) -> tuple[FactTable, FactTable]:
    """The validation facts that are learned from, and the facts that are asked."""
    valid = graph.valid
    if split != "valid":
        return valid, graph.split(split)
    order = np.random.default_rng(0).permutation(len(valid))
    if valid.timestamp is None:
        earlier = np.isin(np.arange(len(valid)), order[::2])
    else:
        earlier = valid.timestamp <= np.quantile(valid.timestamp, 0.5, method="lower")
    later = order[~earlier[order]][:limit]
    return valid.select(earlier, "earlier"), valid.select(np.sort(later), "later")


def _mined(graph: KnowledgeGraph) -> RuleBank:
    miner = TLogicMiner() if graph.is_temporal else AmieMiner()
    return miner.mine(graph.train)


def known_facts(graph: KnowledgeGraph) -> CorpusFacts:
    """What queries may see: all dated facts, of which those before them count; training facts."""
    tables: list[FactTable] = list(graph.splits.values()) if graph.is_temporal else [graph.train]
    return CorpusFacts.of_table(joined(tables, "known"))


def _made(section: dict[str, Any], facts: CorpusFacts, bank: RuleBank) -> Any:
    values = dict(section)
    entry = find("scorer", values.pop("type"))
    given = {"facts": facts, "bank": bank, "time_step": 1}
    if facts.is_dated and "time_step" in entry.injected:
        given["time_step"] = _step(facts)
    return entry.maker(**{name: given[name] for name in entry.injected}, **values)


def _step(facts: CorpusFacts) -> int:
    """The least distance of two times."""
    gaps = np.diff(np.unique(facts.times))
    return int(gaps.min()) if len(gaps) else 1


def _examples(taught: FactTable, facts: CorpusFacts, reverse: bool) -> list[Query]:
    """Validation facts as questions, with every answer that these facts have for each."""
    answers: dict[tuple[str, str, int | None], dict[str, None]] = {}
    for subject, relation, object_, when in taught:
        ends = (object_, subject) if reverse else (subject, object_)
        answer = facts.entity(facts.table.entities.id(ends[1]))  # answers are in readable form
        answers.setdefault((ends[0], relation, when), {})[answer] = None
    rows = np.random.default_rng(0).permutation(len(taught))[:_LEARNED_FROM]
    asked = []
    for subject, relation, object_, when in map(taught.fact, rows.tolist()):
        asked.append((object_ if reverse else subject, relation, when))
    return [_query(*key, answers=tuple(answers[key])) for key in dict.fromkeys(asked)]


def _query(subject: str, relation: str, when: int | None, answers: tuple[str, ...] = ()) -> Query:
    return Query("link", "?", subject, relation, when, answers=answers, prediction=True)


def ranked(
    pair: Sequence[CandidateScorer], queries: Queries, graph: KnowledgeGraph
) -> dict[str, Any]:
    """Measures of two scorers, of objects and of subjects, and the seconds that they took."""
    started = time.process_time()
    prior = Prior.of(graph.train)
    parts: list[Ranks] = []
    order = np.lexsort((queries.subject, queries.relation, queries.time))
    for start in range(0, len(order), _PART):
        part = _picked(queries, order[start : start + _PART])
        found = _candidates(part, pair, graph)
        parts.append(rank_answers(part, found, prior, len(graph.entities), "everywhere"))
    metrics = measures(Ranks.join(parts))
    return {"metrics": metrics, "cpu_seconds": round(time.process_time() - started, 1)}


def _picked(queries: Queries, places: Longs) -> Queries:
    """Some queries, in another order."""
    starts, ends = queries.other_bounds[places], queries.other_bounds[places + 1]
    others = [queries.other[start:end] for start, end in zip(starts, ends, strict=True)]
    return Queries(
        queries.subject[places],
        queries.relation[places],
        queries.time[places],
        queries.answer[places],
        np.concatenate([[0], np.cumsum(ends - starts)]),
        np.concatenate([np.zeros(0, np.int32), *others]),
    )


def _candidates(
    queries: Queries, pair: Sequence[CandidateScorer], graph: KnowledgeGraph
) -> Candidates:
    """What two scorers find, one for each direction."""
    entities, relations = graph.entities.names, graph.relations.names
    asked: list[dict[tuple[int, int, int], Query]] = [{}, {}]
    keys = []
    for subject, relation, when in zip(
        queries.subject.tolist(), queries.relation.tolist(), queries.time.tolist(), strict=True
    ):
        backwards, plain = divmod(relation, len(relations))
        key = subject, relation, when
        keys.append((backwards, key))
        if key not in asked[backwards]:
            time_ = when if graph.is_temporal else None
            asked[backwards][key] = _query(entities[subject], relations[plain], time_)
    found = {}
    for scorer, mine in zip(pair, asked, strict=True):
        for key, one in zip(mine, scorer.score(list(mine.values())), strict=True):
            place = np.argsort(one.entity)
            found[key] = one.entity[place], one.score[place]
    row = {key: number for number, key in enumerate(found)}
    sizes = [len(entity) for entity, _ in found.values()]
    entity = np.concatenate([np.zeros(0, np.int64), *(one for one, _ in found.values())])
    score = np.concatenate([np.zeros(0), *(one for _, one in found.values())])
    return Candidates(
        np.array([row[key] for _, key in keys], np.int64),
        np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        entity.astype(np.int32),
        score,
        np.zeros(len(entity), np.int32),
    )
