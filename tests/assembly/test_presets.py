"""The settings behind bare commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from rulerag.assembly.build import make_pipeline
from rulerag.assembly.demo import mine_world, world_dataset
from rulerag.assembly.presets import RULES, experiment, method, preset
from rulerag.composition.registry import innermost, names
from rulerag.errors import ConfigError
from rulerag.retrieval.guided.retriever import RuleGuidedRetriever
from rulerag.synthetic.world import World


@pytest.mark.parametrize("kind", ["temporal", "static"])
def test_presets_build_and_answer_on_graphs_of_both_kinds(kind: str) -> None:
    world = World.generate(600, kind=kind, max_body_atoms=1)
    dataset = world_dataset(world, mine_world(world)[0])
    queries = dataset.query_set("supported")
    right = {}
    for retriever, rules in (("bm25", "none"), ("bm25", "guided"), ("symbolic", "guided")):
        config = preset("x", retriever=retriever, rules=rules, top_k=3)
        pipeline = make_pipeline(config, dataset)
        answers = pipeline.answer(queries)
        assert all(len(answer.documents) <= 3 for answer in answers)
        assert all(bool(answer.rules) == (rules == "guided") for answer in answers)
        assert isinstance(pipeline.retriever, RuleGuidedRetriever) == (
            (retriever, rules) == ("bm25", "guided")
        )
        right[retriever, rules] = sum(answer.text in answer.query.answers for answer in answers)
    assert right["bm25", "guided"] > right["bm25", "none"]


def test_a_preset_says_what_it_was_asked(tmp_path: Path) -> None:
    config = preset(tmp_path, retriever="bm25", rules="none", query_set="balanced", top_k=7)
    assert config["dataset"] == {"path": str(tmp_path), "query_set": "balanced"}
    assert (config["retriever.type"], config["top_k"]) == ("bm25", 7)
    assert "selector" not in config
    assert preset(tmp_path) == preset(tmp_path, retriever="bm25", rules="guided")


def test_two_presets_share_nothing_that_can_change() -> None:
    first = preset("x").to_dict()
    first["retriever"]["merge"] = "rank"
    assert preset("x")["retriever.merge"] != "rank"


WRAPPERS = ("fused", "guided", "pooled", "scored", "time_aware")


@pytest.mark.parametrize("retriever", sorted(set(names("retriever")) - {*WRAPPERS}))
@pytest.mark.parametrize("rules", RULES)
def test_every_combination_is_a_preset_or_refused(retriever: str, rules: str) -> None:
    if (retriever, rules) == ("symbolic", "none"):
        with pytest.raises(ConfigError, match=r"key 'rules': .* use --rules guided"):
            preset("x", retriever=retriever, rules=rules)
    else:
        section = preset("x", retriever=retriever, rules=rules)["retriever"]
        assert innermost(section)["type"] == retriever
        assert (section["type"] == "guided") == (rules == "guided" and retriever != "symbolic")


def test_a_retriever_of_the_tables_as_it_stands_there() -> None:
    config = preset("x", retriever="bm25-scored", generator="candidate-scorer")
    assert (config["retriever.type"], config["generator.type"]) == ("scored", "candidate-scorer")
    assert "selector" not in config
    with pytest.raises(ConfigError, match="key 'rules': bm25-scored decides this itself"):
        preset("x", retriever="bm25-scored", rules="none")
    encoded = preset("x", retriever="dense-pooled", encoder="mine")
    assert innermost(encoded["retriever"])["encoder"] == "mine"


@pytest.mark.parametrize("retriever", WRAPPERS)
def test_a_wrapper_alone_is_refused(retriever: str) -> None:
    with pytest.raises(ConfigError, match=r"needs another retriever inside — .* bm25-scored"):
        preset("x", retriever=retriever)


def test_unknown_names() -> None:
    with pytest.raises(ConfigError, match=r"key 'retriever': .* did you mean 'lucene'"):
        preset("x", retriever="lucine")
    with pytest.raises(ConfigError, match="key 'rules': unknown choice 'some' — none or guided"):
        preset("x", rules="some")


def test_a_benchmark_on_an_undated_graph_has_settings_of_its_own(tmp_path: Path) -> None:
    manifest = tmp_path / "manifest.json"
    manifest.write_text('{"name": "ruleqa-f", "calendar": {}}')
    symbolic = preset(tmp_path, retriever="symbolic")
    guided = preset(tmp_path)
    assert symbolic["retriever.skip_stated"] and guided["retriever.skip_stated"]
    weighed = symbolic["generator.evidence"]
    assert symbolic["retriever.evidence"] == weighed
    # So has any other of predictions: nothing hangs on a name, and every command asks alike.
    manifest.write_text('{"name": "own", "calendar": {}, "prediction": true}')
    own = preset(tmp_path, retriever="symbolic"), preset(tmp_path)
    assert [one["retriever"] for one in own] == [one["retriever"] for one in (symbolic, guided)]
    assert own[0]["generator.evidence"] == weighed
    # A corpus of one's own may state what is asked.
    for said in ('"calendar": {}, "prediction": false', '"calendar": {"unit": "day"}'):
        manifest.write_text(f'{{"name": "own", {said}}}')
        other = preset(tmp_path, retriever="symbolic")
        assert "skip_stated" not in other["retriever"] and other["generator.evidence"] != weighed
    assert "skip_stated" not in preset("x", retriever="symbolic")["retriever"]


def test_an_encoder_and_a_fusion() -> None:
    config = preset("x", retriever="dense", encoder="some/encoder", fusion="weighted")
    fused = config["retriever"]
    assert (fused["type"], fused["method"]) == ("fused", "weighted")
    guided, plain = fused["retrievers"]
    assert guided["retriever"] == plain == {"type": "dense", "encoder": "some/encoder"}
    assert "encoder" not in preset("x", retriever="dense")["retriever"]
    with pytest.raises(ConfigError, match="key 'encoder': bm25 has no encoder"):
        preset("x", encoder="some/encoder")
    with pytest.raises(ConfigError, match="key 'fusion': unknown method 'rff' — did you mean"):
        preset("x", fusion="rff")
    for retriever, rules in (("dense", "none"), ("symbolic", "guided")):
        with pytest.raises(ConfigError, match=r"key 'fusion': .* there are not two"):
            preset("x", retriever=retriever, rules=rules, fusion="rrf")


def test_a_generator_by_name_by_folder_or_by_file(tmp_path: Path) -> None:
    assert preset("x", generator="symbolic") == preset("x")
    assert preset("x", generator="candidate")["generator"] == {"type": "candidate"}
    for model in ("rulerag-nano-llama", "org/model", "gpt2", str(tmp_path)):
        told = preset("x", generator=model)["generator"]
        assert told == {"type": "huggingface", "model": model}
    file = tmp_path / "reader.yaml"
    file.write_text("generator: {type: openai, model: m, base_url: 'http://localhost:1/v1'}\n")
    assert preset("x", generator=file)["generator.type"] == "openai"
    file.write_text("retriever: {type: bm25}\n")
    with pytest.raises(ConfigError, match=r"reader\.yaml, key 'generator': is missing"):
        preset("x", generator=file)


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ("symbolc", "did you mean 'symbolic'"),
        ("rulerag-nano-lama", "did you mean 'rulerag-nano-llama'"),
        ("openai", "a YAML file with generator: {type: openai"),
    ],
)
def test_a_generator_that_cannot_be_meant(told: str, said: str) -> None:
    with pytest.raises(ConfigError, match=f"key 'generator': .*{said}"):
        preset("x", generator=told)


# --- methods by name -----------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A dataset folder as far as its manifest."""
    place = tmp_path / "mine"
    place.mkdir()
    (place / "manifest.json").write_text('{"name": "mine", "calendar": {"unit": "day"}}')
    return place


