"""Output predicates: questions with the answer yes or no about one output.

Any function from a text to a Boolean is a predicate. Those made here also say in words what they
ask, and ``~predicate`` is their opposite. A language model can be the judge of outputs.

References:
    Rorseth et al. 2025 (arXiv:2510.22689), section 3.1: the output predicate O; section 5.2.1:
    correct by a match with the accepted answers, otherwise by a model's reply.
    Zheng et al. 2023 (NeurIPS 37): models as judges.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rulerag.errors import (
    ConfigError,
    EmptyCompletionError,
    GenerationError,
    PredicateError,
    did_you_mean,
)
from rulerag.explanation.probing.asking import refuse_sampling_generator
from rulerag.explanation.wording import shortened
from rulerag.protocols import Generator
from rulerag.text import contains_answer, exact_match, normalize_answer
from rulerag.types import GenerationRequest, Query, SelfExplanation

Predicate = Callable[[str], bool]
"""A question with the answer yes or no about one output."""

_CORRECTNESS = (
    "Question: {question}\nAccepted answers: {answers}\nGiven answer: {output}\n"
    "Does the given answer say the same as an accepted one? Reply with yes or no only."
)
"""The prompt that judges an answer which matches no accepted one word for word."""

_REPLIES = {
    **dict.fromkeys(("yes", "true", "correct", "1", "y"), True),
    **dict.fromkeys(("no", "false", "incorrect", "0", "n", "wrong"), False),
}


@dataclass(frozen=True, slots=True)
class OutputPredicate:
    """A named predicate.

    Args:
        test: whether an output meets the condition.
        holds: the condition in words, such as ``the output is empty``.
        fails: its opposite in words.
        test_many: the values for several outputs, where asking them together is cheaper.
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
        return list(self.test_many(outputs) if self.test_many else map(self.test, outputs))

    def __invert__(self) -> OutputPredicate:
        """The opposite condition."""

        def fail(outputs: Sequence[str]) -> list[bool]:
            return [not value for value in self.many(outputs)]

        return OutputPredicate(lambda output: not self.test(output), self.fails, self.holds, fail)

    def __str__(self) -> str:
        """The condition in words."""
        return self.holds


_NOT = {"matches": "does not match", "contains": "does not contain", "is exactly": "is not exactly"}


def _of_output(test: Callable[[str], bool], verb: str, what: str) -> OutputPredicate:
    return OutputPredicate(test, f"the output {verb} {what}", f"the output {_NOT[verb]} {what}")


def matches_answer(text: str) -> OutputPredicate:
    """The output equals ``text`` after normalisation (case, punctuation, articles, spaces)."""
    wanted = normalize_answer(text)
    return _of_output(lambda output: normalize_answer(output) == wanted, "matches", repr(text))


def equals(text: str) -> OutputPredicate:
    """The output equals ``text``, character by character."""
    return _of_output(lambda output: output == text, "is exactly", repr(text))


def contains(text: str) -> OutputPredicate:
    """``text`` stands in the output, both normalised, on token boundaries.

    Raises:
        ConfigError: nothing of ``text`` is left after normalisation.
    """
    if not normalize_answer(text):
        raise ConfigError(f"nothing to look for in {text!r}", key="text", hint="give a word")
    return _of_output(lambda output: contains_answer(output, [text]), "contains", repr(text))


def regex(pattern: str) -> OutputPredicate:
    """The regular expression matches somewhere in the output, whatever the case of letters.

    Raises:
        ConfigError: the pattern is not a regular expression.
    """
    try:
        found = re.compile(pattern, re.IGNORECASE).search
    except re.error as error:
        raise ConfigError(f"not a regular expression: {pattern!r} ({error})") from error
    return _of_output(lambda output: found(output) is not None, "matches", f"/{pattern}/")


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
    matches = contains_answer if contained else exact_match
    words = "the output is correct", "the output is incorrect"
    return OutputPredicate(lambda output: matches(output, accepted) > 0, *words)


