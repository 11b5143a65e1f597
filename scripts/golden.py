"""The golden set: what one commit writes, recorded, and what another writes, compared with it.

``python scripts/golden.py record`` runs a checkout and writes digests and figures to
``scripts/golden/``; ``compare`` runs a checkout and says what is another now. ``--checkout DIR``
names it (default: the one that this script stands in), ``--only NAME ...`` the checks. Everything
takes about seven minutes on two idle cores; what is run stands in ``scripts/golden/golden.toml``.
Graphs come from ``RULERAG_DATA``, else from ``../shared/data``; what needs a graph that is not
there is skipped by name. Exit status: 0 all equal, 1 something differs or failed, 2 the command
cannot be run.

A file is compared by its SHA-256; digests of 300 blocks of lines say where it begins to differ.
``--out DIR`` leaves the files there, to put those of two checkouts side by side. Calls may become
fewer, never more. CPU seconds are compared as a ratio to those of a fixed workload or, with
``--against DIR``, to those of another checkout in the same run, which is more exact.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RECORDED = ROOT / "scripts" / "golden"
PLAN = tomllib.loads((RECORDED / "golden.toml").read_text(encoding="utf-8"))
BLOCKS, WORKERS, STARTED = 300, 2, time.perf_counter()


class MissingGraphError(Exception):
    """A graph is not on this machine; says which folder."""


class RefusedError(Exception):
    """The command cannot be run as it was given; says why, and what would work."""


class Checkout:
    """A checkout of the project, run with this interpreter.

    Args:
        root: the folder of the checkout.
        work: a folder for what it makes.
        data: the folder of the public graphs.
        against: another checkout, whose CPU seconds are the baseline.

    Raises:
        RefusedError: ``root`` is no checkout.
    """

    def __init__(self, root: Path, work: Path, data: Path, against: Checkout | None = None) -> None:
        self.root, self.work, self.data = root.resolve(), work.resolve(), data.resolve()
        self.against = against
        if not (self.root / "rulerag" / "__init__.py").is_file():
            raise RefusedError(f"{root}: no checkout of rulerag; name its folder")
        self.work.mkdir(parents=True, exist_ok=True)
        self._locks: dict[str, threading.Lock] = defaultdict(threading.Lock)
        self._made: set[str] = set()

    def run(self, *arguments: object, status: int = 0) -> subprocess.CompletedProcess[str]:
        """Run Python with the checkout's packages, in the folder of what it makes.

        Raises:
            RuntimeError: another exit status than ``status``; says the last line written.
        """
        own: dict[str, object] = {"PYTHONPATH": self.root, "RULERAG_CACHE": self.work / "cache"}
        # One thread, so that sums of floats do not depend on the number of cores.
        own |= {"OMP_NUM_THREADS": 1, "COLUMNS": 100}
        done = subprocess.run(
            [sys.executable, "-P", *map(str, arguments)],
            cwd=self.work,
            env=os.environ | {key: str(value) for key, value in own.items()},
            capture_output=True,
            text=True,
        )
        if done.returncode != status:
            written = (done.stderr.strip() or done.stdout.strip() or "nothing").splitlines()
            command = " ".join(map(str, arguments))
            raise RuntimeError(f"status {done.returncode} of python {command}: {written[-1]}")
        return done

    def cli(self, *arguments: object, status: int = 0) -> subprocess.CompletedProcess[str]:
        """Run a command of rulerag; raises as :meth:`run` does."""
        return self.run("-m", "rulerag.cli", *arguments, status=status)

    def inside(self, name: str) -> Any:
        """What a function of ``golden/inside.py`` returns, which calls the checkout's library."""
        return json.loads(self.run(RECORDED / "inside.py", name).stdout)

    def graph(self, name: str) -> Path:
        """The folder of a public graph.

        Raises:
            MissingGraphError: it is not there.
        """
        if not (self.data / name).is_dir():
            raise MissingGraphError(f"no folder {self.data / name}")
        return self.data / name

    def once(self, name: str, *command: object) -> Path:
        """What a command of rulerag writes to the place behind its last word; run once."""
        place = self.work / name
        with self._locks[name]:
            if name not in self._made:
                self.cli(*command, place)
                self._made.add(name)
        return place

    def dataset(self, letter: str) -> Path:
        """The folder of a RuleQA benchmark by its letter."""
        name, graph = f"ruleqa-{letter}", self.graph(PLAN["graphs"][letter])
        return self.once(name, "ruleqa", "build", "--name", name, "--kg", graph, "--quiet", "--out")

    def demo(self) -> Path:
        """The folder of ``rulerag demo``."""
        return self.once("demo", "demo", "--quiet", "--out")

    def evaluated(self, method: str, letter: str, *options: object) -> Path:
        """The folder of a run of ``rulerag evaluate``."""
        command = ("evaluate", method, *options, "--dataset", self.dataset(letter), "--quiet")
        return self.once(f"{letter}-{method}{len(options)}", *command, "--out")


