"""What the two makers of models share: steps that a killed run goes on with, and arguments."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from rulerag.errors import ConfigError
from rulerag.io import prepare_folder
from training.common.checkpoint import TrainingError, load_state, save_state


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
    """
    rows: list[dict[str, float]] = []
    if state is not None and state.exists():
        kept = load_state(state)
        if kept["settings"] != settings:
            raise ConfigError(
                f"{state} was trained with other settings",
                key="out",
                hint="choose another --out, or remove that folder",
            )
        rows = kept["rows"]
        for part, value in parts.items():
            value.load_state_dict(kept["parts"][part])
    bar = tqdm(desc=name, initial=len(rows), total=steps, disable=not progress, mininterval=10)
    with bar:
        for step in range(len(rows), steps):
            rows.append(step_of(step))
            bar.set_postfix({key: f"{value:.3f}" for key, value in rows[-1].items()}, refresh=False)
            bar.update()
            if state is not None and (len(rows) % every == 0 or len(rows) == steps):
                values = {part: value.state_dict() for part, value in parts.items()}
                save_state(state, {"settings": settings, "rows": rows, "parts": values})
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


def maker_parser(program: str, description: str, example: str) -> argparse.ArgumentParser:
    """The arguments that both makers take.

    Args:
        program: how the program is called.
        description: what it does.
        example: a command that works.
    """
    parser = argparse.ArgumentParser(
        prog=f"python -m {program}", description=description, epilog=f"example: {example}"
    )
    parser.add_argument(
        "--out", required=True, type=Path, help="the folder to write; OUT.run holds its state"
    )
    parser.add_argument("--graph", type=Path, action="append", default=[], help="a graph folder")
    parser.add_argument("--threads", type=int, help="of torch")
    parser.add_argument("--seed", type=int, default=0, help="of all that is drawn (0)")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    return parser


def begin_making(arguments: argparse.Namespace) -> tuple[Path, Path]:
    """The folder of the model and that of its state, both made when missing.

    Args:
        arguments: of :func:`maker_parser`; the number of threads is set by them.
    """
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    out = prepare_folder(arguments.out)
    return out, prepare_folder(out.with_name(f"{out.name}.run"))
