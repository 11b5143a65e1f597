"""REST for trainers and comparers: rule banks, two ways beside each other, runs, own systems."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel, Field

from rulerag.studio.benchmarks import RunRow, Understood, Way, gain
from rulerag.studio.service import Beside, Studio
from rulerag.studio.systems import SystemForm


class Compared(BaseModel):
    """A question that is asked two ways; a way whose generator is empty answers nothing."""

    question: str
    first: Way
    second: Way
    top_k: int | None = None
    rules_off: list[str] = []


class Differing(BaseModel):
    """Queries of a benchmark that are asked two ways, ``most`` of them at most."""

    first: Way = Way("plain")
    second: Way = Way("guided")
    query_set: str = "full"
    most: int = Field(default=200, ge=1)


def add_benches(app: FastAPI, studio: Studio) -> None:
    """Add the routes to an application.

    Args:
        app: the application.
        studio: the service.
    """
    _ways(app, studio)
    _bank(app, studio)
    _runs(app, studio)
    _own(app, studio)


def _ways(app: FastAPI, studio: Studio) -> None:
    @app.post("/api/systems/{system}/beside", tags=["comparing"])
    def beside(system: str, wanted: Compared) -> Beside:
        """One question two ways: each retriever's ranks side by side, and both answers."""
        return studio.beside(system, **dict(wanted))

    @app.post("/api/systems/{system}/differences", tags=["comparing"])
    def differences(system: str, wanted: Differing) -> dict[str, Any]:
        """Where rules, another encoder or another reader help and where they hurt."""
        made = studio.differences(system, **dict(wanted))
        return {
            "first": asdict(made.first),
            "second": asdict(made.second),
            "query_set": made.query_set,
            "queries": len(made.rows),
            "of": made.of,
            "means": {name: list(both) for name, both in made.means().items()},
            "better": list(map(_both, made.better)),
            "worse": list(map(_both, made.worse)),
        }

    @app.get("/api/systems/{system}/query-sets", tags=["comparing"])
    def query_sets(system: str) -> dict[str, int]:
        """The query sets and splits of a benchmark, with their sizes."""
        return studio.bench(system).query_sets()

    @app.get("/api/systems/{system}/understood", tags=["systems"])
    def understood(system: str, question: str) -> Understood:
        """What a question in one's own words was taken to mean by a benchmark."""
        return studio.bench(system).understood(question)


def _both(row: tuple[RunRow, RunRow]) -> dict[str, Any]:
    """What came of one query both times."""
    about = asdict(row[0])
    sides = [{key: getattr(one, key) for key in ("outcome", "answer", "rank")} for one in row]
    shared = {key: about[key] for key in ("query_id", "question", "answers")}
    return shared | {"first": sides[0], "second": sides[1], "gain": gain(row)[0]}


def _bank(app: FastAPI, studio: Studio) -> None:
    app.get("/api/systems/{system}/rules", tags=["rules"])(studio.rules_for)
    app.get("/api/systems/{system}/bank", tags=["rules"])(studio.search_rules)

    @app.get("/api/systems/{system}/bank/{rule}", tags=["rules"])
    def rule_examples(system: str, rule: str) -> dict[str, Any]:
        """Groundings of a rule in the documents, for and against it."""
        return asdict(studio.bench(system).examples_of(rule))


def _runs(app: FastAPI, studio: Studio) -> None:
    app.get("/api/runs", tags=["runs"])(studio.runs)

    @app.get("/api/runs/{name}", tags=["runs"])
    def run(
        name: str,
        outcome: str = "",
        rule: str = "",
        words: str = "",
        recall: str = "",
        k: int = 10,
        match: str = "",
    ) -> dict[str, Any]:
        """A run of `rulerag evaluate`: metrics, failures by class, queries.

        ``recall`` is ``found`` or ``not found`` (an accepted answer in the first ``k`` documents),
        ``match`` is ``exact`` or ``not exact``.
        """
        made = studio.run(name)
        rows = made.filtered(
            outcome=outcome, rule=rule, words=words, recall=recall, k=k, match=match
        )
        return {
            "metrics": dict(made.metrics),
            "outcomes": made.outcomes,
            "rules": {rule: made.rules.get(rule, "") for rule in made.found_by},
            "rows": [asdict(row) for row in rows],
        }

    @app.get("/api/runs/{name}/queries/{query}", tags=["runs"])
    def run_query(name: str, query: str) -> dict[str, Any]:
        """One query of a run with its documents and the rules that found them."""
        made = studio.run(name)
        row = made.row(query)
        return asdict(row) | {"documents": [asdict(one) for one in made.documents[row.query_id]]}

    @app.get("/api/runs/{name}/against/{other}", tags=["runs"])
    def against(name: str, other: str) -> dict[str, Any]:
        """Two runs, query by query: which outcomes became which, and every query that changed."""
        pair = studio.run(name).beside(studio.run(other))
        moves = [{"from": one, "to": two, "queries": n} for (one, two), n in pair.moves.items()]
        changed = list(map(_both, pair.changed))
        return {"queries": len(pair.rows), "moves": moves, "changed": changed}


def _own(app: FastAPI, studio: Studio) -> None:
    app.get("/api/own", tags=["systems"])(studio.own.folders)
    app.post("/api/own/check", tags=["systems"])(studio.own_problems)

    @app.post("/api/own", tags=["systems"], status_code=201)
    def add_own(form: SystemForm) -> dict[str, str]:
        """Keep a system of one's own: a folder of texts, an endpoint, instructions, a condition."""
        return {"name": studio.add_own(form)}
