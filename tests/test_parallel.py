"""The backends agree with the built-in map, and say which item failed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from rulerag.errors import ConfigError, DataFormatError, MissingDependencyError, RuleRAGError
from rulerag.parallel import Backend, ProcessBackend, ThreadBackend, backend

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


@pytest.mark.parametrize(("name", "workers"), [("serial", 1), ("thread", 2), ("process", 2)])
def test_results_come_in_order_and_errors_name_their_item(name: str, workers: int) -> None:
    made = backend(name, workers)
    assert isinstance(made, Backend) and made.workers == workers
    agree(made)


@pytest.mark.usefixtures("ray_cluster")
def test_ray_agrees_with_the_built_in_map() -> None:
    cluster = backend("ray", workers=2)
    agree(cluster)
    # A second backend does not wait for the CPUs of the first one, which is idle.
    assert list(backend("ray", workers=3).map(square, range(9))) == [n * n for n in range(9)]
    with pytest.raises(ConfigError, match="4 workers on a Ray cluster of 3 CPUs"):
        backend("ray", workers=4)


def test_threads_share_what_cannot_travel() -> None:
    met: set[int] = set()
    results = list(ThreadBackend(3).map(lambda n: (met.add(n), n)[1], range(50)))
    assert results == list(range(50)) and met == set(range(50))


def test_what_cannot_work_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuleRAGError, match=r"a worker process died.*fewer"):
        list(ProcessBackend(2).map(die, [1, 2]))
    with pytest.raises(ConfigError, match="did you mean 'process'"):
        backend("proces")
    with pytest.raises(ConfigError, match="0 workers"):
        backend("process", workers=0)
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingDependencyError, match=r"rulerag\[ray\]"):
        backend("ray")


def test_ctrl_c_ends_the_pool_at_once(tmp_path: Path) -> None:
    script = tmp_path / "long.py"
    script.write_text(
        textwrap.dedent(
            """
            import time
            from rulerag.parallel import ProcessBackend

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
