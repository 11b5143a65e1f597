"""Index folders: whole or not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from rulerag.errors import FingerprintError, OutputError, RetrievalError
from rulerag.retrieval.base.index_folder import MANIFEST, check_manifest, new_index_folder


def build(path: Path, content: str = "one", corpus: str = "abc") -> None:
    with new_index_folder(
        path, "toy", corpus=corpus, settings={"k": 1}, num_documents=3
    ) as working:
        (working / "data").write_text(content)


def test_it_appears_whole_and_replaces_an_older_one(tmp_path: Path) -> None:
    target = tmp_path / "new" / "index"
    build(target)
    assert check_manifest(target, "toy", corpus="abc") == {"k": 1}
    build(target, "two", corpus="def")
    assert (target / "data").read_text() == "two"
    assert check_manifest(target, "toy", corpus="def") == {"k": 1}
    assert sorted(p.name for p in target.parent.iterdir()) == ["index"]


def test_an_empty_folder_may_be_filled(tmp_path: Path) -> None:
    (tmp_path / "index").mkdir()
    build(tmp_path / "index")
    assert (tmp_path / "index" / MANIFEST).is_file()


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_interrupted_build_leaves_what_was_there(
    tmp_path: Path, error: type[BaseException]
) -> None:
    build(tmp_path / "old", "kept")
    for name in ("old", "fresh"):
        with (
            pytest.raises(error),
            new_index_folder(
                tmp_path / name, "toy", corpus="x", settings={}, num_documents=1
            ) as working,
        ):
            (working / "data").write_text("half")
            raise error
    assert [p.name for p in tmp_path.iterdir()] == ["old"]
    assert (tmp_path / "old" / "data").read_text() == "kept"


def test_what_is_no_index_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(OutputError, match="no index"):
        build(tmp_path / "file")
    with pytest.raises(OutputError):
        build(tmp_path / "file" / "below")
    assert (tmp_path / "file").read_text() == "mine"


def test_wrong_manifests_are_named(tmp_path: Path) -> None:
    build(tmp_path / "index")
    with pytest.raises(FingerprintError, match="another corpus"):
        check_manifest(tmp_path / "index", "toy", corpus="other")
    with pytest.raises(RetrievalError, match="kind 'toy'"):
        check_manifest(tmp_path / "index", "bm25", corpus="abc")
    with pytest.raises(RetrievalError, match=str(tmp_path / "none")):
        check_manifest(tmp_path / "none", "toy", corpus="abc")
    for content in ("{", "[]", '{"kind": "toy"}'):
        (tmp_path / "index" / MANIFEST).write_text(content)
        with pytest.raises(RetrievalError, match="damaged"):
            check_manifest(tmp_path / "index", "toy", corpus="abc")
