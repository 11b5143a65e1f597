"""The folder of a benchmark: Hugging Face datasets, BEIR, the data card, ceilings, the table."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from benchmarks.ruleqa.__main__ import main
from rulerag.ruleqa.ceilings import CEILINGS, ceilings
from rulerag.ruleqa.dataset import RuleQADataset
from rulerag.ruleqa.formats import read_benchmark
from rulerag.ruleqa.settings import GRAPHS, PUBLISHED
from rulerag.synthetic.world import World
from rulerag.types import Document, Fact, Query


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small benchmark of dated facts, built by the command."""
    home = tmp_path_factory.mktemp("built")
    World.generate(1500, max_body_atoms=1).save(home / "kg")
    command = ["build", "--name", "ruleqa-i", "--kg", str(home / "kg"), "--quiet"]
    assert main([*command, "--out", str(home / "data"), "--num-queries", "20"]) == 0
    assert main(["check", str(home / "data")]) == 0 and main(["check", str(home)]) == 2
    return home / "data"


@pytest.fixture(scope="module")
def dataset(folder: Path) -> RuleQADataset:
    return RuleQADataset.load(folder)


# --- other people's readers --------------------------------------------------------------------


@pytest.fixture
def load(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """``datasets.load_dataset`` of the folder, without a network."""
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    return lambda name: datasets.load_dataset(str(folder), name, cache_dir=str(tmp_path))


def test_hugging_face_datasets_opens_every_configuration(
    load: Callable[[str], Any], dataset: RuleQADataset
) -> None:
    queries = load("queries")["queries"]
    # The words of subject and relation are in labels.json.
    everything = [
        replace(query, subject_label="", relation_label="")
        for rows in dataset.queries.values()
        for query in rows
    ]
    # That they are predictions is said once, in the manifest.
    assert [replace(Query.from_json(row), prediction=True) for row in queries] == everything
    corpus = load("corpus")["corpus"]
    assert corpus["_id"] == [document.id for document in dataset.corpus]
    assert corpus["text"] == [document.text for document in dataset.corpus]
    qrels = load("qrels")
    assert set(qrels) == {"test", "f_r", "f_g"}
    for split, rows in qrels.items():
        judged = {
            row["query-id"]: dict(zip(row["corpus-id"], row["score"], strict=True)) for row in rows
        }
        assert judged == dataset.qrels(split)
    rules = load("rules")["rules"]
    assert rules["text"] == [rule.text for rule in dataset.rules]
    assert rules["head"][0] == next(iter(dataset.rules)).to_json()["head"]


def test_a_reader_of_beir_opens_it(folder: Path, dataset: RuleQADataset) -> None:
    found = read_benchmark(folder)
    assert [(d.id, d.text) for d in found.corpus] == [(d.id, d.text) for d in dataset.corpus]
    for split in ("test", "f_r", "f_g"):
        assert found.qrels(split) == dataset.qrels(split)
        assert {query.id for query in found.queries[split]} == set(dataset.qrels(split))


# --- the card and the manifest -----------------------------------------------------------------


def test_the_card_tells_how_it_was_made(folder: Path, dataset: RuleQADataset) -> None:
    _, header, body = (folder / "README.md").read_text(encoding="utf-8").split("---\n", 2)
    configs = {config["config_name"]: config for config in yaml.safe_load(header)["configs"]}
    assert set(configs) == {"queries", "corpus", "qrels", "rules"}
    files = [file["path"] for config in configs.values() for file in config["data_files"]]
    assert all((folder / name).is_file() for name in files)
    assert (
        "python -m benchmarks.ruleqa build --name ruleqa-i --kg kg --out data --seed 0 "
        "num_queries=20\n"
    ) in body
    assert str(folder.parent) not in body  # no path of this machine
    sizes = dataset.statistics["sizes"]
    assert f"| documents \\|D\\| | {sizes['documents']:,} | 77,508 |" in body
    for told in ("usc-isi-i2/isi-tkg-icl", "Licence: none stated", "No leakage", "`seed`: 0"):
        assert told in body
    assert all(line in body for line in dataset.statistics["leakage"])


def test_the_manifest_counts_in_the_papers_terms(dataset: RuleQADataset) -> None:
    sizes, counts = dataset.statistics["sizes"], dataset.manifest["counts"]
    assert sizes["rules"] == len(dataset.rules) == counts["rules"]
    assert sizes["documents"] == len(dataset.corpus)
    assert sizes["f_r"] == counts["judgements"]["f_r"] >= sizes["f_r_three_latest"]
    assert sizes["f_r_queries"] == counts["queries"]["f_r"]
    assert sizes["f_g"] == sum(len(query.answers) for query in dataset.query_set("f_g"))
    assert (sizes["queries"], sizes["queries_full"]) == (20, counts["queries"]["test"])
    assert dataset.statistics["published"] == dict(PUBLISHED["ruleqa-i"])
    assert len(dataset.statistics["leakage"]) == 4


# --- ceilings ----------------------------------------------------------------------------------


def test_ceilings_by_hand() -> None:
    facts = [
        Fact("ann", "visits", "bath", 1),
        Fact("ann", "visits", "bath", 2),
        Fact("bob", "visits", "the ely", 1),
        Fact("cid", "knows", "ann", 1),
    ]
    corpus = [
        Document(f"d{n}", f"Time {f.timestamp} {f[0]} {f[1]} {f[2]}.", (f,))
        for n, f in enumerate(facts)
    ]
    asked = [
        ("ann", ("York", "Bath")),  # near
        ("ann", ("Cid",)),  # at the other end
        ("ann", ("Ely",)),  # far
        ("ann", ("bat",)),  # part of a word
        ("bob", ("visits Ely",)),  # two words
        ("eve", ("nine",)),  # nowhere
    ]
    tests = [Query(f"q{n}", "?", who, "likes", 9, gold) for n, (who, gold) in enumerate(asked)]
    dataset = RuleQADataset(
        corpus=corpus,
        queries={"test": tests},
        qrels={"test": {"q0": {"d0": 1}}},
        query_sets={"balanced": {"q2", "q4"}},
    )
    found = ceilings(dataset)
    assert list(found) == ["balanced", "full"]
    assert found["full"] == {
        "num_queries": 6,
        "anywhere": round(4 / 6, 6),
        "same_subject": 0.5,
        "oracle": round(1 / 6, 6),
    }
    assert found["balanced"] == {
        "num_queries": 2,
        "anywhere": 1.0,
        "same_subject": 0.5,
        "oracle": 0.0,
    }


def test_ceilings_bound_what_is_judged(dataset: RuleQADataset) -> None:
    for values in dataset.statistics["ceilings"].values():
        # Rules of one body atom: an oracle document is about the subject and names the answer.
        assert 0 < values["oracle"] <= values["same_subject"] <= values["anywhere"] <= 1
    assert set(CEILINGS) < set(values)


# --- the table ---------------------------------------------------------------------------------


def test_the_table_is_written_from_the_manifests(
    folder: Path, dataset: RuleQADataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["table", str(folder), "--out", str(tmp_path / "out")]) == 0
    rows = json.loads((tmp_path / "out" / "table.json").read_text())["datasets"]
    assert [row["fingerprint"] for row in rows] == [dataset.fingerprint]
    assert rows[0]["ceilings"] == dataset.statistics["ceilings"]
    table = (tmp_path / "out" / "table.md").read_text(encoding="utf-8")
    assert f"| ruleqa-i of kg | {len(dataset.rules):,} — 557 / 6,015 |" in table
    assert "| `num_queries` | 20 |" in table
    capsys.readouterr()
    (tmp_path / "other").mkdir()
    assert main(["table", str(tmp_path / "other"), "--out", str(tmp_path)]) == 2
    assert "other: is no built dataset" in capsys.readouterr().err
    (tmp_path / "other" / "manifest.json").write_text("{}")
    assert main(["table", str(tmp_path / "other"), "--out", str(tmp_path)]) == 2
    assert "manifest.json: holds no statistics — build the dataset again" in capsys.readouterr().err


def test_every_benchmark_has_a_graph_and_published_sizes() -> None:
    assert set(GRAPHS) == set(PUBLISHED)
    assert PUBLISHED["ruleqa-n"]["rules_v2"] == 2_594
    assert sum(sizes["queries"] for sizes in PUBLISHED.values()) == 7_536
