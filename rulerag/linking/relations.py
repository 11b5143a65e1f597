"""Which relation a question asks for: the question without its mention against relations in words.

Without models, by the letters that they share (tf-idf of character n-grams, which forgives
inflection and slips) and by words that a thesaurus says mean much the same; with an encoder, by
likeness of meaning as well.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from rulerag.linking.words import (
    ASKING,
    JOINING,
    WORD,
    LetterVectors,
    stem,
    thesaurus,
    words_of,
)

if TYPE_CHECKING:
    from rulerag.protocols import Encoder

Doubles = npt.NDArray[np.float64]

# Chosen on validation questions (F_G): see benchmarks/linking.
_NGRAMS = (2, 5)
_ANY_WORD, _JOINING_WEIGHT = 0.3, 0.1
WORDS = ("letters", "covered", "covers")
"""What is seen of a relation in a question's words; "meaning" joins them with an encoder."""
# What each sign counts, as a log-likelihood. Learned from validation questions and told by others:
# commit a3d6e82, python -m benchmarks.natural.weights.
_WEIGHTS = {
    "letters": 3.42, "covered": 7.57, "covers": 3.76, "meaning": 11.84,
    "role": 1.38, "facts": 0.57, "kind": 5.48, "who": 1.58, "order": 0.75,
}  # fmt: skip
# Words of a question that are this much like one of a label say where the relation stands.
_ALIKE = 0.3
# Words that start alike are often of one family, if they share so many letters.
_FAMILY, _FAMILY_LETTERS = 0.8, 3
SOMETHING = "something"
"""What stands for the entity in texts about a relation."""


def weights_of(encoder: Encoder | None) -> Mapping[str, float]:
    """What each sign of a relation counts, as a log-likelihood.

    Args:
        encoder: compares meanings too.
    """
    return {name: x for name, x in _WEIGHTS.items() if name != "meaning" or encoder is not None}


class RelationRanker:
    """Ranks the relations of a graph for a question.

    Args:
        texts: for each raw relation, how it is said: its label, phrases, example questions whose
            entity is left out.
        encoder: compares meanings too; letters alone when None.

    Attributes:
        names: the raw relations, in the order of the columns of :meth:`probabilities`.
        texts: how each is said, without repeats.
    """

    def __init__(self, texts: Mapping[str, Sequence[str]], encoder: Encoder | None = None) -> None:
        self.names = list(texts)
        self.encoder = encoder
        self.texts = [list(dict.fromkeys(texts[name])) for name in self.names]
        flat = [len(one) for one in self.texts]
        self._starts = np.cumsum([0, *flat[:-1]]) if flat else np.zeros(0, dtype=int)

    @cached_property
    def _flat(self) -> list[str]:
        return [text for one in self.texts for text in one]

    def signs(self, questions: Sequence[str]) -> Doubles:
        """What speaks for each relation: shape (questions, relations, 3), 4 with an encoder.

        In order: the letters that both share; how many of the relation's words the question has;
        how many of the question's words the relation has; how alike their meanings are.

        Args:
            questions: with a blank where the mention stood.
        """
        number = len(WORDS) if self.encoder is None else len(WORDS) + 1
        if not self.names or not questions:
            return np.zeros((len(questions), len(self.names), number))
        found = [self._by_letters(questions), *self._by_words(questions)]
        if self.encoder is not None:
            found.append(self._by_meaning(questions))
        return np.stack(found, axis=-1)

    def _by_letters(self, questions: Sequence[str]) -> Doubles:
        asked = self._letters.vectors([_plain(_content(text)) for text in questions])
        return self._best((asked @ self._letters.fitted.T).toarray())

    @cached_property
    def _letters(self) -> LetterVectors:
        return LetterVectors(list(map(_plain, self._flat)), _NGRAMS)

    def _by_words(self, questions: Sequence[str]) -> tuple[Doubles, Doubles]:
        """How many of the words of each are in the other, or ones that mean much the same."""
        found = np.array([self._words.scores(text) for text in questions])
        return self._best(found[:, 0]), self._best(found[:, 1])

    @cached_property
    def _words(self) -> SharedMeanings:
        return SharedMeanings(self._flat)

    def _by_meaning(self, questions: Sequence[str]) -> Doubles:
        assert self.encoder is not None  # noqa: S101
        if not hasattr(self, "_vectors"):
            self._vectors = _unit(self.encoder.encode(self._flat))
        asked = [" ".join(text.replace("\0", SOMETHING).split()) for text in questions]
        return self._best(_unit(self.encoder.encode(asked)) @ self._vectors.T)

    def _best(self, scores: npt.NDArray[np.floating]) -> Doubles:
        """The best of each relation's texts: (questions, texts) → (questions, relations)."""
        return np.maximum.reduceat(np.asarray(scores, dtype=np.float64), self._starts, axis=1)


