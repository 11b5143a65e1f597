"""REST for trainers and comparers: rule banks, two ways beside each other, runs, own systems."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, Field

from rulerag.studio.benchmarks import Difference, Differences, RunRow, Understood, Way
from rulerag.studio.service import Beside, Studio
from rulerag.studio.systems import OwnSystem

if TYPE_CHECKING:
    from fastapi import FastAPI


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
    @app.post("/api/systems/{name}/beside", tags=["comparing"])
    def beside(name: str, wanted: Compared) -> Beside:
        """One question two ways: each retriever's ranks side by side, and both answers."""
        return studio.beside(
            name,
            wanted.question,
            wanted.first,
            wanted.second,
            top_k=wanted.top_k,
            rules_off=wanted.rules_off,
        )

    @app.post("/api/systems/{name}/differences", tags=["comparing"])
    def differences(name: str, wanted: Differing) -> dict[str, Any]:
        """Where rules, another encoder or another reader help and where they hurt."""
        return _told(
            studio.differences(
                name,
                wanted.first,
                wanted.second,
                query_set=wanted.query_set,
                most=wanted.most,
            )
        )

    @app.get("/api/systems/{name}/query-sets", tags=["comparing"])
    def query_sets(name: str) -> dict[str, int]:
        """The query sets and splits of a benchmark, with their sizes."""
        return studio.query_sets(name)

    @app.get("/api/systems/{name}/understood", tags=["systems"])
    def understood(name: str, question: str) -> Understood:
        """What a question in one's own words was taken to mean by a benchmark."""
        return studio.understood(name, question)


def _told(made: Differences) -> dict[str, Any]:
    def row(one: Difference) -> dict[str, Any]:
        return asdict(one) | {"gain": one.gain[0]}

    return {
        "first": asdict(made.first),
        "second": asdict(made.second),
        "query_set": made.query_set,
        "queries": len(made.rows),
        "of": made.of,
        "means": {name: list(both) for name, both in made.means().items()},
        "better": [row(one) for one in made.better],
        "worse": [row(one) for one in made.worse],
    }


def _bank(app: FastAPI, studio: Studio) -> None:
    @app.get("/api/systems/{name}/rules", tags=["rules"])
    def rules_for(name: str, question: str) -> list[dict[str, Any]]:
        """The mined rules that guide a question in a benchmark."""
        return studio.rules_for(name, question)

    @app.get("/api/systems/{name}/bank", tags=["rules"])
    def search_rules(name: str, words: str = "") -> list[dict[str, Any]]:
        """Rules of a benchmark's bank that hold every word, the most confident first."""
        return studio.search_rules(name, words)

    @app.get("/api/systems/{name}/bank/{rule}", tags=["rules"])
    def rule_examples(name: str, rule: str) -> dict[str, Any]:
        """Groundings of a rule in the documents, for and against it."""
        return studio.rule_examples(name, rule)


def _runs(app: FastAPI, studio: Studio) -> None:
    @app.get("/api/runs", tags=["runs"])
    def runs() -> list[str]:
        """The names of the run folders that were opened."""
        return studio.runs()

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
            outcome=outcome,
            rule=rule,
            words=words,
            recall=recall,  # type: ignore[arg-type]  # looked at there
            k=k,
            match=match,  # type: ignore[arg-type]
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
        pair = studio.run_pair(name, other)

        def side(row: RunRow) -> dict[str, Any]:
            return {"outcome": row.outcome, "answer": row.answer, "rank": row.rank}

        return {
            "queries": len(pair.rows),
            "moves": [
                {"from": one, "to": two, "queries": n} for (one, two), n in pair.moves.items()
            ],
            "changed": [
                {
                    "query_id": one.query_id,
                    "question": one.question,
                    "answers": list(one.answers),
                    "first": side(one),
                    "second": side(two),
                }
                for one, two in pair.changed()
            ],
        }


def _own(app: FastAPI, studio: Studio) -> None:
    @app.get("/api/own", tags=["systems"])
    def own_folders() -> list[str]:
        """The folders of texts beside the systems' files, which a system of one's own may name."""
        return studio.own_folders()

    @app.post("/api/own", tags=["systems"], status_code=201)
    def add_own(form: OwnSystem) -> dict[str, str]:
        """Keep a system of one's own: a folder of texts, an endpoint, instructions, a condition."""
        return {"name": studio.add_own(form)}

    @app.post("/api/own/check", tags=["systems"])
    def own_problems(form: OwnSystem) -> dict[str, str]:
        """What is wrong with it, by field; nothing where it would be kept."""
        return studio.own_problems(form)
