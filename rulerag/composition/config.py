"""Configurations: YAML files that may extend others, ``key=value`` over them, and what results.

A :class:`Config` is data that was read once and never changes; components receive plain arguments
made from it.
"""

from __future__ import annotations

import copy
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml

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


class Config(Mapping[str, Any]):
    """A frozen mapping of settings; keys may be dotted paths, ``config["retriever.type"]``.

    A nested mapping is given as a ``Config`` that knows where it stands, a list as a tuple; its
    items go by their number in a path.

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
        self._values: dict[str, Any] = self._plain(values, "")

    def _plain(self, value: Any, path: str) -> Any:
        """A copy in dictionaries and lists of what is JSON-like."""
        if value is None or isinstance(value, str | bool | int | float):
            return value
        if not isinstance(value, Mapping | list | tuple):
            raise self.error(f"a {type(value).__name__} is no setting", path)
        copied: dict[Any, Any] = {}
        for key, item in value.items() if isinstance(value, Mapping) else enumerate(value):
            inside = f"{path}.{key}".removeprefix(".")
            if isinstance(value, Mapping) and not isinstance(key, str):
                raise self.error("a key must be a text", inside, hint=f'write "{key}" in quotes')
            copied[key] = self._plain(item, inside)
        return copied if isinstance(value, Mapping) else [*copied.values()]

    def __getitem__(self, key: str) -> Any:
        value: Any = self._values
        for part in key.split("."):
            if isinstance(value, list):
                value = dict(zip(map(str, range(len(value))), value, strict=True))
            if not isinstance(value, Mapping):
                raise KeyError(key)
            value = value[part]
        return self._frozen(value, key)

    def _frozen(self, value: Any, key: str) -> Any:
        if isinstance(value, list):
            return tuple(self._frozen(item, f"{key}.{n}") for n, item in enumerate(value))
        if not isinstance(value, dict):
            return value
        section = copy.copy(self)
        section._values, section.where = value, self._path(key)
        return section

    def _path(self, key: str) -> str:
        return f"{self.where}.{key}" if self.where else key

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Config({self._values!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mapping) and self._values == Config(other)._values

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def error(
        self, message: str, key: str | None = None, *, hint: str | None = None
    ) -> ConfigError:
        """A named error about one key of this section, for the caller to raise."""
        path = self._path(key) if key is not None else self.where or None
        return ConfigError(message, path=self.source, key=path, hint=hint)

    def check(self, known: Iterable[str]) -> None:
        """Raise a ConfigError for a key that nobody would read, with the closest known one."""
        known = set(known)
        for key in self:
            if key not in known:
                raise self.error("unknown key", key, hint=did_you_mean(key, known))

    def read(self, key: str, kind: type[T], default: T = _REQUIRED) -> T:
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
            return default
        if type(value) is not kind and (kind, type(value)) != (float, int):
            raise self.error(f"expected {KIND_WORDS[kind]}, found {_in_words(value)}", key)
        return kind(value)  # type: ignore[call-arg]

    def section(self, key: str) -> Config:
        """A nested section; an empty one when it is missing or null.

        Raises:
            ConfigError: the key holds something else.
        """
        value = self.get(key)
        if value is None:
            return Config({}, source=self.source, where=self._path(key))
        if not isinstance(value, Config):
            found = f"expected a section of keys, found {_in_words(value)}"
            raise self.error(found, key, hint=f"write {key}: {{type: …}}")
        return value

    def without(self, *keys: str) -> Config:
        """The same section without some keys."""
        rest = copy.copy(self)
        rest._values = {key: value for key, value in self._values.items() if key not in keys}
        return rest

    def to_dict(self) -> dict[str, Any]:
        """The settings as plain dictionaries and lists, a copy."""
        return copy.deepcopy(self._values)

    def to_yaml(self) -> str:
        """The settings as YAML, in their order."""
        return to_yaml(self._values)

    @property
    def fingerprint(self) -> str:
        """A fingerprint of every setting, independent of files and key order."""
        return fingerprint_object(self._values)


def _in_words(value: Any) -> str:
    if isinstance(value, Mapping):
        return "a section of keys"
    return f"{KIND_WORDS.get(type(value), type(value).__name__)} ({value!r})"


# --- files -----

Keys = Callable[[Mapping[str, Any]], Iterable[str]]

PATH_KEYS = ("path", "weights", "adapter", "encoder", "query_encoder", "model", "tokenizer")
"""Keys whose text may be a path; names of models stand under some of them too."""

# An override may name a key by its last part, but never one of these: they describe, not configure.
_DESCRIPTIVE = ("metadata", "expected")
# YAML 1.1 takes 1e-3 for a text, and 2014-06-23 for a date.
_EXPONENT = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)[eE][-+]?\d+$")


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Reads YAML in which a key stands once in a mapping, dates are texts and 1e-3 is a number."""

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        keys = set()
        for key, _ in node.value:
            name = str(key.value)
            if name in keys:
                problem = f"found duplicate key {name}"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
            keys.add(name)
        return super().construct_mapping(node, deep=deep)


