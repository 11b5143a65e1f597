"""Methods by name: ``bm25-guided__symbolic`` is a retriever and a generator of ``configs/``.

A dataset's file (``configs/datasets/``) is laid over the tables of retrievers and generators by
their names; a method is its retriever, its generator, what the dataset sets, and what it sets for
this method, each laid over those before it; ``key=value`` comes last. A component that has no entry
in a table goes by its name in the registry, with its defaults.
"""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import rulerag
from rulerag.assembly.build import Experiment
from rulerag.composition import (
    Config,
    find,
    known_keys,
    load_config,
    merged_values,
    names,
    parse_override,
    read_values,
    with_overrides,
)
from rulerag.errors import ConfigError, did_you_mean
from rulerag.io import read_json
from rulerag.models import SHIPPED, known_models
from rulerag.retrieval.base import check_method

RULES = ("none", "guided")

_PACKAGE = Path(rulerag.__file__).parent
CONFIGS = _PACKAGE / "configs"
if not CONFIGS.is_dir():
    CONFIGS = _PACKAGE.parent / "configs"
"""The tables: inside the installed package, beside it in a checkout."""


def _table(name: str) -> Mapping[str, Any]:
    """A table of ``configs/``, by name; empty where there is none."""
    return _table_seen_from(os.getcwd(), name)


@cache
def _table_seen_from(folder: str, name: str) -> Mapping[str, Any]:
    """A table whose paths are relative to the current folder."""
    file = CONFIGS / f"{name}.yaml"
    return read_values(file) if file.is_file() else {}


def fragments(table: str) -> list[str]:
    """The names in ``configs/<table>.yaml`` that are not variants of another."""
    stated = _table(table)
    return sorted(name for name in stated if name.rpartition("-")[0] not in stated)


def is_variant(retriever: str) -> bool:
    """Whether a retriever is one of the tables, which says itself what it does with rules."""
    stated = _table("retrievers")
    return retriever in stated and retriever.rpartition("-")[0] in stated


class _Tables:
    """The tables of ``configs/`` with a dataset's file over them.

    Args:
        benchmark: the name of the dataset, that of a file in ``configs/datasets/`` or another.
        undated: whether a dataset of another name has no dates.
    """

    def __init__(self, benchmark: str = "", *, undated: bool = False) -> None:
        over = dict(_table(f"datasets/{benchmark}"))
        if not over and undated:
            over = dict(_table("datasets/undated"))
        self.benchmark = benchmark
        self.expected = _table(f"expected/{benchmark}")
        self.methods: Mapping[str, Any] = over.pop("methods", {})
        self.entries = {
            table: merged_values(_table(table), over.pop(table, {}))
            for table in ("retrievers", "generators")
        }
        self.dataset = merged_values({"metadata": {"benchmark": benchmark}}, over)

    def part(self, family: str, name: str) -> dict[str, Any]:
        """The settings of a retriever or generator: its entry, or the component of that name."""
        stated = _table(f"{family}s")
        if name not in stated and name not in names(family):
            hint = did_you_mean(name, [*stated, *names(family)])
            raise ConfigError(f"no {family} is called {name!r}", key=family, hint=hint)
        own = dict(self.entries.get(f"{family}s", {}).get(name, {}))
        base = own.pop("extends", None)
        below = self.part(family, base) if base else {}
        if name not in stated:
            below = {family: {"type": name}}
        # ${benchmark} in a text is the name of the dataset.
        name = json.dumps(self.benchmark)[1:-1]
        own = json.loads(json.dumps(own).replace("${benchmark}", name))
        return merged_values(below, own)

    def method(self, name: str) -> dict[str, Any]:
        """The settings of a method, with what is expected of it."""
        retriever, both, generator = name.partition("__")
        if not both:
            raise ConfigError(
                f"{name!r} is no method and no experiment file",
                hint="name <retriever>__<generator>, such as bm25-guided__symbolic, or a YAML file",
            )
        values: dict[str, Any] = {"metadata": _table("methods").get(name, {"method": name})}
        for part in (
            self.part("retriever", retriever),
            self.part("generator", generator),
            self.dataset,
            self.methods.get(name, {}),
        ):
            values = merged_values(values, part)
        # What is found does not hang on who reads it.
        found = self.expected.get(f"{retriever}__symbolic", {})
        expected = {key: value for key, value in found.items() if key.startswith("answer_recall")}
        expected |= self.expected.get(name, {})
        return {**values, "expected": expected} if expected else values


def method(
    name: str, benchmark: str = "", overrides: Sequence[str] = (), *, static: bool = False
) -> Config:
    """The configuration of a method on a dataset.

    Args:
        name: ``<retriever>__<generator>``.
        benchmark: a file of ``configs/datasets/``, or another name: then nothing differs, but for
            what ``static`` says.
        overrides: ``key=value``; every key of a component may be set.
        static: whether a dataset of another name has no dates.

    Raises:
        ConfigError: no such retriever or generator, or a wrong override.
    """
    values = _Tables(benchmark, undated=static).method(name)
    return Config(with_overrides(values, overrides, _keys))


