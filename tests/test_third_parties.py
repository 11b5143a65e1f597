"""Components of others: a package in a folder, named by an entry point, runs like our own.

The command line runs in a process of its own, as it does for the people who install the package.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from rulerag.kg.calendar import Calendar
from rulerag.ruleqa import DatasetInfo
from rulerag.ruleqa.dataset import RuleQADataset
from rulerag.types import Document, Fact, Query

ROOT = Path(__file__).parents[1]


def code(page: str) -> str:
    """The component that a page of ``docs/adding`` shows."""
    text = (ROOT / "docs" / "adding" / f"{page}.md").read_text(encoding="utf-8")
    return "\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset of one's own, in the BEIR layout: three towns and what happened there."""
    facts = [Fact("ann", "visits", "bath", 1), Fact("bob", "visits", "ely", 2)]
    calendar = Calendar(unit="day", origin="2020-01-01")
    folder = tmp_path_factory.mktemp("own") / "towns"
    RuleQADataset(
        corpus=[
            Document(f"d{n}", f"{f.subject} visits {f.object}", (f,)) for n, f in enumerate(facts)
        ],
        queries={
            "test": [
                Query("q1", "what does ann visits ?", "ann", "visits", 5, ("bath",)),
                Query("q2", "what does bob visits ?", "bob", "visits", 5, ("ely",)),
            ]
        },
        info=DatasetInfo(
            name="towns",
            calendar={"unit": calendar.unit, "origin": calendar.origin, "step": 1},
        ),
    ).save(folder)
    return folder


def plug_in(folder: Path, **modules: str) -> dict[str, str]:
    """Install modules as a distribution of their own; the environment that finds it."""
    info = folder / "own_components-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: own_components\nVersion: 1.0\n")
    points = "".join(f"{name} = own_{name}\n" for name in modules)
    (info / "entry_points.txt").write_text(f"[rulerag.components]\n{points}")
    for name, code in modules.items():
        (folder / f"own_{name}.py").write_text(code)
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])}


def run(environment: dict[str, str], *words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "rulerag.cli", *map(str, words)]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A component of each of some families, and one that fails."""
    modules = {page: code(page) for page in ("retriever", "generator", "dataset", "explainer")}
    return plug_in(tmp_path_factory.mktemp("site"), **modules, broken="import no_such_module\n")


def test_own_components_on_an_own_dataset(
    installed: dict[str, str], dataset: Path, tmp_path: Path
) -> None:
    words = ("evaluate", "overlap__first-object", "--dataset", dataset, "--out", tmp_path / "run")
    done = run(installed, *words, "retriever.min_words=2")
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert (result["retriever"], result["generator"]) == ("overlap", "first-object")
    assert (result["benchmark"], result["num_queries"]) == ("towns", 2)
    assert result["metrics"]["exact_match"] == 1.0
    assert result["config"]["retriever"] == {"type": "overlap", "min_words": 2}
    # A plug-in that fails to import is named once, and the rest works.
    (line,) = [line for line in done.stderr.splitlines() if "plug-in" in line]
    assert line.startswith("the plug-in 'broken' (own_broken) is left out: ModuleNotFoundError")
    for wrong, said in (
        ("retriever.min_word=2", "no such key to override — did you mean 'retriever.min_words'"),
        ("min_words=many", "key 'retriever.min_words': expected a whole number, found 'many'"),
    ):
        done = run(installed, *words, wrong)
        assert done.returncode == 2 and said in done.stderr
    done = run(installed, "evaluate", "overlapp__first-object", *words[2:])
    assert "no retriever is called 'overlapp' — did you mean 'overlap'?" in done.stderr


def test_an_own_dataset(installed: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "towns.csv").write_text("ann,bath\nbob,ely\n")
    experiment = tmp_path / "towns.yaml"
    experiment.write_text(
        "dataset: {type: table, path: ./towns.csv}\n"
        "retriever: {type: overlap}\n"
        "generator: {type: candidate}\n"
        "top_k: 1\n"
    )
    words = ("evaluate", experiment, "dataset.question=visits {}")
    done = run(installed, *words, "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert result["num_queries"] == 2
    assert result["config"]["dataset"]["question"] == "visits {}"
    done = run(installed, *words, "dataset.questions=1", "--out", tmp_path / "run")
    assert "did you mean 'dataset.question'" in done.stderr


def test_a_name_that_is_taken_names_both_places(tmp_path: Path, dataset: Path) -> None:
    taken = code("retriever").replace('"overlap"', '"bm25"', 1)
    environment = plug_in(tmp_path / "site", taken=taken, generator=code("generator"))
    words = ("evaluate", "bm25__first-object", "--dataset", dataset, "--out", tmp_path / "run")
    done = run(environment, *words)
    assert done.returncode == 0, done.stderr  # the rest works
    (line,) = [line for line in done.stderr.splitlines() if "plug-in" in line]
    assert "two components of the family retriever are called 'bm25'" in line
    assert "rename one: rulerag.retrieval.lexical.bm25" in line
    assert "own_taken:OverlapRetriever" in line
