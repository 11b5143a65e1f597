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

from rulerag.rules import Atom, Rule, RuleBank
from tests.outputs import Fifo, full_device

ROOT = Path(__file__).resolve().parents[2]
Refused = Callable[..., str]

# Commands that write one file, without its name.
ONE_FILE = {
    "answer": "answer {dated} --limit 3 --retriever symbolic --quiet --out",
    "explain": "explain {dated} --limit 2 --retriever symbolic --quiet --out",
    "page": "explain {dated} --limit 2 --retriever symbolic --quiet --html",
    "retrieve": "retrieve {dated} --limit 3 --quiet --out",
    "mine": "mine {graph} --lengths 1 --quiet --out",
    "rules": "rules {dated}/rules.jsonl --out",
}


@pytest.fixture
def words(dated: Path, graphs: dict[str, Path]) -> Callable[..., list[str]]:
    def fill(name: str, out: object) -> list[str]:
        return [*ONE_FILE[name].format(dated=dated, graph=graphs["temporal"]).split(), str(out)]

    return fill


def run(arguments: list[str], **options: Any) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "rulerag.cli", *arguments]
    return subprocess.run(command, cwd=ROOT, stderr=subprocess.PIPE, check=False, **options)


def plain(content: bytes) -> list[str]:
    """Lines without what differs between two runs: seconds, command and date."""
    lines = content.decode().splitlines()
    if lines and lines[0].startswith("{"):
        return [json.dumps({**json.loads(line), "seconds": 0}) for line in lines]
    changing = (
        " s.",
        " subsets asked, ",
        *(f"<dt>{it}</dt>" for it in ("command", "date", "cost")),
    )
    return [line for line in lines if not any(mark in line for mark in changing)]


@pytest.mark.parametrize("name", list(ONE_FILE))
def test_a_fifo_gets_what_a_file_would(name: str, words: Any, rulerag: Any, tmp_path: Path) -> None:
    assert rulerag(*words(name, tmp_path / "plain")).code == 0
    fifo = Fifo(tmp_path / "fifo")
    result = rulerag(*words(name, fifo.path))
    assert (result.code, result.err.count("error")) == (0, 0)
    assert plain(fifo.content()) == plain((tmp_path / "plain").read_bytes())


@pytest.mark.parametrize("name", ["page", "mine"])
def test_a_dash_is_standard_output_and_holds_nothing_else(
    name: str, words: Any, rulerag: Any, tmp_path: Path
) -> None:
    assert rulerag(*words(name, tmp_path / "plain")).code == 0
    result = run(words(name, "-"), stdout=subprocess.PIPE)
    assert result.returncode == 0, result.stderr
    assert plain(result.stdout) == plain((tmp_path / "plain").read_bytes())
    assert result.stderr.strip(), "what the command says goes to standard error"


@pytest.mark.parametrize("name", ["answer", "retrieve", "rules"])
def test_a_full_device_is_an_error_and_stays_a_device(
    name: str, words: Any, refused: Refused, tmp_path: Path
) -> None:
    device, link = full_device(tmp_path), tmp_path / "link"
    link.symlink_to(device)
    for place in (device, link):
        assert "cannot be written (No space left on device)" in refused(*words(name, place))
    assert link.is_symlink() and device.is_char_device()


def test_a_full_standard_output_is_an_error(words: Any, tmp_path: Path) -> None:
    with open(full_device(tmp_path), "wb") as full:
        result = run(words("answer", "-"), stdout=full)
    assert result.returncode == 2
    last = result.stderr.decode().splitlines()[-1]
    assert last == "error: -: cannot be written (No space left on device)"


def test_the_reader_of_a_pipe_may_stop_reading(tmp_path: Path) -> None:
    """More is written than a pipe holds, so that the writer meets the closed end."""
    ends = ("?x", "?y")
    rules = (Rule(Atom("led to", *ends), (Atom(f"event {n}", *ends),)) for n in range(3000))
    RuleBank(rules).save(tmp_path / "rules.jsonl")
    reading, writing = os.pipe()
    os.close(reading)
    try:
        result = run(["rules", str(tmp_path / "rules.jsonl"), "--top", "100000"], stdout=writing)
    finally:
        os.close(writing)
    assert (result.returncode, result.stderr) == (0, b"")


def test_a_link_is_written_through(words: Any, rulerag: Any, tmp_path: Path) -> None:
    link, file = tmp_path / "link.jsonl", tmp_path / "real.jsonl"
    link.symlink_to(file)
    assert rulerag(*words("rules", link)).code == 0
    assert link.is_symlink() and file.read_text().startswith("{")


def test_an_index_is_not_built_twice_at_once(dated: Path, refused: Refused, tmp_path: Path) -> None:
    code = (
        "import sys\nfrom rulerag.retrieval.base.index_folder import new_index_folder\n"
        "with new_index_folder(sys.argv[1], 'bm25', corpus='x', settings={}, num_documents=1):\n"
        "    print('building', flush=True)\n    sys.stdin.read()\n"
    )
    out = tmp_path / "new" / "index"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(out)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "building\n"
        message = refused("index", dated, "--out", out, "--quiet")
        assert f"{out}: is being written by process {process.pid} on " in message
        process.communicate("", timeout=30)
    assert [path.name for path in out.parent.iterdir()] == ["index"]
