"""A question: its tokens, and what it was taken to mean."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

from rulerag.kg import ConjunctiveQuery
from rulerag.linking.words import (
    AUXILIARIES,
    CLASSES,
    DETERMINERS,
    INTERROGATIVES,
    INVERSE,
    PARTICLES,
    PREPOSITIONS,
    RANKS,
    RELATIVES,
    STOP_WORDS,
    TITLES,
    WORD,
    folded,
    thesaurus,
)
from rulerag.types import Query

_KIND_OF = DETERMINERS | frozenset({"of", "kind", "type", "sort", "other", "different"})
_VERBS_TO_HAVE = frozenset({"has", "have"})
_SUBJECTS = frozenset({"who", "whom", "what", "where"})
# A noun with what stands before it has so many words at most.
_MOST_NOUNS = 4


class Token(NamedTuple):
    """A word of a question.

    Args:
        word: as names are compared (:func:`~rulerag.linking.words.classes.folded`).
        start: where it starts, in characters.
        end: where it ends.
    """

    word: str
    start: int
    end: int


@dataclass(slots=False)
class QuestionWords:
    """The words of a question, and which of them need an account.

    Args:
        text: the question.
        asking: tokens that ask: "how many", "list".
        free: those that need no account: they ask, or say a time.
        times: those that say a time.
        named: tokens of names.
    """

    text: str
    asking: set[int] = field(default_factory=set)
    free: set[int] = field(default_factory=set)
    times: set[int] = field(default_factory=set)
    named: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.tokens = [Token(folded(m.group()), *m.span()) for m in WORD.finditer(self.text)]
        self.kind_places: set[int] = set()

    def __len__(self) -> int:
        return len(self.tokens)

    def word(self, token: int) -> str:
        """A word; empty where there is none."""
        return self.tokens[token].word if 0 <= token < len(self.tokens) else ""

    def beside(self, token: int) -> tuple[str, str]:
        """The words before and behind one."""
        return self.word(token - 1), self.word(token + 1)

    def within(self, spans: Iterable[tuple[int, int]]) -> set[int]:
        """The tokens that stand in some spans, in characters."""
        return {
            n
            for start, end in spans
            for n, token in enumerate(self.tokens)
            if start <= token.start and token.end <= end
        }

    def span(self, first: int, last: int) -> tuple[int, int]:
        """Where tokens stand, in characters; ``last`` is the one behind them."""
        return self.tokens[first].start, self.tokens[last - 1].end

    @cached_property
    def _phrases(self) -> list[tuple[str, int, int]]:
        return [
            one
            for one in thesaurus().tokens([token.word for token in self.tokens])
            if one[2] - one[1] > 1
        ]

    def phrases_of(self, token: int) -> list[str]:
        """The fixed phrases that a token is part of: "take over"."""
        return [phrase for phrase, start, end in self._phrases if start <= token < end]

    def content(self, first: int, last: int, but: Collection[int] = ()) -> list[int]:
        """The tokens that need an account.

        Args:
            first: where to start.
            last: the token behind the last.
            but: tokens that are accounted for.
        """
        return [n for n in range(first, last) if n not in but and self._needs_account(n)]

    def _needs_account(self, token: int) -> bool:
        word = self.tokens[token].word
        if token in self.free or word in STOP_WORDS or word in PARTICLES or word in TITLES:
            return False
        if word in CLASSES["BEGINNING"] and self.word(token + 1).endswith("ing"):
            return False
        if word in RANKS and token + 1 in self.named:
            return False
        return not (word in ("go", "went", "goes") and self.word(token + 1) == "to")

    def head_noun(self, first: int, last: int, but: Collection[int]) -> list[int]:
        """The noun that a phrase starts with, and what stands before it: "the former owner of"."""
        start = first
        while start < last and self._before_noun(start, last):
            start += 1
        if self.word(start - 1) in INTERROGATIVES - {"which", "what", "whose"} and start > first:
            return []  # "who supplies"
        return list(self._nouns(start, last, but, AUXILIARIES | PREPOSITIONS | RELATIVES))

    def _before_noun(self, token: int, last: int) -> bool:
        word = self.tokens[token].word
        opens = token + 1 < last and (self.word(token + 1) in DETERMINERS or token + 1 in self.free)
        return (
            token in self.free
            or word in DETERMINERS | INTERROGATIVES | PREPOSITIONS
            or (word in AUXILIARIES and opens)
        )

    def _nouns(
        self, start: int, last: int, but: Collection[int], ends: frozenset[str]
    ) -> Iterator[int]:
        for token in range(start, last):
            word = self.tokens[token].word
            if token in but or token in self.free or word in ends or word in DETERMINERS:
                return
            yield token

    def asked_noun(self, first: int, last: int, but: Collection[int]) -> int | None:
        """The noun behind "which", "what", "how many" or "list": the kind that is asked for."""
        for token in range(first, last):
            asks = self.word(token) in ("which", "what") or (
                token in self.asking and token + 1 < last and token + 1 not in self.free
            )
            if not asks or self.word(token - 1) == "or":
                continue
            start = token + 1
            while self.word(start) in _KIND_OF and start < last:
                start += 1
            ends = AUXILIARIES | PREPOSITIONS | RELATIVES | _VERBS_TO_HAVE | {"and"}
            nouns = list(self._nouns(start, last, but, ends))
            if not nouns or len(nouns) > _MOST_NOUNS:
                return None
            behind = nouns[-1] + 1
            if behind < last and self.word(behind) in AUXILIARIES | _VERBS_TO_HAVE:
                return nouns[-1]  # "which sports team did"
            if behind in but:
                return nouns[0] if len(nouns) == 2 else None  # "which firm produced M"
            while len(nouns) > 2 and self.word(nouns[0]).endswith(("ed", "ing")):
                del nouns[0]  # "which bearded actors star"
            return nouns[0] if behind < last else nouns[-1]
        return None

    def verbs(self, nouns: Collection[int | None]) -> set[int]:
        """English words that stand where the verb of a question does, and those behind them.

        They may say in other words what is asked; what stands before a noun is a condition.

        Args:
            nouns: tokens behind which a verb stands, as behind names and behind "who".
        """
        found: set[int] = set()
        for token in range(len(self)):
            before = token - 1
            while self.word(before) in AUXILIARIES or (before in self.free and before > 0):
                before -= 1
            opens = before in found or before in nouns or before in self.named
            if self.word(token) not in DETERMINERS and (opens or self.word(before) in _SUBJECTS):
                found |= {token} if self.word(token) in thesaurus() else set()
        return found

    def apposed(self, first: int) -> int | None:
        """The noun right before a name: "the movie Alien"."""
        token = first - 1
        if token < 1 or token in self.free or self.word(token - 1) not in ("the", "a", "an"):
            return None
        return None if self.word(token) in STOP_WORDS | PREPOSITIONS else token

    def only(self, first: int, last: int, blanks: Sequence[tuple[int, int]] = ()) -> str:
        """The text with all but some tokens blanked out; its length stays.

        Args:
            first: the first token that is left.
            last: the one behind the last.
            blanks: tokens among them that are blanked out too.
        """
        letters = [" "] * len(self.text)
        for n in range(first, last):
            if n not in self.times and not any(start <= n < end for start, end in blanks):
                token = self.tokens[n]
                letters[token.start : token.end] = self.text[token.start : token.end]
        return "".join(letters)


@dataclass(frozen=True, slots=True)
class Reading:
    """One relation that a question about one name may ask for.

    Args:
        query: the query, in the words of the dataset; its relation starts with
            :data:`~rulerag.linking.words.classes.INVERSE` where the subject is asked for.
        probability: of this reading; those of one question sum to at most 1.
    """

    query: Query
    probability: float

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
    """What a question was taken to mean, or why it is not understood.

    Args:
        text: the question.
        meaning: what it asks of facts; None for one in the dataset's own form.
        readings: of a question about one name, the relations that it may ask for, the most likely
            first; guesses where it is refused.
        words: the meaning in a sentence.
        refusal: why it cannot be answered; empty where it may be.
        exact: whether it is in the dataset's own form, which has one meaning.
        ahead: whether it is about a time after all documents, or about what will be.
    """

    text: str
    meaning: ConjunctiveQuery | None = None
    readings: tuple[Reading, ...] = ()
    words: str = ""
    refusal: str = ""
    exact: bool = False
    ahead: bool = False

    def best(self) -> Query:
        """The query of the likeliest reading, a guess where the question is refused.

        It is a prediction where those of the dataset are.
        """
        return self.readings[0].query if self.readings else Query("question", self.text)

    def query(self) -> Query:
        """The query of the question, which carries its meaning, or why there is none.

        The questions of a dataset may be predictions, which no document may answer; a question in
        one's own words is one only where it is about what comes after all documents.
        """
        several = self.meaning is not None and len(self.meaning.atoms) > 1
        if self.refusal or several or not self.readings:
            return Query("question", self.text, meaning=self.meaning, refusal=self.refusal)
        best = self.best()
        if self.exact:
            return best
        return replace(
            best,
            prediction=best.prediction and self.ahead,
            meaning=None if self.ahead else self.meaning,
        )
