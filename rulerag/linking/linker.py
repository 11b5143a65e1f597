"""From a question in one's own words to a conjunctive query, or to the reason why there is none."""

from __future__ import annotations

import copy
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import combinations, islice, product
from pathlib import Path
from typing import TYPE_CHECKING

from rulerag.io import fingerprint_object
from rulerag.kg import Calendar, ConjunctiveQuery, Form, Phrases, query_text, stated_facts
from rulerag.kg.grounding import FactIndex, execute
from rulerag.linking.accounts import Accounts
from rulerag.linking.derivations import DerivationSearch, unaccounted
from rulerag.linking.examples import FILE, LinkedExample, read_examples
from rulerag.linking.forms import AskedForm, asked_form
from rulerag.linking.question import LinkedQuestion, QuestionWords, Reading
from rulerag.linking.relations import SOMETHING, RelationRanker
from rulerag.linking.roles import Kinds, Roles
from rulerag.linking.steps import Derivation, StepScorer, Term
from rulerag.linking.words import (
    INTERROGATIVES,
    INVERSE,
    SHARING,
    AskedPeriod,
    MentionFinder,
    NamedPlace,
    asked_period,
    parted,
    spellings,
    words_of,
    written_out,
)
from rulerag.linking.writer import QueryWriter
from rulerag.ruleqa import QuestionParser, RuleQADataset, known_names
from rulerag.rules import readable
from rulerag.types import Fact, Query

if TYPE_CHECKING:
    from rulerag.protocols import Encoder, Generator

# Chosen on validation questions (benchmarks/linking/asking). Below this probability of its answer
# a question is taken to mean several things.
_LEAST_SURE = 0.51
# How many entities of one name and readings are looked at, and the least likely that is named.
_CHOICES, _READINGS, _LEAST, _READINGS_KEPT = 4, 6, 0.001, 8
_NEAREST = 3
# A time that starts so early stands before the question: "On 3 May, do you know whom …".
_OPENING = 3
# How many words that may be names or not are looked at, the longest, and ways to take them.
_DOUBTFUL, _COMBINATIONS = 4, 32
_FUTURE = re.compile(
    r"\b(?:(?:will|shall)(?! (?:i|we|you|one)\b)|going to|next (?:week|month|year|time)|soon"
    r"|in (?:the )?future)\b",
    re.IGNORECASE,
)
_OTHERS = SHARING | {"other", "else"}
# What a relation asked with "when" has as objects, in so many of a hundred.
_DATE = re.compile(r"^\d{4}(-\d\d){0,2}$")
_DATES_SEEN, _MOSTLY = 200, 0.8


