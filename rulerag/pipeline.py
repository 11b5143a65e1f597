"""The pipeline: select guiding rules, retrieve, generate; answers that hold their evidence."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

from rulerag.errors import ConfigError, RetrievalError
from rulerag.kg.grounding import Statements, compare, groundings_of
from rulerag.protocols import Generator, Retriever, RuleSelector
from rulerag.rules import Rule
from rulerag.types import Answer, Completion, GenerationRequest, Query, ScoredDocument

_READER_RULES = ("none", "selected", "found")


@runtime_checkable
class UnionRetriever(Protocol):
    """A retriever that also gives the whole union that its best documents were taken from."""

    def retrieve_union(self, queries: Sequence[Query], top_k: int) -> list[list[ScoredDocument]]:
        """Return, for each query, the union of every rule's ``top_k`` documents."""
        ...


class RuleRAGPipeline:
    """Answers queries with documents and rules (RuleRAG, arXiv:2410.22353, section 3).

    Every answer that is no prediction also holds what the corpus states of its question, and which
    rules support or contradict that (:attr:`~rulerag.Answer.stated`).

    Args:
        retriever: finds documents; one that is a :class:`UnionRetriever` also reports its union.
        generator: reads them.
        selector: chooses the guiding rules that the generator sees; None for plain RAG.
        top_k: how many documents the generator sees.
        reader_rules: which rules it sees: ``selected`` (all guiding rules, the paper's),
            ``found`` (those that found at least one of the documents), or ``none``.
        keep_union: also compute the untrimmed union, for the paper's recall.
        fingerprints: of the data, copied into every answer.
        labels: readable names of entities, for what is stated; names themselves where one is
            missing.

    Raises:
        ConfigError: ``top_k`` below 1 or an unknown ``reader_rules``.
    """

    def __init__(
        self,
        retriever: Retriever,
        generator: Generator,
        *,
        selector: RuleSelector | None = None,
        top_k: int = 10,
        reader_rules: str = "selected",
        keep_union: bool = True,
        fingerprints: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        if top_k < 1:
            raise ConfigError(f"{top_k} is below 1", key="top_k", hint="say 10")
        if reader_rules not in _READER_RULES:
            raise ConfigError(
                f"unknown choice {reader_rules!r}",
                key="reader_rules",
                hint=f"one of {', '.join(_READER_RULES)}",
            )
        self.retriever = retriever
        self.generator = generator
        self.selector = selector
        self.top_k = top_k
        self.reader_rules = reader_rules
        self.keep_union = keep_union
        self.labels = labels or {}
        self.fingerprints = {
            **(fingerprints or {}),
            "retriever": retriever.fingerprint,
            "generator": generator.fingerprint,
        }
        self.seconds = {"retrieve": 0.0, "generate": 0.0}

    def answer(
        self,
        queries: Sequence[Query],
        *,
        retrieved: Sequence[Sequence[ScoredDocument]] | None = None,
    ) -> list[Answer]:
        """Answer queries in order.

        Args:
            queries: the questions.
            retrieved: documents from a saved run, one list a query, to start at the generator.

        Raises:
            RetrievalError: ``retrieved`` has another length than ``queries``.
        """
        if retrieved is not None and len(retrieved) != len(queries):
            raise RetrievalError(
                f"a saved run of {len(retrieved)} lists does not fit {len(queries)} queries"
            )
        started = time.perf_counter()
        selected = [] if self.selector is None else self.selector.select(queries)
        unions: Sequence[Sequence[ScoredDocument]] = [()] * len(queries)
        if retrieved is None:
            retriever: Any = self.retriever
            guided = self.selector is not None and (
                getattr(retriever, "selector", None) is self.selector
            )
            guides = {"rules": selected} if guided else {}  # selected once, for both halves
            retrieved = retriever.retrieve(queries, self.top_k, **guides)
            if self.keep_union and isinstance(retriever, UnionRetriever):
                unions = retriever.retrieve_union(queries, self.top_k, **guides)
        else:
            retrieved = [list(documents)[: self.top_k] for documents in retrieved]
        rules = self._reader_rules(selected, retrieved)
        self.seconds["retrieve"] += time.perf_counter() - started
        started = time.perf_counter()
        requests = [
            _grounded(GenerationRequest(query, tuple(s.document for s in documents), tuple(chosen)))
            for query, documents, chosen in zip(queries, retrieved, rules, strict=True)
        ]
        completions = self.generator.generate(requests)
        self.seconds["generate"] += time.perf_counter() - started
        return [
            Answer(
                request.query,
                completion,
                tuple(documents),
                request.rules,
                self.fingerprints,
                tuple(union),
                self._stated(request, completion),
            )
            for request, completion, documents, union in zip(
                requests, completions, retrieved, unions, strict=True
            )
        ]

    @cached_property
    def _corpus(self) -> Statements:
        """What the corpus states, as far as the retriever knows it."""
        known = getattr(self.retriever, "statements", None)
        documents = getattr(self.retriever, "documents", ())
        return known if isinstance(known, Statements) else Statements(documents)

    def _stated(self, request: GenerationRequest, completion: Completion) -> dict[str, Any]:
        if request.groundings is None:
            return {}
        corpus = self._corpus if self._corpus.documents else Statements(request.documents)
        return compare(completion.text, request.groundings, corpus, self.labels)

    def _reader_rules(
        self, selected: list[list[Rule]], retrieved: Sequence[Sequence[ScoredDocument]]
    ) -> list[list[Rule]]:
        """The rules that the generator sees of those that are selected."""
        if self.selector is None or self.reader_rules == "none":
            return [[] for _ in retrieved]
        if self.reader_rules == "selected":
            return selected
        kept = []
        for rules, documents in zip(selected, retrieved, strict=True):
            found = {rule_id for scored in documents for rule_id in scored.rule_ids}
            kept.append([rule for rule in rules if rule.id in found])
        return kept


def _grounded(request: GenerationRequest) -> GenerationRequest:
    """A request with the groundings that its reader and :func:`compare` both go by.

    Nothing is compared with what documents state of a prediction; its reader grounds the rules.
    """
    if request.query.prediction or not request.query.relation:
        return request
    return replace(request, groundings=groundings_of(request))
