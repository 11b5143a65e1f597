"""The loop of every report: each experiment's table, and its files in a folder of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from rulerag.io import prepare_folder, write_json, write_text

Made = tuple[str, dict[str, Any]]


def report_each(
    experiments: Iterable[tuple[str, str]],
    make: Callable[[str, Path | None], Made],
    save: Path | None,
    *,
    only: str = "",
    stem: Callable[[str], str] = lambda _: "table",
) -> str:
    """Markdown of every experiment that has results; files beside it.

    Args:
        experiments: names and titles.
        make: from a name and the folder for its plots to its text, empty where there is nothing,
            and what its other files hold, by file name.
        save: where the folders of the experiments go.
        only: the name of one experiment.
        stem: what its table is called.
    """
    parts = []
    for name, title in experiments:
        if only and name != only:
            continue
        target = prepare_folder(save / name) if save is not None else None
        text, files = make(name, target)
        if text:
            parts.append(f"# {title}\n\n{text}")
            if target is not None:
                write_text(target / f"{stem(name)}.md", parts[-1])
                for file, content in files.items():
                    write_json(target / file, content)
        elif target is not None and not any(target.iterdir()):
            target.rmdir()
    return "\n".join(parts)
