"""Finds triples in documents: by patterns learned from a few known facts, and general ones.

1. *Names and dates* of every document (:mod:`~rulerag.extraction.names`).
2. *Clauses* of every sentence (:mod:`~rulerag.extraction.clauses`).
3. *Learning*: what the clauses that join the ends of known facts say
   (:mod:`~rulerag.extraction.patterns`).
4. *Reading*: each clause becomes a triple of the relation that its words mean. Which entities can
   be subject and object of a relation is known from the facts so far; it tells apart what words
   leave open, and whom a pronoun stands for. A second reading knows more entities than the first.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rulerag.errors import ConfigError, EmptyDataError
from rulerag.extraction.clauses import Clause, clauses_of, trigger
from rulerag.extraction.company import Company, Said, understand
from rulerag.extraction.language_model import Asked, ModelExtractor
from rulerag.extraction.names import NameReader
from rulerag.extraction.patterns import INVERSE, Heard, Meaning, PatternBook, Words, shared_out
from rulerag.extraction.records import Extraction, Span, Triple
from rulerag.extraction.slots import EntityKinds
from rulerag.kg import Calendar, Phrases
from rulerag.linking import stated_times
from rulerag.protocols import Encoder
from rulerag.text import sentence_spans
from rulerag.types import Document, Fact

_DAYS = Calendar("day", "1970-01-01")
_PRONOUN, _ELIDED, _DAY_BEFORE = 0.85, 0.95, 0.95
# What a clause without a date counts as a sign of what a dated fact says.
_UNDATED = 0.2
# The confidence from which a triple says what kinds its ends are of.
_SURE = 0.5
# What speaks for no meaning where words are compared by what they mean, and what a reading counts
# there that turns subject and object around, because only so they are of the relation's kinds.
# With an encoder likeness is the sum of two.
_NONE, _NONE_WITH_ENCODER, _TURNED = 0.1, 0.4, 0.3
# How much company may speak against and for such a meaning, as a logarithm.
_AGAINST, _FOR = -4.0, 1.0
# What a meaning by company counts.
_COMPANY = 0.8
# Clauses with two names; those with pronouns as well; and once more, with words that were new.
_READINGS = ("names", "pronouns", "company")
# What a model's choice counts, and how many examples of the same words it sees.
_MODEL, _ASKED = 0.8, 3
# How many sentences back a pronoun may point.
_BACK = 3


@dataclass(frozen=True)
class ExtractionSettings:
    """What is taken for a triple.

    Args:
        min_confidence: the least confidence of a triple, a fraction.
        open_relations: whether clauses whose words mean no known relation become triples of a
            relation called by these words; always so where no relation is known.

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


@dataclass(frozen=True)
class _Page:
    """A document and its clauses, with all names of each sentence before it."""

    document: Document
    clauses: tuple[Clause, ...]
    names: Mapping[Span, tuple[str, ...]]