def test_a_method_on_a_dataset_of_ones_own(folder: Path) -> None:
    config = experiment("bm25-guided__symbolic", ["query_set=full", "k1=1.2"], dataset=folder)
    assert config["dataset"] == {"path": str(folder), "query_set": "full"}
    assert config["retriever.retriever.retriever.k1"] == 1.2
    assert config["metadata.benchmark"] == "mine"
    assert config["metadata.method"] == "BM25, rule-guided"
    (folder / "manifest.json").write_text('{"name": "mine", "calendar": {}}')
    undated = experiment("bm25-guided__symbolic", dataset=folder)
    assert undated["retriever.skip_stated"] and undated["generator.evidence.prior"] == 0


def test_a_published_dataset_has_settings_and_numbers(folder: Path) -> None:
    (folder / "manifest.json").write_text('{"name": "ruleqa-f", "calendar": {}}')
    config = experiment("dense-guided__symbolic", dataset=folder)
    assert (config["retriever.beam_width"], config["dataset.query_set"]) == (1, "balanced")
    assert config["dataset.path"] == str(folder)
    assert config["expected.answer_recall@10.value"] == 0.3447
    assert "exact_match" not in experiment("dense-guided__llama", dataset=folder)["expected"]


def test_parts_go_by_name(folder: Path, tmp_path: Path) -> None:
    plain = experiment("bm25__symbolic", dataset=folder)
    swapped = experiment("dense__llama", ["retriever=bm25", "generator=symbolic"], dataset=folder)
    assert swapped == plain
    model = experiment("bm25__symbolic", ["generator=some/model"], dataset=folder)
    assert model["generator"] == {"type": "huggingface", "model": "some/model"}
    file = tmp_path / "mine.yaml"
    file.write_text("retriever: {type: bm25}\ngenerator: {type: symbolic}\ndataset: {path: mine}\n")
    changed = experiment(file, ["generator=candidate", "retriever=lucene", "selector=head"])
    assert changed["generator"] == {"type": "candidate"}
    assert changed["retriever"] == {"type": "lucene", "dates": "split"}
    assert changed["selector"] == {"type": "head"}
    assert Path(changed["dataset.path"]) == folder
    assert experiment(file, ["dates=drop"])["retriever.dates"] == "drop"


