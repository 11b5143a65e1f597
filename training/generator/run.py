"""RGFT-generator: a causal language model learns to answer by documents and rules.

``python -m training.generator configs/training/generator-llama2-7b.yaml`` trains on F_G with TRL,
by LoRA or (``lora: null`` or rank 0) on every weight; ``method=ssft`` trains without rules. The
loss counts the answer's tokens alone. A killed run goes on from its last validation to the same
result. Under ``torchrun`` or ``accelerate launch`` every process trains on its part of each batch
with a GPU of its own, and answers its part of each validation; the first alone writes. All see one
``out`` folder.

References:
    RuleRAG (arXiv:2410.22353), section 3.2 and Table 7.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rulerag.console import guarded
from rulerag.io import write_json
from rulerag.models import known_models, saving
from rulerag.ruleqa import RuleQADataset
from training.common.checkpoint import ROOM, RunFolder
from training.common.processes import Processes
from training.common.runner import begin_run, print_outcome, training_parser, write_card
from training.generator.data import make_instructions
from training.generator.model import (
    open_reader,
    restore_start,
    save_model,
    tokenized,
    whole_model,
)
from training.generator.settings import GeneratorSettings

if TYPE_CHECKING:
    from transformers import TrainerCallback

_TRAINED_ON = {
    "rgft": "documents found by rules, the rules, the query, and its answer (RGFT)",
    "ssft": "documents, the query, and its answer, without rules (SSFT)",
}


def train_generator(
    settings: GeneratorSettings,
    *,
    progress: bool = False,
    callbacks: Sequence[TrainerCallback] = (),
) -> dict[str, Any]:
    """Fine-tune a generator; write an adapter or a whole model, its tokenizer and a model card.

    A finished run is not repeated, an interrupted one goes on from its last validation.

    Args:
        settings: what to do.
        progress: show progress bars and the measures of every validation.
        callbacks: further ones of the trainer.

    Returns:
        What ``metrics.json`` of the folder holds.

    Raises:
        ConfigError: a setting is wrong or does not run on this device, or the folder belongs to
            other settings or to another number of processes.
        DataError: the dataset cannot be read.
        GenerationError: the base model cannot be opened, or an example does not fit it.
        OutputError: the folder cannot be written, or the disk is full.
        TrainingError: the loss is no number; the last good checkpoint is kept.
    """
    processes = Processes(
        settings.device,
        settings.training.precision,
        otherwise="fp16",
        shards=not settings.model.quantization,
    )
    # The batches of another number of processes are other ones.
    folder = begin_run(settings, processes, fixed_processes=True)
    metrics = folder.finished
    if metrics is None:
        metrics = _trained(settings, processes, folder, progress, callbacks)
    processes.end()
    return metrics


def _trained(
    settings: GeneratorSettings,
    processes: Processes,
    folder: RunFolder,
    progress: bool,
    callbacks: Sequence[TrainerCallback],
) -> dict[str, Any]:
    """Train in the folder, write the model there, and return the metrics."""
    # 1. The examples: documents, rules and query, as the pipeline finds them, with the answer.
    dataset = RuleQADataset.load(settings.dataset.path)
    cited = settings.prompts.target == "citation"
    data = processes.first(partial(make_instructions, settings, dataset, cited=cited))

    # 2. The model, and the tokens that it reads and writes.
    reader = open_reader(settings, str(processes.device), data.cases)
    rows = tokenized(reader, data.examples, settings.training.max_length)

    # 3. The steps; exact match of what the model writes chooses the best checkpoint.
    # Here: they load the libraries of training, which `--help` does not need.
    from training.common.trainer import outcome, train
    from training.generator.trainer import MEASURES, Validation, make_trainer

    trainer = make_trainer(
        settings,
        reader.model,
        reader.tokenizer,
        rows,
        Validation(reader, settings, data.tuning, processes),
        folder.work,
        processes,
        progress=progress and processes.is_main,
        callbacks=callbacks,
    )
    train(trainer, processes)

    # 4. The folder: an adapter or a whole model, and the prompts that it was trained on.
    prompt = settings.stated_prompts
    metrics = {
        "dataset": dataset.name,
        "dataset_fingerprint": dataset.fingerprint,
        "method": settings.data.method,
        "base": settings.model.base,
        "template": prompt,
        "examples": len(data.examples),
        "uncited": data.uncited,
        "tuning_queries": len(data.tuning),
        **outcome(trainer, MEASURES),
        "trained_weights": sum(p.numel() for p in trainer.model.parameters() if p.requires_grad),
        "processes": processes.world,
        "seed": settings.seed,
    }
    if data.cases:
        prompt["cases"] = [case.model_dump() for case in data.cases]
    if reader.tokenizer.chat_template is not None:
        prompt["chat"] = reader.chat
    weights = trainer.accelerator.get_state_dict(trainer.model) if processes.sharded else None
    if processes.is_main:
        model = trainer.model if weights is None else whole_model(settings, weights)
        if metrics["best_step"] == 0:
            restore_start(model, settings)
        with saving(folder.home, ROOM):
            save_model(model, settings, folder.home)
            reader.tokenizer.save_pretrained(folder.home)
            write_json(folder.home / "prompt.json", prompt)
            folder.finish(generator_card(settings, metrics), metrics)
    processes.wait()
    return metrics


def generator_card(settings: GeneratorSettings, metrics: dict[str, Any]) -> str:
    """The model card in Markdown with the Hub's metadata.

    Args:
        settings: of the run.
        metrics: of the run: before, best, numbers of examples.
    """
    adapter = bool(settings.lora.rank) and not settings.lora.merged
    repository = _repository(settings.model.base) if adapter else ""
    many = metrics["processes"]
    return write_card(
        Path(__file__).with_name("card.md"),
        metrics,
        model=settings.model,
        training=settings.training,
        seed=settings.seed,
        method=settings.data.method.upper(),
        read=_TRAINED_ON[settings.data.method],
        library="peft" if adapter else "transformers",
        head=f"base_model: {repository}\n" if repository else "",
        kind=f"LoRA (rank {settings.lora.rank}, alpha {settings.lora.alpha})"
        if settings.lora.rank
        else "full",
        quantized=f", base in {settings.model.quantization}" if settings.model.quantization else "",
        shown=f", behind {settings.data.shots} solved ones of F_G" if settings.data.shots else "",
        processes=f" on {many} processes" if many > 1 else "",
    )


def _repository(base: str) -> str:
    """Where a base lies on the Hub; empty for a folder or a file."""
    if base in known_models():
        return str(known_models()[base]["hub"]["repository"])
    return base if base.count("/") == 1 and base[0] not in "./" and not Path(base).exists() else ""


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = training_parser(
        "training.generator",
        "Fine-tune a generator with rules (RGFT) or without (method=ssft) by TRL and "
        "LoRA; resumes, and writes an adapter or a whole model with a model card.",
        "python -m training.generator configs/training/generator-llama2-7b.yaml "
        "method=ssft out=runs/generator-ssft; on two GPUs: "
        "torchrun --standalone --nproc_per_node 2 -m training.generator CONFIG",
    )
    return guarded(partial(_command, parser.parse_intermixed_args(argv)))


def _command(arguments: Namespace) -> None:
    settings = GeneratorSettings.load(arguments.config, arguments.overrides)
    metrics = train_generator(settings, progress=not arguments.quiet)
    print_outcome(metrics, "exact_match", settings.out)
