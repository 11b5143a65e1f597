"""Users of a studio for hours: the server's memory and disk, how long it takes, what fails.

The server is a process of its own, used over HTTP alone. Each user asks, edits, attacks, undoes,
explains, follows the events, looks at pages and pictures, saves sessions and opens them, and
deletes old ones; rules answer, and a language model where one is named. Of RUBEN's first use case
the one rule is known, and checked. Figures are written every minute.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from rulerag.console import guarded
from rulerag.io import write_json

_SESSIONS = 6
"""So many a user keeps; older ones are deleted."""
_WARM = 10.0
"""Minutes until everything was used once; growth is measured from there."""
_PAUSE, _BY_MODEL = 4.0, 0.05
"""Seconds that a user thinks between two sessions, as a mean; sessions that a model answers."""


class Visitor(threading.Thread):
    """One user.

    Args:
        address: of the server.
        seed: draws what is done.
        model: what answers now and then; rules alone when empty.
        until: when it stops, by the monotonic clock.
    """

    def __init__(self, address: str, seed: int, model: str, until: float) -> None:
        super().__init__(daemon=True)
        self._web = httpx.Client(base_url=address, timeout=600)
        self._rng, self._model, self._until = random.Random(seed), model, until
        self.seconds: defaultdict[str, list[float]] = defaultdict(list)
        self.wrong: list[str] = []
        self._sessions: list[str] = []

    def run(self) -> None:
        """Sessions from beginning to file, until the time is up."""
        while time.monotonic() < self._until:
            try:
                self._session(self._rng.choice(["finance", "software", "employees"]))
            except (httpx.HTTPError, AssertionError, KeyError) as error:
                self.wrong.append(f"{type(error).__name__}: {error}")
            time.sleep(self._rng.expovariate(1 / _PAUSE))

    def _call(self, what: str, method: str, path: str, body: Any = None) -> Any:
        begun = time.perf_counter()
        answer = self._web.request(method, path, json=body)
        self.seconds[what].append(time.perf_counter() - begun)
        if answer.status_code >= 400:
            raise AssertionError(f"{what}: {answer.status_code} {answer.text[:200]}")
        is_json = answer.headers["content-type"].startswith("application/json")
        return answer.json() if is_json else answer.text

    def _session(self, system: str) -> None:
        made = self._call("begin", "POST", "/api/sessions", {"system": system})
        one = f"/api/sessions/{made['id']}"
        self._sessions.append(str(made["id"]))
        sources = self._call("retrieve", "POST", f"{one}/retrieve", {})["state"]["sources"]
        by_model = bool(self._model) and self._rng.random() < _BY_MODEL
        changes = [
            {"kind": "inject", "source": source["id"], "attack": "exception"}
            for source in sources[:2]
        ]
        note = {"kind": "add", "text": f"A note {self._rng.random()} " + "x" * 5_000}
        changes += [note] if self._rng.random() < 0.5 else []
        changes += [{"kind": "configure", "generator": self._model}] if by_model else []
        for change in changes:
            self._call("change", "POST", f"{one}/change", {"change": change})
        for step in ("undo", "redo"):
            self._call(step, "POST", f"{one}/{step}")
        self._call("answer by a model" if by_model else "answer", "POST", f"{one}/answer")
        for path in ("/", f"/session/{made['id']}", "/red-team", "/docs"):
            self._call("page", "GET", path)
        known = system == "finance" and not by_model
        self._explain(one, [[0, 1]] if known else None, budget=8 if by_model else 100)
        saved = self._call("save", "GET", f"{one}/export")
        opened = self._call("open", "POST", "/api/sessions/open", saved)
        self._sessions.append(str(opened["id"]))
        if opened["state"] != saved["state"] or not opened["explanations"]:
            raise AssertionError("an opened session differs")
        while len(self._sessions) > _SESSIONS:
            self._call("delete", "DELETE", f"/api/sessions/{self._sessions.pop(0)}")

    def _explain(self, one: str, known: list[list[int]] | None, budget: int) -> None:
        asked = {"goal": "target", "budget": budget}
        where = f"/api/explanations/{self._call('explain', 'POST', f'{one}/explain', asked)['id']}"
        with self._web.stream("GET", f"{where}/events") as stream:
            data = [line for line in stream.iter_lines() if line.startswith("data: ")]
        last = json.loads(data[-1].removeprefix("data: "))
        if last["status"] != "done":
            raise AssertionError(f"an explanation ended: {last['status']} {last['error']}")
        found = [rule["documents"] for rule in last["explanation"]["claims"][0]["retention"]]
        if known is not None and found != known:
            raise AssertionError(f"a known rule came out as {found}")
        for path in ("probes", "lattice.svg", "page"):
            self._call(path.partition(".")[0], "GET", f"{where}/{path}")


def run_endurance(minutes: float, users: int, model: str, out: Path) -> None:
    """Use a studio for so long, and write what was measured every minute.

    Args:
        minutes: how long.
        users: so many at once.
        model: what answers one session in twenty; rules alone when empty.
        out: the folder of ``endurance.json``.
    """
    with tempfile.TemporaryDirectory() as scratch, _server(Path(scratch)) as (process, address):
        begun = time.monotonic()
        until = begun + 60 * minutes
        visitors = [Visitor(address, seed, model, until) for seed in range(users)]
        for one in visitors:
            one.start()
        rows: list[dict[str, float]] = []
        while (now := time.monotonic()) < until and process.poll() is None:
            rows.append(_row(process, Path(scratch), (now - begun) / 60))
            write_json(out / "endurance.json", _summary(rows, visitors, model))
            time.sleep(60)
        for one in visitors:
            one.join(600)
        figures = _summary(rows, visitors, model) | {"the server ended": process.poll()}
    write_json(out / "endurance.json", figures)
    shown = {key: value for key, value in figures.items() if key != "every minute"}
    sys.stdout.write(json.dumps(shown, indent=1, ensure_ascii=False) + "\n")


def _summary(rows: list[dict[str, float]], visitors: Sequence[Visitor], model: str) -> Any:
    warm = [row for row in rows if row["minutes"] >= _WARM]
    figures: dict[str, Any] = {"minutes": rows[-1]["minutes"], "users": len(visitors)}
    for name in ("memory_mb", "stored_mb") if len(warm) > 2 else ():
        values = [row[name] for row in warm]
        slope = float(np.polyfit([row["minutes"] for row in warm], values, 1)[0])
        figures[name] = {"first": values[0], "last": values[-1], "an hour": round(60 * slope, 2)}
    times: defaultdict[str, list[float]] = defaultdict(list)
    for one in visitors:
        for what, seconds in list(one.seconds.items()):
            times[what] += seconds
    share = {name: tuple(np.quantile(each, (0.5, 0.95, 0.99))) for name, each in times.items()}
    return figures | {
        "model": model,
        "requests": sum(map(len, times.values())),
        "milliseconds, p50 p95 p99": {
            name: [round(1000 * float(one)) for one in three] for name, three in share.items()
        },
        "done": {name: len(each) for name, each in times.items()},
        "errors": [wrong for one in visitors for wrong in one.wrong][:20],
        "every minute": rows,
    }


@contextmanager
def _server(data: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    options = ("--port", "0", "--data", str(data / "studio"), "--without-token")
    log = data / "server.log"
    with log.open("wb") as errors:
        command = [sys.executable, "-m", "rulerag.cli", "studio", *options]
        process = subprocess.Popen(command, stderr=errors)
    try:
        while not log.read_text().endswith("\n") and process.poll() is None:
            time.sleep(0.1)
        yield process, log.read_text().split()[2]
    finally:
        process.terminate()
        process.wait(30)


def _row(process: subprocess.Popen[bytes], data: Path, minutes: float) -> dict[str, float]:
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    status = dict(line.split(":", 1) for line in lines)
    stored = sum(one.stat().st_size for one in data.rglob("studio.sqlite*"))
    return {
        "minutes": round(minutes, 2),
        "memory_mb": round(int(status["VmRSS"].split()[0]) / 1024, 1),
        "threads": int(status["Threads"]),
        "files": len(os.listdir(f"/proc/{process.pid}/fd")),
        "stored_mb": round(stored / 2**20, 2),
    }


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.endurance", description=__doc__)
    parser.add_argument("--minutes", type=float, default=480, help="how long (480)")
    parser.add_argument("--users", type=int, default=5, help="at once (5)")
    parser.add_argument("--model", default="smollm2", metavar="NAME", help="as systems have")
    parser.add_argument("--out", type=Path, required=True, help="the folder of the figures")
    given = parser.parse_args(argv)
    return guarded(lambda: run_endurance(given.minutes, given.users, given.model, given.out))


if __name__ == "__main__":
    sys.exit(main())
