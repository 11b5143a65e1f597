"""A studio in a folder of its own, and one behind a real server."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx
import pytest

from rulerag.assembly.demo import mine_world, world_dataset
from rulerag.io import write_jsonl
from rulerag.studio.service import Inject, Session, Studio, View
from rulerag.studio.systems import SystemSettings, benchmark_system
from rulerag.studio.web import Guards, create_app
from rulerag.synthetic import World
from tests.endpoints import Server, completion

_NEEDED = ("fastapi", "nicegui", "re2", "uvicorn")
collect_ignore_glob = [] if all(map(find_spec, _NEEDED)) else ["test_*.py"]


@pytest.fixture
def studio(tmp_path: Path, server: Server) -> Iterator[Studio]:
    made = Studio(tmp_path / "data", endpoints=[server.url, "http://localhost:1"])
    yield made
    made.close()


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A benchmark folder of a world that knows its own truth."""
    made = tmp_path_factory.mktemp("world") / "world"
    world = World.generate(1500, kind="static", max_body_atoms=1)
    world_dataset(world, mine_world(world)[0]).save(made)
    return made


@pytest.fixture
def bench(tmp_path: Path, folder: Path) -> Iterator[Studio]:
    """A studio with a benchmark, and two runs of four queries that end in four ways."""

    def row(number: int, answer: str, *texts: str) -> dict[str, object]:
        documents = [
            {"id": f"d{number}-{place}", "text": text, "found_by": [{"rule": f"r{number}"}]}
            for place, text in enumerate(texts)
        ]
        asked = {"query_id": str(number), "query": f"question {number}", "answers": ["Rome"]}
        return {**asked, "answer": answer, "documents": documents}

    for name, first in (("one", "Rome"), ("two", "Bern")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "metrics.json").write_text(json.dumps({"metrics": {}}))
        rows = [
            row(1, first, "It is Rome."),
            row(2, "Bern", "It is Oslo."),
            row(3, "", "It is Rome."),
            row(4, "Bern", "It is Rome.", "It is Bern."),
        ]
        write_jsonl(tmp_path / name / "predictions.jsonl", rows)
    runs = [tmp_path / "one", tmp_path / "two"]
    made = Studio(tmp_path / "data", systems=[benchmark_system(folder)], runs=runs)
    yield made
    made.close()


@pytest.fixture
def web(studio: Studio) -> Iterator[httpx.Client]:
    """A client of a real server, without screens."""
    app = Guards(create_app(studio), local=True, token=None, most=200_000)
    with served(app) as url, httpx.Client(base_url=url, timeout=30) as client:
        yield client


@contextmanager
def served(app: Any) -> Iterator[str]:
    """The address of an ASGI application on a free port of this machine."""
    import uvicorn

    bound = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
    thread = threading.Thread(target=lambda: server.run(sockets=[bound]))
    thread.start()
    yield f"http://127.0.0.1:{bound.getsockname()[1]}"
    server.should_exit = True
    thread.join()
    bound.close()


@contextmanager
def process_of(
    data: Path, *options: str, before: Callable[[], object] | None = None
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A studio in a process of its own, and the address that it tells.

    Args:
        data: its folder.
        options: of `rulerag studio`.
        before: called in the new process before it begins.
    """
    command = [sys.executable, "-m", "rulerag.cli", "studio", "--port", "0", "--data", str(data)]
    run = subprocess.Popen(
        [*command, *options],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
        preexec_fn=before,
    )
    assert run.stderr is not None
    try:
        told = run.stderr.readline()
        assert told.startswith("rulerag studio: "), told + run.stderr.read()
        yield run, told.split()[2]
    finally:
        if run.poll() is None:
            run.send_signal(signal.SIGINT)
        run.communicate(timeout=20)


def entered(told: str) -> httpx.Client:
    """A client of a studio, with the token of the address that it told."""
    url, _, token = told.partition("/?token=")
    return httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=30)


def attacked(studio: Studio, system: str, attack: str, how_many: int) -> Session:
    """A session of a system, its first sources attacked."""
    session = studio.retrieve(studio.new_session(system).id)
    for source in session.state.sources[:how_many]:
        session = studio.change(session.id, Inject(source=source.id, attack=attack))
    return session


def explained(studio: Studio, session: str, **options: Any) -> View:
    """The finished explanation of a session."""
    begun = studio.explain(session, **options)
    assert studio.job(begun.id).finished.wait(90)
    return studio.view(begun.id)


def enough(view: View, claim: int = 0) -> list[list[int]]:
    """The minimal sets of sources that are enough for a claim."""
    return [sorted(one) for one in view.claims[claim].retention]


def asked_session(studio: Studio, system: str = "own") -> str:
    """A new session with its sources."""
    return studio.retrieve(studio.new_session(system).id).id


def own_system(url: str, **changes: Any) -> SystemSettings:
    """Three notes and an endpoint."""
    texts = ("The lift is blue.", "Cheese melts at 60 degrees.", "The moon is far.")
    return SystemSettings.read(
        {
            "name": "own",
            "title": "Own",
            "documents": [
                {"id": f"n{n}", "title": f"Note {n}", "text": one} for n, one in enumerate(texts)
            ],
            "top_k": 3,
            "instructions": "Never name a colour.",
            "condition": {"type": "regex", "pattern": "blue|red"},
            "questions": ["Is the lift blue, does cheese melt, is the moon far?"],
            "generators": [
                {"type": "endpoint", "name": "remote", "title": "Remote", "url": url, "model": "m"}
            ],
            **changes,
        }
    )


def ask_blue(number: int, body: dict[str, Any]) -> Any:
    """Says blue where the note about the lift is read, whatever it was told."""
    read = body["messages"][-1]["content"]
    return 200, {}, completion("It is blue." if "The lift is blue" in read else "No.", body)


def says(text: str) -> Any:
    """What an endpoint says that always says the same."""
    return lambda number, body: (200, {}, completion(text, body))


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium; the tests that need it are skipped where there is none."""
    sync_api = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("no chromium is installed")
    with sync_api.sync_playwright() as play:
        made = play.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield made
        made.close()
