"""A loop of steps that a killed run goes on with, for what no library's trainer trains."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from rulerag.errors import ConfigError, DataFormatError
from rulerag.io import atomic_write
from rulerag.models import saving
from training.common.checkpoint import ROOM, TrainingError


def run_steps(
    step_of: Callable[[int], dict[str, float]],
    parts: Mapping[str, Any],
    steps: int,
    *,
    state: Path | None = None,
    settings: str = "",
    every: int = 100,
    name: str = "steps",
    progress: bool = False,
) -> list[dict[str, float]]:
    """Take steps from where a file of state stands; return the figures of every step.

    Args:
        step_of: takes a step by its number, and returns its figures.
        parts: by name, what has a ``state_dict``: model, optimizer and whatever else changes.
        steps: the step to stop before.
        state: the file that is written every so many steps and at the end; none when None.
        settings: a fingerprint of the settings, which a file of state must have.
        every: steps between two writes.
        name: of the progress bar.
        progress: show it.

    Raises:
        ConfigError: the file is of other settings.
        DataFormatError: it cannot be read.
        OutputError: it cannot be written.
    """
    rows: list[dict[str, float]] = []
    if state is not None and state.exists():
        stored = _load(state)
        if stored["settings"] != settings:
            raise ConfigError(
                f"{state} was trained with other settings",
                key="out",
                hint="choose another --out, or remove that folder",
            )
        rows = stored["rows"]
        for part, value in parts.items():
            value.load_state_dict(stored["parts"][part])
    bar = tqdm(desc=name, initial=len(rows), total=steps, disable=not progress, mininterval=10)
    with bar:
        for step in range(len(rows), steps):
            rows.append(step_of(step))
            bar.set_postfix({key: f"{value:.3f}" for key, value in rows[-1].items()}, refresh=False)
            bar.update()
            if state is not None and (len(rows) % every == 0 or len(rows) == steps):
                values = {part: value.state_dict() for part, value in parts.items()}
                with saving(state, ROOM), atomic_write(state, "wb") as file:
                    torch.save({"settings": settings, "rows": rows, "parts": values}, file)
    return rows


def descend(optimizer: torch.optim.Optimizer, loss: torch.Tensor, rate: float) -> None:
    """One step of an optimizer, its gradient clipped to length one.

    Args:
        optimizer: of the weights.
        loss: to lower.
        rate: the learning rate of the step.

    Raises:
        TrainingError: the loss is no number.
    """
    if not bool(torch.isfinite(loss)):
        raise TrainingError("the loss is no number", hint="a lower learning rate")
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.zero_grad()
    torch.autograd.backward(loss)
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    torch.nn.utils.clip_grad_norm_(weights, 1.0)
    optimizer.step()


def _load(place: Path) -> dict[str, Any]:
    try:
        loaded: dict[str, Any] = torch.load(place, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, ValueError, EOFError) as error:
        raise DataFormatError(
            f"is no checkpoint ({str(error).splitlines()[0]})",
            path=place,
            hint="remove the folder and train again",
        ) from error
    return loaded
