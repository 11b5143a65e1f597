"""The studio's actions as tools of the Model Context Protocol, for assistants."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rulerag.studio.service import Studio


def assistant_server(studio: Studio) -> Any:
    """A server of the tools ``answer``, ``explain``, ``probe`` and ``rules_for``.

    They do what the screens do, on sessions of the same studio; what they return is material of
    sources and models, which may be an attacker's.

    Returns:
        The server; None where the package ``mcp`` is not installed.
    """
    try:
        from mcp.server import MCPServer
        from mcp.types import ToolAnnotations
    except ImportError:
        return None
    with _logging_as_it_is():
        server = MCPServer("rulerag-studio", log_level="ERROR")
    reads = ToolAnnotations(read_only_hint=True)

    @server.tool(annotations=reads)
    def answer(system: str, question: str) -> dict[str, Any]:
        """Ask a RAG system: its answer, its sources, whether its target condition holds."""
        session = _asked(studio, system, question)
        made = studio.answer(session)
        sources = [
            {"id": one.id, "title": one.title, "text": one.text}
            for one in studio.session(session).state.sources
        ]
        return {**made, "session": session, "sources": sources}

    @server.tool(annotations=reads)
    def explain(session: str, goal: str = "", budget: int = 200) -> dict[str, Any]:
        """Which sources make a session's answer come out so: minimal rules, as sentences."""
        begun = studio.explain(
            session, "claims" if goal == "claims" else "target" if goal else None, budget=budget
        )
        studio.job(begun.id).finished.wait(600)
        return studio.view(begun.id).model_dump(mode="json", exclude={"state"})

    @server.tool(annotations=reads)
    def probe(explanation: str, kept: list[int]) -> dict[str, Any]:
        """What is answered when only these sources of an explanation are read (places from 0)."""
        return studio.probe(explanation, kept).model_dump(mode="json")

    @server.tool(annotations=reads)
    def rules_for(system: str, question: str) -> list[dict[str, Any]]:
        """The mined rules that guide a question in a benchmark system."""
        return studio.rules_for(system, question)

    return server


@contextmanager
def _logging_as_it_is() -> Iterator[None]:
    """The server would write every package's remarks to the terminal."""
    root = logging.getLogger()
    before = root.level, list(root.handlers)
    yield
    root.setLevel(before[0])
    root.handlers[:] = before[1]


def _asked(studio: Studio, system: str, question: str) -> str:
    session = studio.new_session(system, f"asked by an assistant: {question}", question)
    return studio.retrieve(session.id).id