class QuestionLinker:
    """Understands questions in one's own words, or says why not.

    A question in the dataset's own form (``what does China Consult ?``) is exact. In any other,
    names, times and what is wanted are found first; then the simplest conjunctive query is put
    together that accounts for every other word (:mod:`~rulerag.linking.derivations`). A question
    of which a word is left, that may mean several things, or about nobody known is refused.

    Args:
        dataset: whose entities, relations, facts and calendar questions are about.
        phrases: more ways to say a relation, by raw name.
        examples: questions with the relation that they ask for; their words say it from then on.
        encoder: compares meanings of relations; letters and words alone when None.
        language_model: writes the query of a question whose words alone do not explain it; see
            :class:`~rulerag.linking.writer.QueryWriter`.
    """

    def __init__(
        self,
        dataset: RuleQADataset,
        *,
        phrases: Mapping[str, Sequence[str]] | None = None,
        examples: Sequence[LinkedExample] = (),
        encoder: Encoder | None = None,
        language_model: Generator | None = None,
    ) -> None:
        self.dataset = dataset
        self.encoder = encoder
        self.phrases = phrases or {}
        self.examples = tuple(examples)
        self._labels, self._aliases = dataset.labels, dataset.aliases
        self.calendar = Calendar(**dataset.calendar) if dataset.calendar else None
        self._writer = None if language_model is None else QueryWriter(language_model)

    @cached_property
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
        spelled = spellings(relations, self._labels["relations"]).values()
        return MentionFinder(
            spellings(entities, self._labels["entities"], self._aliases),
            [word for one in spelled for word in one],
        )

    @cached_property
    def _texts(self) -> dict[str, list[str]]:
        """How each relation that may be asked for is said."""
        texts: dict[str, list[str]] = {}
        for name in sorted(self._names[1]):
            label, *others = written_out(self._label(name))
            # Both directions as the dataset asks them: likeness of whole questions tells more.
            object_, subject = f"what does {SOMETHING} {label}?", f"what {label} {SOMETHING}?"
            texts[name] = [label, object_, subject, *others, *self.phrases.get(name, ())]
        for example in self.examples:
            texts[example.relation.removeprefix(INVERSE)].append(example.masked)
        return texts

    def _label(self, relation: str) -> str:
        return self._labels["relations"].get(relation, readable(relation))

    def _entity(self, name: str) -> str:
        return self._labels["entities"].get(name, name)

    @cached_property
    def index(self) -> FactIndex:
        """The facts that the documents state."""
        return FactIndex(stated_facts(self.dataset.corpus))

    @cached_property
    def _searches(self) -> list[DerivationSearch]:
        """Searches by words alone, and by meanings as well where there is an encoder."""
        facts = list(self._facts())
        roles = Roles(facts)
        labels = {name: written_out(self._label(name))[:2][-1] for name in self._names[1]}
        short = {name: parted(self._label(name)) for name in self._names[1]}
        kinds = Kinds(roles, short, self._labels["entities"])
        counts = Counter(relation for _, relation, _ in {fact[:3] for fact in facts})
        found = []
        for encoder in (None, self.encoder)[: 1 + (self.encoder is not None)]:
            ranker = RelationRanker(self._texts, encoder)
            scorer = StepScorer(ranker, labels, roles, kinds, counts)
            found.append(DerivationSearch(scorer, Accounts(ranker, roles, kinds), self.index))
        return found

    @property
    def _search(self) -> DerivationSearch:
        return self._searches[0]

    def _facts(self) -> Iterator[Fact]:
        return (fact for _, fact in stated_facts(self.dataset.corpus))

    @cached_property
    def _order_words(self) -> frozenset[str]:
        """The words of labels that ask for no first or last: "first ascent by"."""
        return frozenset(word for name in self._names[1] for word in words_of(self._label(name)))

    @cached_property
    def _is_dated(self) -> bool:
        return any(fact.timestamp is not None for fact in self._facts())

    def with_encoder(self, encoder: Encoder) -> QuestionLinker:
        """The same linker, comparing meanings as well."""
        other = copy.copy(self)
        other.encoder = encoder
        for made in ("fingerprint", "_searches"):
            other.__dict__.pop(made, None)
        return other

    def with_language_model(self, generator: Generator) -> QuestionLinker:
        """The same linker, and a language model writes what words alone do not explain."""
        other = copy.copy(self)
        other._writer = QueryWriter(generator)
        other.__dict__.pop("fingerprint", None)
        return other

    @cached_property
    def fingerprint(self) -> str:
        """Names the dataset, the encoder, and every setting that changes what is understood."""
        model = getattr(self.encoder, "fingerprint", None) if self.encoder is not None else None
        known = [self.dataset.fingerprint, self._texts, model]
        known += [self._writer.fingerprint] if self._writer is not None else []
        return fingerprint_object(["linker", *known])

    def link(self, questions: Sequence[str]) -> list[LinkedQuestion]:
        """What each question means, in order.

        Args:
            questions: in the dataset's own form or in one's own words.

        Raises:
            DataFormatError: a question that starts with "Time" states none of this dataset.
        """
        return [self._exact(text) or self._linked(text) for text in questions]

    def link_queries(self, queries: Sequence[Query]) -> list[Query]:
        """The queries, those that name no relation with their meaning, or why there is none.

        Args:
            queries: of a dataset.
        """
        unknown = [one for one in queries if not (one.relation or one.meaning or one.refusal)]
        linked = zip(unknown, self.link([one.text for one in unknown]), strict=True)
        meant = {
            id(one): replace(question.query(), id=one.id, answers=one.answers)
            for one, question in linked
        }
        return [meant.get(id(one), one) for one in queries]

    def _exact(self, text: str) -> LinkedQuestion | None:
        query = self._parser.parse(text)
        if query is None:
            return None
        return LinkedQuestion(text, readings=(Reading(query, 1.0),), exact=True)

    # --- a question in one's own words -----

    def _linked(self, text: str) -> LinkedQuestion:
        period = self._period(text)
        times = period.spans if period else ()
        names = self.mentions.names(text, times)
        spans = [name.span for name in names]
        opening = max((end for start, end in times if start <= _OPENING), default=0)
        forms = [
            asked_form(text, opening, dated=self._is_dated, names=spans, but=but)
            for but in (self._order_words, ())
        ]
        future = [
            one.span()
            for one in _FUTURE.finditer(text)
            if not _overlaps(one.span(), (*spans, *times))
        ]
        ahead = self._is_ahead(period, future)
        if ahead and not self.dataset.prediction:
            return LinkedQuestion(text, refusal="it asks what will be, and facts say what is")
        if not names:
            near = " or ".join(repr(self._entity(one)) for one in self.mentions.nearest(text))
            hint = f"; nearest names: {near}" if near else ""
            return LinkedQuestion(text, refusal=f"nobody known is mentioned{hint}")
        question = QuestionWords(text)
        for form in dict.fromkeys(forms):
            question = QuestionWords(text)
            question.asking, question.times = question.within(form.spans), question.within(times)
            question.free = question.within((*form.spans, *times, *future)) | _either(question)
            linked = self._understood(question, names, form, period, ahead=ahead)
            if linked.meaning is not None and execute(linked.meaning, self.index).values:
                break
        return linked

    def _period(self, text: str) -> AskedPeriod | None:
        return asked_period(text, self.calendar) if self.calendar else None

    def _is_ahead(self, period: AskedPeriod | None, future: Sequence[tuple[int, int]]) -> bool:
        """Whether a question is about what comes after all documents."""
        now = self._parser.now
        if self.calendar is None or now is None:
            return bool(future) and not self.dataset.prediction
        if period is not None:
            return period.since is not None and period.since >= now
        return bool(future)

    def _understood(
        self,
        question: QuestionWords,
        names: Sequence[NamedPlace],
        form: AskedForm,
        period: AskedPeriod | None,
        *,
        ahead: bool,
    ) -> LinkedQuestion:
        question.named = question.within(name.span for name in names)
        bounds = (None, None) if period is None else (period.since, period.until)
        asked: tuple[int | None, int | None] = (None, None) if ahead else bounds
        found: list[Derivation] = []
        tried: list[Derivation] = []
        for search in self._searches:
            for choices in _terms(question, names, self._is_class):
                for terms in () if found else choices:
                    whole, every = search.search(question, terms, form.form, asked)
                    found += whole
                    tried += every
        if not found:
            return self._written(question, names, tried, bounds)
        if form.form != "yes or no" and not ahead:
            found = self._known(found, names, asked)
        least = min(len(one.atoms) for one in found)
        found = [one for one in found if len(one.atoms) == least]
        excluded = self._excluded(question, names)
        best: dict[object, Derivation] = {}
        for one in sorted(found, key=lambda one: -one.score):
            best.setdefault(one.same_as(), one)
        queries = [one.query(self._form(form.form, one), *asked, excluded) for one in best.values()]
        if form.order:
            queries = [replace(one, form=form.order) for one in queries]
        shares = _shares([one.score for one in best.values()])
        if ahead:
            values = [(one,) for one in queries]
        else:
            values = [execute(one, self.index).values for one in queries[:_READINGS]]  # type: ignore[misc]
        sure = sum(share for share, one in zip(shares, values, strict=False) if one == values[0])
        if sure < _LEAST_SURE:
            refusal = self._several(queries, names, question)
            guesses = self._guesses(tried, bounds)
            return LinkedQuestion(question.text, readings=guesses, refusal=refusal)
        linked = LinkedQuestion(
            question.text,
            queries[0],
            self._readings(list(best.values()), shares, bounds) or self._guesses(tried, bounds),
            self.in_words(queries[0]),
            ahead=ahead,
        )
        return linked

    def _known(
        self,
        found: Sequence[Derivation],
        names: Sequence[NamedPlace],
        period: tuple[int | None, int | None],
    ) -> list[Derivation]:
        """The derivations that facts know something of, all where they know nothing of any.

        Of an ambiguous name those stay that are usual for one who may be meant.
        """
        open_ = {one for name in names if len(name.entities) > 1 for one in name.entities}
        stated = [
            one
            for one in found
            if self._search.is_stated(one, *period)
            or (open_ and one.step is not None and self._search.is_usual(one, *open_))
        ]
        return stated or list(found)

    def _is_class(self, entity: str) -> bool:
        """Whether facts say of others that they are one: "organization" where X "is a" one."""
        return any(map(self._search.scorer.says_class, self._search.scorer.roles.held(entity)))

    def _form(self, form: Form, one: Derivation) -> Form:
        """The form of a query; a time may be the object of a relation."""
        last = one.atoms[-1]
        asked = form == "time" and one.wanted.startswith("?") and last.object == one.wanted
        return "entities" if asked and self._holds_dates(last.relation) else form

    def _holds_dates(self, relation: str) -> bool:
        some = list(self.index.objects(relation))[:_DATES_SEEN]
        return sum(_DATE.match(self._entity(one)) is not None for one in some) > _MOSTLY * len(some)

    @staticmethod
    def _excluded(question: QuestionWords, names: Sequence[NamedPlace]) -> tuple[str, ...]:
        """The names that are no answers of a question for others."""
        if not any(token.word in _OTHERS for token in question.tokens):
            return ()
        return tuple(entity for name in names for entity in name.entities)

    def _guesses(
        self, tried: Sequence[Derivation], bounds: tuple[int | None, int | None]
    ) -> tuple[Reading, ...]:
        """What a question may ask of one name in one step, whatever words that leaves."""
        steps = [one for one in tried if one.step is not None and len(one.atoms) == 1]
        steps.sort(key=lambda one: -one.score)
        return self._readings(steps, _shares([one.score for one in steps]), bounds)

    def _readings(
        self,
        found: Sequence[Derivation],
        shares: Sequence[float],
        bounds: tuple[int | None, int | None],
    ) -> tuple[Reading, ...]:
        """The relations that a question about one name may ask for."""
        readings = []
        for one, share in zip(found, shares, strict=True):
            if one.step is None or len(one.atoms) > 1 or share < _LEAST:
                continue
            (atom,) = one.atoms
            entity = atom.object if one.step.asked.startswith(INVERSE) else atom.subject
            readings.append(Reading(self._query(entity, one.step.asked, bounds), share))
        return tuple(readings[:_READINGS_KEPT])

    def _query(self, entity: str, relation: str, bounds: tuple[int | None, int | None]) -> Query:
        """A query in the words of the dataset's own queries."""
        subject, words = self._entity(entity), self._label(relation.removeprefix(INVERSE))
        now = self._parser.now
        until = now if bounds[1] is None else bounds[1]
        # What is not over yet is asked about as far as it is known.
        ahead = bounds[0] is not None and now is not None and bounds[0] >= now
        timestamp = until if now is None or until is None or ahead else min(until, now)
        asked = f"what {words} {subject} ?"
        if not relation.startswith(INVERSE):
            asked = query_text(subject, words)
        dated = self.calendar is not None and timestamp is not None
        time = self.calendar.format(timestamp) if dated else ""  # type: ignore[union-attr, arg-type]
        return Query(
            "question",
            f"Time {time} {asked}" if time else asked,
            entity,
            relation,
            timestamp if dated else None,
            subject_label=subject,
            relation_label=words,
            prediction=self.dataset.prediction,
        )

    def _written(
        self,
        question: QuestionWords,
        names: Sequence[NamedPlace],
        tried: Sequence[Derivation],
        bounds: tuple[int | None, int | None],
    ) -> LinkedQuestion:
        """A question that words do not explain: what a language model writes, or why not."""
        left = [word for word in unaccounted(tried) if word != "?"]
        if not tried:  # "is Ann married": one name stands in no relation to another
            content = question.content(0, len(question), question.named)
            left = [question.word(n) for n in content]
        ranked = sorted(tried, key=lambda one: -one.score)
        steps = [one.step for one in ranked if one.step is not None]
        near = self._search.accounts.nearest(question, left, steps)
        if self._writer is not None and all(len(name.entities) == 1 for name in names):
            mentioned = {self._entity(one): one for name in names for one in name.entities}
            relations = {self._label(name): name for name in near}
            query = self._writer.write(question.text, mentioned, left, relations)
            query = None if query is None else replace(query, since=bounds[0], until=bounds[1])
            if query is not None and execute(query, self.index).values:
                return LinkedQuestion(question.text, query, words=self.in_words(query))
        some = ", ".join(map(self._label, near[:_NEAREST]))
        words = " and ".join(map(repr, dict.fromkeys(left)))
        reason = f"nothing known is meant by {words}" if left else "no word says what is asked"
        readings = self._guesses(tried, bounds)
        refusal = f"{reason}; nearest relations: {some}"
        return LinkedQuestion(question.text, readings=readings, refusal=refusal)

    # --- in words -----

    def in_words(self, query: ConjunctiveQuery) -> str:
        """What a query asks, in a sentence: ``Ann works for X and X is located in ?``."""
        return self._phrases.query(query, self._entity, self.calendar)

    def _several(
        self,
        queries: Sequence[ConjunctiveQuery],
        names: Sequence[NamedPlace],
        question: QuestionWords,
    ) -> str:
        """What a question that may mean several things may mean."""
        for name in names:
            if len(name.entities) > 1:
                start, end = name.span
                of = ", ".join(self._entity(one) for one in name.entities[:_CHOICES])
                return f"{question.text[start:end]!r} may be {of}: name one in full"
        return "it may mean: " + "; or: ".join(map(self.in_words, queries[:2]))


