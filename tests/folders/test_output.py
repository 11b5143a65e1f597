"""Folders for one writer at a time: refused, and given back after every kind of end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rulerag.errors import OutputError
from rulerag.folders import LOCK, hold_folder, locked, output_folder

ROOT = Path(__file__).resolve().parent.parent

HOLDER = """
import sys
from rulerag.folders import hold_folder, output_folder

if sys.argv[2] == "hold":
    hold_folder(sys.argv[1])
    print("held", flush=True)
    sys.stdin.read()
else:
    with output_folder(sys.argv[1]):
        print("held", flush=True)
        sys.stdin.read()
"""


@contextmanager
def holder(folder: Path, how: str = "block") -> Iterator[subprocess.Popen[str]]:
    """Another process that holds a folder until its input ends."""
    command = [sys.executable, "-c", HOLDER, str(folder), how]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


def test_what_a_killed_process_wrote_by_half_goes(tmp_path: Path) -> None:
    (tmp_path / ".run.json.x1.part").write_text('{"half')
    with output_folder(tmp_path):
        assert not list(tmp_path.glob("*.part"))
        (tmp_path / ".run.json.x2.part").write_text("of this process")
        with output_folder(tmp_path):
            assert (tmp_path / ".run.json.x2.part").exists()


@pytest.mark.parametrize("how", ["block", "hold"])
def test_a_second_process_is_refused_until_the_first_ends(tmp_path: Path, how: str) -> None:
    folder = tmp_path / "deep" / "run"
    with holder(folder, how) as process:
        with (
            pytest.raises(
                OutputError, match=rf"is being written by process {process.pid} on "
            ) as e,
            output_folder(folder),
        ):
            pass
        assert e.value.path == folder and "choose another folder" in str(e.value)
        with output_folder(tmp_path / "deep" / "other"):
            pass
        process.communicate("", timeout=30)
        assert process.returncode == 0
    assert not (folder / LOCK).exists(), "it goes when its holder ends"
    with output_folder(folder):
        assert str(os.getpid()) in (folder / LOCK).read_text()
    assert list(folder.iterdir()) == [] if folder.exists() else True


def test_a_killed_holder_stops_nobody(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with holder(folder) as process:
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=30)
        assert (folder / LOCK).exists(), "nobody could remove it"
        with output_folder(folder):
            assert f"process {os.getpid()} on" in (folder / LOCK).read_text()
    assert not (folder / LOCK).exists()


def test_a_thread_may_take_its_folder_again_and_another_may_not(tmp_path: Path) -> None:
    refused: list[OutputError] = []

    def other() -> None:
        try:
            with output_folder(tmp_path):
                pass
        except OutputError as error:
            refused.append(error)

    with output_folder(tmp_path):
        with output_folder(tmp_path / "."):
            pass
        assert (tmp_path / LOCK).exists(), "the inner block leaves it to the outer"
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert len(refused) == 1
    other()
    assert len(refused) == 1


def test_many_processes_take_turns_and_never_two_at_once(tmp_path: Path) -> None:
    """Lock files are removed while others open them: each must see that its file is gone."""
    script = """
import sys
from pathlib import Path
from rulerag.folders import locked

place = Path(sys.argv[1])
for _ in range(150):
    with locked(place / "lock", place, wait=True):
        count = int((place / "count").read_text())
        (place / "count").write_text(str(count + 1))
"""
    (tmp_path / "count").write_text("0")
    command = [sys.executable, "-c", script, str(tmp_path)]
    processes = [subprocess.Popen(command, cwd=ROOT) for _ in range(4)]
    assert [process.wait(timeout=120) for process in processes] == [0] * 4
    assert (tmp_path / "count").read_text() == "600"
    assert not (tmp_path / "lock").exists()


def test_places_that_cannot_be_written_are_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(OutputError, match="cannot be written"), output_folder(place):
            pass
    with pytest.raises(OutputError, match="cannot be written"):
        hold_folder(tmp_path / "file")
    with pytest.raises(OutputError, match="cannot be written"), locked(tmp_path, tmp_path):
        pass
