"""Where commands write: pipes, devices, links, standard output, and nothing after a failure."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.outputs import Fifo, full_device

ROOT = Path(__file__).resolve().parents[2]
Refused = Callable[..., str]
Write = Callable[..., Path]

# Commands that write one file, without its name.
ONE_FILE = {
    "answer": ("answer", "{dated}", "--limit", 3, "--retriever", "symbolic", "--quiet", "--out"),
    "explain": ("explain", "{dated}", "--limit", 2, "--retriever", "symbolic", "--quiet", "--out"),
    "page": ("explain", "{dated}", "--limit", 2, "--retriever", "symbolic", "--quiet", "--html"),
    "retrieve": ("retrieve", "{dated}", "--limit", 3, "--quiet", "--out"),
    "mine": ("mine", "{graph}", "--lengths", 1, "--quiet", "--out"),
    "rules": ("rules", "{dated}/rules.jsonl", "--out"),
}


@pytest.fixture
def command(dated: Path, graphs: dict[str, Path]) -> Callable[..., list[str]]:
    def fill(name: str, out: object) -> list[str]:
        places = {"dated": dated, "graph": graphs["temporal"]}
        return [str(part).format(**places) for part in (*ONE_FILE[name], out)]

    return fill


def run(arguments: list[str], **options: Any) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "rulerag.cli", *arguments],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        check=False,
        **options,
    )


@pytest.fixture
def written(command: Any, rulerag: Any, tmp_path: Path) -> Callable[[str], bytes]:
    """What a command writes to a plain file; pages tell the seconds they took."""

    def write(name: str) -> bytes:
        out = tmp_path / "plain"
        assert rulerag(*command(name, out)).code == 0
        return out.read_bytes()

    return write


@pytest.mark.parametrize("name", list(ONE_FILE))
def test_a_fifo_gets_what_a_file_would(
    name: str, command: Any, written: Any, rulerag: Any, tmp_path: Path
) -> None:
    fifo = Fifo(tmp_path / "fifo")
    result = rulerag(*command(name, fifo.path))
    assert (result.code, result.err.count("error")) == (0, 0)
    assert _plain(fifo.content()) == _plain(written(name))


@pytest.mark.parametrize("name", list(ONE_FILE))
def test_a_dash_is_standard_output_and_holds_nothing_else(
    name: str, command: Any, written: Any
) -> None:
    result = run(command(name, "-"), stdout=subprocess.PIPE)
    assert result.returncode == 0, result.stderr
    assert _plain(result.stdout) == _plain(written(name))
    assert result.stderr.strip(), "what the command says goes to standard error"


def _plain(content: bytes) -> list[str]:
    """Lines without what differs between two runs: seconds, command and date."""
    lines = content.decode().splitlines()
    if lines and lines[0].startswith("{"):
        return [json.dumps({**json.loads(line), "seconds": 0}) for line in lines]
    return [
        line
        for line in lines
        if " s." not in line
        and " subsets asked, " not in line
        and not any(f"<dt>{it}</dt>" in line for it in ("command", "date", "cost"))
    ]


@pytest.mark.parametrize("name", ["answer", "retrieve", "rules"])
def test_a_full_device_is_an_error_and_stays_a_device(
    name: str, command: Any, refused: Refused, tmp_path: Path
) -> None:
    device = full_device(tmp_path)
    message = refused(*command(name, device))
    assert message == f"error: {device}: cannot be written (No space left on device)"
    assert device.is_char_device()
    link = tmp_path / "link"
    link.symlink_to(device)
    assert "No space left on device" in refused(*command(name, link))
    assert link.is_symlink() and device.is_char_device()


def test_a_full_standard_output_is_an_error(command: Any, tmp_path: Path) -> None:
    with open(full_device(tmp_path), "wb") as full:
        result = run(command("answer", "-"), stdout=full)
    assert result.returncode == 2
    assert result.stderr.decode().splitlines()[-1] == (
        "error: -: cannot be written (No space left on device)"
    )


def test_a_reader_that_has_enough_is_no_error(command: Any) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        result = run(command("retrieve", "-"), stdout=writing)
    finally:
        os.close(writing)
    assert result.returncode == 0, result.stderr
    assert b"Traceback" not in result.stderr and b"error" not in result.stderr


def test_a_link_is_written_through(command: Any, rulerag: Any, tmp_path: Path) -> None:
    link, file = tmp_path / "link.jsonl", tmp_path / "real.jsonl"
    link.symlink_to(file)
    assert rulerag(*command("rules", link)).code == 0
    assert link.is_symlink() and file.read_text().startswith("{")


def test_folders_and_two_outputs_are_no_standard_output(
    dated: Path, experiment: Write, refused: Refused
) -> None:
    for command in (
        ("evaluate", experiment(), "--out", "-"),
        ("index", dated, "--out", "-"),
        ("demo", "--out", "-"),
    ):
        assert "-: is standard output, and a folder is to be written" in refused(*command)
    told = refused("explain", dated, "--out", "-", "--html", "-")
    assert "key 'out': two outputs would be mixed on standard output" in told


def test_a_failed_run_leaves_no_folder(
    dated: Path, experiment: Write, rulerag: Any, tmp_path: Path
) -> None:
    new = tmp_path / "new"
    bad = experiment("generator: {type: symbolic, evidence: {prior: -5}}\n")
    before = sorted(tmp_path.rglob("*"))
    for command in (
        ("evaluate", bad, "--out", new / "run"),
        ("evaluate", bad, "dataset.path=nowhere", "--out", new),
        ("answer", dated, "--limit", 0, "--out", new / "a.jsonl"),
        ("explain", dated, "--samples", 3, "--out", new / "e.jsonl", "--html", new / "p" / "x"),
        ("retrieve", dated, "--top-k", 0, "--out", new / "deep" / "run.trec"),
        ("mine", tmp_path / "nowhere", "--out", new / "rules.jsonl"),
        ("rules", tmp_path / "nowhere", "--out", new / "rules.jsonl"),
        ("index", tmp_path / "nowhere", "--out", new / "index"),
        ("index", dated, "--dates", "sometimes", "--out", new / "index"),
        ("demo", "--facts", 3, "--out", new),
    ):
        assert rulerag(*command).code == 2, command
        assert sorted(tmp_path.rglob("*")) == before, command
