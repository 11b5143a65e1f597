"""TRL's supervised trainer, with validation by exact match, and what is kept of a run."""

from __future__ import annotations

import importlib
import math
import shutil
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import torch

from rulerag.errors import GenerationError
from rulerag.evaluation import answer_metrics, mean_metrics
from rulerag.generation.huggingface import HuggingFaceGenerator
from rulerag.io import write_text
from rulerag.types import Answer, GenerationRequest
from training.common.checkpoint import TrainingError, saving
from training.common.processes import Processes
from training.common.trackers import TENSORBOARD, tensorboard_options
from training.generator.batches import StepsByLength
from training.generator.loss import BLANK, LeftPadded, answer_loss
from training.generator.model import adapter_config, compile_layers
from training.generator.settings import GeneratorSettings

_COMPLETE = "complete"  # written last: a checkpoint without it was cut off
_METRICS = ("exact_match", "token_f1")


class Validation:
    """Exact match and token F1 of a model that is being trained.

    Args:
        reader: how prompts are made and answers are read; its settings, not its weights, count.
        settings: of the run.
        requests: of the tuning queries.
        processes: which share the requests; one by default.
    """

    def __init__(
        self,
        reader: HuggingFaceGenerator,
        settings: GeneratorSettings,
        requests: Sequence[GenerationRequest],
        processes: Processes | None = None,
    ) -> None:
        self.reader, self.settings, self.requests = reader, settings, requests
        self.processes = processes

    def __call__(self, model: Any) -> dict[str, float]:
        """The measures, and ``merit``: exact match, ties by token F1."""
        base = model.get_base_model() if hasattr(model, "get_base_model") else model
        training = model.training
        reader = HuggingFaceGenerator(
            base,
            tokenizer=self.reader.tokenizer,
            template=self.reader.template,
            max_new_tokens=self.settings.validation.max_new_tokens,
            max_input_tokens=self.reader.max_input_tokens,
            chat=self.reader.chat,
        )
        shared = self.processes
        mine = shared.share(self.requests) if shared else self.requests
        with _as_opened(base):
            completions = reader.generate(mine)
        if shared:
            completions = shared.gather(completions)
        model.train(training)
        rows = [
            answer_metrics(Answer(request.query, completion))
            for request, completion in zip(self.requests, completions, strict=True)
        ]
        means = mean_metrics(rows)
        found = {name: means[name] for name in _METRICS}
        return {**found, "merit": found["exact_match"] + 1e-3 * found["token_f1"]}


