"""Components by name: settings from a signature or a model, plug-ins, two that share a name."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import pydantic
import pytest

import rulerag
from rulerag.assembly.build import Builder
from rulerag.composition import (
    Config,
    Settings,
    find,
    innermost,
    known_keys,
    names,
    register,
    registry,
    retriever_name,
)
from rulerag.errors import ConfigError


class Plain:
    """One whose settings are the parameters of its constructor."""

    def __init__(
        self,
        documents: Unseen,  # type: ignore[name-defined]  # noqa: F821
        *,
        number: int = 1,
        part: float = 0.5,
        name: str | None = None,
        words: str | Sequence[str] = "all",
        kind: Literal["a", "b"] = "a",
        place: str | Path = "",
    ) -> None:
        if number < 1:
            raise ConfigError(f"{number} is below 1", key="number")
        self.given = (documents, number, part, name, words, kind)


class Inner(Settings):
    depth: int = pydantic.Field(default=10, ge=1)


class Tuned(Settings):
    power: float = pydantic.Field(default=0.5, gt=0)
    words: tuple[str, ...] = ()
    inner: Inner = Inner()


class TunedComponent:
    """One whose settings are a model."""

    def __init__(
        self, documents: object, *, settings: Tuned | None = None, **changes: object
    ) -> None:
        self.documents, self.settings = documents, Tuned.joined(settings, changes)


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    register("retriever", "plain")(Plain)
    register("retriever", "tuned")(TunedComponent)
    yield
    for key, entry in list(registry._REGISTERED.items()):
        if not entry.defined.startswith("rulerag."):
            del registry._REGISTERED[key]


def build(values: dict[str, Any]) -> Any:
    builder = Builder({"documents": lambda: 7})
    return builder.make("retriever", Config({"retriever": values}, source="e.yaml")["retriever"])


# --- the library's own ---------------------------------------------------------------------------


def test_the_table_names_every_decorated_component_and_no_other() -> None:
    table = {f: registry._modules(f) for f in registry.FAMILIES}
    root = Path(rulerag.__file__).parent
    decorated = [f for f in root.glob("*/**/*.py") if "\n@register(" in f.read_text("utf-8")]
    modules = {".".join((root.name, *f.relative_to(root).with_suffix("").parts)) for f in decorated}
    assert modules == {module for family in table.values() for module in family.values()}
    for family, entries in table.items():
        for name, module in entries.items():
            assert find(family, name).component.__module__ == module
    own = {key for key, one in registry._REGISTERED.items() if one.defined.startswith("rulerag.")}
    assert own == {(family, name) for family, entries in table.items() for name in entries}


def test_naming_components_imports_none_of_them() -> None:
    code = (
        "import sys; from rulerag.composition import names; names('retriever'); names('miner'); "
        "heavy = {'torch', 'pydantic', 'numpy', 'yaml', 'rulerag.retrieval.lexical.bm25'}\n"
        "print(sorted(heavy & {*sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


# --- settings ------------------------------------------------------------------------------------


def test_settings_arrive_and_what_is_not_stated_is_left_to_the_constructor() -> None:
    assert build({"type": "plain"}).given == (7, 1, 0.5, None, "all", "a")
    values = {"number": 2, "part": 1, "name": None, "words": ["a", "b"], "kind": "b"}
    assert build({"type": "plain", **values}).given == (7, 2, 1, None, ["a", "b"], "b")
    tuned = build({"type": "tuned", "power": 3, "words": ["a"], "inner": {"depth": 2}}).settings
    assert tuned == Tuned(power=3.0, words=("a",), inner=Inner(depth=2))
    assert TunedComponent([], settings=tuned, power=1.0).settings.words == ("a",)
    with pytest.raises(pydantic.ValidationError, match="frozen"):
        tuned.power = 1.0
    assert find("retriever", "tuned").keys == ["type", "power", "words", "inner"]
    assert find("generator", "openai").settings.model_fields["base_url"].is_required()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"number": 2.0}, "'retriever.number': expected a whole number, found 2.0"),
        ({"number": True}, "'retriever.number': expected a whole number, found True"),
        ({"number": 0}, "'retriever.number': 0 is below 1"),
        ({"part": "half"}, "'retriever.part': expected a number, found 'half'"),
        ({"part": float("nan")}, "'retriever.part': expected a number, found nan"),
        ({"name": 3}, "'retriever.name': expected a text or null, found 3"),
        ({"words": [1]}, "'retriever.words': expected a text or a list of texts, found"),
        ({"kind": "c"}, "'retriever.kind': expected 'a' or 'b', found 'c'"),
        ({"nmae": "x"}, "'retriever.nmae': unknown key — did you mean 'name'"),
        ({"documents": "x"}, "'retriever.documents': unknown key"),
        ({"type": "tuned", "powr": 3}, "'retriever.powr': unknown key — did you mean 'power'"),
        ({"type": "tuned", "power": 0}, "'retriever.power': 0 is out of range — should be"),
        ({"type": "tuned", "inner": {"depth": 0}}, "'retriever.inner.depth': 0 is out of range"),
        ({"type": "tuned", "inner": {"dept": 1}}, "'retriever.inner.dept': unknown key — did you"),
        ({"type": "tuned", "inner": 3}, "'retriever.inner': expected a section of keys, found 3"),
    ],
)
def test_settings_that_do_not_fit(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build({"type": "plain", **values})
    assert str(caught.value).startswith(f"e.yaml, key {message}")
    if values.get("type") == "tuned" and "powr" not in values:  # in Python alike
        with pytest.raises(ConfigError, match=r"key '(power|inner)"):
            Tuned(**{key: value for key, value in values.items() if key != "type"})


def test_a_setting_that_is_missing() -> None:
    with pytest.raises(ConfigError, match=r"^key 'path': is missing — give a text$"):
        find("dataset", "folder").settings()


def test_every_key_of_nested_components_is_known() -> None:
    config = {
        "retriever": {"type": "guided", "retriever": {"type": "bm25"}},
        "generator": {"type": "symbolic"},
        "dataset": {"path": "x"},
    }
    keys = set(known_keys(config))
    assert {"retriever.merge", "retriever.retriever.k1", "generator.evidence.prior"} <= keys
    assert "dataset.prediction" in keys and "retriever.retriever.documents" not in keys


# --- names ---------------------------------------------------------------------------------------


def test_two_components_of_one_name_are_refused_with_both_places() -> None:
    register("retriever", "plain")(Plain)  # its module imported again
    find("retriever", "bm25")
    for family, name, message in (
        ("retriever", "plain", r"called 'plain' — rename one: .*Plain or .*TunedComponent"),
        ("retriever", "bm25", r"rename one: rulerag\.retrieval\.lexical\.bm25:BM25"),
        ("retreiver", "mine", r"no family 'retreiver' .* did you mean 'retriever'"),
    ):
        with pytest.raises(ConfigError, match=message):
            register(family, name)(TunedComponent)
    with pytest.raises(ConfigError, match="no miner is called 'ami' — did you mean 'amie'"):
        find("miner", "ami")


def test_plug_ins_add_components_and_one_that_fails_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "plugged_in.py").write_text(
        "from rulerag.composition import register\n\n\n"
        '@register("retriever", "plugged")\n'
        "class Plugged:\n"
        "    def __init__(self, documents, *, depth: int = 3) -> None:\n"
        "        self.depth = depth\n"
    )
    (tmp_path / "broken_plug.py").write_text("import no_such_module\n")
    info = tmp_path / "plugged-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plugged\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[rulerag.components]\nbroken = broken_plug\ngood = plugged_in\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    registry._import_plug_ins.cache_clear()
    with caplog.at_level(logging.WARNING, "rulerag"):
        assert build({"type": "plugged", "depth": 5}).depth == 5
    registry._import_plug_ins.cache_clear()
    (line,) = caplog.messages
    assert line.startswith("the plug-in 'broken' (broken_plug) is left out: ModuleNotFoundError")
    assert {"plugged", "bm25"} <= set(names("retriever"))


def test_what_a_nested_retriever_is_called() -> None:
    bm25 = {"type": "bm25", "k1": 1}
    guided = {"type": "guided", "retriever": {"type": "time_aware", "retriever": bm25}}
    fused = {"type": "fused", "retrievers": [guided, bm25]}
    called = [retriever_name(one) for one in (bm25, guided, fused)]
    assert called == ["bm25", "bm25-guided", "bm25-guided-fused"]
    assert innermost(fused) is bm25
