"""The tables of configs/: every method builds on every benchmark, and is called what it holds."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from rulerag.assembly import CONFIGS, experiment, make_pipeline, method, open_dataset, preset
from rulerag.assembly.build import Experiment
from rulerag.assembly.demo import mine_world, world_dataset
from rulerag.composition import Config, innermost, load_config, parse_file
from rulerag.errors import ConfigError
from rulerag.evaluation.metrics import metric
from rulerag.retrieval.dense.encoders.load import NANO_ENCODER
from rulerag.retrieval.guided.merging import MergeWeights
from rulerag.ruleqa import BENCHMARKS
from rulerag.synthetic import World

ROOT = Path(__file__).resolve().parent.parent
FILES = [file for file in CONFIGS.rglob("*") if file.is_file()]
METHODS = list(parse_file(CONFIGS / "methods.yaml"))
RETRIEVERS, GENERATORS = (
    list(parse_file(CONFIGS / f"{table}.yaml")) for table in ("retrievers", "generators")
)
# What the second half of a name stands for.
READERS = {"verify-and-edit": "ve", "chain-of-knowledge": "cok", "huggingface": "llama"}
UNDATED = ("bm25-guided", "dense-guided", "symbolic")
"""What undated graphs have other settings of."""
LOADS = {"lucene", "dense", "llama", "hybrid", "ve", "cok"}
"""Parts that start Java or load a model."""

config_of = cache(method)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset folder that every method can be pointed at."""
    world = World.generate(600, max_body_atoms=1)
    folder = tmp_path_factory.mktemp("configs") / "tiny"
    world_dataset(world, mine_world(world)[0]).save(folder)
    return folder


def test_files_are_few_and_every_entry_is_used() -> None:
    assert len(FILES) <= 63
    used = [name.split("__") for name in METHODS]
    assert {one for one, _ in used} == set(RETRIEVERS)
    assert {other for _, other in used} == set(GENERATORS)
    for folder in ("expected", "datasets"):
        stems = {file.stem for file in (CONFIGS / folder).glob("*.yaml")}
        assert stems - {"undated"} == set(BENCHMARKS)


def test_every_file_is_read_and_holds_no_place_of_one_machine() -> None:
    for file in FILES:
        if file.suffix == ".yaml":
            assert load_config(file) if file.parent.name == "training" else parse_file(file)
        text = file.read_text(encoding="utf-8")
        assert not re.search(r"(^|[\s:'\"])/(home|work|tmp|Users)/", text), file


