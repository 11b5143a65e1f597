"""Commands whose parameters are settings: a flag for each field."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from inspect import Parameter, Signature, signature
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import typer


def by_flags(**options: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command a flag for each field of its parameters that are settings.

    Such a parameter is a dataclass, whose fields are annotated as parameters are, or a
    :class:`~rulerag.composition.Settings`, the description of whose fields is the help. The
    command line, the help and the errors are those of a command with one parameter a flag.

    Args:
        options: the typer option of single fields, by name, in place of their description.
    """

    def decorate(work: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(work, include_extras=True)
        groups: dict[str, tuple[Any, list[Parameter]]] = {}
        flags: list[Parameter] = []
        for name, parameter in signature(work).parameters.items():
            kind = hints[name]
            if is_dataclass(kind) or hasattr(kind, "model_fields"):
                groups[name] = (kind, list(_flags_of(kind, options)))
                flags += groups[name][1]
            else:
                flags.append(parameter.replace(kind=Parameter.KEYWORD_ONLY, annotation=kind))

        @functools.wraps(work)
        def command(**values: Any) -> None:
            for name, (kind, own) in groups.items():
                given = {flag.name: values.pop(flag.name, flag.default) for flag in own}
                values[name] = kind(**{key: one for key, one in given.items() if one is not None})
            work(**values)

        command.__signature__ = Signature(flags)  # type: ignore[attr-defined]
        command.__annotations__ = {flag.name: flag.annotation for flag in flags}
        return command

    return decorate


def _flags_of(kind: Any, options: Mapping[str, Any]) -> Iterator[Parameter]:
    """A keyword parameter for each field of a settings class."""
    hints = get_type_hints(kind, include_extras=True)
    for name in [field.name for field in fields(kind)] if is_dataclass(kind) else kind.model_fields:
        default, annotation = getattr(kind, name, Parameter.empty), hints[name]
        if not is_dataclass(kind):
            field = kind.model_fields[name]
            default = field.default
            option = options.get(name) or typer.Option(help=field.description)
            annotation = Annotated[_flag_type(field.annotation), option]
        if default == ():
            default = None
        yield Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _flag_type(kind: Any) -> Any:
    """A field's type as a flag states it: one of some words is a text, several values a list."""
    if get_origin(kind) is Literal:
        return str
    if get_origin(kind) is tuple:
        return list[get_args(kind)[0]] | None  # type: ignore[misc]
    if get_origin(kind) in (Union, UnionType):
        return functools.reduce(operator.or_, map(_flag_type, get_args(kind)))
    return kind