@contextmanager
def _as_opened(model: Any) -> Iterator[None]:
    """A model that computes in the type of its weights, as it will when it is used.

    What accelerate wraps around the forward pass of a model in mixed precision would give the
    decoder other types than those of its own tensors.
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


def last_checkpoint(work: Path) -> Path | None:
    """The last complete checkpoint; those that were cut off are removed."""
    found = sorted(work.glob("checkpoint-*"), key=_step_of)
    for place in [place for place in found if not (place / _COMPLETE).exists()]:
        shutil.rmtree(place)
        found.remove(place)
    return found[-1] if found else None


def _step_of(checkpoint: Path) -> int:
    return int(checkpoint.name.rpartition("-")[2])


def make_trainer(
    settings: GeneratorSettings,
    model: Any,
    tokenizer: Any,
    rows: Sequence[dict[str, list[int]]],
    validation: Validation,
    work: Path,
    processes: Processes,
    *,
    progress: bool = False,
    after_step: Callable[[int], None] | None = None,
) -> Any:
    """A trainer of TRL over rows of token ids and labels.

    Args:
        settings: of the run.
        model: what is trained; gets its LoRA layers here.
        tokenizer: of the model.
        rows: ``input_ids`` and ``labels``.
        validation: measures the model.
        work: the folder of its checkpoints.
        processes: where it runs.
        progress: show TRL's progress bar.
        after_step: called with the number of every finished step.
    """
    from datasets import Dataset
    from transformers import PrinterCallback, ProgressCallback

    training = settings.training
    every = _between_validations(settings, len(rows), processes.world)
    data = Dataset.from_list([*rows, BLANK])
    trainer = _trainer_class()(
        model=model,
        args=trainer_arguments(settings, work, processes, every=every, progress=progress),
        train_dataset=data,
        eval_dataset=data.select([0]),  # asked for by name only: validation generates
        data_collator=LeftPadded(tokenizer),
        processing_class=tokenizer,
        peft_config=adapter_config(settings),
        callbacks=[_callback(after_step, processes)],
    )
    trainer.model_accepts_loss_kwargs = True  # the loss is a mean over the step, for any model
    together = training.batch_size * processes.world
    trainer.sampler = StepsByLength(
        [len(row["input_ids"]) for row in rows],
        together * training.accumulation,
        settings.seed,
        multiple=together if processes.world > 1 else 1,
    )
    if training.compile:
        compile_layers(trainer.model)
    for weight in trainer.model.parameters():
        if weight.requires_grad:  # TRL puts adapters of quantized weights into bfloat16
            weight.data = weight.data.float()
    trainer.validation = validation
    trainer.remove_callback(PrinterCallback)
    if not progress:
        trainer.remove_callback(ProgressCallback)
    # Checkpointing computes layers again where this no longer holds.
    trainer.uncast = training.precision != "fp32" and not training.gradient_checkpointing
    return trainer


def _between_validations(settings: GeneratorSettings, rows: int, world: int) -> int:
    """How many steps lie between two validations."""
    batches = math.ceil(rows / (settings.training.batch_size * world))
    per_epoch = math.ceil(batches / settings.training.accumulation)
    if settings.validation.parts:
        return math.ceil(
            (settings.training.max_steps or per_epoch * settings.training.epochs)
            / settings.validation.parts
        )
    return per_epoch * settings.validation.every_epochs


def trainer_arguments(
    settings: GeneratorSettings,
    work: Path,
    processes: Processes,
    *,
    every: int,
    progress: bool = False,
) -> Any:
    """TRL's arguments of a run.

    Args:
        settings: of the run.
        work: the folder of its checkpoints.
        processes: where it runs.
        every: steps between two validations.
        progress: show TRL's progress bar.
    """
    trl: Any = importlib.import_module("trl")
    cpu = processes.device.type == "cpu"
    # The old names of two arguments, which this version of TRL still sets itself.
    warnings.filterwarnings("ignore", message=".*gradient_checkpointing.*", category=FutureWarning)
    arguments = trl.SFTConfig(
        output_dir=str(work),
        learning_rate=settings.training.learning_rate,
        per_device_train_batch_size=settings.training.batch_size,
        gradient_accumulation_steps=settings.training.accumulation,
        num_train_epochs=settings.training.epochs,
        max_steps=settings.training.max_steps or -1,
        warmup_steps=settings.training.warmup_steps,
        lr_scheduler_type=settings.training.schedule,
        weight_decay=settings.training.weight_decay,
        max_grad_norm=settings.training.max_grad_norm,
        max_length=None,  # nothing is cut: documents were left out where a prompt was too long
        packing=False,
        dataset_kwargs={"skip_prepare_dataset": True},
        gradient_checkpointing=settings.training.gradient_checkpointing,
        bf16=settings.training.precision == "bf16",
        fp16=settings.training.precision == "fp16",
        use_cpu=cpu,
        dataloader_pin_memory=not cpu,
        ddp_find_unused_parameters=False,  # every adapter is used, and looking costs
        eval_strategy="steps",
        eval_steps=every,
        save_strategy="steps",
        save_steps=every,
        save_total_limit=1,  # beside the best
        metric_for_best_model="merit",
        greater_is_better=True,
        load_best_model_at_end=True,
        logging_steps=1,
        logging_nan_inf_filter=False,
        report_to=[name for name in settings.report_to if name != TENSORBOARD] or "none",
        disable_tqdm=not progress,
        seed=settings.seed,
        data_seed=settings.seed,
    )
    # A launcher's configuration may ask for another one behind the settings' back.
    arguments.mixed_precision = (
        "no" if settings.training.precision == "fp32" else settings.training.precision
    )
    # One process would spread each batch over every GPU that it sees, another batch than was set.
    arguments._n_gpu = min(1, arguments.n_gpu)
    return arguments


@cache
def _trainer_class() -> Any:
    trl: Any = importlib.import_module("trl")
    helpers: Any = importlib.import_module("peft.helpers")

    class AnswerTrainer(trl.SFTTrainer):  # type: ignore[misc]
        """Validates by generating answers; stops at a loss that is no number."""

        validation: Validation
        sampler: StepsByLength
        uncast: bool
        control: Any

        def _get_train_sampler(self, *_: Any) -> StepsByLength:
            return self.sampler

        def evaluate(self, *_: Any, metric_key_prefix: str = "eval", **__: Any) -> dict[str, float]:
            try:
                figures = self.validation(self.model)
            except GenerationError as error:
                raise _diverged(self, error.message) from error
            metrics = {f"{metric_key_prefix}_{name}": value for name, value in figures.items()}
            self.log(metrics)
            self.control = self.callback_handler.on_evaluate(
                self.args, self.state, self.control, metrics
            )
            return metrics

        def compute_loss(
            self,
            model: Any,
            inputs: Any,
            return_outputs: bool = False,
            num_items_in_batch: Any = None,
        ) -> Any:
            # PEFT turns what an adapter reads into float32, and autocast turns it back before it is
            # multiplied: the same numbers, and two copies of everything that flows through.
            with helpers.disable_input_dtype_casting(self.model, active=self.uncast):
                loss = answer_loss(model, inputs, num_items_in_batch)
            # The tokens are those of all processes, whose gradients are averaged.
            whole = num_items_in_batch is not None
            return loss * self.args.world_size if whole else loss

        def _save_checkpoint(self, *arguments: Any, **options: Any) -> None:
            with saving(Path(self.args.output_dir)):
                super()._save_checkpoint(*arguments, **options)

        def training_step(self, *arguments: Any, **options: Any) -> Any:
            loss = super().training_step(*arguments, **options)
            finite = torch.isfinite(loss)
            if self.args.world_size > 1:  # one that stops alone would leave the others waiting
                finite = self.accelerator.gather(finite.reshape(1)).all()
            if not bool(finite):
                raise _diverged(self, f"the loss is {float(loss)}")
            return loss

        def _clip_grad_norm(self, model: Any) -> Any:
            norm = super()._clip_grad_norm(model)
            # A scaler of fp16 skips such steps by itself.
            if not self.args.fp16 and norm is not None and not math.isfinite(float(norm)):
                raise _diverged(self, f"the gradient's norm is {float(norm)}")
            return norm

    return AnswerTrainer


def show_on_tensorboard(trainer: Any, home: Path, checkpoint: Path | None) -> None:
    """Report to TensorBoard, in the folder of the run.

    Args:
        trainer: of :func:`make_trainer`, in the first process.
        home: the folder.
        checkpoint: what it goes on from.
    """
    integrations: Any = importlib.import_module("transformers.integrations")
    board: Any = importlib.import_module("torch.utils.tensorboard")
    begun = 0 if checkpoint is None else _step_of(checkpoint)
    writer = board.SummaryWriter(**tensorboard_options(home, begun))
    trainer.add_callback(integrations.TensorBoardCallback(writer))


def _diverged(trainer: Any, what: str) -> TrainingError:
    work = Path(trainer.args.output_dir)
    kept = last_checkpoint(work)
    words = f"the checkpoint {kept.name} is kept" if kept is not None else "nothing is kept yet"
    return TrainingError(
        f"step {trainer.state.global_step + 1}: {what}",
        path=work,
        hint=f"{words}; with a lower learning_rate or precision=fp32, start a new folder (out=…)",
    )


def _callback(after_step: Callable[[int], None] | None, processes: Processes) -> Any:
    from transformers import TrainerCallback

    class Steps(TrainerCallback):
        """Validates the last step too, and marks whole checkpoints."""

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
            if state.global_step >= state.max_steps:
                control.should_evaluate = control.should_save = True
            return control

        def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            processes.wait()  # each writes its random state into the first one's checkpoint
            if processes.is_main:
                place = Path(args.output_dir) / f"checkpoint-{state.global_step}"
                write_text(place / _COMPLETE, "yes\n")

        def on_log(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if after_step is not None and "loss" in (state.log_history or [{}])[-1]:
                after_step(state.global_step)

    return Steps()