@pytest.mark.parametrize(
    ("name", "published"),
    [
        pytest.param(name, published, marks=[pytest.mark.slow] if LOADS & {*parts} else [])
        for name, published in [
            # What learns first is built with the generator that belongs to it.
            *((f"{one}__symbolic", "ruleqa-i") for one in RETRIEVERS if one != "bm25-scored"),
            *((f"{one}__symbolic", "ruleqa-f") for one in UNDATED),
            *((f"bm25__{one}", "ruleqa-i") for one in GENERATORS if one != "candidate-scorer"),
            ("bm25-scored__candidate-scorer", "ruleqa-i"),
        ]
        if (parts := re.split("__|-", name))
    ],
)
def test_every_part_builds_and_answers(
    name: str, published: str, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RULERAG_CACHE", str(tiny.parent / "cache"))
    overrides = [f"dataset.path={tiny}", "dataset.query_set=full"]
    stated = config_of(name, published)
    if "query_encoder" in innermost(stated["retriever"]):
        # The checkpoint is a training run's; the encoder that it starts from stands for it.
        overrides.append(f"query_encoder={NANO_ENCODER}")
    if "index" in innermost(stated["retriever"]):  # of a server, for which a file stands
        pytest.importorskip("milvus_lite")
        overrides.append(f"index={tmp_path / 'x.db'}")
    reader = stated["generator"]
    if "adapter" in reader.get("model", {}) if reader["type"] == "hybrid" else "adapter" in reader:
        overrides.append("adapter=null")  # a training run's too
    config = method(name, published, overrides)
    if innermost(config["retriever"])["type"] == "lucene":
        pytest.importorskip("pyserini", reason="Lucene is not installed")
    dataset = open_dataset(config)
    pipeline = make_pipeline(config, dataset)
    (answer,) = pipeline.answer(dataset.query_set("full")[:1])
    assert bool(answer.documents) == (config["retriever.type"] != "none")
    if close := getattr(pipeline.retriever, "close", None):
        close()


@pytest.mark.parametrize("published", BENCHMARKS)
def test_a_method_is_called_what_it_holds(published: str) -> None:
    for name in METHODS:
        config = config_of(name, published)
        assert set(config) <= set(Experiment.model_fields) and config["metadata.method"]
        assert config["metadata.benchmark"] == published
        assert place(config["dataset.path"]) == f"runs/{published}"
        retriever = retriever_by_its_settings(config["retriever"], published)
        assert f"{retriever}__{reader_by_its_settings(config, published)}" == name


def place(path: str | None) -> str:
    """A path as seen from the checkout; empty for none."""
    return str((Path.cwd() / path).relative_to(ROOT)) if path else ""


def retriever_by_its_settings(section: Any, published: str) -> str:
    """``<retriever>[-guided][-ssft|-rgft][-learned]``; a control names its part for guided."""
    part = section["type"] if section["type"] in ("guided", "pooled", "scored") else ""
    part = "paper" if section.get("merge") == "rank" else part
    trained = place(innermost(section).get("query_encoder")).removeprefix(f"runs/{published}-")
    training = "rgft" if (part, trained) == ("paper", "paper") else trained
    kind = "milvus" if "index" in innermost(section) else innermost(section)["type"]
    name = "-".join(filter(None, (kind, part, training)))
    if weights := section.get("weights"):
        assert place(weights) == f"configs/merging/{published}/{name}.json"
        assert MergeWeights.load(weights).about["queries"]
    return f"{name}-learned" if weights else name


def reader_by_its_settings(config: Config, published: str) -> str:
    section = config["generator"]
    reader = READERS.get(section["type"], section["type"])
    adapter = section.get("model.adapter" if reader == "hybrid" else "adapter")
    training = place(adapter).removeprefix(f"runs/{published}-reader-")
    if reader == "hybrid":
        assert training == "rgft"
    elif reader == "llama":
        shown = config.get("reader_rules") != "none" and config.get("selector") is not None
        assert shown or training in ("", "ssft")
        return "-".join(filter(None, (reader, training or ("guided" if shown else ""))))
    return reader


@pytest.mark.parametrize("published", BENCHMARKS)
def test_a_bare_command_does_the_same(published: str) -> None:
    for retriever in ("bm25", "bm25-guided", "lucene", "lucene-guided", "symbolic"):
        config = config_of(f"{retriever}__symbolic", published)
        kind, _, guided = retriever.partition("-")
        rules = "guided" if guided or kind == "symbolic" else "none"
        arguments = {"retriever": kind, "rules": rules, "query_set": "balanced"}
        wanted = preset(config["dataset.path"], **arguments)
        assert config.without("metadata", "expected") == wanted.without("top_k", "metadata")


def test_no_two_methods_are_alike_and_readers_are_never_tuned_apart() -> None:
    """Tables tell runs apart by these; one reader and one evidence for each kind of graph."""
    configs = [config_of(name, "ruleqa-i") for name in METHODS]
    assert len({config["metadata.method"] for config in configs}) == len(METHODS)
    computed = {config.without("metadata", "expected").fingerprint for config in configs}
    assert len(computed) == len(METHODS)
    symbolic = [name for name in METHODS if name.endswith("__symbolic")]
    for group in (("ruleqa-f", "ruleqa-n"), ("ruleqa-i", "ruleqa-y", "ruleqa-w")):
        assert len({config_of(name, one)["generator"] for one in group for name in symbolic}) == 1


@pytest.mark.parametrize("published", BENCHMARKS)
def test_an_expectation_is_a_number_with_tolerance_and_source(published: str) -> None:
    stated = parse_file(CONFIGS / "expected" / f"{published}.yaml")
    assert set(stated) <= set(METHODS)
    for key, entry in ((key, one) for entries in stated.values() for key, one in entries.items()):
        assert metric(key), "a metric that is known"
        assert entry.keys() == {"value", "tolerance", "source"} and entry["source"]
        assert 0 <= entry["value"] <= 1 and 0 < entry["tolerance"] < 0.1


def test_what_the_page_of_the_configuration_shows_is_so(tiny: Path, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```(\w+)\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    files = [text for kind, text in blocks if kind == "yaml"]
    for name, text in zip(("mine.yaml", "other.yaml"), files, strict=True):
        (tmp_path / name).write_text(text)
        config = experiment(tmp_path / name, dataset=tiny)
        assert make_pipeline(config, open_dataset(config)).top_k == 10
    (errors,) = (text for kind, text in blocks if kind == "text")
    for key, line in zip(("k1=x", "kk1=3"), errors.splitlines(), strict=True):
        with pytest.raises(ConfigError) as caught:
            config = experiment("bm25-guided__symbolic", [key], dataset=tiny)
            make_pipeline(config, open_dataset(config))
        assert line == f"error: {caught.value}"
    (command,) = (words for words in page.split("`") if words.startswith("retriever.pool="))
    assert method("bm25-guided__symbolic", "", [command])["retriever.pool"] == 100
