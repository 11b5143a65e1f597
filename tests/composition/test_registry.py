"""Components by name: settings from signatures, plug-ins, and two that share a name."""

from __future__ import annotations

import importlib
import logging
import pkgutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import pydantic
import pytest

import rulerag
from rulerag import protocols
from rulerag.assembly.build import Builder
from rulerag.composition import registry
from rulerag.composition.config import Config
from rulerag.composition.registry import (
    FAMILIES,
    find,
    innermost,
    known_keys,
    names,
    register,
    retriever_name,
)
from rulerag.composition.settings import Settings
from rulerag.errors import ConfigError, MissingDependencyError

SEAMS = {
    "miner": protocols.RuleMiner,
    "selector": protocols.RuleSelector,
    "retriever": protocols.Retriever,
    "generator": protocols.Generator,
}


class Component:
    """One with settings of every kind."""

    def __init__(
        self,
        documents: object,
        *,
        number: int = 1,
        part: float = 0.5,
        name: str | None = None,
        words: str | Sequence[str] = "all",
        kind: Literal["a", "b"] = "a",
        place: str | Path = "",
        backend: Unseen | None = None,  # type: ignore[name-defined]  # noqa: F821
    ) -> None:
        if number < 1:
            raise ConfigError(f"{number} is below 1", key="number")
        self.given = (documents, number, part, name, words, kind)


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    yield
    for key, entry in list(registry._REGISTERED.items()):
        if not entry.defined.startswith("rulerag."):
            del registry._REGISTERED[key]


def build(values: dict[str, Any]) -> Any:
    builder = Builder({"documents": lambda: 7})
    return builder.make("retriever", Config({"retriever": values}, source="e.yaml")["retriever"])


# --- the library's own ---------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
def test_every_name_is_a_class_with_the_methods_of_its_seam(family: str) -> None:
    assert names(family)
    for name in names(family):
        entry = find(family, name)
        made = entry.component
        if not isinstance(made, type):
            made = getattr(sys.modules[made.__module__], made.__annotations__["return"])
        methods = [m for m in vars(SEAMS.get(family, object)) if not m.startswith("_")]
        assert all(hasattr(made, method) for method in methods)
        assert set(entry.keys) == {"type", *entry.settings.model_fields, *entry.holds}
        for part in entry.holds.values():
            assert part.removesuffix("*") in FAMILIES


def test_the_names_read_from_source_are_those_that_register() -> None:
    for module in pkgutil.walk_packages(rulerag.__path__, "rulerag."):
        # RAGAS replaces asyncio.run for the whole process as soon as it is imported.
        if not module.name.endswith(("__main__", ".ragas")):
            with suppress(MissingDependencyError):  # of an evaluation framework
                importlib.import_module(module.name)
    own = {
        key: e.defined
        for key, e in registry._REGISTERED.items()
        if e.defined.startswith("rulerag.")
    }
    assert own == registry._own()


def test_naming_components_imports_none_of_them() -> None:
    code = (
        "import sys; from rulerag.composition.registry import names; "
        "names('retriever'); names('miner'); "
        "heavy = {'torch', 'pydantic', 'numpy', 'rulerag.retrieval.lexical.bm25'}\n"
        "print(sorted(heavy & {*sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_default_is_stated_by_the_constructor_alone() -> None:
    fields = find("retriever", "bm25").settings.model_fields
    assert fields["k1"].default is None and not fields["k1"].is_required()
    assert find("generator", "openai").settings.model_fields["base_url"].is_required()


# --- settings from a signature -------------------------------------------------------------------


def test_settings_of_the_right_kinds_arrive() -> None:
    register("retriever", "every-kind")(Component)
    assert build({"type": "every-kind"}).given == (7, 1, 0.5, None, "all", "a")
    values = {"number": 2, "part": 1, "name": None, "words": ["a", "b"], "kind": "b"}
    assert build({"type": "every-kind", **values}).given == (7, 2, 1, None, ["a", "b"], "b")
    keys = set(find("retriever", "every-kind").keys)
    assert keys == {"type", "number", "part", "name", "words", "kind", "place"}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"number": 2.0}, "key 'retriever.number': expected a whole number, found 2.0"),
        ({"number": True}, "key 'retriever.number': expected a whole number, found True"),
        ({"number": 0}, "key 'retriever.number': 0 is below 1"),
        ({"part": "half"}, "key 'retriever.part': expected a number, found 'half'"),
        ({"part": float("nan")}, "key 'retriever.part': expected a number, found nan"),
        ({"name": 3}, "key 'retriever.name': expected a text or null, found 3"),
        ({"words": [1]}, "key 'retriever.words': expected a text or a list of texts, found"),
        ({"kind": "c"}, "key 'retriever.kind': expected 'a' or 'b', found 'c'"),
        ({"nmae": "x"}, "key 'retriever.nmae': unknown key — did you mean 'name'"),
        ({"documents": "x"}, "key 'retriever.documents': unknown key"),
        ({"backend": "x"}, "key 'retriever.backend': unknown key"),
    ],
)
def test_settings_that_do_not_fit(values: dict[str, Any], message: str) -> None:
    register("retriever", "every-kind")(Component)
    with pytest.raises(ConfigError) as caught:
        build({"type": "every-kind", **values})
    assert str(caught.value).startswith(f"e.yaml, {message}")


