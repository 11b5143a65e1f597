"""Figures of a run where people watch them: TensorBoard, Weights & Biases, MLflow and others.

TensorBoard's files stand in ``tensorboard`` of the run's folder; the others are told where by their
own environment variables (``WANDB_PROJECT``, ``MLFLOW_TRACKING_URI``, …).
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rulerag.errors import MissingDependencyError
from training.common.processes import Processes

PROJECT = "rulerag"
TENSORBOARD = "tensorboard"


def check_trackers(names: Sequence[str]) -> None:
    """Refuse a tracker whose package is missing, before any work.

    Raises:
        MissingDependencyError: names the package.
    """
    for name in names:
        if importlib.util.find_spec(name) is None:
            raise MissingDependencyError(name)


def tensorboard_options(folder: Path, begun: int) -> dict[str, Any]:
    """Arguments of TensorBoard's writer: its folder, and the step from which older files are void.

    Args:
        folder: of the run.
        begun: the step that the run goes on from. What a killed run wrote of later ones is not
            shown: they are taken again.
    """
    return {"log_dir": folder / TENSORBOARD, "purge_step": begun + 1 if begun else None}


class Trackers:
    """The trackers of a training loop of our own, those of accelerate.

    Args:
        names: of the trackers; nothing happens without any.
        folder: of the run.
        settings: of the run, shown beside it.
        processes: of which the first alone reports.
        begun: the step that the run goes on from.

    Raises:
        MissingDependencyError: accelerate or a tracker's package is not installed.
    """

    def __init__(
        self,
        names: Sequence[str],
        folder: Path,
        settings: dict[str, Any],
        processes: Processes,
        begun: int = 0,
    ) -> None:
        self._trackers: list[Any] = []
        check_trackers(names)
        if not names or not processes.is_main:
            return
        if importlib.util.find_spec("accelerate") is None:
            raise MissingDependencyError("accelerate", "train")
        tracking: Any = importlib.import_module("accelerate.tracking")
        for name in names:
            kind = tracking.LOGGER_TYPE_TO_CLASS[name]
            if name == TENSORBOARD:
                options = tensorboard_options(folder, begun)
                home = options.pop("log_dir")
                made = kind(home.name, home.parent, **options)
            else:
                made = kind(PROJECT, folder) if kind.requires_logging_directory else kind(PROJECT)
            made.start()
            if not begun:
                made.store_init_configuration({key: _plain(v) for key, v in settings.items()})
            self._trackers.append(made)

    def log(self, step: int, **figures: float) -> None:
        """Report figures of a step; ``train_loss`` is shown as ``train/loss``."""
        shown = {_shown(name): value for name, value in figures.items()}
        for tracker in self._trackers:
            tracker.log(shown, step=step)

    def close(self) -> None:
        """Write what is left."""
        for tracker in self._trackers:
            tracker.finish()


def _shown(name: str) -> str:
    """Grouped as the Hugging Face trainer does; MLflow takes no ``@`` in a name."""
    group, _, rest = name.partition("_")
    return f"{group}/{rest}".replace("@", "_at_")


def _plain(value: Any) -> Any:
    return value if isinstance(value, bool | int | float | str) else str(value)