def abstains() -> OutputPredicate:
    """The output is empty after normalisation."""
    words = "the generator abstains", "the generator does not abstain"
    return OutputPredicate(lambda output: not normalize_answer(output), *words)


def named(predicate: Predicate) -> OutputPredicate:
    """Any predicate with its condition in words; a plain function goes by its name."""
    if isinstance(predicate, OutputPredicate):
        return predicate
    name = getattr(predicate, "__name__", None) or type(predicate).__name__
    return OutputPredicate(predicate, f"{name} holds", f"{name} fails")


def predicate_pair(
    word: str, *, answer: str = "", answers: Iterable[str] = ()
) -> tuple[OutputPredicate, OutputPredicate]:
    """A predicate for retention rules and its opposite for omission rules, by one word.

    Args:
        word: ``answer`` (the output matches the answer at hand), ``exact`` (it equals it),
            ``correct`` (it is an accepted answer), ``contains:TEXT``, ``regex:PATTERN`` or
            ``abstains``; ``not`` before the word swaps the pair.
        answer: the answer at hand.
        answers: the accepted answers.

    Raises:
        ConfigError: the word is unknown, or what it needs is missing.
    """
    name, _, detail = word.removeprefix("not ").partition(":")
    makers: dict[str, Callable[[], OutputPredicate]] = {
        "answer": lambda: matches_answer(answer),
        "exact": lambda: equals(answer),
        "correct": lambda: is_correct(answers),
        "contains": lambda: contains(detail),
        "regex": lambda: regex(detail),
        "abstains": abstains,
    }
    if name not in makers:
        hint = did_you_mean(name, makers)
        raise ConfigError(f"unknown predicate {word!r}", key="predicate", hint=hint)
    if name in ("contains", "regex") and not detail:
        raise ConfigError(f"{name!r} needs a text", key="predicate", hint=f"write {name}:TEXT")
    predicate = makers[name]()
    return (~predicate, predicate) if word.startswith("not ") else (predicate, ~predicate)


def of_short_answers(correct: Predicate, read: Callable[[str], SelfExplanation]) -> OutputPredicate:
    """A condition of short answers as one of whole explanations; without an answer it fails."""
    own = named(correct)

    def many(outputs: Sequence[str]) -> list[bool]:
        answers = [read(output).answer for output in outputs]
        given = [answer for answer in answers if answer]
        values = iter(own.many(given) if given else ())
        return [bool(answer) and next(values) for answer in answers]

    return OutputPredicate(lambda output: many([output])[0], own.holds, own.fails, many)


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
    reply asked for once.

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
    names = set(re.findall(r"\{(\w+)\}", prompt))
    if "output" not in names:
        raise ConfigError("the judge's prompt does not contain {output}", key="prompt")
    if unknown := names - {"output", *parts}:
        raise ConfigError(f"the judge's prompt names {', '.join(sorted(unknown))}", key="prompt")

    def ask(outputs: Sequence[str]) -> list[bool]:
        requests = [
            GenerationRequest(Query(f"judge-{i}", _filled(prompt, {**parts, "output": output})))
            for i, output in enumerate(outputs)
        ]
        replies = [completion.text for completion in generator.generate(requests)]
        return [_value(r, o, unclear) for r, o in zip(replies, outputs, strict=True)]

    return OutputPredicate(lambda output: ask([output])[0], holds, fails, ask)


def judged_correct(generator: Generator, question: str, answers: Iterable[str]) -> OutputPredicate:
    """The output is correct: it contains an accepted answer, or else the judge says so.

    Args:
        generator: the judge; asked only about outputs that match no accepted answer.
        question: the text of the query.
        answers: every accepted answer.

    Raises:
        ConfigError: there is no accepted answer.
    """
    accepted = [answers] if isinstance(answers, str) else list(answers)
    matches = is_correct(accepted, contained=True)
    judge = judged(generator, _CORRECTNESS, question=question, answers="; ".join(accepted))

    def ask(outputs: Sequence[str]) -> list[bool]:
        right = {output: matches(output) for output in outputs}
        # An empty output is no answer, whatever a judge makes of it.
        waiting = [output for output, holds in right.items() if not holds and output.strip()]
        right.update(zip(waiting, judge.many(waiting) if waiting else (), strict=True))
        return [right[output] for output in outputs]

    return OutputPredicate(lambda o: ask([o])[0], matches.holds, matches.fails, ask)