def test_settings_classes_of_ones_own() -> None:
    class Inner(Settings):
        depth: int = 3

    class Outer(Settings):
        words: tuple[str, ...]
        inner: Inner = Inner()

    made = Outer(words=["a"], inner=Inner(depth=4))
    assert (made.words, made.inner.depth) == (("a",), 4)
    with pytest.raises(ConfigError, match="key 'words': is missing — give a list of texts"):
        Outer()
    with pytest.raises(ConfigError, match=r"key 'word': unknown key — did you mean 'words'"):
        Outer(word=["a"])
    with pytest.raises(ConfigError, match=r"o.yaml, key 'x.inner.dept': .* did you mean 'depth'"):
        Outer.read({"words": [], "inner": {"dept": 1}}, source="o.yaml", where="x")
    with pytest.raises(ConfigError, match=r"key 'inner.depth': expected a whole number, found"):
        Outer(words=[], inner={"depth": "deep"})


# --- names ---------------------------------------------------------------------------------------


def test_a_component_registered_twice_names_both_places() -> None:
    register("retriever", "mine")(Component)
    register("retriever", "mine")(Component)  # its module imported again

    class Other:
        pass

    with pytest.raises(ConfigError, match=r"called 'mine' — rename one: .*Component or .*Other"):
        register("retriever", "mine")(Other)
    with pytest.raises(ConfigError, match=r"rename one: rulerag\.retrieval\.lexical\.bm25:BM25"):
        register("retriever", "bm25")(Other)
    with pytest.raises(ConfigError, match=r"no family 'retreiver' .* did you mean 'retriever'"):
        register("retreiver", "mine")(Other)


def test_an_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(ConfigError, match="no miner is called 'ami' — did you mean 'amie'"):
        find("miner", "ami")


def test_plug_ins_add_components_and_one_that_fails_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "plugged_in.py").write_text(
        "from rulerag.composition.registry import register\n\n\n"
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
    registry._plug_ins.cache_clear()
    with caplog.at_level(logging.WARNING, "rulerag"):
        assert build({"type": "plugged", "depth": 5}).depth == 5
    registry._plug_ins.cache_clear()
    (line,) = caplog.messages
    assert line.startswith("the plug-in 'broken' (broken_plug) is left out: ModuleNotFoundError")
    assert "plugged" in names("retriever") and "bm25" in names("retriever")


def test_every_key_of_nested_components_is_known() -> None:
    config = {
        "retriever": {"type": "guided", "retriever": {"type": "bm25"}},
        "generator": {"type": "symbolic"},
        "dataset": {"path": "x"},
    }
    keys = set(known_keys(config))
    assert {"retriever.merge", "retriever.retriever.k1", "generator.evidence.prior"} <= keys
    assert "dataset.prediction" in keys and "retriever.retriever.documents" not in keys


def test_what_a_nested_retriever_is_called() -> None:
    bm25 = {"type": "bm25", "k1": 1}
    guided = {"type": "guided", "retriever": {"type": "time_aware", "retriever": bm25}}
    fused = {"type": "fused", "retrievers": [guided, bm25]}
    assert [retriever_name(one) for one in (bm25, guided, fused)] == [
        "bm25",
        "bm25-guided",
        "bm25-guided-fused",
    ]
    assert innermost(fused) is bm25


class Tuned(Settings):
    depth: int = pydantic.Field(default=10, ge=1)
    decay: float = 0.5


class TunedComponent:
    def __init__(
        self, documents: object, *, settings: Tuned | None = None, **changes: object
    ) -> None:
        self.documents, self.settings = documents, Tuned.joined(settings, changes)


def test_settings_come_together_or_one_by_one() -> None:
    register("retriever", "tuned")(TunedComponent)
    assert find("retriever", "tuned").keys == ["type", "depth", "decay"]
    builder = Builder({"documents": list})
    made = builder.make("retriever", Config({"type": "tuned", "depth": 3}))
    assert made.settings == Tuned(depth=3, decay=0.5)
    assert TunedComponent([], settings=Tuned(decay=1.0), depth=2).settings == Tuned(
        depth=2, decay=1.0
    )
    with pytest.raises(ConfigError, match=r"(?s)depht.*unknown key.*depth"):
        builder.make("retriever", Config({"type": "tuned", "depht": 3}))
    with pytest.raises(ConfigError, match=r"(?s)depth.*out of range"):
        builder.make("retriever", Config({"type": "tuned", "depth": 0}))
