"""A scripted user of a studio for hours: what the server's memory does, and whether anything fails.

The server is a process of its own, used over HTTP alone. The user asks, edits, attacks, undoes,
explains, follows the events (and sometimes leaves and comes back), cancels, looks at pages and
pictures, saves sessions and opens them, and deletes old ones; what answers is rule-based, so that
every answer is known and checked. Between rounds it waits, so that both together take a given share
of a core. Every minute the server's resident memory is written down.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from rulerag.io import write_json

_SESSIONS = 30
"""So many are kept; older ones are deleted, as a person would."""
_WARM = 5.0
"""Minutes until everything was used once and caches are full; growth is measured from there."""
_LOG = "server.log"
_TICKS = os.sysconf("SC_CLK_TCK")


class UnexpectedError(Exception):
    """The server did what the scripted user does not expect."""


def _expect(true: bool, message: object) -> None:
    if not true:
        raise UnexpectedError(str(message))


class Visitor:
    """The scripted user.

    Args:
        web: the server.
        rng: draws what is done.
    """

    def __init__(self, web: httpx.Client, rng: random.Random) -> None:
        self._web, self._rng = web, rng
        self.done: Counter[str] = Counter()
        self.wrong: list[str] = []
        self._sessions: list[str] = []

    def round(self) -> None:
        """One session from its beginning to its file."""
        system = self._rng.choice(["finance", "software", "employees"])
        try:
            session = self._begun(system)
            for act in self._rng.sample([self._edit, self._undo, self._ask, self._look], k=3):
                act(session)
            self._explain(session)
            self._save(session)
            while len(self._sessions) > _SESSIONS:
                self._call("delete", "DELETE", f"/api/sessions/{self._sessions.pop(0)}")
            if system == "finance":
                self._known_rule()
        except (httpx.HTTPError, UnexpectedError, KeyError) as error:
            self.wrong.append(f"{system}: {type(error).__name__}: {error}")

    def _call(self, what: str, method: str, path: str, body: Any = None) -> Any:
        response = self._web.request(method, path, json=body)
        _expect(response.status_code < 400, f"{what}: {response.status_code} {response.text[:200]}")
        self.done[what] += 1
        is_json = response.headers["content-type"].startswith("application/json")
        return response.json() if is_json else response.text

    def _begun(self, system: str) -> str:
        made = self._call("session", "POST", "/api/sessions", {"system": system})
        session = str(made["id"])
        self._sessions.append(session)
        self._call("retrieve", "POST", f"/api/sessions/{session}/retrieve", {})
        return session

    def _change(self, session: str, **change: Any) -> None:
        self._call("change", "POST", f"/api/sessions/{session}/change", {"change": change})

    def _source(self, session: str) -> str:
        state = self._call("read", "GET", f"/api/sessions/{session}")["state"]
        return str(self._rng.choice(state["sources"])["id"])

    def _edit(self, session: str) -> None:
        for _ in range(self._rng.randint(1, 3)):
            names = ["exception", "combined", "poisoned-knowledge"]
            attack = self._rng.choice(names)
            self._change(session, kind="inject", source=self._source(session), attack=attack)
        self._change(session, kind="add", text=f"A note {self._rng.random()}", title="Note")
        self._change(session, kind="move", source=self._source(session), place=0)

    def _undo(self, session: str) -> None:
        self._change(session, kind="edit", source=self._source(session), text="Another text.")
        self._call("undo", "POST", f"/api/sessions/{session}/undo")
        self._call("redo", "POST", f"/api/sessions/{session}/redo")

    def _ask(self, session: str) -> None:
        answer = self._call("answer", "POST", f"/api/sessions/{session}/answer")
        _expect(isinstance(answer["text"], str), answer)

    def _look(self, session: str) -> None:
        for path in ("/", f"/session/{session}", "/red-team", "/docs"):
            self._call("page", "GET", path)

    def _explain(self, session: str) -> None:
        goal = self._rng.choice(["target", "claims"])
        made = self._call("explain", "POST", f"/api/sessions/{session}/explain", {"goal": goal})
        where = f"/api/explanations/{made['id']}"
        if self._rng.random() < 0.2:
            self._call("cancel", "POST", f"{where}/cancel")
        if self._rng.random() < 0.3:
            self._follow(where, leave=True)
        last = self._follow(where)
        _expect(last["status"] in ("done", "cancelled"), last)
        if last["status"] == "cancelled":
            self._call("deepen", "POST", f"{where}/deepen", {})
            _expect(self._follow(where)["status"] == "done", "what was cancelled does not go on")
        self._call("probe", "POST", f"{where}/probe", {"kept": [0]})
        self._call("probes", "GET", f"{where}/probes")
        self._call("picture", "GET", f"{where}/lattice.svg")
        self._call("report", "GET", f"{where}/page")

    def _follow(self, where: str, *, leave: bool = False) -> Any:
        last: Any = {}
        with self._web.stream("GET", f"{where}/events") as stream:
            for line in stream.iter_lines():
                if line.startswith("data: "):
                    last = json.loads(line.removeprefix("data: "))
                    if leave:
                        break
        self.done["leave" if leave else "follow"] += 1
        return last

    def _save(self, session: str) -> None:
        saved = self._call("save", "GET", f"/api/sessions/{session}/export")
        opened = self._call("open", "POST", "/api/sessions/open", saved)
        self._sessions.append(str(opened["id"]))
        _expect(opened["state"] == saved["state"], "an opened session differs")
        _expect(
            len(opened["explanations"]) == len(saved["explanations"]),
            "a saved session lost explanations",
        )

    def _known_rule(self) -> None:
        """RUBEN's first use case, whose one rule is known."""
        session = self._begun("finance")
        state = self._call("read", "GET", f"/api/sessions/{session}")["state"]
        for source in state["sources"][:2]:
            self._change(session, kind="inject", source=source["id"], attack="exception")
        made = self._call("explain", "POST", f"/api/sessions/{session}/explain", {})
        last = self._follow(f"/api/explanations/{made['id']}")
        (claim,) = last["explanation"]["claims"]
        found = [one["documents"] for one in claim["retention"]]
        _expect(found == [[0, 1]], found)
        self.done["known rule"] += 1