# --- the checks: for each item a function that measures it -----

Item = Callable[[], Any]


def datasets(checkout: Checkout) -> dict[str, Item]:
    """Every file of the five RuleQA benchmarks but their card and manifest."""

    def files(letter: str) -> dict[str, Path]:
        folder = checkout.dataset(letter)
        found = (*folder.rglob("*.jsonl"), *folder.rglob("*.tsv"))
        return {str(file.relative_to(folder)): file for file in sorted(found)}

    return {f"ruleqa-{letter}": partial(files, letter) for letter in PLAN["graphs"]}


def evaluations(check: str, checkout: Checkout) -> dict[str, Item]:
    """What methods find and answer on the first queries: ``runs``, ``dense`` or ``readers``."""

    def files(method: str, letter: str) -> dict[str, Path]:
        folder = checkout.evaluated(method, letter, "--limit", PLAN[check]["limit"])
        if check == "dense":
            return {"first ten": first_ten(folder)}
        found = {"predictions.jsonl": predictions(folder, neural="llama" in method)}
        return found | ({"run.trec": folder / "run.trec"} if check == "runs" else {})

    return {
        f"ruleqa-{letter} {method}": partial(files, method, letter)
        for method, letters in PLAN[check]["methods"].items()
        for letter in letters
    }


def first_ten(folder: Path) -> Path:
    """The first ten documents of each query of a run, without their scores."""
    found: dict[str, list[str]] = defaultdict(list)
    for line in (folder / "run.trec").read_text(encoding="utf-8").splitlines():
        query, _, document, *_ = line.split()
        found[query].append(document)
    return write(folder / "first-ten", (" ".join((q, *ids[:10])) for q, ids in found.items()))


def predictions(folder: Path, *, neural: bool) -> Path:
    """The predictions of a run without fingerprints, which follow the names of settings.

    Args:
        folder: of the run.
        neural: scores are rounded to what every processor agrees on.
    """
    rows = [json.loads(line) for line in (folder / "predictions.jsonl").open(encoding="utf-8")]
    for row in rows:
        del row["fingerprints"]
        row["score"] = round(row["score"], 3) if neural else row["score"]
    return write(folder / "compared", (json.dumps(row, ensure_ascii=False) for row in rows))


def rules(checkout: Checkout) -> dict[str, Item]:
    """The rule banks of both miners: the worlds of the demo, ICEWS14 and FB15k-237."""

    def mined(graph: Path, miner: str) -> Path:
        name = f"rules-{graph.parent.name}-{graph.name}.jsonl"
        return checkout.once(name, "mine", graph, "--miner", miner, "--quiet", "--out")

    return {
        "temporal world": lambda: mined(checkout.demo() / "temporal" / "world", "tlogic"),
        "static world": lambda: mined(checkout.demo() / "static" / "world", "amie"),
        "icews14": lambda: mined(checkout.graph("icews14"), "tlogic"),
        "fb15k237": lambda: mined(checkout.graph("fb15k237"), "amie"),
    }