class _Dumper(yaml.SafeDumper):  # type: ignore[misc]
    """Writes what the loader reads."""


for _dialect in (_Loader, _Dumper):
    _dialect.yaml_implicit_resolvers = {
        first: [(tag, form) for tag, form in forms if tag != "tag:yaml.org,2002:timestamp"]
        for first, forms in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    _dialect.add_implicit_resolver("tag:yaml.org,2002:float", _EXPONENT, list("-+.0123456789"))


def to_yaml(values: Any) -> str:
    """Plain values as YAML, in their order."""
    text: str = yaml.dump(values, Dumper=_Dumper, allow_unicode=True, sort_keys=False)
    return text


def parse_file(path: Path) -> dict[str, Any]:
    """What one file says by itself, without the files that it extends.

    Raises:
        ConfigError: it is not YAML, or holds a list.
    """
    try:
        parsed = yaml.load(read_text(path), _Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        reason = getattr(error, "problem", None) or str(error).splitlines()[0]
        line = mark.line + 1 if mark is not None else None
        raise ConfigError(f"not YAML ({reason})", path=path, line=line) from error
    if parsed is not None and not isinstance(parsed, dict):
        raise ConfigError("expected keys and values, found a list", path=path)
    return parsed or {}


def read_values(path: Path, extended_by: tuple[Path, ...] = ()) -> dict[str, Any]:
    """What a file and those that it extends say.

    ``extends: other.yaml`` (or a list) names files, relative to the one that names them, whose
    settings come first. A path that begins with ``./`` or ``../`` is relative to the folder of the
    file that states it; another path under a key of :data:`PATH_KEYS` is looked up there first,
    then from the current folder.

    Args:
        path: the file.
        extended_by: the files that extend this one.

    Raises:
        ConfigError: a file is missing, is not YAML, or extends itself; names file and line.
    """
    resolved = path.resolve()
    if resolved in extended_by:
        circle = [*extended_by[extended_by.index(resolved) :], resolved]
        names = " → ".join(one.name for one in circle)
        raise ConfigError(f"extends itself ({names})", path=path, key="extends")
    if not path.is_file():
        beside = [one.name for one in path.parent.glob("*.yaml")]
        named = f" (extended by {extended_by[-1].name})" if extended_by else ""
        raise ConfigError(f"no such file{named}", path=path, hint=did_you_mean(path.name, beside))
    values = parse_file(path)
    bases = values.pop("extends", None) or []
    merged: dict[str, Any] = {}
    for base in [bases] if isinstance(bases, str) else bases:
        if not isinstance(base, str):
            raise ConfigError(f"expected a file name, found {base!r}", path=path, key="extends")
        merged = merged_values(merged, read_values(path.parent / base, (*extended_by, resolved)))
    return merged_values(merged, _with_places(values, path.parent))


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
        return os.path.abspath(beside).removeprefix(os.path.join(os.getcwd(), ""))
    return values


def merged_values(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Two mappings of settings as one, key by key, the second over the first.

    A section with another ``type`` replaces the whole section below it: the arguments of one
    component mean nothing to another.
    """
    merged = dict(base)
    for key, value in over.items():
        below = merged.get(key)
        merged[key] = value
        if isinstance(below, Mapping) and isinstance(value, Mapping):
            same = "type" not in value or value["type"] == below.get("type")
            merged[key] = merged_values(below, value) if same else value
    return merged


def parse_override(override: str) -> tuple[str, Any]:
    """The key and the value of ``key=value``.

    Raises:
        ConfigError: it is not of that form, has no value, or the value is not YAML.
    """
    name, equals, raw = override.partition("=")
    name = name.strip()
    if not equals or not name or not all(name.split(".")):
        hint = "for example: top_k=5"
        raise ConfigError(f"the override {override!r} is not key=value", hint=hint)
    if not raw.strip():
        hint = f"{name}=null for none, {name}='\"\"' for an empty text"
        raise ConfigError(f"the override {override!r} has no value", key=name, hint=hint)
    try:
        return name, yaml.load(raw, _Loader)
    except yaml.YAMLError as error:
        message = f"the value of the override {override!r} is not YAML"
        raise ConfigError(message, key=name) from error


def parse_settings(pairs: Iterable[str]) -> dict[str, Any]:
    """Settings from texts ``key=value``.

    Raises:
        ConfigError: as :func:`parse_override`, or a key is repeated.
    """
    values: dict[str, Any] = {}
    for key, value in map(parse_override, pairs):
        if key in values:
            raise ConfigError("is given twice", key=key)
        values[key] = value
    return values


def with_overrides(
    values: Mapping[str, Any],
    overrides: Sequence[str],
    keys: Keys | None = None,
    source: Path | None = None,
) -> dict[str, Any]:
    """Settings with ``key=value`` set in them.

    Args:
        values: the settings.
        overrides: ``key=value``, the value in YAML. A key is a dotted path or its tail where that
            tail is unique (``query_set=full`` for ``dataset.query_set``).
        keys: gives further dotted keys that may be set, such as those that the components of the
            settings take beside what is stated.
        source: the file, for messages.

    Raises:
        ConfigError: an override has no ``=``, no value, is repeated or names an unknown key; names
            file and key.
    """
    changed = copy.deepcopy(dict(values))
    done: set[str] = set()
    for override in overrides:
        name, value = parse_override(override)
        key = _whole_key(changed, name, keys, source)
        if key in done:
            hint = "leave one of them out"
            raise ConfigError("is set twice by overrides", path=source, key=key, hint=hint)
        done.add(key)
        _set(changed, key, value, source)
    return changed


def _set(values: dict[str, Any], key: str, value: Any, source: Path | None) -> None:
    section, parts = values, key.split(".")
    for depth, part in enumerate(parts[:-1], start=1):
        if section.get(part) is None:
            section[part] = {}
        section = section[part]
        if not isinstance(section, dict):
            raise ConfigError("holds a value, not keys", path=source, key=".".join(parts[:depth]))
    if isinstance(section.get(parts[-1]), dict) and isinstance(value, str | int | float):
        inside = ", ".join(f"{key}.{one}=…" for one in section[parts[-1]])
        raise ConfigError("is a section", path=source, key=key, hint=f"write {inside}")
    section[parts[-1]] = value


def _whole_key(values: Mapping[str, Any], name: str, keys: Keys | None, source: Path | None) -> str:
    """The whole path of a key, which may be named by its tail."""
    stated = list(_paths(values))
    if name in stated:
        return name
    known = dict.fromkeys([*stated, *(keys(values) if keys else ())])
    if name in known:
        return name
    ends = [path for path in known if path.endswith(f".{name}")]
    tails = [path for path in ends if path.partition(".")[0] not in _DESCRIPTIVE]
    for fitting in (tails, [path for path in tails if path in stated]):
        if len(fitting) == 1:
            return fitting[0]
    if tails:
        message = f"the override '{name}' fits several keys"
        raise ConfigError(message, path=source, hint=" or ".join(tails))
    hint = did_you_mean(name, {*known, *(path.rpartition(".")[2] for path in known)})
    raise ConfigError("no such key to override", path=source, key=name, hint=hint)


def _paths(values: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for key, value in values.items():
        yield f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from _paths(value, f"{prefix}{key}.")


def load_config(
    path: str | Path, overrides: Sequence[str] = (), *, keys: Keys | None = None
) -> Config:
    """The configuration of a file, with ``key=value`` set in it.

    Args:
        path: the YAML file, see :func:`read_values`.
        overrides: see :func:`with_overrides`, like ``keys``.
        keys: see there.

    Raises:
        ConfigError: see both.
    """
    source = Path(path)
    return Config(with_overrides(read_values(source), overrides, keys, source), source=source)
