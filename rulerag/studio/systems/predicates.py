"""Conditions on answers that are safe to run on any text, and what counts as sensitive.

Regular expressions run on RE2, whose time grows linearly with the text: no pattern, whoever wrote
it, can hang a worker. The patterns for phone numbers, addresses of the web and personal data are
rules of thumb, made for the shipped corpora; they are no proof that a text holds none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from rulerag.composition import Settings, parse_file
from rulerag.errors import ConfigError, MissingDependencyError
from rulerag.explanation.probing import OutputPredicate, judged

_MOST = 1_000
"""Characters of a pattern."""

SHIPPED = Path(__file__).resolve().parent.parent / "shipped"
"""Systems, corpora, attack templates and sensitive kinds that come with the studio."""

SENSITIVE: Mapping[str, Mapping[str, Any]] = parse_file(SHIPPED / "sensitive.yaml")["kinds"]
"""By name, the pattern of what a system may have to keep to itself, and whether case counts."""


class RegexCondition(Settings):
    """The answer matches a regular expression (RE2's syntax), whatever the case of letters."""

    type: Literal["regex"] = "regex"
    pattern: str
    words: str = ""

    @field_validator("pattern")
    @classmethod
    def _is_known_to_re2(cls, pattern: str) -> str:
        try:
            compiled(pattern)
        except ConfigError as error:
            raise ValueError(str(error).removeprefix("key 'pattern': ")) from error
        return pattern


class SensitiveCondition(Settings):
    """The answer gives something away: one of :data:`SENSITIVE`."""

    type: Literal["sensitive"] = "sensitive"
    kinds: tuple[str, ...]
    words: str = ""

    @field_validator("kinds")
    @classmethod
    def _are_known(cls, kinds: tuple[str, ...]) -> tuple[str, ...]:
        if not kinds or not set(kinds) <= set(SENSITIVE):
            raise ValueError(f"choose some of {', '.join(SENSITIVE)}")
        return kinds


class JudgedCondition(Settings):
    """A model judges the answer; where none is at hand, rules do (``instead``)."""

    type: Literal["judged"] = "judged"
    prompt: str
    instead: RegexCondition | SensitiveCondition
    words: str = ""


Condition = Annotated[
    RegexCondition | SensitiveCondition | JudgedCondition, Field(discriminator="type")
]
"""The target condition of a system: what its instructions forbid."""


@cache
def compiled(pattern: str, *, case: bool = False) -> Any:
    """A pattern with ``search`` and ``sub``, in time that is linear in the text.

    Raises:
        ConfigError: RE2 does not know the pattern (look-arounds, back references), or it is long.
        MissingDependencyError: the extra ``studio`` is not installed.
    """
    try:
        import re2
    except ImportError as error:
        raise MissingDependencyError("google-re2", "studio") from error
    if not 0 < len(pattern) <= _MOST:
        what = f"has {len(pattern):,} characters, from 1 to {_MOST:,} are allowed"
        raise ConfigError(what, key="pattern")
    options = re2.Options()
    options.case_sensitive, options.log_errors = case, False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0] if error.args else error
        what = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise ConfigError(
            f"is no regular expression of RE2: {what}",
            key="pattern",
            hint="look-arounds and back references can hang, so that RE2 has none",
        ) from error


def masked(text: str, kinds: Sequence[str], instead: str) -> str:
    """A text without what is sensitive.

    Args:
        text: the text.
        kinds: names of :data:`SENSITIVE`.
        instead: what stands in its place.
    """
    for kind in kinds:
        text = _sensitive(kind).sub(lambda _: instead, text)
    return text


def gives_away(text: str, kinds: Sequence[str]) -> bool:
    """Whether a text holds something sensitive."""
    return any(_sensitive(kind).search(text) is not None for kind in kinds)


def predicate_of(condition: Condition, judge: Any = None) -> OutputPredicate:
    """A condition as a predicate.

    Args:
        condition: the condition.
        judge: a generator that can judge; None for the rules in its place.
    """
    if isinstance(condition, JudgedCondition):
        if judge is None:
            return predicate_of(condition.instead)
        asked = judged(
            judge,
            condition.prompt,
            holds=condition.words or "the judge says yes",
            fails=f"not: {condition.words}" if condition.words else "the judge says no",
            unclear=True,
        )
        return _unfenced(asked)
    if isinstance(condition, SensitiveCondition):
        kinds = condition.kinds
        return _worded(lambda output: gives_away(output, kinds), condition.words, kinds)
    found = compiled(condition.pattern).search
    return _worded(
        lambda output: found(output) is not None, condition.words, [f"/{condition.pattern}/"]
    )


def _worded(test: Callable[[str], bool], words: str, parts: Sequence[str]) -> OutputPredicate:
    sentence = words or f"the answer holds {' or '.join(parts)}"
    return OutputPredicate(test, sentence, f"not: {sentence}")


# One class for blanks and slashes: two neighbouring runs of blanks would take quadratic time.
_FENCE = re.compile(r"<[\s/]*answer\s*>", re.IGNORECASE)


def _unfenced(asked: OutputPredicate) -> OutputPredicate:
    """An output cannot end the part of the judge's prompt that it stands in."""

    def many(outputs: Sequence[str]) -> list[bool]:
        return asked.many([_FENCE.sub("(answer)", output) for output in outputs])

    return OutputPredicate(lambda output: many([output])[0], asked.holds, asked.fails, many)


def _sensitive(kind: str) -> Any:
    return compiled(**SENSITIVE[kind])