def readme(checkout: Checkout) -> dict[str, Item]:
    """Rows of README's table of the balanced queries of RuleQA-I, and whether README has them."""

    def row(method: str) -> dict[str, Any]:
        result = read_json(checkout.evaluated(f"{method}__symbolic", "i") / "metrics.json")
        found = {"documents_per_query_union": result["metrics"]["documents_per_query"]}
        found |= result["metrics"]
        cells = [result["method"], result["retriever"], f"{result['num_queries']:,}"]
        for key in PLAN["readme"]["columns"]:
            cells.append(f"{found[key] * (1 if key.startswith('documents') else 100):.1f}")
        line = f"| {' | '.join(cells)} |"
        text = (checkout.root / "README.md").read_text(encoding="utf-8").replace("**", "")
        return {"row": line, "in README.md": line in text}

    return {method: partial(row, method) for method in PLAN["readme"]["methods"]}


def demo(checkout: Checkout) -> dict[str, Item]:
    """The figures of ``metrics.json`` of both worlds of the demo."""

    def figures(kind: str) -> dict[str, Any]:
        world = read_json(checkout.demo() / "metrics.json")["worlds"][kind]
        methods = {one["method"]: one["metrics"] for one in world.pop("methods")}
        del world["mining"]["seconds"]
        return {**world, **methods}

    return {kind: partial(figures, kind) for kind in ("temporal", "static")}


def lattice(checkout: Checkout) -> dict[str, Item]:
    """Families of both exact miners on tables of all subsets' answers, and subsets asked."""
    return {"tables": partial(checkout.inside, "families")}


def planted(checkout: Checkout) -> dict[str, Item]:
    """Planted worlds explained: right sets, calls, and how often every stated bound is true."""
    return {name: partial(checkout.inside, name) for name in ("explained", "certified")}


def contracts(checkout: Checkout) -> dict[str, Item]:
    """Commands, names and keys that others rely on: each value is what is wrong with them."""
    plan = PLAN["contracts"]

    def helps(command: str) -> str:
        text = checkout.run("-m", *command.split(), "--help").stdout
        lacks = command.startswith("rulerag.cli") and "Example: " not in text
        return "no example" if lacks else ""

    def refused(command: str) -> str:
        message = checkout.cli(*command.split(), status=2).stderr
        return "" if message.startswith("error: ") and "Traceback" not in message else message

    def names() -> str:
        return checkout.run("-c", f"from rulerag import {', '.join(plan['names'])}").stdout

    def missing_keys() -> dict[str, list[str]]:
        folder = checkout.demo() / "temporal"
        result = read_json(folder / "bm25-guided" / "metrics.json")
        with (folder / "dataset" / "rules.jsonl").open(encoding="utf-8") as file:
            rule = json.loads(file.readline())
        there = {"metrics.json": result, "metrics": result["metrics"], "rules.jsonl": rule}
        return {key: sorted(set(plan["keys"][key]) - one.keys()) for key, one in there.items()}

    items: dict[str, Item] = {f"{c} --help": partial(helps, c) for c in plan["help"]}
    items |= {f"refused: {c}": partial(refused, c) for c in plan["refused"]}
    return items | {"names": names, "missing keys": missing_keys}


def speed(checkout: Checkout) -> dict[str, Item]:
    """CPU seconds to answer (indexes in place), to mine and to apply rules, each as a ratio."""
    plan = PLAN["speed"]

    def command(name: str, one: Checkout) -> list[str]:
        graph, dataset = one.graph("fb15k237"), one.dataset("i")
        bank = one.once("bank.jsonl", "mine", graph, "--quiet", "--out")
        words = plan["commands"][name]
        filled = (word.format(graph=graph, dataset=dataset, bank=bank) for word in words)
        return ["-m", "rulerag.cli", *filled]

    def ratio(name: str) -> dict[str, float]:
        other = checkout.against or checkout
        base = command(name, other) if checkout.against else ["-c", plan["workload"]]
        pairs = [
            (cpu_seconds(checkout, command(name, checkout)), cpu_seconds(other, base))
            for _ in range(plan["repeats"])
        ]
        value = min(one for one, _ in pairs) / min(one for _, one in pairs)
        return {"value": round(value, 3), "at_most": round(plan["slower"] * value, 3)}

    return {name: partial(ratio, name) for name in plan["commands"]}


