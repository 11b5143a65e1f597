"""``python -m benchmarks.scale.kills``: what is killed in the middle, and what is there at the end.

Each scenario has a result of one process that nobody killed. A run is killed at a random moment,
goes on or is started again, and its records are compared with that result: lost are those that are
not there, doubled those that are there twice, changed those that differ (vectors by more than
1e-5). Kills are SIGKILL; a worker without memory is ended by the kernel, whose limit it meets.
"""

from __future__ import annotations

import argparse
import importlib
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from benchmarks.scale.steps import random_vectors
from rulerag.assembly import SpreadPipeline, make_pipeline, preset, spread
from rulerag.assembly.demo import mine_world, world_dataset
from rulerag.console import guarded
from rulerag.errors import OutputError, RuleRAGError
from rulerag.evaluation import markdown_table
from rulerag.io import prepare_folder, read_json, read_jsonl, write_json, write_text
from rulerag.mining.amie import AmieMiner
from rulerag.parallel import RayBackend
from rulerag.retrieval.dense import encode_files, encoding
from rulerag.retrieval.dense.encoders import NANO_ENCODER
from rulerag.retrieval.dense.faiss_index import VectorIndex
from rulerag.retrieval.dense.milvus_index import MilvusIndex
from rulerag.ruleqa import RuleQADataset
from rulerag.synthetic import World

_GROUPS = Path("/sys/fs/cgroup")
_FIRST_KIND = (_GROUPS / "memory").is_dir()  # cgroup v1
_STARVED = _GROUPS / ("memory" if _FIRST_KIND else "") / "rulerag-starved"
"""A group of processes that may take no more memory."""
_OTHERS = ("IDLE", "Agent", "Stats", "Autoscal", "Dashboard")
"""In the names of Ray's processes that hold no task of ours."""

Records = dict[str, Any]
"""Something equal for each id; a list of values where an id came more than once."""


# --- what is killed -----


class Nodes:
    """A Ray of a head and some nodes that work, of which one can be killed."""

    def __init__(self, count: int) -> None:
        os.environ |= {
            "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # else it leaves the loopback
            "RAY_worker_niceness": "0",
            "RAY_health_check_period_ms": "500",  # a node that is gone is missed sooner
            "RAY_health_check_timeout_ms": "20000",
            "RAY_health_check_failure_threshold": "3",
        }
        from ray.cluster_utils import Cluster

        self._cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
        self.address: str = self._cluster.address
        RayBackend(1, address=self.address)  # connects to the head, which is never killed
        self._count = count
        self._nodes = [self._cluster.add_node(num_cpus=1) for _ in range(count)]
        self._cluster.wait_for_nodes()
        self.backend = RayBackend(count, address=self.address)

    def end(self) -> None:
        """Leave the cluster, and then end it: a driver whose raylet is gone ends with an error."""
        ray: Any = importlib.import_module("ray")
        cluster: Any = self._cluster
        ray.shutdown()
        cluster.shutdown()

    def kill_node(self) -> None:
        """End one node with all of its processes."""
        self._cluster.remove_node(self._nodes.pop(0), allow_graceful=False)

    def repair(self) -> None:
        """Another node comes for one that was killed."""
        while len(self._nodes) < self._count:
            self._nodes.append(self._cluster.add_node(num_cpus=1))
            self._cluster.wait_for_nodes(timeout=120)

    def kill_worker(self) -> bool:
        """End one process that works; whether one did."""
        worker = _worker()
        if worker is None:
            return False
        with suppress(ProcessLookupError):
            os.kill(worker, signal.SIGKILL)
        return True

    def starve_worker(self) -> bool:
        """Give no more memory to one process that works; whether the kernel ended it for that."""
        worker = _worker()
        if worker is None:
            return False
        _STARVED.mkdir(exist_ok=True)
        limit = "memory.limit_in_bytes" if _FIRST_KIND else "memory.max"
        (_STARVED / limit).write_text("8K")
        before = _ended_for_memory()
        with suppress(OSError):  # it has ended by itself
            (_STARVED / "cgroup.procs").write_text(str(worker))
        for _ in range(50):
            if _ended_for_memory() > before:
                return True
            time.sleep(0.1)
        return False


def _worker() -> int | None:
    """A process of this cluster that works on a task of Ray, which its name says."""
    busy = []
    for one in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            name = " ".join(one.cmdline())
            if name.startswith("ray::") and not any(other in name for other in _OTHERS):
                busy.append(one.pid)
    return random.choice(busy) if busy else None


def _ended_for_memory() -> int:
    events = (_STARVED / f"memory.{'oom_control' if _FIRST_KIND else 'events'}").read_text()
    return int(events.partition("\noom_kill ")[2].split()[0])


