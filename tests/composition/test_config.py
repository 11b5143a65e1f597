"""Experiment files: what they mean, and what is said when they are wrong."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from rulerag.composition.config import Config, load_config
from rulerag.errors import ConfigError, DataFormatError

BASE = """
retriever: {type: bm25, k1: 1.2, b: 0.75}
generator: {type: symbolic}
top_k: 10
seed: 0
"""
CHILD = """
extends: base.yaml
metadata: {benchmark: toy, method: plain}
dataset: {path: data, query_set: balanced}
retriever: {b: 0.5}
expected:
  exact_match: {value: 0.5, tolerance: 0.01, source: by hand}
"""

Write = Callable[[str, str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    return write


@pytest.fixture
def child(write: Write) -> Path:
    write("base.yaml", BASE)
    return write("child.yaml", CHILD)


def test_a_file_extends_another_key_by_key(child: Path) -> None:
    config = load_config(child)
    assert config["retriever"] == {"type": "bm25", "k1": 1.2, "b": 0.5}
    assert config["retriever.k1"] == 1.2
    assert config["top_k"] == 10
    assert "extends" not in config


def test_bases_are_found_beside_the_file_that_names_them(write: Write) -> None:
    write("base.yaml", "a: 1\nb: 1\nc: 1")
    write("sub/middle.yaml", "extends: ../base.yaml\nb: 2")
    top = write("top.yaml", "extends: [sub/middle.yaml]\nc: 3")
    assert load_config(top) == {"a": 1, "b": 2, "c": 3}


def test_another_type_replaces_the_whole_section(write: Write, child: Path) -> None:
    other = write("other.yaml", "extends: child.yaml\nretriever: {type: symbolic}")
    assert load_config(other)["retriever"] == {"type": "symbolic"}


def test_a_value_can_refer_to_another(write: Write) -> None:
    assert load_config(write("a.yaml", "seed: 7\nrules: {seed: '${seed}'}"))["rules.seed"] == 7


@pytest.mark.parametrize(
    ("override", "key", "value"),
    [
        ("top_k=5", "top_k", 5),
        ("retriever.b=1e-3", "retriever.b", 0.001),
        ("dataset.query_set=full", "dataset.query_set", "full"),
        ("query_set=full", "dataset.query_set", "full"),
        ("k1=null", "retriever.k1", None),
        ("retriever.words=[1, 2]", "retriever.words", (1, 2)),
        ("dates=drop", "retriever.dates", "drop"),
        ("selector.max_rules=3", "selector.max_rules", 3),
        ("dataset.path=a=b", "dataset.path", "a=b"),
    ],
)
def test_overrides(child: Path, override: str, key: str, value: object) -> None:
    further = ("retriever.words", "retriever.dates", "selector.max_rules")
    assert load_config(child, [override], keys=lambda values: further)[key] == value


def test_a_repeated_override_is_an_error(child: Path) -> None:
    for again in ("top_k=5", "top_k=7"):
        with pytest.raises(ConfigError, match=r"key 'top_k': is set twice by overrides"):
            load_config(child, ["top_k=5", again])
    with pytest.raises(ConfigError, match=r"key 'dataset.query_set': is set twice"):
        load_config(child, ["query_set=full", "dataset.query_set=full"])


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("top_k", "the override 'top_k' is not key=value — for example: top_k=5"),
        ("=5", "not key=value"),
        ("a..b=5", "not key=value"),
        ("topk=5", r"key 'topk': no such key to override — did you mean 'top_k'\?"),
        ("query_sett=full", "did you mean .*query_set"),
        ("retriever.k2=1", r"key 'retriever.k2': no such key .* did you mean 'retriever.k1'"),
        ("top_k=", r"key 'top_k': the override 'top_k=' has no value — top_k=null for none"),
        ("+top_k=5", r"no such key to override — did you mean 'top_k'\?"),
        ("type=x", "fits several keys — retriever.type or generator.type"),
        ("retriever=lucene", "key 'retriever': is a section — write retriever.type="),
        ("top_k=[1", "is not YAML"),
        ("value=1", "no such key"),  # `expected` describes; a tail never reaches into it
    ],
)
def test_wrong_overrides(child: Path, override: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config(child, [override])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: [1,\nc: 2\n", r"a\.yaml, line \d: not YAML"),
        ("a: 1\na: 2\n", r"a\.yaml, line 2: not YAML \(found duplicate key a\)"),
        ("- a\n", r"a\.yaml: expected keys and values, found a list"),
        ("1: a\n", r"a\.yaml, key '1': a key must be a text"),
        ("a: ???\n", r"a\.yaml, key 'a': is left open .* add a=…"),
        ("a: ${b}\n", r"a\.yaml, key 'a': Interpolation key 'b' not found"),
        ("extends: a.yaml\n", r"a\.yaml, key 'extends': extends itself \(a.yaml → a.yaml\)"),
        ("extends: [3]\n", r"key 'extends': expected a file name, found 3"),
        ("extends: nowhere.yaml\n", r"nowhere.yaml: no such file \(extended by a.yaml\)"),
    ],
)
def test_wrong_files(write: Write, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config(write("a.yaml", text))


def test_a_path_is_looked_up_beside_the_file_that_states_it(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "base" / "data").mkdir(parents=True)
    write("base/base.yaml", "dataset: {path: data}\nout: ../runs\nmodel: org/model\nother: data")
    child = write("child.yaml", "extends: base/base.yaml\nweights: ./w.json")
    config = load_config(child)
    assert config["dataset.path"] == str(tmp_path / "base" / "data")
    assert config["out"] == str(tmp_path / "runs")
    assert config["weights"] == str(tmp_path / "w.json")
    assert (config["model"], config["other"]) == ("org/model", "data")
    monkeypatch.chdir(tmp_path)
    assert load_config(child)["dataset.path"] == "base/data", "as the current folder sees it"
    assert load_config(child, ["dataset.path=data"])["dataset.path"] == "data"


def test_a_circle_of_files_is_told_whole(write: Write) -> None:
    write("a.yaml", "extends: b.yaml")
    write("b.yaml", "extends: c.yaml")
    with pytest.raises(ConfigError, match=r"b.yaml → c.yaml → b.yaml"):
        load_config(write("c.yaml", "extends: b.yaml").with_name("a.yaml"))


def test_a_missing_file_suggests_its_neighbours(child: Path) -> None:
    with pytest.raises(ConfigError, match=r"chidl.yaml: no such file — did you mean 'child.yaml'"):
        load_config(child.with_name("chidl.yaml"))


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_bytes(b"a: 1\nb: \xff\n")
    with pytest.raises(DataFormatError, match=r"a\.yaml, line 2: not UTF-8"):
        load_config(tmp_path / "a.yaml")


def test_unknown_and_missing_keys_are_named_with_their_path(child: Path) -> None:
    config = load_config(child)
    section = config.section("retriever")
    assert section.check(["k1", "b"], required=["type"]) is section
    with pytest.raises(
        ConfigError, match=r"child.yaml, key 'retriever.b': unknown key — known: 'k1'"
    ):
        section.check(["type", "k1"])
    with pytest.raises(
        ConfigError, match=r"key 'dataset': unknown key — did you mean 'datasets'\?"
    ):
        config.without("retriever", "generator", "top_k", "seed", "metadata").check(["datasets"])
    with pytest.raises(ConfigError, match=r"key 'rules': is missing"):
        config.check(config, required=["rules"])


def test_settings_are_read_by_type(child: Path) -> None:
    config = load_config(child)
    assert config.read("top_k", int) == 10
    assert config.read("top_k", float) == 10.0
    assert config.read("retriever.type", str) == "bm25"
    assert config.read("nowhere", bool, False) is False
    assert config.section("rules") == {}
    with pytest.raises(ConfigError, match=r"'top_k': expected a text, found a whole number \(10\)"):
        config.read("top_k", str)
    with pytest.raises(ConfigError, match=r"'seed': expected true or false, found a whole number"):
        config.read("seed", bool)
    with pytest.raises(ConfigError, match=r"'retriever.k3': is missing — give a number"):
        config.read("retriever.k3", float)
    with pytest.raises(ConfigError, match=r"'top_k': expected a section of keys"):
        config.section("top_k")
    with pytest.raises(ConfigError, match=r"expected a whole number, found a section of keys"):
        config.read("retriever", int)
    assert load_config(child, ["top_k=true"])["top_k"] is True
    with pytest.raises(ConfigError, match=r"expected a whole number, found true or false \(True\)"):
        load_config(child, ["top_k=true"]).read("top_k", int)


def test_a_config_is_a_frozen_mapping(child: Path) -> None:
    config = load_config(child)
    assert isinstance(config, Mapping)
    with pytest.raises(TypeError):
        config["top_k"] = 3  # type: ignore[index]
    copy = config.to_dict()
    copy["retriever"]["type"] = "changed"
    assert config["retriever.type"] == "bm25"
    assert config.get("retriever.nothing") is None
    assert config.get("top_k.nothing") is None
    assert config.without("seed", "expected").keys() == config.keys() - {"seed", "expected"}
    assert pickle.loads(pickle.dumps(config)) == config


def test_the_fingerprint_follows_the_settings_alone(write: Write) -> None:
    one = load_config(write("one.yaml", "a: 1\nb: {c: 2, d: [1, 2]}"))
    same = load_config(write("two.yaml", "b: {d: [1, 2], c: 2}\n# a comment\na: 1"))
    assert one == same
    assert one.fingerprint == same.fingerprint and hash(one) == hash(same)
    assert (
        one.fingerprint != load_config(write("one.yaml", "a: 2\nb: {c: 2, d: [1, 2]}")).fingerprint
    )


def test_yaml_round_trip(child: Path, write: Write) -> None:
    config = load_config(child, ["retriever.k1=null"])
    assert load_config(write("again.yaml", config.to_yaml())) == config


def test_values_that_no_file_could_hold() -> None:
    with pytest.raises(ConfigError, match=r"key 'a.b.1': a set is no setting"):
        Config({"a": {"b": [1, {2}]}})


def test_an_error_made_by_a_caller_names_file_and_key(child: Path) -> None:
    error = load_config(child).section("retriever").error("is out of range", "b", hint="0 to 1")
    assert re.fullmatch(r".*child\.yaml, key 'retriever\.b': is out of range — 0 to 1", str(error))
