"""Text as the field scores it: answer normalisation, tokens, containment, sentence spans."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise

__all__ = [
    "UNSPACED",
    "NameFinder",
    "best_token_f1",
    "character_f1",
    "contains_answer",
    "contains_normalized",
    "exact_match",
    "lenient_match",
    "normalize_answer",
    "normalize_answers",
    "prose_spans",
    "sentence_spans",
    "shortened",
    "spans_between",
    "token_f1",
    "tokenize",
    "trimmed_span",
    "word_spans",
]

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
"""Scripts that set no spaces between words, as ranges of a regular expression: Thai, Lao, Burmese,
Khmer, kana, Chinese characters."""
_WORD = re.compile(r"\S+")
# A sentence ends at . ! or ? followed by white space and something that can start a sentence.
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[\"'(\[]?[A-Z0-9])")
# What ends a sentence without a full stop: blank lines, headings, items of lists.
_BREAK = re.compile(
    r"\n[ \t]*\n\s*|^[ \t]*#{1,6}[ \t]+\S.*$|\n(?=[ \t]*(?:[-*•–]|\d{1,2}[.)])[ \t]+\S)",
    re.MULTILINE,
)
# Full stops of East Asian, Indic, Urdu and Arabic scripts, with the marks that close a quotation.
_OTHER_STOP = re.compile(
    "[\u3002\uff01\uff1f\u0964\u0965\u06d4\u061f]+[\u201d\u2019\u300d\u300f\u3011\uff09]*"
)


@lru_cache(maxsize=1 << 17)
def normalize_answer(text: str) -> str:
    """Normalise as SQuAD does: lower case, no punctuation, no articles, single spaces.

    References:
        Rajpurkar et al. 2016 (arXiv:1606.05250), official evaluation script v1.1. A text that
        is nothing but articles keeps them: an entity named "A" must stay comparable.
    """
    bare = " ".join(text.lower().translate(_PUNCTUATION).split())
    without = " ".join(_ARTICLES.sub(" ", bare).split())
    return without or bare


def normalize_answers(texts: Sequence[str]) -> list[str]:
    """:func:`normalize_answer` of many texts, as lines of one: a tenth of the calls.

    Args:
        texts: in any order.
    """
    joined = "\n".join(texts)
    if joined.count("\n") >= len(texts):  # one of them has several lines
        return [normalize_answer(text) for text in texts]
    bare = joined.lower().translate(_PUNCTUATION)
    pairs = zip(bare.split("\n"), _ARTICLES.sub(" ", bare).split("\n"), strict=True)
    return [" ".join(without.split()) or " ".join(whole.split()) for whole, without in pairs]


def tokenize(text: str) -> list[str]:
    """Tokens of the normalised text, the unit of token F1 and of answer containment."""
    return normalize_answer(text).split()


def exact_match(prediction: str, answers: Iterable[str], values: Iterable[str] = ()) -> float:
    """1.0 when the normalised prediction equals any normalised acceptable answer, else 0.0.

    Args:
        prediction: the answer in words.
        answers: the acceptable answers.
        values: the parts of a prediction that lists several; right where they are all of them.
    """
    wanted, listed = normalize_answer(prediction), {normalize_answer(one) for one in values}
    known = {normalize_answer(one) for one in answers}
    return float(bool(wanted) and (wanted in known or (len(listed) > 1 and listed == known)))


def token_f1(prediction: str, answer: str) -> float:
    """Bag-of-tokens F1 of one prediction against one answer, in [0, 1] (SQuAD)."""
    return _bag_f1(tokenize(prediction), tokenize(answer))


def character_f1(prediction: str, answer: str) -> float:
    """Bag-of-characters F1 of one prediction against one answer, both normalised, in [0, 1].

    What RuleRAG's published evaluator computes under the name of token F1: the blanks count, and
    two unrelated names share most of their letters, so that it is far above :func:`token_f1`.
    """
    return _bag_f1(normalize_answer(prediction), normalize_answer(answer))


def _bag_f1(predicted: Sequence[str], expected: Sequence[str]) -> float:
    if not predicted or not expected:
        return 0.0
    common = (Counter(predicted) & Counter(expected)).total()
    if common == 0:
        return 0.0
    precision, recall = common / len(predicted), common / len(expected)
    return 2 * precision * recall / (precision + recall)


def best_token_f1(prediction: str, answers: Iterable[str]) -> float:
    """The best token F1 over all acceptable answers; 0.0 without answers."""
    return max((token_f1(prediction, a) for a in answers), default=0.0)


class NameFinder:
    """Finds the first of many known names in a text, normalised, on token boundaries.

    Args:
        names: what may be found, thousands or more; those without a token are left out.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(filter(None, map(normalize_answer, names)))
        lengths: dict[str, set[int]] = {}
        for name in self._names:
            tokens = name.split()
            lengths.setdefault(tokens[0], set()).add(len(tokens))
        self._lengths = {token: sorted(n, reverse=True) for token, n in lengths.items()}

    def first(self, text: str) -> str | None:
        """The name that begins first, normalised; of those that begin together the longest."""
        tokens = tokenize(text)
        for start, token in enumerate(tokens):
            for length in self._lengths.get(token, ()):
                name = " ".join(tokens[start : start + length])
                if name in self._names:
                    return name
        return None


