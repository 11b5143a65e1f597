"""The cache folder: where it is, what stays in it, and that nobody needs it."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from rulerag import cache
from rulerag.errors import ConfigError
from rulerag.io import fingerprint_file

BIG = 2 << 20  # bytes: more than what is read every time


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RULERAG_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def big_file(path: Path, *, turned: int | None = None) -> Path:
    content = bytearray(BIG)
    if turned is not None:
        content[turned] = 1
    path.write_bytes(content)
    return path


def test_the_cache_folder_follows_its_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cache.cache_folder("index", "v1") == tmp_path / "cache" / "index" / "v1"
    assert (tmp_path / "cache" / "index" / "v1").is_dir()
    monkeypatch.delenv("RULERAG_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache.cache_root() == tmp_path / "xdg" / "rulerag"
    monkeypatch.setenv("HOME", str(tmp_path))
    for nothing in ("", "relative/path"):
        monkeypatch.setenv("XDG_CACHE_HOME", nothing)
        assert cache.cache_root() == tmp_path / ".cache" / "rulerag"


def test_a_large_file_is_read_once_for_each_state(tmp_path: Path, folder: Path) -> None:
    path = big_file(tmp_path / "weights")
    first = cache.remembered_fingerprint(path, settled_seconds=0)
    assert first == fingerprint_file(path)
    (note,) = (folder / "fingerprints").iterdir()
    note.write_text('"' + "0" * 64 + '"')  # what is found next comes from there
    assert cache.remembered_fingerprint(path, settled_seconds=0) == "0" * 64
    times = path.stat()
    with open(path, "r+b") as file:  # the same file, size and time of modification
        file.seek(BIG // 2)
        file.write(b"\x01")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert path.stat().st_mtime_ns == times.st_mtime_ns
    found = cache.remembered_fingerprint(path, settled_seconds=0)
    assert found == fingerprint_file(path) != first


def test_a_file_that_has_just_changed_is_not_remembered(tmp_path: Path, folder: Path) -> None:
    path = big_file(tmp_path / "weights")
    assert cache.file_states([path]) is None
    assert cache.remembered_fingerprint(path) == fingerprint_file(path)
    assert not (folder / "fingerprints").exists()


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04 cut", b"{not json"])
def test_what_is_damaged_is_made_again(folder: Path, damage: bytes) -> None:
    def arrays() -> dict[str, object]:
        return {"a": np.arange(3), "b": np.array([0.5])}

    def again() -> dict[str, object]:
        raise AssertionError("made twice")

    for make in (arrays, again):
        found = cache.remembered_arrays("bm25", ["corpus", 1], make)
        assert found["a"].tolist() == [0, 1, 2] and found["b"].tolist() == [0.5]
    assert cache.remembered("bm25", "names", lambda: ["x"]) == ["x"]
    assert cache.remembered("bm25", "names", again) == ["x"]
    for file in (folder / "bm25").iterdir():
        file.write_bytes(damage)
    assert cache.remembered_arrays("bm25", ["corpus", 1], arrays)["a"].tolist() == [0, 1, 2]
    assert cache.remembered("bm25", "names", lambda: ["y"]) == ["y"]


def test_a_cache_folder_that_cannot_be_written_costs_only_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("RULERAG_CACHE", str(tmp_path / "file"))
    path = big_file(tmp_path / "weights")
    assert cache.remembered_fingerprint(path, settled_seconds=0) == fingerprint_file(path)
    assert cache.remembered("datasets", 1, lambda: [2]) == [2]
    assert cache.remembered_arrays("datasets", 1, lambda: {"a": np.zeros(2)})["a"].sum() == 0


def test_the_entries_used_last_stay(folder: Path) -> None:
    cache.remember("datasets", "used", "first")
    for number in range(60):
        cache.remember("datasets", number, number)
        assert cache.recall("datasets", "used") == "first"
    assert len(list((folder / "datasets").iterdir())) < 60
    assert cache.recall("datasets", 59) == 59 and cache.recall("datasets", 0) is None


def test_what_is_cached_is_shown_and_cleared(folder: Path) -> None:
    cache.remember("datasets", "key", [1])
    (cache.cache_folder("lucene", "some") / "index").write_text("12345")
    (cache.cache_folder("old") / "thing").write_text("1")
    shown = {one.kind: one for one in cache.cached_kinds()}
    assert set(shown) == {*cache.KINDS, "old"}
    assert (shown["lucene"].files, shown["lucene"].bytes) == (1, 5)
    assert shown["bm25"].files == 0 and shown["old"].what == "not kept by this version"
    with pytest.raises(ConfigError, match=r"'lucen'.*lucene"):
        cache.clear("lucen")
    assert [one.kind for one in cache.clear("lucene")] == ["lucene"]
    assert cache.recall("datasets", "key") == [1]
    # What this version does not know may be a user's: it goes by name alone.
    assert [one.kind for one in cache.clear()] == ["datasets"]
    assert cache.clear() == []
    assert [one.kind for one in cache.clear("old")] == ["old"]
    assert cache.clear() == [] and not any(one.files for one in cache.cached_kinds())
