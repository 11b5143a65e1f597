"""The pipeline: select guiding rules, retrieve, generate; answers that hold their evidence."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import islice
from typing import Any, Protocol, runtime_checkable

from rulerag.errors import ConfigError, RetrievalError
from rulerag.kg import in_order
from rulerag.kg.grounding import (
    ExtendedIndex,
    Statements,
    compare,
    execute,
    groundings_of,
    known_end,
    solve,
    values_in_words,
)
from rulerag.protocols import Generator, Retriever, RuleSelector
from rulerag.rules import Rule
from rulerag.types import (
    Answer,
    Candidate,
    Completion,
    Document,
    Fact,
    GenerationRequest,
    Query,
    ScoredDocument,
)

_UNSAID = "the documents do not say, and no rule leads to an answer"
# What so many ways to satisfy the parts of a question before a missing one lead to is asked about.
_MOST_BOUND = 3
_READER_RULES = ("none", "selected", "found")


@runtime_checkable
class UnionRetriever(Protocol):
    """A retriever that also gives the whole union that its best documents were taken from."""

    def retrieve_union(self, queries: Sequence[Query], top_k: int) -> list[list[ScoredDocument]]:
        """Return, for each query, the union of every rule's ``top_k`` documents."""
        ...


class QueryLinker(Protocol):
    """Finds what questions in one's own words ask, as :class:`rulerag.linking.QuestionLinker`."""

    def link_queries(self, queries: Sequence[Query]) -> list[Query]:
        """The queries, those that name no relation with their meaning, or why there is none."""
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

    Attributes:
        linker: understands queries that name no relation; None where the generator reads texts.

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
        self.linker: QueryLinker | None = None
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
        queries = queries if self.linker is None else self.linker.link_queries(queries)
        given = [None] * len(queries) if retrieved is None else list(retrieved)
        known = [self._by_meaning(query, some) for query, some in zip(queries, given, strict=True)]
        left = [n for n, one in enumerate(known) if one is None]
        if not left:
            return [one for one in known if one is not None]
        some = None if retrieved is None else [retrieved[n] for n in left]
        found = iter(self._by_documents([queries[n] for n in left], some))
        return [one or self._or_refused(next(found)) for one in known]

    def retrieve(
        self, queries: Sequence[Query], *, union: bool = False
    ) -> list[list[ScoredDocument]]:
        """The documents that are found for queries, in order.

        Args:
            queries: the questions.
            union: the untrimmed union of every rule's documents.

        Raises:
            ConfigError: there is no union without rules.
        """
        if not union:
            return self.retriever.retrieve(queries, self.top_k)
        if isinstance(self.retriever, UnionRetriever):
            return self.retriever.retrieve_union(queries, self.top_k)
        raise ConfigError("there is no union without rules", key="union", hint="--rules guided")

    def _or_refused(self, answer: Answer) -> Answer:
        """An answer to a question in one's own words; why there is none where nothing is said."""
        if answer.query.meaning is None or answer.text:
            return answer
        query = replace(answer.query, refusal=_UNSAID)
        return replace(answer, query=query, completion=self._refused(query).completion)

    def _by_documents(
        self,
        queries: Sequence[Query],
        retrieved: Sequence[Sequence[ScoredDocument]] | None,
    ) -> list[Answer]:
        """Answers as the paper has it: select rules, retrieve, read."""
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
        retrieved = [
            with_evidence(query, documents, self.statements) if query.meaning else list(documents)
            for query, documents in zip(queries, retrieved, strict=True)
        ]
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

    # --- questions whose meaning is known -----

    def _by_meaning(
        self, query: Query, retrieved: Sequence[ScoredDocument] | None
    ) -> Answer | None:
        """The answer to a question that is refused, or that one search does not answer.

        Args:
            query: the question.
            retrieved: the documents to answer from; None for the corpus.
        """
        meaning = query.meaning
        if query.refusal:
            return self._refused(query)
        if meaning is None or (query.relation and meaning.form == "entities"):
            return None
        corpus = self.statements
        if retrieved is not None:
            corpus = Statements([one.document for one in retrieved])
        result = execute(meaning, corpus.index)
        if not result.values:
            inferred = self._inferred(query) if retrieved is None and self.selector else None
            return inferred or self._refused(replace(query, refusal=_UNSAID))
        evidence = _ranked(corpus.documents[place] for place in result.places)
        request = GenerationRequest(query, tuple(one.document for one in evidence))
        (completion,) = self.generator.generate([request])
        return Answer(query, completion, tuple(evidence), (), self.fingerprints)

    def _refused(self, query: Query) -> Answer:
        """The answer to a question that cannot be answered: why not."""
        completion = Completion(f"cannot be answered: {query.refusal}")
        return Answer(query, completion, fingerprints=self.fingerprints)

    def _inferred(self, query: Query) -> Answer | None:
        """The answer to a question of several parts, where rules lead to those that no fact states.

        Each part whose facts are missing is asked for itself, of what the parts before it lead to.
        """
        meaning = query.meaning
        if meaning is None:
            return None
        names = {label: name for name, label in self.labels.items()}
        atoms = [meaning.atoms[n] for n in in_order(meaning.atoms)]
        facts: list[Fact] = []
        documents: dict[str, Document] = {}
        rules: dict[str, Rule] = {}
        for size, atom in enumerate(atoms, start=1):
            index = ExtendedIndex(self.statements.index, facts)
            part = replace(meaning, atoms=tuple(atoms[:size]), wanted="", form="time")
            if next(solve(part, index), None):
                continue
            before: list[dict[str, str]] = [{}]
            if size > 1:
                part = replace(meaning, atoms=tuple(atoms[: size - 1]), wanted="", form="time")
                before = [dict(one.bound) for one in islice(solve(part, index), _MOST_BOUND)]
            for bound in before:
                known, inverse = known_end(atom, bound)
                relation = "^" * inverse + atom.relation
                ask = Query(query.id, query.text, known, relation, meaning.until)
                (answer,) = self._by_documents([ask], None)
                for candidate in answer.completion.candidates[:1]:
                    name = names.get(candidate.text, candidate.text)
                    both = (name, known) if inverse else (known, name)
                    facts.append(Fact(both[0], atom.relation, both[1], meaning.until))
                    documents |= {
                        one.document.id: one.document
                        for one in answer.documents
                        if one.document.id in candidate.document_ids
                    }
                    rules |= {one.id: one for one in answer.rules if one.id in candidate.rule_ids}
        result = execute(meaning, ExtendedIndex(self.statements.index, facts))
        if not result.values or not rules:
            return None
        stated = [self.statements.documents[place] for place in result.places if place >= 0]
        documents = {one.id: one for one in stated} | documents
        text = ", ".join(values_in_words(result, self.labels))
        candidate = Candidate(text, 1.0, tuple(documents), tuple(rules))
        completion = Completion(text, candidates=(candidate,))
        evidence = tuple(_ranked(documents.values()))
        return Answer(query, completion, evidence, tuple(rules.values()), self.fingerprints)

    @cached_property
    def statements(self) -> Statements:
        """What the corpus states, as far as the retriever knows it."""
        known = getattr(self.retriever, "statements", None)
        documents = getattr(self.retriever, "documents", ())
        return known if isinstance(known, Statements) else Statements(documents)

    def _stated(self, request: GenerationRequest, completion: Completion) -> dict[str, Any]:
        if request.groundings is None:
            return {}
        corpus = self.statements if self.statements.documents else Statements(request.documents)
        values = [one.text for one in completion.candidates if one.is_stated]
        return compare(completion.text, request.groundings, corpus, self.labels, values)

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


def with_evidence(
    query: Query, documents: Sequence[ScoredDocument], corpus: Statements
) -> list[ScoredDocument]:
    """Found documents behind those that state what is asked, where a question's meaning is known.

    Args:
        query: the question.
        documents: what was found for it, best first.
        corpus: what the documents of the corpus state.
    """
    if query.meaning is None:
        return list(documents)
    found = {one.document.id: one for one in documents}
    stated = execute(query.meaning, corpus.index).places
    evidence = _ranked(corpus.documents[place] for place in stated)
    first = [found.pop(one.document.id, one) for one in evidence]
    return [replace(one, rank=n) for n, one in enumerate((*first, *found.values()), start=1)]


def _ranked(documents: Iterable[Document]) -> list[ScoredDocument]:
    """Documents that state an answer, each once."""
    distinct = {one.id: one for one in documents}
    return [ScoredDocument(one, 1.0, n) for n, one in enumerate(distinct.values(), start=1)]


def _grounded(request: GenerationRequest) -> GenerationRequest:
    """A request with the groundings that its reader and :func:`compare` both go by.

    Nothing is compared with what documents state of a prediction; its reader grounds the rules.
    """
    if request.query.prediction or not request.query.relation:
        return request
    return replace(request, groundings=groundings_of(request))
