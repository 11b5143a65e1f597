"""What a screen shows as code: the same action in Python, on the command line, and over HTTP."""

from __future__ import annotations

import json
import shlex
from typing import Any, Literal

from rulerag.studio.service.records import Session

Kind = Literal["python", "cli", "curl"]


def snippets(
    session: Session, action: str, *, base: str = "http://127.0.0.1:8080"
) -> dict[Kind, str]:
    """The same action in three ways; every text of the session is quoted as a literal.

    Args:
        session: what it is about.
        action: ``retrieve``, ``answer`` or ``explain``.
        base: the address of the studio.
    """
    made = {"retrieve": _retrieve, "answer": _answer, "explain": _explain}[action]
    return made(session, base)


def _opened(session: Session) -> list[str]:
    return [
        "from pathlib import Path",
        "from rulerag.studio.service import Studio",
        "",
        "studio = Studio(Path('studio-data'))",
        f"session = studio.new_session({session.system!r}, question={session.state.question!r}).id",
        "studio.retrieve(session)",
    ]


def _post(base: str, path: str, body: dict[str, Any]) -> str:
    sent = shlex.quote(json.dumps(body, ensure_ascii=False))
    return f"curl -s -X POST {base}{path} -H 'Content-Type: application/json' -d {sent}"


def _retrieve(session: Session, base: str) -> dict[Kind, str]:
    question = session.state.question
    lines = [*_opened(session)[:-1], "for source in studio.retrieve(session).state.sources:"]
    return {
        "python": "\n".join([*lines, "    print(source.rank, source.score, source.title)"]),
        "cli": "rulerag studio --data studio-data  # then ask: " + shlex.quote(question),
        "curl": _post(base, f"/api/sessions/{session.id}/retrieve", {"question": question}),
    }


def _answer(session: Session, base: str) -> dict[Kind, str]:
    return {
        "python": "\n".join([*_opened(session), "print(studio.answer(session)['text'])"]),
        "cli": _command(session),
        "curl": _post(base, f"/api/sessions/{session.id}/answer", {}),
    }


def _explain(session: Session, base: str) -> dict[Kind, str]:
    state = session.state
    documents = [{"title": one.title, "text": one.text} for one in state.sources]
    told = state.instructions if state.instructed else ""
    python = [
        "import rulerag",
        "from rulerag.generation import OpenAICompatibleGenerator",
        "",
        f"documents = {json.dumps(documents, ensure_ascii=False, indent=1)}",
        "reader = OpenAICompatibleGenerator(",
        "    'http://localhost:8000/v1', 'MODEL', max_new_tokens=512,",
        f"    template={{'type': 'open', 'system': {told!r}}},",
        ")",
        f"print(rulerag.explain(reader, {state.question!r}, documents))",
    ]
    return {
        "python": "\n".join(python),
        "cli": _command(session),
        "curl": _post(base, f"/api/sessions/{session.id}/explain", {})
        + f"\ncurl -sN {base}/api/explanations/ID/events  # the rules as they are found",
    }


def _command(session: Session) -> str:
    """``rulerag explain`` on the session's sources, written to a file first."""
    rows = [
        json.dumps({"title": one.title, "text": one.text}, ensure_ascii=False)
        for one in session.state.sources
    ]
    written = "\n".join(f"printf '%s\\n' {shlex.quote(row)} >> sources.jsonl" for row in rows)
    asked = shlex.quote(session.state.question)
    return (
        f"{written}\nrulerag explain {asked} --documents sources.jsonl "
        "--generator smollm2-135m-instruct"
    ).lstrip()
