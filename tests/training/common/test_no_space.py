"""A disk that is full while a training saves: one message, and it goes on when there is room."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rulerag.errors import OutputError
from rulerag.io import read_json
from tests.training.conftest import weights
from training.common.checkpoint import saving
from training.common.settings import TrainingSettings
from training.generator.run import train_generator
from training.generator.settings import GeneratorSettings
from training.retriever.run import train_retriever
from training.retriever.settings import RetrieverSettings

resource = pytest.importorskip("resource", reason="this system limits no file sizes")

pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),  # PEFT and TRL on transformers 5.23
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
ROOT = Path(__file__).resolve().parents[3]
# Files may get so long and no longer: what is written says "File too large", as a disk that is full
# says "No space left on device".
LIMITED = """
import resource, runpy, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
del sys.argv[:2]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


def limited(size: int, program: str, settings: TrainingSettings, folder: Path) -> str:
    """The message of a training that may write files of some bytes at most."""
    config = folder / "run.yaml"
    config.write_text(json.dumps(settings.model_dump(mode="json")), encoding="utf-8")
    command = [sys.executable, "-c", LIMITED, str(size), program, str(config), "--quiet"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
    return done.stderr.splitlines()[-1]


@pytest.mark.slow
def test_a_generator_goes_on_when_there_is_room_again(
    make: Callable[..., GeneratorSettings], tmp_path: Path
) -> None:
    whole, cut = (make(epochs=2, out=str(tmp_path / name)) for name in ("whole", "cut"))
    train_generator(whole)
    adapter = max(p.stat().st_size for p in Path(whole.out).glob("adapter_model.safetensors"))
    said = limited(adapter + 4096, "training.generator", cut, tmp_path)
    assert said.startswith(f"error: {cut.out}") and "cannot be written (" in said
    assert said.endswith("make room and start it again: it goes on from what it kept last")
    assert not (tmp_path / "cut" / "metrics.json").exists()
    train_generator(cut)
    assert read_json(tmp_path / "cut/metrics.json") == read_json(tmp_path / "whole/metrics.json")
    one, other = weights(whole.out), weights(cut.out)
    assert all((one[name] == other[name]).all() for name in one)


@pytest.mark.slow
def test_a_retriever_goes_on_when_there_is_room_again(
    settings: Callable[..., RetrieverSettings], tmp_path: Path
) -> None:
    whole, cut = (settings(out=str(tmp_path / name)) for name in ("whole", "cut"))
    expected = train_retriever(whole)  # and the vectors of the corpus are kept
    kept = (tmp_path / "whole" / "model.safetensors").stat().st_size
    # Room for the state at the start, and not for the optimizer's that comes with the first step.
    said = limited(int(1.6 * kept), "training.retriever", cut, tmp_path)
    assert said.startswith(f"error: {cut.out}") and "cannot be written (" in said
    assert "make room and start it again" in said
    assert (tmp_path / "cut" / "run" / "state.pt").exists()
    assert train_retriever(cut)["history"] == expected["history"]


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
