"""Methods by name, from the fragments in ``configs/``: a retriever, a generator, a dataset.

``bm25-guided__symbolic`` is ``configs/retrievers/bm25-guided.yaml`` and
``configs/generators/symbolic.yaml``; what differs on one dataset stands in its file under
``configs/datasets/``, by the name of the retriever, the generator or the method. A component that
has no fragment goes by its name in the registry, with its defaults.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import rulerag
from rulerag.assembly.build import TOP_KEYS
from rulerag.composition import (
    Config,
    find,
    frozen,
    known_keys,
    load_config,
    merged_values,
    names,
    parse_override,
    read_values,
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
"""The fragments: inside the installed package, beside it in a checkout."""


def fragments(folder: str) -> list[str]:
    """The names of ``configs/<folder>/`` that are not variants of another."""
    names = {file.stem for file in (CONFIGS / folder).glob("*.yaml")}
    return sorted(name for name in names if name.rpartition("-")[0] not in names)


@dataclass(frozen=True)
class _About:
    """What the fragments say of a dataset.

    Args:
        values: its own settings.
        retrievers: what differs, by the name of a retriever's fragment.
        generators: by that of a generator's.
        methods: by the name of a method.
        expected: measured numbers, by the name of a method.
    """

    values: Mapping[str, Any]
    retrievers: Mapping[str, Any]
    generators: Mapping[str, Any]
    methods: Mapping[str, Any]
    expected: Mapping[str, Any]


def _about(benchmark: str, *, static: bool = False) -> _About:
    known = CONFIGS / "datasets" / f"{benchmark}.yaml"
    values: dict[str, Any] = {"metadata": {"benchmark": benchmark}}
    expected: dict[str, Any] = {}
    if benchmark and known.is_file():
        values = read_values(known)
        measured = CONFIGS / "expected" / known.name
        expected = read_values(measured) if measured.is_file() else {}
    elif static:
        values |= read_values(CONFIGS / "datasets" / "undated.yaml")
    parts = {part: values.pop(part, {}) for part in ("retrievers", "generators", "methods")}
    return _About(values, **parts, expected=expected)


def _fragment(folder: str, family: str, name: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a retriever or generator: its file, or the component of that name."""
    file = CONFIGS / folder / f"{name}.yaml"
    if file.is_file():
        return read_values(file, changes)
    if name in names(family):
        return {family: {"type": name}}
    known = [*(other.stem for other in file.parent.glob("*.yaml")), *names(family)]
    raise ConfigError(f"no {family} is called {name!r}", key=family, hint=did_you_mean(name, known))


def method(
    name: str, benchmark: str = "", overrides: Sequence[str] = (), *, static: bool = False
) -> Config:
    """The configuration of a method on a dataset.

    Args:
        name: ``<retriever>__<generator>``.
        benchmark: a file of ``configs/datasets/``, or another name: then nothing differs, but for
            what ``static`` says.
        overrides: ``key=value``, see :func:`~rulerag.composition.load_config`; every key of a
            component
            may be set.
        static: whether a dataset of another name has no dates.

    Raises:
        ConfigError: no such retriever or generator, or a wrong override.
    """
    values = _method_values(name, _about(benchmark, static=static))
    return frozen(values, overrides, keys=_keys)


@cache
def _titles() -> Mapping[str, Any]:
    """What the named methods are called in tables."""
    return read_values(CONFIGS / "methods.yaml")


