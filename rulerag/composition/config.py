"""Experiment files: YAML with ``extends`` and overrides, read once, then frozen.

A configuration is data. It is read from one file (which may extend another), changed by
``key=value`` overrides, and never again; components receive plain arguments made from it.
"""

from __future__ import annotations

import copy
import importlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, TypeVar

from rulerag.errors import ConfigError, did_you_mean
from rulerag.io import fingerprint_object, read_text

T = TypeVar("T")

_REQUIRED: Any = object()
KIND_WORDS: dict[type, str] = {
    str: "a text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    tuple: "a list",
}
# An override may name a key by its last part, but never one of these: they describe, not configure.
_DESCRIPTIVE = ("metadata", "expected")
PATH_KEYS = ("path", "weights", "adapter", "encoder", "query_encoder", "model", "tokenizer")
"""Keys whose text may be a path; names of models stand under some of them too."""


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
        value = self.get(key)
        if value is None:
            if default is _REQUIRED:
                raise self.error("is missing", key, hint=f"give {KIND_WORDS[kind]}")
            return default  # type: ignore[return-value]
        if kind is float and type(value) is int:
            return float(value)  # type: ignore[return-value]
        if type(value) is not kind:
            raise self.error(f"expected {KIND_WORDS[kind]}, found {_describe(value)}", key)
        return value

    def section(self, key: str) -> Config:
        """A nested section; an empty one when it is missing or null.

        Raises:
            ConfigError: the key holds something else.
        """
        value = self.get(key)
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


def load_config(
    path: str | Path,
    overrides: Sequence[str] = (),
    *,
    keys: Callable[[Mapping[str, Any]], Iterable[str]] | None = None,
) -> Config:
    """Read an experiment file and freeze it.

    ``extends: other.yaml`` (or a list) names files, relative to the one that names them, whose
    settings come first; sections are merged key by key. A section with another ``type`` than the
    one it extends replaces it whole: the arguments of one component mean nothing to another.
    ``${other.key}`` takes the value of another key. A path that begins with ``./`` or ``../`` is
    relative to the folder of the file that states it; another path under a key of
    :data:`PATH_KEYS` is looked up there first, then from the current folder.

    Args:
        path: the YAML file.
        overrides: ``key=value``, the value in YAML, paths from the current folder. A key is a
            dotted path or its tail where that tail is unique (``query_set=full`` for
            ``dataset.query_set``).
        keys: gives further dotted keys that may be set, such as those that the components of the
            file take beside what it states.

    Raises:
        ConfigError: a file is missing, is not YAML, or extends itself; an override has no ``=``, no
            value, is repeated or names an unknown key; a value is left open (``???``). Names file,
            line and key.
    """
    source = Path(path)
    return frozen(read_values(source), overrides, source=source, keys=keys)


def frozen(
    values: dict[str, Any],
    overrides: Sequence[str] = (),
    *,
    source: str | Path | None = None,
    keys: Callable[[Mapping[str, Any]], Iterable[str]] | None = None,
) -> Config:
    """Settings with overrides and references in place; arguments as those of :func:`load_config`.

    Raises:
        ConfigError: see there.
    """
    from omegaconf import OmegaConf
    from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

    seen: set[str] = set()
    for override in overrides:
        _override(values, override, source, keys, seen)
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


def read_values(
    path: Path,
    changes: Mapping[str, Mapping[str, Any]] | None = None,
    chain: tuple[Path, ...] = (),
) -> dict[str, Any]:
    """What a file and those that it extends hold, before references are resolved.

    Args:
        path: the file.
        changes: by the name of a file without its suffix, settings that replace its own.
        chain: the files that extend this one.

    Raises:
        ConfigError: see :func:`load_config`.
    """
    resolved = path.resolve()
    if resolved in chain:
        circle = " → ".join(p.name for p in (*chain[chain.index(resolved) :], resolved))
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
        merged = merged_values(merged, read_values(path.parent / base, changes, (*chain, resolved)))
    merged = merged_values(merged, _with_places(values, path.parent))
    return merged_values(merged, (changes or {}).get(path.stem, {}))


def _with_places(values: Any, folder: Path, key: str = "") -> Any:
    """The values of a file, paths as the current folder sees them."""
    if isinstance(values, Mapping):
        return {name: _with_places(value, folder, str(name)) for name, value in values.items()}
    if isinstance(values, list):
        return [_with_places(value, folder, key) for value in values]
    if not isinstance(values, str):
        return values
    beside = folder / values
    if values.startswith(("./", "../")) or (key in PATH_KEYS and values and beside.exists()):
        whole = os.path.abspath(beside)
        here = os.path.join(os.getcwd(), "")
        return whole.removeprefix(here)
    return values


