"""Instructions to train a generator on: documents, rules and query, with the answer to write.

RuleRAG (arXiv:2410.22353, section 3.2) retrieves documents for the queries of F_G and fine-tunes
the generator on (documents, rules, query) with the golden answer; SSFT is the same without rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rulerag.assembly import make_retriever, make_selector
from rulerag.composition import Config
from rulerag.errors import EmptyDataError
from rulerag.generation.prompts import Case, Citation, citation_of
from rulerag.kg.grounding import FactIndex, ground
from rulerag.pipeline import RuleRAGPipeline
from rulerag.ruleqa import RuleQADataset
from rulerag.types import Completion, GenerationRequest, Query
from training.generator.settings import GeneratorSettings


@dataclass(frozen=True)
class Instruction:
    """One example: what a generator reads, and the answer that it should write.

    Args:
        request: documents, rules and query.
        answer: the answer in words.
        fact: the fact that supports it, in words, where one is known.
    """

    request: GenerationRequest
    answer: str
    fact: Citation | tuple[str, str] | None = None


@dataclass(frozen=True)
class Instructions:
    """Examples, and requests kept for tuning.

    Args:
        examples: what is trained on.
        tuning: requests that are never trained on.
        uncited: pairs left out because no document holds the answer, for citing templates.
        cases: solved cases for every prompt, of queries that stand in neither of the others.
    """

    examples: list[Instruction]
    tuning: list[GenerationRequest]
    uncited: int = 0
    cases: tuple[Case, ...] = ()


class _Silent:
    """A reader that says nothing: the pipeline makes its requests alone."""

    fingerprint = "silent"

    def generate(self, requests: Sequence[GenerationRequest]) -> list[Completion]:
        return [Completion("") for _ in requests]


def make_instructions(
    settings: GeneratorSettings, dataset: RuleQADataset, *, cited: bool = False
) -> Instructions:
    """Draw pairs of query and answer, and find documents and rules as the pipeline does.

    Args:
        settings: what to draw, and how documents are found.
        dataset: with queries in ``settings.dataset.split``.
        cited: keep only pairs whose answer a retrieved document holds.

    Raises:
        ConfigError: the retrieval settings are wrong.
        EmptyDataError: no pair is left to train on.
    """
    rng = np.random.default_rng([settings.seed, 8])
    queries, tuned, trained = _shares(settings, dataset, rng)
    # Those that cases are made of; more than are shown where a case must cite, as not every answer
    # stands in a document.
    order = np.random.default_rng([settings.seed, 9]).permutation(trained)
    shown = order[: settings.data.shots * (8 if cited else 1)].tolist()
    trained = np.setdiff1d(trained, shown)
    pairs = [(n, answer) for n in trained for answer in queries[n].answers]
    if settings.data.samples and len(pairs) > settings.data.samples:
        drawn = np.sort(rng.permutation(len(pairs))[: settings.data.samples])
        pairs = [pairs[n] for n in drawn]
    needed = sorted({n for n, _ in pairs} | set(tuned.tolist()) | set(shown))
    requests = _requests(settings, dataset, [queries[n] for n in needed])
    request = dict(zip(needed, requests, strict=True))

    def instructions(pairs: Iterable[tuple[int, str]]) -> list[Instruction]:
        made = [
            Instruction(request[n], answer, supporting_fact(request[n], answer, dataset.labels))
            for n, answer in pairs
        ]
        return [one for one in made if one.fact is not None or not cited]

    examples = instructions(pairs)
    if not examples:
        raise EmptyDataError(
            f"{settings.dataset.split!r} of {dataset.name!r} leaves nothing to train on",
            hint="take a dataset with more queries, or a smaller data.tuning_share",
        )
    # RuleRAG, section 3.2: fixed cases from F_G.
    solved = instructions((n, queries[n].answers[0]) for n in shown)[: settings.data.shots]
    if len(solved) < settings.data.shots:
        raise EmptyDataError(
            f"{settings.dataset.split!r} has {len(solved)} queries to make "
            f"{settings.data.shots} cases of",
            hint="take a dataset with more queries, or a smaller data.shots",
        )
    cases = (
        settings.prompts.case(one.request, one.answer, one.fact and (one.fact[0], one.fact[1]))
        for one in solved
    )
    tuning = [request[n] for n in tuned]
    return Instructions(examples, tuning, len(pairs) - len(examples), tuple(cases))


def tuning_queries(settings: GeneratorSettings, dataset: RuleQADataset) -> list[Query]:
    """The queries that a run keeps for tuning and never trains on."""
    queries, tuned, _ = _shares(settings, dataset, np.random.default_rng([settings.seed, 8]))
    return [queries[n] for n in tuned]


def _shares(
    settings: GeneratorSettings, dataset: RuleQADataset, rng: np.random.Generator
) -> tuple[list[Query], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The queries of the split, and the places of those for tuning and for training."""
    queries = [query for query in dataset.query_set(settings.dataset.split) if query.answers]
    order = rng.permutation(len(queries))
    cut = max(1, round(settings.data.tuning_share * len(queries)))
    # Drawn before they are put in order: the first ones would be the earliest of a dated graph.
    tuned = order[:cut][: settings.validation.max_queries or None]
    return queries, np.sort(tuned), np.sort(order[cut:])


def _requests(
    settings: GeneratorSettings, dataset: RuleQADataset, queries: Sequence[Query]
) -> list[GenerationRequest]:
    finding: Config = settings.finding
    selector = make_selector(finding, dataset.rules)
    pipeline = RuleRAGPipeline(
        make_retriever(finding, dataset, selector),
        _Silent(),
        selector=selector,
        top_k=settings.top_k,
        reader_rules=settings.reader_rules,
        keep_union=False,
    )
    return [answer.request() for answer in pipeline.answer(queries)]


def supporting_fact(
    request: GenerationRequest, answer: str, labels: Mapping[str, Mapping[str, str]]
) -> Citation | None:
    """The fact in the documents that an answer is best read from, in words.

    It is the first fact that holds the answer among those by which a rule leads there; where none
    does, among those of the query's subject, else among all. None where no fact holds it.

    Args:
        request: documents with facts, and rules.
        answer: the answer in words.
        labels: readable names, by ``entities`` and ``relations``.
    """
    facts = [fact for document in request.documents for fact in document.facts]
    query = request.query
    citations = [citation_of(fact, answer, query.subject, labels) for fact in facts]
    index = FactIndex(enumerate(facts))
    entities = labels.get("entities", {})
    led = {
        row
        for rule in request.rules
        for grounding in ground(rule, query.subject, index, query.timestamp)
        if entities.get(grounding.answer, grounding.answer) == answer
        for row in grounding.rows
    }
    # Grounded first, then the subject's own, then the earliest.
    found = [
        (row not in led, one.bridge, row) for row, one in enumerate(citations) if one is not None
    ]
    return citations[min(found)[2]] if found else None
