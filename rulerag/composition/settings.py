"""Typed settings and checks of single values; errors are the library's own, by key, with a hint."""

from __future__ import annotations

import math
import types
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self, Union, get_args, get_origin

import pydantic

from rulerag.composition.config import KIND_WORDS
from rulerag.errors import ConfigError, did_you_mean

_WORDS: dict[Any, str] = {**KIND_WORDS, Path: "a path", type(None): "null"}
_SECTION = "a section of keys"


class Settings(pydantic.BaseModel):
    """Base of every typed settings class: frozen, strict, and closed to unknown keys.

    A whole number passes for a number, nothing else is converted; lists become tuples.

    Raises:
        ConfigError: an unknown or missing key, or a value of another kind or out of range. Names
            the key, what was found and what was expected.
    """

    model_config = pydantic.ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False
    )

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except pydantic.ValidationError as error:
            raise _named(error, type(self), None, "") from error

    # As of its own: else pydantic would call it for nested models, whose errors are named here.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    @classmethod
    def read(
        cls, values: Mapping[str, Any], *, source: str | Path | None = None, where: str = ""
    ) -> Self:
        """The settings of a section of a file.

        Args:
            values: the section.
            source: the file, for messages.
            where: the dotted path of the section, for messages.

        Raises:
            ConfigError: as the constructor, and names the file.
        """
        try:
            return cls.model_validate(dict(values))
        except pydantic.ValidationError as error:
            raise _named(error, cls, source, where) from error
        except ConfigError as error:  # of values that do not fit each other
            if error.path is not None:
                raise
            key = ".".join(filter(None, (where, error.key))) or None
            raise ConfigError(error.message, path=source, key=key, hint=error.hint) from error

    @classmethod
    def joined(cls, settings: Self | None, changes: Mapping[str, Any]) -> Self:
        """Settings that come together, one by one, or both.

        Args:
            settings: all of them; the defaults when None.
            changes: some of them by name, which overrule.

        Raises:
            ConfigError: as the constructor.
        """
        stated = {} if settings is None else {k: getattr(settings, k) for k in cls.model_fields}
        return cls(**{**stated, **changes})

    @pydantic.model_validator(mode="before")
    @classmethod
    def _lists_are_tuples(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        return {key: tuple(v) if isinstance(v, list) else v for key, v in values.items()}


def _named(
    error: pydantic.ValidationError, model: type[Settings], source: str | Path | None, where: str
) -> ConfigError:
    """The first thing that is wrong, as an error of the library."""
    details = error.errors()
    # A key that nobody reads explains a missing one beside it.
    first = next((one for one in details if one["type"] == "extra_forbidden"), details[0])
    keys = [where] if where else []
    known: type[Settings] | None = model
    annotation: Any = None
    for part in map(str, first["loc"]):
        if known is None:
            break
        keys.append(part)
        field = known.model_fields.get(part)
        annotation = field.annotation if field is not None else None
        inside, known = known, _section_of(annotation)
    value, hint, expected = first["input"], None, kinds_in_words(annotation)
    if first["type"] == "extra_forbidden":
        message, hint = "unknown key", did_you_mean(keys[-1], inside.model_fields)
    elif first["type"] == "missing":
        message, hint = "is missing", f"give {expected}"
    elif first["type"] == "value_error":
        message = str(first["ctx"]["error"])
    elif "ctx" in first and first["type"].startswith(("greater", "less", "too_", "multiple")):
        message, hint = f"{value!r} is out of range", first["msg"].removeprefix("Input ")
    else:
        message = f"expected {expected}, found {value!r}"
        hint = f"write {keys[-1]}: {{key: value}}" if expected == _SECTION else None
    return ConfigError(message, path=source, key=".".join(keys) or None, hint=hint)


def _section_of(annotation: Any) -> type[Settings] | None:
    """The settings model that a field holds; None where it may hold something else."""
    kinds = [kind for kind in _kinds(annotation) if kind is not type(None)]
    alone = kinds[0] if len(kinds) == 1 else None
    return alone if isinstance(alone, type) and issubclass(alone, Settings) else None


def _kinds(annotation: Any) -> tuple[Any, ...]:
    if get_origin(annotation) in (Union, types.UnionType):
        return get_args(annotation)
    return (annotation,)


def kinds_in_words(annotation: Any) -> str:
    """What a setting of this type may be, for messages and help: ``a text or null``."""
    words = dict.fromkeys(_in_words(kind) for kind in _kinds(annotation))
    return " or ".join(filter(None, words)) or "another value"


def _in_words(kind: Any) -> str:
    """What a file can state of a type; empty where it can state nothing of it."""
    origin, arguments = get_origin(kind) or kind, get_args(kind)
    if origin is Literal:
        return " or ".join(map(repr, arguments))
    if kind in _WORDS:
        return _WORDS[kind]
    if isinstance(origin, type) and issubclass(origin, (Mapping, Settings)):
        return _SECTION
    if isinstance(origin, type) and issubclass(origin, Sequence):
        items = {argument for argument in arguments if argument is not ...}
        plural = {int: "whole numbers", float: "numbers", str: "texts"}
        return f"a list of {plural.get(items.pop(), 'values')}" if len(items) == 1 else "a list"
    return ""


# --- single values -----


def check_range(key: str, value: float, low: float, high: float = math.inf, hint: str = "") -> None:
    """Raise a ConfigError unless a number lies from ``low`` to ``high``."""
    if not low <= value <= high:
        known = f"{low} or more" if high == math.inf else f"from {low} to {high}"
        raise ConfigError(f"{value} is out of range", key=key, hint=hint or known)


def check_choice(key: str, value: str, known: Iterable[str], what: str = "") -> None:
    """Raise a ConfigError unless a name is known; ``what`` it names, the key if empty."""
    if value not in known:
        raise ConfigError(
            f"unknown {what or key} {value!r}", key=key, hint=did_you_mean(value, known)
        )
