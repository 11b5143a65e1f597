"""REST for every action of the studio; explanations arrive as server-sent events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any, cast

from fastapi import Body, Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response
from fastapi.sse import EventSourceResponse, ServerSentEvent
from pydantic import BaseModel, Field

from rulerag import __version__
from rulerag.errors import (
    ConfigError,
    DataError,
    EditConflictError,
    GenerationError,
    MissingDependencyError,
    OutputError,
    RuleRAGError,
    UnknownNameError,
)
from rulerag.studio.service import Change, Goal, Job, Probe, RedTeamSuite, Session, Studio, View
from rulerag.studio.systems import SystemForm, SystemSettings
from rulerag.studio.web.assistants import assistant_server
from rulerag.views import Page, Table, Text

_STATUS: tuple[tuple[type[RuleRAGError], int], ...] = (
    (UnknownNameError, 404),
    (EditConflictError, 409),
    (ConfigError, 422),
    (DataError, 422),
    (MissingDependencyError, 501),
    (OutputError, 507),
    (RuleRAGError, 502),
)
# What others wrote is shown without scripts, frames or addresses to fetch.
_SEALED = {"Content-Security-Policy": "sandbox; default-src 'none'; style-src 'unsafe-inline'"}


class NewSession(BaseModel):
    """A session to begin."""

    system: str
    name: str = ""
    question: str | None = None


class RetrievalBody(BaseModel):
    """What is retrieved."""

    question: str | None = None
    retriever: str | None = None
    top_k: int | None = None
    revision: int | None = None


class Edited(BaseModel):
    """One edit, and the revision that it was made on."""

    change: Change
    revision: int | None = None


class Explaining(BaseModel):
    """What is explained, and with how many calls at most."""

    goal: Goal | None = None
    budget: int = Field(default=500, ge=1)
    each: bool = False
    generator: str | None = None
    instructed: bool | None = None
    instructions: str | None = None
    retriever: str | None = None


class Subset(BaseModel):
    """Places of the sources that are read, from 0; ``again`` asks what was asked before."""

    kept: list[int]
    again: bool = False


def create_app(studio: Studio) -> FastAPI:
    """The REST application of a studio, without its guards and pages.

    Args:
        studio: the service.
    """
    assistants = assistant_server(studio)

    def lifespan(_: FastAPI) -> Any:
        # An answer waits in a thread for its model; the usual few threads would keep others out.
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(128))
        return assistants.session_manager.run()

    app = FastAPI(
        title="rulerag studio",
        version=__version__,
        description="Ask a RAG system, see which sources make it answer so, change them, break it.",
        docs_url=None,  # its scripts would be fetched from elsewhere
        redoc_url=None,
        lifespan=lifespan,
    )
    app.router.routes.extend(assistants.streamable_http_app(json_response=True).routes)

    async def refused(_: Any, error: Exception) -> JSONResponse:
        status = next(code for kind, code in _STATUS if isinstance(error, kind))
        return JSONResponse({"error": type(error).__name__, "message": str(error)}, status)

    async def misread(_: Any, error: Exception) -> JSONResponse:
        # Without the request itself, which may hold what JSON has no place for.
        found = cast("RequestValidationError", error).errors()
        where = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in found)
        return JSONResponse({"error": "ConfigError", "message": where}, 422)

    app.add_exception_handler(RuleRAGError, refused)
    app.add_exception_handler(RequestValidationError, misread)
    _about(app, studio)
    _sessions(app, studio)
    _answers(app, studio)
    _explanations(app, studio)
    return app


def _documentation(described: Mapping[str, Any]) -> str:
    """The OpenAPI description as a page that needs no script from elsewhere."""
    rows = [
        (
            method.upper(),
            path,
            one.get("description", "").partition("\n\n")[0],
            _takes(described, one),
        )
        for path, methods in described["paths"].items()
        for method, one in methods.items()
    ]
    about = described["info"]["description"], "In full, for programs: /openapi.json"
    tools = "Tools for assistants (Model Context Protocol): /mcp"
    table = Table(("method", "address", "what it does", "takes"), tuple(rows))
    return Page("rulerag studio: interface", (Text((*about, tools)), table)).html()


def _takes(described: Mapping[str, Any], operation: Mapping[str, Any]) -> str:
    content = operation.get("requestBody", {}).get("content", {})
    body = content.get("application/json", {}).get("schema", {})
    held = described["components"]["schemas"].get(body.get("$ref", "").rpartition("/")[2], body)
    given = [one["name"] for one in operation.get("parameters", ())]
    return ", ".join([*given, *held.get("properties", {})])


def add(
    app: FastAPI, tag: str, actions: dict[str, Callable[..., Any]], method: str = "GET"
) -> None:
    """Actions of the service whose arguments all stand in the address, as they are.

    Args:
        app: the application.
        tag: what they are about.
        actions: by their addresses.
        method: of HTTP.
    """
    for path, action in actions.items():
        app.add_api_route(path, action, methods=[method], tags=[tag])


def _about(app: FastAPI, studio: Studio) -> None:
    @app.get("/health", tags=["studio"])
    async def health() -> dict[str, str]:
        """Whether the studio is up."""
        return {"status": "ok", "version": __version__}

    @app.get("/docs", include_in_schema=False, response_class=HTMLResponse)
    async def docs() -> Any:
        return HTMLResponse(_documentation(app.openapi()))

    add(app, "systems", {"/api/systems": studio.systems, "/api/attacks": studio.attacks})
    add(app, "systems", {"/api/own": studio.own.folders, "/api/runs": studio.runs})
    one = "/api/systems/{system}"
    add(app, "rules", {f"{one}/rules": studio.rules_for, f"{one}/bank": studio.search_rules})
    app.post("/api/own/check", tags=["systems"])(studio.own_problems)

    @app.post("/api/own", tags=["systems"], status_code=201)
    def add_own(form: SystemForm) -> dict[str, str]:
        """Keep a system of one's own: a folder of texts, an endpoint, instructions, a condition."""
        return {"name": studio.add_own(form)}

    @app.post("/api/systems", tags=["systems"], status_code=201)
    def add_system(settings: SystemSettings) -> dict[str, str]:
        """Add a system of texts for as long as this studio runs."""
        return {"name": studio.add_system(settings)}

    @app.post("/api/red-team", tags=["systems"])
    def red_team(suite: RedTeamSuite) -> dict[str, Any]:
        """Try attacks on questions; returns when all are tried, and asks nothing twice."""
        run = studio.start_red_team(suite)
        run.finished.wait()
        if run.error:
            raise GenerationError(run.error)
        made: dict[str, Any] = json.loads(run.report.to_json())
        return made


