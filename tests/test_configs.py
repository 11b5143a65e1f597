"""Every committed experiment: it builds, its name and its expectations are well formed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.ruleqa import BENCHMARKS
from rulerag.build import GENERATORS, RETRIEVERS, make_pipeline, open_dataset
from rulerag.config import Config, load_config
from rulerag.demo import mine_world, world_dataset
from rulerag.evaluation.metrics import metric
from rulerag.kg.worlds import World
from rulerag.presets import preset
from rulerag.retrieval.encoders_loading import NANO_ENCODER
from rulerag.retrieval.learned_merging import MergeWeights

CONFIGS = Path(__file__).resolve().parent.parent / "configs"
# The files of training runs are read by other programs, which build no pipeline.
TRAINING = sorted((CONFIGS / "training").rglob("*.yaml"))
# What the experiments of all benchmarks share; each of them extends one of these.
BASES = sorted((CONFIGS / "base").glob("*.yaml"))
FILES = sorted(set(CONFIGS.rglob("*.yaml")) - {*TRAINING, *BASES})
NAMES = [str(file.relative_to(CONFIGS)) for file in FILES]
# <retriever>[-guided][-ssft|-rgft][-learned]__<generator>; a control names its own part in place of
# guided, and learned stands for learned merging.
# An experiment of the dense retriever that stands for a fine-tuned one names that checkpoint.
NAME = re.compile(
    r"(?P<retriever>[a-z0-9]+)(?:-(?P<part>guided|pooled|paper))?(?:-(?P<training>ssft|rgft))?"
    r"(?P<learned>-learned)?"
    r"__(?P<generator>[a-z0-9-]+)"
)
# What the second half of a name stands for.
READERS = {
    "symbolic": "symbolic",
    "llama": "huggingface",
    "hybrid": "hybrid",
    "ve": "verify-and-edit",
    "cok": "chain-of-knowledge",
}
# Benchmarks of undated graphs, whose evidence counts in another way.
STATIC = ("ruleqa-f", "ruleqa-n")
# Keys that describe an experiment or stand in every one with the same meaning.
ABOUT = ("metadata", "expected", "seed")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset folder that every experiment can be pointed at."""
    world = World.generate(600, max_body_atoms=1)
    folder = tmp_path_factory.mktemp("configs") / "tiny"
    world_dataset(world, mine_world(world)[0]).save(folder)
    return folder


def alike() -> list[str]:
    """One experiment of each kind: those of other benchmarks differ in name and data alone."""
    kinds = {}
    for name in NAMES:
        config = load_config(CONFIGS / name).without(*ABOUT, "dataset").to_dict()
        config["retriever"].pop("query_encoder", None)
        for place in (config["generator"], config["generator"].get("model")):
            if isinstance(place, dict):
                place.pop("adapter", None)
        kinds.setdefault((Path(name).stem, Config(config).fingerprint), name)
    return list(kinds.values())


@pytest.mark.parametrize("folder", BENCHMARKS)
def test_there_are_experiments(folder: str) -> None:
    names = {file.stem for file in FILES if file.parent.name == folder}
    assert {file.stem for file in BASES} <= names
    assert {"bm25-guided__symbolic", "dense-guided-rgft__symbolic", "symbolic__symbolic"} <= names


@pytest.mark.parametrize("file", [*FILES, *BASES, *TRAINING], ids=lambda file: file.stem)
def test_it_loads_and_holds_no_place_of_one_machine(file: Path) -> None:
    assert load_config(file)
    assert not re.search(r"(?:^|[\s:'\"])(?:/|~|[A-Z]:\\)", file.read_text(), re.MULTILINE)


