"""Index folders: whole or not there. TREC runs: exact. Corpora without repeated statements."""

from __future__ import annotations

import math
from pathlib import Path

import ir_measures
import pytest

from rulerag.errors import DataFormatError, FingerprintError, OutputError, RetrievalError
from rulerag.retrieval.base import latest_of, latest_statements, write_run
from rulerag.retrieval.base.index_folder import MANIFEST, check_manifest, new_index_folder
from rulerag.types import Document, Fact, ScoredDocument


def build(path: Path, content: str = "one", corpus: str = "abc") -> None:
    with new_index_folder(path, "toy", corpus, 3, {"k": 1}) as working:
        (working / "data").write_text(content)


def test_an_index_appears_whole_and_replaces_an_older_one_or_an_empty_folder(
    tmp_path: Path,
) -> None:
    target = tmp_path / "new" / "index"
    build(target)
    build(target, "two", corpus="def")
    assert (target / "data").read_text() == "two"
    assert check_manifest(target, "toy", corpus="def") == {"k": 1}
    assert [p.name for p in target.parent.iterdir()] == ["index"]
    (tmp_path / "empty").mkdir()
    build(tmp_path / "empty")
    assert (tmp_path / "empty" / MANIFEST).is_file()


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_interrupted_build_leaves_what_was_there(
    tmp_path: Path, error: type[BaseException]
) -> None:
    build(tmp_path / "old", "kept")
    for name in ("old", "fresh"):
        with (
            pytest.raises(error),
            new_index_folder(tmp_path / name, "toy", "x", 1, {}) as working,
        ):
            (working / "data").write_text("half")
            raise error
    assert [p.name for p in tmp_path.iterdir()] == ["old"]
    assert (tmp_path / "old" / "data").read_text() == "kept"


def test_what_is_no_index_is_left_alone_and_wrong_manifests_are_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for place in ("file", "file/below", "."):
        with pytest.raises(OutputError):
            build(tmp_path / place)
    assert (tmp_path / "file").read_text() == "mine"
    build(tmp_path / "index")
    with pytest.raises(FingerprintError, match=r"another corpus.*rulerag index"):
        check_manifest(tmp_path / "index", "toy", corpus="other")
    with pytest.raises(RetrievalError, match="kind 'toy'"):
        check_manifest(tmp_path / "index", "bm25", corpus="abc")
    with pytest.raises(RetrievalError, match=str(tmp_path / "none")):
        check_manifest(tmp_path / "none", "toy", corpus="abc")
    for content in ("{", "[]", '{"kind": "toy"}'):
        (tmp_path / "index" / MANIFEST).write_text(content)
        with pytest.raises(RetrievalError, match="damaged"):
            check_manifest(tmp_path / "index", "toy", corpus="abc")


@pytest.mark.parametrize("name", ["run.trec", "run.trec.gz"])
def test_another_tool_reads_every_score_of_a_run_exactly(tmp_path: Path, name: str) -> None:
    scores = [0.1 + 0.2, 1 / 3, 1 / 3, -1e-300]
    listed = [ScoredDocument(Document(f"d{i}", "t"), s, i + 1) for i, s in enumerate(scores)]
    assert write_run(tmp_path / name, {"q2": listed, "q1": listed[:1], "none": []}, "toy") == 5
    run = [tuple(entry) for entry in ir_measures.read_trec_run(str(tmp_path / name))]
    assert run == [*(("q2", f"d{i}", scores[i]) for i in range(4)), ("q1", "d0", scores[0])]


@pytest.mark.parametrize(
    ("query", "document", "tag"),
    [("q 1", "d", "t"), ("q", "d\u00a01", "t"), ("q", "d", ""), ("", "d", "t")],
)
def test_ids_that_a_run_cannot_carry(tmp_path: Path, query: str, document: str, tag: str) -> None:
    results = {query: [ScoredDocument(Document(document, "text"), math.pi, 1)]}
    with pytest.raises(DataFormatError, match="white space"):
        write_run(tmp_path / "run", results, tag)
    assert list(tmp_path.iterdir()) == []


def stating(*facts: tuple[str, str, str, int | None]) -> Document:
    return Document(repr(facts), "t", tuple(Fact(*fact) for fact in facts))


def test_the_latest_of_each_statement_stands_for_the_others() -> None:
    corpus = [stating(("a", "r", "b", time)) for time in (1, 3, 2, 3)]
    corpus.insert(2, stating(("b", "r", "a", 2)))
    assert latest_of(corpus) == [1, 1, 2, 1, 1], "the direction counts; of two last ones the first"
    assert latest_statements(corpus) == [corpus[1], corpus[2]]
    undated = [stating(("a", "r", "b", None)), stating(("a", "r", "b", None)), stating(), stating()]
    assert latest_of(undated) == [0, 1, 2, 3]
    one, other = ("a", "r", "b", 1), ("a", "r", "c", 1)
    several = [stating(one, other), stating(one), stating(("a", "r", "c", 2), ("a", "r", "b", 2))]
    assert latest_of(several) == [2, 1, 2]
