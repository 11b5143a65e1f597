"""What may be asked of a name or of what a phrase describes, by the words around it: in steps."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rulerag.kg import ConjunctiveQuery, Form
from rulerag.linking.direction import subject_asked
from rulerag.linking.relations import Doubles, RelationRanker, weights_of
from rulerag.linking.roles import AnswerKind, Kinds, Roles
from rulerag.linking.words import CLASSES, INVERSE, words_of
from rulerag.rules import Atom, readable

# Signs of who is asked about, not of what is asked.
_OF_TERM = ("role", "facts", "who", "order")
_SCORES_KEPT = 10_000
# How usual a relation is for a term that it may be meant of, and how much likelier its meaning is
# than that of any other, where no word says it.
_USUAL, _CLEARLY = 0.05, 0.2


@dataclass(frozen=True, slots=True)
class Term:
    """A name of a question, or a phrase that describes something.

    Args:
        first: its first token.
        last: the one behind its last.
        name: the raw name; a variable for a phrase.
        entities: who it may be.
        atoms: what the phrase says of it.
        score: of the reading of the phrase.
        value: whether it is a word that may as well be none of a name: "drama", "engineers".
    """

    first: int
    last: int
    name: str
    entities: tuple[str, ...]
    atoms: tuple[Atom, ...] = ()
    score: float = 0.0
    value: bool = False

    @property
    def tokens(self) -> range:
        """Its tokens."""
        return range(self.first, self.last)

    @property
    def is_phrase(self) -> bool:
        """Whether it is a phrase."""
        return self.name.startswith("?")


class Step(NamedTuple):
    """A relation that may be asked of a term.

    Args:
        asked: the raw relation, behind :data:`~rulerag.linking.words.classes.INVERSE` where its
            subject is asked for.
        score: how well it fits, as a log-likelihood.
        words: the part of it that words and kinds give, whoever is asked about.
        order: how much likelier the order of words makes this end than the other, likewise.
        meaning: how alike the meanings are, from 0 to 1; 0 without an encoder, and where another
            relation that is usual for such a term means nearly as much.
    """

    asked: str
    score: float
    words: float
    order: float
    meaning: float

    @property
    def relation(self) -> str:
        """The raw relation, whichever end is asked for."""
        return self.asked.removeprefix(INVERSE)

    @property
    def role(self) -> str:
        """The end of the relation at which the answers stand."""
        return other_end(self.asked)


def _clearest(steps: Sequence[Step], usual: npt.NDArray[np.bool_]) -> list[Step]:
    """Steps whose meanings count for one relation alone, the one that is clearly likeliest."""
    meanings: dict[str, float] = {}
    for step, fits in zip(steps, usual, strict=True):
        if fits:
            meanings[step.relation] = max(step.meaning, meanings.get(step.relation, 0.0))
    best = sorted(meanings.values(), reverse=True)
    clear = len(best) == 1 or (len(best) > 1 and best[0] - best[1] >= _CLEARLY)
    return [
        step if clear and meanings.get(step.relation) == best[0] else step._replace(meaning=0.0)
        for step in steps
    ]


def other_end(role: str) -> str:
    """The other end of a relation: ``^r`` of ``r``."""
    return role[len(INVERSE) :] if role.startswith(INVERSE) else INVERSE + role


@dataclass(frozen=True, slots=True)
class Derivation:
    """One way to understand a question, or a phrase of it.

    Args:
        atoms: the facts that it asks of.
        wanted: the variable that is asked for; of a question whether something is so, the name
            that it is in doubt about.
        score: how well it fits, as a log-likelihood.
        left: words that nothing accounts for.
        step: the last step, of a reading in one step.
        exact: how alike the words of that step are to those of the relation, from 0 to 1.
    """

    atoms: tuple[Atom, ...]
    wanted: str
    score: float
    left: tuple[str, ...] = ()
    step: Step | None = None
    exact: float = 0.0

    def query(
        self, form: Form, since: int | None, until: int | None, excluded: tuple[str, ...] = ()
    ) -> ConjunctiveQuery:
        """The query that it is."""
        wanted = "" if form == "time" else self.wanted
        return ConjunctiveQuery(self.atoms, wanted, form, since, until, excluded)

    @property
    def relation(self) -> str:
        """The raw relation of the last step; empty without one."""
        return self.step.relation if self.step is not None else ""

    def same_as(self) -> tuple[object, ...]:
        """What it has in common with derivations that only name variables otherwise."""
        names: dict[str, str] = {}

        def named(term: str) -> str:
            return names.setdefault(term, f"?{len(names)}") if term.startswith("?") else term

        atoms = [(one.relation, named(one.subject), named(one.object)) for one in self.atoms]
        return (*sorted(atoms), named(self.wanted))


class StepScorer:
    """Scores what may be asked of a term: words, roles, kinds, and the order of words.

    Args:
        relations: compares words with relations.
        labels: relations in words.
        roles: what entities stand at the ends of.
        kinds: what kind of things stand there.
        counts: how many facts each relation has.
    """

    def __init__(
        self,
        relations: RelationRanker,
        labels: Mapping[str, str],
        roles: Roles,
        kinds: Kinds,
        counts: Mapping[str, int],
    ) -> None:
        self.relations, self.roles, self.kinds = relations, roles, kinds
        self._labels, self._counts = labels, counts
        self._asked = [one for name in relations.names for one in (name, INVERSE + name)]
        self._known: dict[tuple[str, tuple[int, int], Collection[str], AnswerKind], list[Step]] = {}

    def says_class(self, role: str) -> bool:
        """Whether what stands at an end of a relation are things of a class: "is a", "type"."""
        label = set(words_of(self._labels[role.removeprefix(INVERSE)]))
        small = {"is", "a", "an", "of", "has"}
        says = label - small or label & {"is", "a"}
        return role.startswith(INVERSE) and bool(says) and label - small <= CLASSES["CLASS_WORDS"]

    def steps(
        self,
        text: str,
        span: tuple[int, int],
        entities: Sequence[str],
        kind: AnswerKind,
        *,
        top: int = 12,
    ) -> list[Step]:
        """The steps that fit best, both ends of each relation, best first.

        Args:
            text: the words that say what is asked, others blanked out.
            span: where the term stands in it, in characters.
            entities: who the term may be.
            kind: of the answers.
            top: how many.
        """
        key = text, span, tuple(entities), kind
        if key not in self._known:
            if len(self._known) >= _SCORES_KEPT:
                self._known.clear()
            asked, signs = self.signs(text, span, entities, kind, top=top)
            names = list(weights_of(self.relations.encoder))
            parts = signs * list(weights_of(self.relations.encoder).values())
            of_words = [n for n, name in enumerate(names) if name not in _OF_TERM]
            meaning = names.index("meaning") if "meaning" in names else None
            found = [
                Step(
                    asked[n],
                    float(parts[n].sum()),
                    float(parts[n, of_words].sum()),
                    float(signs[n, names.index("order")]),
                    0.0 if meaning is None else float(signs[n, meaning]),
                )
                for n in range(len(asked))
            ]
            if meaning is not None:
                found = _clearest(found, signs[:, names.index("role")] >= math.log(_USUAL))
            self._known[key] = sorted(found, key=lambda one: -one.score)[:top]
        return self._known[key]

    def signs(
        self,
        text: str,
        span: tuple[int, int],
        entities: Sequence[str],
        kind: AnswerKind,
        *,
        top: int = 16,
    ) -> tuple[list[str], Doubles]:
        """What speaks for each of the relations that fit best, from either end.

        Args:
            text: as of :meth:`steps`, like the next three.
            span: see there.
            entities: see there.
            kind: see there.
            top: how many relations are looked at.

        Returns:
            The relations, those from their objects behind ``^``; and the signs, in the order of
            :func:`~rulerag.linking.relations.weights_of`: shape (relations, signs).
        """
        masked = f"{text[: span[0]]}\0{' ' * (span[1] - span[0] - 1)}{text[span[1] :]}"
        by_words = self.relations.signs([masked])[0]
        signs = np.hstack([np.repeat(by_words, 2, axis=0), self._of_graph(entities, kind)])
        weights = weights_of(self.relations.encoder)
        likely = signs @ [weights[name] for name in weights if name != "order"]
        best = np.argsort(-likely, kind="stable")[:top]
        # Both ends of each relation: which is meant, the order of words decides.
        kept = [2 * pair + end for pair in dict.fromkeys((best // 2).tolist()) for end in (0, 1)]
        order = np.zeros(len(kept))
        for n in range(0, len(kept), 2):
            pair = likely[kept[n : n + 2]]
            relation = self._asked[kept[n]]
            order[n : n + 2] = self._of_order(text, span, relation, pair, weights["order"])
        return [self._asked[one] for one in kept], np.column_stack([signs[kept], order])

    def _of_graph(self, entities: Sequence[str], kind: AnswerKind) -> Doubles:
        """The signs that the graph gives, for relations from either end: shape (asked, 4).

        How usual it is to know such a thing of such an entity; how many facts the relation has;
        whether what stands at its other end is of the kind that is asked for, and is somebody.
        """
        fits, rest = self.roles.fits(*entities)
        rows = []
        for one in self._asked:
            other = other_end(one)
            role = math.log(min(max(fits.get(one, rest), rest), 1.0))
            people = self.kinds.people(other) if kind.who else 0.0
            count = math.log(1 + self._counts.get(one.removeprefix(INVERSE), 0))
            rows.append((role, count, self.kinds.alike(kind.noun, other), people))
        return np.array(rows, dtype=np.float64).reshape(len(self._asked), 4)

    def _of_order(
        self, text: str, span: tuple[int, int], relation: str, likely: Doubles, weight: float
    ) -> tuple[float, float]:
        """What the order of words says for asking for the object and the subject of a relation."""
        label = self._labels.get(relation, readable(relation))
        subject, stated = subject_asked(text, span, label)
        object_, subject = math.log(1 - subject), math.log(subject)
        if stated:
            return object_ - subject, subject - object_
        # The order of other words says which end is meant, never which relation.
        first = likely[0] + weight * object_ >= likely[1] + weight * subject
        return (0.0, subject - object_) if first else (object_ - subject, 0.0)
