"""Fetching public graphs from a real server that cuts, corrupts, redirects and ignores ranges."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from benchmarks.data import ADDRESS, fetch, main
from benchmarks.data_download import Downloader
from benchmarks.data_rebuild import REBUILT, wiki_train
from benchmarks.data_sources import known_sources
from rulerag.errors import ConfigError, DataError, DataFormatError, FingerprintError, OutputError

ROOT = Path(__file__).resolve().parents[2]
FAST = Downloader(attempts=3, pause=0.0, timeout=5.0)
CONTENT = bytes(range(256)) * 1000


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@dataclass
class Site:
    """A server: its files, how it misbehaves, and what it was asked."""

    files: dict[str, bytes] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)  # one is used up by each request
    asked: list[tuple[str, str | None]] = field(default_factory=list)  # path and Range
    knows_ranges: bool = True
    states_length: bool = True
    url: str = ""


class Handler(BaseHTTPRequestHandler):
    site: Site

    def do_GET(self) -> None:
        wanted = self.headers.get("Range")
        self.site.asked.append((self.path, wanted))
        fault = self.site.faults.pop(0) if self.site.faults else ""
        if fault.isdigit():
            self.send_error(int(fault))
        elif self.path == "/loop" or fault == "redirect":
            self.send_response(302)
            self.send_header("Location", "/loop" if self.path == "/loop" else "/moved" + self.path)
            self.end_headers()
        else:
            self._send(self.path.removeprefix("/moved"), wanted, fault)

    def _send(self, path: str, wanted: str | None, fault: str) -> None:
        if path not in self.site.files:
            self.send_error(404)
            return
        data, start = self.site.files[path], 0
        if wanted and self.site.knows_ranges:
            start = int(re.fullmatch(r"bytes=(\d+)-", wanted)[1])  # type: ignore[index]
            if start >= len(data):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(data)}")
                self.end_headers()
                return
            self.send_response(206)
            last = len(data) - 1
            told = 0 if fault == "other range" else start
            self.send_header("Content-Range", f"bytes {told}-{last}/{len(data)}")
        else:
            self.send_response(200)
        body = data[start:]
        if self.site.states_length:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if fault == "cut":
            body = body[: len(body) // 2]
        if fault == "corrupt":
            body = bytes(len(body))
        self.wfile.write(body)

    def log_message(self, *parts: object) -> None:
        pass


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site(files={"/file": CONTENT})
    handler = type("SiteHandler", (Handler,), {"site": site})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    site.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield site
    server.shutdown()
    thread.join()
    server.server_close()


def download(site: Site, target: Path, path: str = "/file", **options: object) -> bool:
    return FAST.fetch(site.url + path, target, sha256(CONTENT), **options)  # type: ignore[arg-type]


# --- one file ----------------------------------------------------------------------------------


def test_a_file_arrives_once(site: Site, tmp_path: Path) -> None:
    target = tmp_path / "new" / "file"
    assert download(site, target)
    assert target.read_bytes() == CONTENT
    assert [path.name for path in target.parent.iterdir()] == ["file"]
    assert not download(site, target)  # it is here: nothing is asked
    assert len(site.asked) == 1


def test_a_wrong_file_in_place_is_replaced(site: Site, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    assert download(site, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT


@pytest.mark.parametrize("states_length", [True, False])
def test_a_cut_connection_is_resumed_where_it_was_cut(
    site: Site, tmp_path: Path, states_length: bool
) -> None:
    site.faults, site.states_length = ["cut", "cut", "cut", "cut"], states_length
    download(site, tmp_path / "file", size=len(CONTENT))
    assert (tmp_path / "file").read_bytes() == CONTENT
    starts = [int(wanted[6:-1]) if wanted else 0 for _, wanted in site.asked]
    assert starts == [0, 128_000, 192_000, 224_000, 240_000]  # each attempt halves what is left


def test_an_interrupted_download_goes_on_in_the_next_run(site: Site, tmp_path: Path) -> None:
    (tmp_path / ".file.part").write_bytes(CONTENT[:100_000])
    download(site, tmp_path / "file")
    assert site.asked == [("/file", "bytes=100000-")]
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert not (tmp_path / ".file.part").exists()


def test_a_whole_part_needs_no_more_bytes(site: Site, tmp_path: Path) -> None:
    (tmp_path / ".file.part").write_bytes(CONTENT)  # killed between the last byte and the check
    download(site, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert len(site.asked) == 1


@pytest.mark.parametrize("part", [b"of another version", bytes(len(CONTENT) + 5)])
def test_a_part_of_another_version_is_thrown_away(site: Site, tmp_path: Path, part: bytes) -> None:
    (tmp_path / ".file.part").write_bytes(part)
    download(site, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert site.asked[-1] == ("/file", None)


def test_a_server_without_ranges_starts_again(site: Site, tmp_path: Path) -> None:
    site.knows_ranges, site.faults = False, ["cut"]
    download(site, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert site.asked == [("/file", None), ("/file", "bytes=128000-")]


def test_another_range_than_asked_for_is_not_believed(site: Site, tmp_path: Path) -> None:
    site.faults = ["cut", "other range"]
    download(site, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert site.asked[-1] == ("/file", None)


def test_changed_content_is_refused_with_both_checksums(site: Site, tmp_path: Path) -> None:
    site.faults = ["corrupt"]
    with pytest.raises(FingerprintError) as caught:
        download(site, tmp_path / "file")
    told = str(caught.value)
    assert sha256(bytes(len(CONTENT))) in told and f"expected {sha256(CONTENT)}" in told
    assert list(tmp_path.iterdir()) == []  # neither the file nor a part to resume
    assert download(site, tmp_path / "file")


@pytest.mark.parametrize("code", ["503", "429"])
def test_passing_trouble_is_waited_for(site: Site, tmp_path: Path, code: str) -> None:
    site.faults = [code, code]
    download(site, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_lasting_trouble_is_reported(site: Site, tmp_path: Path) -> None:
    site.faults = ["503"] * 10
    with pytest.raises(DataError, match=r"file: the server answers 503 .* — check the connection"):
        download(site, tmp_path / "file")
    assert len(site.asked) == 3
    site.faults = []
    with pytest.raises(DataError, match=r"nothing: the server answers 404 .* may have moved"):
        download(site, tmp_path / "x", "/nothing")
    assert len(site.asked) == 4  # a missing file is asked for once


def test_redirects_are_followed_and_circles_are_left(site: Site, tmp_path: Path) -> None:
    site.faults = ["redirect"]
    download(site, tmp_path / "file")
    assert [path for path, _ in site.asked] == ["/file", "/moved/file"]
    with pytest.raises(DataError, match=r"loop: the server answers 302 .* infinite loop"):
        download(site, tmp_path / "x", "/loop")
    assert not (tmp_path / "x").exists()


def test_without_a_server(site: Site, tmp_path: Path) -> None:
    for url in ("http://127.0.0.1:1/file", "http://no-such-host.invalid/file"):
        with pytest.raises(DataError, match=r"cannot be reached .* — check the connection"):
            FAST.fetch(url, tmp_path / "file", sha256(CONTENT))


def test_a_place_that_cannot_be_written(site: Site, tmp_path: Path) -> None:
    (tmp_path / "way").write_text("in the way")
    with pytest.raises(OutputError, match="cannot be written"):
        download(site, tmp_path / "way" / "file")


# --- data sets ---------------------------------------------------------------------------------


@pytest.fixture
def mirror(site: Site, graph_folder: Callable[[str], Path]) -> str:
    """The address of a mirror that holds the files of the data folder."""
    for name, source in known_sources().items():
        for place, home in ((source, name), *((p, None) for p in source.get("parts", {}).values())):
            for file, entry in place.get("files", {"": place}).items():
                path = entry.get("path", f"{source['folder']}/{file}")
                where = {**source, **entry}
                local = graph_folder(home) / file if home else None
                if local is not None and local.is_file():
                    key = f"/{where['repository']}/{where['commit']}/{path}"
                    site.files[key] = local.read_bytes()
    return site.url + "/{repository}/{commit}/{path}"


@pytest.mark.parametrize("name", ["umls", "nell995", "fb15k237"])
def test_a_data_set_is_what_the_data_folder_holds(
    name: str, mirror: str, site: Site, tmp_path: Path, graph_folder: Callable[[str], Path]
) -> None:
    site.faults = ["cut", "503", "redirect"]
    made = fetch(name, tmp_path, mirror=mirror, downloader=FAST)
    assert {path.name for path in made} == set(known_sources()[name]["files"])
    for path in made:
        assert path.read_bytes() == (graph_folder(name) / path.name).read_bytes()
    assert fetch(name, tmp_path, mirror=mirror, downloader=FAST) == []


def test_wiki_is_rebuilt_from_the_intervals(
    mirror: str, tmp_path: Path, graph_folder: Callable[[str], Path]
) -> None:
    with pytest.raises(DataError, match="404"):  # two sources of its labels are not here
        fetch("wiki", tmp_path, mirror=mirror, downloader=FAST)
    for name in known_sources()["wiki"]["files"]:
        assert (tmp_path / "wiki" / name).read_bytes() == (graph_folder("wiki") / name).read_bytes()
    assert not (tmp_path / "wiki" / ".parts").exists()


def test_the_rule_of_wiki_by_hand(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("1\t0\t2\t1787-##-##\t1788-##-##\n")
    (tmp_path / "valid.txt").write_text("3\t1\t4\t####-##-##\t1786-##-##\n")
    (tmp_path / "test.txt").write_text("5\t0\t6\t1996-##-##\t####-##-##\n7\t0\t8\t1790\t1789\n")
    expected = "3\t1\t4\t0\t0\n1\t0\t2\t1\t0\n1\t0\t2\t2\t0\n5\t0\t6\t210\t0\n"
    assert wiki_train(tmp_path).decode() == expected
    (tmp_path / "valid.txt").write_text("1\t0\t2\t1787\n")
    with pytest.raises(DataFormatError, match=r"valid\.txt, line 1: expected subject, relation"):
        wiki_train(tmp_path)


def test_the_first_source_that_has_a_label_wins(tmp_path: Path) -> None:
    (tmp_path / "entity2id.txt").write_text("Q3\t7\nQ1\t0\nQ2\t1\nQ9\t2\n")
    (tmp_path / "literallywikidata.txt").write_text("Q1\tBoston\n")
    labels = {"/m/1": {"wikidata_id": "Q1", "label": "no"}, "/m/2": {"wikidata_id": "Q2"}}
    labels["/m/3"] = {"wikidata_id": "Q3", "label": "Ely"}
    (tmp_path / "entity2wikidata.json").write_text(json.dumps(labels))
    (tmp_path / "reep.csv").write_text('key_wikidata,name\nQ3,no\nQ2,"Ajaccio, A.C."\n')
    expected = (
        "Q3\t7\tEly\tfb15k237\nQ1\t0\tBoston\tliterallywikidata\nQ2\t1\tAjaccio, A.C.\treep\n"
    )
    assert REBUILT["entity_labels"](tmp_path).decode() == expected


def test_the_table_is_the_data_folders(graph_folder: Callable[[str], Path]) -> None:
    readme = graph_folder("README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^([0-9a-f]{64})\s+(\d+)\s+(\S+)$", readme, re.MULTILINE)
    stated = {
        f"{name}/{file}": (entry["sha256"], entry["bytes"])
        for name, source in known_sources().items()
        for file, entry in source["files"].items()
    }
    assert stated == {path: (digest, int(size)) for digest, size, path in rows}
    assert all(source["commit"] in readme for source in known_sources().values())


# --- the command -------------------------------------------------------------------------------


def test_the_command_fetches(
    mirror: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["fetch", "nations", "--out", str(tmp_path), "--mirror", mirror, "--quiet"]
    assert main(command) == 0
    assert "nations: 3 new files, every SHA-256 is right" in capsys.readouterr().out
    assert main(command) == 0
    assert "everything was here already" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fetch", "wikki"], "no data set is called 'wikki' — did you mean 'wiki'?"),
        (["fetch"], "no data set was named — --list shows them"),
        (["fetch", "nations", "--mirror", "http://x/{path}"], "is no address of files"),
        (["fetch", "nations", "--mirror", "ftp" + ADDRESS[5:]], "is no address of files"),
        (["fetch", "nations", "--mirror", "http://{"], "is no address of files"),
    ],
)
def test_the_command_refuses_in_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    told = capsys.readouterr().err
    assert told.startswith("error: ") and message in told and told.count("\n") == 1


def test_the_list_names_every_source(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fetch", "--list"]) == 0
    told = capsys.readouterr().out
    assert all(name in told for name in known_sources()) and "licence: MIT" in told
    with pytest.raises(ConfigError, match="did you mean 'fb15k237'"):
        fetch("fb15k", ".")


def test_help_has_an_example() -> None:
    command = [sys.executable, "-m", "benchmarks.data", "fetch", "--help"]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "example: python -m benchmarks.data fetch icews14" in told