def cpu_seconds(checkout: Checkout, arguments: Sequence[object]) -> float:
    """User and system seconds of a command; nothing else of this process may run meanwhile."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    checkout.run(*arguments)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


CHECKS: dict[str, Callable[[Checkout], dict[str, Item]]] = {
    "datasets": datasets,
    **{name: partial(evaluations, name) for name in ("dense", "runs", "readers")},
    **{one.__name__: one for one in (rules, readme, demo, lattice, planted, contracts, speed)},
}

# --- values, recorded and compared -----


def read_json(path: Path) -> Any:
    """The content of a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))


def write(path: Path, lines: Iterable[str]) -> Path:
    """A file of some lines."""
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def digest(path: Path, size: int | None = None) -> dict[str, Any]:
    """The SHA-256 of a file, the number of its lines, and four digits for each block of lines.

    Args:
        path: the file.
        size: lines of a block; when None, as many as make 300 blocks at most.
    """
    with path.open("rb") as file:
        lines = sum(1 for _ in file)
        size = size or math.ceil(max(1, lines) / BLOCKS)
        file.seek(0)
        whole, blocks = hashlib.sha256(), ""
        while block := b"".join(itertools.islice(file, size)):
            whole.update(block)
            blocks += hashlib.sha256(block).hexdigest()[:4]
    return {"sha256": whole.hexdigest(), "lines": lines, "blocks": blocks}


