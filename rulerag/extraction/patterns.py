"""Which relation words mean: learned from known facts whose ends the words join in a text.

Distant supervision (Mintz et al. 2009, section 1): where a clause joins the two ends of a known
fact, at its time where both have one, its words may say that fact's relation. What they say most
often, they mean.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rulerag.composition import read_values
from rulerag.errors import DataFormatError
from rulerag.extraction.clauses import NAME, bare, trigger
from rulerag.extraction.likeness import Likeness
from rulerag.io import to_json, write_text
from rulerag.kg import derived_phrase
from rulerag.rules import readable
from rulerag.types import Fact

if TYPE_CHECKING:
    from rulerag.protocols import Encoder

INVERSE = "^"
"""Before a relation: the words name its object first."""
# How much of the words of a pattern must be those of a clause; rare words count more.
_LEAST_SHARED = 0.6
# Likeness that is dropped, and what an encoder finds any two wordings to have.
_LEAST_LIKE, _ANY_TWO = 0.01, 0.2
# What a match by shared words counts.
_SHARED = 0.9
_PRIOR = 0.5


Words = tuple[str, ...]
"""The stems of a clause."""
Heard = tuple[Words, str, str]
"""Stems, the words as they are written, and the relation that they may mean."""
# How often counts are shared out, and the least of them that is kept.
_SHARINGS, _LEAST_SHARE, _TWICE = 10, 0.05, 1.5
# What words count that would name the object of a fact first: most name its subject first, and the
# clause that does may have a pronoun.
_TURNED = 0.25


class Meaning(NamedTuple):
    """What words may mean.

    Args:
        relation: the relation, with :data:`INVERSE` where the words name its object first.
        confidence: a fraction.
        pattern: the pattern that says so, in words.
    """

    relation: str
    confidence: float
    pattern: str


class PatternBook:
    """Patterns of words, and how often each meant which relation.

    Args:
        counts: for each pattern, a tuple of stems, how often it meant each relation.
        words: each pattern as it was first written.
    """

    def __init__(
        self,
        counts: Mapping[tuple[str, ...], Mapping[str, float]] | None = None,
        words: Mapping[tuple[str, ...], str] | None = None,
    ) -> None:
        self.counts: dict[tuple[str, ...], dict[str, float]] = {
            key: dict(one) for key, one in (counts or {}).items()
        }
        self.words = dict(words or {})
        self._encoder: Encoder | None = None
        self._prepare()

    def __len__(self) -> int:
        return len(self.counts)

    def _add(self, key: tuple[str, ...], relation: str, weight: float) -> None:
        counts = self.counts.setdefault(key, {})
        counts[relation] = counts.get(relation, 0.0) + weight

    @property
    def relations(self) -> list[str]:
        """The relations that patterns mean."""
        found = (one.removeprefix(INVERSE) for counts in self.counts.values() for one in counts)
        return list(dict.fromkeys(found))

    def with_encoder(self, encoder: Encoder) -> PatternBook:
        """The same patterns, compared with others by meaning as well."""
        book = PatternBook(self.counts, self.words)
        book._encoder = encoder
        return book

    def parted(self) -> tuple[PatternBook, PatternBook]:
        """Patterns of words that join two names, and frames, which have words around them too."""
        books = []
        for framed in (False, True):
            keys = [key for key in self.counts if (NAME in key) == framed]
            words = {key: self.words[key] for key in keys}
            books.append(PatternBook({key: self.counts[key] for key in keys}, words))
        return books[0], books[1]

    def joined(self, other: PatternBook) -> PatternBook:
        """These patterns and others."""
        return PatternBook({**other.counts, **self.counts}, {**other.words, **self.words})

    def learn(self, found: Iterable[tuple[tuple[str, ...], str, str, float]]) -> None:
        """Take up what words meant.

        Args:
            found: the stems of a clause, its words, the relation of a known fact of its ends, and
                how much that counts.
        """
        for key, said, relation, weight in found:
            self._add(key, relation, weight)
            self.words.setdefault(key, said)
        self._prepare()

    def add_labels(self, relations: Iterable[str], labels: Mapping[str, str]) -> None:
        """Take up the words of relations' own labels, derived and inflected, where none are known.

        Args:
            relations: raw names.
            labels: their words, where they have any.
        """
        for relation in relations:
            label = readable(labels.get(relation, relation))
            start, _, rest = derived_phrase(label).partition("{x}")
            # A noun ("the capital of {x} is {y}") may be a verb that nobody knows: its own words.
            middle = label if start else rest.partition("{y}")[0].strip(" :")
            key = trigger(middle.split())
            if key and relation not in self.counts.get(key, ()):
                self._add(key, relation, 1.0)
                self.words.setdefault(key, middle)
        self._prepare()

    def _prepare(self) -> None:
        seen = Counter(stem for key in self.counts for stem in set(key))
        total = len(self.counts) + 1
        self._weight = {stem: math.log(total / count) + 0.1 for stem, count in seen.items()}
        self._with_stem: dict[str, list[tuple[str, ...]]] = {}
        for key in self.counts:
            for stem in set(key):
                self._with_stem.setdefault(stem, []).append(key)
        self._likeness: Likeness | None = None
        self._vectors: np.ndarray | None = None
        self._known: dict[str, list[tuple[float, tuple[str, ...]]]] = {}

    def wording(self, relation: str) -> str | None:
        """The words that say a relation most often, subject first; None where none do.

        Args:
            relation: a raw name.
        """
        said = (
            (counts.get(relation, 0.0), bare(self.words[key]))
            for key, counts in self.counts.items()
        )
        best = max(said, key=lambda one: (one[0], one[1]), default=(0.0, ""))
        return best[1] if best[0] else None

    def knows(self, key: tuple[str, ...]) -> bool:
        """Whether stems are a pattern."""
        return key in self.counts

    def inside(self, words: Sequence[str], *, at_end: bool) -> tuple[str, ...] | None:
        """The longest pattern that stems begin or end with.

        Args:
            words: stems.
            at_end: whether it stands at the end.
        """
        for size in range(len(words), 0, -1):
            key = tuple(words[-size:] if at_end else words[:size])
            if key in self.counts:
                return key
        return None

    def meanings(self, key: tuple[str, ...], said: str) -> list[Meaning]:
        """What words may mean, the surest first; empty where no pattern shares most of them.

        Args:
            key: the stems of a clause.
            said: its words.
        """
        if self.knows(key):
            return self._of(key, 1.0)
        shared = [(self._shared(key, other), other) for other in self._near(key)]
        good = sorted((one for one in shared if one[0] >= _LEAST_SHARED), reverse=True)
        if good:
            return self._of(good[0][1], _SHARED * good[0][0])
        return []

    def alike(self, said: str) -> list[Meaning]:
        """What words may mean by what their own mean; the confidence is how alike they are.

        By a thesaurus and definitions, and by an encoder where there is one: then from 0 to 2.

        Args:
            said: the words of a clause.
        """
        found: dict[str, Meaning] = {}
        for like, other in self._alike(bare(said)):
            for one in self._of(other, like):
                if one.relation not in found or one.confidence > found[one.relation].confidence:
                    found[one.relation] = one._replace(pattern=f"like: {one.pattern}")
        return sorted(found.values(), key=lambda one: -one.confidence)

    def _of(self, key: tuple[str, ...], times: float) -> list[Meaning]:
        counts = self.counts[key]
        total = sum(counts.values()) + _PRIOR
        return [
            Meaning(relation, times * count / total, self.words[key])
            for relation, count in sorted(counts.items(), key=lambda one: (-one[1], one[0]))
        ]

    def _near(self, key: tuple[str, ...]) -> list[tuple[str, ...]]:
        found = (other for stem in set(key) for other in self._with_stem.get(stem, ()))
        return list(dict.fromkeys(found))

    def _shared(self, key: tuple[str, ...], other: tuple[str, ...]) -> float:
        """The weight of the stems that two patterns share, of all that they have: 0 to 1."""
        most = math.log(len(self.counts) + 1) + 0.1
        both, either = set(key) & set(other), set(key) | set(other)
        return sum(self._weight.get(s, most) for s in both) / sum(
            self._weight.get(s, most) for s in either
        )

    def _alike(self, said: str) -> list[tuple[float, tuple[str, ...]]]:
        """How alike some words are to each pattern, where they are at all."""
        if said not in self._known:
            if self._likeness is None:
                self._keys = list(self.words)
                texts = [bare(one) for one in self.words.values()]
                self._likeness = Likeness(texts)
                if self._encoder is not None and texts:
                    self._vectors = _unit(self._encoder.encode(texts))
            likeness = self._likeness.of(said)
            if self._encoder is not None and self._vectors is not None:
                meant = self._vectors @ _unit(self._encoder.encode([said]))[0]
                likeness = likeness + np.maximum(0.0, meant - _ANY_TWO)
            pairs = zip(likeness.tolist(), self._keys, strict=True)
            self._known[said] = [(like, key) for like, key in pairs if like > _LEAST_LIKE]
        return self._known[said]

    def save(self, path: str | Path) -> None:
        """Write the patterns as YAML, to be read and edited: by relation, words and counts.

        Raises:
            OutputError: the file cannot be written.
        """
        rows: dict[str, dict[str, float]] = {}
        for key, counts in self.counts.items():
            for relation, count in counts.items():
                rows.setdefault(relation, {})[self.words[key]] = count
        lines = [
            "# For each relation the words between subject and object, and how often they said it."
        ]
        lines.append(f"# Frames have words around the two as well; {NAME} stands for each.")
        lines.append("# ^relation: the words stand between its object and its subject.")
        for relation in sorted(rows):
            lines.append(f"{to_json(relation)}:")
            lines += [
                f"  {to_json(said)}: {count:g}" for said, count in sorted(rows[relation].items())
            ]
        write_text(path, "\n".join([*lines, ""]))

    @classmethod
    def load(cls, path: str | Path) -> PatternBook:
        """Read what :meth:`save` wrote.

        Raises:
            ConfigError: the file is no YAML. DataFormatError: it holds no patterns.
        """
        book = cls()
        for relation, rows in read_values(Path(path)).items():
            if not isinstance(rows, Mapping):
                raise DataFormatError(
                    "expected words and how often they said it",
                    path=path,
                    key=str(relation),
                    hint='for example "joined: 3"',
                )
            for said, count in rows.items():
                key = trigger(str(said).split())
                book._add(key, str(relation), float(count))
                book.words.setdefault(key, str(said))
        book._prepare()
        return book


def _unit(vectors: np.ndarray) -> np.ndarray:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(norms == 0, 1, norms))


def shared_out(
    heard: Mapping[Fact, Collection[Heard]], known: Mapping[Words, Mapping[str, float]]
) -> Iterator[tuple[Words, str, str, float]]:
    """What words say of undated facts, each of which is shared out among what joins its ends.

    Where rules hold, two who have one relation have others too, and no date tells which of several
    clauses says which. One of them says the fact (Riedel et al. 2010, section 3): the likelier the
    more often its words say that relation elsewhere, and the less often others (expectation
    maximisation).

    Args:
        heard: for each fact all that joins its ends.
        known: how often words are known to say relations already.

    Yields:
        What :meth:`PatternBook.learn` takes up.
    """
    said: dict[Words, str] = {}
    choices: list[list[tuple[Words, str]]] = []
    for own in heard.values():
        said |= {words: text for words, text, _ in sorted(own, reverse=True)}
        choices.append(sorted({(words, relation) for words, _, relation in own}))
    base = {(w, r): count for w, row in known.items() for r, count in row.items()}
    every = Counter(base) + Counter(one for own in choices for one in own)
    totals: dict[Words, float] = {}
    for (words, _), count in every.items():
        totals[words] = totals.get(words, 0.0) + count
    # Words that stand with facts of many relations say none of these for that alone.
    alone = {one: (count / totals[one[0]]) ** 2 for one, count in every.items()}
    shares = [[1 / len(own)] * len(own) for own in choices]
    counts = dict(base)
    for _ in range(_SHARINGS):
        counts = dict(base)
        for own_choices, own_shares in zip(choices, shares, strict=True):
            for one, share in zip(own_choices, own_shares, strict=True):
                counts[one] = counts.get(one, 0.0) + share
        for number, own_choices in enumerate(choices):
            likely = [counts[one] * alone[one] for one in own_choices]
            shares[number] = [one / sum(likely) for one in likely]
    # Once, and beside others that may say it, is no evidence.
    sure = {own[0] for own in choices if len(own) == 1} | base.keys()
    for own_choices, own_shares in zip(choices, shares, strict=True):
        for one, share in zip(own_choices, own_shares, strict=True):
            weight = share * (_TURNED if one[1].startswith(INVERSE) else 1.0)
            if weight >= _LEAST_SHARE and (one in sure or counts[one] >= _TWICE):
                yield one[0], said[one[0]], one[1], weight