def experiment(
    target: str | Path, overrides: Sequence[str] = (), *, dataset: Path | None = None
) -> Config:
    """The configuration of an experiment file, or of a method on a dataset folder.

    Args:
        target: a YAML file, or ``<retriever>__<generator>``.
        overrides: as in :func:`method`; ``retriever=NAME``, ``generator=NAME`` and
            ``selector=NAME`` put another one in place of the whole section.
        dataset: the dataset folder; for a file in place of its own.

    Raises:
        ConfigError: no such file or method, a method without a dataset, or a wrong override.
    """
    chosen, rest = _split_overrides(overrides)
    source = Path(target) if str(target).endswith((".yaml", ".yml")) else None
    if source is not None:
        values = read_values(source)
        for family in ("retriever", "generator"):
            if isinstance(name := values.get(family), str):
                hint = f"write {family}: {{type: …}}, or add {family}={name} to the command"
                message = f"names {name!r}, and a file states settings"
                raise ConfigError(message, path=source, key=family, hint=hint)
    else:
        retriever, both, generator = str(target).partition("__")
        # Another half of the method's name is another method.
        if both:
            retriever = chosen.pop("retriever", retriever)
        if both and chosen.get("generator") in _table("generators"):
            generator = chosen.pop("generator")
        if dataset is None and both:
            hint = f"rulerag evaluate {target} --dataset FOLDER --out DIR"
            raise ConfigError("a method needs a dataset", key="dataset", hint=hint)
        name, dated, _ = _manifest(dataset or Path())
        values = _Tables(name, undated=not dated).method(f"{retriever}{both}{generator}")
    if dataset is not None:
        values = merged_values(values, {"dataset": {"path": str(dataset)}})
    plain = _Tables()
    for family, name in chosen.items():
        values.pop(family, None)
        part = _generator(name, plain) if family == "generator" else plain.part(family, name)
        values = merged_values(values, part)
    return Config(with_overrides(values, rest, _keys, source), source=source)


