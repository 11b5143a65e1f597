"""Files and folders of texts as documents."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from rulerag.errors import ConfigError, DataError, DataFormatError, EmptyDataError
from rulerag.texts import ChunkSettings, read_texts
from rulerag.texts.chunks import chunks_of
from tests.texts.pdf import pdf_bytes

MARKDOWN = """---
author: Eva
---
# Bolts

Acme Ltd sells **bolts**; see [Greta](greta.html).

- one
- two

Dune
----

| a | b |
|---|---|
| 1 | 2 |

<!-- not said -->
"""
HTML = """<html><head><title>Site &amp; Co</title><script>code()</script></head><body>
<nav>menu</nav><h1>Cobalt</h1><p>Cobalt AG <b>makes</b>
 paint.<p>Second<br>line</p><table><tr><td>a</td><td>b</td></tr></table><!-- no --></body></html>"""


def test_markdown_as_it_is_shown(tmp_path: Path) -> None:
    (tmp_path / "f.md").write_text(MARKDOWN)
    read = [(one.id, one.title, one.text) for one in read_texts(tmp_path / "f.md").documents]
    assert read == [
        ("f.md#2", "f.md: Bolts", "Acme Ltd sells bolts; see Greta."),
        ("f.md#3", "f.md: Bolts", "one two"),
        ("f.md#5", "f.md: Dune", "a b 1 2"),
    ]


def test_html_as_it_is_shown(tmp_path: Path) -> None:
    pytest.importorskip("bs4")
    (tmp_path / "p.html").write_text(HTML.replace("makes", "färbt"), encoding="utf-8")
    read = [(one.title, one.text) for one in read_texts(tmp_path / "p.html").documents]
    assert read == [
        ("p.html: Cobalt", "Cobalt AG färbt paint."),
        ("p.html: Cobalt", "Second line"),
        ("p.html: Cobalt", "a b"),
    ]


def test_pages_of_a_pdf(tmp_path: Path) -> None:
    pytest.importorskip("pypdf")
    (tmp_path / "a.pdf").write_bytes(
        pdf_bytes(["Ida founded Borea-", "lis in Kiel."], ["It grew."])
    )
    read = [(one.title, one.text) for one in read_texts(tmp_path).documents]
    assert read == [
        ("a.pdf: page 1", "Ida founded Borealis in Kiel."),
        ("a.pdf: page 2", "It grew."),
    ]


def test_a_folder_says_what_it_could_not_read_and_why(tmp_path: Path) -> None:
    pytest.importorskip("pypdf")
    (tmp_path / "sub dir").mkdir()
    (tmp_path / "sub dir" / "own.jsonl").write_text(
        '{"text": "Sand."}\n{"text": "Sea.", "id": 7}\n'
    )
    (tmp_path / "scan.pdf").write_bytes(pdf_bytes([]))
    (tmp_path / "broken.pdf").write_bytes(b"%PDF")
    (tmp_path / "empty.txt").touch()
    (tmp_path / "zeros.md").write_bytes(bytes(99))
    (tmp_path / "a.docx").write_bytes(b"PK")
    (tmp_path / ".hidden.txt").write_text("x")
    corpus = read_texts(tmp_path)
    assert [one.id for one in corpus.documents] == ["sub_dir/own.jsonl#d000001", "7"]
    assert {type(error) for error in corpus.left_out} == {DataFormatError, EmptyDataError}
    said = "\n".join(corpus.notes())
    for line in (
        ": 1 .docx",
        "broken.pdf: cannot be read as PDF",
        "empty.txt: is empty",
        "scan.pdf: holds no text on any page (1 of them), as a scan does — run text recognition",
        "zeros.md: is no text (it has zero bytes)",
    ):
        assert line in said
    assert len(said.splitlines()) == 5


def test_a_single_file_raises_what_is_wrong_with_it(tmp_path: Path) -> None:
    (tmp_path / "a.docx").write_bytes(b"PK")
    (tmp_path / "a.txt").write_text("# Only a heading\n")
    (tmp_path / "a.jsonl").write_text('{"text": "x"}\n{"text"\n')
    for name, what in (
        ("a.docx", "nothing reads .docx"),
        ("a.txt", "holds no paragraph of text"),
        ("a.jsonl", "line 2: not a JSON object"),
        ("none", "no such corpus"),
    ):
        with pytest.raises(DataError, match=what):
            read_texts(tmp_path / name)


def test_a_missing_parser_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pypdf", None)
    (tmp_path / "a.pdf").write_bytes(pdf_bytes(["x"]))
    (tmp_path / "b.txt").write_text("Sand.")
    (note,) = read_texts(tmp_path).notes()
    assert "a.pdf" in note and "pip install 'rulerag[texts]'" in note


def test_chunks_are_whole_sentences_and_overlap() -> None:
    said = [f"Sentence {n} stands here now." for n in range(12)]
    chunks = list(chunks_of(" ".join(said), ChunkSettings(20, 5)))
    assert chunks == [" ".join(said[n : n + 4]) for n in (0, 3, 6, 9)]
    assert list(chunks_of("Short.", ChunkSettings(20, 5))) == ["Short."]


def test_a_sentence_without_an_end_is_cut_between_words() -> None:
    chunks = list(chunks_of(" ".join(map(str, range(35))), ChunkSettings(10, 3)))
    assert [chunk.split()[0] for chunk in chunks] == ["0", "7", "14", "21", "28"]
    assert {word for chunk in chunks for word in chunk.split()} == set(map(str, range(35)))
    assert max(len(chunk.split()) for chunk in chunks) == 10


@pytest.mark.parametrize(("words", "overlap"), [(5, 0), (20, 10), (20, -1)])
def test_settings_out_of_range(words: int, overlap: int) -> None:
    with pytest.raises(ConfigError):
        ChunkSettings(words, overlap)


@pytest.mark.parametrize("name", ["a.txt", "a.md"])
def test_utf_16_is_read_by_its_byte_order_mark(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("Düne sells sand.\n\nIt snowed.", encoding="utf-16")
    assert [one.text for one in read_texts(tmp_path).documents] == [
        "Düne sells sand.",
        "It snowed.",
    ]
