"""What may be asked of an entity, and what kind of thing would be the answer."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from rulerag.linking.words import CLASSES, INVERSE, PREPOSITIONS, stem, thesaurus, words_of
from rulerag.types import Fact

Doubles = npt.NDArray[np.float64]

_ASIDE = re.compile(r"\(([^()]*)\)\s*$")
PEOPLE, _OF_PEOPLE, _PLACES = (CLASSES[name] for name in ("PEOPLE", "OF_PEOPLE", "PLACE_WORDS"))
# The words that names at an end have most are kept, if two have them or few have names.
_WORDS_KEPT, _FEW = 60, 20
# What a label says of entities that only often stand there too.
_OTHER_LABEL = 0.8
# What was found of so many nouns is kept.
_NOUNS_KEPT = 1000


class Roles:
    """How usual it is for an entity to stand at an end of a relation.

    A role is an end of a relation: ``r`` for its subjects, ``^r`` for its objects. Who has one role
    often has certain others (films have directors and genres, genres are of many films), so that
    what an entity is known for says what else can be asked about it.

    Args:
        facts: of the graph; repeated ones count once.
    """

    def __init__(self, facts: Iterable[Fact]) -> None:
        from scipy.sparse import csr_array

        pairs = {
            one
            for fact in facts
            for one in ((fact.subject, fact.relation), (fact.object, INVERSE + fact.relation))
        }
        self._of: dict[str, list[int]] = {}
        self.names = sorted({role for _, role in pairs})
        names = {role: n for n, role in enumerate(self.names)}
        for entity, role in sorted(pairs):
            self._of.setdefault(entity, []).append(names[role])
        starts = np.cumsum([0, *map(len, self._of.values())])
        columns = np.array([role for roles in self._of.values() for role in roles], dtype=np.int64)
        shape = (len(self._of), len(names))
        held = csr_array((np.ones(len(columns)), columns, starts), shape=shape)
        together = (held.T @ held).tocsr()
        self._counts = together.diagonal()
        self._share = together.multiply(1.0 / (1.0 + self._counts[:, None])).tocsr()

    def fits(self, *entities: str) -> tuple[dict[str, float], float]:
        """For each role, the largest share of entities with some role of this one that have both.

        Args:
            entities: raw names; of several the mean is given.

        Returns:
            By role 1 where a fact says so and the share where others have both; and the share of
            all other roles, which is what may be among entities that nobody has seen: small where
            a role of this entity has been seen often (Laplace's rule).
        """
        each = [self._fits(one) for one in entities]
        if len(each) == 1:
            return each[0]
        names = {name for found, _ in each for name in found}
        number = max(len(each), 1)
        mean = {name: sum(found.get(name, rest) for found, rest in each) / number for name in names}
        return mean, sum(rest for _, rest in each) / number if each else 1.0

    def _fits(self, entity: str) -> tuple[dict[str, float], float]:
        mine = self._of.get(entity)
        if mine is None:
            return {}, 1.0
        best = self._share[mine].max(axis=0).tocoo()
        columns = best.coords[-1].tolist()
        found = {self.names[n]: float(x) for n, x in zip(columns, best.data, strict=True)}
        rest = 1.0 / (2.0 + float(self._counts[mine].max()))
        return found | {self.names[n]: 1.0 for n in mine}, rest

    def held(self, entity: str) -> list[str]:
        """The roles that facts give an entity."""
        return [self.names[n] for n in self._of.get(entity, ())]

    def share(self, role: str, other: str) -> float:
        """The share of the entities with one role that have another."""
        places = self._places
        if role not in places or other not in places:
            return 0.0
        return float(self.shares[places[role], places[other]])

    @cached_property
    def _places(self) -> dict[str, int]:
        return {role: n for n, role in enumerate(self.names)}

    def entities(self) -> Iterable[tuple[str, list[int]]]:
        """Each entity with the numbers of its roles, in :attr:`names`."""
        return self._of.items()

    @cached_property
    def shares(self) -> Doubles:
        """The share of the entities with one role that have another: shape (roles, roles)."""
        shares = np.asarray(self._share.toarray(), dtype=np.float64)
        np.fill_diagonal(shares, 1.0)
        return shares


@dataclass(frozen=True, slots=True)
class AnswerKind:
    """What kind of thing a question asks for.

    Args:
        noun: behind "which" or "what", empty where there is none: "team" in "which sports team".
        who: whether it asks for somebody.
    """

    noun: str = ""
    who: bool = False


class Kinds:
    """What kind of things stand at the ends of relations, by words of labels and names.

    The objects of "athlete plays for team" are teams, and so is what has their names; who stands
    at another end as well is known by that end's label too.

    Args:
        roles: of the graph.
        relations: relations in words.
        names: entities in words, those that have any.
    """

    def __init__(
        self, roles: Roles, relations: Mapping[str, str], names: Mapping[str, str]
    ) -> None:
        self._place = {role: n for n, role in enumerate(roles.names)}
        self._shares = roles.shares
        self._nouns: dict[str, Doubles] = {}
        labels = [relations[role.removeprefix(INVERSE)] for role in roles.names]
        ends = [
            _object_words(label) if role.startswith(INVERSE) else _subject_words(label)
            for role, label in zip(roles.names, labels, strict=True)
        ]
        told = [
            _somebody(role.startswith(INVERSE), label)
            for role, label in zip(roles.names, labels, strict=True)
        ]
        # Whom other roles show to be people, or places, counts as such as far as they are shared.
        people = (self._shares * np.array([one for one, _ in told], float)).max(axis=1, initial=0)
        places = (self._shares * np.array([one for _, one in told], float)).max(axis=1, initial=0)
        self._people = people - places
        # "owned by" is as well of firms.
        self._own = np.array(
            [
                one and not label.endswith(" by")
                for (one, _), label in zip(told, labels, strict=True)
            ]
        )
        self._index(roles, ends, names)

    def _index(self, roles: Roles, ends: list[list[str]], names: Mapping[str, str]) -> None:
        from scipy.sparse import coo_array

        found: dict[int, Counter[str]] = defaultdict(Counter)
        sizes: Counter[int] = Counter()
        for entity, held in roles.entities():
            own = set(words_of(names.get(entity, entity)))
            for role in held:
                found[role].update(own)
                sizes[role] += 1
        named = {
            (role, word): count / sizes[role]
            for role, counts in found.items()
            for word, count in counts.most_common(_WORDS_KEPT)
            if count > 1 or sizes[role] < _FEW
        }
        said = {(role, word): 1.0 for role, words in enumerate(ends) for word in words}
        words = sorted({word for _, word in (*named, *said)})
        places = {word: n for n, word in enumerate(words)}
        self._stems = np.array([stem(word) for word in words], dtype=object)
        self._labels = {places[word]: word for _, word in said}
        self._vectors = thesaurus().vectors(words).T.tocsc()
        shape = (len(roles.names), len(words))

        def table(shares: Mapping[tuple[int, str], float]) -> coo_array:
            rows = np.array([role for role, _ in shares], dtype=np.int64)
            columns = np.array([places[word] for _, word in shares], dtype=np.int64)
            return coo_array((list(shares.values()), (rows, columns)), shape=shape)

        self._named, self._said = table(named).tocsr(), table(said).tocsr()

    def people(self, role: str) -> float:
        """Whether people stand at an end, from 1 for people to -1 for places.

        Args:
            role: an end of a relation.
        """
        place = self._place.get(role)
        return 0.0 if place is None else float(self._people[place])

    def own_people(self, role: str) -> bool:
        """Whether the label itself says that people stand at an end: "head coach"."""
        return bool(self._own[self._place[role]]) if role in self._place else False

    def alike(self, noun: str, role: str) -> float:
        """How alike what a noun names is to what stands at an end of a relation, from 0 to 1.

        Args:
            noun: empty where nothing is known of it.
            role: an end of a relation.
        """
        place = self._place.get(role)
        if place is None or not noun:
            return 0.0
        if noun not in self._nouns:
            if len(self._nouns) >= _NOUNS_KEPT:
                self._nouns.clear()
            self._nouns[noun] = self._of_noun(noun)
        return float(self._nouns[noun][place])

    def stated(self, noun: str, role: str) -> float:
        """How alike what a noun names is to what the label of an end says stands there."""
        place = self._place.get(role)
        if place is None or not noun:
            return 0.0
        return float(self._said[[place]].multiply(self._alike(noun)[None, :]).max())

    def _alike(self, noun: str) -> Doubles:
        """How alike a noun is to each word of labels and names."""
        products = (thesaurus().vectors([noun]) @ self._vectors).toarray()[0]
        for place, word in self._labels.items():
            products[place] = max(products[place], thesaurus().everyday(noun, word))
        return np.where(self._stems == stem(noun), 1.0, np.minimum(products, 1.0))

    def _of_noun(self, noun: str) -> Doubles:
        alike = self._alike(noun)
        said = np.asarray(self._said.multiply(alike[None, :]).max(axis=1).toarray()).ravel()
        others = _OTHER_LABEL * (self._shares * said[None, :]).max(axis=1, initial=0)
        named = np.minimum(self._named @ alike, 1.0)
        return np.asarray(np.maximum.reduce([said, others, named]), dtype=np.float64)


def _aside(label: str) -> list[str]:
    """The words for the subject of "genre (film)"."""
    aside = _ASIDE.search(label)
    return words_of(aside[1]) if aside else []


def _subject_words(label: str) -> list[str]:
    """The words for the subject of "genre (film)" and "wine colour"."""
    words = words_of(label)
    compound = len(words) == 2 and words[-1] not in PREPOSITIONS
    return _aside(label) or words[: int(compound)]


def _object_words(label: str) -> list[str]:
    """The last word of a label, which says what its objects are unless it only joins."""
    words = words_of(_ASIDE.sub("", label))
    return words[-1:] if words and words[-1] not in PREPOSITIONS else []


def _somebody(inverse: bool, label: str) -> tuple[bool, bool]:
    """Whether the words of a label say that an end is of people, and that it is of places."""
    words = words_of(_ASIDE.sub("", label))
    bases = [frozenset(thesaurus().bases(word)) for word in words]
    if not bases:
        return False, False
    if inverse:
        birth = any(word in ("birth", "death") for word in words)
        return bool(bases[-1] & PEOPLE), birth or bool(bases[-1] & _PLACES)
    named = [
        *([bases[0]] if len(bases) > 1 else []),
        *map(frozenset, map(thesaurus().bases, _aside(label))),
    ]
    if len(bases) == 2 and bases[-1] & PEOPLE:
        named = named[1:]  # the "head coach" is whom it names
    people = any(one & PEOPLE for one in named) or any(one & _OF_PEOPLE for one in bases)
    return people, len(bases) > 1 and bool(bases[0] & _PLACES)
