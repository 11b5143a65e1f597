"""Every method on every dataset: it builds, its name and its expectations are well formed."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from rulerag.assembly.build import TOP_KEYS, make_pipeline, open_dataset
from rulerag.assembly.demo import mine_world, world_dataset
from rulerag.assembly.presets import CONFIGS, method, preset
from rulerag.composition.config import Config, load_config, parse_file
from rulerag.composition.registry import innermost
from rulerag.evaluation.metrics import metric
from rulerag.retrieval.dense.encoders.load import NANO_ENCODER
from rulerag.retrieval.guided.merging.learned import MergeWeights
from rulerag.ruleqa import BENCHMARKS
from rulerag.synthetic.world import World

ROOT = Path(__file__).resolve().parent.parent
FILES = sorted(CONFIGS.rglob("*.yaml"))
METHODS = list(parse_file(CONFIGS / "methods.yaml"))
# <retriever>[-guided][-ssft|-rgft][-learned]; a control names its own part in place of guided, and
# learned stands for learned merging.
NAME = re.compile(
    r"(?P<retriever>[a-z0-9]+)(?:-(?P<part>guided|pooled|paper|scored))?(?:-(?P<training>ssft|rgft))?"
    r"(?P<learned>-learned)?"
)
# What the second half of a name stands for.
READERS = {
    "symbolic": "symbolic",
    "candidate": "candidate",
    "candidate-scorer": "candidate-scorer",
    "llama": "huggingface",
    "hybrid": "hybrid",
    "ve": "verify-and-edit",
    "cok": "chain-of-knowledge",
}
# Benchmarks of undated graphs, whose evidence counts in another way.
STATIC = ("ruleqa-f", "ruleqa-n")


@cache
def config_of(name: str, published: str) -> Config:
    return method(name, published)


def halves(folder: str) -> list[str]:
    return sorted(file.stem for file in (CONFIGS / folder).glob("*.yaml"))


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset folder that every method can be pointed at."""
    world = World.generate(600, max_body_atoms=1)
    folder = tmp_path_factory.mktemp("configs") / "tiny"
    world_dataset(world, mine_world(world)[0]).save(folder)
    return folder


def test_fragments_are_few_and_every_one_is_used() -> None:
    assert len(FILES) <= 61
    used = [name.split("__") for name in METHODS]
    assert {one for one, _ in used} == set(halves("retrievers"))
    assert {other for _, other in used} == set(halves("generators"))
    assert set(BENCHMARKS) == set(halves("expected")) == {*halves("datasets")} - {"undated"}


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_it_loads_and_holds_no_place_of_one_machine(file: Path) -> None:
    assert parse_file(file)
    if file.parent.name == "training":
        assert load_config(file)
    text = file.read_text(encoding="utf-8")
    assert not re.search(r"(^|[\s:'\"])/(home|work|tmp|Users)/", text)


UNDATED = ("bm25-guided", "dense-guided", "lucene-guided", "symbolic")
"""What undated graphs have other settings of."""