def run_endurance(minutes: float, share: float, out: Path) -> None:
    """Use a studio for so long, and write what was measured every minute.

    Args:
        minutes: how long.
        share: of a core that server and user together take at most, as a mean.
        out: the folder of ``endurance.json``.
    """
    with (
        tempfile.TemporaryDirectory() as scratch,
        _server(Path(scratch)) as (process, address),
        httpx.Client(base_url=address, timeout=60) as web,
    ):
        visitor = Visitor(web, random.Random(0))
        begun, before = time.monotonic(), _cpu(process)
        rows: list[dict[str, float]] = []
        rounds = 0
        while (passed := time.monotonic() - begun) < 60 * minutes and process.poll() is None:
            visitor.round()
            rounds += 1
            used = _cpu(process) - before
            while used / max(time.monotonic() - begun, 1e-9) > share:
                time.sleep(0.2)
            if passed >= 60 * len(rows):
                rows.append(_row(process, Path(scratch), passed / 60, rounds, len(visitor.wrong)))
                taken = (_cpu(process) - before) / (time.monotonic() - begun)
                write_json(out / "endurance.json", summary(rows, visitor, taken))
                sys.stderr.write(f"{json.dumps(rows[-1])}\n")
        ended = process.poll()
        taken = (_cpu(process) - before) / (time.monotonic() - begun) if ended is None else 0.0
        logged = (Path(scratch) / _LOG).read_text().splitlines()[1:]
        figures = summary(rows, visitor, taken) | {"the server logged": logged[:20]}
    write_json(out / "endurance.json", figures | {"the server ended": ended})
    shown = {key: value for key, value in figures.items() if key != "every minute"}
    sys.stdout.write(json.dumps(shown, indent=1, ensure_ascii=False) + "\n")


def summary(rows: list[dict[str, float]], visitor: Visitor, taken: float) -> dict[str, Any]:
    """What was measured.

    Args:
        rows: of every minute.
        visitor: what was done, and what went wrong.
        taken: the share of a core that server and user took.
    """
    warm = [row for row in rows if row["minutes"] >= _WARM]
    found: dict[str, Any] = {}
    if len(warm) > 2:
        first, last = warm[0]["memory_mb"], warm[-1]["memory_mb"]
        slope = np.polyfit([r["minutes"] for r in warm], [r["memory_mb"] for r in warm], 1)[0]
        found = {
            "memory after warming up, MB": first,
            "memory at the end, MB": last,
            "growth": f"{100 * (last - first) / first:.1f} %",
            "trend, MB an hour": round(60 * float(slope), 2),
        }
    return {
        "minutes": rows[-1]["minutes"] if rows else 0,
        "rounds": rows[-1]["rounds"] if rows else 0,
        "share of a core": round(taken, 3),
        **found,
        "errors": visitor.wrong[:20],
        "done": dict(visitor.done),
        "every minute": rows,
    }


@contextmanager
def _server(data: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    command = [sys.executable, "-m", "rulerag.cli", "studio", "--port", "0", "--data", str(data)]
    with (data / _LOG).open("wb") as log:
        process = subprocess.Popen(command, stderr=log)
    try:
        while not (written := (data / _LOG).read_text()).endswith("\n"):
            _expect(process.poll() is None, f"the server ended: {written}")
            time.sleep(0.1)
        yield process, written.split()[2]
    finally:
        process.terminate()
        process.wait(30)


def _cpu(process: subprocess.Popen[bytes]) -> float:
    """CPU seconds of the server and of this process."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    own: Callable[[], float] = time.process_time
    return (int(fields[11]) + int(fields[12])) / _TICKS + own()


def _row(
    process: subprocess.Popen[bytes], data: Path, minutes: float, rounds: int, wrong: int
) -> dict[str, float]:
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    status = dict(line.split(":", 1) for line in lines)
    stored = sum(file.stat().st_size for file in data.rglob("*") if file.is_file())
    return {
        "minutes": round(minutes, 2),
        "memory_mb": round(int(status["VmRSS"].split()[0]) / 1024, 1),
        "threads": int(status["Threads"]),
        "files": len(list(Path(f"/proc/{process.pid}/fd").iterdir())),
        "stored_mb": round(stored / 2**20, 2),
        "rounds": rounds,
        "errors": wrong,
    }
