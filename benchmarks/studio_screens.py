"""The studio's screens under ``docs``, taken anew from a studio that runs, wide and narrow.

A Chromium on PATH shows them, driven by Playwright; nothing is fetched. The benchmark is a world
that is generated, whose rules are mined on the way.
"""

from __future__ import annotations

import argparse
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.pictures import WIDTHS, chromium, keep
from rulerag.assembly.demo import mine_world, world_dataset
from rulerag.console import guarded as shown_errors
from rulerag.studio.service import Inject, Studio
from rulerag.studio.serving import guarded
from rulerag.studio.systems import benchmark_system
from rulerag.synthetic import World

_TALL, _WAIT = 900, 60_000
_TALLEST = 1_800
"""Pixels; below it a screen is cut, for lists go on."""


@contextmanager
def running(data: Path) -> Iterator[tuple[Studio, str]]:
    """A studio with a generated benchmark, and its address."""
    import uvicorn

    world = World.generate(1500, kind="static", max_body_atoms=1)
    world_dataset(world, mine_world(world)[0]).save(data / "world")
    studio = Studio(data / "studio", systems=[benchmark_system(data / "world")])
    bound = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(guarded(studio), log_level="error"))
    thread = threading.Thread(target=lambda: server.run(sockets=[bound]))
    thread.start()
    try:
        yield studio, f"http://127.0.0.1:{bound.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        bound.close()
        studio.close()


def broken(studio: Studio) -> str:
    """A session that was asked, attacked in two sources, asked again and explained."""
    session = studio.retrieve(studio.new_session("finance").id)
    studio.answer(session.id)
    for source in session.state.sources[:2]:
        studio.change(session.id, Inject(source=source.id, attack="exception"))
    begun = studio.explain(session.id)
    studio.job(begun.id).finished.wait()
    return session.id


def take(docs: Path) -> list[Path]:
    """Take every screen.

    Args:
        docs: the folder of the documentation.

    Returns:
        What was written.

    Raises:
        ConfigError: there is no browser on PATH.
    """
    written: list[Path] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        running(Path(folder)) as (studio, address),
        chromium() as browser,
    ):
        page = browser.new_page()
        page.goto(f"{address}/session/{broken(studio)}")
        page.get_by_role("button", name="Answer", exact=True).click()
        page.wait_for_selector("text=Against the answer before", timeout=_WAIT)
        page.wait_for_selector("text=How much each source counts")
        written += _both(page, docs / "studio", 100_000)
        page.goto(f"{address}/rules/world")
        page.locator("button:enabled", has_text="Compare").click(timeout=_WAIT)
        page.wait_for_selector("text=B is better", timeout=_WAIT)
        written += _both(page, docs / "studio-rules", _TALLEST)
    return written


def _both(page: Any, place: Path, tallest: int) -> Iterator[Path]:
    """One screen at every width."""
    for name, width in WIDTHS.items():
        page.set_viewport_size({"width": width, "height": _TALL})
        page.wait_for_timeout(1_000)  # pictures are drawn, colours fade in
        path = place.with_name(f"{place.name}-{name}.png")
        keep(page, path, tallest)
        yield path


def main(argv: Sequence[str] | None = None) -> int:
    """Take the screens of the documentation."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.studio_screens", description=main.__doc__
    )
    parser.add_argument("--docs", type=Path, default=Path("docs"), help="the documentation")
    arguments = parser.parse_args(argv)

    def work() -> None:
        for path in take(arguments.docs):
            sys.stdout.write(f"{path}\n")

    return shown_errors(work)


if __name__ == "__main__":
    sys.exit(main())
