"""REST for every action of the studio; rules arrive as server-sent events."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

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
from rulerag.studio.service import (
    Change,
    Goal,
    Job,
    Level,
    Node,
    Probe,
    Session,
    Studio,
    View,
    snippets,
)
from rulerag.studio.systems import Attack, SystemSettings
from rulerag.studio.web.benches import add_benches
from rulerag.studio.web.documentation import documentation_page

if TYPE_CHECKING:
    from fastapi import FastAPI

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


class Renamed(BaseModel):
    """A session's new name."""

    name: str


class Asked(BaseModel):
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
    generator: str | None = None
    instructed: bool | None = None
    instructions: str | None = None
    retriever: str | None = None


class Deeper(BaseModel):
    """So many further calls."""

    budget: int = Field(default=500, ge=1)


class Subset(BaseModel):
    """Places of the sources that are read, from 0; ``again`` asks what was asked before."""

    kept: list[int]
    again: bool = False


class RedTeam(BaseModel):
    """Questions and attacks that are tried on a system."""

    system: str
    generators: list[str]
    questions: list[str] | None = None
    attacks: list[str] | None = None
    instructed: bool = True


def create_app(studio: Studio) -> Any:
    """The REST application of a studio, without its guards and pages.

    Args:
        studio: the service.

    Raises:
        MissingDependencyError: the extra ``studio`` is not installed.
    """
    try:
        from fastapi import FastAPI
        from fastapi.exceptions import RequestValidationError
        from fastapi.responses import JSONResponse
    except ImportError as error:
        raise MissingDependencyError("fastapi", "studio") from error
    from rulerag.studio.web.assistants import assistant_server

    assistants = assistant_server(studio)
    routes = [] if assistants is None else assistants.streamable_http_app(json_response=True).routes

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            if assistants is not None:
                await stack.enter_async_context(assistants.session_manager.run())
            yield

    app = FastAPI(
        title="rulerag studio",
        version=__version__,
        description="Ask a RAG system, see which sources make it answer so, change them, break it.",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    app.router.routes.extend(routes)

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
    add_benches(app, studio)
    _sessions(app, studio)
    _answers(app, studio)
    _explanations(app, studio)
    return app


def _about(app: FastAPI, studio: Studio) -> None:
    from fastapi.responses import HTMLResponse

    @app.get("/health", tags=["studio"])
    async def health() -> dict[str, str]:
        """Whether the studio is up."""
        return {"status": "ok", "version": __version__}

    @app.get("/docs", include_in_schema=False, response_class=HTMLResponse)
    async def docs() -> Any:
        return HTMLResponse(documentation_page(app.openapi()))

    @app.get("/api/systems", tags=["systems"])
    def systems() -> list[dict[str, Any]]:
        """Every system: what it is, what may answer, its target condition."""
        return studio.systems()

    @app.post("/api/systems", tags=["systems"], status_code=201)
    def add_system(settings: SystemSettings) -> dict[str, str]:
        """Add a system of texts for as long as this studio runs."""
        return {"name": studio.add_system(settings)}

    @app.get("/api/attacks", tags=["systems"])
    def attacks() -> list[Attack]:
        """The library of attack templates, each with its source."""
        return studio.attacks()

    @app.post("/api/red-team", tags=["systems"])
    def red_team(wanted: RedTeam) -> dict[str, Any]:
        """Try attacks on questions; returns when all are tried, and asks nothing twice."""
        run = studio.start_red_team(
            wanted.system,
            wanted.generators,
            questions=wanted.questions,
            names=wanted.attacks,
            instructed=wanted.instructed,
        )
        run.finished.wait()
        if run.error:
            raise GenerationError(run.error)
        made: dict[str, Any] = json.loads(run.report.to_json())
        return made


def _sessions(app: FastAPI, studio: Studio) -> None:
    @app.get("/api/sessions", tags=["sessions"])
    def sessions() -> list[dict[str, Any]]:
        """Every session, the last changed first."""
        return studio.sessions()

    @app.post("/api/sessions", tags=["sessions"], status_code=201)
    def new_session(wanted: NewSession) -> Session:
        """Begin a session with a system."""
        return studio.new_session(wanted.system, wanted.name, wanted.question)

    @app.post("/api/sessions/open", tags=["sessions"], status_code=201)
    def load(exported: dict[str, Any]) -> Session:
        """Open an exported session as a new one; asks no model."""
        return studio.load(exported)

    @app.get("/api/sessions/{session}", tags=["sessions"])
    def session(session: str) -> Session:
        """One session as it is now."""
        return studio.session(session)

    @app.patch("/api/sessions/{session}", tags=["sessions"])
    def rename(session: str, wanted: Renamed) -> Session:
        """Give a session another name."""
        return studio.rename(session, wanted.name)

    @app.delete("/api/sessions/{session}", tags=["sessions"])
    def delete(session: str) -> dict[str, str]:
        """Forget a session and its explanations."""
        studio.delete(session)
        return {"deleted": session}

    @app.post("/api/sessions/{session}/retrieve", tags=["sources"])
    def retrieve(session: str, asked: Asked) -> Session:
        """Find the sources of a question."""
        return studio.retrieve(
            session,
            asked.question,
            retriever=asked.retriever,
            top_k=asked.top_k,
            revision=asked.revision,
        )

    @app.post("/api/sessions/{session}/change", tags=["sources"])
    def change(session: str, wanted: Edited) -> Session:
        """Edit, add, delete, move or attack a source; change the question or what answers."""
        return studio.change(session, wanted.change, revision=wanted.revision)

    @app.post("/api/sessions/{session}/undo", tags=["sources"])
    def undo(session: str) -> Session:
        """Take the last edit back."""
        return studio.undo(session)

    @app.post("/api/sessions/{session}/redo", tags=["sources"])
    def redo(session: str) -> Session:
        """Bring back what was undone."""
        return studio.redo(session)

    @app.get("/api/sessions/{session}/export", tags=["sessions"])
    def export(session: str) -> dict[str, Any]:
        """A session as one JSON object, with every probe; no keys, no paths."""
        return studio.export(session)

    @app.get("/api/sessions/{session}/code/{action}", tags=["sessions"])
    def code(session: str, action: str) -> dict[str, str]:
        """An action as Python, command line and curl: retrieve, answer or explain."""
        if action not in ("retrieve", "answer", "explain"):
            raise UnknownNameError(f"no action {action!r}", hint="retrieve, answer or explain")
        return {str(kind): text for kind, text in snippets(studio.session(session), action).items()}


def _answers(app: FastAPI, studio: Studio) -> None:
    from fastapi.sse import EventSourceResponse, ServerSentEvent

    @app.post("/api/sessions/{session}/answer", tags=["answers"])
    def answer(session: str) -> dict[str, Any]:
        """What the system answers from the sources as they are, and whether the target holds."""
        return studio.answer(session)

    @app.get(
        "/api/sessions/{session}/answer/events",
        tags=["answers"],
        response_class=EventSourceResponse,
    )
    def answer_events(session: str) -> Iterator[Any]:
        """The answer in pieces as it is written, then the event ``answer`` with all of it."""
        pieces = studio.answer_pieces(session)
        while True:
            try:
                piece = next(pieces)
            except StopIteration as end:
                yield ServerSentEvent(data=end.value, event="answer")
                return
            except RuleRAGError as error:  # the status has been sent already
                yield ServerSentEvent(data=str(error), event="error")
                return
            yield ServerSentEvent(data=piece, event="piece")

    @app.get("/api/sessions/{session}/estimate", tags=["answers"])
    def estimate(session: str) -> dict[str, Any]:
        """What an explanation will cost, before the first call."""
        return studio.estimate(session)

    @app.post("/api/sessions/{session}/explain", tags=["answers"], status_code=202)
    def explain(session: str, wanted: Explaining) -> View:
        """Begin to explain; follow it at ``/api/explanations/ID/events``."""
        return studio.explain(
            session,
            wanted.goal,
            budget=wanted.budget,
            generator=wanted.generator,
            instructed=wanted.instructed,
            instructions=wanted.instructions,
            retriever=wanted.retriever,
        )


def _explanations(app: FastAPI, studio: Studio) -> None:
    from fastapi import Depends
    from fastapi.responses import HTMLResponse, Response
    from fastapi.sse import EventSourceResponse, ServerSentEvent

    def known(explanation: str) -> Job:
        return studio.job(explanation)

    looked_up = Depends(known)  # before the stream begins, so that an error has its status

    @app.get("/api/explanations/{explanation}", tags=["explanations"])
    def view(explanation: str) -> View:
        """An explanation as it is known now."""
        return studio.view(explanation)

    @app.get(
        "/api/explanations/{explanation}/events",
        tags=["explanations"],
        response_class=EventSourceResponse,
    )
    async def events(job: Any = looked_up) -> AsyncIterator[Any]:
        """What is known, and again whenever a rule or probes are there, until it has stopped."""
        async for one in job.follow():
            yield ServerSentEvent(data=one, event=one.status)

    def posted(path: str, work: Callable[..., Any]) -> None:
        where = f"/api/explanations/{{explanation}}/{path}"
        app.post(where, tags=["explanations"], name=path)(work)

    def cancel(explanation: str) -> View:
        """Stop with what is certain."""
        return studio.cancel(explanation)

    def deepen(explanation: str, wanted: Deeper) -> View:
        """Go on with further calls; nothing is asked twice."""
        return studio.deepen(explanation, wanted.budget)

    def probe(explanation: str, wanted: Subset) -> Probe:
        """Ask one subset of the sources."""
        return studio.probe(explanation, wanted.kept, again=wanted.again)

    posted("cancel", cancel)
    posted("deepen", deepen)
    posted("probe", probe)

    @app.get("/api/explanations/{explanation}/probes", tags=["explanations"])
    def probes(explanation: str, claim: int = 0) -> list[Probe]:
        """Every answered subset with its output."""
        return studio.job(explanation).probes(claim)

    @app.get("/api/explanations/{explanation}/levels", tags=["explanations"])
    def levels(explanation: str, claim: int = 0) -> list[Level]:
        """What was asked of an explanation's subsets, by how many sources they keep."""
        return studio.levels(explanation, claim)

    @app.get("/api/explanations/{explanation}/levels/{size}", tags=["explanations"])
    def nodes(explanation: str, size: int, claim: int = 0) -> list[Node]:
        """The subsets of one size: all of them where they are few, else those that were asked."""
        return studio.nodes(explanation, size, claim)

    @app.get(
        "/api/explanations/{explanation}/{kind}.svg",
        tags=["explanations"],
        response_class=Response,
    )
    def picture(explanation: str, kind: str, claim: int = 0) -> Any:
        """A picture: lattice (what is known of the subsets), flow, certainty or bars."""
        drawn = studio.picture(explanation, kind, claim).svg
        return Response(drawn, media_type="image/svg+xml", headers=_SEALED)

    @app.get(
        "/api/explanations/{explanation}/page", tags=["explanations"], response_class=HTMLResponse
    )
    def page(explanation: str) -> Any:
        """The explanation as one HTML page that opens offline."""
        return HTMLResponse(studio.page(explanation), headers=_SEALED)
