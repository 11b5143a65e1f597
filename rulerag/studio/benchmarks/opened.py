"""A benchmark folder, opened: retrieval with and without rules, its rule bank, single rules off."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from rulerag.assembly import Options, make_pipeline, make_retriever, open_dataset, preset
from rulerag.errors import ConfigError
from rulerag.kg.grounding import FactIndex, ground
from rulerag.protocols import Generator
from rulerag.ruleqa import parse_question
from rulerag.rules import Rule
from rulerag.types import Document, Fact, Query, ScoredDocument

_SUBJECTS = 2_000
"""So many subjects are looked at for the examples of a rule."""


@dataclass(frozen=True)
class RuleExamples:
    """What the documents of a benchmark say of a rule.

    Args:
        holds: groundings whose head is stated, in words.
        fails: groundings of subjects whose other answers are stated, but not the rule's: what
            counts against it under the partial completeness assumption.
        looked_at: subjects that were looked at.
    """

    holds: tuple[str, ...]
    fails: tuple[str, ...]
    looked_at: int


class Benchmark:
    """A benchmark folder.

    Args:
        folder: the folder.
        top_k: documents per query.

    Raises:
        DataError: it holds no benchmark.
    """

    def __init__(self, folder: Path, top_k: int) -> None:
        config = preset(folder, top_k=top_k)
        self.dataset = open_dataset(config)
        self._pipeline = make_pipeline(config, self.dataset, Options(keep_union=False))
        self._plain = make_retriever(preset(folder, rules="none", top_k=top_k), self.dataset, None)

    @property
    def generator(self) -> Generator:
        """What reads its documents."""
        return self._pipeline.generator

    @cached_property
    def _texts(self) -> dict[str, Query]:
        rows = self.dataset.queries.values()
        return {query.text: query for some in rows for query in some}

    @cached_property
    def _by_id(self) -> dict[str, Document]:
        return {document.id: document for document in self.dataset.corpus}

    def document(self, identifier: str) -> Document | None:
        """A document of its corpus."""
        return self._by_id.get(identifier)

    def examples(self, number: int = 10) -> tuple[str, ...]:
        """Some of its questions."""
        return tuple(query.text for query in self.dataset.query_set("full")[:number])

    def query(self, question: str) -> Query:
        """Its query of these words, or one put together from them.

        Raises:
            DataError: the words name no entity and relation of it.
        """
        return self._texts.get(question.strip()) or parse_question(question, self.dataset)

    def rules(self, query: Query, without: Collection[str] = ()) -> list[Rule]:
        """The guiding rules of a query, those that are switched off left out."""
        selector = self._pipeline.selector
        chosen = [] if selector is None else selector.select([query])[0]
        return [rule for rule in chosen if rule.id not in without]

    def retrieve(
        self, query: Query, top_k: int, *, guided: bool, without: Collection[str] = ()
    ) -> list[ScoredDocument]:
        """The documents of a query, with the rules that found them."""
        if not guided:
            return self._plain.retrieve([query], top_k)[0]
        retriever = self._pipeline.retriever
        if not without:
            return retriever.retrieve([query], top_k)[0]
        kept = self.rules(query, without)
        return retriever.retrieve([query], top_k, rules=[kept])[0]  # type: ignore[call-arg]

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
        stated = self._stated.get(rule.head.relation, {})
        holds, fails = list[str](), list[str]()
        looked = 0
        for subject in self._subjects(rule):
            if looked >= _SUBJECTS or (len(holds) >= most and len(fails) >= most):
                break
            looked += 1
            for grounding in ground(rule, subject, self._index):
                body = ", ".join(self._words(self._facts[row]) for row in grounding.rows)
                head = self._words(Fact(subject, rule.head.relation, grounding.answer))
                answers = stated.get(subject, set())
                if grounding.answer in answers:
                    holds.append(f"{body}: {head} is stated")
                elif answers:
                    fails.append(f"{body}: {head} is not stated, others are")
        return RuleExamples(
            tuple(dict.fromkeys(holds))[:most], tuple(dict.fromkeys(fails))[:most], looked
        )

    @cached_property
    def _facts(self) -> list[Fact]:
        return [fact for document in self.dataset.corpus for fact in document.facts]

    @cached_property
    def _index(self) -> FactIndex:
        return FactIndex(self._facts)

    @cached_property
    def _stated(self) -> dict[str, dict[str, set[str]]]:
        """By relation and subject, the objects that documents state."""
        made: dict[str, dict[str, set[str]]] = {}
        for fact in self._facts:
            made.setdefault(fact.relation, {}).setdefault(fact.subject, set()).add(fact.object)
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
        return " ".join(parts)
