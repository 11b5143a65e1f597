"""Experiment files: YAML with ``extends`` and overrides, read once, then frozen.

A configuration is data. It is read from one file (which may extend another), changed by
``key=value`` overrides, and never again; components receive plain arguments made from it.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from rulerag.errors import ConfigError, did_you_mean
from rulerag.io import fingerprint_object, read_text

__all__ = ["Config", "load_config", "parse_file"]

T = TypeVar("T")

_REQUIRED: Any = object()
_KIND_NAMES: dict[type, str] = {
    str: "a text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    tuple: "a list",
}
# An override may name a key by its last part, but never one of these: they describe, not configure.
_DESCRIPTIVE = ("metadata", "expected")


class Config(Mapping[str, Any]):
    """A frozen mapping of settings; keys may be dotted paths, ``config["retriever.type"]``.

    Nested mappings are ``Config`` objects that know where they stand, lists are tuples.

    Args:
        values: the settings, JSON-like.
        source: the file they come from, for messages.
        where: the dotted path of this section in the whole configuration.

    Raises:
        ConfigError: a key is not a text, or a value is not JSON-like.
    """

    def __init__(
        self, values: Mapping[str, Any], *, source: str | Path | None = None, where: str = ""
    ) -> None:
        self.source = Path(source) if source is not None else None
        self.where = where
        self._values = {self._key(key): self._freeze(key, value) for key, value in values.items()}

    def _key(self, key: object) -> str:
        if not isinstance(key, str):
            raise self.error("a key must be a text", str(key), hint=f'write "{key}" in quotes')
        return key

    def _freeze(self, key: str, value: Any) -> Any:
        if isinstance(value, Mapping):
            return Config(value, source=self.source, where=self._path(key))
        if isinstance(value, list | tuple):
            return tuple(self._freeze(f"{key}.{i}", item) for i, item in enumerate(value))
        if value is None or isinstance(value, str | bool | int | float):
            return value
        raise self.error(f"a {type(value).__name__} is no setting", key)

    def _path(self, key: str) -> str:
        return f"{self.where}.{key}" if self.where else key

    def __getitem__(self, key: str) -> Any:
        first, dot, rest = key.partition(".")
        value = self._values[first]
        if not dot:
            return value
        if not isinstance(value, Config):
            raise KeyError(key)
        return value[rest]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Config({self.to_dict()!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mapping) and self.to_dict() == _thaw(other)

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def error(
        self, message: str, key: str | None = None, *, hint: str | None = None
    ) -> ConfigError:
        """A named error about one key of this section, for the caller to raise."""
        path = self._path(key) if key is not None else self.where or None
        return ConfigError(message, path=self.source, key=path, hint=hint)

    def check(self, allowed: Iterable[str], *, required: Iterable[str] = ()) -> Config:
        """Refuse keys that nobody would read; return this section.

        Args:
            allowed: every key that may stand in this section.
            required: the keys that must stand here and not be null; they need not be repeated
                in ``allowed``.

        Raises:
            ConfigError: an unknown key (with the closest known one), or a required key is missing.
        """
        required = tuple(required)
        known = {*allowed, *required}
        for key in self:
            if key not in known:
                raise self.error("unknown key", key, hint=did_you_mean(key, known))
        for key in required:
            if self._values.get(key) is None:
                raise self.error("is missing", key, hint=f"known here: {', '.join(sorted(known))}")
        return self

    def read(self, key: str, kind: type[T], default: T | None = _REQUIRED) -> T:
        """One setting of a stated type; null counts as missing.

        Args:
            key: the key, or a dotted path.
            kind: ``str``, ``int``, ``float`` (takes whole numbers too), ``bool`` or ``tuple``.
            default: what a missing key means; without it the key must be there.

        Raises:
            ConfigError: the key is missing or of another type.
        """
        try:
            value = self[key]
        except KeyError:
            value = None
        if value is None:
            if default is _REQUIRED:
                raise self.error("is missing", key, hint=f"give {_KIND_NAMES[kind]}")
            return default  # type: ignore[return-value]
        if kind is float and type(value) is int:
            return float(value)  # type: ignore[return-value]
        if type(value) is not kind:
            raise self.error(f"expected {_KIND_NAMES[kind]}, found {_describe(value)}", key)
        return value

    def section(self, key: str) -> Config:
        """A nested section; an empty one when it is missing or null.

        Raises:
            ConfigError: the key holds something else.
        """
        try:
            value = self[key]
        except KeyError:
            value = None
        if value is None:
            return Config({}, source=self.source, where=self._path(key))
        if not isinstance(value, Config):
            raise self.error(
                f"expected a section of keys, found {_describe(value)}",
                key,
                hint=f"write {key}: {{type: …}}",
            )
        return value

    def without(self, *keys: str) -> Config:
        """The same section without some keys."""
        kept = {key: value for key, value in self.items() if key not in keys}
        return Config(kept, source=self.source, where=self.where)

    def to_dict(self) -> dict[str, Any]:
        """The settings as plain dictionaries and lists, a copy."""
        return {key: _thaw(value) for key, value in self._values.items()}

    def to_yaml(self) -> str:
        """The settings as YAML, in their order."""
        from omegaconf import OmegaConf

        return OmegaConf.to_yaml(OmegaConf.create(self.to_dict()))

    @cached_property
    def fingerprint(self) -> str:
        """A fingerprint of every setting, independent of files and key order."""
        return fingerprint_object(self.to_dict())


def load_config(path: str | Path, overrides: Sequence[str] = ()) -> Config:
    """Read an experiment file and freeze it.

    ``extends: other.yaml`` (or a list) names files, relative to the one that names them, whose
    settings come first; sections are merged key by key. A section with another ``type`` than the
    one it extends replaces it whole: the arguments of one component mean nothing to another.
    ``${other.key}`` takes the value of another key.

    Args:
        path: the YAML file.
        overrides: ``key=value``, the value in YAML. A key is a dotted path or its tail where
            that tail is unique (``query_set=full`` for ``dataset.query_set``). A leading plus adds
            a key that the file does not hold: ``+retriever.k1=1.2``.

    Raises:
        ConfigError: a file is missing, is not YAML, or extends itself; an override has no ``=`` or
            names an unknown key; a value is left open (``???``). Names file, line and key.
    """
    from omegaconf import OmegaConf
    from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

    source = Path(path)
    values = _read(source, ())
    for override in overrides:
        _override(values, override, source)
    try:
        plain = OmegaConf.to_container(
            OmegaConf.create(values), resolve=True, throw_on_missing=True
        )
    except OmegaConfBaseException as error:
        key = getattr(error, "full_key", None)
        if isinstance(error, MissingMandatoryValue):
            hint = f"write it there or add {key}=…"
            raise ConfigError("is left open (???)", path=source, key=key, hint=hint) from error
        raise ConfigError(str(error).splitlines()[0], path=source, key=key) from error
    return Config(plain, source=source)  # type: ignore[arg-type]


def _read(path: Path, chain: tuple[Path, ...]) -> dict[str, Any]:
    place = path.resolve()
    if place in chain:
        circle = " → ".join(p.name for p in (*chain[chain.index(place) :], place))
        raise ConfigError(f"extends itself ({circle})", path=path, key="extends")
    if not path.is_file():
        known = (
            [p.name for p in path.parent.glob("*.yaml") if p.resolve() not in chain]
            if path.parent.is_dir()
            else []
        )
        named = f" (extended by {chain[-1].name})" if chain else ""
        raise ConfigError(f"no such file{named}", path=path, hint=did_you_mean(path.name, known))
    values = parse_file(path)
    bases = values.pop("extends", None) or []
    merged: dict[str, Any] = {}
    for base in [bases] if isinstance(bases, str) else bases:
        if not isinstance(base, str):
            raise ConfigError(f"expected a file name, found {base!r}", path=path, key="extends")
        merged = _merge(merged, _read(path.parent / base, (*chain, place)))
    return _merge(merged, values)


def parse_file(path: Path) -> dict[str, Any]:
    """What one file holds by itself, without the files that it extends.

    Raises:
        ConfigError: it is not YAML, or holds a list.
    """
    from omegaconf import OmegaConf

    # PyYAML comes with omegaconf, which lets its parser's exceptions through.
    yaml = importlib.import_module("yaml")
    try:
        parsed = OmegaConf.to_container(OmegaConf.create(read_text(path)), resolve=False)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        reason = getattr(error, "problem", None) or str(error).splitlines()[0]
        line = mark.line + 1 if mark is not None else None
        raise ConfigError(f"not YAML ({reason})", path=path, line=line) from error
    if not isinstance(parsed, dict):
        raise ConfigError("expected keys and values, found a list", path=path)
    return parsed  # type: ignore[return-value]


def _merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        old = merged.get(key)
        merged[key] = value
        if isinstance(old, dict) and isinstance(value, dict):
            same = "type" not in value or value["type"] == old.get("type")
            merged[key] = _merge(old, value) if same else value
    return merged


def _override(values: dict[str, Any], override: str, source: Path) -> None:
    from omegaconf import OmegaConf

    yaml = importlib.import_module("yaml")
    name, equals, raw = override.partition("=")
    add, name = name.startswith("+"), name.removeprefix("+").strip()
    if not equals or not name or not all(name.split(".")):
        raise ConfigError(
            f"the override {override!r} is not key=value", hint="for example: top_k=5"
        )
    try:
        value: Any = OmegaConf.to_container(OmegaConf.from_dotlist([f"value={raw}"]))
    except yaml.YAMLError as error:
        raise ConfigError(
            f"the value of the override {override!r} is not YAML", key=name
        ) from error
    _set(values, name.split(".") if add else _locate(values, name, source), value["value"], source)


def _set(values: dict[str, Any], path: Sequence[str], value: Any, source: Path) -> None:
    section = values
    for depth, part in enumerate(path[:-1]):
        section = section.setdefault(part, {})
        if not isinstance(section, dict):
            raise ConfigError(
                "holds a value, not keys", path=source, key=".".join(path[: depth + 1])
            )
    if isinstance(section.get(path[-1]), dict) and not isinstance(value, dict):
        inside = ", ".join(f"{'.'.join(path)}.{key}=…" for key in section[path[-1]])
        raise ConfigError("is a section", path=source, key=".".join(path), hint=f"write {inside}")
    section[path[-1]] = value


def _locate(values: Mapping[str, Any], name: str, source: Path) -> list[str]:
    known = list(_paths(values))
    if name in known:
        return name.split(".")
    tails = [
        path
        for path in known
        if path.endswith(f".{name}") and path.split(".")[0] not in _DESCRIPTIVE
    ]
    if len(tails) == 1:
        return tails[0].split(".")
    if tails:
        raise ConfigError(
            f"the override '{name}' fits several keys", path=source, hint=" or ".join(tails)
        )
    names = {*known, *(path.rpartition(".")[2] for path in known)}
    hint = f"{did_you_mean(name, names)} To add a key, write +{name}=…"
    raise ConfigError("no such key to override", path=source, key=name, hint=hint)


def _paths(values: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for key, value in values.items():
        yield f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from _paths(value, f"{prefix}{key}.")


def _thaw(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _thaw(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_thaw(item) for item in value]
    return value


def _describe(value: Any) -> str:
    if isinstance(value, Mapping):
        return "a section of keys"
    return f"{_KIND_NAMES.get(type(value), type(value).__name__)} ({value!r})"
