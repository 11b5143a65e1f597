"""Public APIs of packages: names that are imported on first use.

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


def lazy_names(package: str) -> Callable[[str], Any]:
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
