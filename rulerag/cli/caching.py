"""The command ``cache``."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from rulerag.cache import cache_root, clear, kept
from rulerag.cli.common import say, table
from rulerag.errors import ConfigError


def cache(
    action: Annotated[
        Literal["show", "clear"], typer.Argument(help="what to do with what is kept")
    ] = "show",
    kind: Annotated[str | None, typer.Argument(help="clear this kind alone")] = None,
) -> None:
    """Show or clear what is kept between commands: indexes, vectors, checksums.

    All of it is worked out again when it is needed, but for fetched models, which are cleared only
    by `rulerag cache clear models`. It is kept in RULERAG_CACHE where that is set,
    else in the folder rulerag of XDG_CACHE_HOME, else in ~/.cache/rulerag.
    """
    if action == "clear":
        gone = clear(kind)
        for one in gone:
            say(f"cleared {one.kind}: {one.files:,} files, {one.bytes / 1e6:,.1f} MB")
        if not gone:
            say("nothing was cached")
        return
    if kind is not None:
        raise ConfigError("the kinds are shown together", key="kind", hint="rulerag cache")
    rows = kept()
    table(
        ("kind", "files", "MB", "what"),
        [(one.kind, f"{one.files:,}", f"{one.bytes / 1e6:,.1f}", one.what) for one in rows],
    )
    say(f"{sum(one.bytes for one in rows) / 1e6:,.1f} MB in {cache_root()}")
