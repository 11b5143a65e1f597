"""The wheel alone, without torch: what `pip install rulerag` gives does the main job."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

EXPLAINED = """
from rulerag import MonoMiner, ProbeEngine
engine = ProbeEngine.from_function(
    lambda kept: ["yes" if {0, 2} <= set(sources) else "no" for sources in kept], num_sources=3
)
rules = MonoMiner("retention").mine(engine, lambda output: output == "yes")
print(sorted(map(sorted, rules.minimal)))
"""


@pytest.fixture(scope="module")
def installed(
    lean_environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str]:
    """The environment of a program that can import the wheel and what the core depends on."""
    place = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    made = ["wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", place, ROOT]
    subprocess.run([*pip, *made], check=True)
    (wheel,) = place.glob("*.whl")
    assert wheel.stat().st_size < 20_000_000
    target = place / "site"
    subprocess.run([*pip, "install", "--no-deps", "--target", target, wheel], check=True)
    lean = lean_environment["PYTHONPATH"].split(os.pathsep)[0]
    return {**lean_environment, "PYTHONPATH": os.pathsep.join([lean, str(target)])}


def run(
    environment: dict[str, str], folder: Path, *words: object
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "rulerag.cli", *map(str, words)]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


@pytest.mark.slow
def test_the_wheel_alone_does_the_main_job(installed: dict[str, str], tmp_path: Path) -> None:
    done = run(installed, tmp_path, "demo", "--facts", 600, "--out", "demo", "--quiet")
    assert done.returncode == 0, done.stderr
    dataset = tmp_path / "demo" / "temporal" / "dataset"
    (tmp_path / "graph").mkdir()
    facts = [f"person{n % 7}\tvisits\tplace{n % 5}\t2020-01-{1 + n % 28:02}" for n in range(200)]
    (tmp_path / "graph" / "train.txt").write_text("\n".join(facts) + "\n")
    for words in (
        ("mine", "graph", "--out", "rules.jsonl", "--quiet"),
        ("retrieve", dataset, "--rules", "guided", "--out", "run.trec", "--quiet"),
        ("answer", dataset, "--limit", 2, "--quiet"),
        ("evaluate", "bm25__symbolic", "--dataset", dataset, "--out", "eval", "--quiet"),
    ):
        done = run(installed, tmp_path, *words)
        assert done.returncode == 0, (words, done.stderr)
    code = [sys.executable, "-c", EXPLAINED]
    told = subprocess.run(code, cwd=tmp_path, env=installed, capture_output=True, text=True)
    assert told.stdout == "[[0, 2]]\n", told.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "extra"),
    [
        (("--retriever", "dense"), "dense"),
        (("--retriever", "lucene"), "lucene"),
        (("--generator", "rulerag-nano-llama"), "hf"),
        (("--generator", "reader.yaml"), "openai"),
    ],
)
def test_a_missing_extra_is_one_message_with_the_command(
    options: tuple[str, ...], extra: str, installed: dict[str, str], tmp_path: Path
) -> None:
    done = run(installed, tmp_path, "demo", "--facts", 500, "--out", "demo", "--quiet")
    assert done.returncode == 0, done.stderr
    (tmp_path / "reader.yaml").write_text(
        "generator: {type: openai, model: m, base_url: 'http://localhost:1/v1'}\n"
    )
    dataset = tmp_path / "demo" / "temporal" / "dataset"
    done = run(installed, tmp_path, "answer", dataset, "--limit", 1, "--quiet", *options)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert done.stderr.endswith(f"is not installed — pip install 'rulerag[{extra}]'\n")
