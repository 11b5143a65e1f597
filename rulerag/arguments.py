"""A section of a configuration as the arguments of a constructor, checked before it is called."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence
from typing import Any

from rulerag.config import Config
from rulerag.errors import ConfigError

__all__ = ["arguments", "construct", "parameters"]

# The kinds of settings by the annotation of a parameter, in words.
_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "a text",
    "Sequence[str]": "a list of texts",
    "Sequence[int]": "a list of whole numbers",
    "Sequence[float]": "a list of numbers",
    "None": "null",
}


def parameters(component: Any, *, given: Sequence[str] = ()) -> set[str]:
    """The names of a constructor's parameters that a configuration may set.

    Args:
        component: the class, or a function that makes an object of it.
        given: the parameters that the caller sets.
    """
    return set(inspect.signature(component).parameters) - set(given)


def arguments(component: Any, section: Config, *, given: Sequence[str] = ()) -> dict[str, Any]:
    """A section's keys as arguments, without ``type``, which names the component.

    Args:
        component: the class, or a function that makes an object of it.
        section: the settings.
        given: the parameters that the caller sets.

    Raises:
        ConfigError: a key that no parameter takes, or a value of another kind than its parameter
            is annotated with; names file and key.
    """
    plain = section.without("type").check(parameters(component, given=given))
    known = inspect.signature(component).parameters
    for key, value in plain.items():
        kinds = _kinds(known[key].annotation)
        if kinds and not any(_fits(value, kind) for kind in kinds):
            words = " or ".join(_KINDS[kind] for kind in kinds)
            raise plain.error(f"expected {words}, found {value!r}", key)
    return plain.to_dict()


def construct(component: Any, section: Config, given: Mapping[str, Any]) -> Any:
    """Make the component from a section and what the caller gives.

    Args:
        component: the class, or a function that makes an object of it.
        section: the settings.
        given: the arguments that are no settings, such as the documents.

    Raises:
        ConfigError: as in :func:`arguments`, or the component refused a value.
    """
    settings = arguments(component, section, given=tuple(given))
    try:
        return component(**given, **settings)
    except ConfigError as error:
        if error.path is not None or error.key is None:
            raise
        raise section.error(error.message, error.key, hint=error.hint) from error


def _kinds(annotation: object) -> list[str]:
    """The kinds of settings that an annotation allows; none when it is not told in words."""
    if not isinstance(annotation, str):
        return []
    return [kind for kind in map(str.strip, annotation.split("|")) if kind in _KINDS]


def _fits(value: Any, kind: str) -> bool:
    if kind == "float":
        return type(value) in (int, float) and math.isfinite(value)
    if kind.startswith("Sequence"):
        item = kind.removeprefix("Sequence[").removesuffix("]")
        return isinstance(value, tuple) and all(_fits(part, item) for part in value)
    return type(value) is {"int": int, "bool": bool, "str": str, "None": type(None)}[kind]
