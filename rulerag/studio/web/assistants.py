"""The studio's actions as tools of the Model Context Protocol, for assistants."""

from __future__ import annotations

import logging
from typing import Any

from mcp.server import MCPServer
from mcp.types import ToolAnnotations

from rulerag.studio.service import Studio


def assistant_server(studio: Studio) -> MCPServer:
    """A server of the tools ``answer``, ``explain``, ``probe`` and ``rules_for``.

    They do what the screens do, on sessions of the same studio; what they return is material of
    sources and models, which may be an attacker's.
    """
    # The server would write every package's remarks to the terminal.
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    server = MCPServer("rulerag-studio", log_level="ERROR")
    root.setLevel(level)
    root.handlers[:] = handlers
    reads = ToolAnnotations(read_only_hint=True)

    @server.tool(annotations=reads)
    def answer(system: str, question: str) -> dict[str, Any]:
        """Ask a RAG system: its answer, its sources, whether its target condition holds."""
        name = f"asked by an assistant: {question}"
        session = studio.retrieve(studio.new_session(system, name, question).id)
        sources = [
            {"id": one.id, "title": one.title, "text": one.text} for one in session.state.sources
        ]
        reply = studio.answer(session.id).model_dump(mode="json", exclude={"sources"})
        return {**reply, "session": session.id, "sources": sources}

    @server.tool(annotations=reads)
    def explain(session: str, goal: str = "", budget: int = 200) -> dict[str, Any]:
        """Which sources make a session's answer come out so: minimal sets, and in sentences."""
        begun = studio.explain(
            session, "claims" if goal == "claims" else "target" if goal else None, budget=budget
        )
        studio.job(begun.id).finished.wait(600)
        view = studio.view(begun.id)
        return view.model_dump(mode="json", exclude={"state"}) | {"sentences": view.sentences}

    @server.tool(annotations=reads)
    def probe(explanation: str, kept: list[int]) -> dict[str, Any]:
        """What is answered when only these sources of an explanation are read (places from 0)."""
        return studio.job(explanation).ask(kept).model_dump(mode="json")

    @server.tool(annotations=reads)
    def rules_for(system: str, question: str) -> list[dict[str, Any]]:
        """The mined rules that guide a question in a benchmark system."""
        return studio.rules_for(system, question)

    return server
