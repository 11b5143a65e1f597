"""Gets the public graphs: ``python -m benchmarks.data fetch NAME``.

Every file comes from the repository and commit that ``data_sources.json`` names, and is put in
place only when its SHA-256 is the one written there.
"""

from __future__ import annotations

import argparse
import shutil
import string
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.data_download import Downloader
from benchmarks.data_rebuild import REBUILT
from benchmarks.data_sources import known_sources, source_of
from rulerag.console import guarded
from rulerag.errors import ConfigError, FingerprintError
from rulerag.io import atomic_write, fingerprint_file

__all__ = ["ADDRESS", "fetch", "main"]

#: Where GitHub serves a file of a repository at a commit.
ADDRESS = "https://raw.githubusercontent.com/{repository}/{commit}/{path}"

_FIELDS = {"repository", "commit", "path"}
_PARTS = ".parts"


def fetch(
    name: str,
    out: str | Path,
    *,
    mirror: str = ADDRESS,
    downloader: Downloader | None = None,
) -> list[Path]:
    """Get one data set, and the labels that belong to it, into ``out/NAME``.

    Args:
        name: one of :func:`benchmarks.data_sources.known_sources`.
        out: the folder in which the data set's own folder goes.
        mirror: the address of a file, with the fields ``{repository}``, ``{commit}``, ``{path}``.
        downloader: how files are downloaded.

    Returns:
        The files that were not there before.

    Raises:
        ConfigError: an unknown name, with suggestions, or an address without these fields.
        DataError: a file cannot be downloaded.
        FingerprintError: a file has another content than it should; names both checksums.
        OutputError: a file cannot be written.
    """
    source = source_of(name)
    _check_mirror(mirror)
    downloader = downloader or Downloader()
    home = Path(out) / name
    made = []
    for file, entry in source["files"].items():
        target = home / file
        if "rebuilt" in entry:
            new = _rebuild(source, entry, target, mirror, downloader)
        else:
            place = {**source, "path": f"{source['folder']}/{file}", **entry}
            url = _address(mirror, place)
            new = downloader.fetch(url, target, entry["sha256"], entry.get("bytes"))
        made += [target] if new else []
    for other in source.get("also", ()):
        made += fetch(other, out, mirror=mirror, downloader=downloader)
    return made


def _address(mirror: str, place: Mapping[str, Any]) -> str:
    return mirror.format(**{field: str(place[field]) for field in _FIELDS})


def _check_mirror(mirror: str) -> None:
    try:
        found = {name for _, name, _, _ in string.Formatter().parse(mirror) if name is not None}
    except ValueError:
        found = set()
    if found != _FIELDS or not mirror.startswith(("http://", "https://")):
        raise ConfigError(f"{mirror!r} is no address of files", key="mirror", hint=f"say {ADDRESS}")


def _rebuild(
    source: Mapping[str, Any],
    entry: Mapping[str, Any],
    target: Path,
    mirror: str,
    downloader: Downloader,
) -> bool:
    """Make a file from others, by its rule, and prove that it is the published one."""
    if target.exists() and fingerprint_file(target) == entry["sha256"]:
        return False
    parts = target.parent / _PARTS
    for part, place in source["parts"].items():
        url = _address(mirror, place)
        downloader.fetch(url, parts / part, place["sha256"], place.get("bytes"))
    data = REBUILT[entry["rebuilt"]](parts)
    with atomic_write(parts / target.name, "wb") as file:
        file.write(data)
    found = fingerprint_file(parts / target.name)
    if found != entry["sha256"]:
        raise FingerprintError(
            f"what was rebuilt has the SHA-256 {found}, expected {entry['sha256']}",
            path=target,
            hint="its parts are right, so this is a fault of the rule: please report it",
        )
    (parts / target.name).replace(target)
    shutil.rmtree(parts)
    return True


def _fetch_command(arguments: argparse.Namespace) -> None:
    if arguments.list:
        _list()
        return
    if arguments.name is None:
        raise ConfigError("no data set was named", key="name", hint="--list shows them")
    source_of(arguments.name)  # what is refused needs no progress bar
    _check_mirror(arguments.mirror)
    from tqdm import tqdm

    with tqdm(unit="B", unit_scale=True, desc=arguments.name, disable=arguments.quiet) as bar:
        made = fetch(
            arguments.name,
            arguments.out,
            mirror=arguments.mirror,
            downloader=replace(Downloader(), progress=bar.update),
        )
    what = f"{len(made)} new files" if made else "everything was here already"
    home = arguments.out / arguments.name
    sys.stdout.write(f"{home}: {what}, every SHA-256 is right\n")


def _list() -> None:
    for name, source in known_sources().items():
        size = sum(entry["bytes"] for entry in source["files"].values()) / 1e6
        sys.stdout.write(
            f"{name:20} {size:5.1f} MB  {source['repository']}@{source['commit']}  "
            f"licence: {source['licence']}\n"
        )


def main(argv: Sequence[str] | None = None) -> int:
    """The command line: ``fetch``."""
    example = "example: python -m benchmarks.data fetch icews14 --out data"
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.data", description="Get public graphs.", epilog=example
    )
    commands = parser.add_subparsers(dest="command", required=True)
    get = commands.add_parser(
        "fetch",
        help="download one data set, checked by SHA-256",
        description="Download one data set. An interrupted download is resumed; a file that is "
        "there and right is left alone.",
        epilog=example,
    )
    get.add_argument("name", nargs="?", help="the data set; --list shows them")
    get.add_argument("--list", action="store_true", help="what there is, and from where")
    get.add_argument(
        "--out", type=Path, default=Path("data"), help="where the folder NAME goes: data"
    )
    get.add_argument("--mirror", default=ADDRESS, help=f"another address of files: {ADDRESS}")
    get.add_argument("--quiet", action="store_true", help="no progress bar")
    get.set_defaults(run=_fetch_command)
    arguments = parser.parse_args(argv)
    return guarded(
        lambda: arguments.run(arguments),
        interrupted="interrupted; what was downloaded is kept, run the same command again",
    )


if __name__ == "__main__":
    sys.exit(main())
