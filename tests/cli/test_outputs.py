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


@pytest.mark.parametrize(
    "words",
    [
        "explain {dated} --limit 2 --retriever symbolic --quiet --html",
        "mine {graph} --lengths 1 --quiet --out",
    ],
)
def test_a_pipe_gets_what_a_file_would_and_nothing_else(
    words: str, dated: Path, graphs: dict[str, Path], rulerag: Any, tmp_path: Path
) -> None:
    command = words.format(dated=dated, graph=graphs["temporal"]).split()
    assert rulerag(*command, tmp_path / "plain").code == 0
    wanted = plain((tmp_path / "plain").read_bytes())
    fifo = Fifo(tmp_path / "fifo")
    assert rulerag(*command, fifo.path).code == 0
    assert plain(fifo.content()) == wanted
    result = run([*command, "-"], stdout=subprocess.PIPE)
    assert result.returncode == 0, result.stderr
    assert plain(result.stdout) == wanted
    assert result.stderr.strip(), "what the command says goes to standard error"


def test_a_full_standard_output_is_an_error(dated: Path, tmp_path: Path) -> None:
    with open(full_device(tmp_path), "wb") as full:
        result = run(["answer", str(dated), "--limit", "3", "--quiet", "--out", "-"], stdout=full)
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
