"""What both trainings add to a trainer of Hugging Face: measures, guards, whole checkpoints."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import torch
from accelerate import DistributedType
from transformers import PrinterCallback, ProgressCallback, TrainerCallback

from rulerag.errors import GenerationError, RetrievalError
from rulerag.io import write_text
from rulerag.models import quiet_transformers, saving
from training.common.checkpoint import ROOM, TrainingError
from training.common.processes import Processes

Measures = dict[str, float]

_COMPLETE = "complete"  # written last: a checkpoint without it was cut off
A = TypeVar("A")
_Trainer: Any = object  # a trainer of a library, which stands behind it among the bases


def make_arguments(
    kind: Callable[..., A],
    settings: Any,
    work: Path,
    processes: Processes,
    *,
    every: float,
    progress: bool,
    **others: Any,
) -> A:
    """The arguments of a trainer, without what a launcher or the machine asks besides.

    Args:
        kind: of the trainer's library.
        settings: of the run, with a section ``training``.
        work: the folder of its checkpoints.
        processes: where it runs.
        every: steps between two validations, which are checkpoints too; below 1 a fraction of all.
        progress: show a progress bar.
        others: what the two trainings do not take from their settings alike.
    """
    training, cpu = settings.training, processes.device.type == "cpu"
    arguments: Any = kind(
        output_dir=str(work),
        learning_rate=training.learning_rate,
        gradient_accumulation_steps=training.accumulation,
        weight_decay=training.weight_decay,
        max_grad_norm=training.max_grad_norm,
        bf16=training.precision == "bf16",
        fp16=training.precision == "fp16",
        use_cpu=cpu,
        dataloader_pin_memory=not cpu,
        eval_strategy="steps",
        eval_steps=every,
        eval_on_start=last_checkpoint(work) is None,
        save_strategy="steps",
        save_steps=every,
        save_total_limit=1,  # beside the best
        metric_for_best_model="merit",
        greater_is_better=True,
        load_best_model_at_end=True,
        logging_steps=1,
        logging_nan_inf_filter=False,
        report_to=list(settings.report_to) or "none",
        disable_tqdm=not progress,
        seed=settings.seed,
        data_seed=settings.seed,
        **others,
    )
    arguments.mixed_precision = {"fp32": "no"}.get(training.precision, training.precision)
    # One process would spread each batch over every GPU that it sees, another batch than was set.
    arguments._n_gpu = min(1, arguments.n_gpu)
    if processes.sharded and cpu:
        # PyTorch shards on CPUs as well; accelerate leaves them out, whatever it was asked for.
        arguments.distributed_state.distributed_type = DistributedType.MULTI_GPU
    made: A = arguments
    return made


class MeasuredTrainer(_Trainer):  # type: ignore[misc]
    """A trainer that validates by measures of ours and stops at a number that is none.

    Stands before a trainer of a library among the bases of a class.

    Attributes:
        measure: gives the measures of the model as it is now, ``merit`` among them, which chooses
            the best checkpoint.
    """

    measure: Callable[[Any], Measures]
    control: Any

    def evaluate(self, *_: Any, metric_key_prefix: str = "eval", **__: Any) -> Measures:
        """Measure the model, and report that."""
        try:
            measures = self.measure(self.model)
        except (GenerationError, RetrievalError) as error:
            raise self._diverged(error.message) from error
        logged = {f"{metric_key_prefix}_{name}": value for name, value in measures.items()}
        self.log(logged)
        self.control = self.callback_handler.on_evaluate(
            self.args, self.state, self.control, logged
        )
        return logged

    def training_step(self, *arguments: Any, **options: Any) -> torch.Tensor:
        """One pass forward and backward.

        Raises:
            TrainingError: its loss is no number, in this process or another.
        """
        loss: torch.Tensor = super().training_step(*arguments, **options)
        finite = torch.isfinite(loss)
        if self.args.world_size > 1:  # one that stops alone would leave the others waiting
            finite = self.accelerator.gather(finite.reshape(1)).all()
        if not bool(finite):
            raise self._diverged(f"the loss is {float(loss)}")
        return loss

    def _clip_grad_norm(self, model: Any) -> Any:
        norm = super()._clip_grad_norm(model)
        # A scaler of fp16 skips such steps by itself.
        whole = norm.full_tensor() if hasattr(norm, "full_tensor") else norm
        if not self.args.fp16 and whole is not None and not math.isfinite(float(whole)):
            raise self._diverged(f"the gradient's norm is {float(whole)}")
        return whole

    def _save_checkpoint(self, *arguments: Any, **options: Any) -> None:
        work = Path(self.args.output_dir)
        with saving(work, ROOM):
            super()._save_checkpoint(*arguments, **options)
        # Each process writes its random state into the first one's checkpoint.
        self.accelerator.wait_for_everyone()
        if self.is_world_process_zero():
            write_text(work / f"checkpoint-{self.state.global_step}" / _COMPLETE, "yes\n")

    def _diverged(self, what: str) -> TrainingError:
        work = Path(self.args.output_dir)
        last = last_checkpoint(work)
        words = f"the checkpoint {last.name} is kept" if last is not None else "nothing is kept yet"
        return TrainingError(
            f"step {self.state.global_step + 1}: {what}",
            path=work,
            hint=f"{words}; with a lower learning_rate or precision=fp32, start a new folder "
            "(out=…)",
        )


@contextmanager
def as_opened(model: Any) -> Iterator[None]:
    """A model that computes in the type of its weights, as it will when it is used.

    What accelerate wraps around the forward pass of a model in mixed precision would give the
    decoder of a generator other types than those of its own tensors.
    """
    wrapped = vars(model).get("_original_forward") and model.forward
    # A layer compiled for training would be compiled again for reading with a cache.
    compiled = {part: part._compiled_call_impl for part in model.modules()}
    if wrapped:
        model.forward = model._original_forward
    for part in compiled:
        part._compiled_call_impl = None
    try:
        yield
    finally:
        for part, call in compiled.items():
            part._compiled_call_impl = call
        if wrapped:
            model.forward = wrapped


class _ProgressBar(ProgressCallback):
    """The library's bar, with a line for each validation in place of one for each step."""

    def on_log(self, *_: Any, **__: Any) -> None:
        """Nothing: every step is logged."""

    def on_evaluate(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Show what was measured."""
        row = history(state)[-1]
        shown = ", ".join(
            f"{name} {value:.4f}" for name, value in row.items() if name not in ("step", "merit")
        )
        if self.training_bar is not None:
            self.training_bar.write(f"step {row['step']:.0f}: {shown}")


def prepare_trainer(
    trainer: MeasuredTrainer,
    measure: Callable[[Any], Measures],
    callbacks: Sequence[TrainerCallback] = (),
) -> None:
    """Give a trainer its measures, and a progress bar that shows them.

    Args:
        trainer: the trainer.
        measure: see :class:`MeasuredTrainer`.
        callbacks: further ones, of the caller.
    """
    trainer.measure = measure
    trainer.remove_callback(PrinterCallback)
    if not trainer.args.disable_tqdm:
        trainer.remove_callback(ProgressCallback)
        trainer.add_callback(_ProgressBar())
    for callback in callbacks:
        trainer.add_callback(callback)


def train(trainer: MeasuredTrainer, processes: Processes) -> None:
    """Train to the end, from the last complete checkpoint where there is one.

    Raises:
        TrainingError: the loss or the gradient is no number; the last good state is kept.
        OutputError: a checkpoint cannot be written.
    """
    work = Path(trainer.args.output_dir)
    checkpoint = processes.first(lambda: last_checkpoint(work))
    with quiet_transformers():
        trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))


def last_checkpoint(work: Path) -> Path | None:
    """The last complete checkpoint; those that were cut off are removed."""
    whole = []
    for place in sorted(work.glob("checkpoint-*"), key=_step_of):
        if (place / _COMPLETE).exists():
            whole.append(place)
        else:
            shutil.rmtree(place, ignore_errors=True)
    return whole[-1] if whole else None


def _step_of(checkpoint: Path) -> int:
    return int(checkpoint.name.rpartition("-")[2])


def history(state: Any) -> list[Measures]:
    """The step, the mean loss since the one before, and the measures of every validation.

    Args:
        state: of a trainer. Its first validation is that of the start.
    """
    rows: list[Measures] = []
    losses: list[float] = []
    for entry in state.log_history:
        if "loss" in entry:
            losses.append(entry["loss"])
        if "eval_merit" in entry:
            row: Measures = {"step": entry["step"]}
            if losses:
                row["loss"] = sum(losses) / len(losses)
            row |= {k.removeprefix("eval_"): v for k, v in entry.items() if k.startswith("eval_")}
            rows.append(row)
            losses = []
    return rows


def outcome(trainer: MeasuredTrainer, measures: Sequence[str]) -> dict[str, Any]:
    """What a training came to: measures before and at the best step, and every validation.

    The start is one of the candidates: where every validation is worse, the best step is 0.

    Args:
        trainer: at its end.
        measures: the names of those that are kept.
    """
    rows = history(trainer.state)
    best_step = trainer.state.best_global_step
    best = next((row for row in rows if row["step"] == best_step), rows[-1])
    if rows[0]["merit"] > best["merit"]:
        best = rows[0]
    return {
        "before": {name: rows[0][name] for name in measures},
        "best": {name: best[name] for name in measures},
        "best_step": int(best["step"]),
        "steps": trainer.state.global_step,
        "history": [{k: v for k, v in row.items() if k != "merit"} for row in rows],
    }