class SharedMeanings:
    """Compares questions with texts word by word, by stem and by a thesaurus.

    Args:
        texts: of relations.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self._source = thesaurus()
        rows = [self._tokens(text) for text in texts]
        self._known = sorted({token for row in rows for token in row})
        places = {token: n for n, token in enumerate(self._known)}
        self._stems = [stem(token) for token in self._known]
        self._vectors = self._source.vectors(self._known).T.tocsc()
        found = Counter(one for row in rows for one in {stem(token) for token in row})
        self._found, self._total = found, len(texts)
        self._flat = np.array([places[token] for row in rows for token in row], dtype=np.int64)
        sizes = np.array([len(row) for row in rows])
        self._filled = np.flatnonzero(sizes)
        self._starts = np.cumsum([0, *sizes[self._filled][:-1].tolist()])
        self._weights = np.array([self._weight(token) for row in rows for token in row])
        if len(self._flat):
            self._sums = np.add.reduceat(self._weights, self._starts)

    def _tokens(self, text: str) -> list[str]:
        words = [w for w in words_of(text) if w not in ASKING and w != SOMETHING]
        return [token for token, *_ in self._source.tokens(words)]

    def _weight(self, token: str) -> float:
        """Rare words count more; those that only join others count little."""
        weight = math.log((self._total + 1) / (self._found[stem(token)] + 0.5)) + _ANY_WORD
        return weight * (_JOINING_WEIGHT if token in JOINING else 1.0)

    def alike(self, tokens: Sequence[str]) -> Doubles:
        """How alike words are to those of the texts, from 0 to 1: shape (words, words)."""
        products = (self._source.vectors(tokens) @ self._vectors).toarray()
        found = np.minimum(np.asarray(products, dtype=np.float64), 1.0)
        for row, token in zip(found, tokens, strict=True):
            np.maximum(row, [family(stem(token), other) for other in self._stems], out=row)
            np.maximum(row, [self._source.everyday(token, one) for one in self._known], out=row)
        return found

    def scores(self, question: str) -> Doubles:
        """For each text, the weighed share of its words that the question has, and the reverse.

        Args:
            question: with a blank where the mention stood.

        Returns:
            Both shares, from 0 to 1: shape (2, texts).
        """
        result = np.zeros((2, self._total))
        tokens = self._tokens(question.replace("\0", " "))
        if not tokens or not len(self._flat):
            return result
        pairs = self.alike(tokens)[:, self._flat]
        weights = np.array([self._weight(token) for token in tokens])
        theirs = np.add.reduceat(pairs.max(axis=0) * self._weights, self._starts) / self._sums
        mine = np.maximum.reduceat(pairs, self._starts, axis=1)
        result[:, self._filled] = theirs, weights @ mine / (weights.sum() + _ANY_WORD)
        return result


@lru_cache(maxsize=100_000)
def family(one: str, other: str) -> float:
    """How alike two stems are by the letters that they start with: "act" and "actor"."""
    if one == other:
        return 1.0
    from rapidfuzz.distance import Prefix

    shared = Prefix.similarity(one, other)
    whole = shared == min(len(one), len(other))
    if shared < _FAMILY_LETTERS + (not whole):
        return 0.0
    return _FAMILY * shared / max(len(one), len(other))


def _plain(text: str) -> str:
    return " ".join(word for word in words_of(text) if word != SOMETHING)


def _content(text: str) -> str:
    kept = [word for word in words_of(text.replace("\0", " ")) if word not in ASKING]
    return " ".join(kept) or text


def _unit(vectors: npt.NDArray[np.float32]) -> Doubles:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(norms == 0, 1, norms), dtype=np.float64)


def shared_words(
    text: str, label: str, *, but: Collection[str] = ()
) -> tuple[list[tuple[int, int]], bool]:
    """Where words of a question stand that say what a relation's label says.

    Those that the label has too, in any inflection; where there are none, those that mean much the
    same; where there are none either, all that do not only ask.

    Args:
        text: the question, with a blank where the mention stood.
        label: the relation in words.
        but: words of the label that are left out.

    Returns:
        The places, and whether they are of words that say the label.
    """
    said = [word for word in words_of(label) if word not in but and word not in ASKING]
    places = [(match.group().casefold(), match.span()) for match in WORD.finditer(text)]
    words = [(word, span) for word, span in places if word not in ASKING]
    stems = {stem(word) for word in said}
    found = [span for word, span in words if stem(word) in stems]
    if found:
        return found, True
    source = thesaurus()
    known = [token for token, *_ in source.tokens(said) if token not in JOINING]
    found = [
        (words[start][1][0], words[end - 1][1][1])
        for token, start, end in source.tokens([word for word, _ in words])
        if token not in JOINING
        and any(
            max(source.alike(token, one), source.everyday(token, one)) > _ALIKE for one in known
        )
    ]
    if found:
        return found, True
    return [span for word, span in words if word not in JOINING], False
