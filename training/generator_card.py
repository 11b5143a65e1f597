"""The model card of a fine-tuned generator."""

from __future__ import annotations

from typing import Any

from training.generator_settings import GeneratorSettings

__all__ = ["generator_card"]

_METHODS = {
    "rgft": "documents found by rules, the rules, the query, and its answer (RGFT)",
    "ssft": "documents, the query, and its answer, without rules (SSFT)",
}


def generator_card(settings: GeneratorSettings, metrics: dict[str, Any]) -> str:
    """The card in Markdown with the Hub's metadata.

    Args:
        settings: of the run.
        metrics: of the run: before, best, numbers of examples.
    """
    adapter = bool(settings.rank) and not settings.merged
    kind = f"LoRA (rank {settings.rank}, alpha {settings.alpha})" if settings.rank else "full"
    # With cases the template stands in the folder: one that is named would show none.
    template = "" if settings.shots else f", template={metrics['template']!r}"
    shown = f", behind {settings.shots} solved ones of F_G" if settings.shots else ""
    many = metrics["processes"]
    processes = f" on {many} processes" if many > 1 else ""
    rows = "\n".join(
        f"| {name} | {metrics['before'][name]:.4f} | {metrics['best'][name]:.4f} |"
        for name in ("exact_match", "token_f1")
    )
    head = f"base_model: {settings.base}\n" if "/" in settings.base[1:] and adapter else ""
    return f"""---
library_name: {"peft" if adapter else "transformers"}
pipeline_tag: text-generation
{head}tags: [rule-guided, ruleqa]
---
# Generator, {settings.method.upper()} on {metrics["dataset"]}

Fine-tuned from `{settings.base}` on {metrics["examples"]:,} examples{shown}:
{_METHODS[settings.method]}, following RuleRAG (arXiv:2410.22353, section 3.2).
The loss counts the answer's tokens alone.
Training: {kind}{", base in " + settings.quantization if settings.quantization else ""}.

```python
from rulerag import HuggingFaceGenerator

reader = HuggingFaceGenerator("FOLDER"{template})
```

| {metrics["tuning_queries"]} tuning queries | before | after |
| --- | ---: | ---: |
{rows}

Settings: learning rate {settings.learning_rate:g}, batch {settings.batch_size} x
{settings.accumulation}{processes}, {metrics["steps"]} steps (best at {metrics["best_step"]}),
warm-up {settings.warmup_steps} steps, {settings.schedule} schedule, {settings.precision}, seed
{settings.seed}; dataset fingerprint `{metrics["dataset_fingerprint"]}`.

Limits: trained on one benchmark's relations and templates; other questions need training of
their own.
"""
