"""Output predicates: questions with the answer yes or no about one output.

Any function from a text to a Boolean is a predicate. Those made here also say in words what they
ask, and ``~predicate`` is their opposite.

References:
    Rorseth et al. 2025 (arXiv:2510.22689), section 3.1: the output predicate O.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from rulerag.errors import ConfigError
from rulerag.text import contains_answer, exact_match, normalize_answer

__all__ = [
    "OutputPredicate",
    "abstains",
    "at_least",
    "contains",
    "describe",
    "equals",
    "is_correct",
    "is_incorrect",
    "matches_answer",
    "negate",
    "regex",
]


@dataclass(frozen=True, slots=True)
class OutputPredicate:
    """A named predicate.

    Args:
        test: whether an output meets the condition.
        holds: the condition in words, such as ``the output is empty``.
        fails: its opposite in words.
        test_many: the verdicts on several outputs, where asking them together is cheaper.
    """

    test: Callable[[str], bool]
    holds: str
    fails: str
    test_many: Callable[[Sequence[str]], Sequence[bool]] | None = None

    def __call__(self, output: str) -> bool:
        """Whether the output meets the condition."""
        return self.test(output)

    def many(self, outputs: Sequence[str]) -> list[bool]:
        """Whether each output meets the condition."""
        if self.test_many is not None:
            return list(self.test_many(outputs))
        return [self.test(output) for output in outputs]

    def __invert__(self) -> OutputPredicate:
        """The opposite condition."""
        test, test_many = self.test, self.test_many
        many = None if test_many is None else lambda outputs: [not v for v in test_many(outputs)]
        return OutputPredicate(lambda output: not test(output), self.fails, self.holds, many)

    def __str__(self) -> str:
        """The condition in words."""
        return self.holds


def matches_answer(text: str) -> OutputPredicate:
    """The output equals ``text`` after normalisation (case, punctuation, articles, spaces)."""
    wanted = normalize_answer(text)
    return OutputPredicate(
        lambda output: normalize_answer(output) == wanted,
        f"the output matches {text!r}",
        f"the output does not match {text!r}",
    )


def equals(text: str) -> OutputPredicate:
    """The output equals ``text``, character by character."""
    return OutputPredicate(
        lambda output: output == text,
        f"the output is exactly {text!r}",
        f"the output is not exactly {text!r}",
    )


def contains(text: str) -> OutputPredicate:
    """``text`` stands in the output, both normalised, on token boundaries.

    Raises:
        ConfigError: nothing of ``text`` is left after normalisation.
    """
    if not normalize_answer(text):
        raise ConfigError(f"nothing to look for in {text!r}", key="text", hint="give a word")
    return OutputPredicate(
        lambda output: contains_answer(output, [text]),
        f"the output contains {text!r}",
        f"the output does not contain {text!r}",
    )


def regex(pattern: str, *, ignore_case: bool = True) -> OutputPredicate:
    """The regular expression matches somewhere in the output.

    Raises:
        ConfigError: the pattern is not a regular expression.
    """
    try:
        compiled = re.compile(pattern, re.IGNORECASE if ignore_case else 0)
    except re.error as error:
        raise ConfigError(f"not a regular expression: {pattern!r} ({error})") from error
    return OutputPredicate(
        lambda output: compiled.search(output) is not None,
        f"the output matches /{pattern}/",
        f"the output does not match /{pattern}/",
    )


def is_correct(answers: Iterable[str], *, contained: bool = False) -> OutputPredicate:
    """The output is one of the acceptable answers, normalised.

    Args:
        answers: every acceptable answer.
        contained: accept an output that only contains one, on token boundaries.

    Raises:
        ConfigError: there is no acceptable answer.
    """
    accepted = [answers] if isinstance(answers, str) else list(answers)
    if not accepted:
        raise ConfigError("correctness needs at least one acceptable answer", key="answers")

    def test(output: str) -> bool:
        if contained:
            return contains_answer(output, accepted)
        return exact_match(output, accepted) > 0

    return OutputPredicate(test, "the output is correct", "the output is incorrect")


def is_incorrect(answers: Iterable[str], *, contained: bool = False) -> OutputPredicate:
    """The opposite of ``is_correct``."""
    return ~is_correct(answers, contained=contained)


def abstains(phrases: Iterable[str] = ()) -> OutputPredicate:
    """The output is empty, or is one of ``phrases`` ("I do not know"), normalised."""
    silent = {"", *(normalize_answer(phrase) for phrase in phrases)}
    return OutputPredicate(
        lambda output: normalize_answer(output) in silent,
        "the generator abstains",
        "the generator does not abstain",
    )


def at_least(score: Callable[[str], float], threshold: float, name: str = "") -> OutputPredicate:
    """The score of the output reaches a threshold: a sentiment, a length, any number of a text.

    Args:
        score: a number for an output.
        threshold: the least number for which the predicate holds.
        name: what the score is called; the name of the function by default.
    """
    words = name or describe(score)
    return OutputPredicate(
        lambda output: score(output) >= threshold,
        f"{words} is at least {threshold:g}",
        f"{words} is below {threshold:g}",
    )


def negate(predicate: Callable[[str], bool]) -> OutputPredicate:
    """The opposite of any predicate."""
    if isinstance(predicate, OutputPredicate):
        return ~predicate
    name = describe(predicate)
    return OutputPredicate(lambda output: not predicate(output), f"{name} fails", f"{name} holds")


def describe(predicate: Callable[[str], object]) -> str:
    """What a predicate asks, in words; the name of a plain function."""
    if isinstance(predicate, OutputPredicate):
        return str(predicate)
    return str(getattr(predicate, "__name__", None) or type(predicate).__name__)
