"""Where each public graph comes from: repository, commit, licence, files and their checksums."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from rulerag.errors import ConfigError, did_you_mean
from rulerag.io import read_json

__all__ = ["SOURCES_FILE", "known_sources", "source_of"]

SOURCES_FILE = Path(__file__).with_name("data_sources.json")


@cache
def known_sources() -> dict[str, dict[str, Any]]:
    """Every data set of ``data_sources.json`` by its name."""
    sources: dict[str, dict[str, Any]] = read_json(SOURCES_FILE)
    return sources


def source_of(name: str) -> dict[str, Any]:
    """The entry of one data set: ``repository``, ``commit``, ``folder``, ``licence``, ``files``.

    Raises:
        ConfigError: there is none of this name; suggests close ones.
    """
    sources = known_sources()
    if name not in sources:
        raise ConfigError(
            f"no data set is called {name!r}", key="name", hint=did_you_mean(name, sources)
        )
    return sources[name]
