"""The settings behind bare commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from rulerag.build import RETRIEVERS, make_pipeline
from rulerag.demo import mine_world, world_dataset
from rulerag.errors import ConfigError
from rulerag.kg.worlds import World
from rulerag.presets import RULES, preset
from rulerag.retrieval.rule_guided import RuleGuidedRetriever


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
    assert not {"selector", "guided", "time_aware"} & set(config)
    assert preset(tmp_path) == preset(tmp_path, retriever="bm25", rules="guided")


def test_two_presets_share_nothing_that_can_change() -> None:
    first = preset("x").to_dict()
    first["guided"]["merge"] = "rank"
    assert preset("x")["guided.merge"] != "rank"


@pytest.mark.parametrize("retriever", sorted(RETRIEVERS))
@pytest.mark.parametrize("rules", RULES)
def test_every_combination_is_a_preset_or_refused(retriever: str, rules: str) -> None:
    if (retriever, rules) == ("symbolic", "none"):
        with pytest.raises(ConfigError, match=r"key 'rules': .* use --rules guided"):
            preset("x", retriever=retriever, rules=rules)
    else:
        assert preset("x", retriever=retriever, rules=rules)["retriever.type"] == retriever


def test_unknown_names() -> None:
    with pytest.raises(ConfigError, match=r"key 'retriever': .* did you mean 'lucene'"):
        preset("x", retriever="lucine")
    with pytest.raises(ConfigError, match="key 'rules': unknown choice 'some' — none or guided"):
        preset("x", rules="some")


def test_questions_about_an_undated_graph_have_settings_of_their_own() -> None:
    symbolic = preset("x", retriever="symbolic", static=True)
    guided = preset("x", static=True)
    assert symbolic["retriever.skip_stated"] and guided["guided.skip_stated"]
    assert guided["evidence"] == symbolic["evidence"] != preset("x")["evidence"]
    assert "skip_stated" not in preset("x", retriever="symbolic")["retriever"]


def test_an_encoder_and_a_fusion() -> None:
    config = preset("x", retriever="dense", encoder="some/encoder", fusion="weighted")
    assert config["retriever"] == {"type": "dense", "encoder": "some/encoder"}
    assert config["fusion"] == {"method": "weighted"}
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