class TripleExtractor:
    """Finds triples in documents.

    Args:
        facts: known facts, the seeds: what learned patterns mean; none for open relations alone.
        names: the spellings of known entities, by raw name; others are found by their capitals.
        calendar: of the facts' times; days from 1970 on where there are no facts.
        patterns: those of an earlier corpus, added to.
        labels: words of relations, where they differ from their names; they are patterns too.
        encoder: compares words with patterns by meaning, where no word is shared.
        settings: what is taken for a triple.

    Attributes:
        dated: whether triples have times: as the known facts, or else as most clauses.
    """

    def __init__(
        self,
        facts: Sequence[Fact] = (),
        *,
        names: Mapping[str, Sequence[str]] | None = None,
        calendar: Calendar | None = None,
        patterns: PatternBook | None = None,
        labels: Mapping[str, str] | None = None,
        encoder: Encoder | None = None,
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
        book = patterns or PatternBook()
        words, self.frames = book.parted()
        self.patterns = words if encoder is None else words.with_encoder(encoder)
        self._encoded = encoder is not None
        relations = dict.fromkeys([*(fact.relation for fact in facts), *book.relations])
        self._chosen: dict[tuple[str, ...], list[Meaning]] = {}
        self._odds: dict[Words, dict[tuple[str, bool], float]] = {}
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
        self._learn(self._pages(list(documents)))
        return self.book

    @property
    def book(self) -> PatternBook:
        """All patterns, frames too: what is written down and used again."""
        return self.patterns.joined(self.frames)

    def _learn(self, pages: Sequence[_Page]) -> None:
        """Learn from clauses that join the ends of known facts, dated ones at their time."""
        known: dict[tuple[str, str], list[Fact]] = {}
        for fact in self.facts:
            known.setdefault((fact.subject, fact.object), []).append(fact)
        undated: dict[Fact, set[Heard]] = {}
        framed: dict[Fact, set[Heard]] = {}
        for page in pages:
            self.patterns.learn(self._meant(page, known, undated, framed=False))
            self.frames.learn(self._meant(page, known, framed, framed=True))
        self.patterns.add_labels(self._labels, self._labels)
        self.patterns.learn(list(shared_out(undated, self.patterns.counts)))
        self.frames.learn(list(shared_out(framed, self.frames.counts)))

    def _meant(
        self,
        page: _Page,
        known: Mapping[tuple[str, str], Sequence[Fact]],
        undated: dict[Fact, set[Heard]],
        *,
        framed: bool,
    ) -> Iterator[tuple[Words, str, str, float]]:
        """What clauses that join the ends of known facts say: their words, or their frames."""
        last: int | None = None
        who: str | None = None
        for clause in page.clauses:
            time = last if clause.same_day else clause.time
            last = time if time is not None else last
            # A pronoun may be the subject before it: whether it is, the known fact says.
            who = who if clause.subject is None else clause.subject.entity
            read = _by_frame(clause) if framed else clause
            if who is None or read is None or not read.words:
                continue
            a = read.subject.entity if framed and read.subject else who
            b = read.object.entity
            for pair, prefix in (((a, b), ""), ((b, a), INVERSE)):
                for fact in known.get(pair, ()):
                    relation = prefix + fact.relation
                    if fact.timestamp is None:
                        undated.setdefault(fact, set()).add((read.words, read.said, relation))
                    elif fact.timestamp == time:
                        yield read.words, read.said, relation, 1.0
                    elif time is None:
                        yield read.words, read.said, relation, _UNDATED

    def extract(
        self,
        documents: Iterable[Document],
        *,
        learn: bool = True,
        model: ModelExtractor | None = None,
    ) -> Extraction:
        """The triples of documents.

        Args:
            documents: their ids are unique.
            learn: whether to learn from these documents first.
            model: says what words mean that are like none that are known.

        Raises:
            EmptyDataError: there is no document.
        """
        listed = list(documents)
        if not listed:
            raise EmptyDataError("there is no document", hint="give at least one")
        pages = self._pages(listed)
        if learn:
            self._learn(pages)
        if not self.facts:
            times = [c.time is not None or c.same_day for p in pages for c in p.clauses if c.words]
            self.dated = 2 * sum(times) > len(times)
        said = list(_as_said(pages))
        kinds = EntityKinds([*self.facts, *said])
        self._chosen, self._odds = {}, {}
        company, heard = Company(), list[Said]()
        for reading in _READINGS:
            if reading == "company":
                if learn:
                    company = self._understand(heard, kinds)
                if model is not None:
                    self._ask(model, pages, kinds)
                if not (self._chosen or self._odds):
                    break
            found = Extraction(documents={one.id: one for one in listed})
            heard = []
            for page in pages:
                heard += self._read(page, kinds, found, pronouns=reading != "names")
            # What is read by likeness alone may be wrong, and would vouch for itself.
            sure = (one.fact for one in heard if one.fact.relation)
            kinds = EntityKinds([*self.facts, *said, *sure])
        found.company = company
        found.faults = model.faults if model is not None else []
        return found

    def _understand(self, said: Sequence[Said], kinds: EntityKinds) -> Company:
        """What words like no pattern mean, by the company that they keep."""
        stated = {one.fact for one in said}
        company = understand(
            [*said, *(Said((), fact) for fact in self.facts if fact not in stated)], kinds
        )
        for words, guess in company.guesses.items():
            sure = _COMPANY * (1 - math.exp(-guess.margin))
            name = INVERSE * guess.turned + guess.relation
            self._chosen[words] = [Meaning(name, sure, f"company: {' '.join(words)}")]
        self._odds = company.odds
        return company

    def _is_new(self, clause: Clause) -> bool:
        """Whether a clause has words most of which no pattern has."""
        return bool(clause.words) and not self.patterns.meanings(clause.words, clause.said)

    def _ask(self, model: ModelExtractor, pages: Sequence[_Page], kinds: EntityKinds) -> None:
        """Ask a model what the words mean that are like no pattern, by a few examples of each."""
        asked: list[tuple[tuple[str, ...], Asked]] = []
        often: Counter[tuple[str, ...]] = Counter()
        for page in pages:
            for clause in map(self._known, page.clauses):
                new = clause.subject is not None and often[clause.words] < _ASKED
                if new and clause.words not in self._chosen and self._is_new(clause):
                    often[clause.words] += 1
                    asked.append((clause.words, self._asked(page.document, clause, kinds)))
        shares: dict[tuple[str, ...], Counter[str]] = {}
        chosen = model.choose([one for _, one in asked])
        for (words, _), found in zip(asked, chosen, strict=True):
            shares.setdefault(words, Counter()).update(found)
        for words, counts in shares.items():
            self._chosen[words] = [
                Meaning(relation, _MODEL * share / often[words], f"model: {' '.join(words)}")
                for relation, share in counts.most_common()
            ]

    def _asked(self, document: Document, clause: Clause, kinds: EntityKinds) -> Asked:
        """What is asked of a clause: which relation of such ends its sentence states."""
        phrases = Phrases(label=lambda name: self._labels.get(name, name))
        x, y = clause.subject.entity if clause.subject else "", clause.object.entity
        choices = {}
        for relation in self._labels:
            # General patterns have found subject and object; the words name the subject first.
            if kinds.fits(x, relation, "subject") * kinds.fits(y, relation, "object"):
                words = self.patterns.wording(relation)
                choices[relation] = f"{x} {words} {y}" if words else phrases.say(relation, x, y)
        return Asked(document.id, document.text[slice(*clause.sentence)], x, y, choices)

    def _pages(self, documents: Sequence[Document]) -> list[_Page]:
        reader = NameReader((one.text for one in documents), self.names)
        return [self._page(reader, one) for one in documents]

    def _page(self, reader: NameReader, document: Document) -> _Page:
        text = document.text
        # A question's date may begin with a comma or a blank; that of a sentence begins with it.
        dates = [
            (t, (b - len(text[a:b].lstrip(" ,(\n")), b))
            for t, (a, b) in stated_times(text, self.calendar)
        ]
        names = reader.read(text, [span for _, span in dates])
        sentences = sentence_spans(text)
        clauses = [c for one in sentences for c in clauses_of(text, one, names, dates)]
        within = {
            (a, b): tuple(one.entity for one in names if a <= one.start < b) for a, b in sentences
        }
        return _Page(document, tuple(clauses), within)

    def _read(
        self, page: _Page, kinds: EntityKinds, found: Extraction, *, pronouns: bool
    ) -> Iterator[Said]:
        """Add what a page says to what was found; what its known and unknown words join."""
        last: int | None = None
        agents: list[str] = []
        for clause in page.clauses:
            time = last if clause.same_day else clause.time
            last = time if time is not None else last
            if clause.subject is None and not pronouns:
                continue
            clause = self._known(clause)
            triple = self._triple(page, clause, time, kinds, agents, found.passed_over)
            who = None if clause.subject is None else clause.subject.entity
            new = self._is_new(clause)
            if triple is not None:
                found.triples.append(triple)
                who = triple.fact.subject
                if triple.confidence >= _SURE and not new:
                    yield Said(clause.words, triple.fact)
            if new and (time is not None or not self.dated):
                # Whoever else these words are said of is of the kind that a pronoun stands for.
                slot = _said_as(clause.words), "subject"
                who = self._subject(page, clause, kinds, agents, slot)
                if who is not None and who != clause.object.entity:
                    stated = time if self.dated else None
                    yield Said(clause.words, Fact(who, "", clause.object.entity, stated))
            if who is not None:
                agents.append(who)

    def _known(self, clause: Clause) -> Clause:
        """A clause by general patterns, or else one whose known words stand beside its object.

        "The one who joined Acme was Ann", "Acme, which Ann joined, grew": the words stand right
        before their object, or right behind their subject.
        """
        if clause.words and self.patterns.knows(clause.words):
            return clause
        first, second = clause.names
        before, between, behind = clause.around
        for words, at_end, agent, patient in (
            (between, True, first, second),
            (before, True, second, first),
            (behind, False, second, first),
        ):
            key = self.patterns.inside(words, at_end=at_end)
            if key is None or patient is None or (words is before and "be" not in between):
                continue
            said = clause.subject_words if agent is clause.subject else ""
            named = agent is None or agent is not clause.subject
            text = said or ("" if not named or agent is None else agent.entity)
            return clause._replace(
                subject=agent, object=patient, words=key, said=" ".join(key), subject_words=text
            )
        return clause

    def _triple(
        self,
        page: _Page,
        clause: Clause,
        time: int | None,
        kinds: EntityKinds,
        agents: Sequence[str],
        passed_over: Counter[str],
    ) -> Triple | None:
        """The likeliest triple of a clause; None, with its reason counted, where there is none."""
        sure = _ELIDED if clause.subject is not None and not clause.subject_words else 1.0
        sure *= _DAY_BEFORE if clause.same_day else 1.0
        framed = _by_frame(clause)
        told: list[Meaning] = []
        if framed is not None and self.frames.knows(framed.words):
            told = self.frames.meanings(framed.words, framed.said)
        if not (clause.words or told):
            return None
        meanings = self.patterns.meanings(clause.words, clause.said) if clause.words else []
        meanings = meanings or self._chosen.get(clause.words, [])
        readings = [(clause, one) for one in meanings] + [(framed or clause, one) for one in told]
        best: tuple[float, Fact, str] | None = None
        for read, meaning in readings:
            fact, fits = self._read_as(page, read, time, kinds, agents, meaning)
            score = meaning.confidence * fits * (sure if read.subject else sure * _PRONOUN)
            if fact is not None and score and (best is None or score > best[0]):
                best = score, fact, meaning.pattern
        if not readings:
            best = self._alike(page, clause, time, kinds, agents, sure)
        if best is None and not readings and (self.settings.open_relations or not self._labels):
            who = self._subject(page, clause, kinds, agents, None)
            if who is not None and who != clause.object.entity:
                fact = Fact(who, clause.said.casefold(), clause.object.entity, time)
                best = 0.5 * sure, fact, "subject, verb, object"
        if best is None:
            passed_over["the words mean no known relation of such entities"] += 1
            return None
        if self.dated and time is None:
            passed_over["no date is stated"] += 1
            return None
        if best[0] < self.settings.min_confidence:
            passed_over[f"the confidence is below {self.settings.min_confidence:g}"] += 1
            return None
        fact = best[1] if self.dated else best[1]._replace(timestamp=None)
        spans = page.document.id, clause.sentence, clause.span
        return Triple(fact, *spans, best[0], best[2], clause.subject_words)

    def _alike(
        self,
        page: _Page,
        clause: Clause,
        time: int | None,
        kinds: EntityKinds,
        agents: Sequence[str],
        sure: float,
    ) -> tuple[float, Fact, str] | None:
        """What words mean that no pattern has, by how alike they are to those of each relation.

        Sure is what is much more alike than the next best relation of such entities.
        """
        scored: dict[str, tuple[float, Fact, str]] = {}
        most_fits = 0.0
        odds = self._odds.get(clause.words)
        for meaning in self.patterns.alike(clause.said):
            for turned in (False, True):
                one = meaning._replace(relation=_turned(meaning.relation)) if turned else meaning
                fact, fits = self._read_as(page, clause, time, kinds, agents, one)
                score = meaning.confidence * fits * (_TURNED if turned else 1.0)
                if odds is not None:
                    inverse = one.relation.startswith(INVERSE)
                    known = odds.get((one.relation.removeprefix(INVERSE), inverse), _AGAINST)
                    score *= math.exp(min(max(known, _AGAINST), 0.0 if inverse else _FOR))
                most_fits = max(most_fits, fits)
                name = meaning.relation.removeprefix(INVERSE)
                if fact is not None and score > scored.get(name, (0.0,))[0]:
                    scored[name] = score, fact, one.pattern
        if not scored:
            return None
        (most, fact, pattern), *rest = sorted(scored.values(), key=lambda one: -one[0])
        second = rest[0][0] if rest else 0.0
        none = _NONE_WITH_ENCODER if self._encoded else _NONE
        share = most / (most + second + none * most_fits)
        share *= sure if clause.subject else sure * _PRONOUN
        return (share, fact, pattern) if share >= self.settings.min_confidence else None

    def _read_as(
        self,
        page: _Page,
        clause: Clause,
        time: int | None,
        kinds: EntityKinds,
        agents: Sequence[str],
        meaning: Meaning,
    ) -> tuple[Fact | None, float]:
        """The fact that a clause states if its words mean this, and how well its ends fit."""
        relation = meaning.relation.removeprefix(INVERSE)
        inverse = meaning.relation != relation
        place = "object" if inverse else "subject"
        who, other = self._subject(page, clause, kinds, agents, (relation, place)), clause.object
        if who is None or who == other.entity:
            return None, 0.0
        subject, object_ = (other.entity, who) if inverse else (who, other.entity)
        fits = kinds.fits(subject, relation, "subject") * kinds.fits(object_, relation, "object")
        return Fact(subject, relation, object_, time), fits

    def _subject(
        self,
        page: _Page,
        clause: Clause,
        kinds: EntityKinds,
        agents: Sequence[str],
        slot: tuple[str, str] | None,
    ) -> str | None:
        """Who the subject of a clause is; a pronoun stands for the last one who fits."""
        if clause.subject is not None:
            return clause.subject.entity
        sentences = [span for span in page.names if span[0] < clause.sentence[0]][-_BACK:]
        behind = (name for span in reversed(sentences) for name in page.names[span])
        before = list(dict.fromkeys((*reversed(agents), *behind)))
        if slot is None:
            return before[0] if before else None
        fits = [(kinds.fits(name, *slot), -n, name) for n, name in enumerate(before)]
        best = max(fits, default=(0.0, 0, ""))
        return best[2] if best[0] else None


def _by_frame(clause: Clause) -> Clause | None:
    """A clause whose words are all that stand around its two names.

    None where general patterns have words that join them: these say it better.
    """
    first, second = clause.names
    if clause.words or not clause.frame or first is None or second is None:
        return None
    words = trigger(clause.frame.split())
    text = clause.subject_words if clause.subject is first else first.entity
    return clause._replace(
        subject=first, object=second, words=words, said=clause.frame, subject_words=text
    )


def _as_said(pages: Iterable[_Page]) -> Iterator[Fact]:
    """Every clause as a fact of a relation called by its words: who stands where.

    Two that the same words are said of are of one kind, known or not.
    """
    for page in pages:
        for clause in page.clauses:
            if clause.subject is not None and clause.words:
                yield Fact(clause.subject.entity, _said_as(clause.words), clause.object.entity)


def _turned(relation: str) -> str:
    """The meaning of words that name the two the other way round."""
    plain = relation.removeprefix(INVERSE)
    return plain if plain != relation else INVERSE + relation


def _said_as(words: tuple[str, ...]) -> str:
    """The relation that words are, whatever they mean."""
    return "said: " + " ".join(words)
