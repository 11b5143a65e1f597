"""Every picture under ``docs``, made anew: SVG files, and pages as a screen and a phone show them.

Pages are taken in light and in dark. ``docs/flow.svg``, the plan of the library, is drawn by hand.
Chromium, found through PATH and driven by Playwright, takes the pictures; nothing is fetched.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import rulerag
from benchmarks.experiments import what_rules_add
from rulerag.assembly.demo import run_demo
from rulerag.console import guarded
from rulerag.errors import ConfigError, DataFormatError
from rulerag.evaluation.page import render_report
from rulerag.explanation.explaining import Why, explain_answer
from rulerag.generation.prompts import SelfExplanationTemplate
from rulerag.io import atomic_write, prepare_folder, read_json, read_jsonl, read_text, write_text
from rulerag.types import (
    Answer,
    Completion,
    Document,
    GenerationRequest,
    Query,
    ScoredDocument,
)

WIDTHS = {"screen": 1280, "phone": 390}
"""Pixels of a page."""

MODES = {"light": "", "dark": "-dark"}
"""What the name of a picture ends in."""

_TALLEST, _FIRST, _COLOURS = 4_000, 1_900, 256
"""Pixels of a page that is shown whole, and of the first screen of a report; colours of a PNG."""
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")

QUESTION = "When was the Harbour Bridge opened, and who designed it?"
DOCUMENTS: list[dict[str, Any]] = [
    {"title": "City chronicle", "text": "The Harbour Bridge was opened to traffic in May 1931."},
    {"title": "Ferry timetable", "text": "Ferries leave the old pier every twenty minutes."},
    {"title": "Drawings, box 7", "text": "Plans of a bridge over the harbour, signed by Ada Lund."},
    {"title": "Register of names", "text": "The name Ada Lund stands for the office Lund & Sons."},
    {"title": "Jubilee speech", "text": "Since 1931 the bridge has joined both banks of our city."},
    {"title": "Weather, May 1931", "text": "It rained on nine days; the harbour did not freeze."},
    {"title": "Fish market", "text": "Herring was sold at the quay before the market moved."},
    {
        "title": "Letter, 1958",
        "text": "Our grandfather Lund drew the bridge and was never thanked.",
    },
]
DRAWN = {"flow": 0, "lattice": 1, "bars": 1}
"""The drawings, with the claim of each: the second rests on two documents together."""
_RULES = {2: "[Entity 1, signed plans of, Entity 2] leads to [Entity 1, designed, Entity 2]"}


def answer(question: str, documents: list[dict[str, Any]]) -> str:
    """Reads what it was given: the year from either of two, the name from two together."""
    there = {one["title"] for one in documents}
    parts = []
    if there & {"City chronicle", "Jubilee speech"}:
        parts.append("The bridge was opened in 1931.")
    if {"Drawings, box 7", "Register of names"} <= there:
        parts.append("It was designed by the office Lund & Sons.")
    return " ".join(parts) or "I don't know."


TEXTS = (
    "The museum holds letters from the years of the war. Few of them were ever sent. The ink has "
    "faded on most, and the paper is thin.",
    "Marie Curie was awarded the Nobel Prize in Physics in 1903, with her husband and Henri "
    "Becquerel, for their work on radiation.",
    "In 1911 she received a second prize, in chemistry. The medal is kept in Warsaw, in the house "
    "where she was born.",
)


class Reader:
    """Answers with the year where prize and physics stand in the text, and names its keywords."""

    sampling = ""
    template = SelfExplanationTemplate()

    @property
    def fingerprint(self) -> str:
        """Of its prompt."""
        return self.template.fingerprint

    def generate(self, requests: Sequence[GenerationRequest]) -> list[Completion]:
        """One answer for each request."""
        return [Completion(self.template.parse(self._written(one), one)) for one in requests]

    def _written(self, request: GenerationRequest) -> str:
        text = " ".join(document.text for document in request.documents)
        known = all(word in text for word in ("Prize", "Physics", "1903"))
        answer = "1903" if known else "unknown"
        named = "Nobel Prize, 1903, Physics in 1903, chemistry, radium"
        return f"Thought: The text says when.\nKeywords: {named}\nShort answer: {answer}"


def explained() -> Why:
    """The answer of the pictures, explained."""
    documents = [
        {**one, "metadata": {"rules": [_RULES[n]]}} if n in _RULES else one
        for n, one in enumerate(DOCUMENTS)
    ]
    return rulerag.explain(answer, QUESTION, documents, workers=4)


def regions() -> str:
    """The page of an answer that is explained by regions."""
    documents = tuple(
        ScoredDocument(Document(name, text), 1.0, rank)
        for rank, (name, text) in enumerate(
            zip(("letters", "physics", "chemistry"), TEXTS, strict=True), 1
        )
    )
    query = Query("q1", "When did Marie Curie win the prize in physics?", answers=("1903",))
    item = Answer(query, Completion("1903"), documents)
    return explain_answer(item, Reader(), explainer="regions").to_html()


def reports() -> dict[str, str]:
    """The page of a demo, and that of one of its runs, by the name of the picture."""
    with tempfile.TemporaryDirectory() as name:
        run_demo(Path(name))
        run = Path(name) / "temporal" / "bm25-guided"
        result = read_json(run / "metrics.json")
        rows = list(read_jsonl(run / "predictions.jsonl"))
        page = render_report(
            title="bm25-guided__symbolic on world-temporal", results=[result], predictions=[rows]
        )
        return {"report": read_text(Path(name) / "report.html"), "report-run": page}


def similarity(docs: Path) -> dict[str, str]:
    """The files that the first block of ``similarity.md`` writes, by name.

    Raises:
        DataFormatError: the page has no such block.
    """
    found = re.search(r"```python\n(.*?)```", read_text(docs / "similarity.md"), re.DOTALL)
    if found is None:
        raise DataFormatError("holds no block of Python", path=docs / "similarity.md")
    with _inside_new_folder() as folder, contextlib.redirect_stdout(io.StringIO()):
        exec(compile(found[1], "similarity.md", "exec"), {"__name__": "page"})
        return {file.name: read_text(file) for file in folder.iterdir()}


@contextlib.contextmanager
def chromium() -> Iterator[Any]:
    """The browser that takes pictures.

    Raises:
        ConfigError: there is none on PATH.
    """
    from playwright.sync_api import sync_playwright

    place = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if place is None:
        raise ConfigError("no browser on PATH", key=_BROWSERS[0], hint="install Chromium")
    with sync_playwright() as play:
        yield play.chromium.launch(executable_path=place, args=["--no-sandbox"])


def keep(page: Any, path: Path, tallest: int = _TALLEST) -> None:
    """Write what a browser's page shows, cut below so many pixels, as a PNG of few colours."""
    from PIL import Image

    image = Image.open(io.BytesIO(page.screenshot(full_page=True))).convert("RGB")
    image = image.crop((0, 0, image.width, min(image.height, tallest)))
    with atomic_write(path, "wb") as file:
        image.quantize(_COLOURS).save(file, "PNG", optimize=True)


