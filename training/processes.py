"""Where training runs: one process, or those that ``torchrun`` or ``accelerate launch`` started."""

from __future__ import annotations

import importlib
import os
from contextlib import AbstractContextManager
from typing import Any

import torch

from rulerag.errors import ConfigError, MissingDependencyError

__all__ = ["PRECISIONS", "Processes"]

PRECISIONS = ("fp32", "bf16")


class Processes:
    """One view on one or several processes; accelerate is needed for several only.

    Args:
        device: ``cpu``, ``cuda``, ``cuda:1``; a GPU where there is one when None.
        precision: ``fp32``, or ``bf16`` for mixed precision.

    Raises:
        ConfigError: an unknown precision, or a device that is not here.
        MissingDependencyError: several processes without accelerate.
    """

    def __init__(self, device: str | None = None, precision: str = "fp32") -> None:
        if precision not in PRECISIONS:
            raise ConfigError(
                f"unknown precision {precision!r}", key="precision", hint=" or ".join(PRECISIONS)
            )
        self.precision = precision
        self.world = int(os.environ.get("WORLD_SIZE", "1"))
        self._accelerator: Any = None
        self.rank = 0
        if self.world > 1:
            self._accelerator = _accelerator(cpu=device == "cpu")
            self.rank = int(self._accelerator.process_index)
            self.device = torch.device(self._accelerator.device)
        else:
            self.device = _device(device)

    @property
    def is_main(self) -> bool:
        """Whether this process writes files."""
        return self.rank == 0

    def prepare(self, model: torch.nn.Module) -> torch.nn.Module:
        """The model to call in training; its gradients become the mean over the processes."""
        model.to(self.device)
        return self._accelerator.prepare(model) if self._accelerator is not None else model

    def autocast(self) -> AbstractContextManager[Any]:
        """Mixed precision, where it is asked for."""
        return torch.autocast(
            self.device.type, dtype=torch.bfloat16, enabled=self.precision == "bf16"
        )

    def total(self, value: torch.Tensor) -> float:
        """The sum of a number over all processes."""
        if self._accelerator is not None:
            value = self._accelerator.reduce(value.detach().clone(), reduction="sum")
        return float(value.detach())

    def wait(self) -> None:
        """Go on when every process is here."""
        if self._accelerator is not None:
            self._accelerator.wait_for_everyone()

    def end(self) -> None:
        """Leave the group of processes."""
        if self._accelerator is not None:
            self._accelerator.end_training()
            if torch.distributed.is_initialized():
                torch.distributed.destroy_process_group()


def _device(device: str | None) -> torch.device:
    chosen = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError("there is no GPU here", key="device", hint="device=cpu")
    return chosen


def _accelerator(*, cpu: bool) -> Any:
    try:
        accelerate = importlib.import_module("accelerate")
    except ImportError:
        raise MissingDependencyError("accelerate", "train") from None
    # Encoders carry weights (a pooler) that sentence vectors never see.
    unused = accelerate.DistributedDataParallelKwargs(find_unused_parameters=True)
    return accelerate.Accelerator(cpu=cpu, kwargs_handlers=[unused])
