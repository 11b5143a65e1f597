"""The composition model: every component has a name, typed settings, and is built from them alone.

A component is one class (or function that makes one) under ``@register(family, name)``::

    @register("retriever", "mine")
    class MyRetriever:
        def __init__(self, documents: Sequence[Document], *, k: int = 3) -> None: ...

- Its **settings** are the keyword parameters of its constructor: names, types and defaults are
  stated there and nowhere else (:attr:`Entry.settings` is the pydantic model made from them).
  Where they are many, a constructor takes them together or one by one: ``settings: MySettings |
  None = None, **changes``, with :class:`~rulerag.composition.Settings` as base, joined by
  ``MySettings.joined(settings, changes)``. The fields of the model are keys like any other.
- A parameter with the name of a **family** (``retriever``, ``evidence``; a plural holds a list, and
  ``parts`` names others) holds a component of it. Wrappers nest in a configuration as they nest in
  code: ``{type: guided, merge: evidence, retriever: {type: bm25}}``.
- A parameter with the name of a **shared resource** (:data:`SHARED`: the documents, the rule bank,
  labels …) is no setting: the builder (:mod:`rulerag.assembly.build`) hands it over.
- Nothing is imported until a name is used. The names of the library's own components are read from
  the decorators in its source files; a package of others names a module of its own in the entry
  point group ``rulerag.components``, which is imported when a name is not the library's.

Configuration checks, overrides on the command line, help and the contract tests derive from here.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import logging
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import metadata
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Union, get_args, get_origin

from rulerag.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from rulerag.composition.settings import Settings


_LOG = logging.getLogger(__name__)

C = TypeVar("C", bound=Callable[..., Any])

FAMILIES: Mapping[str, str] = {
    "miner": "",
    "selector": "head",
    "scorer": "",
    "evidence": "grounded",
    "retriever": "",
    "merge": "",
    "generator": "",
    "prompt": "rule-guided",
    "explainer": "",
    "dataset": "folder",
}
"""The kinds of components, and what a section without ``type`` means; empty where it must say."""

SHARED = frozenset(
    {
        "documents",
        "facts",
        "examples",
        "bank",
        "labels",
        "all_labels",
        "known",
        "linker",
        "rule_label",
        "entity_label",
        "time_step",
        "time_unit",
        "dataset_fingerprint",
        "progress",
    }
)
"""What a constructor may ask for by the name of a parameter; see :mod:`rulerag.assembly.build`."""

GROUP = "rulerag.components"
"""The entry point group of packages that add components."""

_ROOT = Path(__file__).parents[1]
_DECORATED = re.compile(
    r'^@register\(\s*"([a-z]+)",\s*"([a-z0-9_-]+)"[^()]*\)\n(?=(?:@[^\n]+\n)*(?:class|def) (\w+))',
    re.MULTILINE,
)


@dataclass(frozen=True)
class Entry:
    """A component by name.

    Args:
        family: what it is, a key of :data:`FAMILIES`.
        name: its ``type`` in a configuration.
        defined: where, as ``module:name``.
        parts: the family of each parameter that holds a component and is not named as its family.
        shared: the shared resource of each parameter that is not named as its resource.
        make: the class method that makes it, where that is not the constructor.
        load: the class method, or the function beside it, that opens its index from a folder.
    """

    family: str
    name: str
    defined: str
    parts: Mapping[str, str] = field(default_factory=dict)
    shared: Mapping[str, str] = field(default_factory=dict)
    make: str = ""
    load: str = ""

    @cached_property
    def component(self) -> Any:
        """The class or function."""
        module, _, attribute = self.defined.partition(":")
        return getattr(importlib.import_module(module), attribute)

    @property
    def maker(self) -> Callable[..., Any]:
        """What makes an object of it."""
        made: Callable[..., Any] = self.component
        return getattr(made, self.make) if self.make else made

    @cached_property
    def loader(self) -> Callable[..., Any] | None:
        """What opens its index from a folder; None where it keeps none."""
        if not self.load:
            return None
        home = sys.modules[self.component.__module__]
        found: Callable[..., Any] = getattr(self.component, self.load, None) or getattr(
            home, self.load
        )
        return found

    @cached_property
    def injected(self) -> Mapping[str, str]:
        """Parameters that the builder fills, each with the name of its resource."""
        return _injected(self.maker, self.shared)

    @cached_property
    def holds(self) -> Mapping[str, str]:
        """Parameters that hold components, each with its family; ``family*`` holds a list."""
        plurals = {f"{family}s": f"{family}*" for family in FAMILIES}
        families = {**{family: family for family in FAMILIES}, **plurals, **self.parts}
        taken = inspect.signature(self.maker).parameters
        return {name: families[name] for name in taken if name in families}

    @cached_property
    def settings(self) -> type[Settings]:
        """The model of its settings: keyword parameters but for parts and shared resources."""
        # Where one function makes and opens, its folder is named by the run, not by the component.
        opened = {"folder"} if self.load and self.loader is self.maker else set()
        return _settings_of(self.maker, self.name, {*self.injected, *self.holds, *opened})

    @property
    def keys(self) -> list[str]:
        """Every key that its section may hold."""
        return ["type", *self.settings.model_fields, *self.holds]


_REGISTERED: dict[tuple[str, str], Entry] = {}


def register(
    family: str,
    name: str,
    *,
    parts: Mapping[str, str] | None = None,
    shared: Mapping[str, str] | None = None,
    make: str = "",
    load: str = "",
) -> Callable[[C], C]:
    """Give a class, or a function that makes an object, a name for configurations.

    Args:
        family: a key of :data:`FAMILIES`.
        name: the ``type``.
        parts: see :class:`Entry`, like all that follow.
        shared: see there.
        make: see there.
        load: see there.

    Raises:
        ConfigError: no such family, or another component has this name; names both places.
    """

    def decorate(component: C) -> C:
        if family not in FAMILIES:
            raise ConfigError(
                f"there is no family {family!r} of components", hint=did_you_mean(family, FAMILIES)
            )
        defined = f"{component.__module__}:{component.__qualname__}"
        entry = Entry(family, name, defined, parts or {}, shared or {}, make, load)
        entry.__dict__["component"] = component  # may be local to a function
        known = _REGISTERED.get((family, name))
        other = known.defined if known is not None else _own().get((family, name), defined)
        if other != defined:
            raise ConfigError(
                f"two components of the family {family} are called {name!r}",
                hint=f"rename one: {other} or {defined}",
            )
        _REGISTERED[family, name] = entry
        return component

    return decorate


@functools.cache
def _own() -> Mapping[tuple[str, str], str]:
    """Where the library's components are, by family and name, read from their decorators."""
    found: dict[tuple[str, str], str] = {}
    for file in sorted(_ROOT.glob("*/**/*.py")):
        text = file.read_text(encoding="utf-8")
        if "\n@register(" not in text:
            continue
        module = ".".join((_ROOT.name, *file.relative_to(_ROOT).with_suffix("").parts))
        for family, name, attribute in _DECORATED.findall(text):
            defined = f"{module.removesuffix('.__init__')}:{attribute}"
            if found.setdefault((family, name), defined) != defined:
                raise ConfigError(
                    f"two components of the family {family} are called {name!r}",
                    hint=f"rename one: {found[family, name]} or {defined}",
                )
    return found


