"""A benchmark folder, opened: retrieval with and without rules, its rule bank, single rules off."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any

from rulerag.assembly import (
    following_all,
    make_generator,
    make_retriever,
    make_selector,
    open_dataset,
    preset,
)
from rulerag.errors import ConfigError
from rulerag.kg.grounding import FactIndex, Statements, ground
from rulerag.linking import QuestionLinker
from rulerag.pipeline import with_evidence
from rulerag.protocols import Generator, Retriever, RuleSelector
from rulerag.rules import Rule
from rulerag.types import Document, Fact, Grounding, Query, ScoredDocument

_SUBJECTS = 2_000
"""So many subjects are looked at for the examples of a rule."""
SYMBOLIC = "symbolic"


@dataclass(frozen=True)
class RuleExamples:
    """What the documents of a benchmark say of a rule.

    Args:
        holds: groundings whose head is stated, in words.
        fails: groundings of subjects whose other answers are stated, but not the rule's: what
            counts against it under the partial completeness assumption. Of a temporal rule only
            what is stated after its body counts, for and against.
        looked_at: subjects that were looked at.
    """

    holds: Sequence[str]
    fails: Sequence[str]
    looked_at: int


@dataclass(frozen=True)
class Understood:
    """What a question was taken to mean.

    Args:
        exact: whether it is in the benchmark's own form, which has one meaning.
        words: what it asks of the documents' facts, in a sentence.
        refusal: why it cannot be answered; empty where it may be.
    """

    exact: bool
    words: str
    refusal: str = ""


class Benchmark:
    """A benchmark folder.

    Args:
        folder: the folder.
        top_k: documents per query.
        encoders: encoders that search it besides BM25, folder or name by the name here.
        readers: language models that read it besides the symbolic reader, likewise.

    Raises:
        DataError: it holds no benchmark.
    """

    def __init__(
        self, folder: Path, top_k: int, encoders: Mapping[str, str], readers: Mapping[str, str]
    ) -> None:
        self.folder, self._top_k, self._readers = folder, top_k, readers
        self._ways: dict[str, dict[str, Any]] = {"guided": {}, "plain": {"rules": "none"}}
        for name, encoder in encoders.items():
            dense = {"retriever": "dense", "encoder": encoder}
            self._ways[f"dense-{name}"] = {**dense, "rules": "none"}
            self._ways[f"dense-{name}-guided"] = dense
        self.dataset = open_dataset(preset(folder, top_k=top_k))
        self._lock = threading.RLock()
        self._open_way, self._open_generator = cache(self._make_way), cache(self._make_generator)
        self._linked = lru_cache(maxsize=4096)(lambda asked: self._linker.link([asked])[0])
        self.query = lru_cache(maxsize=4096)(self._query)
        """The query of a question, in the benchmark's own words or in any other."""

    def _way(self, name: str) -> tuple[Retriever, RuleSelector | None]:
        """A retriever and what chooses its rules; opened when it is first needed."""
        with self._lock:
            return self._open_way(name)

    def _make_way(self, name: str) -> tuple[Retriever, RuleSelector | None]:
        config = following_all(preset(self.folder, top_k=self._top_k, **self._ways[name]))
        selector = make_selector(config, self.dataset.rules, self.dataset)
        return make_retriever(config, self.dataset, selector), selector

    def generator(self, name: str = SYMBOLIC) -> Generator:
        """What reads its documents: the symbolic reader, or one of ``readers``."""
        with self._lock:
            return self._open_generator(name)

    def _make_generator(self, name: str) -> Generator:
        model = None if name == SYMBOLIC else self._readers[name]
        return make_generator(preset(self.folder, top_k=self._top_k, generator=model), self.dataset)

    @cached_property
    def _texts(self) -> dict[str, Query]:
        rows = self.dataset.queries.values()
        return {query.text: query for some in rows for query in some}

    @cached_property
    def _linker(self) -> QuestionLinker:
        return QuestionLinker.of_folder(self.folder, self.dataset)

    def document(self, identifier: str) -> Document | None:
        """A document of its corpus."""
        return self.dataset.documents.get(identifier)

    def examples(self, number: int = 10) -> tuple[str, ...]:
        """Some of its questions."""
        return tuple(query.text for query in self.dataset.query_set("full")[:number])

    def query_sets(self) -> dict[str, int]:
        """The names of its query sets and splits, with how many queries each has."""
        sizes = {"full": len(self.dataset.queries.get("test", ()))}
        sizes |= {name: len(ids) for name, ids in self.dataset.query_sets.items()}
        sizes |= {name: len(rows) for name, rows in self.dataset.queries.items() if name != "test"}
        return {name: size for name, size in sizes.items() if size}

    def _query(self, question: str) -> Query:
        if known := self._texts.get(question.strip()):
            return known
        return self._linked(question).query()

    def understood(self, question: str) -> Understood:
        """What a question was taken to mean."""
        if (known := self._texts.get(question.strip())) is not None:
            return Understood(True, known.text)
        found = self._linked(question)
        return Understood(found.exact, found.words, found.refusal)

    def rules(
        self, query: Query, without: Collection[str] = (), retriever: str = "guided"
    ) -> list[Rule]:
        """The guiding rules of a query, those that are switched off left out.

        A retriever that follows no rules has none, and neither has a question without a relation.
        """
        selector = self._way(retriever)[1]
        if selector is None or not query.relation:
            return []
        return [rule for rule in selector.select([query])[0] if rule.id not in without]

    def retrieve_all(
        self,
        queries: Sequence[Query],
        top_k: int,
        retriever: str = "guided",
        without: Collection[str] = (),
    ) -> list[tuple[list[ScoredDocument], list[Rule]]]:
        """The documents of each query, and the rules that guided its search."""
        searcher: Any = self._way(retriever)[0]
        if self._way(retriever)[1] is None:
            found = searcher.retrieve(queries, top_k)
            return [(self._with_evidence(*one), []) for one in zip(queries, found, strict=True)]
        rules = [self.rules(query, without, retriever) for query in queries]
        found = searcher.retrieve(queries, top_k, rules=rules)
        evident = map(self._with_evidence, queries, found)
        return list(zip(evident, rules, strict=True))

    def _with_evidence(
        self, query: Query, documents: Sequence[ScoredDocument]
    ) -> list[ScoredDocument]:
        return with_evidence(query, documents, self._statements)

    @cached_property
    def _statements(self) -> Statements:
        return Statements(self.dataset.corpus)

    def search(self, words: str, most: int = 50) -> list[Rule]:
        """Rules of the bank that hold every word, the most confident first."""
        wanted = words.casefold().split()
        held = (r for r in self.dataset.shown_rules if all(w in r.text.casefold() for w in wanted))
        return sorted(held, key=lambda rule: -rule.ranking_confidence)[:most]

    def examples_of(self, rule_id: str, most: int = 5) -> RuleExamples:
        """Groundings of a rule in the facts of the documents, for and against it.

        Raises:
            ConfigError: the bank holds no such rule.
        """
        rule = next((one for one in self.dataset.shown_rules if one.id == rule_id), None)
        if rule is None:
            raise ConfigError(f"no rule {rule_id!r}", key="rule", hint="search the bank")
        lines: dict[bool, list[str]] = {True: [], False: []}
        subjects = self._subjects(rule)[:_SUBJECTS]
        for looked_at, subject in enumerate(subjects, start=1):
            found = [self._stated(rule, subject, one) for one in ground(rule, subject, self._index)]
            # One of each kind of a subject: a busy one would fill the list.
            for kind, line in dict(filter(None, reversed(found))).items():
                lines[kind].append(line)
            if min(map(len, lines.values())) >= most:
                return RuleExamples(lines[True][:most], lines[False][:most], looked_at)
        return RuleExamples(lines[True][:most], lines[False][:most], len(subjects))

    def _stated(self, rule: Rule, subject: str, grounding: Grounding) -> tuple[bool, str] | None:
        """Whether the head of a grounding is stated, in the documents' words; None if unknown.

        The head of a temporal rule comes after its body, so that only what is stated later counts.
        """
        later = [
            self._facts[row.row]
            for row in self._index.match(rule.head.relation, subject, None)
            if _after(row.timestamp, grounding.latest, rule)
        ]
        if not later:
            return None
        body = " ".join(self._facts[row][1].text for row in grounding.rows)
        for fact, document in later:
            if fact.object == grounding.answer:
                return True, f"{body} – {document.text}"
        names, relations = self.dataset.labels["entities"], self.dataset.labels["relations"]
        subject, answer = (names.get(one, one) for one in (subject, grounding.answer))
        relation = relations.get(rule.head.relation, rule.head.relation)
        when = " afterwards" if rule.temporal else ""
        return False, f"{body} – not stated{when}, others are: {subject} {relation} {answer}"

    @cached_property
    def _facts(self) -> list[tuple[Fact, Document]]:
        """Every fact, the earliest first, with the document that states it."""
        found = [(fact, document) for document in self.dataset.corpus for fact in document.facts]
        return sorted(found, key=lambda one: one[0].timestamp or 0)

    @cached_property
    def _index(self) -> FactIndex:
        return FactIndex(enumerate(fact for fact, _ in self._facts))

    def _subjects(self, rule: Rule) -> Sequence[str]:
        """What the head's subject may stand for, by the body atoms that hold it."""
        found = set[str]()
        for atom in rule.body:
            if atom.subject == rule.head.subject:
                found.update(self._index.subjects(atom.relation))
            elif atom.object == rule.head.subject:
                found.update(self._index.objects(atom.relation))
        return sorted(found)


def _after(time: int | None, latest: int | None, rule: Rule) -> bool:
    return not rule.temporal or time is None or latest is None or time > latest
