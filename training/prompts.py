"""Chooses the prompt that a language model reads best, on queries with known answers.

Small models differ more by their prompt than by their size: one continues statements and is mute
before an instruction, another needs solved cases, most read three documents better than ten.
Every prompt of a small family is tried on queries that nothing is reported on: F_G, which
fine-tuning trains on, or a validation variant (``rulerag ruleqa build --variant validation``).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from rulerag.assembly import make_pipeline, open_dataset, preset
from rulerag.composition import Config, check_choice, to_yaml
from rulerag.console import guarded
from rulerag.errors import ConfigError, EmptyDataError, GenerationError
from rulerag.evaluation import AnswerMatcher, markdown_table
from rulerag.generation.huggingface import (
    HuggingFaceGenerator,
    entities_in,
    first_named,
    shipped,
)
from rulerag.generation.prompts import PromptTemplate
from rulerag.io import write_json
from rulerag.text import best_token_f1, exact_match
from rulerag.types import GenerationRequest

READ = "free", "named", "scored"
"""How the answers of a prompt are made (see ``answers`` of the generator): ``trie`` writes what
``scored`` finds, one token at a time, and is left out."""

_FEW = {"max_documents": 3, "best_last": True}
_FORMS: Mapping[str, Mapping[str, Any]] = {
    "rule-guided": {"type": "rule-guided"},
    "rule-guided, best 3": {"type": "rule-guided", **_FEW},
    "standard": {"type": "standard"},
    "standard, best 3": {"type": "standard", **_FEW},
    "few-shot": {"type": "few-shot", "rules": False, "max_documents": 5, "cases": 3},
    "few-shot, rules": {"type": "few-shot", "max_documents": 5, "cases": 3},
    "cloze": {"type": "cloze"},
    "cloze, best 3": {"type": "cloze", **_FEW},
    "cloze, best 1": {"type": "cloze", "max_documents": 1},
    "cloze, cases": {"type": "cloze", **_FEW, "cases": 5},
    "compact": {"type": "compact", "target": "answer"},
}
"""The family: templates as a configuration states them; of solved cases the number."""


@dataclass(frozen=True)
class Trial:
    """What came of one prompt.

    Args:
        name: of the prompt.
        queries: how many it was tried on.
        template: the prompt, as ``prompt.json`` and generator files state it.
        exact_match: by :data:`READ`, a fraction of the queries.
        token_f1: likewise, of the words.
        seconds: a query, of free text.
        threshold: the log-probability below which ``scored`` answers are best held back, chosen
            to tell queries with an answer in their documents from the others; None where all
            queries are of one kind.
        separation: the mean of the fractions of both kinds that the threshold gets right.
        shown: the first prompt.
        wrote: the free texts of the first queries.
    """

    name: str
    queries: int
    template: Mapping[str, Any]
    exact_match: Mapping[str, float]
    token_f1: Mapping[str, float]
    seconds: float
    threshold: float | None
    separation: float
    shown: str
    wrote: Sequence[str]


@dataclass(frozen=True)
class PromptTuning:
    """What :func:`tune_prompt` found.

    Args:
        trials: every prompt, the best first; those tried on a part of the queries last.
        queries: how many queries there were.
        answerable: the fraction of them with an answer in their documents.
        unfit: prompts that are longer than the model reads.
        symbolic: exact match of the symbolic reader on the same documents.
        first: exact match of the entity that the documents name first.
    """

    trials: Sequence[Trial]
    queries: int
    answerable: float
    unfit: Sequence[str]
    symbolic: float
    first: float


def tune_prompt(
    generator: HuggingFaceGenerator,
    config: Config,
    *,
    split: str = "f_g",
    queries: int = 64,
    answers: str = "free",
    seed: int = 0,
) -> PromptTuning:
    """Try every prompt of the family on drawn queries; the best one is the first.

    All are tried on a quarter of the queries, and the better half of them on all (successive
    halving: Jamieson and Talwalkar 2016, arXiv:1502.07943, with one cut).

    Args:
        generator: the model; its own template does not count.
        config: dataset, selector and retriever, as :func:`~rulerag.assembly.preset` makes them.
        split: where queries and solved cases are drawn from.
        queries: how many are tried.
        answers: the way of :data:`READ` that the prompts are put in order by: exact match, ties
            by token F1.
        seed: of the draw.

    Raises:
        ConfigError: the split is a test split, or ``answers`` is unknown.
        EmptyDataError: the split has no queries with documents that hold an answer, or every prompt
            is longer than the model reads.
    """
    check_choice("answers", answers, READ)
    if queries < 1:
        raise ConfigError(f"{queries} is below 1", key="queries", hint="say 64")
    dataset = open_dataset(config)
    if split.startswith("test") and dataset.settings.get("variant") != "validation":
        raise ConfigError(
            f"prompts are not chosen on {split!r}",
            key="split",
            hint="take f_g, or a dataset built with `rulerag ruleqa build --variant validation`",
        )
    known = [query for query in dataset.query_set(split) if query.answers]
    places = np.random.default_rng([seed, 17]).permutation(len(known))
    drawn = [known[n] for n in places[: queries + 40]]
    pipeline = make_pipeline(config, dataset)
    answered = pipeline.answer(drawn)
    labels = dataset.labels["entities"]
    requests = [one.request() for one in answered[:queries]]
    # A case whose answer stands in no document teaches to guess.
    rest = answered[queries:] or answered
    solved = [one for one in (answer.request() for answer in rest) if _holds(one)]
    if not requests or not solved:
        raise EmptyDataError(
            f"{split!r} of {dataset.name!r} leaves no query to try and none to show",
            hint="take another split, or a retriever that finds answers",
        )

    def order(one: Trial) -> tuple[float, float, float]:
        return one.exact_match[answers], one.token_f1[answers], -one.seconds

    few = requests[: max(1, len(requests) // 4)]
    first, unfit = list[Trial](), list[str]()
    for name, form in _FORMS.items():
        try:
            first.append(_tried(generator, name, _template(form, solved), few, labels))
        except GenerationError:  # longer than the model reads, even without documents
            unfit.append(name)
    if not first:
        raise EmptyDataError(
            "no prompt fits the model", hint="take a longer context, or a larger max_input_tokens"
        )
    first.sort(key=order, reverse=True)
    better = first[: (len(first) + 1) // 2]
    trials = [_tried(generator, one.name, one.template, requests, labels) for one in better]
    texts = {
        "symbolic": [one.text for one in answered[:queries]],
        "first": [next(iter(entities_in(one, labels)), "") for one in requests],
    }
    return PromptTuning(
        [*sorted(trials, key=order, reverse=True), *first[len(better) :]],
        len(requests),
        float(np.mean([_holds(request) for request in requests])),
        unfit,
        **{name: _measured(requests, rows)[0] for name, rows in texts.items()},
    )


def _holds(request: GenerationRequest) -> bool:
    return AnswerMatcher().first_rank(request.documents, request.query.answers) is not None


def _template(form: Mapping[str, Any], solved: Sequence[GenerationRequest]) -> dict[str, Any]:
    """A form with its solved cases in place of their number."""
    if "cases" not in form:
        return dict(form)
    template = PromptTemplate.of({**form, "cases": ()})
    able = [
        one
        for one in solved
        if _holds(replace(one, documents=one.documents[: template.max_documents]))
    ]
    cases = [template.case(one, one.query.answers[0]) for one in able[: form["cases"]]]
    return {**form, "cases": [case.model_dump(exclude_defaults=True) for case in cases]}


def _tried(
    generator: HuggingFaceGenerator,
    name: str,
    template: Mapping[str, Any],
    requests: Sequence[GenerationRequest],
    labels: Mapping[str, str],
) -> Trial:
    """One prompt on every request, its answers read in each way."""
    made = HuggingFaceGenerator(
        generator.model,
        tokenizer=generator.tokenizer,
        template=template,
        labels=labels,
        progress=generator.progress,
        settings=generator.settings,
        answers="scored",
        chat=None,
    )
    started = time.perf_counter()
    wrote = made.write(requests)
    seconds = (time.perf_counter() - started) / len(requests)
    pairs = list(zip(wrote, requests, strict=True))
    free = [made.template.parse(text, request) for text, request in pairs]
    named = [
        first_named(text, entities_in(request, labels)) or answer
        for (text, request), answer in zip(pairs, free, strict=True)
    ]
    scored = made.generate(requests)
    texts = {"free": free, "named": named, "scored": [one.text for one in scored]}
    measured = {way: _measured(requests, rows) for way, rows in texts.items()}
    threshold, separation = _threshold(
        [-np.inf if one.score is None else one.score for one in scored],
        [_holds(request) for request in requests],
    )
    return Trial(
        name,
        len(requests),
        template,
        {way: values[0] for way, values in measured.items()},
        {way: values[1] for way, values in measured.items()},
        seconds,
        threshold,
        separation,
        made.prompts(requests[:1])[0].text,
        wrote[:3],
    )


def _measured(requests: Sequence[GenerationRequest], texts: Sequence[str]) -> tuple[float, float]:
    """Exact match and token F1."""
    pairs = [(text, one.query.answers) for text, one in zip(texts, requests, strict=True)]
    return (
        float(np.mean([exact_match(*pair) for pair in pairs])),
        float(np.mean([best_token_f1(*pair) for pair in pairs])),
    )


def _threshold(scores: Sequence[float], holds: Sequence[bool]) -> tuple[float | None, float]:
    """The score that parts two kinds best: the largest mean of both rates (Youden 1950)."""
    values, kind = np.array(scores), np.array(holds)
    if kind.all() or not kind.any():
        return None, 0.5
    best: tuple[float | None, float] = None, 0.5
    for cut in np.unique(values[np.isfinite(values)]):
        rate = float((values[kind] >= cut).mean() + (values[~kind] < cut).mean()) / 2
        if rate > best[1]:
            best = float(cut), rate
    return best


# --- the command ----


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m training.prompts",
        description="Chooses the prompt that a model reads best, on training queries, and records "
        "it in prompt.json in the model's folder, where every command finds it. Exact match in "
        "percent: of what the model writes (free), of the first entity of the documents that it "
        "names (named), of the entity of the documents that it thinks likeliest (scored).",
        epilog="example: python -m training.prompts smollm2-135m-instruct runs/ruleqa-i",
    )
    parser.add_argument("model", help="a language model: its name, or a folder")
    parser.add_argument("dataset", type=Path, help="a dataset folder")
    parser.add_argument("--retriever", default="bm25", help="as of rulerag answer")
    parser.add_argument("--rules", default="guided", help="guided or none")
    parser.add_argument(
        "--split", default="f_g", help="where queries are drawn from, no test split"
    )
    parser.add_argument("--queries", type=int, default=64, help="how many queries are tried")
    parser.add_argument("--answers", default="free", help=f"the best for {', '.join(READ)} answers")
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    given = parser.parse_args(argv)

    def work() -> None:
        config = preset(given.dataset, retriever=given.retriever, rules=given.rules)
        generator = HuggingFaceGenerator(
            given.model,
            template="standard",  # a recorded one does not count, nor stops the search if broken
            dtype="fast",
            max_new_tokens=16,
            progress=not given.quiet,
        )
        changes = {name: getattr(given, name) for name in ("split", "queries", "answers", "seed")}
        tuning = tune_prompt(generator, config, **changes)
        best = dict(tuning.trials[0].template)
        lines = _report(tuning, given.split, given.answers)
        home = Path(shipped(given.model))
        if home.is_dir():
            write_json(home / "prompt.json", best)
            lines.append(f"recorded in {home / 'prompt.json'}")
        else:
            lines.append(f"for a generator file:\n\n{to_yaml({'template': best})}")
        sys.stdout.write("\n".join([*lines, ""]))

    return guarded(work)


def _report(tuning: PromptTuning, split: str, answers: str) -> list[str]:
    """What was tried and what came of it, in lines."""
    rows = [
        [
            *(f"{100 * trial.exact_match[way]:.1f}" for way in READ),
            f"{trial.seconds:.2f}",
            str(trial.queries),
            trial.name,
        ]
        for trial in tuning.trials
    ]
    lines = [markdown_table((*READ, "s/query", "queries", "prompt"), rows, "rrrrrl")]
    lines.append(
        f"{tuning.queries} queries of {split}; {100 * tuning.answerable:.1f} % have an answer in "
        f"their documents; without a model: the symbolic reader {100 * tuning.symbolic:.1f}, "
        f"the entity named first {100 * tuning.first:.1f}"
    )
    if tuning.unfit:
        lines.append(f"longer than the model reads: {', '.join(tuning.unfit)}")
    best = tuning.trials[0]
    lines.append(f"\nthe best for {answers} answers is {best.name!r}; it reads\n\n{best.shown}")
    lines.append(f"\nand writes {', '.join(map(repr, best.wrote))}")
    if best.threshold is not None:
        lines.append(
            f"abstain_below: {best.threshold:.2f} (scored) tells queries without an answer in "
            f"their documents from the others, {100 * best.separation:.1f} % right (a guess: 50)"
        )
    return lines


if __name__ == "__main__":
    sys.exit(main())
