"""Instructions to train a generator on: documents, rules and query, with the answer to write.

RuleRAG (arXiv:2410.22353, section 3.2) retrieves documents for the queries of F_G and fine-tunes
the generator on (documents, rules, query) with the golden answer; SSFT is the same without rules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rulerag.build import make_retriever, make_selector
from rulerag.config import Config
from rulerag.dataset import RuleQADataset
from rulerag.errors import EmptyDataError
from rulerag.kg.grounding import FactIndex, ground
from rulerag.pipeline import RuleRAGPipeline
from rulerag.types import Completion, GenerationRequest, Query
from training.generator_settings import GeneratorSettings

__all__ = ["Instruction", "Instructions", "make_instructions", "supporting_fact"]


@dataclass(frozen=True)
class Instruction:
    """One example: what a generator reads, and the answer that it should write.

    Args:
        request: documents, rules and query.
        answer: the answer in words.
        fact: subject and relation of a fact that supports it, in words, where one is known.
    """

    request: GenerationRequest
    answer: str
    fact: tuple[str, str] | None = None


@dataclass(frozen=True)
class Instructions:
    """Examples, and requests kept for tuning.

    Args:
        examples: what is trained on.
        tuning: requests that are never trained on.
        uncited: pairs left out because no document supports the answer, for citing templates.
    """

    examples: list[Instruction]
    tuning: list[GenerationRequest]
    uncited: int = 0


class _Silent:
    """A reader that says nothing: the pipeline is asked for its requests alone."""

    fingerprint = "silent"

    def generate(self, requests: Sequence[GenerationRequest]) -> list[Completion]:
        return [Completion("") for _ in requests]


def make_instructions(
    settings: GeneratorSettings, dataset: RuleQADataset, *, cited: bool = False
) -> Instructions:
    """Draw pairs of query and answer, and find documents and rules as the pipeline does.

    Args:
        settings: what to draw, and how documents are found.
        dataset: with queries in ``settings.split``.
        cited: keep only pairs whose answer a retrieved document supports under a shown rule.

    Raises:
        ConfigError: the retrieval settings are wrong.
        EmptyDataError: no pair is left to train on.
    """
    asked = [query for query in dataset.query_set(settings.split) if query.answers]
    chance = np.random.default_rng([settings.seed, 8])
    order = chance.permutation(len(asked))
    cut = max(1, round(settings.tuning_share * len(asked)))
    held = np.sort(order[:cut])[: settings.max_queries or None]
    pairs = [(n, answer) for n in np.sort(order[cut:]) for answer in asked[n].answers]
    if settings.samples and len(pairs) > settings.samples:
        kept = np.sort(chance.permutation(len(pairs))[: settings.samples])
        pairs = [pairs[n] for n in kept]
    needed = sorted({n for n, _ in pairs} | set(held.tolist()))
    found = _requests(settings, dataset, [asked[n] for n in needed])
    request = dict(zip(needed, found, strict=True))
    labels = dataset.labels
    made = [
        Instruction(request[n], answer, supporting_fact(request[n], answer, labels))
        for n, answer in pairs
    ]
    examples = [one for one in made if one.fact is not None] if cited else made
    if not examples:
        raise EmptyDataError(
            f"{settings.split!r} of {dataset.name!r} leaves nothing to train on",
            hint="take a dataset with more queries, or a smaller data.tuning_share",
        )
    return Instructions(examples, [request[n] for n in held], len(made) - len(examples))


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
) -> tuple[str, str] | None:
    """Subject and relation, in words, of the fact by which a rule leads to an answer.

    The first rule with a grounding in the documents counts; of its body, the fact that holds the
    answer. None where no rule leads there.

    Args:
        request: documents with facts, and rules.
        answer: the answer in words.
        labels: readable names, by ``entities`` and ``relations``.
    """
    entities, relations = labels.get("entities", {}), labels.get("relations", {})
    facts = [fact for document in request.documents for fact in document.facts]
    index = FactIndex(facts)
    query = request.query
    for rule in request.rules:
        for grounding in ground(rule, query.subject, index, query.timestamp):
            if entities.get(grounding.answer, grounding.answer) != answer:
                continue
            used = [facts[row] for row in grounding.rows]
            for fact in used:
                if grounding.answer in (fact.subject, fact.object):
                    other = fact.subject if fact.object == grounding.answer else fact.object
                    relation = relations.get(fact.relation, fact.relation)
                    return entities.get(other, other), relation
    return None