def other_lines(recorded: Mapping[str, Any], path: Path) -> str:
    """Where a file begins to differ from the recorded one, and what stands there now."""
    size = math.ceil(max(1, recorded["lines"]) / BLOCKS)
    now = digest(path, size)
    pairs = zip(recorded["blocks"] + "    ", now["blocks"] + "----", strict=False)
    place = size * (next(number for number, (a, b) in enumerate(pairs) if a != b) // 4)
    with path.open(encoding="utf-8") as file:
        text = next(itertools.islice(file, place, None), "nothing")
    return (
        f"{recorded['lines']:,} lines were recorded, now {now['lines']:,}; the first other one is "
        f"among {place + 1:,} to {place + size:,} of {path}, where {text[:200]!r} is the first"
    )


def differences(recorded: Any, now: Any, place: str = "") -> Iterator[str]:
    """What is another now, a sentence each.

    Args:
        recorded: a value of a recording.
        now: the same as it was measured: a path stands for a file, an object with ``value`` for a
            bounded figure, any other object for several values.
        place: where they stand.
    """
    if isinstance(now, Path) and isinstance(recorded, dict):
        if digest(now)["sha256"] != recorded["sha256"]:
            yield f"{place}: {other_lines(recorded, now)}"
    elif isinstance(now, dict) and isinstance(recorded, dict) and "value" in now:
        least, most = recorded.get("at_least", 0), recorded.get("at_most", math.inf)
        if not least <= now["value"] <= most:
            yield f"{place}: {now['value']:,} where {recorded} was recorded"
    elif isinstance(now, dict) and isinstance(recorded, dict):
        for key in sorted(recorded.keys() | now.keys()):
            yield from differences(recorded.get(key), now.get(key), f"{place} {key}".strip())
    elif recorded != now:
        yield f"{place}: {recorded!r} was recorded, now {now!r}"


def as_recorded(value: Any) -> Any:
    """A measured value as JSON."""
    if isinstance(value, dict):
        return {key: as_recorded(one) for key, one in value.items()}
    return digest(value) if isinstance(value, Path) else value


# --- the command line -----


def outcomes(
    checkout: Checkout, chosen: Sequence[str]
) -> Iterator[tuple[str, str, Item, Future[Any]]]:
    """The finished items of some checks: two run at a time, CPU seconds alone and at the end."""
    items = [(check, *item) for check in chosen for item in CHECKS[check](checkout).items()]
    for alone in (False, True):
        with ThreadPoolExecutor(1 if alone else WORKERS) as pool:
            now = [one for one in items if (one[0] == "speed") == alone]
            for item, future in [(one, pool.submit(one[2])) for one in now]:
                wait([future])
                yield *item, future


def record(checkout: Checkout, chosen: Sequence[str]) -> int:
    """Write the recordings; a check with an item that could not be measured is left out."""
    recordings: dict[str, dict[str, Any]] = defaultdict(dict)
    incomplete = set()
    for check, key, _, future in outcomes(checkout, chosen):
        if error := future.exception():
            incomplete.add(check)
        else:
            recordings[check][key] = as_recorded(future.result())
        say(f"{check}: {key}: {error or 'recorded'}")
    for check in recordings.keys() - incomplete:
        text = json.dumps(recordings[check], indent=1, ensure_ascii=False)
        write(RECORDED / f"{check}.json", [text])
    if incomplete:
        say(f"not recorded as a whole, so not written: {', '.join(sorted(incomplete))}")
    return int(bool(incomplete))


def compare(checkout: Checkout, chosen: Sequence[str]) -> int:
    """Say what differs from the recordings."""
    counts = dict.fromkeys(("equal", "skipped", "DIFFERENT"), 0)
    for check, key, item, future in outcomes(checkout, chosen):
        recorded = read_json(RECORDED / f"{check}.json").get(key)
        if check == "speed" and checkout.against:
            recorded = {"at_most": PLAN["speed"]["slower"]}
        error = future.exception()
        found = [repr(error)] if error else list(differences(recorded, future.result()))
        if found and check == "speed" and not error:
            say(f"{check}: {key}: {found[0]}; measured again")
            found = list(differences(recorded, item()))
        skipped = isinstance(error, MissingGraphError)
        word = "skipped" if skipped else "DIFFERENT" if found else "equal"
        counts[word] += 1
        if check == "speed" and not found:
            word = f"{future.result()['value']}, at most {recorded['at_most']} is allowed"
        say(f"{check}: {key}: {word}")
        for line in found:
            say(f"    {line}")
    say(", ".join(f"{count} {word}" for word, count in counts.items()))
    return int(counts["DIFFERENT"] > 0)


def say(line: str) -> None:
    """Write a line at once, behind the seconds since the start."""
    sys.stdout.write(f"{time.perf_counter() - STARTED:4.0f} s  {line}\n")
    sys.stdout.flush()


def run(arguments: argparse.Namespace, work: Path) -> int:
    """Record or compare.

    Raises:
        RefusedError: an unknown check, no checkout, no folder of graphs, or no recording.
    """
    chosen = arguments.only or list(CHECKS)
    if unknown := [check for check in chosen if check not in CHECKS]:
        raise RefusedError(f"no check is called {unknown[0]!r}; there are {', '.join(CHECKS)}")
    data = Path(os.environ.get("RULERAG_DATA") or ROOT.parent / "shared" / "data")
    if not data.is_dir():
        raise RefusedError(f"{data}: no folder of graphs; set RULERAG_DATA to one")
    against = arguments.against and Checkout(arguments.against, work / "against", data)
    checkout = Checkout(arguments.checkout, work / "checkout", data, against)
    if arguments.command == "record":
        return record(checkout, chosen)
    if missing := [check for check in chosen if not (RECORDED / f"{check}.json").is_file()]:
        raise RefusedError(f"nothing is recorded of {missing[0]}; `record --only {missing[0]}`")
    return compare(checkout, chosen)


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="scripts/golden.py", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("command", choices=("record", "compare"))
    parser.add_argument("--checkout", type=Path, default=ROOT, help="what is run")
    parser.add_argument("--against", type=Path, help="the checkout whose CPU seconds are the base")
    parser.add_argument("--only", nargs="+", metavar="NAME", help=f"of {', '.join(CHECKS)}")
    parser.add_argument("--out", type=Path, help="a folder that keeps what is made")
    arguments = parser.parse_args(argv)
    try:
        with tempfile.TemporaryDirectory(prefix="rulerag-golden-") as work:
            return run(arguments, arguments.out or Path(work))
    except RefusedError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2


if __name__ == "__main__":
    sys.exit(main())
