"""The backends agree with the built-in map, and say which item failed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from rulerag.errors import ConfigError, DataFormatError, MissingDependencyError, RuleRAGError
from rulerag.parallel import Backend, RayBackend, SerialBackend, ThreadBackend

ROOT = Path(__file__).resolve().parents[1]


def square(number: int) -> int:
    return number * number


def fail_at_seven(number: int) -> int:
    if number == 7:
        raise ValueError("seven is too many")
    return number


def refuse_at_three(number: int) -> int:
    if number == 3:
        raise DataFormatError("is odd", path="numbers.tsv", line=3, hint="give even numbers")
    return number


def die(number: int) -> int:
    os._exit(13)


def agree(workers: Backend) -> None:
    """A backend does what the built-in map does."""
    assert list(workers.map(square, range(25))) == [n * n for n in range(25)]
    assert list(workers.map(square, [])) == []
    offset = 100
    assert list(workers.map(lambda n: n + offset, range(3))) == [100, 101, 102]
    with pytest.raises(ValueError, match="seven is too many") as caught:
        list(workers.map(fail_at_seven, range(20)))
    assert "while working on item 7 (7)" in caught.value.__notes__
    with pytest.raises(DataFormatError) as refused:
        list(workers.map(refuse_at_three, range(5)))
    assert str(refused.value) == (
        "numbers.tsv, line 3: is odd (while working on item 3 (3)) — give even numbers"
    )


@pytest.mark.parametrize("made", [SerialBackend(), ThreadBackend(2)])
def test_results_come_in_order_and_errors_name_their_item(made: Backend) -> None:
    assert isinstance(made, Backend)
    agree(made)


@pytest.mark.usefixtures("ray_cluster")
def test_ray_agrees_with_the_built_in_map() -> None:
    cluster = RayBackend(2)
    agree(cluster)
    # A second backend does not wait for the CPUs of the first one, which is idle.
    assert list(RayBackend(3).map(square, range(9))) == [n * n for n in range(9)]
    with pytest.raises(ConfigError, match="4 workers on a Ray cluster of 3 CPUs"):
        RayBackend(4)


@pytest.mark.usefixtures("ray_cluster")
def test_arrays_lie_once_in_the_store_and_workers_read_them_there() -> None:
    large, empty, columns = np.arange(1_000_000), np.empty((0, 3)), np.ones((9, 5), order="F")

    def where(number: int) -> tuple[str, bool, float, int]:
        for line in Path("/proc/self/maps").read_text().splitlines():
            begin, end = (int(one, 16) for one in line.split()[0].split("-"))
            if begin <= large.ctypes.data < end:
                place = line.split()[-1] if "plasma" not in line else "plasma"
        total = float(large[number] + columns.sum() + empty.sum())
        return place, large.flags.writeable, total, len(empty)

    assert list(RayBackend(2).map(where, range(3))) == [
        ("plasma", True, 45.0 + number, 0) for number in range(3)
    ]


def test_threads_share_what_cannot_travel() -> None:
    met: set[int] = set()
    results = list(ThreadBackend(3).map(lambda n: (met.add(n), n)[1], range(50)))
    assert results == list(range(50)) and met == set(range(50))


def test_what_cannot_work_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="0 workers"):
        ThreadBackend(0)
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingDependencyError, match=r"rulerag\[ray\]"):
        RayBackend()


@pytest.mark.usefixtures("ray_cluster")
def test_a_worker_that_dies_each_time_is_named() -> None:
    with pytest.raises(RuleRAGError, match=r"a worker process died.*fewer"):
        list(RayBackend(1).map(die, [1, 2]))


NOWHERE = """
from rulerag.errors import RuleRAGError
from rulerag.parallel import RayBackend
try:
    RayBackend(address="127.0.0.1:9")
except RuleRAGError as error:
    print(error)
"""


def test_a_cluster_that_is_not_there_is_named_at_once() -> None:
    pytest.importorskip("ray")
    begun = time.monotonic()
    done = subprocess.run([sys.executable, "-c", NOWHERE], capture_output=True, text=True, cwd=ROOT)
    assert "no Ray can be used at '127.0.0.1:9'" in done.stdout and "ray start" in done.stdout
    assert time.monotonic() - begun < 30


NODES = """
import threading, time
import numpy as np
from ray.cluster_utils import Cluster
from rulerag.mining.amie.miner import AmieMiner
from rulerag.parallel import RayBackend
from rulerag.synthetic.world import World

def slow(number):
    time.sleep(0.3)
    return number

small = {"num_cpus": 1, "object_store_memory": 100_000_000}
cluster = Cluster(initialize_head=True, head_node_args=small)
RayBackend(1, address=cluster.address)  # connects to the head, which stays
second, third = (cluster.add_node(**small) for _ in range(2))
cluster.wait_for_nodes()
work = RayBackend(3, address=cluster.address)
threading.Timer(2.0, lambda: cluster.remove_node(second, allow_graceful=False)).start()
assert list(work.map(slow, range(30))) == list(range(30))
# More than the store holds: what waits for its turn goes to disk and comes back.
for number, array in enumerate(work.map(lambda n: np.full(2_000_000, n), range(40))):
    assert array.shape == (2_000_000,) and array[0] == array[-1] == number
facts = World.generate(1000, kind="static").graph.train
alone = AmieMiner(min_head_size=1).mine(facts)
spread = AmieMiner(min_head_size=1, backend=RayBackend(2)).mine(facts)
assert alone.fingerprint == spread.fingerprint and len(alone) > 5
print("whole")
"""


@pytest.mark.slow
def test_a_node_that_is_killed_loses_and_doubles_nothing() -> None:
    pytest.importorskip("ray")
    environment = {
        **os.environ,
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
        "RAY_worker_niceness": "0",
    }
    done = subprocess.run(
        [sys.executable, "-c", NODES],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment,
        timeout=240,
    )
    assert "whole\n" in done.stdout, done.stderr[-2000:]


FAULTS = """
import ctypes, faulthandler, signal
from rulerag.parallel import fault_handlers_kept

def handler():
    action = ctypes.create_string_buffer(512)
    ctypes.CDLL(None).sigaction(signal.SIGSEGV, None, action)
    return action.raw[:8]  # the address; what follows is kept by the kernel

before = handler()
with fault_handlers_kept():
    faulthandler.enable()  # takes the signal, as Ray does when it starts
    assert handler() != before
assert handler() == before
"""


def test_starting_ray_leaves_memory_faults_to_java() -> None:
    done = subprocess.run([sys.executable, "-c", FAULTS], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
