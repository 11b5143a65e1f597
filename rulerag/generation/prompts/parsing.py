"""The answer in what a model wrote.

Models set words around an answer, or repeat what they read. The rules, in this order; each was
made for what real models wrote (SmolLM2-135M-Instruct, Gemma 3 270M; the tests hold their words):

1. what stands before ``</think>``, or behind a ``<think>`` that never ends, is a thought;
2. of the first line with text that says more than "The answer is:" the rest counts;
3. a repeated cue, the mark of a list (``1.``, ``-``) and words that announce an answer go:
   "The answer is", "The answer to the question is:", "The document states that";
4. outer quotes and the final full stop go; a dot of a name stays (``J. R.``, ``Washington D.C.``);
5. a statement of the question's relation is answered by what follows the relation's words;
6. of names in brackets, ``[Michel Gill, Amber Rudd]``, the first that is not the subject answers.

A restated document of another relation is left alone: ``answers: named`` finds the entity in it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rulerag.types import GenerationRequest

# A dot after one of several initials, or after a short title, belongs to the name: J. R., D.C., Jr.
_NAME_DOT = re.compile(r"[^\W\d_]\. ?[^\W\d_]\.$|(?:^|\s)(?:Jr|Sr|Inc|Ltd|Co|Corp|St|Dr|Mr|Mrs)\.$")
# What chat models set before an answer: a mark of a list, and words that announce it.
_MARK = re.compile(r"^(?:[-*•–]|\(?\d{1,2}[.)])\s+")
_ANNOUNCED = re.compile(
    r"^(?:so,? |therefore,? )?(?:(?:the )?(?:final |correct |missing )?"
    r"(?:answer|object|entity|name)(?: to (?:the|this) (?:question|query)(?: \".*?\")?)?"
    r"(?:(?-i: is)?:|(?-i: is))|the document states that)(?=\s|$)\s*",
    re.IGNORECASE,
)
_FEW = 3
"""Words of a line that may stand twice, as in a list or in code."""
# What reasoning models write before they answer; their chat template may have begun it.
_THOUGHT = re.compile(r"\A(?:.*?</think>|\s*<think>.*\Z)", re.DOTALL)


def without_thought(completion: str) -> str:
    """A completion without what stands before ``</think>``, or behind a ``<think>`` left open."""
    return _THOUGHT.sub("", completion, count=1)


def before_repeats(completion: str, cues: Sequence[str]) -> tuple[str, bool]:
    """A text of several lines until a model begins again, and whether it does.

    Small models that continue text say a line again, or make up a further question.

    Args:
        completion: what was written.
        cues: what a further question, or its answer, begins with.
    """
    lines = list[str]()
    for line in completion.strip().splitlines():
        again = len(line.split()) > _FEW and line in lines
        if lines and (again or line.startswith(tuple(cues))):
            return "\n".join(lines).strip(), True
        lines.append(line)
    return "\n".join(lines), False


def first_answer(completion: str, cue: str = "") -> str:
    """The first line with text, without what models set around an answer.

    That is, in this order: a thought before it, a repeated cue, the mark of a list,
    words that announce an answer ("The answer is"), outer quotes, the final full stop.
    """
    for line in without_thought(completion).splitlines():
        text = line.strip()
        if cue and text.lower().startswith(cue.lower()):
            text = text[len(cue) :].strip()
        text = _ANNOUNCED.sub("", _MARK.sub("", text))
        if text:
            return _unquoted(_without_full_stop(text))
    return ""


def _without_full_stop(text: str) -> str:
    if not text.endswith("."):
        return text
    if text.endswith(".."):  # the name's own dot, then the full stop; or an ellipsis
        bare = text.rstrip(".")
        return f"{bare}." if _NAME_DOT.search(f"{bare}.") else bare.rstrip()
    return text if _NAME_DOT.search(text) else text[:-1].rstrip()


def _unquoted(text: str) -> str:
    for mark in ('"', "'", "`", "**"):
        if len(text) > 2 * len(mark) and text.startswith(mark) and text.endswith(mark):
            return _without_full_stop(text[len(mark) : -len(mark)].strip())
    return text


def not_restated(answer: str, request: GenerationRequest) -> str:
    """The part of a line that answers, where the line restates the question.

    Args:
        answer: as :func:`first_answer` gives it.
        request: what the model read.
    """
    query = request.query
    if answer.startswith("[") and answer.endswith("]"):
        names = [name.strip() for name in answer[1:-1].split(",")]
        others = [name for name in names if name.lower() != query.subject_words.lower()]
        return (others or names)[0]
    relation = query.relation_words
    if not query.subject or not relation:
        return answer
    before, found, behind = answer.partition(f" {relation} ")
    if found and before and behind.strip():
        return behind.strip()
    return answer
