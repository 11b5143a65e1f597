"""A benchmark folder, opened: retrieval with and without rules, its rule bank, single rules off."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
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
from rulerag.composition import Config
from rulerag.errors import ConfigError, UnknownNameError, did_you_mean
from rulerag.kg import Calendar
from rulerag.kg.grounding import FactIndex, Grounding, ground
from rulerag.linking import LinkedQuestion, QuestionLinker
from rulerag.protocols import Generator, Retriever, RuleSelector
from rulerag.rules import Rule
from rulerag.types import Document, Fact, Query, ScoredDocument

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

    holds: tuple[str, ...]
    fails: tuple[str, ...]
    looked_at: int


@dataclass(frozen=True)
class Understood:
    """What a question was taken to mean.

    Args:
        exact: whether it is in the benchmark's own form, which has one meaning.
        readings: what it may mean, each in the benchmark's form with its probability, the most
            likely first; empty where nobody known is mentioned: then nothing but the words is
            searched, and no rule guides.
        nearest: known names that look most like its words, where nobody is mentioned.
    """

    exact: bool
    readings: tuple[tuple[str, float], ...]
    nearest: tuple[str, ...] = ()


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
        self,
        folder: Path,
        top_k: int,
        encoders: Mapping[str, str] | None = None,
        readers: Mapping[str, str] | None = None,
    ) -> None:
        self.folder, self._top_k = folder, top_k
        self._readers = dict(readers or {})
        self._ways = retrieval_ways(encoders or {})
        self.dataset = open_dataset(preset(folder, top_k=top_k))
        self._made: dict[str, tuple[Retriever, RuleSelector | None]] = {}
        self._generators: dict[str, Generator] = {}
        self._lock = threading.RLock()
        self._linked = lru_cache(maxsize=4096)(self._link)
        self.query = lru_cache(maxsize=4096)(self._query)
        """The query of a question, in the benchmark's own words or in any other."""

    def _config(self, name: str) -> Config:
        if name not in self._ways:
            hint = did_you_mean(name, self._ways)
            raise UnknownNameError(f"no retriever is called {name!r}", hint=hint)
        return following_all(preset(self.folder, top_k=self._top_k, **self._ways[name]))

    def _way(self, name: str) -> tuple[Retriever, RuleSelector | None]:
        """A retriever and what chooses its rules; opened when it is first needed."""
        with self._lock:
            if name not in self._made:
                config = self._config(name)
                selector = make_selector(config, self.dataset.rules, self.dataset)
                self._made[name] = make_retriever(config, self.dataset, selector), selector
            return self._made[name]

    def generator(self, name: str = SYMBOLIC) -> Generator:
        """What reads its documents: the symbolic reader, or one of ``readers``."""
        with self._lock:
            if name not in self._generators:
                model = None if name == SYMBOLIC else self._readers[name]
                config = preset(self.folder, top_k=self._top_k, generator=model)
                self._generators[name] = make_generator(config, self.dataset)
            return self._generators[name]

    @cached_property
    def _texts(self) -> dict[str, Query]:
        rows = self.dataset.queries.values()
        return {query.text: query for some in rows for query in some}

    @cached_property
    def _linker(self) -> QuestionLinker:
        return QuestionLinker.of_folder(self.folder, self.dataset)

    @property
    def retrievers(self) -> tuple[str, ...]:
        """The names of what may search it."""
        return tuple(self._ways)

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

    def _link(self, question: str) -> LinkedQuestion:
        (found,) = self._linker.link([question])
        return found

    def _query(self, question: str) -> Query:
        known = self._texts.get(question.strip())
        if known is not None:
            return known
        found = self._linked(question)
        if found.readings:
            return found.asked()
        return Query("question", question, prediction=self.dataset.prediction)

    def understood(self, question: str) -> Understood:
        """What a question was taken to mean."""
        if (known := self._texts.get(question.strip())) is not None:
            return Understood(True, ((known.text, 1.0),))
        found = self._linked(question)
        read = tuple((one.query.text, one.probability) for one in found.readings)
        return Understood(found.exact, read, found.nearest)

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

    def retrieve(
        self, query: Query, top_k: int, retriever: str = "guided", without: Collection[str] = ()
    ) -> list[ScoredDocument]:
        """The documents of a query, with the rules that found them."""
        return self.retrieve_all([query], top_k, retriever, without)[0][0]

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
            return [(found, []) for found in searcher.retrieve(queries, top_k)]
        rules = [self.rules(query, without, retriever) for query in queries]
        found = searcher.retrieve(queries, top_k, rules=rules)
        return list(zip(found, rules, strict=True))

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
        holds, fails = list[str](), list[str]()
        looked = 0
        for subject in self._subjects(rule):
            if looked >= _SUBJECTS or (len(holds) >= most and len(fails) >= most):
                break
            looked += 1
            # One of each kind of a subject: a busy one would fill the list.
            told = dict[bool, str]()
            for grounding in ground(rule, subject, self._index):
                found = self._told(rule, subject, grounding)
                if found is not None:
                    told.setdefault(*found)
            holds += [told[True]] if True in told else []
            fails += [told[False]] if False in told else []
        return RuleExamples(tuple(holds[:most]), tuple(fails[:most]), looked)

    def _told(self, rule: Rule, subject: str, grounding: Grounding) -> tuple[bool, str] | None:
        """Whether the head of a grounding is stated, in words; None where nothing is known of it.

        The head of a temporal rule comes after its body, so that only what is stated later counts.
        """
        later = {
            answer: times
            for answer, stated in self._stated.get(rule.head.relation, {}).get(subject, {}).items()
            if (times := [one for one in stated if _after(one, grounding.latest, rule)])
        }
        if not later:
            return None
        body = ", ".join(self._words(self._facts[row]) for row in grounding.rows)
        head = Fact(subject, rule.head.relation, grounding.answer)
        if grounding.answer not in later:
            when = " afterwards" if rule.temporal else ""
            return False, f"{body}: {self._words(head)} is not stated{when}, others are"
        dated = head._replace(timestamp=min(later[grounding.answer], key=lambda one: one or 0))
        return True, f"{body}: {self._words(dated)} is stated"

    @cached_property
    def _facts(self) -> list[Fact]:
        return [fact for document in self.dataset.corpus for fact in document.facts]

    @cached_property
    def _index(self) -> FactIndex:
        return FactIndex(self._facts)

    @cached_property
    def _stated(self) -> dict[str, dict[str, dict[str, list[int | None]]]]:
        """By relation and subject, the objects that documents state, each with its times."""
        made: dict[str, dict[str, dict[str, list[int | None]]]] = {}
        for fact in self._facts:
            by_subject = made.setdefault(fact.relation, {}).setdefault(fact.subject, {})
            by_subject.setdefault(fact.object, []).append(fact.timestamp)
        return made

    def _subjects(self, rule: Rule) -> Sequence[str]:
        """What the head's subject may stand for, by the body atoms that hold it."""
        found = dict[str, None]()
        for atom in rule.body:
            by_subject = self._stated.get(atom.relation, {})
            if atom.subject == rule.head.subject:
                found |= dict.fromkeys(by_subject)
            elif atom.object == rule.head.subject:
                found |= dict.fromkeys(one for objects in by_subject.values() for one in objects)
        return sorted(found)

    def _words(self, fact: Fact) -> str:
        names, relations = self.dataset.labels["entities"], self.dataset.labels["relations"]
        parts = (
            names.get(fact.subject, fact.subject),
            relations.get(fact.relation, fact.relation),
            names.get(fact.object, fact.object),
        )
        said = " ".join(parts)
        calendar = self.dataset.calendar
        if fact.timestamp is None or not calendar:
            return said
        return f"{said} ({Calendar(**calendar).format(fact.timestamp)})"


def _after(time: int | None, latest: int | None, rule: Rule) -> bool:
    return not rule.temporal or time is None or latest is None or time > latest


def retrieval_ways(encoders: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """The settings of :func:`rulerag.assembly.preset` for each retriever, by its name here.

    Args:
        encoders: folder or name of each encoder, by the name here.
    """
    ways: dict[str, dict[str, Any]] = {"guided": {}, "plain": {"rules": "none"}}
    for name, encoder in encoders.items():
        dense = {"retriever": "dense", "encoder": encoder}
        ways[f"dense-{name}"] = {**dense, "rules": "none"}
        ways[f"dense-{name}-guided"] = dense
    return ways
