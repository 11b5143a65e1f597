"""What a screen shows as code: its action in Python, on the command line, and over HTTP."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Literal
from urllib.parse import quote, urlencode

from rulerag.studio.benchmarks import SYMBOLIC, Way
from rulerag.studio.service.records import Session

Kind = Literal["python", "cli", "curl"]


def snippets(
    session: Session, action: str, *, base: str = "http://127.0.0.1:8080"
) -> dict[Kind, str]:
    """The same action in three ways; every text of the session is quoted as a literal.

    Args:
        session: what it is about.
        action: ``retrieve``, ``answer``, ``explain`` or ``compare``.
        base: the address of the studio.
    """
    made = {"retrieve": _retrieve, "answer": _answer, "explain": _explain, "compare": _compare}[
        action
    ]
    return made(session, base)


def red_team_snippets(
    system: str,
    generators: Sequence[str],
    *,
    instructed: bool = True,
    base: str = "http://127.0.0.1:8080",
) -> dict[Kind, str]:
    """A red-team run in three ways.

    Args:
        system: the system.
        generators: what answers.
        instructed: with the safety instructions; the command takes a suite to leave them out.
        base: the address of the studio.
    """
    named = " ".join(f"--generator {shlex.quote(one)}" for one in generators)
    command = f"rulerag redteam {shlex.quote(system)} {named} --out red-team"
    if not instructed:
        suite = {"system": system, "generators": list(generators), "instructed": False}
        written = shlex.quote(json.dumps(suite))
        command = f"echo {written} > suite.yaml\nrulerag redteam suite.yaml --out red-team"
    asked = f"{system!r}, {list(generators)!r}, instructed={instructed}"
    body = {"system": system, "generators": list(generators), "instructed": instructed}
    return {
        "python": "\n".join(
            [*_IMPORTS, f"report = studio.red_team({asked})", "report.write(Path('red-team'))"]
        ),
        "cli": command,
        "curl": _post(base, "/api/red-team", body),
    }


def bench_snippets(
    system: str, words: str, *, base: str = "http://127.0.0.1:8080"
) -> dict[Kind, str]:
    """A search of a rule bank in three ways.

    Args:
        system: the benchmark.
        words: that a rule holds.
        base: the address of the studio.
    """
    asked = urlencode({"words": words})
    return {
        "python": "\n".join(
            [
                "from rulerag import RuleBank",
                "",
                f"words = {words!r}.lower().split()",
                "for rule in RuleBank.load('FOLDER/rules.jsonl'):",
                "    if all(word in rule.text.lower() for word in words):",
                "        print(rule.text)",
            ]
        ),
        "cli": "rulerag rules FOLDER/rules.jsonl --top 50",
        "curl": f"curl -s '{base}/api/systems/{system}/bank?{asked}'",
    }


def beside_snippets(
    system: str,
    question: str,
    first: Way,
    second: Way,
    *,
    base: str = "http://127.0.0.1:8080",
) -> dict[Kind, str]:
    """One question two ways, in three ways.

    Args:
        system: the system.
        question: what is asked.
        first: one way to answer.
        second: the other.
        base: the address of the studio.
    """
    body = {"question": question, "first": asdict(first), "second": asdict(second)}
    return {
        "python": "\n".join(
            [
                "from rulerag.studio.benchmarks import SYMBOLIC, Way",
                *_IMPORTS,
                f"both = studio.beside({system!r}, {question!r}, {first!r}, {second!r})",
                "for found in both.found:",
                "    print(found.first, found.second, found.source.title or found.source.id)",
                "print(both.answers)",
            ]
        ),
        "cli": "rulerag studio --data studio-data  # then Compare: " + shlex.quote(question),
        "curl": _post(base, f"/api/systems/{quote(system)}/beside", body),
    }


def differences_snippets(
    system: str,
    first: Way,
    second: Way,
    *,
    query_set: str = "full",
    most: int = 200,
    base: str = "http://127.0.0.1:8080",
) -> dict[Kind, str]:
    """A benchmark's queries two ways, in three ways; arguments as of the action."""
    body = {"first": asdict(first), "second": asdict(second), "query_set": query_set, "most": most}
    ways = f"{first!r}, {second!r}"
    return {
        "python": "\n".join(
            [
                "from rulerag.studio.benchmarks import SYMBOLIC, Way",
                *_IMPORTS[:-1],
                "studio = Studio(Path('studio-data'), benchmarks=[Path('FOLDER')])",
                f"found = studio.differences({system!r}, {ways}, query_set={query_set!r}, "
                f"most={most})",
                "print(found.means())",
                "for row in (*found.better, *found.worse):",
                "    print(row.first.rank, row.second.rank, row.question)",
            ]
        ),
        "cli": "\n".join(
            f"rulerag answer FOLDER --query-set {shlex.quote(query_set)} --limit {most}"
            f"{_options(one)}"
            for one in (first, second)
        ),
        "curl": _post(base, f"/api/systems/{quote(system)}/differences", body),
    }


def _options(way: Way) -> str:
    """A way to answer as options of ``rulerag answer``."""
    guided = way.retriever == "guided" or way.retriever.endswith("-guided")
    options = [] if guided else ["--rules none"]
    if way.retriever.startswith("dense-"):
        encoder = way.retriever.removeprefix("dense-").removesuffix("-guided")
        options.append(f"--retriever dense --encoder {shlex.quote(encoder)}")
    if way.generator not in ("", SYMBOLIC):
        options.append(f"--generator {shlex.quote(way.generator)}")
    return "".join(f" {one}" for one in options)


def run_snippets(
    name: str, filters: Mapping[str, Any], *, base: str = "http://127.0.0.1:8080"
) -> dict[Kind, str]:
    """Some queries of a run in three ways.

    Args:
        name: of the run.
        filters: arguments of :meth:`~rulerag.studio.benchmarks.Run.filtered`; empty for all.
        base: the address of the studio.
    """
    kept = {key: value for key, value in filters.items() if value}
    query = f"?{urlencode(kept)}" if kept else ""
    given = ", ".join(f"{key}={value!r}" for key, value in kept.items())
    return {
        "python": "\n".join(
            [
                "from pathlib import Path",
                "from rulerag.studio.benchmarks import read_run",
                "",
                f"run = read_run(Path('RUNS') / {name!r})",
                f"for row in run.filtered({given}):",
                "    print(row.outcome, row.question, row.answer)",
            ]
        ),
        "cli": f"rulerag studio --run RUNS/{shlex.quote(name)}",
        "curl": f"curl -s '{base}/api/runs/{quote(name)}{query}'",
    }


_IMPORTS = (
    "from pathlib import Path",
    "from rulerag.studio.service import Studio",
    "",
    "studio = Studio(Path('studio-data'))",
)


def _opened(session: Session) -> list[str]:
    return [
        *_IMPORTS,
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


def _compare(session: Session, base: str) -> dict[Kind, str]:
    lines = [
        *_opened(session),
        "for generator in ('weak-reader', 'strong-reader'):",
        "    begun = studio.explain(session, generator=generator)",
        "    studio.job(begun.id).finished.wait()",
        "    print(generator, [one.enough for one in studio.view(begun.id).claims])",
    ]
    place = f"/api/sessions/{session.id}/explain"
    sent = [_post(base, place, {"generator": one}) for one in ("weak-reader", "strong-reader")]
    return {"python": "\n".join(lines), "cli": _command(session), "curl": "\n".join(sent)}


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