def _sessions(app: FastAPI, studio: Studio) -> None:
    one = "/api/sessions/{session}"
    add(app, "sessions", {one: studio.session, f"{one}/export": studio.export})
    add(app, "sources", {f"{one}/undo": studio.undo, f"{one}/redo": studio.redo}, "POST")

    @app.get("/api/sessions", tags=["sessions"])
    def sessions(request: Request) -> list[dict[str, Any]]:
        """The sessions that were begun with the same cookie; others are read by their ids."""
        return studio.sessions(request.state.visitor)

    @app.post("/api/sessions", tags=["sessions"], status_code=201)
    def new_session(wanted: NewSession, request: Request) -> Session:
        """Begin a session with a system."""
        return studio.new_session(**dict(wanted), owner=request.state.visitor)

    @app.post("/api/sessions/open", tags=["sessions"], status_code=201)
    def load(exported: dict[str, Any], request: Request) -> Session:
        """Open an exported session as a new one; asks no model."""
        return studio.load(exported, request.state.visitor)

    @app.patch(one, tags=["sessions"])
    def rename(session: str, name: Annotated[str, Body(embed=True)]) -> Session:
        """Give a session another name."""
        return studio.rename(session, name)

    @app.delete(one, tags=["sessions"])
    def delete(session: str) -> dict[str, str]:
        """Forget a session and its explanations."""
        studio.delete(session)
        return {"deleted": session}

    @app.post(f"{one}/retrieve", tags=["sources"])
    def retrieve(session: str, asked: RetrievalBody) -> Session:
        """Find the sources of a question."""
        return studio.retrieve(session, **dict(asked))

    @app.post(f"{one}/change", tags=["sources"])
    def change(session: str, wanted: Edited) -> Session:
        """Edit, add, delete, move or attack a source; change the question or what answers."""
        return studio.change(session, **dict(wanted))


