"""A language model as the judge of outputs.

References:
    Rorseth et al. 2025 (arXiv:2510.22689), section 5.2.1: correct by a match with the accepted
    answers, otherwise by a model's reply.
    Zheng et al. 2023 (NeurIPS 37): models as judges.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from rulerag.errors import ConfigError, EmptyCompletionError, PredicateError
from rulerag.explanation.probing.asking import refuse_sampling_generator
from rulerag.explanation.probing.predicates import OutputPredicate, is_correct
from rulerag.explanation.wording import shortened
from rulerag.protocols import Generator
from rulerag.text import normalize_answer
from rulerag.types import GenerationRequest, Query

_CORRECTNESS = (
    "Question: {question}\nAccepted answers: {answers}\nGiven answer: {output}\n"
    "Does the given answer say the same as an accepted one? Reply with yes or no only."
)
"""The prompt that judges an answer which matches no accepted one word for word."""

_REPLIES = {
    **dict.fromkeys(("yes", "true", "correct", "1", "y"), True),
    **dict.fromkeys(("no", "false", "incorrect", "0", "n", "wrong"), False),
}


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
