"""Components of others: a package in a folder, named by an entry point, runs like our own.

The command line runs in a process of its own, as it does for the people who install the package.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rulerag.kg.calendar import Calendar
from rulerag.ruleqa import DatasetInfo
from rulerag.ruleqa.dataset import RuleQADataset
from rulerag.types import Document, Fact, Query

ROOT = Path(__file__).parents[1]

RETRIEVER = '''
from rulerag import ScoredDocument, register

@register("retriever", "overlap")
class Overlap:
    """Documents that share the most words with the question."""

    fingerprint = "overlap"

    def __init__(self, documents, *, min_words: int = 1) -> None:
        self.documents, self.min_words = documents, min_words

    def retrieve(self, queries, top_k):
        return [self._best(set(query.text.split()), top_k) for query in queries]

    def _best(self, words, top_k):
        found = [(len(words & set(d.text.split())), d) for d in self.documents]
        kept = sorted((f for f in found if f[0] >= self.min_words), key=lambda f: -f[0])[:top_k]
        return [ScoredDocument(d, float(n), rank) for rank, (n, d) in enumerate(kept, start=1)]
'''

GENERATOR = '''
from rulerag import Completion, register

@register("generator", "last-word")
class LastWord:
    """The last word of the first document, in capitals on request."""

    def __init__(self, *, capitals: bool = False) -> None:
        self.capitals = capitals
        self.fingerprint = f"last-word {capitals}"

    def generate(self, requests):
        said = [r.documents[0].text.split()[-1] if r.documents else "" for r in requests]
        return [Completion(text.upper() if self.capitals else text) for text in said]
'''

DATASET = '''
import csv

from rulerag import Document, Query, RuleQADataset, register

@register("dataset", "table")
def open_table(path: str, *, question: str = "who visits {} ?") -> RuleQADataset:
    """A table of visitors and towns: a document a row, a question a town."""
    with open(path) as file:
        rows = list(csv.reader(file))
    return RuleQADataset(
        corpus=[Document(f"d{n}", f"{who} visits {town}") for n, (who, town) in enumerate(rows)],
        queries={
            "test": [
                Query(f"q{n}", question.format(town), town, answers=(who,))
                for n, (who, town) in enumerate(rows)
            ]
        },
    )
'''

EXPLAINER = '''
from dataclasses import replace

from rulerag import leave_one_out, register

@register("explainer", "mine-alone")
def mine_alone(engine, score, *, samples=None, seed=0):
    """As :func:`rulerag.leave_one_out`."""
    return replace(leave_one_out(engine, score), method="mine alone")
'''


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
    """One retriever, one generator, one explainer, and one that fails."""
    broken = "import no_such_module\n"
    modules = {"retriever": RETRIEVER, "generator": GENERATOR, "explainer": EXPLAINER}
    return plug_in(tmp_path_factory.mktemp("site"), **modules, broken=broken)


def test_own_components_on_an_own_dataset(
    installed: dict[str, str], dataset: Path, tmp_path: Path
) -> None:
    settings = ("retriever.min_words=2", "generator.capitals=true", "--dataset", dataset)
    done = run(installed, "evaluate", "overlap__last-word", *settings, "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert (result["retriever"], result["generator"]) == ("overlap", "last-word")
    assert (result["benchmark"], result["num_queries"]) == ("towns", 2)
    assert result["metrics"]["exact_match"] == 1.0  # capitals do not count
    assert result["config"]["retriever"] == {"type": "overlap", "min_words": 2}
    # A plug-in that fails to import is named once, and the rest works.
    (line,) = [line for line in done.stderr.splitlines() if "plug-in" in line]
    assert line.startswith("the plug-in 'broken' (own_broken) is left out: ModuleNotFoundError")


def test_an_own_dataset(tmp_path: Path) -> None:
    environment = plug_in(tmp_path / "site", dataset=DATASET, retriever=RETRIEVER)
    (tmp_path / "towns.csv").write_text("ann,bath\nbob,ely\n")
    experiment = tmp_path / "towns.yaml"
    experiment.write_text(
        "dataset: {type: table, path: ./towns.csv}\n"
        "retriever: {type: overlap}\n"
        "generator: {type: candidate}\n"
        "top_k: 1\n"
    )
    words = ("evaluate", experiment, "dataset.question=visits {}")
    done = run(environment, *words, "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert result["num_queries"] == 2
    assert result["config"]["dataset"]["question"] == "visits {}"
    done = run(environment, *words, "dataset.questions=1", "--out", tmp_path / "run")
    assert "did you mean 'dataset.question'" in done.stderr


def test_an_unknown_setting_suggests_the_nearest(
    installed: dict[str, str], dataset: Path, tmp_path: Path
) -> None:
    words = ("evaluate", "overlap__last-word", "--dataset", dataset, "--out", tmp_path / "run")
    done = run(installed, *words, "generator.capital=true")
    assert done.returncode == 2
    assert "no such key to override — did you mean 'generator.capitals'" in done.stderr
    done = run(installed, *words, "min_words=many")
    assert "key 'retriever.min_words': expected a whole number, found 'many'" in done.stderr
    done = run(installed, "evaluate", "overlapp__last-word", *words[2:])
    assert "no retriever is called 'overlapp' — did you mean 'overlap'?" in done.stderr


def test_a_name_that_is_taken_names_both_places(tmp_path: Path, dataset: Path) -> None:
    taken = RETRIEVER.replace('"overlap"', '"bm25"', 1)
    environment = plug_in(tmp_path / "site", taken=taken, generator=GENERATOR)
    words = ("evaluate", "bm25__last-word", "--dataset", dataset, "--out", tmp_path / "run")
    done = run(environment, *words)
    assert done.returncode == 0, done.stderr  # the rest works
    (line,) = [line for line in done.stderr.splitlines() if "plug-in" in line]
    assert "two components of the family retriever are called 'bm25'" in line
    assert "rename one: rulerag.retrieval.lexical.bm25" in line and "own_taken:Overlap" in line
