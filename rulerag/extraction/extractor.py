"""Finds triples in documents by patterns that are learned from a few known facts.

1. *Pairs* of neighbouring names of every sentence, with the words between them and a date
   (:mod:`~rulerag.extraction.pairs`).
2. *Learning*: what the words between the ends of known facts mean
   (:mod:`~rulerag.extraction.patterns`).
3. *Reading*: each pair becomes a triple of the relation that its words mean: by the longest known
   pattern that they end with, else by what a language model chooses for them
   (:mod:`~rulerag.extraction.language_model`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from rulerag.errors import ConfigError, EmptyDataError
from rulerag.extraction.language_model import ModelExtractor, RelationQuestion
from rulerag.extraction.names import NameReader
from rulerag.extraction.pairs import NamePair, pairs_of
from rulerag.extraction.patterns import (
    INVERSE,
    Evidence,
    Meaning,
    PatternBook,
    Stems,
    shared_out,
)
from rulerag.extraction.records import Extraction, Triple
from rulerag.kg import Calendar, Phrases
from rulerag.parallel import Backend, SerialBackend
from rulerag.types import Document, Fact

_DAYS = Calendar("day", "1970-01-01")
# What a pair without a date counts as a sign of what a dated fact says.
_UNDATED = 0.2
# What a model's choice counts, and how many examples of the same words it sees.
_MODEL, _EXAMPLES = 0.8, 3
# The confidence of a relation that is called by its own words.
_OPEN = 0.5

_Page = tuple[Document, tuple[NamePair, ...]]
_PART = 256  # documents read at once


def _read(reader: NameReader, calendar: Calendar, documents: Sequence[Document]) -> list[_Page]:
    return [(one, tuple(pairs_of(one, reader, calendar))) for one in documents]


@dataclass(frozen=True)
class ExtractionSettings:
    """What is taken for a triple.

    Args:
        min_confidence: the least confidence of a triple, a fraction.
        open_relations: whether words that mean no known relation become a relation of their own;
            always so where no relation is known.

    Raises:
        ConfigError: the confidence is out of range.
    """

    min_confidence: float = 0.3
    open_relations: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.min_confidence <= 1:
            raise ConfigError(
                f"{self.min_confidence} is not from 0 to 1", key="min_confidence", hint="0.3"
            )


class TripleExtractor:
    """Finds triples in documents.

    Args:
        facts: known facts, from which patterns are learned; none for open relations alone.
        names: the spellings of known entities, by raw name; others are found by their capitals.
        calendar: of the facts' times; days from 1970 on where there are no facts.
        patterns: those of an earlier corpus, added to.
        labels: words of relations, where they differ from their names; they are patterns too.
        settings: what is taken for a triple.

    Attributes:
        patterns: what words mean, as far as it was learned.
        dated: whether triples have times: as the known facts, or else as most pairs of names.
    """

    def __init__(
        self,
        facts: Sequence[Fact] = (),
        *,
        names: Mapping[str, Sequence[str]] | None = None,
        calendar: Calendar | None = None,
        patterns: PatternBook | None = None,
        labels: Mapping[str, str] | None = None,
        settings: ExtractionSettings | None = None,
    ) -> None:
        self.facts = tuple(facts)
        self.names = dict(names or {})
        for fact in facts:
            for end in (fact.subject, fact.object):
                self.names.setdefault(end, (end,))
        self.dated = any(fact.timestamp is not None for fact in self.facts)
        self.calendar = calendar or _DAYS
        self.settings = settings or ExtractionSettings()
        known = patterns or PatternBook()
        self.patterns = PatternBook(known.counts, known.words)
        relations = dict.fromkeys([*(fact.relation for fact in facts), *known.relations])
        self._labels = {name: (labels or {}).get(name, name) for name in relations}

    @property
    def relations(self) -> list[str]:
        """The relations that words may mean, by raw name."""
        return list(self._labels)

    def learn(self, documents: Iterable[Document]) -> PatternBook:
        """Learn from documents what words mean, by the known facts.

        Args:
            documents: some of which state known facts.
        """
        self._learn(self._pages(list(documents), SerialBackend()))
        return self.patterns

    def extract(
        self,
        documents: Iterable[Document],
        *,
        learn: bool = True,
        model: ModelExtractor | None = None,
        backend: Backend | None = None,
    ) -> Extraction:
        """The triples of documents.

        Args:
            documents: their ids are unique.
            learn: whether to learn from these documents first.
            model: says what words mean that end with no known pattern.
            backend: where names and dates are looked for; this process when None.

        Raises:
            EmptyDataError: there is no document.
        """
        listed = list(documents)
        if not listed:
            raise EmptyDataError("there is no document", hint="give at least one")
        pages = self._pages(listed, backend or SerialBackend())
        if learn:
            self._learn(pages)
        if not self.facts:
            times = [pair.time is not None for _, pairs in pages for pair in pairs]
            self.dated = 2 * sum(times) > len(times)
        found = Extraction(documents={one.id: one for one in listed})
        chosen = {} if model is None else self._chosen(model, pages)
        for document, pairs in pages:
            for pair in pairs:
                triple = self._triple(document, pair, chosen, found.passed_over)
                if triple is not None:
                    found.triples.append(triple)
        found.faults = model.faults if model is not None else []
        return found

    def _pages(self, documents: Sequence[Document], backend: Backend) -> list[_Page]:
        reader = NameReader((one.text for one in documents), self.names)
        read = partial(_read, reader, self.calendar)
        parts = (documents[n : n + _PART] for n in range(0, len(documents), _PART))
        return [page for pages in backend.map(read, parts) for page in pages]

    def _learn(self, pages: Sequence[_Page]) -> None:
        """Learn from pairs that are the ends of known facts, dated ones at their time."""
        known: dict[tuple[str, str], list[Fact]] = {}
        for fact in self.facts:
            known.setdefault((fact.subject, fact.object), []).append(fact)
        undated: dict[Fact, set[Evidence]] = {}
        for _, pairs in pages:
            for pair in pairs:
                for found in self._evidence(pair, known, undated):
                    self.patterns.add(*found)
        self.patterns.add_labels(self._labels)
        for found in list(shared_out(undated, self.patterns.counts)):
            self.patterns.add(*found)

    @staticmethod
    def _evidence(
        pair: NamePair,
        known: Mapping[tuple[str, str], Sequence[Fact]],
        undated: dict[Fact, set[Evidence]],
    ) -> Iterator[tuple[Stems, str, str, float]]:
        """What the words of a pair say of known facts; that of undated ones is collected."""
        words = " ".join(pair.words)
        a, b = pair.first.entity, pair.second.entity
        for ends, prefix in (((a, b), ""), ((b, a), INVERSE)):
            for fact in known.get(ends, ()):
                relation = prefix + fact.relation
                if fact.timestamp is None:
                    undated.setdefault(fact, set()).add((pair.stems, words, relation))
                elif pair.time is None:
                    yield pair.stems, words, relation, _UNDATED
                elif pair.time == fact.timestamp:
                    yield pair.stems, words, relation, 1.0

    def _chosen(self, model: ModelExtractor, pages: Sequence[_Page]) -> dict[Stems, list[Meaning]]:
        """What a model says that words without a pattern mean, by a few examples of each."""
        asked: list[tuple[Stems, RelationQuestion]] = []
        often: Counter[Stems] = Counter()
        for document, pairs in pages:
            for pair in pairs:
                if often[pair.stems] < _EXAMPLES and not self.patterns.meanings(pair.stems):
                    often[pair.stems] += 1
                    asked.append((pair.stems, self._question(document, pair)))
        shares: dict[Stems, Counter[str]] = {}
        replies = model.choose([one for _, one in asked])
        for (stems, _), reply in zip(asked, replies, strict=True):
            shares.setdefault(stems, Counter()).update(reply)
        return {
            stems: [
                Meaning(relation, _MODEL * share / often[stems], f"model: {' '.join(stems)}")
                for relation, share in counts.most_common()
            ]
            for stems, counts in shares.items()
        }

    def _question(self, document: Document, pair: NamePair) -> RelationQuestion:
        """What is asked of a pair: which relation of the two its sentence states."""
        phrases = Phrases(label=lambda name: self._labels.get(name, name))
        x, y = pair.first.entity, pair.second.entity
        choices = {}
        for relation in self._labels:
            words = self.patterns.wording(relation)
            choices[relation] = f"{x} {words} {y}" if words else phrases.say(relation, x, y)
        return RelationQuestion(document.id, document.text[slice(*pair.sentence)], x, y, choices)

    def _triple(
        self,
        document: Document,
        pair: NamePair,
        chosen: Mapping[Stems, Sequence[Meaning]],
        passed_over: Counter[str],
    ) -> Triple | None:
        """The likeliest triple of a pair; None, with its reason counted, where there is none."""
        words = " ".join(pair.words)
        meanings = self.patterns.meanings(pair.stems) or chosen.get(pair.stems, ())
        best = meanings[0] if meanings else None
        if best is None and (self.settings.open_relations or not self._labels):
            best = Meaning(words.casefold(), _OPEN, "subject, words, object")
        reason = ""
        if pair.first.entity == pair.second.entity:
            reason = "the two names are those of one"
        elif best is None:
            reason = "the words mean no known relation"
        elif self.dated and pair.time is None:
            reason = "no date is stated"
        elif best.confidence < self.settings.min_confidence:
            reason = f"the confidence is below {self.settings.min_confidence:g}"
        if best is None or reason:
            passed_over[reason] += 1
            return None
        ends = pair.first.entity, pair.second.entity
        relation = best.relation.removeprefix(INVERSE)
        subject, object_ = ends if relation == best.relation else ends[::-1]
        fact = Fact(subject, relation, object_, pair.time if self.dated else None)
        spans = document.id, pair.sentence, pair.span
        return Triple(fact, *spans, best.confidence, best.pattern)
