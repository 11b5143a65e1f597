"""Where training runs: one process, or those that ``torchrun`` or ``accelerate launch`` started.

``accelerate launch --cpu`` starts several by MPI alone (``--mpirun_hostfile``); without MPI,
``accelerate launch --multi_gpu`` and ``device=cpu`` do, as torchrun does.

Each process takes a device of its own, and only the first writes files. What one process finds out,
all of them then know: a process that goes its own way would leave the others waiting for ever.
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

_PATIENCE = timedelta(hours=12)
"""How long a process waits for the others: the first one may have a corpus to encode."""


_MPI = {
    "RANK": ("PMI_RANK", "OMPI_COMM_WORLD_RANK"),
    "WORLD_SIZE": ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE"),
    "LOCAL_WORLD_SIZE": ("MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE"),
}
"""What Intel's MPI and Open MPI call it, in the processes of ``accelerate launch --cpu``."""


def launched(name: str, otherwise: int) -> int:
    """A number that the launcher gave this process.

    Args:
        name: ``RANK``, ``WORLD_SIZE`` or ``LOCAL_WORLD_SIZE``.
        otherwise: without a launcher.
    """
    names = (name, *(_MPI[name] if _by_accelerate_on_cpu() else ()))
    return int(next((os.environ[n] for n in names if n in os.environ), otherwise))


def _by_accelerate_on_cpu() -> bool:
    return os.environ.get("ACCELERATE_USE_CPU", "").lower() in ("1", "true")


def first_process() -> bool:
    """Whether this process speaks for all, as the launcher numbered them."""
    return launched("RANK", 0) == 0


def own_device(device: str, *, gpus: int, local_world: int) -> None:
    """Refuse a device that the processes of one machine cannot have each for itself.

    Args:
        device: as configured; empty for a GPU where there is one.
        gpus: how many this machine has.
        local_world: processes on this machine.

    Raises:
        ConfigError: one GPU for several processes, or no GPU where one is configured.
    """
    if device.startswith("cuda") and not gpus:
        raise ConfigError("there is no GPU here", key="device", hint="device=cpu")
    if local_world == 1 or device == "cpu" or not gpus:
        return
    if device not in ("", "cuda"):
        raise ConfigError(
            f"{local_world} processes cannot share {device}",
            key="device",
            hint="device=cuda gives each process a GPU of its own; CUDA_VISIBLE_DEVICES says which",
        )
    if local_world > gpus:
        raise ConfigError(
            f"{local_world} processes on this machine, and {gpus} GPU{'s' * (gpus > 1)}",
            key="device",
            hint=f"start {gpus} (--nproc_per_node, --num_processes), or device=cpu",
        )


def check_precision(precision: str, device: str, *, bf16: bool, otherwise: str) -> None:
    """Refuse a precision that a device does not compute in.

    Args:
        precision: ``fp32``, ``bf16`` or ``fp16``.
        device: ``cpu``, ``cuda``, ``cuda:1``.
        bf16: whether that device computes in bf16 itself; older cards (V100, T4) emulate it, many
            times slower than fp32.
        otherwise: what to take instead of bf16.

    Raises:
        ConfigError: bf16 on a GPU without it, or fp16 without a GPU, whose loss cannot be scaled.
    """
    if precision == "fp16" and not device.startswith("cuda"):
        raise ConfigError(
            f"fp16 is not trained on {device}: its gradients need a scaled loss, which a GPU alone "
            "computes",
            key="training.precision",
            hint="precision=fp32 or precision=bf16, or device=cuda",
        )
    if precision == "bf16" and device.startswith("cuda") and not bf16:
        raise ConfigError(
            "this GPU does not compute in bf16",
            key="training.precision",
            hint=f"precision={otherwise}",
        )


