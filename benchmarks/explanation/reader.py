"""A reader without a model for free text: names the best-linked span of the kept sentences.

It stands in for a language model where explanations are measured and none is at hand: its answers
depend on which sentences are kept, and it answers the same every time. It is no good reader, and
tables made with it say so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from rulerag.text import tokenize
from rulerag.types import Completion, Document, GenerationRequest

# Tuned on the questions with two supporting facts; figures are made on those with three.
OWN, LINKED, NEAR, TITLE = 0.3, 1.2, 0.8, 0.0
_OPTIONS = re.compile(r"([A-Z][\w' ]*?(?: [A-Z][\w']*)*) or (?:the )?([A-Z][^?,]*)\?")
_ADJECTIVE = re.compile(r"(?:ian|ean|can|man|ish|ese|nch|tch)$")
_SENTENCE = re.compile(r"\n+")
_SPAN = re.compile(
    r"[A-Z0-9][\w'.&-]*(?:(?:\s+(?:of|the|de|van|von|and|in|for))*\s+[A-Z0-9][\w'.&-]*)*"
)
_NUMBER = re.compile(r"\d")
_POLAR = ("are", "is", "was", "were", "do", "does", "did", "has", "have", "can")
_COMMON = frozenset(
    tokenize(
        "of in on at to and or by for from with as is are was were be been it its this that which "
        "who whom whose what when where how many much did do does has have had not he she they his "
        "her their also than other into out over under between after before during about"
    )
)


class ExtractiveReader:
    """Answers with a capitalised span or a number of the kept sentences.

    Each line of a document is a sentence. A sentence scores by the words that it shares with the
    question, and by those of a sentence that it is linked to: one that names its title, or whose
    title it names. The best span of the best sentences is the answer: not part of the question, of
    the kind that the question word asks for, near the words that it shares.
    """

    fingerprint = "extractive-reader-1"

    def generate(self, requests: Sequence[GenerationRequest]) -> list[Completion]:
        """Return one completion for each request, in order; empty without a sentence."""
        return [Completion(self._answer(r.query.text, r.documents)) for r in requests]

    def _answer(self, question: str, documents: Sequence[Document]) -> str:
        lines = [
            (document.title, line.strip())
            for document in documents
            for line in _SENTENCE.split(document.text)
            if line.strip()
        ]
        if not lines:
            return ""
        options = _OPTIONS.search(question)
        if question.split()[0].lower() in _POLAR and options is None:
            return self._polar(question, [text for _, text in lines])
        asked = _words(question)
        own = [len(asked & _words(f"{title} {text}")) / (len(asked) or 1) for title, text in lines]
        if options is not None:
            return max(options.groups(), key=lambda option: _near(option, lines, own))
        best, answer = -9.0, ""
        for place, (title, text) in enumerate(lines):
            others = [j for j in range(len(lines)) if _linked(lines[place], lines[j])]
            linked = max((own[j] for j in others), default=0.0)
            for span in _spans(title, text):
                score = OWN * own[place] + LINKED * linked + _fit(question, asked, span, title)
                score += NEAR * _closeness(asked, span, text)
                if score > best + 1e-9:
                    best, answer = score, span
        return answer

    def _polar(self, question: str, texts: Sequence[str]) -> str:
        """Yes when two sentences share an attribute word that the question does not name."""
        asked = _words(question)
        shared = _words(texts[0]) - asked
        for text in texts[1:]:
            shared &= _words(text)
        return "yes" if len(texts) > 1 and shared else "no"


@lru_cache(maxsize=1 << 16)
def _words(text: str) -> frozenset[str]:
    return frozenset(tokenize(text)) - _COMMON


@lru_cache(maxsize=1 << 16)
def _spans(title: str, text: str) -> tuple[str, ...]:
    spans = dict.fromkeys([match.group().rstrip(".,'") for match in _SPAN.finditer(text)])
    return (*(span for span in spans if span.lower() not in _COMMON), title)


def _linked(one: tuple[str, str], other: tuple[str, str]) -> bool:
    if one[0] == other[0]:
        return False
    first, second = _words(one[0]), _words(other[0])
    return (bool(first) and first <= _words(other[1])) or (
        bool(second) and second <= _words(one[1])
    )


def _near(option: str, lines: Sequence[tuple[str, str]], own: Sequence[float]) -> float:
    """How well the sentences about an option fit the question."""
    words = _words(option)
    return max(
        (score for (t, x), score in zip(lines, own, strict=True) if words & _words(f"{t} {x}")),
        default=0.0,
    )


def _closeness(asked: frozenset[str], span: str, text: str) -> float:
    """The fraction of the five words on each side of a span that the question holds."""
    place = text.find(span)
    if place < 0:
        return 0.0
    around = " ".join(text[:place].split()[-5:] + text[place + len(span) :].split()[:5])
    words = _words(around)
    return len(words & asked) / len(words) if words else 0.0


def _fit(question: str, asked: frozenset[str], span: str, title: str) -> float:
    """How well a span can be what is asked for."""
    words = _words(span)
    if not words or words <= asked:
        return -2.0
    lowered = question.lower()
    wants_number = any(w in lowered for w in ("what year", "when ", "how many", "how much", "date"))
    score = 0.3 if bool(_NUMBER.search(span)) == wants_number else -0.3
    score += 0.2 * (len(words) >= 2) - 0.4 * bool(_ADJECTIVE.search(span))
    score -= 0.3 * len(words & asked) / len(words)
    return score - (TITLE if span == title else 0.0)
