"""The backends agree with the built-in map, and say which item failed."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from rulerag.errors import ConfigError, DataFormatError, MissingDependencyError, RuleRAGError
from rulerag.parallel.backends import (
    Backend,
    ProcessBackend,
    SerialBackend,
    ThreadBackend,
    backend,
    in_this_process,
)

ROOT = Path(__file__).resolve().parents[2]
OFFSET = 0


def square(number: int) -> int:
    return number * number


def set_offset(value: int) -> None:
    global OFFSET
    OFFSET = value


def add_offset(number: int) -> int:
    return number + OFFSET


def fail_at_seven(number: int) -> int:
    if number == 7:
        raise ValueError("seven is too many")
    return number


def refuse_at_three(number: int) -> int:
    if number == 3:
        raise DataFormatError("is odd", path="numbers.tsv", line=3, hint="give even numbers")
    return number


def fail_oddly(number: int) -> int:
    class LocalError(Exception):
        """Cannot be pickled: it has no home that another process could import."""

    raise LocalError("from far away")


def die(number: int) -> int:
    os._exit(13)


def fail_to_start() -> None:
    raise OSError("no index here")


@pytest.fixture(params=["serial", "thread", "process"])
def any_backend(request: pytest.FixtureRequest) -> Backend:
    return backend(request.param, workers=2)


def test_backends_fit_the_protocol(any_backend: Backend) -> None:
    assert isinstance(any_backend, Backend)
    assert any_backend.workers == (1 if isinstance(any_backend, SerialBackend) else 2)


def test_results_come_in_the_order_of_the_items(any_backend: Backend) -> None:
    found = list(any_backend.map(square, range(25)))
    assert found == [n * n for n in range(25)]


def test_no_items_no_results(any_backend: Backend) -> None:
    assert list(any_backend.map(square, [])) == []


def test_every_worker_is_initialised(any_backend: Backend) -> None:
    found = any_backend.map(add_offset, range(6), initializer=set_offset, initargs=(100,))
    assert list(found) == [100, 101, 102, 103, 104, 105]


def test_endless_items_are_taken_as_needed(any_backend: Backend) -> None:
    results = any_backend.map(square, itertools.count())
    assert list(itertools.islice(results, 5)) == [0, 1, 4, 9, 16]
    results.close()  # type: ignore[attr-defined]


def test_results_before_the_error_arrive_and_it_names_its_item(any_backend: Backend) -> None:
    arrived = []
    with pytest.raises(ValueError, match="seven is too many") as caught:
        for result in any_backend.map(fail_at_seven, range(20)):
            arrived.append(result)
    assert arrived == [0, 1, 2, 3, 4, 5, 6]
    assert "while working on item 7 (7)" in caught.value.__notes__


def test_our_errors_keep_their_kind_and_name_the_item_in_the_message(any_backend: Backend) -> None:
    with pytest.raises(DataFormatError) as caught:
        list(any_backend.map(refuse_at_three, range(5)))
    assert str(caught.value) == (
        "numbers.tsv, line 3: is odd (while working on item 3 (3)) — give even numbers"
    )


def test_an_error_that_cannot_travel_is_told() -> None:
    with pytest.raises(RuleRAGError, match=r"LocalError: from far away \(while working on item 0"):
        list(ProcessBackend(1).map(fail_oddly, [1]))


def test_a_worker_that_dies_is_told() -> None:
    with pytest.raises(RuleRAGError, match=r"worker process died at or after item 0 .*fewer"):
        list(ProcessBackend(1).map(die, [1, 2]))


def test_an_initializer_that_fails_is_told() -> None:
    with pytest.raises(OSError, match="no index here"):
        list(ProcessBackend(1).map(square, [1], initializer=fail_to_start))


def test_a_local_function_cannot_be_sent() -> None:
    with pytest.raises(ConfigError, match="top level of a module"):
        list(ProcessBackend(1).map(lambda n: n, [1]))


def test_threads_share_what_cannot_travel() -> None:
    met: set[int] = set()
    threads = ThreadBackend(3)
    assert in_this_process(threads) and not in_this_process(ProcessBackend(1))
    found = list(threads.map(lambda n: (met.add(n), n)[1], range(50)))
    assert found == list(range(50)) and met == set(range(50))


def test_each_thread_is_initialised_once_before_its_first_item() -> None:
    ready: dict[int, int] = {}

    def start() -> None:
        ready[threading.get_ident()] = ready.get(threading.get_ident(), 0) + 1

    def check(number: int) -> int:
        time.sleep(0.001)
        return ready[threading.get_ident()]

    found = set(ThreadBackend(2).map(check, range(40), initializer=start))
    assert found == {1} and 1 <= len(ready) <= 2


def test_wrong_arguments() -> None:
    with pytest.raises(ConfigError, match="did you mean 'process'"):
        backend("proces")
    with pytest.raises(ConfigError, match="0 workers"):
        backend("process", workers=0)


def test_ray_is_named_when_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingDependencyError, match=r"rulerag\[ray\]"):
        backend("ray")


@pytest.mark.usefixtures("ray_cluster")
def test_ray_agrees_with_the_serial_backend() -> None:
    cluster = backend("ray", workers=2)
    found = list(cluster.map(add_offset, range(9), initializer=set_offset, initargs=(5,)))
    assert found == list(range(5, 14))
    with pytest.raises(ValueError, match="seven"):
        list(cluster.map(fail_at_seven, range(9)))
    # New workers take the place of those that were dropped, and each map starts anew.
    assert list(cluster.map(add_offset, range(3), initializer=set_offset, initargs=(7,))) == [
        7,
        8,
        9,
    ]
    # A second backend does not wait for the CPUs of the first one, which is idle.
    other = backend("ray", workers=3)
    assert list(other.map(square, range(9))) == [n * n for n in range(9)]
    assert list(cluster.map(square, range(3))) == [0, 1, 4]
    with pytest.raises(ConfigError, match="4 workers on a Ray cluster of 3 CPUs"):
        backend("ray", workers=4)


def test_ctrl_c_ends_the_pool_at_once(tmp_path: Path) -> None:
    script = tmp_path / "long.py"
    script.write_text(
        textwrap.dedent(
            """
            import time
            from rulerag.parallel.backends import ProcessBackend

            if __name__ == "__main__":
                print("start", flush=True)
                for _ in ProcessBackend(2).map(time.sleep, [0.01] + [60] * 8):
                    print("first", flush=True)
            """
        )
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() == "start\n"
        assert process.stdout.readline() == "first\n"
        began = time.monotonic()
        os.killpg(process.pid, signal.SIGINT)
        errors = process.stderr.read()
        process.wait(timeout=20)
    assert time.monotonic() - began < 20
    assert errors.count("KeyboardInterrupt") == 1, errors


FAULTS = """
import ctypes, faulthandler, signal
from rulerag.parallel.backends import fault_handlers_kept

def handler():
    found = ctypes.create_string_buffer(512)
    ctypes.CDLL(None).sigaction(signal.SIGSEGV, None, found)
    return found.raw[:8]  # the address; what follows is kept by the kernel

before = handler()
with fault_handlers_kept():
    faulthandler.enable()  # takes the signal, as Ray does when it starts
    assert handler() != before
assert handler() == before
"""


def test_starting_ray_leaves_memory_faults_to_java() -> None:
    done = subprocess.run([sys.executable, "-c", FAULTS], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.usefixtures("ray_cluster")
def test_lucene_searches_on_after_ray_has_started(tmp_path: Path) -> None:
    from rulerag import Document, LuceneRetriever, Query

    documents = [Document(str(n), f"word{n % 50} visits place{n % 7} {n}") for n in range(3000)]
    retriever = LuceneRetriever.build(documents, tmp_path / "index")
    queries = [Query(str(n), f"word{n % 50} visits") for n in range(300)]
    before = retriever.retrieve(queries, 100)
    assert list(backend("ray", 1).map(abs, [-1, 2])) == [1, 2]
    for _ in range(10):
        assert retriever.retrieve(queries, 100) == before
