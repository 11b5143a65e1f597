"""Methods by name, experiment files, and the settings behind bare commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rulerag.assembly import experiment, following_all, method, preset
from rulerag.composition import innermost, names
from rulerag.errors import ConfigError

WRAPPERS = ("fused", "guided", "pooled", "scored", "time_aware")
MANIFEST = '{"name": "mine", "calendar": {"unit": "day"}}'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A dataset folder as far as its manifest."""
    place = tmp_path / "mine"
    place.mkdir()
    (place / "manifest.json").write_text(MANIFEST)
    return place


# --- bare commands -------------------------------------------------------------------------------


def test_a_preset_is_what_its_arguments_say(tmp_path: Path) -> None:
    config = preset(tmp_path, retriever="bm25", rules="none", query_set="balanced", top_k=7)
    assert config["dataset"] == {"path": str(tmp_path), "query_set": "balanced"}
    assert (config["retriever.type"], config["top_k"]) == ("bm25", 7)
    assert "selector" not in config
    assert preset(tmp_path) == preset(tmp_path, retriever="bm25", rules="guided")
    preset("x").to_dict()["retriever"]["merge"] = "rank"
    assert preset("x")["retriever.merge"] != "rank", "two presets share nothing that can change"


@pytest.mark.parametrize("retriever", sorted(set(names("retriever")) - {*WRAPPERS}))
def test_every_retriever_goes_with_and_without_rules(retriever: str) -> None:
    for rules in ("none", "guided") if retriever != "symbolic" else ("guided",):
        section = preset("x", retriever=retriever, rules=rules)["retriever"]
        assert innermost(section)["type"] == retriever
        assert (section["type"] == "guided") == (rules == "guided" and retriever != "symbolic")


def test_an_encoder_a_fusion_and_a_retriever_of_the_tables() -> None:
    fused = preset("x", retriever="dense", encoder="some/encoder", fusion="weighted")["retriever"]
    assert (fused["type"], fused["method"]) == ("fused", "weighted")
    guided, plain = fused["retrievers"]
    assert guided["retriever"] == plain == {"type": "dense", "encoder": "some/encoder"}
    scored = preset("x", retriever="bm25-scored", generator="candidate-scorer")
    assert (scored["retriever.type"], scored["generator.type"]) == ("scored", "candidate-scorer")
    assert "selector" not in scored
    pooled = preset("x", retriever="dense-pooled", encoder="mine")
    assert innermost(pooled["retriever"])["encoder"] == "mine"
    learned = preset("x", retriever="bm25-guided-learned")
    assert learned["retriever.weights"].endswith("configs/merging/x/bm25-guided.json")


