"""Files: nothing half written, every bad byte and line named."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import stat
from pathlib import Path

import pytest
from hypothesis import example, given, strategies as st

from rulerag.errors import DataError, DataFormatError, OutputError
from rulerag.io import (
    STANDARD_OUTPUT,
    StoredRecords,
    atomic_write,
    check_folder,
    check_output,
    fingerprint_file,
    fingerprint_object,
    made_folder,
    prepare_folder,
    read_json,
    read_jsonl,
    read_records,
    read_text,
    to_json,
    write_json,
    write_jsonl,
    write_text,
)
from tests.outputs import Fifo, full_device

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
ROWS = st.lists(st.dictionaries(st.text(), JSON_VALUES, max_size=4), max_size=6)


def _leftovers(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name.endswith(".part"))


# --- atomic writes -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["out.txt", "out.txt.gz"])
@pytest.mark.parametrize("stop", [ValueError("half way"), KeyboardInterrupt()])
def test_an_interrupted_write_leaves_the_old_file_untouched(
    tmp_path: Path, name: str, stop: BaseException
) -> None:
    target = tmp_path / name
    write_text(target, "the old one\n")
    before = target.read_bytes()
    with pytest.raises(type(stop)), atomic_write(target) as file:
        file.write("half of the new one")
        raise stop
    assert target.read_bytes() == before
    assert _leftovers(tmp_path) == []


def test_written_files_are_shared_as_the_umask_says(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        write_text(tmp_path / "out.txt", "x")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "out.txt").stat().st_mode) == 0o640


def test_gzip_by_name_both_ways_and_equal_content_makes_equal_files(tmp_path: Path) -> None:
    text = "subject\trelation\tobject\n" * 50
    write_text(tmp_path / "one.tsv.gz", text)
    write_text(tmp_path / "two.tsv.gz", text)
    packed = (tmp_path / "one.tsv.gz").read_bytes()
    assert gzip.decompress(packed).decode() == text == read_text(tmp_path / "one.tsv.gz")
    assert len(packed) < len(text) / 4
    assert packed == (tmp_path / "two.tsv.gz").read_bytes()


def test_prepare_folder_leaves_nothing_where_it_fails(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(OutputError):
        prepare_folder(tmp_path / "file" / "a" / "b")
    with pytest.raises(ValueError, match="stop"), made_folder(tmp_path / "a" / "b"):
        raise ValueError("stop")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    with pytest.raises(ValueError, match="stop"), made_folder(tmp_path / "a" / "b") as folder:
        (folder / "kept").touch()
        raise ValueError("stop")
    assert (tmp_path / "a" / "b" / "kept").exists(), "only what is empty goes"


def test_checks_make_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    check_folder(tmp_path / "a" / "b")
    check_output(tmp_path / "a" / "b" / "out.txt")
    check_output(tmp_path / "file")
    check_output(STANDARD_OUTPUT)
    for check in (check_folder, check_output):
        with pytest.raises(OutputError, match=r"cannot be written \(Not a directory\)"):
            check(tmp_path / "file" / "below" / "out.txt")
    with pytest.raises(OutputError, match="is a folder — name a file in it"):
        check_output(tmp_path)
    with pytest.raises(OutputError, match="-: is standard output, and a folder is to be written"):
        check_folder(STANDARD_OUTPUT)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


# --- what is no plain file ---------------------------------------------------------------------


@pytest.mark.parametrize("name", ["fifo", "fifo.gz"])
def test_a_fifo_gets_the_whole_content_and_stays(tmp_path: Path, name: str) -> None:
    fifo = Fifo(tmp_path / name)
    assert write_jsonl(fifo.path, [{"a": n} for n in range(20_000)]) == 20_000
    content = fifo.content()
    text = gzip.decompress(content) if name.endswith(".gz") else content
    assert [json.loads(line)["a"] for line in text.splitlines()] == list(range(20_000))
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("through_a_link", [False, True])
def test_a_full_device_is_named_and_stays(tmp_path: Path, through_a_link: bool) -> None:
    device = full_device(tmp_path)
    place = device
    if through_a_link:
        place = tmp_path / "link"
        place.symlink_to(device)
    check_output(place)
    with pytest.raises(OutputError, match=r"cannot be written \(No space left on device\)") as told:
        write_text(place, "x" * 100_000)
    assert told.value.path == place
    assert stat.S_ISCHR(device.lstat().st_mode) and place.is_symlink() is through_a_link
    assert _leftovers(tmp_path) == []


def test_a_link_stays_and_its_file_is_written_aside_and_moved_into_place(tmp_path: Path) -> None:
    file, link = tmp_path / "real" / "out.txt", tmp_path / "link"
    file.parent.mkdir()
    link.symlink_to("real/out.txt")  # it dangles
    write_text(link, "one")
    assert file.read_text() == "one"
    with pytest.raises(ValueError, match="stop"), atomic_write(link) as stream:
        stream.write("two")
        raise ValueError("stop")
    assert file.read_text() == "one"
    write_text(link, "three")
    assert link.is_symlink() and file.read_text() == "three"
    assert [path.name for path in file.parent.iterdir()] == ["out.txt"]


def test_a_dash_is_standard_output(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write_jsonl("-", [{"a": 1}])
    write_json(STANDARD_OUTPUT, [2])
    assert capfd.readouterr().out == '{"a": 1}\n[\n  2\n]\n'
    with pytest.raises(ValueError, match="stop"), atomic_write("-") as file:
        file.write("half")
        raise ValueError("stop")
    assert capfd.readouterr().out == ""


# --- reading -----------------------------------------------------------------------------------


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_bytes_that_are_not_utf8_name_file_and_line(tmp_path: Path, packed: bool) -> None:
    path = tmp_path / ("names.tsv.gz" if packed else "names.tsv")
    raw = "Müller\tid\n".encode() + b"ok\n" + b"M\xfcller\tid\n"
    path.write_bytes(gzip.compress(raw) if packed else raw)
    with pytest.raises(DataFormatError, match="not UTF-8") as caught:
        read_text(path)
    assert (caught.value.path, caught.value.line) == (path, 3)


def test_a_missing_file_a_folder_and_a_broken_archive_are_data_errors(tmp_path: Path) -> None:
    packed = gzip.compress(b"some text that is long enough to be cut\n" * 40)
    (tmp_path / "cut.gz").write_bytes(packed[:-12])
    (tmp_path / "plain.gz").write_bytes(b"never compressed")
    (tmp_path / "mixed.gz").write_bytes(packed[:12] + b"\xff" * 20 + packed[32:])
    for name in ("missing.txt", "", "cut.gz", "plain.gz", "mixed.gz"):
        with pytest.raises(DataError, match="cannot be read") as caught:
            read_text(tmp_path / name)
        assert caught.value.path == tmp_path / name


def test_json_round_trip_and_the_line_of_a_mistake(tmp_path: Path) -> None:
    path = tmp_path / "manifest.json"
    write_json(path, {"name": "Müller", "counts": [1, 2]})
    assert "Müller" in path.read_text(encoding="utf-8")
    assert read_json(path) == {"name": "Müller", "counts": [1, 2]}
    path.write_text('{\n  "name": "x",\n  "counts": [1, 2\n}\n')
    with pytest.raises(DataFormatError, match="not JSON") as caught:
        read_json(path)
    assert (caught.value.path, caught.value.line) == (path, 4)


@given(rows=ROWS)
@example(rows=[{"text": "one\u2028two\x85three\rfour"}, {"text": "five"}])
def test_what_is_written_as_jsonl_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, object]]
) -> None:
    for name in ("rows.jsonl", "rows.jsonl.gz"):
        path = tmp_path_factory.mktemp("jsonl") / name
        assert write_jsonl(path, rows) == len(rows)
        assert list(read_jsonl(path)) == rows
        assert read_text(path).count("\n") == len(rows)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"a": 1', "not a JSON object"),
        ("nothing like it", "not a JSON object"),
        ("[1, 2]", "expected a JSON object, found list"),
        ("null", "expected a JSON object, found NoneType"),
    ],
)
def test_a_broken_line_is_named_by_its_place_in_the_file(
    tmp_path: Path, line: str, message: str
) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"a": 1}\n\n   \n' + line + '\n{"a": 2}\n')
    with pytest.raises(DataFormatError, match=message) as caught:
        list(read_jsonl(path))
    assert (caught.value.path, caught.value.line) == (path, 4)


def test_records_name_file_line_and_key_of_what_is_refused(tmp_path: Path) -> None:
    def make(row: dict[str, object]) -> object:
        if "id" not in row:
            raise DataFormatError("expected a text", key="id", hint="name it")
        return row["id"]

    path = tmp_path / "rows.jsonl"
    path.write_text('{"id": 1}\n\n{"id": 2}\n')
    assert read_records(path, make) == [1, 2]
    path.write_text('{"id": 1}\n\n{"name": 2}\n')
    with pytest.raises(DataFormatError) as caught:
        read_records(path, make)
    error = caught.value
    assert (error.path, error.line, error.key, error.hint) == (path, 3, "id", "name it")


# --- fingerprints ------------------------------------------------------------------------------


@given(value=JSON_VALUES)
def test_an_object_fingerprint_is_short_and_survives_a_round_trip(value: object) -> None:
    found = fingerprint_object(value)
    assert len(found) == 16
    assert set(found) <= set("0123456789abcdef")
    assert fingerprint_object(json.loads(to_json(value))) == found


def test_a_file_fingerprint_is_the_sha256_of_its_bytes(tmp_path: Path) -> None:
    raw = os.urandom((1 << 20) + 17)  # longer than one block
    (tmp_path / "raw").write_bytes(raw)
    assert fingerprint_file(tmp_path / "raw") == hashlib.sha256(raw).hexdigest()
    with pytest.raises(DataError, match="cannot be read"):
        fingerprint_file(tmp_path / "missing")


def test_stored_records_are_read_one_by_one(tmp_path: Path) -> None:
    lines = [b'{"n": 1}', b"", b'  {"n": "\xc3\xa4"}', b" \t", b"[", b'{"n": 3}']
    for end in (b"", b"\n", b"\n\n"):
        path = tmp_path / "rows.jsonl"
        path.write_bytes(b"\n".join(lines) + end)
        rows = StoredRecords(path, lambda row: row["n"], fingerprint_file(path))
        assert len(rows) == 4 and [rows[0], rows[1], rows[-1]] == [1, "ä", 3]
        assert rows.fingerprint == rows.file_fingerprint == fingerprint_file(path)
        with pytest.raises(DataFormatError, match=r"rows\.jsonl: record 3 cannot be read"):
            rows[2]
        noted = rows.annotated(lambda row, value: (row, value), "other")
        assert noted[3] == (3, 3) and rows[3] == 3
        assert (noted.fingerprint, noted.file_fingerprint) == ("other", rows.fingerprint)
    path.write_bytes(b"")
    assert list(StoredRecords(path, lambda row: row, fingerprint_file(path))) == []
