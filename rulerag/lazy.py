"""Front doors of packages: names that are imported on first use, and where old names went.

``import rulerag`` must load neither torch nor Java, and one command not the code of the others.
The names stand once, as imports under ``if TYPE_CHECKING:``, where type checkers read them too.
"""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any


def front_door(package: str) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package whose source imports its names for type checkers only.

    Args:
        package: its ``__name__``.

    Returns:
        A function from a name to what it stands for; raises :class:`AttributeError` for others.
    """

    def __getattr__(name: str) -> Any:
        home = _homes(package).get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(home), name)
        setattr(sys.modules[package], name, value)
        return value

    return __getattr__


@cache
def _homes(package: str) -> Mapping[str, str]:
    """The module of each name that the package's source imports for type checkers."""
    source = Path(str(sys.modules[package].__file__)).read_text(encoding="utf-8")
    return {
        alias.name: node.module
        for block in ast.parse(source).body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }


def made_on_first_use(module: str, makers: Mapping[str, Callable[[], Any]]) -> Callable[[str], Any]:
    """The ``__getattr__`` of a module whose classes have bases in a package that may be missing.

    Args:
        module: its ``__name__``.
        makers: by the name of each class, a function that imports the package and makes the class.

    Returns:
        A function from a name to its class; raises :class:`AttributeError` for other names.
    """

    def __getattr__(name: str) -> Any:
        if name not in makers:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        return makers[name]()

    return __getattr__


# --- modules that have moved ----

_PACKAGES = ("rulerag", "benchmarks", "training")


class MovedFinder:
    """The last to be asked for a module: nothing else knows it.

    Raises:
        ModuleNotFoundError: the module has moved, or is gone; says where to, or why.
    """

    def find_spec(self, name: str, *_: object) -> None:
        """Nothing, for a module that never was."""
        if name.partition(".")[0] not in _PACKAGES:
            return
        told = _moved().get(name)
        if told is not None:
            # Without ``name=``: `from package import module` would say less.
            raise ModuleNotFoundError(f"{name} {told}")


@cache
def _moved() -> dict[str, str]:
    """What is said of each old name."""
    import tomllib

    table = tomllib.loads(Path(__file__).with_name("moved.toml").read_text(encoding="utf-8"))
    told = {old: f"has moved to {new}" for new, names in table["moved"].items() for old in names}
    return told | {old: f"is gone: {why}" for why, names in table["gone"].items() for old in names}


def say_where_modules_went() -> None:
    """Let this interpreter name the new place of a module that is imported by an old name."""
    if not any(isinstance(finder, MovedFinder) for finder in sys.meta_path):
        sys.meta_path.append(MovedFinder())