def _split_overrides(overrides: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Whole components that overrides name, by family, and the other overrides."""
    chosen: dict[str, str] = {}
    rest = []
    for override in overrides:
        family, value = parse_override(override)
        if family not in ("retriever", "generator", "selector") or not isinstance(value, str):
            rest.append(override)
        elif family in chosen:
            raise ConfigError("is set twice by overrides", key=family, hint="leave one of them out")
        else:
            chosen[family] = value
    return chosen, rest


def _manifest(folder: Path) -> tuple[str, bool, bool]:
    """The name of a dataset folder, and whether it has dates and predictions, as far as it says."""
    manifest = folder / "manifest.json"
    # Benchmarks of others have no manifest, and no dates.
    stated = read_json(manifest) if manifest.is_file() else {"calendar": None}
    if not isinstance(stated, dict):
        stated = {}
    home = folder.resolve().parent if folder.is_file() else folder
    predicts = stated.get("prediction") is True
    return str(stated.get("name") or home.name), bool(stated.get("calendar", True)), predicts


def _keys(values: Mapping[str, Any]) -> Iterator[str]:
    """Every key that an experiment may set."""
    yield from Experiment.model_fields
    yield "dataset.query_set"
    yield from known_keys({"dataset": {}, **values})


# --- the settings behind a bare command ----------------------------------------------------------


def preset(
    dataset: str | Path,
    *,
    retriever: str = "bm25",
    rules: str = "guided",
    query_set: str = "full",
    top_k: int = 10,
    encoder: str | Path | None = None,
    fusion: str | None = None,
    generator: str | Path | None = None,
    model_settings: Mapping[str, Any] | None = None,
) -> Config:
    """The configuration of a retriever, with or without rules, and of a reader.

    Args:
        dataset: the dataset folder; if its manifest has the name of a published benchmark, what
            ``configs/datasets/`` says of that one holds.
        retriever: ``bm25``, ``lucene``, ``dense``, ``symbolic`` (which always follows rules),
            another of the registry, or one of the tables as it stands there, ``bm25-scored``.
        rules: ``guided``, or ``none`` for plain retrieval and reading.
        query_set: ``balanced``, ``full`` or a split.
        top_k: documents per query.
        encoder: of dense retrieval, a folder or a name on the Hub; the small one that is installed
            when None.
        fusion: how the rule-guided list is fused with the plain one, a name of
            :data:`~rulerag.retrieval.base.fusion.METHODS`; not at all when None.
        generator: ``symbolic`` (also when None), ``candidate`` or another of
            ``configs/generators.yaml``, a YAML file with a section ``generator``, or else a causal
            language model: a folder or a name on the Hub, ``rulerag-nano-llama`` for the small one
            that is installed.
        model_settings: of a language model of which nothing but its name is stated: how it is
            asked.

    Raises:
        ConfigError: an unknown name, the symbolic retriever without rules, ``rules="none"`` for a
            retriever of the tables, an encoder for another retriever than dense, nothing to fuse,
            or a file without the section.
    """
    if rules not in RULES:
        raise ConfigError(f"unknown choice {rules!r}", key="rules", hint=" or ".join(RULES))
    name, dated, predicts = _manifest(Path(dataset))
    # An undated corpus of one's own may well state what is asked; a retriever of the tables is what
    # it is there.
    tables = _Tables(name, undated=not dated and (predicts or is_variant(retriever)))
    values = merged_values(
        _retriever(retriever, rules, tables), _generator(str(generator or "symbolic"), tables)
    )
    if encoder is not None:
        if retriever.partition("-")[0] not in ("dense", "milvus"):
            hint = "add --retriever dense"
            raise ConfigError(f"{retriever} has no encoder", key="encoder", hint=hint)
        values["retriever"] = _with_innermost(values["retriever"], {"encoder": str(encoder)})
    if fusion is not None:
        values["retriever"] = _fused(values["retriever"], fusion)
    if model_settings and values["generator"].keys() == {"type", "model"}:
        values["generator"].update(model_settings)
    values["dataset"] = {"path": str(dataset), "query_set": query_set}
    return Config({**values, "top_k": top_k})


def following_all(config: Config) -> Config:
    """A configuration whose rules are those of every relation that a question may ask for.

    For questions in one's own words; one that has a single meaning is guided as before
    (:class:`rulerag.linking.LinkedSelector`). One without rules stays as it is.
    """
    selector = config.section("selector").to_dict()
    if not selector or selector.get("type") == "linked":
        return config
    return Config({**config.to_dict(), "selector": {"type": "linked", "selector": selector}})


def _retriever(retriever: str, rules: str, tables: _Tables) -> dict[str, Any]:
    if is_variant(retriever):
        if rules == "none":
            raise ConfigError(
                f"{retriever} decides this itself",
                key="rules",
                hint=f"leave it out, or use --retriever {retriever.partition('-')[0]} --rules none",
            )
        return tables.part("retriever", retriever)
    kind = tables.part("retriever", retriever)["retriever"]["type"]
    parts = find("retriever", kind, key="retriever").holds.values()
    if any(part.startswith("retriever") for part in parts):
        known = sorted(one for one in _table("retrievers") if one.startswith("bm25-"))
        hint = f"one of the tables, {', '.join(known)}, or an experiment file"
        message = f"{retriever} needs another retriever inside"
        raise ConfigError(message, key="retriever", hint=hint)
    if retriever == "symbolic" and rules == "none":
        raise ConfigError(
            "the symbolic retriever executes rules, it cannot go without them",
            key="rules",
            hint="use --rules guided, or another retriever",
        )
    if rules == "none" or retriever == "symbolic":
        return tables.part("retriever", retriever)
    if f"{retriever}-guided" in _table("retrievers"):
        return tables.part("retriever", f"{retriever}-guided")
    values = tables.part("retriever", "bm25-guided")
    return {**values, "retriever": _with_innermost(values["retriever"], {"type": retriever})}


def _with_innermost(section: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a retriever, those of the one that searches changed."""
    if "retriever" in section:
        return {**section, "retriever": _with_innermost(section["retriever"], change)}
    return dict(change) if "type" in change else {**section, **change}


def _fused(section: Mapping[str, Any], fusion: str) -> dict[str, Any]:
    check_method(fusion, "fusion")
    if section["type"] != "guided":
        raise ConfigError(
            "a rule-guided list is fused with the plain one, and there are not two",
            key="fusion",
            hint="--rules guided, with another retriever than symbolic",
        )
    return {"type": "fused", "method": fusion, "retrievers": [section, section["retriever"]]}


def _generator(name: str, tables: _Tables) -> dict[str, Any]:
    """The settings of a generator by name, by file, or by model."""
    if name in _table("generators"):
        return tables.part("generator", name)
    if name.endswith((".yaml", ".yml")):
        config = load_config(name)
        if config.get("generator") is None:
            raise config.error("is missing", "generator", hint="write generator: {type: …}")
        return {"generator": config.section("generator").to_dict()}
    if name in names("generator"):
        raise ConfigError(
            f"{name!r} needs settings of its own",
            key="generator",
            hint=f"a YAML file with generator: {{type: {name}, …}}, or the folder of a model",
        )
    # A slip of the pen is named before the Hub is searched for a model of that name.
    models = (*SHIPPED, *known_models())
    likely = difflib.get_close_matches(name, (*_table("generators"), *models), 1, 0.8)
    if likely and name not in models and not Path(name).exists():
        hint = f"did you mean {likely[0]!r}?"
        raise ConfigError(f"no generator is called {name!r}", key="generator", hint=hint)
    return {"generator": {"type": "huggingface", "model": name}}