def test_a_generator_by_name_by_model_or_by_file(tmp_path: Path) -> None:
    assert preset("x", generator="symbolic") == preset("x")
    assert preset("x", generator="candidate")["generator"] == {"type": "candidate"}
    for model in ("rulerag-nano-llama", "org/model", "gpt2", str(tmp_path)):
        made = preset("x", generator=model)["generator"]
        assert made == {"type": "huggingface", "model": model}
    file = tmp_path / "reader.yaml"
    file.write_text("generator: {type: openai, model: m, base_url: 'http://localhost:1/v1'}\n")
    assert preset("x", generator=file)["generator.type"] == "openai"
    file.write_text("retriever: {type: bm25}\n")
    with pytest.raises(ConfigError, match=r"reader\.yaml, key 'generator': is missing"):
        preset("x", generator=file)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"retriever": "lucine"}, "key 'retriever': .* did you mean 'lucene'"),
        *(
            ({"retriever": one}, "needs another retriever inside .* bm25-scored")
            for one in WRAPPERS
        ),
        ({"rules": "some"}, "key 'rules': unknown choice 'some' — none or guided"),
        ({"retriever": "symbolic", "rules": "none"}, "key 'rules': .* use --rules guided"),
        ({"retriever": "bm25-scored", "rules": "none"}, "'rules': bm25-scored decides this itself"),
        ({"encoder": "e"}, "key 'encoder': bm25 has no encoder — add --retriever dense"),
        ({"fusion": "rff"}, "key 'fusion': unknown method 'rff' — did you mean"),
        ({"fusion": "rrf", "rules": "none"}, "key 'fusion': .* there are not two"),
        ({"fusion": "rrf", "retriever": "symbolic"}, "key 'fusion': .* there are not two"),
        ({"generator": "symbolc"}, "key 'generator': .*did you mean 'symbolic'"),
        ({"generator": "rulerag-nano-lama"}, "'generator': .*did you mean 'rulerag-nano-llama'"),
        ({"generator": "openai"}, "'generator': .*a YAML file with generator: {type: openai"),
    ],
)
def test_presets_that_cannot_be(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        preset("x", **arguments)


def test_an_undated_graph_has_settings_of_its_own(folder: Path) -> None:
    def weighed(manifest: str, retriever: str) -> tuple[Any, Any]:
        (folder / "manifest.json").write_text(manifest)
        config = preset(folder, retriever=retriever)
        return config.get("retriever.skip_stated"), config["generator.evidence.prior"]

    for retriever in ("symbolic", "bm25"):
        assert weighed('{"name": "ruleqa-f", "calendar": {}}', retriever) == (True, 0)
        # So has any other of predictions: nothing hangs on a name, and every command asks alike.
        predicts = '{"name": "own", "calendar": {}, "prediction": true}'
        assert weighed(predicts, retriever) == (True, 0)
        # A corpus of one's own may state what is asked.
        assert weighed('{"calendar": {}, "prediction": false}', retriever) == (None, 20)
        assert weighed(MANIFEST, retriever) == (None, 20)


def test_rules_of_every_relation_that_a_question_may_ask_for() -> None:
    guided = following_all(preset("x"))
    assert guided["selector"]["type"] == "linked"
    assert guided["selector"]["selector"] == preset("x")["selector"]
    plain = preset("x", rules="none")
    assert following_all(guided) == guided and following_all(plain) == plain


# --- methods by name -----------------------------------------------------------------------------


def test_a_method_on_a_dataset_of_ones_own(folder: Path) -> None:
    config = experiment("bm25-guided__symbolic", ["query_set=full", "k1=1.2"], dataset=folder)
    assert config["dataset"] == {"path": str(folder), "query_set": "full"}
    assert config["retriever.retriever.retriever.k1"] == 1.2
    assert config["metadata.benchmark"] == "mine"
    assert config["metadata.method"] == "BM25, rule-guided"
    (folder / "manifest.json").write_text('{"name": "mine", "calendar": {}}')
    undated = experiment("bm25-guided__symbolic", dataset=folder)
    assert undated["retriever.skip_stated"] and undated["generator.evidence.prior"] == 0
    assert method("bm25__symbolic", "ruleqa-i")["metadata.benchmark"] == "ruleqa-i"


def test_what_a_published_benchmark_says_holds_wherever_its_folder_stands(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "manifest.json").write_text('{"name": "ruleqa-y", "calendar": {"unit": "day"}}')
    config = experiment("dense-guided-rgft-learned__hybrid", dataset=folder)
    assert config["generator.weight"] == 0.3, "the method's"
    assert innermost(config["retriever"])["latest"], "that of the retriever it extends"
    assert config["dataset"] == {"path": str(folder), "query_set": "balanced"}
    assert config["expected"]["exact_match"]["value"] > 0
    monkeypatch.chdir(folder)
    config = experiment("dense-guided-rgft-learned__hybrid", dataset=folder)
    assert Path(config["retriever.weights"]).is_file(), "from whatever folder it is read"
    assert Path(config["retriever.weights"]).name == "dense-guided-rgft.json"


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
        ("bm25__symbolic", ["generator=a/b", "generator=c/d"], "'generator': is set twice"),
        ("bm25__symbolic", ["selector=heads"], "no selector is called 'heads' — did you mean"),
        ("bm25-guided__symbolic", ["pool=3"], "fits several keys — retriever.pool or retri"),
        (None, [], "key 'dataset': a method needs a dataset — rulerag evaluate bm25__symbolic"),
    ],
)
def test_wrong_methods(name: str | None, overrides: list[str], message: str, folder: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        experiment(name or "bm25__symbolic", overrides, dataset=folder if name else None)
    assert message in str(caught.value)


def test_a_file_that_states_a_bare_name(tmp_path: Path) -> None:
    file = tmp_path / "old.yaml"
    file.write_text("retriever: bm25-guided\ngenerator: {type: symbolic}\n")
    with pytest.raises(
        ConfigError, match=r"old\.yaml, key 'retriever': names 'bm25-guided'.* add "
    ):
        experiment(file)
