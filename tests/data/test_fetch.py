"""Fetching public data sets from a real server that cuts, corrupts, refuses and redirects."""

from __future__ import annotations

import hashlib
import json
import re
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from benchmarks.data.__main__ import main
from rulerag.data.download import ADDRESS, fetch, known_sources
from rulerag.data.rebuild import REBUILT, wiki_train
from rulerag.errors import (
    ConfigError,
    DataError,
    DataFormatError,
    FingerprintError,
    MissingDependencyError,
    OutputError,
)

NATIONS = known_sources()["nations"]


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@dataclass
class Site:
    """A server: its files, how it misbehaves, and what it was asked."""

    files: dict[str, bytes] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)  # one is used up by each request
    asked: list[str] = field(default_factory=list)
    url: str = ""

    @property
    def mirror(self) -> str:
        return self.url + "/{repository}/{commit}/{path}"


class Handler(BaseHTTPRequestHandler):
    site: Site

    def do_GET(self) -> None:
        self.site.asked.append(self.path)
        fault = self.site.faults.pop(0) if self.site.faults else ""
        data = self.site.files.get(self.path.removeprefix("/moved"))
        if fault.isdigit() or data is None:
            self.send_error(int(fault or 404))
            return
        if fault in ("redirect", "loop"):
            self.site.faults += ["loop"] * (fault == "loop")
            self.send_response(302)
            self.send_header("Location", "/moved" * (fault == "redirect") + self.path)
            self.end_headers()
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(
            {"cut": data[: len(data) // 2], "corrupt": bytes(len(data))}.get(fault, data)
        )

    def log_message(self, *parts: object) -> None:
        pass


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    handler = type("SiteHandler", (Handler,), {"site": site})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    site.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield site
    server.shutdown()
    thread.join()
    server.server_close()


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
    return site.mirror


# --- trouble -----------------------------------------------------------------------------------


def test_a_wrong_file_in_place_is_replaced_and_a_right_one_left_alone(
    mirror: str, site: Site, tmp_path: Path
) -> None:
    names = list(NATIONS["files"])
    (tmp_path / "nations").mkdir()
    (tmp_path / "nations" / names[0]).write_text("old")
    assert [path.name for path in fetch("nations", tmp_path, mirror=mirror)] == names
    assert len(site.asked) == 3
    assert fetch("nations", tmp_path, mirror=mirror) == []
    assert len(site.asked) == 3
    assert sorted(path.name for path in (tmp_path / "nations").iterdir()) == sorted(names)


@pytest.mark.parametrize("fault", ["cut", "503", "corrupt", "redirect"])
def test_passing_trouble_is_waited_for(fault: str, mirror: str, site: Site, tmp_path: Path) -> None:
    site.faults = [fault]
    assert len(fetch("nations", tmp_path, mirror=mirror, retries=1)) == 3
    assert len(site.asked) == 4


@pytest.mark.parametrize(
    ("fault", "error", "message"),
    [
        ("503", DataError, "cannot be downloaded .*503.* — check the connection"),
        ("404", DataError, "404 .* may have moved"),  # which is not asked for again
        ("loop", DataError, "cannot be downloaded .*redirects"),
        ("cut", (DataError, FingerprintError), "cannot be downloaded|does not match"),
        ("", DataError, "cannot be downloaded .* — check the connection"),  # no server
    ],
)
def test_lasting_trouble_is_reported(
    fault: str, error: type[Exception], message: str, mirror: str, site: Site, tmp_path: Path
) -> None:
    site.faults = [fault]
    address = mirror if fault else mirror.replace(site.url, "http://127.0.0.1:1")
    with pytest.raises(error, match=message):
        fetch("nations", tmp_path, mirror=address, retries=3 if fault == "404" else 0)
    assert list((tmp_path / "nations").iterdir()) == []
    assert fault == "loop" or len(site.asked) == bool(fault)


def test_changed_content_is_refused_with_both_checksums(
    mirror: str, site: Site, tmp_path: Path
) -> None:
    site.faults = ["corrupt"]
    with pytest.raises(FingerprintError) as caught:
        fetch("nations", tmp_path, mirror=mirror, retries=0)
    first = next(iter(NATIONS["files"].values()))
    told = str(caught.value)
    assert sha256(bytes(first["bytes"])) in told and f"expected {first['sha256']}" in told
    assert list((tmp_path / "nations").iterdir()) == []


def test_without_pooch_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'rulerag\[data\]'"):
        fetch("nations", tmp_path)


def test_a_place_that_cannot_be_written(site: Site, tmp_path: Path) -> None:
    (tmp_path / "way").write_text("in the way")
    with pytest.raises(OutputError, match="cannot be written"):
        fetch("nations", tmp_path / "way", mirror=site.mirror)


# --- data sets ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["umls", "nell995"])
def test_a_data_set_is_what_the_data_folder_holds(
    name: str, mirror: str, tmp_path: Path, graph_folder: Callable[[str], Path]
) -> None:
    made = fetch(name, tmp_path, mirror=mirror)
    assert {path.name for path in made} == set(known_sources()[name]["files"])
    for path in made:
        assert path.read_bytes() == (graph_folder(name) / path.name).read_bytes()


def test_wiki_is_rebuilt_from_the_intervals(
    mirror: str, tmp_path: Path, graph_folder: Callable[[str], Path]
) -> None:
    with pytest.raises(DataError, match="404"):  # two sources of its labels are not here
        fetch("wiki", tmp_path, mirror=mirror)
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
    with pytest.raises(DataFormatError, match=r"valid\.txt, line 1: expected 'subject relation"):
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