def lenient_match(prediction: str, answers: Iterable[str], names: NameFinder) -> float:
    """1.0 when the first known name in the prediction is an acceptable answer, else 0.0.

    Exact match as RuleRAG's published evaluator computes it: what a chatty model says before and
    behind the name does not count, and neither do further names.
    """
    found = names.first(prediction)
    return float(found is not None and any(normalize_answer(a) == found for a in answers))


def contains_normalized(normalized_text: str, normalized_answers: Sequence[str]) -> bool:
    """Whether one of the normalised answers stands in the normalised text on token boundaries."""
    padded = f" {normalized_text} "
    return any(f" {answer} " in padded for answer in normalized_answers if answer)


def contains_answer(text: str, answers: Iterable[str]) -> bool:
    """Whether an acceptable answer stands in the text, normalised, on token boundaries.

    This is the containment behind RuleRAG's Recall@k (arXiv:2410.22353, section 4.3).
    """
    return contains_normalized(normalize_answer(text), [normalize_answer(a) for a in answers])


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """Character spans ``(start, end)`` of the sentences of a text, in order, trimmed.

    A sentence ends at a full stop before a capital or a digit, also of ``Dr. Smith``; see
    :func:`prose_spans`.
    """
    spans: list[tuple[int, int]] = []
    start = 0
    for match in [*_SENTENCE_END.finditer(text), None]:
        end = match.start() if match else len(text)
        if match:
            end = match.start() + len(match.group().rstrip())
        piece = text[start:end]
        left = len(piece) - len(piece.lstrip())
        if piece.strip():
            spans.append((start + left, start + left + len(piece.strip())))
        start = match.end() if match else end
    return spans


def prose_spans(text: str) -> list[tuple[int, int]]:
    """Character spans ``(start, end)`` of the sentences of prose, of headings and items of lists.

    Slower than :func:`sentence_spans`; it knows abbreviations and the full stops of other scripts.

    References:
        Bommarito, Katz and Bommarito 2025 (arXiv:2504.04131): nupunkt.
    """
    import nupunkt

    cuts = {place for match in _BREAK.finditer(text) for place in match.span()}
    cuts |= {match.end() for match in _OTHER_STOP.finditer(text)}
    return [
        trimmed_span(text, block + start, block + end)
        for block, stop in spans_between(text, sorted(cuts))
        for start, end in nupunkt.sent_spans(text[block:stop])
    ]


def spans_between(text: str, cuts: Iterable[int]) -> list[tuple[int, int]]:
    """Character spans of what stands between some places of a text, trimmed; never an empty one.

    Args:
        text: any text.
        cuts: places in it, ascending.
    """
    pieces = pairwise([0, *cuts, len(text)])
    return [trimmed_span(text, *piece) for piece in pieces if text[slice(*piece)].strip()]


def trimmed_span(text: str, start: int, end: int) -> tuple[int, int]:
    """A character span without the white space at its ends."""
    piece = text[start:end]
    left = len(piece) - len(piece.lstrip())
    return start + left, start + left + len(piece.strip())


def word_spans(text: str) -> list[tuple[int, int]]:
    """Character spans ``(start, end)`` of the white-space-delimited words of a text."""
    return [match.span() for match in _WORD.finditer(text)]


def shortened(text: str, width: int = 100) -> str:
    """The text on one line, cut with an ellipsis where it is longer than ``width`` characters.

    It is cut between words, but for a word so long that most of the line would be lost.
    """
    line = " ".join(text.split())
    if len(line) <= width:
        return line
    cut = line[: width - 1]
    whole = cut if line[width - 1] == " " else cut.rpartition(" ")[0]
    return (whole if 2 * len(whole) > width else cut).rstrip(" ,;:") + "…"
