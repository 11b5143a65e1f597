"""Front doors: a package names what others use, and imports it when it is first asked for.

``import rulerag`` must load neither torch nor Java, and one command not the code of the others.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

__all__ = ["front_door"]


def front_door(package: str, **modules: tuple[str, ...]) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package.

    Args:
        package: its ``__name__``.
        modules: the names behind the door, by the module of the package that defines them.

    Returns:
        A function from a name to what it stands for; raises :class:`AttributeError` for others.
    """
    homes = {name: module for module, names in modules.items() for name in names}

    def __getattr__(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{package}.{homes[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return __getattr__
