"""Choosing the prompt that a language model reads best, on queries with known answers.

Small models differ more by their prompt than by their size: one continues statements and is mute
before an instruction, another needs solved cases, most read three documents better than ten.
Every prompt of a small family is tried on queries that nothing is reported on: F_G, which
fine-tuning trains on, or a validation variant (``rulerag ruleqa build --variant validation``).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rulerag.assembly.build import make_pipeline, open_dataset
from rulerag.composition import Config, check_choice
from rulerag.errors import ConfigError, EmptyDataError, GenerationError
from rulerag.evaluation import AnswerMatcher
from rulerag.generation.prompts import PromptTemplate
from rulerag.text import best_token_f1, exact_match
from rulerag.types import Answer, GenerationRequest, Query

if TYPE_CHECKING:
    from rulerag.generation.huggingface import HuggingFaceGenerator

READ = "free", "named", "scored"
"""How the answers of a prompt are made (see ``answers`` of the generator): ``trie`` writes what
``scored`` finds, one token at a time, and is left out."""

_FORMS: Mapping[str, Mapping[str, Any]] = {
    "rule-guided": {"type": "rule-guided"},
    "rule-guided, best 3": {"type": "rule-guided", "max_documents": 3, "best_last": True},
    "standard": {"type": "standard"},
    "standard, best 3": {"type": "standard", "max_documents": 3, "best_last": True},
    "few-shot": {"type": "few-shot", "rules": False, "max_documents": 5},
    "few-shot, rules": {"type": "few-shot", "max_documents": 5},
    "cloze": {"type": "cloze"},
    "cloze, best 3": {"type": "cloze", "max_documents": 3, "best_last": True},
    "cloze, best 1": {"type": "cloze", "max_documents": 1},
    "cloze, cases": {"type": "cloze", "max_documents": 3, "best_last": True},
    "compact": {"type": "compact", "target": "answer"},
}
_CASES = {"few-shot": 3, "few-shot, rules": 3, "cloze, cases": 5}


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
        told_apart: the mean of the fractions of both kinds that the threshold gets right.
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
    told_apart: float
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
    # A case whose answer stands in no document teaches to guess.
    tried, rest = answered[:queries], answered[queries:] or answered
    cases = [one for one in rest if _holds(one.request())]
    if not tried or not cases:
        raise EmptyDataError(
            f"{split!r} of {dataset.name!r} leaves no query to try and none to show",
            hint="take another split, or a retriever that finds answers",
        )
    requests = [one.request() for one in tried]
    templates = {name: _template(name, form, cases) for name, form in _FORMS.items()}

    def order(one: Trial) -> tuple[float, float, float]:
        return one.exact_match[answers], one.token_f1[answers], -one.seconds

    few = requests[: max(1, len(requests) // 4)]
    first, unfit = list[Trial](), list[str]()
    for name, one in templates.items():
        try:
            first.append(_tried(generator, name, one, few, labels))
        except GenerationError:  # longer than the model reads, even without documents
            unfit.append(name)
    if not first:
        raise EmptyDataError(
            "no prompt fits the model", hint="take a longer context, or a larger max_input_tokens"
        )
    first.sort(key=order, reverse=True)
    kept = first[: (len(first) + 1) // 2]
    trials = [_tried(generator, one.name, one.template, requests, labels) for one in kept]
    return PromptTuning(
        [*sorted(trials, key=order, reverse=True), *first[len(kept) :]],
        len(tried),
        float(np.mean([_holds(request) for request in requests])),
        unfit,
        _measured([one.query for one in tried], [one.text for one in tried])[0],
        _measured([r.query for r in requests], [_first(one, labels) for one in requests])[0],
    )


def _holds(request: GenerationRequest) -> bool:
    return AnswerMatcher().first_rank(request.documents, request.query.answers) is not None


def _template(name: str, form: Mapping[str, Any], answered: Sequence[Answer]) -> dict[str, Any]:
    """A form with its solved cases, as a configuration states it."""
    count = _CASES.get(name, 0)
    if not count:
        return dict(form)
    template = PromptTemplate.of(form)
    cases: list[Any] = []
    for one in answered:
        request = one.request()
        shown = replace(request, documents=request.documents[: template.max_documents])
        if len(cases) < count and _holds(shown):
            cases.append(template.case(request, request.query.answers[0]))
    return {**form, "cases": [case.model_dump(exclude_defaults=True) for case in cases]}


def _tried(
    generator: HuggingFaceGenerator,
    name: str,
    template: Mapping[str, Any],
    requests: Sequence[GenerationRequest],
    labels: Mapping[str, str],
) -> Trial:
    """One prompt on every request, its answers read in each way."""
    from rulerag.generation.huggingface import HuggingFaceGenerator, entities_in, first_named

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
    queries = [request.query for request in requests]
    measured = {way: _measured(queries, rows) for way, rows in texts.items()}
    threshold, told_apart = _threshold(
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
        told_apart,
        made.prompts(requests[:1])[0].text,
        wrote[:3],
    )


def _measured(queries: Sequence[Query], texts: Sequence[str]) -> tuple[float, float]:
    """Exact match and token F1."""
    pairs = list(zip(texts, (query.answers for query in queries), strict=True))
    return (
        float(np.mean([exact_match(*pair) for pair in pairs])),
        float(np.mean([best_token_f1(*pair) for pair in pairs])),
    )


def _first(request: GenerationRequest, labels: Mapping[str, str]) -> str:
    from rulerag.generation.huggingface import entities_in

    return next(iter(entities_in(request, labels)), "")


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