def parse_file(path: Path) -> dict[str, Any]:
    """What one file holds by itself, without the files that it extends.

    Raises:
        ConfigError: it is not YAML, or holds a list.
    """
    # PyYAML comes with omegaconf, which lets its parser's exceptions through.
    yaml = importlib.import_module("yaml")
    try:
        parsed = copy.deepcopy(_parsed(read_text(path)))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        reason = getattr(error, "problem", None) or str(error).splitlines()[0]
        line = mark.line + 1 if mark is not None else None
        raise ConfigError(f"not YAML ({reason})", path=path, line=line) from error
    if not isinstance(parsed, dict):
        raise ConfigError("expected keys and values, found a list", path=path)
    return parsed


@lru_cache(maxsize=256)
def _parsed(text: str) -> Any:
    """What a YAML text holds; fragments are parsed once, however many methods they are part of."""
    from omegaconf import OmegaConf

    return OmegaConf.to_container(OmegaConf.create(text), resolve=False)


def merged_values(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Two mappings of settings as one, key by key; see :func:`load_config`."""
    merged = dict(base)
    for key, value in over.items():
        old = merged.get(key)
        merged[key] = value
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            same = "type" not in value or value["type"] == old.get("type")
            merged[key] = merged_values(old, value) if same else value
    return merged


def parse_override(override: str) -> tuple[str, Any]:
    """The key and the value of ``key=value``.

    Raises:
        ConfigError: it is not of that form, has no value, or the value is not YAML.
    """
    from omegaconf import OmegaConf

    yaml = importlib.import_module("yaml")
    name, equals, raw = override.partition("=")
    name = name.strip()
    if not equals or not name or not all(name.split(".")):
        raise ConfigError(
            f"the override {override!r} is not key=value", hint="for example: top_k=5"
        )
    if not raw.strip():
        hint = f"{name}=null for none, {name}='\"\"' for an empty text"
        raise ConfigError(f"the override {override!r} has no value", key=name, hint=hint)
    try:
        value: Any = OmegaConf.to_container(OmegaConf.from_dotlist([f"value={raw}"]))
    except yaml.YAMLError as error:
        raise ConfigError(
            f"the value of the override {override!r} is not YAML", key=name
        ) from error
    return name, value["value"]


def _override(
    values: dict[str, Any],
    override: str,
    source: str | Path | None,
    keys: Callable[[Mapping[str, Any]], Iterable[str]] | None,
    seen: set[str],
) -> None:
    name, value = parse_override(override)
    path = _locate(values, name, source, keys)
    dotted = ".".join(path)
    if dotted in seen:
        raise ConfigError(
            "is set twice by overrides", path=source, key=dotted, hint="leave one of them out"
        )
    seen.add(dotted)
    section = values
    for depth, part in enumerate(path[:-1]):
        if section.get(part) is None:
            section[part] = {}
        section = section[part]
        if not isinstance(section, dict):
            raise ConfigError(
                "holds a value, not keys", path=source, key=".".join(path[: depth + 1])
            )
    if isinstance(section.get(path[-1]), dict) and isinstance(value, str | int | float):
        inside = ", ".join(f"{dotted}.{key}=…" for key in section[path[-1]])
        raise ConfigError("is a section", path=source, key=dotted, hint=f"write {inside}")
    section[path[-1]] = value


def _locate(
    values: Mapping[str, Any],
    name: str,
    source: str | Path | None,
    keys: Callable[[Mapping[str, Any]], Iterable[str]] | None,
) -> list[str]:
    """The whole path of a key, which may be named by its tail."""
    stated = list(_paths(values))
    if name in stated:
        return name.split(".")
    known = [*stated, *(key for key in (keys(values) if keys else ()) if key not in stated)]
    if name in known:
        return name.split(".")
    tails = [
        path
        for path in known
        if path.endswith(f".{name}") and path.split(".")[0] not in _DESCRIPTIVE
    ]
    here = [path for path in tails if path in stated]
    for found in (tails, here):
        if len(found) == 1:
            return found[0].split(".")
    if tails:
        raise ConfigError(
            f"the override '{name}' fits several keys", path=source, hint=" or ".join(tails)
        )
    names = {*known, *(path.rpartition(".")[2] for path in known)}
    raise ConfigError(
        "no such key to override", path=source, key=name, hint=did_you_mean(name, names)
    )


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
    return f"{KIND_WORDS.get(type(value), type(value).__name__)} ({value!r})"