class NotHit(Exception):
    """The work was done before anything was killed: no kill."""


def in_the_middle(work: Callable[[], Any], kill: Callable[[], bool | None], seconds: float) -> Any:
    """What work gives while something is killed after so many seconds.

    Raises:
        NotHit: the work was done by then, or there was nothing to kill.
    """
    hit: list[bool] = []

    def fire() -> None:
        hit.append(kill() is not False)

    timer = threading.Timer(seconds, fire)
    timer.start()
    try:
        result = work()
    finally:
        timer.cancel()
        timer.join()
    if not any(hit):
        raise NotHit
    return result


def timed(work: Callable[[], Any]) -> float:
    """The seconds that some work takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def kill_command(words: Sequence[str], seconds: float) -> None:
    """Start a command, end it after so many seconds, and start it again to its end.

    Raises:
        NotHit: it had ended by then.
    """
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
        time.sleep(seconds)
        if run.poll() is not None:
            raise NotHit
        run.kill()
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        raise RuleRAGError(f"{' '.join(words)} ended with {done.returncode}: {done.stderr[-500:]}")


# --- the scenarios -----


def vectors_in(folder: Path) -> Records:
    """The vectors that an encoding left, by id."""
    parquet: Any = importlib.import_module("pyarrow.parquet")
    records: Records = {}
    for file in sorted(folder.glob("*.parquet")):
        for row in parquet.read_table(file).to_pylist():
            records.setdefault(row["id"], []).append(np.array(row["vector"], np.float32))
    return records


class Scenarios:
    """The data of all scenarios, made once.

    Args:
        folder: where they are written.
        seed: of the moments of the kills.
        nodes: that work.
    """

    def __init__(self, folder: Path, seed: int, nodes: int) -> None:
        self._folder, self._random, self._nodes = folder, random.Random(seed), nodes
        world = World.generate(1200, kind="temporal")
        self._dataset = folder / "dataset"
        world_dataset(world, mine_world(world)[0]).save(self._dataset)
        self._facts = World.generate(2_000_000, kind="static").graph.train
        encoding._BYTES, spread.AT_ONCE = 6000, 16  # many small shards and tasks
        self._count = 0
        self._cluster: Nodes | None = None

    @property
    def cluster(self) -> Nodes:
        """The nodes, started when they are first needed."""
        self._cluster = self._cluster or Nodes(self._nodes)
        return self._cluster

    def close(self) -> None:
        """End the nodes."""
        if self._cluster is not None:
            self._cluster.end()

    def _new(self) -> Path:
        self._count += 1
        return self._folder / f"run-{self._count}"

    def _encode(self, backend: RayBackend | None, out: Path) -> Records:
        encode_files(self._dataset, out, NANO_ENCODER, backend=backend)
        return vectors_in(out)

    def encoding(self, kill: str) -> Iterator[Records]:
        """The vectors of a corpus, first as one process gives them."""
        yield self._encode(None, self._new())
        yield from self._killed(lambda: self._encode(self.cluster.backend, self._new()), kill)

    def _mined(self, backend: RayBackend | None) -> Records:
        rules = AmieMiner(max_atoms=3, min_head_size=1, backend=backend).mine(self._facts)
        records: Records = {}
        for rule in rules:
            records.setdefault(rule.id, []).append(str(rule.to_json()))
        return records

    def mining(self, kill: str) -> Iterator[Records]:
        """The rules of a graph."""
        yield self._mined(None)
        yield from self._killed(lambda: self._mined(self.cluster.backend), kill)

    def answering(self, kill: str, generator: str, queries: int) -> Iterator[Records]:
        """The answers of a reader, with their evidence."""
        config = preset(self._dataset, retriever="bm25", generator=generator, query_set="full")
        dataset = RuleQADataset.load(self._dataset)
        known = dataset.query_set("full")
        asked = [replace(known[n % len(known)], id=f"q{n}") for n in range(queries)]
        build = partial(_pipeline, config.to_dict(), self._dataset)

        def records(pipeline: Any) -> Records:
            found: Records = {}
            for answer in pipeline.answer(asked):
                row = answer.to_json()
                row.pop("score", None)  # in single precision it hangs on what else is in a batch
                found.setdefault(answer.query.id, []).append(str(row))
            return found

        yield records(build())
        pipeline = SpreadPipeline(build, self.cluster.backend)
        yield from self._killed(lambda: records(pipeline), kill)

    def _killed(self, work: Callable[[], Records], kill: str) -> Iterator[Records]:
        """What work gives each time that something is killed on its way."""
        work()
        length = timed(work)
        while True:
            moment = self._random.uniform(0, length)
            self.cluster.repair()
            with suppress(NotHit):
                yield in_the_middle(work, getattr(self.cluster, kill), moment)

    def driver_of_encoding(self) -> Iterator[Records]:
        """Vectors, where the command itself is killed and started again."""
        yield self._encode(None, self._new())
        while True:
            out = self._new()
            words = [sys.executable, "-m", "benchmarks.scale.kills", "encode"]
            with suppress(NotHit):
                kill_command([*words, str(self._dataset), str(out)], self._random.uniform(1, 9))
                yield vectors_in(out)

    def driver_of_evaluation(self) -> Iterator[Records]:
        """Predictions, where the command itself is killed and started again."""

        def words(out: Path) -> list[str]:
            method = ["evaluate", "bm25-guided__symbolic", "--dataset", str(self._dataset)]
            return [str(Path(sys.executable).with_name("rulerag")), *method, "--out", str(out)]

        def records(out: Path) -> Records:
            found: Records = {}
            for row in read_jsonl(out / "predictions.jsonl"):
                found.setdefault(row["query_id"], []).append(str(row))
            return found

        first = self._new()
        subprocess.run(words(first), check=True, stdout=subprocess.DEVNULL)
        yield records(first)
        while True:
            out = self._new()
            with suppress(NotHit):
                kill_command(words(out), self._random.uniform(0.3, 1.6))
                yield records(out)

    def database(self, *, filling: bool) -> Iterator[Records]:
        """The nearest of a Milvus whose server is killed while it is filled, or is searched."""
        vectors = random_vectors(self._folder / "vectors.npy", 12_000)
        queries = np.asarray(vectors[:50])
        exact = VectorIndex.build(vectors, "Flat", normalize=True).search(queries, 10)
        yield {str(n): [tuple(rows)] for n, rows in enumerate(exact.rows)}
        times = np.zeros(len(vectors), np.int64)
        while True:
            data = self._new()
            build = partial(MilvusIndex.build, vectors, name="kills", times=times, normalize=True)
            port = _free_port()
            with milvus_server(data, port) as server:
                index = None if filling else build(factory=_address(port))
                again = partial(build, factory=_address(port))
                work = again if index is None else partial(_search_on, index, queries)
                moment = self._random.uniform(0.1, 3 if filling else 1)
                try:
                    in_the_middle(work, server.kill, moment)
                    continue  # it was filled before the server died
                except RuleRAGError:  # it names the server that is gone
                    pass
                except NotHit:
                    continue
            for folder in (data, self._new()):
                try:
                    port = _free_port()  # somebody may have taken the one that was given back
                    with milvus_server(folder, port):
                        index = build(factory=_address(port))
                        rows = index.search(queries, 10).rows
                        count = len(index)
                    break
                except RuleRAGError as error:
                    if folder != data:
                        raise
                    # Milvus Lite may not come up again on what it left: an empty one is filled.
                    sys.stderr.write(f"not with its own folder: {error}\n")
            found: Records = {str(n): [tuple(one)] for n, one in enumerate(rows)}
            if count != len(vectors):
                found["rows"] = [count]
            yield found

    def full_disk(self) -> Iterator[Records]:
        """Vectors on a disk that is full before they are all there, and is made larger then."""
        yield self._encode(None, self._new())
        place = self._new()
        place.mkdir()
        while True:
            size = self._random.randrange(100, 1400)
            _mount(place, f"size={size}k")
            try:
                try:
                    self._encode(None, place / "out")
                    continue  # it was large enough
                except OutputError:
                    _mount(place, "remount,size=100m")
                yield self._encode(None, place / "out")
            finally:
                subprocess.run(["umount", str(place)], check=True)

    def all(self) -> dict[str, Iterator[Records]]:
        """The scenarios by name."""
        return {
            "node, encoding": self.encoding("kill_node"),
            "worker, encoding": self.encoding("kill_worker"),
            "worker out of memory, encoding": self.encoding("starve_worker"),
            "node, mining": self.mining("kill_node"),
            "worker, mining": self.mining("kill_worker"),
            "worker out of memory, mining": self.mining("starve_worker"),
            "node, evaluating": self.answering("kill_node", "symbolic", 4000),
            "node, generating": self.answering("kill_node", "rulerag-nano-llama", 500),
            "worker, generating": self.answering("kill_worker", "rulerag-nano-llama", 500),
            "command, encoding": self.driver_of_encoding(),
            "command, evaluating": self.driver_of_evaluation(),
            "database, filling": self.database(filling=True),
            "database, searching": self.database(filling=False),
            "full disk, encoding": self.full_disk(),
        }


def _pipeline(config: Mapping[str, Any], dataset: Path) -> Any:
    from rulerag.composition import Config

    return make_pipeline(Config(dict(config)), RuleQADataset.load(dataset), keep_union=False)


def _search_on(index: MilvusIndex, queries: Any) -> None:
    while True:  # until the server is gone
        index.search(queries, 10)


def _mount(place: Path, options: str) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)], check=True)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def _address(port: int) -> str:
    return f"http://127.0.0.1:{port}"


@contextmanager
def milvus_server(data: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """Milvus Lite as a server of this machine.

    Args:
        data: its folder.
        port: where it listens.
    """
    program = Path(sys.executable).with_name("milvus-lite")
    options = ["--data-dir", str(data), "--host", "127.0.0.1", "--port", str(port)]
    silent = subprocess.DEVNULL
    with subprocess.Popen([program, "server", *options], stdout=silent, stderr=silent) as run:
        try:
            for _ in range(300):
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.1)
            yield run
        finally:
            run.kill()


# --- counting -----


def compared(found: Records, wanted: Records) -> Counter[str]:
    """How many records were lost, doubled and changed."""
    counts = Counter(lost=len(wanted.keys() - found.keys()), doubled=0, changed=0)
    counts["changed"] += len(found.keys() - wanted.keys())
    for key, values in found.items():
        counts["doubled"] += len(values) - 1
        if key in wanted:
            one, two = values[0], wanted[key][0]
            near = isinstance(one, np.ndarray) and np.allclose(one, two, atol=1e-5)
            counts["changed"] += not (near or (not isinstance(one, np.ndarray) and one == two))
    return counts


def run(out: Path, kills: int, names: Sequence[str], seed: int, nodes: int) -> list[dict[str, Any]]:
    """Kill in each scenario so often; writes a log and a table.

    Args:
        out: the folder of the results.
        kills: of each scenario.
        names: scenarios; all when empty.
        seed: of the moments.
        nodes: that work.
    """
    prepare_folder(out)
    file = out / "kills.json"
    rows: list[dict[str, Any]] = read_json(file)["rows"] if file.exists() else []
    with (
        tempfile.TemporaryDirectory() as folder,
        open(out / "kills.log", "a") as log,
        closing(Scenarios(Path(folder), seed, nodes)) as scenarios,
    ):
        for name, results in scenarios.all().items():
            if (names and name not in names) or any(row["killed"] == name for row in rows):
                continue
            wanted, total, began = next(results), Counter[str](), time.perf_counter()
            for number in range(kills):
                counts = compared(next(results), wanted)
                total.update(counts)
                log.write(f"{name} {number + 1}: {dict(counts)}\n")
                log.flush()
            results.close()  # type: ignore[attr-defined]
            seconds = round(time.perf_counter() - began, 1)
            counted = {"kills": kills, "records": len(wanted), **total}
            rows.append({"killed": name, "nodes": nodes, **counted, "seconds": seconds})
            write_json(file, {"seed": seed, "rows": rows})
            write_text(out / "kills.md", _table(rows))
    return rows


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    titles = ["killed", "kills", "records", "lost", "doubled", "changed", "seconds"]
    lines = [[f"{row[key]:,}" if key != "killed" else row[key] for key in titles] for row in rows]
    how = "`python -m benchmarks.scale.kills run --out benchmarks/results/scale`"
    return f"# What is killed in the middle\n\n{how}\n\n{markdown_table(titles, lines)}"


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.scale.kills",
        description="Kill what works in the middle, and count what is lost, doubled or changed.",
        epilog="example: python -m benchmarks.scale.kills run --kills 2 --out runs/kills",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    killing = commands.add_parser("run")
    killing.add_argument("--out", type=Path, required=True, help="the folder of the results")
    killing.add_argument("--kills", type=int, default=50, help="of each scenario (50)")
    killing.add_argument("--only", nargs="+", default=(), metavar="NAME", help="scenarios")
    killing.add_argument("--seed", type=int, default=0, help="of the moments (0)")
    killing.add_argument("--nodes", type=int, default=2, help="that work, beside a head (2)")
    one = commands.add_parser("encode", help="what is killed: small shards of a corpus")
    one.add_argument("corpus")
    one.add_argument("out")
    arguments = parser.parse_args(argv)
    if arguments.command == "encode":
        encoding._BYTES = 6000
        return guarded(lambda: encode_files(arguments.corpus, arguments.out, NANO_ENCODER))
    given = arguments.out, arguments.kills, arguments.only, arguments.seed, arguments.nodes
    return guarded(lambda: run(*given))


if __name__ == "__main__":
    sys.exit(main())