def _terms(
    question: QuestionWords, names: Sequence[NamedPlace], is_class: Callable[[str], bool]
) -> Iterator[list[list[Term]]]:
    """The names of a question as terms: first those that are sure, then with some that may be none.

    A word that may be a name and is accounted for otherwise is none, but for names of classes.
    """
    doubtful = sorted(
        (n for n, name in enumerate(names) if name.doubtful and not is_class(name.entities[0])),
        key=lambda n: names[n].span[0] - names[n].span[1],
    )[:_DOUBTFUL]
    sure = [n for n in range(len(names)) if n not in doubtful]
    for size in range(len(doubtful) + 1):
        found = []
        for taken in combinations(doubtful, size):
            some = [names[n] for n in sorted((*sure, *taken))]
            chosen = product(*(name.entities[:_CHOICES] for name in some)) if some else ()
            for entities in islice(chosen, _COMBINATIONS):
                terms = []
                for name, entity in zip(some, entities, strict=True):
                    tokens = sorted(question.within([name.span]))
                    first, last = tokens[0], tokens[-1] + 1
                    terms.append(Term(first, last, entity, (entity,), value=name.doubtful))
                found.append(terms)
        yield found


def _either(question: QuestionWords) -> set[int]:
    """The tokens of "who or what"."""
    found: set[int] = set()
    for n in range(1, len(question) - 1):
        if (
            question.word(n) == "or"
            and {question.word(n - 1), question.word(n + 1)} <= INTERROGATIVES
        ):
            found |= {n, n + 1 if question.word(n - 1) == "who" else n - 1}
    return found


def _overlaps(span: tuple[int, int], others: Sequence[tuple[int, int]]) -> bool:
    return any(start < span[1] and span[0] < end for start, end in others)


def _shares(scores: Sequence[float]) -> list[float]:
    weights = [math.exp(one - max(scores)) for one in scores]
    return [one / sum(weights) for one in weights]