@functools.cache
def _plug_ins() -> None:
    """Import the modules that other packages name; one that fails is named and left out."""
    for point in metadata.entry_points(group=GROUP):
        try:
            point.load()
        except Exception as error:  # noqa: BLE001  (it is the code of others)
            _LOG.warning(
                "the plug-in %r (%s) is left out: %s: %s",
                point.name,
                point.value,
                type(error).__name__,
                error,
            )


def names(family: str) -> list[str]:
    """The names of a family's components, those of plug-ins too."""
    _plug_ins()
    return sorted({name for kind, name in (*_own(), *_REGISTERED) if kind == family})


def find(family: str, name: str, *, key: str = "type") -> Entry:
    """The component of this name; imports its module.

    Args:
        family: a key of :data:`FAMILIES`.
        name: one of its names.
        key: where the name stands, for messages.

    Raises:
        ConfigError: the family has no such name; lists those it has.
    """
    defined = _own().get((family, name))
    if defined is not None and (family, name) not in _REGISTERED:
        importlib.import_module(defined.partition(":")[0])
    elif defined is None and (family, name) not in _REGISTERED:
        _plug_ins()
    entry = _REGISTERED.get((family, name))
    if entry is None:
        raise ConfigError(
            f"no {family} is called {name!r}", key=key, hint=did_you_mean(name, names(family))
        )
    return entry


def known_keys(config: Mapping[str, Any]) -> Iterator[str]:
    """The dotted path of every setting that the components of a configuration take.

    Args:
        config: sections by key; those under the name of a family are components.
    """
    for key, section in config.items():
        if key in FAMILIES and isinstance(section, Mapping):
            yield from _keys_of(key, section, key)


def _keys_of(family: str, section: Mapping[str, Any], where: str) -> Iterator[str]:
    name = section.get("type") or FAMILIES[family]
    if not isinstance(name, str) or not name:
        return
    entry = find(family, name, key=f"{where}.type")
    for key in entry.keys:
        yield f"{where}.{key}"
        part = entry.holds.get(key, "")
        if part and not part.endswith("*") and (key in section or FAMILIES[part]):
            inside = section.get(key) or {}
            if isinstance(inside, Mapping):
                yield from _keys_of(part, inside, f"{where}.{key}")