@pytest.mark.parametrize(
    ("retriever", "published"),
    # bm25-scored learns first: it is built with the generator that belongs to it, below.
    [(name, "ruleqa-i") for name in halves("retrievers") if name != "bm25-scored"]
    + [(name, "ruleqa-f") for name in UNDATED],
)
def test_every_retriever_builds_and_answers(
    retriever: str, published: str, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers_one(f"{retriever}__symbolic", published, tiny, monkeypatch)


@pytest.mark.parametrize("generator", halves("generators"))
def test_every_generator_builds_and_answers(
    generator: str, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What scores the candidates of a list is the scorer of its retriever.
    retriever = "bm25-scored" if generator == "candidate-scorer" else "bm25"
    answers_one(f"{retriever}__{generator}", "ruleqa-i", tiny, monkeypatch)


def answers_one(name: str, published: str, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RULERAG_CACHE", str(tiny.parent / "cache"))
    overrides = [f"dataset.path={tiny}", "dataset.query_set=full"]
    stated = config_of(name, published)
    if "query_encoder" in innermost(stated["retriever"]):
        # The checkpoint is a training run's; the encoder that it starts from stands for it.
        overrides.append(f"query_encoder={NANO_ENCODER}")
    reader = stated.section("generator")
    if "adapter" in (reader.section("model") if reader["type"] == "hybrid" else reader):
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
@pytest.mark.parametrize("name", METHODS)
def test_a_method_is_called_what_it_holds(name: str, published: str) -> None:
    config = config_of(name, published)
    assert set(config) <= set(TOP_KEYS)
    finding, _, generator = name.partition("__")
    parts = NAME.fullmatch(finding)
    assert parts, "name it <retriever>[-guided][-ssft|-rgft][-learned]"
    section = config["retriever"]
    assert innermost(section)["type"] == parts["retriever"]
    reader, _, kind = (generator, "", "") if generator in READERS else generator.partition("-")
    assert config["generator.type"] == READERS[reader]
    inside = config.section("generator")
    adapter = (
        inside.section("model").get("adapter") if reader == "hybrid" else inside.get("adapter")
    )
    if kind in ("rgft", "ssft") or reader == "hybrid":
        assert place(adapter) == f"runs/{published}-reader-{kind or 'rgft'}"
    else:
        assert adapter is None
    if reader == "llama":
        shows = config.read("reader_rules", str, "selected") != "none"
        assert (shows and config.get("selector") is not None) == (kind in ("guided", "rgft"))
    wrapper = "guided" if parts["part"] == "paper" else parts["part"]  # its searches are guided
    assert (
        section["type"] if section["type"] in ("guided", "pooled", "scored") else None
    ) == wrapper
    if wrapper:
        weights = section.get("weights")
        plain = finding.removesuffix("-learned")
        wanted = f"configs/merging/{published}/{plain}.json" if parts["learned"] else None
        assert place(weights) == wanted
        assert not weights or MergeWeights.load(weights).about["queries"]
    assert config["metadata.benchmark"] == published
    assert place(config["dataset.path"]) == f"runs/{published}"
    assert config["metadata.method"]
    training = "paper" if parts["part"] == "paper" else parts["training"]
    trained = f"runs/{published}-{training}" if parts["training"] else None
    assert place(innermost(section).get("query_encoder")) == trained


def place(path: str | None) -> str | None:
    """A path as seen from the checkout."""
    return path and str((Path.cwd() / path).relative_to(ROOT))


# Dense retrieval differs from one published to another.
@pytest.mark.parametrize("published", BENCHMARKS)
@pytest.mark.parametrize(
    "retriever", ["bm25", "bm25-guided", "lucene", "lucene-guided", "symbolic"]
)
def test_a_bare_command_does_the_same(retriever: str, published: str) -> None:
    config = config_of(f"{retriever}__symbolic", published)
    kind, _, guided = retriever.partition("-")
    wanted = preset(
        config["dataset.path"],
        retriever=kind,
        rules="guided" if guided or kind == "symbolic" else "none",
        query_set="balanced",
    )
    assert config.without("metadata", "expected") == wanted.without("top_k", "metadata")


def test_no_two_methods_are_alike() -> None:
    """Tables and manifests tell runs apart by these."""
    configs = [config_of(name, "ruleqa-i") for name in METHODS]
    titles = [config["metadata.method"] for config in configs]
    assert len(set(titles)) == len(titles)
    computed = [config.without("metadata", "expected").fingerprint for config in configs]
    assert len(set(computed)) == len(computed)


@pytest.mark.parametrize("published", BENCHMARKS)
def test_an_expectation_is_a_number_with_tolerance_and_source(published: str) -> None:
    stated = load_config(CONFIGS / "expected" / f"{published}.yaml")
    assert set(stated) <= set(METHODS)
    for name in stated:
        expected = stated.section(name)
        for key in expected:
            entry = Config({"entry": expected[key]}).section("entry")
            entry.check(("value", "tolerance", "source"))
            assert metric(key), "a metric that is known"
            value, tolerance = entry.read("value", float), entry.read("tolerance", float)
            assert 0 <= value <= 1 and 0 < tolerance < 0.1
            assert entry.read("source", str)


def test_readers_are_never_tuned_apart() -> None:
    """One reader and one evidence, whatever the method; by kind of graph."""
    readers = {
        (published in STATIC, config_of(name, published)["generator"])
        for published in BENCHMARKS
        for name in METHODS
        if name.endswith("__symbolic")
    }
    assert len(readers) == 2
