"""Runs as a SLURM array, by submitit: each is a job; what was ended goes on when sent again."""

from __future__ import annotations

import importlib
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from rulerag.composition import parse_settings
from rulerag.errors import MissingDependencyError, RuleRAGError

_SECONDS = 2.0
T = TypeVar("T")
R = TypeVar("R")


class SlurmBackend:
    """A :class:`~rulerag.parallel.Backend` whose workers are jobs of a SLURM array.

    Args:
        folder: for submitit's scripts and logs; every machine sees it.
        options: KEY=VALUE of submitit: ``slurm_partition=cpu``, ``timeout_min=600``,
            ``slurm_array_parallelism=20`` …

    Raises:
        MissingDependencyError: submitit is not installed.
        RuleRAGError: there is no SLURM here.
    """

    def __init__(self, folder: Path, options: Sequence[str] = ()) -> None:
        try:
            submitit = importlib.import_module("submitit")
        except ImportError as error:
            raise MissingDependencyError("submitit", extra="dev") from error
        chosen: dict[str, Any] = {"timeout_min": 600, **parse_settings(options)}
        try:
            self._executor = submitit.SlurmExecutor(folder)
        except RuntimeError as error:
            raise RuleRAGError(
                f"no SLURM can be used: {error}", hint="use --ray, or none"
            ) from error
        names = {key.removeprefix("slurm_"): value for key, value in chosen.items()}
        names["time"] = names.pop("timeout_min")
        self._executor.update_parameters(**names)
        self.workers = int(names.get("array_parallelism", 256))

    def map(self, function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """See :meth:`rulerag.parallel.Backend.map`; every job ends before one that failed is told.

        Raises:
            RuleRAGError: a job was ended; names its log.
        """
        jobs = self._executor.map_array(function, list(items))
        results, ended = [], []
        for job in jobs:
            while not job.paths.result_pickle.exists() and _is_queued(job.job_id):
                time.sleep(_SECONDS)
            time.sleep(0 if job.paths.result_pickle.exists() else _SECONDS)  # slow file systems
            try:
                if not job.paths.result_pickle.exists():
                    raise RuleRAGError("it was killed")
                results.append(job.result())
            except Exception as error:  # noqa: BLE001 - whatever a job raised
                ended.append(f"{job.job_id} ({str(error).splitlines()[0]}; {job.paths.stderr})")
        if ended:
            hint = "send the same command again: what is done is kept"
            raise RuleRAGError(f"{len(ended)} jobs did not end well: {'; '.join(ended)}", hint=hint)
        yield from results


def _is_queued(job: str) -> bool:
    """Whether a job waits or runs; submitit asks accounting, which may not be there."""
    words = ["squeue", "-h", "-j", job]
    return bool(subprocess.run(words, capture_output=True, text=True).stdout.strip())
