"""Graph folders for the tests of reading: written anew, some of their files replaced."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

Writer = Callable[..., Path]

QUADRUPLES = {
    "entity2id": "ann|0\nbob|1\nbath|2\n",
    "relation2id": "knows|0\nlives_in|1\n",
    "train": "0|0|1|0\n0|1|2|5\n",
    "valid": "1|1|2|10\n",
    "test": "1|0|0|15\n",
}
OPENKE = {
    "entity2id": "3\nann|0\nbob|1\nbath|2\n",
    "relation2id": "2\nknows|0\nlives_in|1\n",
    "train2id": "2\n0 1 0\n0 2 1\n",
    "valid2id": "1\n1 2 1\n",
    "test2id": "0\n",
}


def _write(folder: Path, **files: str | bytes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        data = content if isinstance(content, bytes) else content.replace("|", "\t").encode()
        (folder / f"{name}.txt").write_bytes(data)
    return folder


@pytest.fixture(scope="session")
def write() -> Writer:
    """``write(folder, train="a|b|c")`` writes ``train.txt``, with TAB where ``|`` stands."""
    return _write


@pytest.fixture(scope="session")
def quadruples() -> Writer:
    """As ``write``, over a small folder of id quadruples."""
    return lambda folder, **files: _write(folder, **{**QUADRUPLES, **files})


@pytest.fixture(scope="session")
def openke() -> Writer:
    """As ``write``, over a small OpenKE folder."""
    return lambda folder, **files: _write(folder, **{**OPENKE, **files})
