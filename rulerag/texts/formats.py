"""One file as headings and paragraphs, by its ending; well-kept parsers read all but plain text."""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from rulerag.errors import DataFormatError, EmptyDataError, MissingDependencyError
from rulerag.io import decode, is_utf16, read_bytes

_LINE_HYPHEN = re.compile(r"(?<=[^\W\d_])-\n(?=[a-zß-ÿ])")
_SPACE = re.compile(r"\s+")
_FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
# What separates one paragraph of a page from the next; text of other elements runs on.
_BLOCKS = [
    *("address", "article", "aside", "blockquote", "body", "caption", "dd", "details", "div", "dl"),
    *("dt", "fieldset", "figcaption", "figure", "footer", "form", "header", "hr", "li", "main"),
    *("nav", "ol", "p", "pre", "section", "summary", "table", "tbody", "tfoot", "thead", "tr"),
    *("ul", "h1", "h2", "h3", "h4", "h5", "h6", "title"),
]
_UNSEEN = ["script", "style", "noscript", "template", "svg", "nav"]
_MARK = "\0"  # stands before the text of a heading; no text has it


class TextBlock(NamedTuple):
    """A heading or a paragraph.

    Args:
        text: on one line.
        is_heading: whether it names what stands below it.
        page: of a file with pages, which one: ``page 3``.
    """

    text: str
    is_heading: bool = False
    page: str = ""


def blocks_of(path: Path) -> list[TextBlock]:
    """The headings and paragraphs of a file, in order.

    Args:
        path: a file whose ending is one of :data:`ENDINGS`.

    Raises:
        DataError: the file cannot be read.
        DataFormatError: it is not what its ending says: binary, damaged, locked by a password.
        EmptyDataError: there is no text in it.
        MissingDependencyError: its parser is not installed.
    """
    data = read_bytes(path)
    if not data.strip():
        raise EmptyDataError("is empty", path=path)
    blocks = [block for block in ENDINGS[path.suffix.lower()](data, path) if block.text]
    if not any(not block.is_heading for block in blocks):
        raise EmptyDataError("holds no paragraph of text", path=path)
    return blocks


def _plain(data: bytes, path: Path) -> Iterator[TextBlock]:
    """Paragraphs are parted by blank lines; a line that begins with ``#`` is a heading."""
    for block in re.split(r"\n\s*\n", _decoded(data, path)):
        lines = block.strip()
        heading = lines.startswith("#") and "\n" not in lines
        yield TextBlock(" ".join((lines.lstrip("# ") if heading else lines).split()), heading)


def _markdown(data: bytes, path: Path) -> Iterator[TextBlock]:
    """CommonMark with tables, by markdown-it; a list, a table or a quotation is one paragraph."""
    from markdown_it import MarkdownIt

    text = _FRONT_MATTER.sub("", _decoded(data, path))
    parts: list[str] = []
    heading = False
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        if token.type == "inline":
            parts.append(_inline(token))
        elif token.type in ("fence", "code_block"):
            parts.append(token.content)
        elif token.type == "html_block":
            parts.append(re.sub(r"<!--.*?-->|<[^>]*>", " ", token.content, flags=re.DOTALL))
        heading = heading or token.type == "heading_open"
        if token.level == 0 and token.nesting <= 0:
            yield TextBlock(" ".join(" ".join(parts).split()), heading)
            parts, heading = [], False


def _inline(token: Any) -> str:
    """The words of a line of Markdown: of a link its text, of a picture what stands for it."""
    said = []
    for child in token.children or ():
        if child.type in ("softbreak", "hardbreak"):
            said.append(" ")
        elif child.type in ("text", "code_inline", "image"):
            said.append(child.content)
    return "".join(said)


def _html(data: bytes, path: Path) -> Iterator[TextBlock]:
    """What a browser shows as paragraphs, by Beautiful Soup; menus and scripts are left out."""
    try:
        from bs4 import BeautifulSoup, Comment
    except ImportError as error:
        raise MissingDependencyError("beautifulsoup4", "texts") from error
    if b"\0" in data[:1024] and not is_utf16(data):
        raise _binary(path)
    soup: Any = BeautifulSoup(data, "html.parser")
    for tag in soup(_UNSEEN):
        tag.decompose()
    for text in soup.find_all(string=True):
        if isinstance(text, Comment) or type(text).__name__ in ("Doctype", "Declaration"):
            text.extract()
        else:
            text.replace_with(_SPACE.sub(" ", text.replace(_MARK, " ")))
    for tag in soup(["td", "th", "br"]):
        tag.insert_after(" ")
    for tag in soup(_BLOCKS):
        if re.fullmatch(r"h[1-6]|title", tag.name):
            tag.insert(0, _MARK)
        tag.insert_before("\n")
        tag.insert_after("\n")
    for line in soup.get_text().split("\n"):
        yield TextBlock(" ".join(line.replace(_MARK, " ").split()), _MARK in line)


def _pdf(data: bytes, path: Path) -> Iterator[TextBlock]:
    """The text of each page, by pypdf; words that a line's end cut in two are joined."""
    try:
        from pypdf import PdfReader
        from pypdf.errors import PyPdfError
    except ImportError as error:
        raise MissingDependencyError("pypdf", "texts") from error
    logging.getLogger("pypdf").setLevel(logging.ERROR)  # it warns of what it puts right itself
    try:
        reader = PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            raise DataFormatError(
                "is locked by a password", path=path, hint="save a copy without one"
            )
        pages = [page.extract_text() for page in reader.pages]
    except (PyPdfError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        # A damaged file makes pypdf trip over whatever it meets first.
        said = " ".join(str(error).split()) or type(error).__name__
        raise DataFormatError(f"cannot be read as PDF ({said})", path=path) from error
    if not any(map(str.strip, pages)):
        raise EmptyDataError(
            f"holds no text on any page ({len(pages)} of them), as a scan does",
            path=path,
            hint="run text recognition over it first (ocrmypdf, for example)",
        )
    for number, page in enumerate(pages, start=1):
        for block in re.split(r"\n\s*\n", _LINE_HYPHEN.sub("", page)):
            yield TextBlock(" ".join(block.split()), page=f"page {number}")


def _decoded(data: bytes, path: Path) -> str:
    if b"\0" in data and not is_utf16(data):
        raise _binary(path)
    return decode(data, path).removeprefix("\ufeff").replace("\r\n", "\n")


def _binary(path: Path) -> DataFormatError:
    return DataFormatError("is no text (it has zero bytes)", path=path)


ENDINGS: Mapping[str, Callable[[bytes, Path], Iterator[TextBlock]]] = {
    **dict.fromkeys((".txt", ".rst"), _plain),
    **dict.fromkeys((".md", ".markdown"), _markdown),
    **dict.fromkeys((".html", ".htm", ".xhtml"), _html),
    ".pdf": _pdf,
}
"""The endings of files that are read as texts, and what reads each."""