def photograph(browser: Any, html: str, place: Path, tallest: int = _TALLEST) -> Iterator[Path]:
    """A page on a screen and on a phone, in light and in dark.

    Args:
        browser: of :func:`chromium`.
        html: the page.
        place: the beginning of the names of the files.
        tallest: pixels shown.
    """
    for width_name, width in WIDTHS.items():
        for mode, end in MODES.items():
            size = {"width": width, "height": 200}
            with contextlib.closing(browser.new_page(viewport=size, color_scheme=mode)) as page:
                page.set_content(html)
                path = place.with_name(f"{place.name}-{width_name}{end}.png")
                keep(page, path, tallest)
                yield path


def _page(why: Why, kind: str, claim: int) -> str:
    with tempfile.TemporaryDirectory() as name:
        return read_text(why.picture(kind, claim).save(Path(name) / "page.html"))


@contextlib.contextmanager
def _inside_new_folder() -> Iterator[Path]:
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as name:
        os.chdir(name)
        try:
            yield Path(name)
        finally:
            os.chdir(before)


def draw(docs: Path, results: Path) -> list[Path]:
    """Make every picture again.

    Args:
        docs: the folder of the documentation.
        results: the committed results of benchmarks.

    Returns:
        What was written.
    """
    folder = prepare_folder(docs / "pictures")
    why, similar = explained(), similarity(docs)
    written = [docs / "similarity.svg"]
    write_text(written[0], similar["similarity.svg"])
    for kind, place in DRAWN.items():
        written.append(why.picture(kind, place).save(folder / f"{kind}.svg"))
    pages = {
        folder / "why": (why.to_html(), _TALLEST),
        folder / "regions": (regions(), _TALLEST),
        folder / "shades": (_page(why, "shades", 1), _TALLEST),
        docs / "similarity": (similar["similarity.html"], _TALLEST),
        **{docs / name: (page, _FIRST) for name, page in reports().items()},
    }
    with chromium() as browser:
        for beginning, (page, tallest) in pages.items():
            # Seconds are no news in a picture, and would change it each time.
            still = re.sub(r"\d+\.\d+ s\b", "0.0 s", page)
            written += photograph(browser, still, beginning, tallest)
    with contextlib.redirect_stdout(io.StringIO()):
        what_rules_add.main(["--results", str(results), "--out", str(docs)])
    return [*written, docs / "what-rules-add.png"]


def _main(arguments: argparse.Namespace) -> None:
    for path in draw(arguments.docs, arguments.results):
        sys.stdout.write(f"{path.stat().st_size / 1000:7.1f} kB  {path}\n")


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.pictures",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: python -m benchmarks.pictures --docs docs --results benchmarks/results",
    )
    parser.add_argument("--docs", type=Path, default=Path("docs"), help="the documentation")
    parser.add_argument(
        "--results", type=Path, default=Path("benchmarks/results"), help="committed results"
    )
    arguments = parser.parse_args(argv)
    return guarded(lambda: _main(arguments))


if __name__ == "__main__":
    sys.exit(main())
