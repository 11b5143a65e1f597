"""Commands about public data sets: ``data fetch``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rulerag.cli.common import QuietOption, say, show_progress
from rulerag.errors import ConfigError


def fetch(
    name: Annotated[str | None, typer.Argument(help="the data set; --list shows them")] = None,
    show: Annotated[
        bool, typer.Option("--list", help="show what there is, and from where")
    ] = False,
    out: Annotated[Path, typer.Option(help="where the folder NAME goes")] = Path("data"),
    mirror: Annotated[
        str | None,
        typer.Option(help="another address of files, with {repository}, {commit} and {path}"),
    ] = None,
    quiet: QuietOption = False,
) -> None:
    """Download one data set, every file checked by its SHA-256.

    A file that is there and right is left alone, so an interrupted download goes on where it was.
    """
    from rulerag.data import fetch as fetch_files
    from rulerag.data import known_sources

    if show:
        for known, source in known_sources().items():
            size = sum(entry["bytes"] for entry in source["files"].values()) / 1e6
            place = f"{source['repository']}@{source['commit']}"
            say(f"{known:20} {size:5.1f} MB  {place}  licence: {source['licence']}")
        return
    if name is None:
        raise ConfigError("no data set was named", key="name", hint="--list shows them")
    made = fetch_files(name, out, mirror=mirror, progress=show_progress(quiet))
    what = f"{len(made)} new files" if made else "everything was here already"
    say(f"{out / name}: {what}, every SHA-256 is right")
