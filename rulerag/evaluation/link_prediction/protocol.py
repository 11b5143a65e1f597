"""Link prediction with rules: filtered MRR and Hits, both directions of every test fact.

Temporal graphs: each query sees the facts before its time, of any split, and other answers true at
the same time are taken out. Static graphs: queries see the training facts, and other answers true
in any split are taken out. Equal scores share their mean rank; the figures with best and worst
ranks are given too.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field
from tqdm import tqdm

from rulerag.composition import Settings
from rulerag.errors import ConfigError
from rulerag.evaluation import peak_memory_mb, versions
from rulerag.evaluation.link_prediction.ranks import (
    Prior,
    Queries,
    Ranks,
    measures,
    queries_of,
    rank_answers,
)
from rulerag.kg import KnowledgeGraph, Vocabulary
from rulerag.mining.amie import AmieMiner
from rulerag.mining.formats import detect_format, import_rules
from rulerag.mining.inference import Candidates, StaticInference, TemporalInference
from rulerag.mining.temporal import TLogicMiner
from rulerag.parallel import Backend, SerialBackend
from rulerag.rules import RuleBank

Application = TemporalInference | StaticInference
MINERS = ("amie", "tlogic")
# Queries whose candidates are held at once.
_PART = 4096
# Chosen on the validation facts of ICEWS14; TLogic's own are 200 walks and bodies known twice.
_MINED_WALKS, _MINED_BODY_SIZE, _IMPORTED_BODY_SIZE = 500, 10, 2


class LinkPredictionSettings(Settings):
    """How rules are mined, applied and ranked.

    Args:
        split: the facts that are predicted, ``valid`` or ``test``.
        limit: only the first so many facts, two queries each; all when None.
        prior: where the frequency of answers counts: ``none``, in queries without candidates
            (``unreached``), or ``everywhere``, between ties and behind all candidates.
        aggregate: how rules are joined: ``max`` (the default) or ``noisy-or`` on static graphs,
            ``noisy-or`` on temporal ones.
        confidence: static graphs: ``pca`` or ``standard``.
        relation_ids: what ids in a TLogic file count: the ``graph``'s ids, or names in ``sorted``
            order.
        lengths: tlogic: body lengths of mined rules.
        num_walks: tlogic: walks for each relation and length.
        min_body_size: temporal graphs: apply rules with so many known bodies; 10 for mined rules
            and 2 for a file when None.
        smoothing: temporal graphs: what is added to the body sizes in confidences.
        threads: of mining and inference.
        seed: of the walks.
    """

    split: Literal["valid", "test"] = "test"
    limit: Annotated[int, Field(ge=1)] | None = None
    prior: Literal["none", "unreached", "everywhere"] = "unreached"
    aggregate: Literal["max", "noisy-or"] | None = None
    confidence: Literal["pca", "standard"] = "pca"
    relation_ids: Literal["graph", "sorted"] = "graph"
    lengths: tuple[int, ...] = (1, 2, 3)
    num_walks: int = _MINED_WALKS
    min_body_size: int | None = None
    smoothing: float = 0.0
    threads: Annotated[int, Field(ge=1)] = 1
    seed: int = 0


def evaluate_links(
    kg: Path,
    *,
    miner: str | None = None,
    rules: Path | None = None,
    settings: LinkPredictionSettings | None = None,
    progress: bool = False,
    backend: Backend | None = None,
) -> dict[str, Any]:
    """Mine or read rules, apply them to both directions of a split's facts, and measure.

    Args:
        kg: a graph folder with splits.
        miner: ``amie`` (static) or ``tlogic`` (temporal), for rules of the training facts.
        rules: a rule file in any format, in place of a miner.
        settings: how they are applied; the defaults when None.
        progress: show progress bars.
        backend: where rules are mined and applied; threads of this process when None.

    Returns:
        The content of ``metrics.json``: measures, seconds of each part, settings, versions.

    Raises:
        ConfigError: neither miner nor rules, or both, or settings that do not fit the graph.
        DataError: a file cannot be read.
        DataFormatError: the rule file is none.
    """
    if (miner is None) == (rules is None):
        raise ConfigError(
            "rules come from a miner or from a file",
            key="rules",
            hint=f"name one: --miner {' or '.join(MINERS)}, or --rules FILE",
        )
    if miner is not None and miner not in MINERS:
        raise ConfigError(
            f"no miner is called {miner!r}", key="miner", hint=f"one of {', '.join(MINERS)}"
        )
    clock = _Clock()
    graph = KnowledgeGraph.load(kg)
    settings = _settings_for(settings or LinkPredictionSettings(), graph, mined=miner is not None)
    clock.lap("load")
    if rules is not None:
        bank = load_rules(rules, graph, settings.relation_ids)
    else:
        bank = _mine(str(miner), graph, settings, progress, backend)
    clock.lap("rules")
    application = _application(bank, graph, settings)
    clock.lap("index")
    known = list(graph.splits.values())
    queries = queries_of(graph.split(settings.split), known, limit=settings.limit)
    prior = Prior.of(graph.train)
    clock.lap("prepare")
    ranks_of = partial(_ranks_of, application, prior, len(graph.entities), settings.prior)
    ranks = _ranks(ranks_of, queries, progress, backend or SerialBackend())
    clock.lap("apply")
    source = miner or "rules"
    sources = {"kg": kg.name, "miner": source, "rules": rules.name if rules is not None else None}
    return {
        "benchmark": f"link-prediction/{graph.name}",
        "method": f"{source}-{settings.aggregate}",
        "num_queries": len(queries),
        "num_rules": len(bank),
        "metrics": measures(ranks),
        "seconds": clock.wall,
        "cpu_seconds": clock.cpu,
        "peak_memory_mb": round(peak_memory_mb(), 1),
        "seed": settings.seed,
        "config": {**sources, **settings.model_dump(mode="json")},
        "versions": versions(),
    }


def _settings_for(
    settings: LinkPredictionSettings, graph: KnowledgeGraph, *, mined: bool
) -> LinkPredictionSettings:
    """The settings with what the graph decides."""
    allowed = ("noisy-or",) if graph.is_temporal else ("max", "noisy-or")
    aggregate = settings.aggregate or allowed[0]
    if aggregate not in allowed:
        kind = "temporal" if graph.is_temporal else "static"
        raise ConfigError(
            f"{aggregate!r} does not go with a {kind} graph",
            key="aggregate",
            hint=f"use {' or '.join(allowed)}",
        )
    size = settings.min_body_size
    if size is None and graph.is_temporal:
        size = _MINED_BODY_SIZE if mined else _IMPORTED_BODY_SIZE
    return settings.model_copy(update={"aggregate": aggregate, "min_body_size": size})


def _mine(
    miner: str,
    graph: KnowledgeGraph,
    settings: LinkPredictionSettings,
    progress: bool,
    backend: Backend | None,
) -> RuleBank:
    common: Any = {"threads": settings.threads, "progress": progress, "backend": backend}
    if miner == "amie":
        return AmieMiner(**common).mine(graph.train)
    tlogic = TLogicMiner(
        lengths=settings.lengths,
        num_walks=settings.num_walks,
        seed=settings.seed,
        **common,
    )
    return tlogic.mine(graph.train)


def _application(
    bank: RuleBank, graph: KnowledgeGraph, settings: LinkPredictionSettings
) -> Application:
    """What applies the rules; the settings fit the graph."""
    if graph.is_temporal:
        return TemporalInference(
            bank,
            list(graph.splits.values()),
            smoothing=settings.smoothing,
            min_body_size=int(settings.min_body_size or 0),
            threads=settings.threads,
        )
    return StaticInference(
        bank,
        [graph.train],
        aggregate=str(settings.aggregate),
        confidence=settings.confidence,
        threads=settings.threads,
    )


def load_rules(path: Path, graph: KnowledgeGraph, relation_ids: str = "graph") -> RuleBank:
    """Read a rule file of any format.

    Args:
        path: the file.
        graph: what the rules are applied to.
        relation_ids: what relation ids in a TLogic file count: ``graph``, the graph's ids; or
            ``sorted``, the places of the names (with underscores) in sorted order, as in the
            folders that TLogic publishes.

    Raises:
        DataError: the file cannot be read.
        DataFormatError: it is no rule file.
        ConfigError: the ids do not fit the graph.
    """
    if detect_format(path) != "tlogic":
        return import_rules(path, graph=graph)
    view = graph
    if relation_ids == "sorted":
        names = sorted(graph.relations.names, key=lambda name: name.replace(" ", "_"))
        vocabulary = Vocabulary(names, [graph.relations.label(name) for name in names])
        view = KnowledgeGraph(graph.entities, vocabulary, {})
    bank = import_rules(path, graph=view)
    _check_ids(bank, graph, relation_ids)
    return bank


def _check_ids(bank: RuleBank, graph: KnowledgeGraph, relation_ids: str) -> None:
    """Refuse rules whose bodies are known more often than their relation has facts."""
    size = np.bincount(graph.train.relation, minlength=len(graph.relations))
    for rule in bank:
        facts = size[graph.relations.id(rule.body[0].relation)]
        if len(rule.body) == 1 and (rule.quality.body_size or 0) > facts:
            other = "sorted" if relation_ids == "graph" else "graph"
            raise ConfigError(
                f"the rule {rule.text!r} counts {rule.quality.body_size} bodies where the graph "
                f"has {facts} facts: the file's relation ids are not these",
                key="relation_ids",
                hint=f"try relation_ids={other}",
            )


def _ranks_of(
    application: Application, prior: Prior, num_entities: int, where: str, part: Queries
) -> Ranks:
    candidates = _candidates(application, part)
    return rank_answers(part, candidates, prior, num_entities, where)


def _ranks(
    ranks_of: Callable[[Queries], Ranks], queries: Queries, progress: bool, backend: Backend
) -> Ranks:
    """The ranks of the answers of all queries, some thousand at a time."""
    starts = range(0, len(queries), _PART)
    parts = backend.map(ranks_of, (queries.part(start, start + _PART) for start in starts))
    shown = tqdm(parts, "queries", total=len(starts), disable=not progress, unit=f"{_PART}")
    return Ranks.join(list(shown))


def _candidates(application: Application, queries: Queries) -> Candidates:
    if isinstance(application, StaticInference):
        return application.candidates(queries.subject, queries.relation)
    return application.candidates(queries.subject, queries.relation, queries.time)


class _Clock:
    """Wall and CPU seconds of named stretches."""

    def __init__(self) -> None:
        self.wall: dict[str, float] = {}
        self.cpu: dict[str, float] = {}
        self._last = time.perf_counter(), time.process_time()

    def lap(self, name: str) -> None:
        now = time.perf_counter(), time.process_time()
        self.wall[name] = round(now[0] - self._last[0], 3)
        self.cpu[name] = round(now[1] - self._last[1], 3)
        self._last = now