@pytest.mark.parametrize(
    ("name", "overrides", "message"),
    [
        ("bm26__symbolic", [], "key 'retriever': no retriever is called 'bm26' — did you mean"),
        ("bm25__symbolik", [], "key 'generator': no generator is called 'symbolik' — did you"),
        ("bm25", [], "'bm25' is no method and no experiment file — name <retriever>__<gen"),
        (
            "bm25__symbolic",
            ["stopword=en"],
            "key 'stopword': no such key to override — did you mean",
        ),
        ("bm25__symbolic", ["k1=1", "retriever.k1=2"], "'retriever.k1': is set twice"),
        ("bm25__symbolic", ["generator=a/b", "generator=c/d"], "'generator': is set twice"),
        ("bm25-guided__symbolic", ["pool=3"], "fits several keys — retriever.pool or retri"),
        ("nowhere/bm25__symbolic.yaml", [], "bm25__symbolic.yaml: no such file"),
    ],
)
def test_wrong_methods(name: str, overrides: list[str], message: str, folder: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        experiment(name, overrides, dataset=folder)
    assert message in str(caught.value)


def test_a_method_needs_a_dataset() -> None:
    with pytest.raises(ConfigError, match="key 'dataset': a method needs a dataset — rulerag"):
        experiment("bm25__symbolic")
    assert method("bm25__symbolic", "ruleqa-i")["metadata.benchmark"] == "ruleqa-i"


def test_a_file_that_states_a_name_alone(tmp_path: Path) -> None:
    file = tmp_path / "old.yaml"
    file.write_text("retriever: bm25-guided\ngenerator: {type: symbolic}\n")
    with pytest.raises(
        ConfigError, match=r"old\.yaml, key 'retriever': names 'bm25-guided'.*"
    ) as it:
        experiment(file)
    assert "add retriever=bm25-guided to the command" in str(it.value)
    with pytest.raises(ConfigError, match="key 'dataset': a method needs"):
        experiment("bm25__symbolic", ["retriever=bm25-guided"])
