"""Gets the public data sets, each file checked by its SHA-256.

Where each comes from (repository, commit, licence, files and their checksums) is in
``sources.json``; a file is put in place only when its SHA-256 is the one written there.
"""

from __future__ import annotations

import hashlib
import shutil
import string
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from rulerag.errors import ConfigError, FingerprintError, did_you_mean
from rulerag.io import atomic_write, fingerprint_file, prepare_folder, read_json
from rulerag.models import download_file

#: Where GitHub serves a file of a repository at a commit.
ADDRESS = "https://raw.githubusercontent.com/{repository}/{commit}/{path}"

_FIELDS = {"repository", "commit", "path"}
_PARTS = ".parts"


@cache
def known_sources() -> dict[str, dict[str, Any]]:
    """Every data set of ``sources.json`` by its name."""
    sources: dict[str, dict[str, Any]] = read_json(Path(__file__).with_name("sources.json"))
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


def fetch(
    name: str,
    out: str | Path,
    *,
    mirror: str | None = None,
    retries: int = 3,
    progress: bool = False,
) -> list[Path]:
    """Get one data set, and the labels that belong to it, into ``out/NAME``.

    A file that is there and right is left alone.

    Args:
        name: one of :func:`known_sources`.
        out: the folder in which the data set's own folder goes.
        mirror: another address of files than :data:`ADDRESS`, with the same fields.
        retries: further attempts at a file after the connection or its content failed.
        progress: show progress bars.

    Returns:
        The files that were not there before.

    Raises:
        ConfigError: an unknown name, with suggestions, or an address without these fields.
        DataError: a file cannot be downloaded.
        FingerprintError: a file has another content than it should; names both checksums.
        OutputError: a file cannot be written.
        MissingDependencyError: the package pooch is not installed.
    """
    source, mirror = source_of(name), mirror or ADDRESS
    try:
        fields = {field for _, field, _, _ in string.Formatter().parse(mirror)} - {None}
    except ValueError:
        fields = set()
    if fields != _FIELDS or not mirror.startswith(("http://", "https://")):
        raise ConfigError(f"{mirror!r} is no address of files", key="mirror", hint=f"say {ADDRESS}")

    def download(place: Mapping[str, Any], target: Path) -> None:
        url = mirror.format(**{field: str(place[field]) for field in _FIELDS})
        download_file(url, target, place["sha256"], retries=retries, progress=progress)

    made = []
    for file, entry in source["files"].items():
        target = prepare_folder(Path(out) / name) / file
        if target.exists() and fingerprint_file(target) == entry["sha256"]:
            continue
        if "rebuilt" in entry:
            parts = target.parent / _PARTS
            for part, place in source["parts"].items():
                download(place, parts / part)
            _rebuild(entry, parts, target)
        else:
            download({**source, "path": f"{source['folder']}/{file}", **entry}, target)
        made.append(target)
    for other in source.get("also", ()):
        made += fetch(other, out, mirror=mirror, retries=retries, progress=progress)
    return made


def _rebuild(entry: Mapping[str, Any], parts: Path, target: Path) -> None:
    """Make a file from others, by its rule, and prove that it is the published one."""
    from rulerag.data.rebuild import REBUILT

    data = REBUILT[entry["rebuilt"]](parts)
    found = hashlib.sha256(data).hexdigest()
    if found != entry["sha256"]:
        raise FingerprintError(
            f"what was rebuilt has the SHA-256 {found}, expected {entry['sha256']}",
            path=target,
            hint="its parts are right, so this is a fault of the rule: please report it",
        )
    with atomic_write(target, "wb") as file:
        file.write(data)
    shutil.rmtree(parts)
