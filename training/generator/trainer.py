"""The trainer of the generator: TRL's, with our loss, batches and validation by exact match."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from torch.distributed.fsdp import register_fsdp_forward_method
from transformers import TrainerCallback

from rulerag.evaluation import answer_metrics, mean_metrics
from rulerag.generation.huggingface import HuggingFaceGenerator
from rulerag.types import Answer, GenerationRequest
from training.common.processes import Processes
from training.common.trainer import (
    MeasuredTrainer,
    Measures,
    as_opened,
    make_arguments,
    prepare_trainer,
)
from training.generator.batches import StepsByLength
from training.generator.loss import BLANK, LeftPadded, answer_loss
from training.generator.model import adapter_config, compile_layers
from training.generator.settings import GeneratorSettings

trl: Any = importlib.import_module("trl")
peft_helpers: Any = importlib.import_module("peft.helpers")

MEASURES = ("exact_match", "token_f1")


class Validation:
    """Exact match and token F1 of a model that is being trained.

    Args:
        reader: how prompts are made and answers are read; its settings, not its weights, count.
        settings: of the run.
        requests: of the tuning queries.
        processes: which share the requests.
    """

    def __init__(
        self,
        reader: HuggingFaceGenerator,
        settings: GeneratorSettings,
        requests: Sequence[GenerationRequest],
        processes: Processes,
    ) -> None:
        self.reader, self.settings, self.requests = reader, settings, requests
        self.processes = processes

    def __call__(self, model: Any) -> Measures:
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
        with as_opened(base):
            if self.processes.sharded:
                # Layers gather their weights from all processes, so that all have to compute the
                # same layers: each answers every request. The root's own weights (embeddings) are
                # gathered around a method that is registered.
                model.answer = reader.generate
                register_fsdp_forward_method(model, "answer")
                with torch.no_grad():  # inference mode would leave tensors that nothing may train
                    completions = model.answer(self.requests)
                del model.answer
            else:
                completions = self.processes.divided(reader.generate, self.requests)
        model.train(training)
        rows = [
            answer_metrics(Answer(request.query, completion))
            for request, completion in zip(self.requests, completions, strict=True)
        ]
        means = mean_metrics(rows)
        measures = {name: means[name] for name in MEASURES}
        return {**measures, "merit": means["exact_match"] + 1e-3 * means["token_f1"]}


class AnswerTrainer(MeasuredTrainer, trl.SFTTrainer):  # type: ignore[misc]
    """TRL's trainer with a loss over the answers' tokens and steps that are cut by length.

    Attributes:
        sampler: the order of the examples.
        uncast: whether adapters read what the layer above wrote, in its own type.
    """

    sampler: StepsByLength
    uncast: bool

    def _get_train_sampler(self, *_: Any) -> StepsByLength:
        return self.sampler

    def compute_loss(
        self,
        model: Any,
        inputs: Any,
        return_outputs: bool = False,
        num_items_in_batch: Any = None,
    ) -> Any:
        """The loss of some examples, as a part of that of their step."""
        # PEFT turns what an adapter reads into float32, and autocast turns it back before it is
        # multiplied: the same numbers, and two copies of everything that flows through.
        with peft_helpers.disable_input_dtype_casting(self.model, active=self.uncast):
            loss = answer_loss(model, inputs, num_items_in_batch)
        # The tokens are those of all processes, whose gradients are averaged.
        whole = num_items_in_batch is not None
        return loss * self.args.world_size if whole else loss


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
    callbacks: Sequence[TrainerCallback] = (),
) -> AnswerTrainer:
    """A trainer of TRL over rows of token ids and labels.

    Args:
        settings: of the run.
        model: what is trained; gets its LoRA layers here.
        tokenizer: of the model.
        rows: ``input_ids`` and ``labels``.
        validation: measures the model.
        work: the folder of its checkpoints.
        processes: where it runs.
        progress: show a progress bar.
        callbacks: further ones of the trainer.
    """
    training = settings.training
    data = Dataset.from_list([*rows, BLANK])
    trainer = AnswerTrainer(
        model=model,
        args=trainer_arguments(settings, work, processes, progress=progress),
        train_dataset=data,
        eval_dataset=data.select([0]),  # asked for by name only: validation generates
        data_collator=LeftPadded(tokenizer),
        processing_class=tokenizer,
        peft_config=adapter_config(settings),
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
    # Checkpointing computes layers again where this no longer holds.
    trainer.uncast = training.precision != "fp32" and not training.gradient_checkpointing
    prepare_trainer(trainer, validation, callbacks)
    return trainer


def trainer_arguments(
    settings: GeneratorSettings,
    work: Path,
    processes: Processes,
    *,
    progress: bool = False,
) -> Any:
    """TRL's arguments of a run.

    Args:
        settings: of the run.
        work: the folder of its checkpoints.
        processes: where it runs.
        progress: show TRL's progress bar.
    """
    # The old names of two arguments, which this version of TRL still sets itself.
    warnings.filterwarnings("ignore", message=".*gradient_checkpointing.*", category=FutureWarning)
    training = settings.training
    return make_arguments(
        trl.SFTConfig,
        settings,
        work,
        processes,
        every=settings.validation.every,
        progress=progress,
        per_device_train_batch_size=training.batch_size,
        num_train_epochs=training.epochs,
        max_steps=training.max_steps or -1,
        warmup_steps=training.warmup_steps,
        lr_scheduler_type=training.schedule,
        max_length=None,  # nothing is cut: documents were left out where a prompt was too long
        packing=False,
        dataset_kwargs={"skip_prepare_dataset": True},
        gradient_checkpointing=training.gradient_checkpointing,
        ddp_find_unused_parameters=False,  # every adapter is used, and looking costs
    )
