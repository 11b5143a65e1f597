"""Experiment files and overrides: what they mean, and the error where they are wrong."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from rulerag.composition import Config, load_config, to_yaml
from rulerag.errors import ConfigError, DataFormatError

BASE = "retriever: {type: bm25, k1: 1.2, b: 0.75}\ngenerator: {type: symbolic}\ntop_k: 10\n"
CHILD = """
extends: base.yaml
dataset: {path: data, query_set: balanced}
retriever: {b: 0.5}
expected: {exact_match: {value: 0.5, tolerance: 0.01}}
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


def test_a_file_lies_over_those_that_it_extends(child: Path, write: Write) -> None:
    config = load_config(child)
    assert config["retriever"] == {"type": "bm25", "k1": 1.2, "b": 0.5}
    assert (config["retriever.k1"], config["top_k"]) == (1.2, 10)
    assert "extends" not in config
    other = write("other.yaml", "extends: child.yaml\nretriever: {type: symbolic}")
    assert load_config(other)["retriever"] == {"type": "symbolic"}, "another type, another section"
    write("sub/middle.yaml", "extends: ../base.yaml\ntop_k: 2")
    top = write("top.yaml", "extends: [sub/middle.yaml]\nseed: 3")
    assert [load_config(top)[key] for key in ("top_k", "seed")] == [2, 3]


@pytest.mark.parametrize(
    ("override", "key", "value"),
    [
        ("retriever.b=1e-3", "retriever.b", 0.001),
        ("query_set=full", "dataset.query_set", "full"),
        ("k1=null", "retriever.k1", None),
        ("retriever.words=[1, 2]", "retriever.words", (1, 2)),
        ("dates=drop", "retriever.dates", "drop"),
        ("selector.max_rules=3", "selector.max_rules", 3),
        ("dataset.path=a=b", "dataset.path", "a=b"),
        ("query_set=2014-06-23", "dataset.query_set", "2014-06-23"),
    ],
)
def test_overrides(child: Path, override: str, key: str, value: object) -> None:
    further = ("retriever.words", "retriever.dates", "selector.max_rules")
    assert load_config(child, [override], keys=lambda values: further)[key] == value


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["top_k"], "the override 'top_k' is not key=value — for example: top_k=5"),
        (["a..b=5"], "not key=value"),
        (["topk=5"], r"child\.yaml, key 'topk': no such key to override — did you mean 'top_k'\?"),
        (["retriever.k2=1"], r"key 'retriever.k2': no such key .* did you mean 'retriever.k1'"),
        (["top_k="], r"key 'top_k': the override 'top_k=' has no value — top_k=null for none"),
        (["type=x"], "fits several keys — retriever.type or generator.type"),
        (["retriever=lucene"], "key 'retriever': is a section — write retriever.type="),
        (["top_k.x=1"], "no such key"),
        (["top_k=[1"], "is not YAML"),
        (["value=1"], "no such key"),  # `expected` describes; a tail never reaches into it
        (["top_k=5", "top_k=7"], "key 'top_k': is set twice by overrides"),
        (["query_set=a", "dataset.query_set=a"], "key 'dataset.query_set': is set twice"),
    ],
)
def test_wrong_overrides(child: Path, overrides: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config(child, overrides)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: [1,\nc: 2\n", r"a\.yaml, line \d: not YAML"),
        ("a: 1\na: 2\n", r"a\.yaml, line 2: not YAML \(found duplicate key a\)"),
        ("? [a]\n: 1\n", r"a\.yaml, line 1: not YAML \(found unhashable key\)"),
        ("- a\n", r"a\.yaml: expected keys and values, found a list"),
        ("1: a\n", "key '1': a key must be a text"),
        ("extends: b.yaml\n", r"key 'extends': extends itself \(b.yaml → a.yaml → b.yaml\)"),
        ("extends: [3]\n", r"key 'extends': expected a file name, found 3"),
        ("extends: nowhere.yaml\n", r"nowhere.yaml: no such file \(extended by a.yaml\)"),
    ],
)
def test_wrong_files(write: Write, text: str, message: str) -> None:
    write("a.yaml", text)
    with pytest.raises(ConfigError, match=message):
        load_config(write("b.yaml", "extends: a.yaml"))


