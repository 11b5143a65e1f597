"""From a question in one's own words to the queries that it may mean."""

from __future__ import annotations

import copy
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rulerag.errors import UnknownNameError
from rulerag.io import fingerprint_object
from rulerag.kg import Calendar, Phrases, query_text
from rulerag.linking.dates import AskedTime, asked_times
from rulerag.linking.direction import INVERSE, asks_for_subject, skeleton
from rulerag.linking.examples import FILE, LinkedExample, hops, read_examples
from rulerag.linking.judge import ReadingJudge
from rulerag.linking.mentions import Mention, MentionFinder, spellings, words_of
from rulerag.linking.relations import (
    LEAST_EVIDENCE,
    SOMETHING,
    LearnedRanker,
    RelationRanker,
    shared_words,
)
from rulerag.linking.roles import Roles
from rulerag.ruleqa import QuestionParser, RuleQADataset, known_names, stated_facts
from rulerag.rules import readable
from rulerag.types import Fact, Query

if TYPE_CHECKING:
    from rulerag.protocols import Encoder, Generator

# Chosen on validation questions (F_G): see benchmarks/linking.
_SHARPNESS_MENTION = 3.0
_MENTIONS = 6
# A mention this much less likely than the best is not looked at: each costs an encoder a text.
_LEAST_MENTION = 0.02
# The weight of a relation that the entity has no fact of, beside one that it has.
_UNSEEN = 0.25
# The probability that the subject is asked for where the entity stands after such a word.
_DOES, _AFTER_DOES = frozenset({"does", "did", "do", "has", "is"}), 0.3
# Below this much likelihood a reading is not named.
_LEAST = 0.001
# Words of a question about what will be.
_FUTURE = re.compile(
    r"\b(?:will|shall|going to|next|soon|likely|future|predict\w*)\b", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Reading:
    """One thing that a question may mean.

    Args:
        query: the query, in the words of the dataset; its relation starts with
            :data:`~rulerag.linking.direction.INVERSE` where the subject is asked for.
        probability: of this reading; those of one question sum to at most 1.
        mention: where the entity was found; None for a question in the dataset's own form.
    """

    query: Query
    probability: float
    mention: Mention | None = None

    @property
    def relation(self) -> str:
        """The raw relation, whichever end is asked for."""
        return self.query.relation.removeprefix(INVERSE)

    @property
    def asks_for_subject(self) -> bool:
        """Whether the subject of the relation is asked for, the known entity being its object."""
        return self.query.relation.startswith(INVERSE)


@dataclass(frozen=True, slots=True)
class LinkedQuestion:
    """What a question was taken to mean.

    Args:
        text: the question.
        readings: the most likely first; empty where nobody known is mentioned.
        exact: whether it is in the dataset's own form, which has one meaning.
        nearest: labels of entities that look most like its words, where nobody is mentioned.
        guessed: whether no word of it says a known relation, so that the readings' are guesses.
        ahead: whether it is about a time after all documents, or about what will be.
    """

    text: str
    readings: tuple[Reading, ...]
    exact: bool = False
    nearest: tuple[str, ...] = ()
    guessed: bool = False
    ahead: bool = False

    def relations(self) -> dict[str, float]:
        """The probability of each relation, most likely first; see :attr:`Query.relation`."""
        found: dict[str, float] = {}
        for reading in self.readings:
            relation = reading.query.relation
            found[relation] = found.get(relation, 0.0) + reading.probability
        return dict(sorted(found.items(), key=lambda one: (-one[1], one[0])))

    def query(self) -> Query:
        """The query of the most likely reading, which carries the relations of all of them.

        Raises:
            UnknownNameError: nobody known is mentioned; suggests the nearest names.
        """
        if not self.readings:
            hint = f"nearest: {', '.join(map(repr, self.nearest))}" if self.nearest else None
            raise UnknownNameError(f"no known name stands in {self.text!r}", hint=hint)
        best = self.readings[0].query
        return best if self.exact else replace(best, relations=tuple(self.relations().items()))

    def asked(self) -> Query:
        """The query as people ask it: what documents state comes before what rules suggest.

        The questions of a dataset may be predictions, which no document may answer; a question in
        one's own words is one only where it is about what comes after all documents.

        Raises:
            UnknownNameError: nobody known is mentioned; suggests the nearest names.
        """
        query = self.query()
        return query if self.exact or self.ahead else replace(query, prediction=False)

    def choices(self) -> list[Reading]:
        """The best reading of each entity of one spelling, where the best is ambiguous."""
        if self.exact or not self.readings:
            return []
        best = self.readings[0]
        found: dict[str, Reading] = {}
        for reading in self.readings:
            if reading.mention and best.mention and reading.mention.span == best.mention.span:
                found.setdefault(reading.query.subject, reading)
        return list(found.values()) if len(found) > 1 else []


class QuestionLinker:
    """Finds subject, relation, direction and time of questions.

    A question in the dataset's own form (``what does China Consult ?``) is exact. In any other,
    mentions of entities are found first; then the rest of the question is compared with every
    relation; then the order of the two says which end is asked for. The probabilities of the
    three are multiplied, and weighed by what the facts hold of the entity.

    Args:
        dataset: whose entities, relations, facts and calendar questions are about.
        phrases: more ways to say a relation, by raw name.
        examples: questions with their meaning, of paths of relations too; what they ask is then
            learned, and what has no example is known by its label.
        encoder: compares meanings of relations; letters alone when None.
        language_model: weighs what a question may mean, where there are no examples; see
            :class:`~rulerag.linking.judge.ReadingJudge`.
        max_readings: how many readings of a question are kept.

    Raises:
        ConfigError: the language model cannot score texts.
    """

    def __init__(
        self,
        dataset: RuleQADataset,
        *,
        phrases: Mapping[str, Sequence[str]] | None = None,
        examples: Sequence[LinkedExample] = (),
        encoder: Encoder | None = None,
        language_model: Generator | None = None,
        max_readings: int = 8,
    ) -> None:
        self.dataset = dataset
        self.encoder = encoder
        self.max_readings = max_readings
        self.phrases = phrases or {}
        self.examples = tuple(examples)
        self._labels, self._aliases = dataset.labels, dataset.aliases
        self._calendar = Calendar(**dataset.calendar) if dataset.calendar else None
        self._judge: ReadingJudge | None = None
        if language_model is not None:
            self._judge = ReadingJudge(language_model, self._phrases())

    def _phrases(self) -> Phrases:
        labels = self._labels["relations"]
        return Phrases(label=lambda name: labels.get(name, readable(name)))

    @classmethod
    def of_folder(
        cls,
        folder: str | Path | None,
        dataset: RuleQADataset,
        *,
        encoder: Encoder | None = None,
        language_model: Generator | None = None,
    ) -> QuestionLinker:
        """A linker with the examples of a dataset folder, where it has any.

        Args:
            folder: where :data:`~rulerag.linking.examples.FILE` may stand.
            dataset: what questions are about.
            encoder: as in the constructor, like the next one.
            language_model: see there.

        Raises:
            DataFormatError: an example is wrong; names file, line and key.
            ConfigError: the language model cannot score texts.
        """
        file = Path(folder) / FILE if folder is not None else None
        if file is None or not file.is_file():
            return cls(dataset, encoder=encoder, language_model=language_model)
        examples = read_examples(file, known_names(dataset)[1])
        return cls(dataset, encoder=encoder, language_model=language_model, examples=examples)

    # Made when first needed: a question in the dataset's own form needs neither.

    @cached_property
    def _parser(self) -> QuestionParser:
        return QuestionParser(self.dataset)

    @cached_property
    def _names(self) -> tuple[set[str], set[str]]:
        return known_names(self.dataset)

    @property
    def entities(self) -> set[str]:
        """The raw names that a question may mention."""
        return self._names[0]

    @cached_property
    def mentions(self) -> MentionFinder:
        """Finds the entities that are asked about."""
        entities, relations = self._names
        said = spellings(relations, self._labels["relations"]).values()
        return MentionFinder(
            spellings(entities, self._labels["entities"], self._aliases),
            [word for one in said for word in one],
        )

    @cached_property
    def relations(self) -> RelationRanker | LearnedRanker:
        """Ranks the relations that are asked for; by examples, each direction and path apart."""
        texts: dict[str, list[str]] = {}
        for name in sorted(self._names[1]):
            label = self._labels["relations"].get(name, readable(name))
            # Both directions as the dataset asks them: likeness of whole questions tells more.
            object_, subject = f"what does {SOMETHING} {label}?", f"what {label} {SOMETHING}?"
            if self.examples:
                texts[name], texts[INVERSE + name] = (
                    [object_, *self.phrases.get(name, ())],
                    [subject],
                )
            else:
                texts[name] = [label, object_, subject, *self.phrases.get(name, ())]
        for example in self.examples:
            texts.setdefault(example.relation, []).append(example.masked)
        return (LearnedRanker if self.examples else RelationRanker)(texts, self.encoder)

    def with_encoder(self, encoder: Encoder) -> QuestionLinker:
        """The same linker, comparing meanings as well."""
        other = copy.copy(self)
        other.encoder = encoder
        other.__dict__.pop("fingerprint", None)
        other.__dict__.pop("relations", None)
        return other

    def with_language_model(self, generator: Generator) -> QuestionLinker:
        """The same linker, whose readings a language model weighs.

        Raises:
            ConfigError: the model cannot score texts.
        """
        other = copy.copy(self)
        other._judge = ReadingJudge(generator, self._phrases())
        other.__dict__.pop("fingerprint", None)
        return other

    @cached_property
    def fingerprint(self) -> str:
        """Names the dataset, the encoder, and every setting that changes what is understood."""
        model = getattr(self.encoder, "fingerprint", None) if self.encoder is not None else None
        known = [self.dataset.fingerprint, self.relations.texts, model, self.max_readings]
        known += [self._judge.fingerprint] if self._judge is not None else []
        return fingerprint_object(["linker", *known])

    def link(self, questions: Sequence[str]) -> list[LinkedQuestion]:
        """What each question means, in order.

        Args:
            questions: in the dataset's own form or in one's own words.

        Raises:
            DataFormatError: a question that starts with "Time" states none of this dataset.
        """
        exact = [self._exact(text) for text in questions]
        opened = [(n, text) for n, text in enumerate(questions) if exact[n] is None]
        found = dict(zip((n for n, _ in opened), self._linked([t for _, t in opened]), strict=True))
        return [found[n] if one is None else one for n, one in enumerate(exact)]

    def _exact(self, text: str) -> LinkedQuestion | None:
        query = self._parser.parse(text)
        return None if query is None else LinkedQuestion(text, (Reading(query, 1.0),), exact=True)

    def _linked(self, texts: Sequence[str]) -> Iterator[LinkedQuestion]:
        found = [self._mentioned(text) for text in texts]
        masked = [
            _without(text, [mention.span, *_spans(times)])
            for text, (mentions, times) in zip(texts, found, strict=True)
            for mention, _ in mentions
        ]
        # Entities of one name leave the same text: it is compared, and encoded, once.
        distinct = {text: n for n, text in enumerate(dict.fromkeys(masked))}
        scores = self.relations.scores(list(distinct))
        rows = (scores[distinct[text]] for text in masked)
        for text, (mentions, times) in zip(texts, found, strict=True):
            readings: list[Reading] = []
            likely = np.array([next(rows) for _ in mentions])
            # One scale for all mentions: a name that takes words of the relation leaves less of it.
            for (mention, share), row in zip(
                mentions, likely - likely.max(initial=-1e9), strict=True
            ):
                readings += self._readings(text, mention, share, np.exp(row).tolist(), times)
            yield self._whole(text, readings, times)

    def _whole(
        self, text: str, readings: list[Reading], times: Sequence[AskedTime]
    ) -> LinkedQuestion:
        if not readings:
            labels = self._labels["entities"]
            near = [labels.get(name, name) for name in self.mentions.nearest(text)]
            return LinkedQuestion(text, (), nearest=tuple(near))
        total = sum(one.probability for one in readings)
        shares = [replace(one, probability=one.probability / total) for one in readings]
        shares.sort(key=lambda one: (-one.probability, one.query.subject, one.query.relation))
        kept = [one for one in shares[: self.max_readings] if one.probability >= _LEAST]
        best = kept[0].mention
        rest = _without(text, [*([best.span] if best else []), *_spans(times)])
        guessed = bool(self.relations.evidence([rest])[0] < LEAST_EVIDENCE)
        found = LinkedQuestion(
            text, tuple(kept), guessed=guessed, ahead=self._is_ahead(text, times)
        )
        return found if self._judge is None or self.examples else self._judge.weigh(found)

    def _is_ahead(self, text: str, times: Sequence[AskedTime]) -> bool:
        """Whether a question is about what comes after all documents."""
        if self._calendar is None or self._parser.now is None:
            return False
        if times:
            return times[0].first >= self._parser.now
        return _FUTURE.search(text) is not None

    def _mentioned(self, text: str) -> tuple[list[tuple[Mention, float]], list[AskedTime]]:
        """The best mentions with their probabilities, and the times that the question states."""
        mentions = self.mentions.find(text)[:_MENTIONS]
        times = asked_times(text, self._calendar) if self._calendar else []
        if not mentions:
            return [], times
        best = mentions[0].score
        weights = [
            math.exp(_SHARPNESS_MENTION * (one.score - best))
            * math.log(math.e + self._facts_of[one.entity])
            for one in mentions
        ]
        total = sum(weights)
        shares = [
            (one, weight / total)
            for one, weight in zip(mentions, weights, strict=True)
            if weight >= _LEAST_MENTION * max(weights)
        ]
        low, high = mentions[0].span
        return shares, [one for one in times if one.span[1] <= low or one.span[0] >= high]

    def _readings(
        self,
        text: str,
        mention: Mention,
        share: float,
        relations: Iterable[float],
        times: Sequence[AskedTime],
    ) -> Iterator[Reading]:
        blanked = _without(text, _spans(times))
        timestamp = now = self._parser.now
        if times:  # what is not over yet is asked about as far as it is known
            first, last, _ = times[0]
            timestamp = last if now is None or first >= now else min(last, now)
        fits, rest = self._roles.fits(mention.entity)
        weighed = []
        for likely, relation in zip(relations, self.relations.names, strict=True):
            for asked in (relation,) if self.examples else (relation, INVERSE + relation):
                fit = fits.get(hops(asked)[0], rest)
                weight = 1.0 if fit == 1 else _UNSEEN * max(fit, rest)
                weighed.append((share * likely * weight, asked))
        weighed.sort(key=lambda one: (-one[0], one[1]))
        either = {asked: weight for weight, asked in weighed}
        for weight, asked in weighed[: 2 * self.max_readings]:
            if not self.examples:
                inverse, stated = self._inverse(blanked, mention, asked.removeprefix(INVERSE))
                order = inverse if asked.startswith(INVERSE) else 1 - inverse
                if not stated:
                    # The order of other words says which end is meant, never which relation.
                    other = asked[1:] if asked.startswith(INVERSE) else INVERSE + asked
                    total = order * weight + (1 - order) * either[other]
                    order *= max(weight, either[other]) / total if total else 0.0
                weight *= order
            yield Reading(self._query(text, mention.entity, asked, timestamp), weight, mention)

    def _inverse(self, text: str, mention: Mention, relation: str) -> tuple[float, bool]:
        """The probability that the subject of a relation is asked for, and whether it is named."""
        label = self._labels["relations"].get(relation, readable(relation))
        # "hired by" is a relation in the passive: its subject is the object of hiring.
        passive = words_of(label)[-1:] == ["by"]
        said = _without(text, [mention.span])
        spans, stated = shared_words(said, label, but=("by",) if passive else ())
        parts = skeleton(text, mention.span, spans)
        if parts is None:
            # No word says what is asked: after "does" or "did" stands a subject.
            before = text[: mention.span[0]].casefold().split()
            return (_AFTER_DOES if before and before[-1] in _DOES else 0.5), False
        before_both, between, after, first = parts
        subject = asks_for_subject(before_both, between, after, mention_first=first)
        return (1 - subject if passive else subject), stated

    def _query(self, text: str, entity: str, relation: str, timestamp: int | None) -> Query:
        """A query in the words of the dataset's own queries."""
        inverse = relation.startswith(INVERSE)
        subject = self._labels["entities"].get(entity, entity)
        labels = self._labels["relations"]
        said = [labels.get(hop, hop) for hop in (h.removeprefix(INVERSE) for h in hops(relation))]
        words = " ".join(said)
        time = ""
        if self._calendar and timestamp is not None:
            time = self._calendar.format(timestamp)
        asked = f"what {words} {subject} ?" if inverse else query_text(subject, words)
        asked = text if len(said) > 1 else asked
        return Query(
            "question",
            f"Time {time} {asked}" if time else asked,
            entity,
            relation,
            timestamp,
            subject_label=subject,
            relation_label=words,
            prediction=self.dataset.prediction,
        )

    def _facts(self) -> Iterator[Fact]:
        return stated_facts(self.dataset.corpus)

    @cached_property
    def _facts_of(self) -> Counter[str]:
        """How many facts each entity has."""
        return Counter(end for fact in self._facts() for end in (fact.subject, fact.object))

    @cached_property
    def _roles(self) -> Roles:
        return Roles(self._facts())


def _spans(times: Sequence[AskedTime]) -> list[tuple[int, int]]:
    return [one.span for one in times]


def _without(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """A text with the parts at some places blanked out; its length stays."""
    for start, end in spans:
        text = f"{text[:start]}\0{' ' * (end - start - 1)}{text[end:]}"
    return text
