"""Components by name: what a name stands for, and the settings that it takes.

A component is one class (or function that makes one) under ``@register(family, name)``::

    @register("retriever", "mine")
    class MyRetriever:
        def __init__(self, documents: Sequence[Document], *, k: int = 3) -> None: ...

- Its **settings** are the parameters of its constructor: names, types and defaults are stated there
  and nowhere else (:attr:`Entry.settings` is the pydantic model of them). Where they are many, the
  constructor takes a model together or one by one: ``settings: MySettings | None = None,
  **changes``, with :class:`~rulerag.composition.Settings` as base, joined by
  ``MySettings.joined(settings, changes)``.
- A parameter with the name of a **family** (``retriever``, ``evidence``; a plural holds a list, and
  ``parts`` names others) holds a component of it. Wrappers nest in a configuration as they nest in
  code: ``{type: guided, merge: evidence, retriever: {type: bm25}}``.
- A parameter with the name of a **shared resource** (:data:`SHARED`: the documents, the rule bank,
  labels …) is no setting: the builder (:mod:`rulerag.assembly.build`) hands it over.
- A module is imported when one of its names is used. ``components.toml`` says in which module each
  component of the library is; a package of others names its modules in the entry point group
  ``rulerag.components``, which are imported when a name is not the library's.

Configuration checks, overrides on the command line, help and the contract tests derive from here.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import logging
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import metadata
from pathlib import Path
from types import NoneType, SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_type_hints

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

SHARED = frozenset({
    "documents", "facts", "examples", "bank", "labels", "all_labels", "known", "linker",
    "rule_label", "entity_label", "time_step", "dataset_fingerprint", "progress",
    "backend", "engine", "score", "calendar",
})  # fmt: skip
"""What a constructor may ask for by the name of a parameter, and no file can state."""

# The family of a parameter by its name; that of a list has a star.
_HOLDERS = {**{one: one for one in FAMILIES}, **{f"{one}s": f"{one}*" for one in FAMILIES}}

GROUP = "rulerag.components"
"""The entry point group of packages that add components."""


@dataclass(frozen=True)
class Entry:
    """A component by name.

    Args:
        family: what it is, a key of :data:`FAMILIES`.
        name: its ``type`` in a configuration.
        component: the class or function.
        parts: the family of each parameter that holds a component and is not named as its family.
        shared: the shared resource of each parameter that is not named as its resource.
        make: the class method that makes it, where that is not the constructor.
        load: the class method, or the function beside it, that opens its index from a folder.
    """

    family: str
    name: str
    component: Any
    parts: Mapping[str, str]
    shared: Mapping[str, str]
    make: str = ""
    load: str = ""

    @property
    def defined(self) -> str:
        """Where, as ``module:name``."""
        return f"{self.component.__module__}:{self.component.__qualname__}"

    @property
    def maker(self) -> Callable[..., Any]:
        """What makes an object of it."""
        made: Callable[..., Any] = self.component
        return getattr(made, self.make) if self.make else made

    @cached_property
    def loader(self) -> Callable[..., Any] | None:
        """What opens its index from a folder; None where it keeps none."""
        beside = vars(sys.modules[self.component.__module__])
        return getattr(self.component, self.load, beside.get(self.load)) if self.load else None

    @cached_property
    def parameters(self) -> Mapping[str, inspect.Parameter]:
        """The parameters of what makes it, by name."""
        return inspect.signature(self.maker).parameters

    @cached_property
    def injected(self) -> Mapping[str, str]:
        """Parameters that the builder fills, each with the name of its resource."""
        return {
            name: self.shared.get(name, name)
            for name in self.parameters
            if name in self.shared or name in SHARED
        }

    @cached_property
    def holds(self) -> Mapping[str, str]:
        """Parameters that hold components, each with its family; ``family*`` holds a list."""
        families = {**_HOLDERS, **self.parts}
        return {name: families[name] for name in self.parameters if name in families}

    @cached_property
    def settings(self) -> type[Settings]:
        """The model of its settings: parameters but for parts and shared resources."""
        import pydantic  # here: components are registered without it

        from rulerag.composition.settings import Settings

        if isinstance(self.component, type) and issubclass(self.component, Settings):
            return self.component
        others = {*self.injected, *self.holds}
        if self.loader is self.maker:  # its folder is named by the run, not by the component
            others.add("folder")
        stated = {
            key: one
            for key, one in self.parameters.items()
            if key not in others and one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL)
        }
        maker = self.maker.__init__ if isinstance(self.maker, type) else self.maker  # type: ignore[misc]
        # The annotations of these alone: others may name what only type checkers import.
        annotated = SimpleNamespace(__annotations__={k: p.annotation for k, p in stated.items()})
        kinds = get_type_hints(annotated, getattr(maker, "__globals__", {}))
        group = [kind for kind in get_args(kinds.pop("settings", None)) if kind is not NoneType]
        fields = {
            key: (kind, ... if stated[key].default is stated[key].empty else stated[key].default)
            for key, kind in kinds.items()
        }
        base, name = group[0] if group else Settings, f"{self.component.__name__}Settings"
        model: type[Settings] = pydantic.create_model(name, __base__=base, **fields)  # type: ignore[call-overload]
        return model

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
            hint = did_you_mean(family, FAMILIES)
            raise ConfigError(f"there is no family {family!r} of components", hint=hint)
        entry = Entry(family, name, component, parts or {}, shared or {}, make, load)
        known = _REGISTERED.get((family, name))
        other = known.defined if known is not None else _modules(family).get(name, "")
        if other and other not in (entry.defined, component.__module__):
            raise ConfigError(
                f"two components of the family {family} are called {name!r}",
                hint=f"rename one: {other} or {entry.defined}",
            )
        _REGISTERED[family, name] = entry
        return component

    return decorate


@functools.cache
def _modules(family: str) -> Mapping[str, str]:
    """The module of each component of the library, by name."""
    table = Path(__file__).with_name("components.toml").read_text(encoding="utf-8")
    return {name: f"rulerag.{one}" for name, one in tomllib.loads(table).get(family, {}).items()}


@functools.cache
def _import_plug_ins() -> None:
    """Import the modules that other packages name; one that fails is named and left out."""
    for point in metadata.entry_points(group=GROUP):
        try:
            point.load()
        except Exception as error:  # noqa: BLE001  (it is the code of others)
            why = f"{type(error).__name__}: {error}"
            _LOG.warning("the plug-in %r (%s) is left out: %s", point.name, point.value, why)


def names(family: str) -> list[str]:
    """The names of a family's components, those of plug-ins too."""
    _import_plug_ins()
    return sorted({*_modules(family), *(name for kind, name in _REGISTERED if kind == family)})