def test_a_missing_file_and_one_that_is_no_text(child: Path) -> None:
    with pytest.raises(ConfigError, match=r"chidl.yaml: no such file — did you mean 'child.yaml'"):
        load_config(child.with_name("chidl.yaml"))
    child.write_bytes(b"a: 1\nb: \xff\n")
    with pytest.raises(DataFormatError, match=r"child\.yaml, line 2: not UTF-8"):
        load_config(child)


def test_a_path_is_looked_up_beside_the_file_that_states_it(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "base" / "data").mkdir(parents=True)
    write("base/base.yaml", "dataset: {path: data}\nout: ../runs\nmodel: org/model\nother: data")
    child = write("child.yaml", "extends: base/base.yaml\nweights: ./w.json")
    config = load_config(child)
    assert config["dataset.path"] == str(tmp_path / "base" / "data")
    assert (config["out"], config["weights"]) == (str(tmp_path / "runs"), str(tmp_path / "w.json"))
    assert (config["model"], config["other"]) == ("org/model", "data")
    monkeypatch.chdir(tmp_path)
    assert load_config(child)["dataset.path"] == "base/data", "as the current folder sees it"
    assert load_config(child, ["dataset.path=data"])["dataset.path"] == "data"


def test_a_configuration_is_a_frozen_mapping(child: Path) -> None:
    config = load_config(child)
    assert isinstance(config, Mapping)
    with pytest.raises(TypeError):
        config["top_k"] = 3  # type: ignore[index]
    config.to_dict()["retriever"]["type"] = "changed"
    assert config["retriever.type"] == "bm25"
    assert config.get("retriever.nothing") is config.get("top_k.nothing") is None
    assert config.without("seed", "expected").keys() == config.keys() - {"expected"}
    assert pickle.loads(pickle.dumps(config)) == config
    assert config.section("rules") == {}
    lists = Config({"retrievers": [{"type": "a"}, {"type": "b"}]})
    assert lists.section("retrievers.1")["type"] == "b"


def test_the_fingerprint_follows_the_settings_alone(write: Write) -> None:
    one = load_config(write("one.yaml", "a: 1\nb: {c: 2, d: [1, 2]}"))
    same = load_config(write("two.yaml", "b: {d: [1, 2], c: 2}\n# a comment\na: 1"))
    other = load_config(write("three.yaml", "a: 2\nb: {c: 2, d: [1, 2]}"))
    assert one == same and hash(one) == hash(same)
    assert one.fingerprint == same.fingerprint != other.fingerprint


@pytest.mark.parametrize(
    "value", ["1e-3", "12", "true", "2014-06-23", "null", "", "é", "a: b", 1e-05, None, [1, "2"]]
)
def test_yaml_is_read_as_it_was_written(write: Write, value: object) -> None:
    file = write("again.yaml", to_yaml({"b": {"key": value}, "a": 1}))
    assert load_config(file).to_dict() == {"b": {"key": value}, "a": 1}
    assert list(load_config(file)) == ["b", "a"]


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (lambda c: c.read("top_k", str), r"'top_k': expected a text, found a whole number \(10\)"),
        (lambda c: c.read("top_k", bool), "'top_k': expected true or false, found a whole number"),
        (lambda c: c.read("b", float), "'b': is missing — give a number"),
        (lambda c: c.read("retriever", int), "expected a whole number, found a section of keys"),
        (lambda c: c.section("top_k"), "'top_k': expected a section of keys, found .* write top_k"),
        (
            lambda c: c.section("retriever").check(["type", "k1", "beta"]),
            "child.yaml, key 'retriever.b': unknown key — known: 'beta'",
        ),
        (lambda c: Config({"a": {"b": [1, {2}]}}), "key 'a.b.1': a set is no setting"),
    ],
)
def test_what_a_section_refuses(
    child: Path, work: Callable[[Config], object], message: str
) -> None:
    config = load_config(child)
    assert (config.read("top_k", float), config.read("seed", int, 5)) == (10.0, 5)
    with pytest.raises(ConfigError, match=message):
        work(config)
