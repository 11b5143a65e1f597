"""Output predicates: questions with the answer yes or no about one output.

Any function from a text to a Boolean is a predicate. Those made here also say in words what they
ask, and ``~predicate`` is their opposite. A language model can be the judge of outputs.

References:
    Rorseth et al. 2025 (arXiv:2510.22689), section 3.1: the output predicate O.
    Zheng et al. 2023 (NeurIPS 37): models as judges.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rulerag.composition import check_choice
from rulerag.errors import ConfigError, EmptyCompletionError, GenerationError, PredicateError
from rulerag.explanation.probing.generators import refuse_sampling_generator
from rulerag.protocols import Generator
from rulerag.text import contains_answer, exact_match, normalize_answer, shortened
from rulerag.types import GenerationRequest, Query, SelfExplanation

Predicate = Callable[[str], bool]
"""A question with the answer yes or no about one output."""

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
        search = re.compile(pattern, re.IGNORECASE).search
    except re.error as error:
        raise ConfigError(f"not a regular expression: {pattern!r} ({error})") from error
    return _of_output(lambda output: search(output) is not None, "matches", f"/{pattern}/")


def is_correct(answers: Iterable[str]) -> OutputPredicate:
    """The output is one of the acceptable answers, normalised.

    Args:
        answers: every acceptable answer.

    Raises:
        ConfigError: there is no acceptable answer.
    """
    accepted = [answers] if isinstance(answers, str) else list(answers)
    if not accepted:
        raise ConfigError("correctness needs at least one acceptable answer", key="answers")
    words = "the output is correct", "the output is incorrect"
    return OutputPredicate(lambda output: exact_match(output, accepted) > 0, *words)


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


def predicate_of(word: str, *, answer: str = "", answers: Iterable[str] = ()) -> OutputPredicate:
    """A predicate by one word, as on the command line.

    Args:
        word: ``answer`` (the output matches the answer at hand), ``exact`` (it equals it),
            ``correct`` (it is an accepted answer), ``contains:TEXT``, ``regex:PATTERN`` or
            ``abstains``; ``not`` before the word for the opposite.
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
    check_choice("predicate", name, makers)
    if name in ("contains", "regex") and not detail:
        raise ConfigError(f"{name!r} needs a text", key="predicate", hint=f"write {name}:TEXT")
    return ~makers[name]() if word.startswith("not ") else makers[name]()


def of_short_answers(correct: Predicate, read: Callable[[str], SelfExplanation]) -> OutputPredicate:
    """A condition of short answers as one of whole explanations; without an answer it fails."""
    own = named(correct)

    def many(outputs: Sequence[str]) -> list[bool]:
        answers = [read(output).answer for output in outputs]
        values = iter(own.many(list(filter(None, answers))) if any(answers) else ())
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
        self._values = np.pad(self._values, (0, fresh), constant_values=-1)
        waiting = np.unique(codes[self._values[codes] < 0])
        if waiting.size:
            self._values[waiting] = self._ask([self._outputs[code] for code in waiting])
        holds: npt.NDArray[np.bool_] = self._values[codes] == 1
        return holds

    def _ask(self, outputs: list[str]) -> list[bool]:
        many = getattr(self._predicate, "many", None)
        if many is None:
            values = [evaluated("predicate", self._predicate, output) for output in outputs]
        else:
            values = evaluated("predicate", lambda texts: list(many(texts)), outputs)
        if len(values) != len(outputs):
            what = f"{len(values)} verdicts on {len(outputs)} outputs"
            raise PredicateError(f"the predicate gave {what}")
        for value, output in zip(values, outputs, strict=True):
            if not isinstance(value, bool | np.bool_ | int):
                raise PredicateError(
                    f"the predicate returned {value!r} on the output {_cut(output)}",
                    hint="return True or False",
                )
        return list(map(bool, values))


def evaluated(what: str, function: Callable[[Any], Any], output: Any) -> Any:
    """The value of a predicate or a score for one output, or for a list of them.

    Raises:
        PredicateError: the function raised; names it and the output.
        GenerationError: a judging model failed.
    """
    try:
        return function(output)
    except (PredicateError, GenerationError):
        raise
    except Exception as error:
        place = f"the output {_cut(output)}"
        if isinstance(output, list):
            place = f"{len(output)} outputs, the first {_cut(output[0])}"
        raised = f"the {what} raised {type(error).__name__}: {error}"
        raise PredicateError(f"{raised}, on {place}") from error


def _cut(output: object) -> str:
    return shortened(repr(output), 200)
