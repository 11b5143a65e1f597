"""Seconds and memory of pretrained language models, beside ``model.generate`` one prompt at a time.

The prompts are of a dataset's F_G: rule-guided ones (ten documents, up to eight rules), put into
the model's chat template where it has one, and those that small models read best, one document and
a statement to continue (`python -m training.prompts`). Both ways run in the same process on one
thread and answer the same prompts; CPU seconds are compared, which a busy machine changes least.
Answers of float32 must be those of ``model.generate``; of bfloat16 the fraction that is equal is
reported. Each model has a process of its own, which tells its peak memory.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.speed.generation import ruleqa_requests, subsets
from rulerag.evaluation import peak_memory_mb
from rulerag.generation.huggingface import HuggingFaceGenerator
from rulerag.generation.prompts import PromptTemplate
from rulerag.io import prepare_folder, write_json, write_text
from rulerag.types import GenerationRequest

_NEW_TOKENS = 16
_WAYS = "float32", "fast"
_FORMS = {
    "ten documents, rules": PromptTemplate.rule_guided(),
    "best document, cloze": PromptTemplate.of({"type": "cloze", "max_documents": 1}),
}


def measure_models(names: Sequence[str], dataset: Path, out: Path | None, number: int) -> None:
    """Measure each model in a process of its own; print a table, and write it with the figures.

    Args:
        names: of fetched models, or folders.
        dataset: a built dataset.
        out: the folder of ``speed.json`` and ``speed.md``.
        number: how many queries are answered.

    Raises:
        RuntimeError: a process failed; its words.
    """
    rows = []
    for name in names:
        command = [sys.executable, "-m", "benchmarks.models.speed", name, str(dataset)]
        done = subprocess.run([*command, str(number)], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr[-2000:])
        rows += json.loads(done.stdout.splitlines()[-1])
        sys.stdout.write(f"{json.dumps(rows[-len(_FORMS) :], indent=1)}\n")
        sys.stdout.flush()
    text = _table(rows)
    sys.stdout.write(text)
    if out is not None:
        write_json(prepare_folder(out) / "speed.json", rows)
        write_text(out / "speed.md", text)


def measure(name: str, dataset: Path, number: int) -> list[dict[str, Any]]:
    """The figures of one model, a row for each form of prompt.

    Args:
        name: of a fetched model, or a folder.
        dataset: a built dataset.
        number: how many queries are answered.
    """
    import torch

    torch.set_num_threads(1)
    asked = ruleqa_requests(dataset, number)
    rows = [_measured(name, title, template, asked) for title, template in _FORMS.items()]
    memory = round(peak_memory_mb())
    return [{**row, "memory_mb": memory} for row in rows]


def _measured(
    name: str, title: str, template: PromptTemplate, asked: Sequence[GenerationRequest]
) -> dict[str, Any]:
    started = time.process_time()
    first = HuggingFaceGenerator(
        name, template=template, dtype="float32", max_new_tokens=_NEW_TOKENS
    )
    figures: dict[str, Any] = {
        "model": name,
        "prompts": title,
        "parameters": first.model.num_parameters(),
        "open_seconds": round(time.process_time() - started, 1),
        "queries": len(asked),
    }
    encoded = first.encode(asked)
    figures["prompt_tokens"] = round(sum(len(ids) for _, ids in encoded) / len(encoded))
    _generated(first, encoded[:1])  # first calls set things up
    started = time.process_time()
    expected = _generated(first, encoded)
    alone = (time.process_time() - started) / len(asked)
    figures["generate_seconds"] = round(alone, 3)
    probes = subsets(asked[0], 6)
    for way in _WAYS:
        reader = first
        if way != "float32":
            reader = HuggingFaceGenerator(
                name, template=template, dtype=way, max_new_tokens=_NEW_TOKENS
            )
        reader.write(asked[:1])
        started = time.process_time()
        written = reader.write(asked)
        seconds = (time.process_time() - started) / len(asked)
        equal = sum(
            reader.template.parse(one) == reader.template.parse(other)
            for one, other in zip(written, expected, strict=True)
        )
        started = time.process_time()
        reader.generate(probes)
        figures[way] = {
            "dtype": str(reader.model.dtype).removeprefix("torch."),
            "seconds": round(seconds, 3),
            "times_faster": round(alone / seconds, 1),
            "equal": round(equal / len(asked), 3),
            "explain_6_seconds": round(time.process_time() - started, 1),
        }
    return figures


def _generated(reader: HuggingFaceGenerator, encoded: Sequence[tuple[Any, Any]]) -> list[str]:
    """What transformers' own generation writes, one prompt after another."""
    import torch

    texts = []
    for _, ids in encoded:
        prompt = torch.from_numpy(ids)[None]
        with torch.inference_mode():
            output = reader.model.generate(
                prompt,
                attention_mask=torch.ones_like(prompt),
                do_sample=False,
                max_new_tokens=_NEW_TOKENS,
            )
        texts.append(reader.tokenizer.decode(output[0, len(ids) :], skip_special_tokens=True))
    return texts


def _table(rows: Sequence[dict[str, Any]]) -> str:
    lines = [
        "| model | prompts | parameters, M | MB at most | opened, s | prompt, tokens | "
        "`model.generate`, s | "
        "rulerag float32, s | times | equal answers | rulerag fast, s | times | equal answers | "
        "64 probes of 6 documents, s: float32, fast |",
        "|---|---|" + "---:|" * 12,
    ]
    for row in rows:
        ways = [row[way] for way in _WAYS]
        cells = [
            f"{row['parameters'] / 1e6:.0f}",
            f"{row['memory_mb']:,}",
            row["open_seconds"],
            row["prompt_tokens"],
            row["generate_seconds"],
            *(
                cell
                for way in ways
                for cell in (way["seconds"], way["times_faster"], f"{100 * way['equal']:.0f} %")
            ),
            ", ".join(str(way["explain_6_seconds"]) for way in ways),
        ]
        lines.append(f"| {row['model']} | {row['prompts']} | " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    figures = measure(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
    sys.stdout.write(json.dumps(figures) + "\n")
