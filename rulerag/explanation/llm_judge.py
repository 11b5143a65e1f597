"""A language model as the judge of outputs, and pairs of opposite predicates by one word.

References:
    Rorseth et al. 2025 (arXiv:2510.22689), section 5.2.1: correct by a match with the accepted
    answers, otherwise by a model's verdict.
    Zheng et al. 2023 (NeurIPS 37): models as judges.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from rulerag.errors import ConfigError, EmptyCompletionError, PredicateError, did_you_mean
from rulerag.explanation.predicates import (
    OutputPredicate,
    abstains,
    contains,
    equals,
    is_correct,
    matches_answer,
    regex,
)
from rulerag.explanation.votes import refuse_sampling_generator
from rulerag.explanation.wording import shortened
from rulerag.text import normalize_answer
from rulerag.types import GenerationRequest, Query

if TYPE_CHECKING:
    from rulerag.protocols import Generator

__all__ = ["CORRECTNESS", "PAIRS", "judged", "judged_correct", "predicate_pair"]

CORRECTNESS = (
    "Question: {question}\nAccepted answers: {answers}\nGiven answer: {output}\n"
    "Does the given answer say the same as an accepted one? Reply with yes or no only."
)
"""The prompt that judges an answer which matches no accepted one word for word."""

PAIRS = ("answer", "exact", "correct", "contains", "regex", "abstains")
"""The words that :func:`predicate_pair` knows."""

_YES = frozenset({"yes", "true", "correct", "1", "y"})
_NO = frozenset({"no", "false", "incorrect", "0", "n", "wrong"})


def judged(
    generator: Generator,
    prompt: str,
    *,
    holds: str = "the judge says yes",
    fails: str = "the judge says no",
    unclear: bool | None = None,
    **parts: str,
) -> OutputPredicate:
    """A predicate that a model answers with yes or no.

    The prompt is sent as the text of a query without documents; new outputs of a batch go to the
    model together. Let it decode greedily, and put an ``AnswerCache`` in front of it to have every
    verdict asked once.

    Args:
        generator: the judge.
        prompt: what it is asked; ``{output}`` stands for the output, further names in braces for
            ``parts``.
        holds: the condition in words.
        fails: its opposite in words.
        unclear: what a reply that is neither yes nor no counts as; an error by default.
        parts: what else the prompt names.

    Raises:
        ConfigError: the prompt does not name ``{output}``, or names an unknown part.
        SamplingError: the judge decodes by chance.
    """
    refuse_sampling_generator(generator)
    if "{output}" not in prompt:
        raise ConfigError("the judge's prompt does not contain {output}", key="prompt")
    names = set(re.findall(r"\{(\w+)\}", prompt)) - {"output"}
    if names - parts.keys():
        raise ConfigError(
            f"the judge's prompt names {', '.join(sorted(names - parts.keys()))}", key="prompt"
        )

    def ask(outputs: Sequence[str]) -> list[bool]:
        requests = [
            GenerationRequest(Query(f"judge-{i}", _filled(prompt, {**parts, "output": output})))
            for i, output in enumerate(outputs)
        ]
        replies = [completion.text for completion in generator.generate(requests)]
        return [_verdict(r, o, unclear) for r, o in zip(replies, outputs, strict=True)]

    return OutputPredicate(lambda output: ask([output])[0], holds, fails, ask)


def judged_correct(
    generator: Generator, question: str, answers: Iterable[str], *, contained: bool = True
) -> OutputPredicate:
    """The output is correct: it matches an accepted answer, or else the judge says so.

    Args:
        generator: the judge; asked only about outputs that match no accepted answer.
        question: what was asked.
        answers: every accepted answer.
        contained: count an output that contains an accepted answer as a match.

    Raises:
        ConfigError: there is no accepted answer.
    """
    accepted = [answers] if isinstance(answers, str) else list(answers)
    matches = is_correct(accepted, contained=contained)
    judge = judged(generator, CORRECTNESS, question=question, answers="; ".join(accepted))

    def ask(outputs: Sequence[str]) -> list[bool]:
        verdicts = {output: matches(output) for output in outputs}
        # An empty output is no answer, whatever a judge makes of it.
        waiting = [output for output, right in verdicts.items() if not right and output.strip()]
        verdicts.update(zip(waiting, judge.many(waiting) if waiting else (), strict=True))
        return [verdicts[output] for output in outputs]

    return OutputPredicate(lambda o: ask([o])[0], matches.holds, matches.fails, ask)


def predicate_pair(
    word: str,
    *,
    answer: str = "",
    answers: Iterable[str] = (),
    question: str = "",
    judge: Generator | None = None,
) -> tuple[OutputPredicate, OutputPredicate]:
    """A predicate for retention rules and its opposite for omission rules, by one word.

    Args:
        word: ``answer`` (the output matches the answer at hand), ``exact`` (it equals it),
            ``correct`` (it is an accepted answer), ``contains:TEXT``, ``regex:PATTERN`` or
            ``abstains``; ``not`` before the word swaps the pair.
        answer: the answer at hand.
        answers: the accepted answers.
        question: what was asked, for the judge.
        judge: asked about outputs that match no accepted answer, where there is one.

    Raises:
        ConfigError: the word is unknown, or what it needs is missing.
    """
    name, _, detail = word.removeprefix("not ").partition(":")
    if name not in PAIRS:
        raise ConfigError(
            f"unknown predicate {word!r}", key="predicate", hint=did_you_mean(name, PAIRS)
        )
    if name in ("contains", "regex") and not detail:
        raise ConfigError(f"{name!r} needs a text", key="predicate", hint=f"write {name}:TEXT")
    if name == "correct" and judge is not None:
        predicate = judged_correct(judge, question, answers)
    else:
        makers: dict[str, Callable[[], OutputPredicate]] = {
            "answer": lambda: matches_answer(answer),
            "exact": lambda: equals(answer),
            "correct": lambda: is_correct(answers),
            "contains": lambda: contains(detail),
            "regex": lambda: regex(detail),
            "abstains": abstains,
        }
        predicate = makers[name]()
    return (~predicate, predicate) if word.startswith("not ") else (predicate, ~predicate)


def _filled(prompt: str, parts: dict[str, str]) -> str:
    """The prompt with its parts; braces elsewhere, as in an output, stay as they are."""
    return re.sub(r"\{(\w+)\}", lambda match: parts.get(match[1], match[0]), prompt)


def _verdict(reply: str, output: str, unclear: bool | None) -> bool:
    if not reply.strip():
        raise EmptyCompletionError(
            f"the judge said nothing about the output {shortened(repr(output), 200)}",
            hint="ask again, or take another judge; no reply is no verdict",
        )
    words = normalize_answer(reply).split()
    if words and words[0] in _YES:
        return True
    if words and words[0] in _NO:
        return False
    if unclear is None:
        raise PredicateError(
            f"the judge said {shortened(repr(reply), 100)}, neither yes nor no, "
            f"about the output {shortened(repr(output), 200)}",
            hint="say what an unclear reply counts as (unclear=False)",
        )
    return unclear
