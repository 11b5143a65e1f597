"""The folder of a training run: what it goes on from, and at the end what it made."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rulerag.errors import ConfigError, RuleRAGError
from rulerag.folders import hold_folder
from rulerag.io import prepare_folder, read_json, write_json, write_text

if TYPE_CHECKING:
    from training.common.settings import TrainingSettings

_FINISHED = "metrics.json"
ROOM = "make room and start it again: it goes on from what it kept last"
"""What to do when a disk is full."""


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
        if self._stated.get("fingerprint", fingerprint) != fingerprint:
            raise ConfigError(
                f"{self.home} holds a run with other settings",
                key="out",
                hint="choose another folder with out=…, or remove that one",
            )

    @classmethod
    def begun(cls, settings: TrainingSettings, world: int | str | None = None) -> RunFolder:
        """The folder of some settings, finished or held until this process ends.

        Args:
            settings: of the run.
            world: how many processes train and whether they shard the model, where an interrupted
                run needs as many as it began in.

        Raises:
            ConfigError: it holds a run with other settings, or of another number of processes.
            OutputError: it cannot be written, or another process trains in it.
        """
        folder = cls(settings.out, settings.fingerprint)
        if folder.finished is not None:
            return folder
        before = folder._stated.get("processes", world)
        if before != world:
            raise ConfigError(
                f"{folder.home} holds a run that {before} processes began, and here are {world}",
                key="out",
                hint=f"start {before} processes again, or choose another folder with out=…",
            )
        hold_folder(folder.home)
        stated = {"fingerprint": settings.fingerprint, **settings.model_dump(mode="json")}
        write_json(folder.work / "settings.json", {**stated, "processes": world})
        return folder

    @property
    def _stated(self) -> dict[str, Any]:
        place = self.work / "settings.json"
        return dict(read_json(place)) if place.exists() else {}

    @property
    def finished(self) -> dict[str, Any] | None:
        """The metrics of a finished run; None for one to begin or to go on with."""
        place = self.home / _FINISHED
        return dict(read_json(place)) if place.exists() else None

    def finish(self, card: str, metrics: dict[str, Any]) -> None:
        """Write the card and at last the metrics, beside models that are written already."""
        write_text(self.home / "README.md", card)
        write_json(self.home / _FINISHED, metrics)
        (self.work / "state.pt").unlink(missing_ok=True)
        for checkpoint in self.work.glob("checkpoint-*"):
            shutil.rmtree(checkpoint)
