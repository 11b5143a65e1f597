"""The folder of a training run: what it goes on from, and at the end what it made."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from rulerag.errors import ConfigError, DataFormatError, OutputError, RuleRAGError
from rulerag.io import atomic_write, prepare_folder, read_json, write_json, write_text
from rulerag.output_folder import hold_folder
from training.common.processes import first_process

if TYPE_CHECKING:
    from training.common.settings import TrainingSettings

_FINISHED = "metrics.json"
_ROOM = "make room and start it again: it goes on from what it kept last"


class TrainingError(RuleRAGError):
    """Training cannot go on; the last good checkpoint is kept."""


class RunFolder:
    """The folder of one run.

    Everything to go on from lies in ``run``: the checkpoints of a trainer, or the ``state.pt`` of a
    loop of our own. ``metrics.json`` stands when the run is finished.

    Args:
        folder: the folder; made when missing.
        fingerprint: of the settings; a folder of other settings is refused.

    Raises:
        ConfigError: the folder holds a run with other settings.
        OutputError: the folder cannot be written.
    """

    def __init__(self, folder: str | Path, fingerprint: str) -> None:
        self.home = prepare_folder(folder)
        self.work = self.home / "run"
        self.fingerprint = fingerprint
        stated = self.work / "settings.json"
        if stated.exists() and read_json(stated).get("fingerprint") != fingerprint:
            raise ConfigError(
                f"{self.home} holds a run with other settings",
                key="out",
                hint="choose another folder with out=…, or remove that one",
            )

    @classmethod
    def begun(cls, settings: TrainingSettings, world: int | None = None) -> RunFolder:
        """The folder of some settings, finished or held until this process ends.

        Args:
            settings: of the run.
            world: how many processes train, where an interrupted run needs as many as it began in.

        Raises:
            ConfigError: it holds a run with other settings, or of another number of processes.
            OutputError: it cannot be written, or another process trains in it.
        """
        folder = cls(settings.out, settings.fingerprint)
        if folder.finished is not None:
            return folder
        stated = folder.work / "settings.json"
        begun = read_json(stated).get("processes", 1) if world and stated.exists() else world
        if begun != world:
            raise ConfigError(
                f"{folder.home} holds a run that {begun} processes began, and here are {world}",
                key="out",
                hint=f"start {begun} processes again, or choose another folder with out=…",
            )
        folder.begin({**settings.to_json(), **({"processes": world} if world else {})})
        return folder

    def begin(self, settings: dict[str, Any]) -> None:
        """Say which settings this folder is for; one run alone may, until it ends."""
        if first_process():  # of the processes of one run the first holds it
            hold_folder(self.home)
        write_json(self.work / "settings.json", {"fingerprint": self.fingerprint, **settings})

    @property
    def finished(self) -> dict[str, Any] | None:
        """The metrics of a finished run; None for one to begin or to go on with."""
        place = self.home / _FINISHED
        return dict(read_json(place)) if place.exists() else None

    def load(self) -> dict[str, Any] | None:
        """The last state; None at the beginning.

        Raises:
            DataFormatError: the file cannot be read.
        """
        place = self.work / "state.pt"
        if not place.exists():
            return None
        return load_state(place)

    def save(self, state: dict[str, Any]) -> None:
        """Keep a state in place of the last one.

        Raises:
            OutputError: it cannot be written.
        """
        with saving(self.work):
            save_state(self.work / "state.pt", state)

    def finish(self, card: str, metrics: dict[str, Any]) -> None:
        """Write the card and at last the metrics, beside models that are written already."""
        write_text(self.home / "README.md", card)
        write_json(self.home / _FINISHED, metrics)
        (self.work / "state.pt").unlink(missing_ok=True)
        for checkpoint in self.work.glob("checkpoint-*"):
            shutil.rmtree(checkpoint)


@contextmanager
def saving(place: Path) -> Iterator[None]:
    """What libraries raise when a disk is full, each in its own way, as one error.

    Args:
        place: what is written.

    Raises:
        OutputError: it cannot be written.
    """
    try:
        yield
    except RuleRAGError as error:
        if isinstance(error, OutputError) and error.hint is None:
            raise OutputError(error.message, path=error.path, hint=_ROOM) from error
        raise
    except Exception as error:
        if isinstance(error, OSError):
            reason = error.strerror
        elif "os error" in str(error):  # safetensors and tokenizers, which are written in Rust
            reason = str(error)
        elif "inline_container" in str(error) or "PytorchStreamWriter" in str(error):
            reason = "the file ended early, as on a full disk"  # torch counts bytes
        else:
            raise
        raise OutputError(f"cannot be written ({reason})", path=place, hint=_ROOM) from error


def save_state(place: Path, value: dict[str, Any]) -> None:
    """Write a checkpoint, atomically."""
    with atomic_write(place, "wb") as file:
        torch.save(value, file)


def load_state(place: Path) -> dict[str, Any]:
    """Read a checkpoint of :func:`save_state`.

    Raises:
        DataFormatError: the file is none.
    """
    try:
        loaded: dict[str, Any] = torch.load(place, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, ValueError, EOFError) as error:
        raise DataFormatError(
            f"is no checkpoint ({str(error).splitlines()[0]})",
            path=place,
            hint="remove the folder and train again",
        ) from error
    return loaded