def _method_values(name: str, about: _About) -> dict[str, Any]:
    retriever, both, generator = name.partition("__")
    if not both:
        raise ConfigError(
            f"{name!r} is no method and no experiment file",
            hint="name <retriever>__<generator>, such as bm25-guided__symbolic, or a YAML file",
        )
    values: dict[str, Any] = {"metadata": dict(_titles().get(name, {"method": name}))}
    for part in (
        _fragment("retrievers", "retriever", retriever, about.retrievers),
        _fragment("generators", "generator", generator, about.generators),
        about.values,
        about.methods.get(name, {}),
    ):
        values = merged_values(values, part)
    # What is found does not hang on who reads it.
    found = about.expected.get(f"{retriever}__symbolic", {})
    expected = {key: value for key, value in found.items() if key.startswith("answer_recall")}
    expected |= about.expected.get(name, {})
    return {**values, "expected": expected} if expected else values


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
    chosen, rest = _chosen(overrides)
    if str(target).endswith((".yaml", ".yml")):
        source: Path | None = Path(target)
        values = read_values(Path(target))
        _refuse_bare_names(values, Path(target))
    else:
        source, (retriever, both, generator) = None, str(target).partition("__")
        # Another half of the method's name is another method.
        if both and "retriever" in chosen:
            retriever = chosen.pop("retriever")
        if both and (CONFIGS / "generators" / f"{chosen.get('generator')}.yaml").is_file():
            generator = chosen.pop("generator")
        if dataset is None and both:
            hint = f"rulerag evaluate {target} --dataset FOLDER --out DIR"
            raise ConfigError("a method needs a dataset", key="dataset", hint=hint)
        name, dated, _ = _manifest(dataset or Path())
        about = _about(name, static=not dated)
        values = _method_values(f"{retriever}{both}{generator}", about)
    if dataset is not None:
        values = merged_values(values, {"dataset": {"path": str(dataset)}})
    for family, name in chosen.items():
        values.pop(family, None)
        values = merged_values(values, _part(family, name))
    return frozen(values, rest, source=source, keys=_keys)


def _chosen(overrides: Sequence[str]) -> tuple[dict[str, str], list[str]]:
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


def _part(family: str, name: str) -> dict[str, Any]:
    if family == "generator":
        return _generator(name)
    if family == "retriever":
        return _fragment("retrievers", family, name, {})
    return {family: {"type": name}}


def _manifest(folder: Path) -> tuple[str, bool, bool]:
    """The name of a dataset folder, and whether it has dates and predictions, as far as it says."""
    manifest = folder / "manifest.json"
    # Benchmarks of others have no manifest, and no dates.
    stated = read_json(manifest) if manifest.is_file() else {"calendar": None}
    if not isinstance(stated, dict):
        stated = {}
    home = folder.resolve().parent if folder.is_file() else folder
    foretold = stated.get("prediction") is True
    return str(stated.get("name") or home.name), bool(stated.get("calendar", True)), foretold


def _keys(values: Mapping[str, Any]) -> Iterator[str]:
    """Every key that an experiment may set."""
    yield from TOP_KEYS
    yield "dataset.query_set"
    yield from known_keys({"dataset": {}, **values})