def find(family: str, name: str, *, key: str = "type") -> Entry:
    """The component of this name; imports its module.

    Args:
        family: a key of :data:`FAMILIES`.
        name: one of its names.
        key: where the name stands, for messages.

    Raises:
        ConfigError: the family has no such name; lists those it has.
    """
    if (family, name) not in _REGISTERED:
        own = _modules(family).get(name)
        importlib.import_module(own) if own else _import_plug_ins()
    if (family, name) not in _REGISTERED:
        hint = did_you_mean(name, names(family))
        raise ConfigError(f"no {family} is called {name!r}", key=key, hint=hint)
    return _REGISTERED[family, name]


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
    kind, inside = str(section.get("type", "")), _wrapped(section)
    if inside is None:
        return kind
    return retriever_name(inside) + (f"-{kind}" if kind in ("guided", "fused") else "")


def innermost(section: Any) -> Any:
    """The settings of the retriever that searches, inside those of its wrappers.

    Args:
        section: a retriever's settings; of several that are fused, the first counts.
    """
    inside = _wrapped(section)
    return section if inside is None else innermost(inside)


def _wrapped(section: Any) -> Any:
    """The settings of the retriever that another wraps; None where it searches itself."""
    inside = section.get("retriever") or next(iter(section.get("retrievers") or ()), None)
    return inside if isinstance(inside, Mapping) else None
