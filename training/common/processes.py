"""Where training runs: one process, or those that ``torchrun`` or ``accelerate launch`` started.

``accelerate launch --cpu`` starts several by MPI alone (``--mpirun_hostfile``); without MPI,
``accelerate launch --multi_gpu`` and ``device=cpu`` do, as torchrun does.

accelerate gives each process a device of its own; only the first process writes files. What one
process finds out, all of them then know: a process that goes its own way would leave the others
waiting for ever.
"""

from __future__ import annotations

import gc
import importlib
import os
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, TypeVar

import torch

from rulerag.errors import ConfigError, MissingDependencyError, RuleRAGError

T = TypeVar("T")
R = TypeVar("R")

_PATIENCE = timedelta(hours=12)
"""How long a process waits for the others: the first one may have a corpus to encode."""


def check_device(device: str, *, gpus: int, local_world: int) -> None:
    """Refuse a device that the processes of one machine cannot have each for itself.

    Args:
        device: as configured; empty for a GPU where there is one.
        gpus: how many this machine has.
        local_world: processes on this machine.

    Raises:
        ConfigError: fewer GPUs than processes, or no GPU where one is configured.
    """
    if device == "cuda" and not gpus:
        raise ConfigError("there is no GPU here", key="device", hint="device=cpu")
    if device != "cpu" and 0 < gpus < local_world:
        raise ConfigError(
            f"{local_world} processes on this machine, and {gpus} GPU{'s' * (gpus > 1)}",
            key="device",
            hint=f"start {gpus} (--nproc_per_node, --num_processes), or device=cpu",
        )


def check_precision(precision: str, device: str, *, bf16: bool, otherwise: str) -> None:
    """Refuse a precision that a device does not compute in.

    Args:
        precision: ``fp32``, ``bf16`` or ``fp16``.
        device: ``cpu`` or ``cuda``.
        bf16: whether that device computes in bf16 itself; older cards (V100, T4) emulate it, many
            times slower than fp32.
        otherwise: what to take instead of bf16.

    Raises:
        ConfigError: bf16 on a GPU without it, or fp16 without a GPU, whose loss cannot be scaled.
    """
    if precision == "fp16" and device != "cuda":
        raise ConfigError(
            f"fp16 is not trained on {device}: its gradients need a scaled loss, which a GPU alone "
            "computes",
            key="training.precision",
            hint="precision=fp32 or precision=bf16, or device=cuda",
        )
    if precision == "bf16" and device == "cuda" and not bf16:
        raise ConfigError(
            "this GPU does not compute in bf16",
            key="training.precision",
            hint=f"precision={otherwise}",
        )


def _asked(name: str) -> bool:
    """Whether accelerate's launcher sets a flag of this name."""
    return os.environ.get(f"ACCELERATE_USE_{name}", "").lower() in ("1", "true")


def _sharded(allowed: bool) -> bool:
    """Whether the launcher shards the model.

    Raises:
        ConfigError: by another way than FSDP2, or a model that is not to be sharded.
    """
    way = "DeepSpeed" if _asked("DEEPSPEED") else "FSDP" if _asked("FSDP") else ""
    if not way:
        return False
    if way == "FSDP" and allowed and os.environ.get("FSDP_VERSION") == "2":
        return True
    raise ConfigError(
        f"the launcher shards the model by {way}, and "
        + ("FSDP2 alone does that here" if allowed else "this one is needed whole in each process"),
        key=f"ACCELERATE_USE_{way.upper()}",
        hint="accelerate launch --use_fsdp --fsdp_version 2, as configs/training/accelerate has it"
        if allowed
        else "accelerate launch --multi_gpu, or torchrun, which shard nothing: retrievers and "
        "quantized weights are not sharded",
    )


class Processes:
    """One view on one or several processes.

    Args:
        device: ``cpu`` or ``cuda``; a GPU where there is one when empty.
        precision: ``fp32``, ``bf16`` or ``fp16``, checked against the device.
        otherwise: what an error about bf16 says that works instead.
        shards: whether the model may be spread over the processes (FSDP2).

    Attributes:
        sharded: whether the launcher spreads the model: each process holds a part of every weight.

    Raises:
        ConfigError: a device that is not here or not for each process, a precision that it does
            not compute in, a launcher that spreads the model in a way that is not trained here, or
            one that started fewer processes than it was asked for.
        MissingDependencyError: accelerate is not installed.
    """

    def __init__(
        self,
        device: str = "",
        precision: str = "fp32",
        *,
        otherwise: str = "fp32",
        shards: bool = False,
    ) -> None:
        try:
            accelerate = importlib.import_module("accelerate")
        except ImportError:
            raise MissingDependencyError("accelerate", "train") from None
        self.sharded = _sharded(shards)
        gpus = torch.cuda.device_count()
        check_device(device, gpus=gpus, local_world=int(os.environ.get("LOCAL_WORLD_SIZE", "1")))
        kind = "cpu" if device == "cpu" or not gpus else "cuda"
        native = torch.cuda.is_bf16_supported(including_emulation=False)
        check_precision(precision, kind, bf16=native, otherwise=otherwise)
        self._state = accelerate.PartialState(cpu=kind == "cpu", timeout=_PATIENCE)
        self.world: int = self._state.num_processes
        self.rank: int = self._state.process_index
        # It names an address to a single process only where it was asked for several.
        if self.world == 1 and _asked("CPU") and "MASTER_ADDR" in os.environ:
            raise ConfigError(
                "accelerate launch --cpu starts one process, however many it is asked for",
                key="--num_processes",
                hint="accelerate launch --multi_gpu --num_processes 2 … device=cpu starts two, as "
                "torchrun does; --mpirun_hostfile FILE starts them by MPI",
            )
        # Not the state's own, which an earlier run in this process may have chosen.
        place = f"cuda:{self._state.local_process_index}"
        self.device = torch.device(place if kind == "cuda" else "cpu")

    @property
    def is_main(self) -> bool:
        """Whether this process writes files."""
        return self.rank == 0

    def first(self, work: Callable[[], T]) -> T:
        """What the first process finds, in every process; an error of rulerag's own too.

        Args:
            work: done by the first process alone, while the others wait.
        """
        if self.world == 1:
            return work()
        outcome: list[Any] = [None, None]
        if self.is_main:
            try:
                outcome[0] = work()
            except RuleRAGError as error:
                outcome[1] = error
        torch.distributed.broadcast_object_list(outcome, src=0)
        if outcome[1] is not None:
            raise outcome[1]
        result: T = outcome[0]
        return result

    def in_turn(self, work: Callable[[], T]) -> T:
        """What each process does for itself, the first one before the others.

        Args:
            work: leaves a file that makes it quick for those who come later.
        """
        own: list[T] = []
        self.first(lambda: own.append(work()))
        return own[0] if own else work()

    def divided(self, work: Callable[[list[T]], list[R]], items: Sequence[T]) -> list[R]:
        """What a function makes of items, in their order, in every process.

        Args:
            work: done by each process for its part of the items; gives one result for each.
            items: the same in every process.
        """
        gather: Any = importlib.import_module("accelerate.utils").gather_object
        with self._state.split_between_processes(list(items)) as mine:
            results: list[R] = gather(work(mine))
        return results

    def wait(self) -> None:
        """Go on when every process is here."""
        self._state.wait_for_everyone()

    def end(self) -> None:
        """Leave the group of processes, all at once."""
        gc.collect()  # a wrapped model that outlives its group hangs
        if self.world > 1:
            self.wait()  # a group that one has left can hang the others
            self._state.destroy_process_group()
