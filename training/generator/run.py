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

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rulerag.generation.huggingface import shipped, stated_template
from rulerag.io import read_json, write_json
from rulerag.models import known_models
from rulerag.ruleqa import RuleQADataset
from training.common.checkpoint import RunFolder, saving
from training.common.processes import Processes
from training.common.runner import run_training, train_in_folder, write_card
from training.common.trackers import TENSORBOARD
from training.generator.data import Instructions, make_instructions
from training.generator.model import open_reader, restore_start, tokenized
from training.generator.settings import GeneratorSettings
from training.generator.trainer import (
    Validation,
    last_checkpoint,
    make_trainer,
    show_on_tensorboard,
)

_TRAINED_ON = {
    "rgft": "documents found by rules, the rules, the query, and its answer (RGFT)",
    "ssft": "documents, the query, and its answer, without rules (SSFT)",
}


def train_generator(
    settings: GeneratorSettings,
    *,
    progress: bool = False,
    after_step: Callable[[int], None] | None = None,
) -> dict[str, Any]:
    """Fine-tune a generator; write an adapter or a whole model, its tokenizer and a model card.

    A finished run is not repeated, an interrupted one goes on from its last validation.

    Args:
        settings: what to do.
        progress: show progress bars.
        after_step: called with the number of every finished step.

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
    precision = settings.training.precision
    processes = Processes(settings.device or None, precision, otherwise="fp16")

    def work(processes: Processes, folder: RunFolder) -> dict[str, Any]:
        shown = progress and processes.is_main
        return _trained(settings, processes, folder, shown, after_step)

    # The batches of another number of processes are other ones.
    return train_in_folder(settings, work, processes, fixed_processes=True)


def _trained(
    settings: GeneratorSettings,
    processes: Processes,
    folder: RunFolder,
    progress: bool,
    after_step: Callable[[int], None] | None,
) -> dict[str, Any]:
    """Train in the folder, write the model there, and return the metrics."""
    dataset = RuleQADataset.load(settings.dataset.path)
    cited = settings.prompts.target == "citation"
    data = processes.first(lambda: make_instructions(settings, dataset, cited=cited))
    reader = open_reader(settings, str(processes.device), data.cases)
    rows = tokenized(reader, data.examples, settings.training.max_length)
    validation = Validation(reader, settings, data.tuning, processes)
    before = _before(folder.work, validation, reader.model, processes)
    trainer = make_trainer(
        settings,
        reader.model,
        reader.tokenizer,
        rows,
        validation,
        folder.work,
        processes,
        progress=progress,
        after_step=after_step,
    )
    state = processes.first(lambda: last_checkpoint(folder.work))
    if TENSORBOARD in settings.report_to and processes.is_main:
        show_on_tensorboard(trainer, folder.home, state)
    trainer.train(resume_from_checkpoint=str(state) if state is not None else None)
    metrics = _metrics(settings, dataset, data, trainer, before)
    if processes.is_main:
        if metrics["best_step"] == 0:
            restore_start(trainer.model, settings)
        prompt = _with_cases(_template(settings), data)
        if reader.tokenizer.chat_template is not None:
            prompt = {**_options(prompt), "chat": reader.chat}
        with saving(folder.home):
            _write(settings, folder, trainer, reader.tokenizer, metrics, prompt)
    processes.wait()
    return metrics


def _before(
    work: Path, validation: Validation, model: Any, processes: Processes
) -> dict[str, float]:
    """The measures of the base model, kept for a run that goes on."""
    place = work / "before.json"
    known = processes.first(lambda: dict(read_json(place)) if place.exists() else None)
    if known is not None:
        return known
    measured = validation(model)
    if processes.is_main:
        write_json(place, measured)
    return measured


def _metrics(
    settings: GeneratorSettings,
    dataset: RuleQADataset,
    data: Instructions,
    trainer: Any,
    before: dict[str, float],
) -> dict[str, Any]:
    history, losses = [], list[float]()
    for row in trainer.state.log_history:
        if "loss" in row:
            losses.append(row["loss"])
        if "eval_merit" in row:
            figures = {k.removeprefix("eval_"): v for k, v in row.items() if k.startswith("eval_")}
            figures = {k: figures[k] for k in ("exact_match", "token_f1")}
            mean = sum(losses) / max(1, len(losses))
            history.append({"step": row["step"], "loss": mean, **figures})
            losses = []
    best_step = int(trainer.state.best_global_step or trainer.state.global_step)
    best = next(row for row in history if row["step"] == best_step)
    if before["merit"] > best["exact_match"] + 1e-3 * best["token_f1"]:
        best_step, best = 0, before  # the start is one of the candidates
    return {
        "dataset": dataset.name,
        "dataset_fingerprint": dataset.fingerprint,
        "method": settings.data.method,
        "base": settings.model.base,
        "template": _template(settings),
        "examples": len(data.examples),
        "uncited": data.uncited,
        "tuning_queries": len(data.tuning),
        "before": before,
        "best": {key: best[key] for key in ("exact_match", "token_f1")},
        "best_step": best_step,
        "steps": trainer.state.global_step,
        "trained_weights": sum(p.numel() for p in trainer.model.parameters() if p.requires_grad),
        "history": history,
        "processes": trainer.args.world_size,
        "seed": settings.seed,
    }


def _write(
    settings: GeneratorSettings,
    folder: RunFolder,
    trainer: Any,
    tokenizer: Any,
    metrics: dict[str, Any],
    prompt: Any,
) -> None:
    """The finished folder; the metrics come last and say that it is one."""
    model = trainer.model
    if settings.lora.rank and settings.lora.merged:
        model = model.merge_and_unload()
    model.save_pretrained(folder.home)
    stated, base = folder.home / "adapter_config.json", settings.model.base
    if shipped(base) != base and stated.exists():
        # By name, not by where it happens to be installed or cached.
        write_json(stated, {**read_json(stated), "base_model_name_or_path": base})
    tokenizer.save_pretrained(folder.home)
    # Whoever opens the folder asks in the same words.
    write_json(folder.home / "prompt.json", prompt)
    trainer.state.save_to_json(str(folder.work / "trainer_state.json"))
    folder.finish(generator_card(settings, metrics), metrics)


def _template(settings: GeneratorSettings) -> Any:
    """The template of the run as a configuration has it; that of SSFT shows no rules."""
    stated: Any = settings.model.template
    if stated is None:
        stated = stated_template(settings.model.base)
    if settings.data.method != "ssft":
        return stated or "rule-guided"
    return "standard" if stated is None else {**_options(stated), "rules": False}


def _with_cases(template: Any, data: Instructions) -> Any:
    if not data.cases:
        return template
    return {**_options(template), "cases": [case.model_dump() for case in data.cases]}


def _options(template: Any) -> dict[str, Any]:
    return dict(template) if isinstance(template, Mapping) else {"type": template}


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
    return run_training(
        argv,
        GeneratorSettings,
        train_generator,
        measure=lambda settings: "exact_match",
        program="training.generator",
        description="Fine-tune a generator with rules (RGFT) or without (method=ssft) by TRL and "
        "LoRA; resumes, and writes an adapter or a whole model with a model card.",
        example="python -m training.generator configs/training/generator-llama2-7b.yaml "
        "method=ssft out=runs/generator-ssft; on two GPUs: "
        "torchrun --standalone --nproc_per_node 2 -m training.generator CONFIG",
    )