@pytest.mark.parametrize("name", alike())
def test_it_builds_on_other_data_without_a_download(
    name: str, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("RULERAG_CACHE", str(tiny.parent / "cache"))
    overrides = [f"dataset.path={tiny}", "dataset.query_set=full"]
    if "retriever.query_encoder" in load_config(CONFIGS / name):
        # The checkpoint is a training run's; the encoder that it starts from stands for it.
        overrides.append(f"retriever.query_encoder={NANO_ENCODER}")
    for key in ("generator.adapter", "generator.model.adapter"):
        if key in load_config(CONFIGS / name):
            overrides.append(f"{key}=null")  # a training run's too
    config = load_config(CONFIGS / name, overrides)
    if config["retriever.type"] == "lucene":
        pytest.importorskip("pyserini", reason="Lucene is not installed")
    dataset = open_dataset(config)
    pipeline = make_pipeline(config, dataset)
    (answer,) = pipeline.answer(dataset.query_set("full")[:1])
    assert bool(answer.documents) == (config["retriever.type"] != "none")
    if close := getattr(pipeline.retriever, "close", None):
        close()


@pytest.mark.parametrize("name", NAMES)
def test_the_file_is_called_what_it_holds(name: str) -> None:
    parts = NAME.fullmatch(Path(name).stem)
    assert parts, "name it <retriever>[-guided][-ssft|-rgft]__<generator>.yaml"
    config = load_config(CONFIGS / name)
    assert config["retriever.type"] == parts["retriever"] and parts["retriever"] in RETRIEVERS
    reader, _, kind = parts["generator"].partition("-")
    assert config["generator.type"] == READERS.get(reader, parts["generator"])
    assert config["generator.type"] in GENERATORS
    adapter = config["generator"].get("adapter") or config.section("generator").get("model.adapter")
    if kind in ("rgft", "ssft") or reader == "hybrid":
        assert adapter == f"runs/{Path(name).parts[0]}-reader-{kind or 'rgft'}"
    else:
        assert adapter is None
    if reader == "llama":
        shows = config.read("reader_rules", str, "selected") != "none"
        assert (shows and config.get("selector") is not None) == (kind in ("guided", "rgft"))
    section = "guided" if parts["part"] == "paper" else parts["part"]  # its searches are guided
    for part in ("guided", "pooled"):
        assert (config.get(part) is not None) == (section == part)
    if section:
        weights = config.section(section).get("weights")
        plain = Path(name).stem.partition("-learned__")[0]
        wanted = f"configs/{Path(name).parts[0]}/merging-{plain}.json" if parts["learned"] else None
        assert weights == wanted
        assert not weights or MergeWeights.load(CONFIGS.parent / weights).about["queries"]
    benchmark = Path(name).parts[0]
    assert benchmark in BENCHMARKS
    assert config["metadata.benchmark"] == benchmark
    assert Path(config["dataset.path"]).name == benchmark
    assert not Path(config["dataset.path"]).is_absolute()
    assert config["metadata.method"]
    method = "paper" if parts["part"] == "paper" else parts["training"]
    trained = f"runs/{benchmark}-{method}" if parts["training"] else None
    assert config.section("retriever").get("query_encoder") == trained


# Dense retrieval is tuned for each benchmark; the bare command has one setting for all.
@pytest.mark.parametrize(
    "name",
    [
        n
        for n in NAMES
        if re.search("__symbolic", n) and not re.search("-pooled|/dense|-learned", n)
    ],
)
def test_a_bare_command_does_the_same(name: str) -> None:
    config = load_config(CONFIGS / name)
    parts = NAME.fullmatch(Path(name).stem)
    assert parts
    guided = bool(parts["part"]) or parts["retriever"] == "symbolic"
    wanted = preset(
        config["dataset.path"],
        retriever=parts["retriever"],
        rules="guided" if guided else "none",
        query_set=config["dataset.query_set"],
        top_k=config["top_k"],
        static=Path(name).parts[0] in STATIC,
    )
    assert config.without(*ABOUT).to_dict() == wanted.to_dict()


def test_no_two_experiments_share_method_and_benchmark() -> None:
    """Tables and manifests tell runs apart by these."""
    configs = [load_config(file) for file in FILES]
    methods = [(c["metadata.benchmark"], c["metadata.method"]) for c in configs]
    assert len(set(methods)) == len(methods)
    computed = [config.without(*ABOUT).fingerprint for config in configs]
    assert len(set(computed)) == len(computed)


@pytest.mark.parametrize("name", NAMES)
def test_an_expectation_is_a_number_with_tolerance_and_source(name: str) -> None:
    expected = load_config(CONFIGS / name).section("expected")
    for key in expected:
        entry = expected.section(key).check(("value", "tolerance", "source"))
        assert metric(key), "a metric that is known"
        value, tolerance = entry.read("value", float), entry.read("tolerance", float)
        assert 0 <= value <= 1 or "documents" in key
        assert 0 < tolerance < 0.1 or "documents" in key
        assert entry.read("source", str)


def test_presets_are_never_tuned_apart_from_the_reader() -> None:
    """One benchmark: one reader and one evidence, whatever the method; by kind of graph."""
    readers = {
        (f.parent.name in STATIC, load_config(f)["generator"], load_config(f).section("evidence"))
        for f in FILES
        if f.stem.endswith("__symbolic")
    }
    assert len(readers) == 2
