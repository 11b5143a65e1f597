"""A question as tokens: names, times and forms of asking, and the words that are left."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from rulerag.linking.words import (
    AUXILIARIES,
    DETERMINERS,
    INTERROGATIVES,
    PARTICLES,
    PREPOSITIONS,
    RELATIVES,
    STOP_WORDS,
    TITLES,
    WORD,
    folded,
    thesaurus,
)

_KIND_OF = DETERMINERS | frozenset({"of", "kind", "type", "sort", "other", "different"})
_VERBS_TO_HAVE = frozenset({"has", "have"})
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
        named: tokens of names.
        by_meaning: whether the meaning of words as a whole may account for them, where no single
            one says a relation.
    """

    text: str
    asking: set[int] = field(default_factory=set)
    free: set[int] = field(default_factory=set)
    named: set[int] = field(default_factory=set)
    by_meaning: bool = False

    def __post_init__(self) -> None:
        self.tokens = [Token(folded(m.group()), *m.span()) for m in WORD.finditer(self.text)]
        self.kind_places: set[int] = set()
        self.says_relation: dict[int, bool] = {}

    def __len__(self) -> int:
        return len(self.tokens)

    def word(self, token: int) -> str:
        """A word; empty where there is none."""
        return self.tokens[token].word if 0 <= token < len(self.tokens) else ""

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
            return nouns[0] if behind < last else nouns[-1]
        return None

    def apposed(self, first: int) -> int | None:
        """The noun right before a name: "the movie Alien"."""
        token = first - 1
        if token < 1 or token in self.free or self.word(token - 1) not in DETERMINERS:
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
            if not any(start <= n < end for start, end in blanks):
                token = self.tokens[n]
                letters[token.start : token.end] = self.text[token.start : token.end]
        return "".join(letters)
