"""Frozen dataclasses that are written as JSON objects and read again, field by field."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, fields
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Self, get_args, get_origin, get_type_hints

from rulerag.errors import DataFormatError

_hints: Callable[[type], dict[str, Any]] = cache(get_type_hints)


@dataclass(frozen=True)
class Record:
    """Base of what stands in ``explanations.jsonl``; its object has a key for each field.

    A subclass whose object has other keys overrides a method.
    """

    def to_json(self) -> dict[str, Any]:
        """The record as a JSON object."""
        return {field.name: _written(getattr(self, field.name)) for field in fields(self)}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Self:
        """Read the object that ``to_json`` makes; keys that are no fields are left aside.

        Raises:
            DataFormatError: a key is missing or has the wrong type.
        """
        values = {}
        for field in fields(cls):
            if field.name not in row:
                raise DataFormatError("this key is missing from the explanation", key=field.name)
            values[field.name] = _read(_hints(cls)[field.name], row[field.name], field.name)
        return cls(**values)


def _written(value: Any) -> Any:
    if hasattr(value, "to_json"):
        return value.to_json()
    if isinstance(value, Set):
        return sorted(map(_written, value))
    if isinstance(value, tuple):
        return [_written(one) for one in value]
    return dict(value) if isinstance(value, Mapping) else value


def _read(kind: Any, value: Any, key: str) -> Any:
    """The value of a key as a field's type wants it."""
    kind, *others = get_args(kind) if isinstance(kind, UnionType) else (kind,)
    if value is None and NoneType in others:
        return None
    shape, parts = get_origin(kind) or kind, get_args(kind)
    if shape is Literal:
        if value in parts:
            return value
    elif shape in (tuple, frozenset) and isinstance(value, list | tuple):
        many = shape is frozenset or parts[-1] is Ellipsis
        if many or len(parts) == len(value):
            kinds = [parts[0]] * len(value) if many else parts
            return shape(_read(part, one, key) for part, one in zip(kinds, value, strict=True))
    elif issubclass(shape, tuple) and isinstance(value, list | tuple):  # a named one
        kinds = list(_hints(shape).values())
        if len(kinds) == len(value):
            return shape(*(_read(part, one, key) for part, one in zip(kinds, value, strict=True)))
    elif hasattr(shape, "from_json") and isinstance(value, Mapping):
        return shape.from_json(value)
    elif shape is Mapping and isinstance(value, Mapping):
        return dict(value)
    elif isinstance(value, bool) == (shape is bool):  # a bool is an int, too, in Python
        if shape is float and isinstance(value, int | float):
            return float(value)
        if isinstance(value, shape):
            return value
    raise DataFormatError(f"unexpected {type(value).__name__} in an explanation", key=key)