def _refuse_bare_names(values: Mapping[str, Any], source: Path) -> None:
    """Say how a component is named in a file that states its name alone."""
    for family in ("retriever", "generator"):
        name = values.get(family)
        if isinstance(name, str):
            raise ConfigError(
                f"names {name!r}, and a file states settings",
                path=source,
                key=family,
                hint=f"write {family}: {{type: …}}, or leave it out and add {family}={name} to "
                "the command",
            )


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
            ``configs/generators/``, a YAML file with a section ``generator``, or else a causal
            language model: a folder or a name on the Hub, ``rulerag-nano-llama`` for the small one
            that is installed.

    Raises:
        ConfigError: an unknown name, the symbolic retriever without rules, ``rules="none"`` for a
            retriever of the tables, an encoder for another retriever than dense, nothing to fuse,
            or a file without the section.
    """
    if not is_variant(retriever):
        entry = find("retriever", retriever, key="retriever")
        if {"retriever", "retrievers"} & set(inspect.signature(entry.maker).parameters):
            tables = sorted(file.stem for file in (CONFIGS / "retrievers").glob("bm25-*.yaml"))
            raise ConfigError(
                f"{retriever} needs another retriever inside",
                key="retriever",
                hint=f"one of the tables, {', '.join(tables)}, or an experiment file",
            )
    if rules not in RULES:
        raise ConfigError(f"unknown choice {rules!r}", key="rules", hint=" or ".join(RULES))
    name, dated, foretold = _manifest(Path(dataset))
    # An undated corpus of one's own may well state what is asked; a retriever of the tables is what
    # it is there.
    about = _about(name, static=not dated and (foretold or is_variant(retriever)))
    values = merged_values(
        _retriever(retriever, rules, about), _generator(str(generator or "symbolic"), about)
    )
    if encoder is not None:
        if retriever.partition("-")[0] != "dense":
            raise ConfigError(
                f"{retriever} has no encoder", key="encoder", hint="add --retriever dense"
            )
        values["retriever"] = _with_innermost(values["retriever"], {"encoder": str(encoder)})
    if fusion is not None:
        values["retriever"] = _fused(values["retriever"], fusion)
    values["dataset"] = {"path": str(dataset), "query_set": query_set}
    return Config({**values, "top_k": top_k})


def following_all(config: Config) -> Config:
    """A configuration whose rules are those of every relation that a question may ask for.

    For questions in one's own words; one that has a single meaning is guided as before
    (:class:`rulerag.linking.LinkedSelector`). One without rules stays as it is.
    """
    values = config.to_dict()
    selector = values.get("selector")
    if not selector or selector.get("type") == "linked":
        return config
    return Config({**values, "selector": {"type": "linked", "selector": selector}})


def is_variant(retriever: str) -> bool:
    """Whether a retriever is one of the tables, which says itself what it does with rules."""
    return (CONFIGS / "retrievers" / f"{retriever}.yaml").is_file() and (
        retriever not in fragments("retrievers")
    )


def _retriever(retriever: str, rules: str, about: _About) -> dict[str, Any]:
    if is_variant(retriever):
        if rules == "none":
            raise ConfigError(
                f"{retriever} decides this itself",
                key="rules",
                hint=f"leave it out, or use --retriever {retriever.partition('-')[0]} --rules none",
            )
        return _fragment("retrievers", "retriever", retriever, about.retrievers)
    if retriever == "symbolic" and rules == "none":
        raise ConfigError(
            "the symbolic retriever executes rules, it cannot go without them",
            key="rules",
            hint="use --rules guided, or another retriever",
        )
    if rules == "none" or retriever == "symbolic":
        return _fragment("retrievers", "retriever", retriever, about.retrievers)
    if (CONFIGS / "retrievers" / f"{retriever}-guided.yaml").is_file():
        return _fragment("retrievers", "retriever", f"{retriever}-guided", about.retrievers)
    values = _fragment("retrievers", "retriever", "bm25-guided", about.retrievers)
    return {**values, "retriever": _with_innermost(values["retriever"], {"type": retriever})}


def _with_innermost(section: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a retriever, those of the one that searches changed."""
    if "retriever" in section:
        return {**section, "retriever": _with_innermost(section["retriever"], change)}
    return merged_values({"retriever": section}, {"retriever": change})["retriever"]  # type: ignore[no-any-return]


def _fused(section: Mapping[str, Any], fusion: str) -> dict[str, Any]:
    check_method(fusion, "fusion")
    if section["type"] != "guided":
        raise ConfigError(
            "a rule-guided list is fused with the plain one, and there are not two",
            key="fusion",
            hint="--rules guided, with another retriever than symbolic",
        )
    return {"type": "fused", "method": fusion, "retrievers": [section, section["retriever"]]}


def _generator(name: str, about: _About | None = None) -> dict[str, Any]:
    """The settings of a generator by name, by file, or by model."""
    changes = about.generators if about is not None else {}
    if (CONFIGS / "generators" / f"{name}.yaml").is_file():
        return _fragment("generators", "generator", name, changes)
    if name.endswith((".yaml", ".yml")):
        config = load_config(name)
        config.check(tuple(config), required=("generator",))
        return {"generator": config.section("generator").to_dict()}
    if name in names("generator"):
        raise ConfigError(
            f"{name!r} needs settings of its own",
            key="generator",
            hint=f"a YAML file with generator: {{type: {name}, …}}, or the folder of a model",
        )
    # A slip of the pen is named before the Hub is searched for a model of that name.
    known = [file.stem for file in (CONFIGS / "generators").glob("*.yaml")]
    models = (*SHIPPED, *known_models())
    likely = difflib.get_close_matches(name, (*known, *models), 1, 0.8)
    if likely and name not in models and not Path(name).exists():
        raise ConfigError(
            f"no generator is called {name!r}",
            key="generator",
            hint=f"did you mean {likely[0]!r}?",
        )
    return {"generator": {"type": "huggingface", "model": name}}
