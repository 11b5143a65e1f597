"""A configuration: settings that were read once and then never change.

It is data, from a file and ``key=value`` (:mod:`~rulerag.composition.files`); components receive
plain arguments made from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from rulerag.composition.files import Keys, read_values, to_yaml, with_overrides
from rulerag.errors import ConfigError, did_you_mean
from rulerag.io import fingerprint_object

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

    Nested mappings are ``Config`` objects that know where they stand. Lists are tuples, whose items
    go by their number in a path.

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
        self._values = {key: self._freeze(key, value) for key, value in values.items()}

    def _freeze(self, key: object, value: Any) -> Any:
        if not isinstance(key, str):
            raise self.error("a key must be a text", str(key), hint=f'write "{key}" in quotes')
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
        if isinstance(value, tuple):
            value = dict(zip(map(str, range(len(value))), value, strict=True))
        if not isinstance(value, Mapping):
            raise KeyError(key)
        return value[rest]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Config({self.to_dict()!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mapping) and self.to_dict() == _plain(other)

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
        others = {key: value for key, value in self.items() if key not in keys}
        return Config(others, source=self.source, where=self.where)

    def to_dict(self) -> dict[str, Any]:
        """The settings as plain dictionaries and lists, a copy."""
        return {key: _plain(value) for key, value in self._values.items()}

    def to_yaml(self) -> str:
        """The settings as YAML, in their order."""
        return to_yaml(self.to_dict())

    @cached_property
    def fingerprint(self) -> str:
        """A fingerprint of every setting, independent of files and key order."""
        return fingerprint_object(self.to_dict())


def load_config(
    path: str | Path, overrides: Sequence[str] = (), *, keys: Keys | None = None
) -> Config:
    """The configuration of a file, with ``key=value`` set in it.

    Args:
        path: the YAML file, see :func:`~rulerag.composition.files.read_values`.
        overrides: see :func:`~rulerag.composition.files.with_overrides`, like ``keys``.
        keys: see there.

    Raises:
        ConfigError: see both.
    """
    source = Path(path)
    return Config(with_overrides(read_values(source), overrides, keys, source), source=source)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _in_words(value: Any) -> str:
    if isinstance(value, Mapping):
        return "a section of keys"
    return f"{KIND_WORDS.get(type(value), type(value).__name__)} ({value!r})"
