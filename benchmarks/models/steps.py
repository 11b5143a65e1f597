"""What each step of using a pretrained model gains, on the same documents.

For each model and benchmark: as installed (the default rule-guided prompt), with the prompt that
:func:`~training.prompts.tune_prompt` chose on F_G, with answers held to the documents' entities
under the prompt chosen for that, and fine-tuned by RGFT where an adapter is named, free and held.
Beside them two readers that need no model: the symbolic one, and the entity that the documents
name first. Documents are those of rule-guided BM25; queries are balanced test queries, asked once.
What was read and written stands in ``MODEL-BENCHMARK.jsonl`` of the folder, query by query.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from rulerag.assembly import make_pipeline, preset
from rulerag.composition import Config
from rulerag.evaluation import AnswerMatcher, bootstrap_interval, holm, paired_randomization_test
from rulerag.generation.huggingface import HuggingFaceGenerator, entities_in
from rulerag.io import prepare_folder, read_json, read_jsonl, write_json, write_jsonl, write_text
from rulerag.ruleqa import RuleQADataset
from rulerag.text import exact_match
from rulerag.types import Answer, Completion, GenerationRequest
from training.prompts import PromptTuning, tune_prompt

_TOKENS = 16
_CITATION_TOKENS = 48
_TITLES = {
    "first": "entity named first",
    "symbolic": "symbolic reader",
    "installed": "as installed",
    "tuned": "tuned prompt",
    "held": "tuned prompt, held to the documents",
    "rgft": "RGFT",
    "rgft held": "RGFT, held to the documents",
}
_ABSTENTION = (
    "answerable",
    "answered",
    "answered_if_answerable",
    "answered_if_not",
    "exact_match_of_answered",
)


def run_steps(
    models: Sequence[str],
    datasets: Sequence[Path],
    out: Path | None,
    *,
    sample: int = 0,
    tuned: int = 64,
    adapters: Sequence[str] = (),
) -> None:
    """Run what is not finished, print the table, and write it with the figures.

    Args:
        models: names of fetched models, or folders.
        datasets: built datasets.
        out: the folder of the figures; a finished model and benchmark in it is not repeated, and
            gains the columns of an adapter that is named later.
        sample: so many balanced queries, drawn by seed 0; all when 0.
        tuned: queries of F_G that prompts are chosen by.
        adapters: ``MODEL:BENCHMARK=DIR``.
    """
    folders = dict(one.split("=", 1) for one in adapters)
    rows = []
    for place in datasets:
        answered, config, labels = _documents(place, sample)
        name = RuleQADataset.load(place).name
        for model in models:
            key = f"{Path(model).name}-{name}"
            file = None if out is None else prepare_folder(out) / f"{key}.json"
            adapter = folders.get(f"{model}:{name}")
            row: dict[str, Any] = {}
            texts: dict[str, list[str]] = {}
            if file is not None and file.exists():
                row, texts = read_json(file), _texts(file.with_suffix(".jsonl"))
            if row and (adapter is None or "rgft" in texts):
                rows.append(row)
                continue
            if not row:
                row = _untrained(model, answered, config, labels, tuned, texts)
            if adapter is not None:
                row["cpu_seconds_a_query"] |= _tuned(model, adapter, answered, labels, texts)
            row = {
                "model": Path(model).name,
                "benchmark": name,
                **row,
                **_measured(answered, texts),
            }
            read = _records(answered, texts)
            rows.append(row)
            if file is not None:
                write_jsonl(file.with_suffix(".jsonl"), read)
                write_json(file, row)
            sys.stdout.write(f"{key}: {row['exact_match']}\n")
            sys.stdout.flush()
    text = _table(rows)
    sys.stdout.write(text)
    if out is not None:
        write_text(out / "steps.md", text)


def _documents(place: Path, sample: int) -> tuple[list[Answer], Config, Mapping[str, str]]:
    """The queries with documents, rules and the symbolic answer."""
    config = preset(place, query_set="balanced")
    dataset = RuleQADataset.load(place)
    queries = dataset.query_set("balanced")
    if sample and len(queries) > sample:
        chosen = np.random.default_rng(0).permutation(len(queries))[:sample]
        queries = [queries[n] for n in np.sort(chosen)]
    names = {**dataset.labels["relations"], **dataset.labels["entities"]}
    return make_pipeline(config, dataset).answer(queries), config, names


def _untrained(
    model: str,
    answered: Sequence[Answer],
    config: Config,
    labels: Mapping[str, str],
    tuned: int,
    texts: dict[str, list[str]],
) -> dict[str, Any]:
    """Add what is answered without training to ``texts``; how the prompts were chosen."""
    requests = [one.request() for one in answered]
    texts["symbolic"] = [one.text for one in answered]
    texts["first"] = [next(iter(entities_in(one, labels)), "") for one in requests]
    plain = HuggingFaceGenerator(
        model, template="rule-guided", dtype="fast", max_new_tokens=_TOKENS, labels=labels
    )
    found = tune_prompt(plain, config, queries=tuned)
    free, held = _chosen(found, "free"), _chosen(found, "scored")
    seconds: dict[str, float] = {}

    def reading(template: Any, answers: str) -> HuggingFaceGenerator:
        return HuggingFaceGenerator(
            plain.model,
            tokenizer=plain.tokenizer,
            template=template,
            labels=labels,
            max_new_tokens=_TOKENS,
            answers=answers,
            chat=plain.settings.chat,
        )

    ways = {
        "installed": plain,
        "tuned": reading(free.template, "free"),
        "held": reading(held.template, "scored"),
    }
    for step, reader in ways.items():
        completions, seconds[step] = _read(reader, requests)
        texts[step] = [one.text for one in completions]
    scores = [one.score or 0.0 for one in completions]
    trials = [
        {key: value for key, value in asdict(one).items() if key not in ("template", "shown")}
        for one in found.trials
    ]
    return {
        "queries": len(answered),
        "cpu_seconds_a_query": seconds,
        "tuning": {"queries": found.queries, "symbolic": found.symbolic, "trials": trials},
        "prompts": {"tuned": free.name, "held": held.name},
        "abstention": _abstention(held.threshold, scores, texts["held"], requests),
    }


def _tuned(
    model: str,
    adapter: str,
    answered: Sequence[Answer],
    labels: Mapping[str, str],
    texts: dict[str, list[str]],
) -> dict[str, float]:
    """Add what is answered with an adapter to ``texts``; seconds a query."""
    seconds = {}
    for step, answers in (("rgft", "free"), ("rgft held", "scored")):
        reader = HuggingFaceGenerator(
            model,
            adapter=adapter,
            answers=answers,
            dtype="fast",
            max_new_tokens=_CITATION_TOKENS,
            labels=labels,
        )
        completions, seconds[step] = _read(reader, [one.request() for one in answered])
        texts[step] = [one.text for one in completions]
    return seconds


def _read(
    reader: HuggingFaceGenerator, requests: Sequence[GenerationRequest]
) -> tuple[list[Completion], float]:
    """The answers, and CPU seconds a query."""
    started = time.process_time()
    completions = reader.generate(requests)
    return completions, round((time.process_time() - started) / len(requests), 3)


def _chosen(found: PromptTuning, way: str) -> Any:
    """The best of the prompts that were tried on every query."""
    whole = [trial for trial in found.trials if trial.queries == found.queries]
    return max(whole, key=lambda trial: (trial.exact_match[way], trial.token_f1[way]))


def _measured(
    answered: Sequence[Answer], texts: Mapping[str, Sequence[str]]
) -> dict[str, Mapping[str, Any]]:
    """Exact match of each step, its interval, and its test against the symbolic reader."""
    right = {
        step: [
            exact_match(text, one.query.answers) for text, one in zip(rows, answered, strict=True)
        ]
        for step, rows in texts.items()
    }
    against = [step for step in right if step != "symbolic"]
    tests = [paired_randomization_test(right[step], right["symbolic"]) for step in against]
    return {
        "exact_match": {step: round(float(np.mean(rows)), 4) for step, rows in right.items()},
        "intervals": {
            step: [round(value, 4) for value in bootstrap_interval(rows)]
            for step, rows in right.items()
        },
        "p_against_symbolic": dict(zip(against, holm(tests), strict=True)),
    }


def _abstention(
    threshold: float | None,
    scores: Sequence[float],
    texts: Sequence[str],
    requests: Sequence[GenerationRequest],
) -> dict[str, Any]:
    """What holding back answers below the threshold that F_G gave does on these queries."""
    matcher = AnswerMatcher()
    holds = np.array(
        [matcher.first_rank(one.documents, one.query.answers) is not None for one in requests]
    )
    right = np.array(
        [exact_match(text, one.query.answers) for text, one in zip(texts, requests, strict=True)]
    )
    given = np.array(scores) >= (-np.inf if threshold is None else threshold)
    return {
        "threshold": threshold,
        "answerable": _mean(holds),
        "answered": _mean(given),
        "answered_if_answerable": _mean(given[holds]),
        "answered_if_not": _mean(given[~holds]),
        "exact_match_of_answered": _mean(right[given]),
    }


def _mean(values: Any) -> float | None:
    return round(float(np.mean(values)), 4) if len(values) else None


def _records(
    answered: Sequence[Answer], texts: Mapping[str, Sequence[str]]
) -> Iterator[dict[str, Any]]:
    for place, one in enumerate(answered):
        yield {
            "query": one.query.text,
            "answers": list(one.query.answers),
            "documents": [document.id for document in one.request().documents],
            **{step: rows[place] for step, rows in texts.items()},
        }


def _texts(file: Path) -> dict[str, list[str]]:
    """What an earlier run answered, by step."""
    read = list(read_jsonl(file))
    return {step: [one[step] for one in read] for step in _TITLES if step in read[0]}


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    steps = [step for step in _TITLES if any(step in row["exact_match"] for row in rows)]
    lines = [
        "Exact match in percent [95 % interval]; * differs from the symbolic reader beyond chance "
        "(paired randomization, Holm).\n",
        "| model | benchmark | queries | " + " | ".join(_TITLES[step] for step in steps) + " |",
        "|---|---|---:|" + "---:|" * len(steps),
    ]
    for row in rows:
        cells = []
        for step in steps:
            if step not in row["exact_match"]:
                cells.append("–")
                continue
            low, high = (100 * value for value in row["intervals"][step])
            mark = "*" if row["p_against_symbolic"].get(step, 1) < 0.05 else ""
            cells.append(f"{100 * row['exact_match'][step]:.1f}{mark} [{low:.0f}, {high:.0f}]")
        head = f"| {row['model']} | {row['benchmark']} | {row['queries']} | "
        lines.append(head + " | ".join(cells) + " |")
    lines += [
        "\nThe held answers, those whose score is below the threshold that F_G gave held back, "
        "in percent.\n",
        "| model | benchmark | answer in documents | answered | of those with it | of the others | "
        "EM of the answered |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for row in (row for row in rows if "abstention" in row):  # rows of long ago have none
        shares = [row["abstention"][key] for key in _ABSTENTION]
        shown = ["–" if value is None else f"{100 * value:.1f}" for value in shares]
        lines.append(f"| {row['model']} | {row['benchmark']} | " + " | ".join(shown) + " |")
    return "\n".join(lines) + "\n"
