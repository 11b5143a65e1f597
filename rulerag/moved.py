"""Modules that have moved: importing one by its old name says where it is now."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

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

    table = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    told = {old: f"has moved to {new}" for new, names in table["moved"].items() for old in names}
    return told | {old: f"is gone: {why}" for why, names in table["gone"].items() for old in names}


def say_where_modules_went() -> None:
    """Let this interpreter name the new place of a module that is imported by an old name."""
    if not any(isinstance(finder, MovedFinder) for finder in sys.meta_path):
        sys.meta_path.append(MovedFinder())
