"""The one page: a title and blocks, made by one template, in light and dark, on any screen.

A page is one file that fetches nothing. Every text is escaped by the template, and loses what no
page may hold; a block also shows itself alone, in a notebook and as a page of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

from rulerag.errors import ConfigError
from rulerag.io import write_text
from rulerag.views.svg import PALETTE, printable


class Block:
    """A part of a page."""

    kind: ClassVar[str]

    def to_html(self) -> str:
        """The part alone, with its style, for a notebook or another page."""
        return Page("", (self,)).fragment()

    def save(self, path: str | Path) -> Path:
        """Write a page of its own.

        Raises:
            ConfigError: the name does not end in ``.html``.
            OutputError: the file cannot be written.
        """
        path = Path(path)
        if path.suffix != ".html":
            raise ConfigError(
                f"this is not written as {path.suffix or path.name!r}",
                key="path",
                hint="NAME.html; a browser prints it",
            )
        write_text(path, Page(getattr(self, "title", ""), (self,), heading=False).html())
        return path

    def _repr_html_(self) -> str:
        return self.to_html()


@dataclass(frozen=True)
class Page:
    """A page.

    Args:
        title: its heading.
        blocks: what stands on it.
        brand: a line above the heading.
        foot: a line at the end.
        heading: whether the title is shown.
    """

    title: str
    blocks: tuple[Block, ...]
    brand: str = ""
    foot: str = ""
    heading: bool = True

    def html(self) -> str:
        """The page as one text."""
        return self._rendered(whole=True)

    def fragment(self) -> str:
        """The same without a page around it, for notebooks."""
        return self._rendered(whole=False)

    def _rendered(self, *, whole: bool) -> str:
        light, dark = (
            "".join(f"--{name}:{colours[mode]};" for name, colours in PALETTE.items())
            for mode in (0, 1)
        )
        return str(_template().render(page=self, whole=whole, light=light, dark=dark))


@dataclass(frozen=True)
class Text(Block):
    """Lines of text, a paragraph each.

    Args:
        lines: what they say.
        style: ``note`` (to be read first), ``small``, ``list`` or ``code``.
    """

    kind = "text"
    lines: tuple[str, ...]
    style: Literal["", "note", "small", "list", "code"] = ""


@dataclass(frozen=True)
class Pairs(Block):
    """Labels with what they stand for, such as the first screen of a report."""

    kind = "pairs"
    rows: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Table(Block):
    """A table; on a phone each row becomes a card.

    Args:
        headings: of the columns.
        rows: of texts, one a column.
        note: how to read it.
        best: the places (row, column) that stand out.
    """

    kind = "table"
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    best: frozenset[tuple[int, int]] = frozenset()


class Piece(NamedTuple):
    """A piece of an answer: a text, and labels raised behind it, with the ids they lead to."""

    text: str
    style: str = ""
    labels: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class AnswerText(Block):
    """An answer with what its parts rest on.

    Args:
        pieces: in order; styles are ``claim`` and ``unsupported``.
        verdict: ``right`` or ``wrong``, where that is known.
    """

    kind = "answer"
    pieces: tuple[Piece, ...]
    verdict: str = ""

    @classmethod
    def of(
        cls, text: str, parts: Iterable[tuple[int | None, int | None, Piece]], verdict: str = ""
    ) -> AnswerText:
        """A whole answer, some of whose parts are set apart.

        Args:
            text: the answer.
            parts: where each begins and ends, with its style and labels; one without a place, or
                inside another, is left out.
            verdict: as above.
        """
        position, pieces = 0, []
        for start, end, piece in parts:
            if start is None or end is None or start < position:
                continue
            pieces += [Piece(text[position:start]), piece._replace(text=text[start:end])]
            position = end
        pieces.append(Piece(text[position:] or ("" if pieces else "(no answer)")))
        return cls(tuple(piece for piece in pieces if piece.text), verdict)


@dataclass(frozen=True)
class Section(Block):
    """Blocks under a heading.

    Args:
        title: the heading.
        blocks: what stands below it.
        style: ``card``, or ``folded`` and ``open`` for what can be folded away.
        anchor: its id, to link to.
        verdict: ``right`` or ``wrong``, beside the heading.
        link: the id that the heading leads to.
    """

    kind = "section"
    title: str
    blocks: tuple[Block, ...]
    style: Literal["", "card", "folded", "open"] = ""
    anchor: str = ""
    verdict: str = ""
    link: str = ""


@dataclass(frozen=True)
class Columns(Block):
    """Blocks side by side, where there is room."""

    kind = "columns"
    blocks: tuple[Block, ...]


@cache
def _template() -> Any:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader(__package__),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=lambda value: printable(value) if type(value) is str else value,
    )
    return environment.get_template("page.html.j2")