def _answers(app: FastAPI, studio: Studio) -> None:
    one = "/api/sessions/{session}"
    add(app, "answers", {f"{one}/answer": studio.answer}, "POST")

    @app.get(f"{one}/answer/events", tags=["answers"], response_class=EventSourceResponse)
    def answer_events(session: str) -> Iterator[Any]:
        """The answer in pieces as it is written, then the event ``answer`` with all of it."""
        try:
            for piece in studio.answer_pieces(session):
                event = "piece" if isinstance(piece, str) else "answer"
                yield ServerSentEvent(data=piece, event=event)
        except RuleRAGError as error:  # the status has been sent already
            yield ServerSentEvent(data=str(error), event="error")

    @app.get(f"{one}/estimate", tags=["answers"])
    def estimate(session: str) -> dict[str, Any]:
        """What an explanation will cost, before the first call."""
        return studio.estimate(session)

    @app.post(f"{one}/explain", tags=["answers"], status_code=202)
    def explain(session: str, wanted: Explaining) -> View:
        """Begin to explain; follow it at ``/api/explanations/ID/events``."""
        return studio.explain(session, **dict(wanted))


def _explanations(app: FastAPI, studio: Studio) -> None:
    tag, one = "explanations", "/api/explanations/{explanation}"

    def known(explanation: str) -> Job:
        return studio.job(explanation)

    looked_up = Depends(known)  # before the stream begins, so that an error has its status

    @app.get(f"{one}/events", tags=[tag], response_class=EventSourceResponse)
    async def events(job: Any = looked_up) -> AsyncIterator[Any]:
        """What is known, and again whenever more is, until it has stopped."""
        async for view in job.follow():
            yield ServerSentEvent(data=view, event=view.status)

    add(app, tag, {one: studio.view, f"{one}/probes": studio.probes})
    add(app, tag, {f"{one}/cancel": studio.cancel}, "POST")

    @app.post(f"{one}/deepen", tags=[tag])
    def deepen(explanation: str, budget: Annotated[int, Body(embed=True, ge=1)] = 500) -> View:
        """Go on with further calls; nothing is asked twice."""
        return studio.deepen(explanation, budget)

    @app.post(f"{one}/probe", tags=[tag])
    def probe(explanation: str, wanted: Subset) -> Probe:
        """Ask one subset of the sources."""
        return studio.job(explanation).ask(wanted.kept, again=wanted.again)

    @app.get(f"{one}/{{kind}}.svg", tags=[tag], response_class=Response)
    def picture(explanation: str, kind: str, claim: int = 0, phone: bool = False) -> Any:
        """A picture: lattice (what is known of the subsets), flow or bars."""
        made = studio.picture(explanation, kind, claim)
        drawn = made.phone if phone else made.svg
        return Response(drawn, media_type="image/svg+xml", headers=_SEALED)

    @app.get(f"{one}/page", tags=[tag], response_class=HTMLResponse)
    def page(explanation: str) -> Any:
        """The explanation as one HTML page that opens offline."""
        return HTMLResponse(studio.page(explanation), headers=_SEALED)