class Processes:
    """One view on one or several processes; accelerate is needed for several only.

    Args:
        device: ``cpu``, ``cuda``, ``cuda:1``; a GPU where there is one when None.
        precision: ``fp32``, ``bf16`` or ``fp16``, checked against the device.
        otherwise: what an error about bf16 says that works instead.

    Raises:
        ConfigError: a device that is not here or not for each process, a precision that it does
            not compute in, a launcher that shards the model (FSDP, DeepSpeed), or one that started
            fewer processes than it was asked for.
        MissingDependencyError: several processes without accelerate.
    """

    def __init__(
        self, device: str | None = None, precision: str = "fp32", *, otherwise: str = "fp32"
    ) -> None:
        self.world = launched("WORLD_SIZE", 1)
        self.rank = 0
        if self.world == 1 and _by_accelerate_on_cpu() and "MASTER_ADDR" in os.environ:
            raise ConfigError(  # it tells a single process so only where it was asked for several
                "accelerate launch --cpu starts one process, however many it is asked for",
                key="--num_processes",
                hint="accelerate launch --multi_gpu --num_processes 2 … device=cpu starts two, as "
                "torchrun does; --mpirun_hostfile FILE starts them by MPI",
            )
        gpus = torch.cuda.device_count()
        local_world = launched("LOCAL_WORLD_SIZE", self.world)
        own_device(device or "", gpus=gpus, local_world=local_world)
        self.device = _device(device or ("cuda:0" if gpus else "cpu"))
        if self.world > 1:
            self.device = _join(cpu=self.device.type == "cpu")
            self.rank = torch.distributed.get_rank()
        native = torch.cuda.is_bf16_supported(including_emulation=False)
        check_precision(precision, str(self.device), bf16=native, otherwise=otherwise)

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
        found: T = outcome[0]
        return found

    def in_turn(self, work: Callable[[], T]) -> T:
        """What each process does for itself, the first one before the others.

        Args:
            work: leaves a file that makes it quick for those who come later.
        """
        own: list[T] = []
        self.first(lambda: own.append(work()))
        return own[0] if own else work()

    def share(self, items: Sequence[T]) -> list[T]:
        """This process's part of what all of them do together."""
        return list(items[self.rank :: self.world])

    def gather(self, mine: Sequence[T]) -> list[T]:
        """The results of all parts, in the order of the whole; the other way of :meth:`share`."""
        if self.world == 1:
            return list(mine)
        parts: list[Any] = [None] * self.world
        torch.distributed.all_gather_object(parts, list(mine))
        total = sum(map(len, parts))
        return [parts[place % self.world][place // self.world] for place in range(total)]

    def wait(self) -> None:
        """Go on when every process is here."""
        if self.world > 1:
            torch.distributed.barrier()

    def end(self) -> None:
        """Leave the group of processes, all at once."""
        gc.collect()  # a wrapped model that outlives its group hangs
        if self.world > 1 and torch.distributed.is_initialized():
            torch.distributed.barrier()  # a group that one has left can hang the others
            torch.distributed.destroy_process_group()


def _device(device: str) -> torch.device:
    try:
        return torch.device(device)
    except RuntimeError as error:
        message = str(error).splitlines()[0]
        raise ConfigError(message, key="device", hint="device=cpu or device=cuda") from error


def _join(*, cpu: bool) -> torch.device:
    """Meet the other processes; the device of this one."""
    for name, key in (("FSDP", "ACCELERATE_USE_FSDP"), ("DeepSpeed", "ACCELERATE_USE_DEEPSPEED")):
        if os.environ.get(key, "").lower() in ("1", "true"):
            raise ConfigError(
                f"the launcher shards the model by {name}, and a part of one is not written or "
                "asked anything here",
                key=key,
                hint="accelerate launch --multi_gpu, or torchrun: a whole model in each process",
            )
    try:
        accelerate = importlib.import_module("accelerate")
    except ImportError:
        raise MissingDependencyError("accelerate", "train") from None
    state = accelerate.PartialState(cpu=cpu, timeout=_PATIENCE)
    return torch.device("cpu" if cpu else state.device)