def _filled(prompt: str, parts: dict[str, str]) -> str:
    """The prompt with its parts; braces elsewhere, as in an output, stay as they are."""
    return re.sub(r"\{(\w+)\}", lambda match: parts.get(match[1], match[0]), prompt)


def _value(reply: str, output: str, unclear: bool | None) -> bool:
    about = f"about the output {shortened(repr(output), 200)}"
    if not reply.strip():
        hint = "ask again, or take another judge; no reply is no verdict"
        raise EmptyCompletionError(f"the judge said nothing {about}", hint=hint)
    word = (normalize_answer(reply).split() or [""])[0]
    value = _REPLIES.get(word, unclear)
    if value is None:
        raise PredicateError(
            f"the judge said {shortened(repr(reply), 100)}, neither yes nor no, {about}",
            hint="say what an unclear reply counts as (unclear=False)",
        )
    return value


class PredicateValues:
    """A predicate over output codes; it is called once for each distinct output.

    Args:
        predicate: what is asked of an output; one with a method ``many`` (outputs to their values)
            gets all the new outputs of a batch at once.
        outputs: the distinct outputs of an engine, a list that grows; a code is an index of it.

    Raises:
        PredicateError: when called, if the predicate raised or did not return a Boolean.
        GenerationError: when called, if a judging model failed; that is never a value.
    """

    def __init__(self, predicate: Predicate, outputs: Sequence[str]) -> None:
        self._predicate = predicate
        self._outputs = outputs
        self._values = np.zeros(0, dtype=np.int8)  # -1 not known, 0 fails, 1 holds

    def __call__(self, codes: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
        """Whether the predicate holds, for each code."""
        fresh = len(self._outputs) - self._values.size
        if fresh:
            self._values = np.append(self._values, np.full(fresh, -1, dtype=np.int8))
        values = self._values[codes]
        waiting = codes[values < 0]
        if waiting.size:
            fresh_codes = np.unique(waiting)
            self._values[fresh_codes] = self._ask([self._outputs[c] for c in fresh_codes])
            values = self._values[codes]
        holds: npt.NDArray[np.bool_] = values == 1
        return holds

    def _ask(self, outputs: list[str]) -> list[bool]:
        many = getattr(self._predicate, "many", None)
        values: list[object]
        if many is None:
            values = [evaluated("predicate", self._predicate, output) for output in outputs]
        else:
            values = evaluated("predicate", lambda all_of_them: list(many(all_of_them)), outputs)
        if len(values) != len(outputs):
            found = f"{len(values)} verdicts on {len(outputs)} outputs"
            raise PredicateError(f"the predicate gave {found}")
        for value, output in zip(values, outputs, strict=True):
            if not isinstance(value, bool | np.bool_ | int):
                raise PredicateError(
                    f"the predicate returned {value!r} on the output {_cut(output)}",
                    hint="return True or False",
                )
        return list(map(bool, values))


def evaluated(what: str, function: Callable[[Any], Any], said: Any) -> Any:
    """What a predicate or a score makes of one output, or of a list of them.

    Raises:
        PredicateError: the function raised; names it and the output.
        GenerationError: a judging model failed.
    """
    try:
        return function(said)
    except (PredicateError, GenerationError):
        raise
    except Exception as error:
        place = f"the output {_cut(said)}"
        if isinstance(said, list):
            place = f"{len(said)} outputs, the first {_cut(said[0])}"
        raised = f"the {what} raised {type(error).__name__}: {error}"
        raise PredicateError(f"{raised}, on {place}") from error


def _cut(output: object) -> str:
    return shortened(repr(output), 200)
