"""Every picture under ``docs``, made anew: SVG files, and pages as a screen and a phone show them.

``docs/flow.svg``, the plan of the library, is drawn by hand. Chromium, found through PATH, takes
the pictures of pages; nothing is fetched.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import rulerag
from benchmarks.experiments import what_rules_add
from rulerag.console import guarded
from rulerag.errors import ConfigError, DataFormatError
from rulerag.explanation.any_answer import Why
from rulerag.explanation.report import explain_answer, regions_page
from rulerag.generation.prompts import SelfExplanationTemplate
from rulerag.io import atomic_write, prepare_folder, read_text, write_text
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

_TALLEST, _MARGIN, _COLOURS = 4_000, 24, 256
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
        said = "1903" if known else "unknown"
        named = "Nobel Prize, 1903, Physics in 1903, chemistry, radium"
        return f"Thought: The text says when.\nKeywords: {named}\nShort answer: {said}"


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
    found = explain_answer(item, Reader(), explainer="regions")
    # Seconds are no news in a picture, and would change it each time.
    page = regions_page([found])
    return re.sub(r"(requests?) in \d+\.\d\d s", r"\1", page)


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


def photograph(page: str, width: int, path: Path) -> None:
    """A page as a browser shows it, cut below its last line, as a PNG of few colours.

    Raises:
        ConfigError: there is no browser on PATH, or it takes no picture.
    """
    from PIL import Image, ImageChops

    browser = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if browser is None:
        raise ConfigError("no browser on PATH", key=_BROWSERS[0], hint="install Chromium")
    with tempfile.TemporaryDirectory() as name:
        source, taken = Path(name) / "page.html", Path(name) / "page.png"
        write_text(source, page)
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        size = [f"--window-size={width},{_TALLEST}", f"--screenshot={taken}"]
        command = [browser, *flags, *size, source.as_uri()]
        run = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        if not taken.is_file():
            raise ConfigError(f"it took no picture: {run.stderr[-300:]}", key=browser)
        image = Image.open(taken).convert("RGB")
    empty = Image.new("RGB", image.size, image.getpixel((0, image.height - 1)))
    box = ImageChops.difference(image, empty).getbbox() or (0, 0, width, 1)
    image = image.crop((0, 0, width, min(image.height, box[3] + _MARGIN)))
    with atomic_write(path, "wb") as file:
        image.quantize(_COLOURS).save(file, "PNG", optimize=True)


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
    for kind in ("flow", "certainty", "lattice", "bars"):
        place = 1 if kind in ("lattice", "bars") else 0  # of the claim that rests on two together
        written.append(why.picture(kind, place).save(folder / f"{kind}.svg"))
    text = re.sub(r"\d+\.\d s\.", "0.0 s.", why.to_html())
    pages = {folder / "why": text, folder / "regions": regions()}
    pages |= {
        folder / "shades": _page(why, "shades", 1),
        docs / "similarity": similar["similarity.html"],
    }
    for place_of, page in pages.items():
        for name, width in WIDTHS.items():
            written.append(place_of.with_name(f"{place_of.name}-{name}.png"))
            photograph(page, width, written[-1])
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
