"""From a question in one's own words to the queries that it may mean."""

from __future__ import annotations

import copy
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rulerag.errors import UnknownNameError
from rulerag.io import fingerprint_object
from rulerag.kg import Calendar, Phrases, query_text, stated_facts
from rulerag.linking.dates import AskedTime, asked_times
from rulerag.linking.direction import INVERSE, subject_asked
from rulerag.linking.examples import FILE, LinkedExample, hops, read_examples
from rulerag.linking.judge import ReadingJudge
from rulerag.linking.mentions import Mention, MentionFinder, spellings
from rulerag.linking.relations import (
    LEAST_EVIDENCE,
    SOMETHING,
    Doubles,
    LearnedRanker,
    RelationRanker,
    weights_of,
)
from rulerag.linking.roles import Kinds, Roles, asked_for
from rulerag.ruleqa import QuestionParser, RuleQADataset, known_names
from rulerag.rules import readable
from rulerag.types import Fact, Query

if TYPE_CHECKING:
    from rulerag.protocols import Encoder, Generator

# Chosen on validation questions (F_G): see benchmarks/linking.
_SHARPNESS_MENTION = 3.0
_MENTIONS = 6
# A mention this much less likely than the best is not looked at: each costs an encoder a text.
_LEAST_MENTION = 0.02
# The weight of a relation that the entity has no fact of, beside one that it has; by examples.
_UNSEEN = 0.25
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
        others = [text for text, one in zip(questions, exact, strict=True) if one is None]
        linked = self._linked(others)
        return [next(linked) if one is None else one for one in exact]

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
        rows: Doubles
        if isinstance(self.relations, LearnedRanker):
            rows = self.relations.scores(list(distinct))
        else:
            rows = self.relations.signs(list(distinct))
        said = (rows[distinct[text]] for text in masked)
        for text, (mentions, times) in zip(texts, found, strict=True):
            timestamp = self._moment(times)
            blanked = _without(text, _spans(times))
            scored: list[tuple[float, str, Mention]] = []
            for mention, share in mentions:
                fitting = self._fitting(blanked, mention, next(said))
                # One scale for all mentions: a name that takes words of the relation leaves less.
                scored += [(math.log(share) + one, asked, mention) for asked, one in fitting]
            best = max((one for one, *_ in scored), default=0.0)
            readings = [
                Reading(self._query(text, who.entity, asked, timestamp), math.exp(one - best), who)
                for one, asked, who in scored
            ]
            yield self._whole(text, readings, times)

    def signs(self, question: str) -> tuple[str, list[str], Doubles]:
        """What speaks for each thing that a question may ask of the entity that it mentions first.

        Args:
            question: in one's own words.

        Returns:
            The entity, empty where none is mentioned; the relations that fit best, those from
            their objects behind :data:`~rulerag.linking.direction.INVERSE`; and the signs, in the
            order of :func:`~rulerag.linking.relations.weights_of`: shape (relations, signs).
        """
        weights = weights_of(self.encoder)
        mentions, times = self._mentioned(question)
        if not mentions or not isinstance(self.relations, RelationRanker):
            return "", [], np.zeros((0, len(weights)))
        mention, _ = mentions[0]
        masked = _without(question, [mention.span, *_spans(times)])
        said = self.relations.signs([masked])[0]
        asked, signs = self._signs(_without(question, _spans(times)), mention, said)
        return mention.entity, asked, signs

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
            text, tuple(kept), guessed=guessed, ahead=self._is_ahead(rest, times)
        )
        return found if self._judge is None or self.examples else self._judge.weigh(found)

    def _moment(self, times: Sequence[AskedTime]) -> int | None:
        """The time of a query: what is not over yet is asked about as far as it is known."""
        now = self._parser.now
        if not times:
            return now
        first, last, _ = times[0]
        return last if now is None or first >= now else min(last, now)

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

    def _fitting(self, text: str, mention: Mention, said: Doubles) -> list[tuple[str, float]]:
        """The best things that may be asked of an entity, as log-likelihoods.

        Args:
            text: the question, without its times.
            mention: who is asked about.
            said: what the words say of each relation: by examples log-probabilities, else signs.
        """
        if not self.examples:
            weights = weights_of(self.encoder)
            asked, signs = self._signs(text, mention, said)
            return list(zip(asked, (signs @ list(weights.values())).tolist(), strict=True))
        fits, rest = self._roles.fits(mention.entity)
        weighed = []
        for name, likely in zip(self.relations.names, said.tolist(), strict=True):
            fit = fits.get(hops(name)[0], rest)
            role = 0.0 if fit == 1 else math.log(_UNSEEN * max(fit, rest))
            weighed.append((name, likely + role))
        weighed.sort(key=lambda one: (-one[1], one[0]))
        return weighed[: 2 * self.max_readings]

    def _signs(self, text: str, mention: Mention, said: Doubles) -> tuple[list[str], Doubles]:
        """The signs of the relations that fit best, from either end; see :meth:`signs`."""
        asked = [one for name in self.relations.names for one in (name, INVERSE + name)]
        signs = np.hstack([np.repeat(said, 2, axis=0), self._of_graph(text, mention, asked)])
        weights = weights_of(self.encoder)
        likely = signs @ [weights[name] for name in weights if name != "order"]
        best = np.argsort(-likely, kind="stable")[: 2 * self.max_readings]
        # Both ends of each relation: which is meant, the order of words decides.
        kept = [2 * pair + end for pair in dict.fromkeys((best // 2).tolist()) for end in (0, 1)]
        order = np.zeros(len(kept))
        for n in range(0, len(kept), 2):
            pair = likely[kept[n : n + 2]]
            order[n : n + 2] = self._of_order(text, mention, asked[kept[n]], pair, weights["order"])
        return [asked[one] for one in kept], np.column_stack([signs[kept], order])

    def _of_graph(self, text: str, mention: Mention, asked: Sequence[str]) -> Doubles:
        """The signs that the graph gives, for relations from either end: shape (asked, 4).

        How usual it is to know such a thing of such an entity; how many facts the relation has;
        whether what stands at its other end is of the kind that is asked for, and is somebody.
        """
        kind = asked_for(_without(text, [mention.span]))
        fits, rest = self._roles.fits(mention.entity)
        rows = []
        for one in asked:
            relation = one.removeprefix(INVERSE)
            other = relation if one.startswith(INVERSE) else INVERSE + relation
            role = math.log(min(max(fits.get(one, rest), rest), 1.0))
            people = self._kinds.people(other) if kind.who else 0.0
            count = math.log(1 + self._facts_with[relation])
            rows.append((role, count, self._kinds.alike(kind.noun, other), people))
        return np.array(rows, dtype=np.float64).reshape(len(asked), 4)

    def _of_order(
        self, text: str, mention: Mention, relation: str, likely: Doubles, weight: float
    ) -> tuple[float, float]:
        """What the order of words says for asking for the object and the subject of a relation."""
        label = self._labels["relations"].get(relation, readable(relation))
        subject, stated = subject_asked(text, mention.span, label)
        object_, subject = math.log(1 - subject), math.log(subject)
        if stated:
            return object_ - subject, subject - object_
        # The order of other words says which end is meant, never which relation.
        first = likely[0] + weight * object_ >= likely[1] + weight * subject
        return (0.0, subject - object_) if first else (object_ - subject, 0.0)

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
        return (fact for _, fact in stated_facts(self.dataset.corpus))

    @cached_property
    def _facts_of(self) -> Counter[str]:
        """How many facts each entity has."""
        return Counter(end for fact in self._facts() for end in (fact.subject, fact.object))

    @cached_property
    def _facts_with(self) -> Counter[str]:
        """How many facts each relation has, repeated ones once."""
        return Counter(relation for _, relation, _ in {fact[:3] for fact in self._facts()})

    @cached_property
    def _roles(self) -> Roles:
        return Roles(self._facts())

    @cached_property
    def _kinds(self) -> Kinds:
        labels = self._labels["relations"]
        said = {name: labels.get(name, readable(name)) for name in self._names[1]}
        return Kinds(self._roles, said, self._labels["entities"])


def _spans(times: Sequence[AskedTime]) -> list[tuple[int, int]]:
    return [one.span for one in times]


def _without(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """A text with the parts at some places blanked out; its length stays."""
    for start, end in spans:
        text = f"{text[:start]}\0{' ' * (end - start - 1)}{text[end:]}"
    return text