def retriever_name(section: Mapping[str, Any]) -> str:
    """What a retriever's settings are called in results: ``bm25-guided``, ``dense-guided-fused``.

    Args:
        section: the settings; wrappers but for rules and fusion are left out.
    """
    kind = str(section.get("type", ""))
    inside = section.get("retriever") or next(iter(section.get("retrievers") or ()), None)
    if not isinstance(inside, Mapping):
        return kind
    suffix = {"guided": "-guided", "fused": "-fused"}.get(kind, "")
    return retriever_name(inside) + suffix


def innermost(section: Any) -> Any:
    """The settings of the retriever that searches, inside those of its wrappers.

    Args:
        section: a retriever's settings; of several that are fused, the first counts.
    """
    inside = section.get("retriever") or next(iter(section.get("retrievers") or ()), None)
    return innermost(inside) if isinstance(inside, Mapping) else section


# --- settings from a signature -----------------------------------------------------------------


def _injected(maker: Callable[..., Any], shared: Mapping[str, str]) -> dict[str, str]:
    taken = inspect.signature(maker).parameters
    return {name: shared.get(name, name) for name in taken if name in shared or name in SHARED}


def _settings_of(maker: Callable[..., Any], name: str, others: set[str]) -> type[Settings]:
    import pydantic  # here: components are registered without it

    from rulerag.composition.settings import Settings

    function = maker.__init__ if isinstance(maker, type) else maker  # type: ignore[misc]
    scope = getattr(inspect.unwrap(function), "__globals__", {})
    fields: dict[str, Any] = {}
    for key, parameter in inspect.signature(maker).parameters.items():
        if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL) or key in others:
            continue
        group = _group(parameter.annotation, scope)
        if group is not None:
            for one, described in group.model_fields.items():
                fields[one] = (_setting(described.annotation, scope) or Any, _unstated())
            continue
        kind = _setting(parameter.annotation, scope)
        if kind is not None:
            needed = parameter.default is parameter.empty
            fields[key] = (kind, ... if needed else _unstated())
    model: type[Settings] = pydantic.create_model(
        f"{''.join(part.title() for part in re.split('[-_]', name))}Settings",
        __base__=Settings,
        __module__=__name__,
        **fields,
    )
    return model


def _unstated() -> Any:
    """The default stays with the constructor: a key that is not stated is not passed on."""
    import pydantic

    return pydantic.Field(default=None, validate_default=False)


def _group(annotation: Any, scope: Mapping[str, Any]) -> type[Settings] | None:
    """The settings model that a parameter takes; None where it takes something else."""
    from rulerag.composition.settings import Settings

    kinds = [k for k in _alternatives(annotation, scope) if k not in (None, type(None))]
    alone = kinds[0] if len(kinds) == 1 else None
    return alone if isinstance(alone, type) and issubclass(alone, Settings) else None


def _setting(annotation: Any, scope: Mapping[str, Any]) -> Any:
    """The part of a parameter's type that a file can state; None where there is no such part."""
    kinds = [_stated(kind) for kind in _alternatives(annotation, scope)]
    kept = [kind for kind in kinds if kind is not None]
    if not [kind for kind in kept if kind is not type(None)]:
        return None
    return functools.reduce(lambda one, other: Union[one, other], kept)  # noqa: UP007


def _alternatives(annotation: Any, scope: Mapping[str, Any]) -> list[Any]:
    """The members of a union; those whose names are imported for type checkers alone drop out."""
    if annotation is inspect.Parameter.empty:
        return [Any]
    if not isinstance(annotation, str):
        union = get_origin(annotation) in (Union, UnionType)
        return list(get_args(annotation)) if union else [annotation]
    found: list[Any] = []
    stack = [ast.parse(annotation, mode="eval").body]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.BinOp):
            stack += [node.right, node.left]
            continue
        try:
            found.append(eval(ast.unparse(node), dict(scope)))
        except NameError:
            continue
    return found


def _stated(kind: Any) -> Any:
    """A type as a configuration file can state it."""
    if kind is None:
        return type(None)
    if kind in (Any, str, int, float, bool, type(None)):
        return kind
    if kind is Path:
        return str
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        return kind
    if origin in (Sequence, list, tuple):
        items = [_stated(argument) for argument in arguments if argument is not ...]
        if len(items) == 1 and items[0] is not None:
            return tuple[items[0], ...]  # type: ignore[valid-type]
        return tuple[tuple(items)] if items and None not in items else None  # type: ignore[misc]
    if origin in (Mapping, dict):
        return Mapping[str, Any]
    return None
