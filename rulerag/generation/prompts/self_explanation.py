"""Prompts that ask a model to explain itself: thought, keywords, short answer; and the way back.

The three messages are those of the paper: the system's, the user's with text and question, and the
assistant's form, which solved cases show; without cases the user's message states it.

References:
    Fragkathoulas and Chlapanis 2024 (SETN, doi 10.1145/3688671.3688775), section 3.4.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal

import pydantic

from rulerag.composition import register
from rulerag.generation.prompts.parsing import first_answer, without_thought
from rulerag.generation.prompts.template import Case, PromptTemplate
from rulerag.types import Document, GenerationRequest, SelfExplanation

_SYSTEM = (
    "To answer the given question, first generate a thought that explains the answer according to "
    "the text, then identify the most important words (keywords) from the text that helped you "
    "with your thought, and finally provide a short answer."
)
_TEXT = "The following text might be useful in answering the question: "
_QUESTION = "Question: "
# A line for each part: small models leave parts out where commas stand between them.
_FORM = "Thought: [thought process]\nKeywords: [keywords]\nShort answer: [answer]"

_PARTS = ("thought", "keywords", "answer")
_NAMES = {
    "thought": r"thoughts?(?: process)?|reasoning",
    "keywords": r"(?:most )?(?:important )?key ?words?(?: from the text)?",
    "answer": r"(?:short|final)[ _-]answer",
}
# At the beginning of a line: a mark of a list or of a heading.
_LISTED = r"^[ \t]*(?:[-*•#>]+|\(?\d{1,2}[.)])[ \t]+"
_DECORATION = r"[*_`\"'#>]*"
# A name anywhere behind a space or a mark, with a colon; the bare word "answer" begins a line.
_LABEL = re.compile(
    rf"(?:{_LISTED}|(?<![^\s,.;|\"'*_`({{\[#>-])){_DECORATION}(?:"
    + "|".join(f"(?P<{part}>{names})" for part, names in _NAMES.items())
    + rf")(?:\s*\([^()\n]*\))?{_DECORATION}\s*[:\uff1a]{_DECORATION}",
    re.IGNORECASE | re.MULTILINE,
)
_BARE = re.compile(
    rf"(?:{_LISTED}|^[ \t]*){_DECORATION}(?P<answer>answer){_DECORATION}\s*[:\uff1a]{_DECORATION}",
    re.IGNORECASE | re.MULTILINE,
)
# Models that continue text go on with a question of their own.
_FURTHER = re.compile(rf"(?<=\S)\s*\n\s*(?:{_TEXT.strip()}|{_QUESTION.strip()})")
_FENCE = re.compile(r"^\s*```\w*\s*$", re.MULTILINE)
_MARK = re.compile(r"^(?:[-*•–]|\(?\d{1,2}[.)])\s+")
# Commas and semicolons, those of Arabic and Chinese too; not commas of numbers (150,782).
_PARTED = re.compile(r"[;\n|\u060c\u061b\u3001\uff0c\uff1b]|(?<!\d),|,(?!\d)")
# The comma of an English date ("May 18, 2018") does not, either.
_DATE = re.compile(
    r"(\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.? \d{1,2}(?:st|nd|rd|th)?),"
    r"(?= \d{4}\b)",
    re.IGNORECASE,
)
_HELD = "\ue000"
_QUOTED = re.compile(
    r"\s*(?:\"([^\"\n]+)\"|“([^”\n]+)”|«([^»\n]+)»|'([^'\n]+)'(?=\s*(?:[,;\n]|$)))"
)
_AROUND = " \t\n\r,;\"'`*_“”«»\u2018\u2019"
# What models copy of the form instead of filling it in.
_COPIED = frozenset(
    {"thought process", "thought", "keywords", "keyword", "answer", "short answer", "...", "…"}
)
_NOTHING = frozenset({"none", "n/a", "null"})


class ExplainedCase(Case):
    """One solved case with the explanation that a model should give.

    Args:
        documents: the text.
        query: the question.
        answer: its short answer.
        thought: why, in a sentence.
        keywords: words of the text.

    Raises:
        ConfigError: a key is missing, unknown or of the wrong kind.
    """

    thought: str = pydantic.Field(min_length=1)
    keywords: tuple[str, ...] = pydantic.Field(min_length=1)

    def __str__(self) -> str:
        """The assistant's message (section 3.4), a line for each part."""
        keywords = ", ".join(self.keywords)
        return f"Thought: {self.thought}\nKeywords: {keywords}\nShort answer: {self.answer}"


EXPLAINED_CASES = tuple(
    ExplainedCase(**row)
    for row in tomllib.loads(
        Path(__file__).with_name("self_explanations.toml").read_text(encoding="utf-8")
    )["case"]
)
"""Three invented cases: texts, questions and explanations about invented places and people."""


@register("prompt", "self-explanation")
@register("prompt", "self-explanation-few-shot", make="few_shot")
class SelfExplanationTemplate(PromptTemplate):
    """Asks for a thought, keywords of the text and a short answer.

    The text are the documents, one below the other; guiding rules do not show, and neither do the
    instruction, headings, order and cues of :class:`PromptTemplate`. Chat models read solved cases
    as turns of the conversation; others read all of it as one text that ends in ``Thought:``.

    Args:
        system: the message of the system.
        cases: solved cases before the question (few-shot). Without any the form of the answer is
            stated behind the question.
        returns: what a completion is: the short ``answer``, as for any reader, or the whole
            ``explanation``, which :func:`read_self_explanation` reads.

    Raises:
        ConfigError: an unknown setting, or a value that does not fit.
    """

    instruction: str | None = ""
    rules: bool = False
    cases: tuple[ExplainedCase, ...] = ()
    system: str = _SYSTEM
    answer_cue: str = ""
    returns: Literal["answer", "explanation"] = "answer"

    @pydantic.field_validator("cases", mode="before")
    @classmethod
    def _cases(cls, values: Any) -> Any:
        rows = values if isinstance(values, Sequence) else ()
        stated = [ExplainedCase.read(r, where="cases") for r in rows if isinstance(r, Mapping)]
        return tuple(stated) if stated else values

    @classmethod
    def few_shot(
        cls, cases: Sequence[Case] = EXPLAINED_CASES, **changes: Any
    ) -> SelfExplanationTemplate:
        """Solved cases (:class:`ExplainedCase`) before the question; three invented by default."""
        return cls(**{"cases": tuple(cases), **changes})

    @property
    def stop(self) -> str:
        """The beginning of a further question, which models that continue text go on to write."""
        return f"\n{_TEXT if self.cases else _QUESTION}".rstrip()

    def is_complete(self, text: str) -> bool:
        """Whether a short answer stands in it, or another question follows."""
        return bool(_FURTHER.search(text) or read_self_explanation(text).answer)

    def whole(self) -> SelfExplanationTemplate:
        """The same template, for completions that are whole explanations."""
        return self.model_copy(update={"returns": "explanation"})

    def parse(self, completion: str, request: GenerationRequest | None = None) -> str:
        """The short answer in a completion, empty where none is labelled; or all of it."""
        if self.returns == "explanation":
            return without_thought(completion).strip()
        return read_self_explanation(completion).answer

    @staticmethod
    def explained(completion: str) -> SelfExplanation:
        """What a whole completion says: :func:`read_self_explanation`."""
        return read_self_explanation(completion)

    def conversation(self, text: str) -> list[dict[str, str]]:
        """The messages of the system, of solved cases by turns, and of the user."""
        turns = [{"role": "system", "content": self.system}] if self.system else []
        for case in self.cases:
            turns.append({"role": "user", "content": _turn(case.documents, case.query)})
            turns.append({"role": "assistant", "content": str(case)})
        return [*turns, {"role": "user", "content": text}]

    def continued(self, text: str) -> str:
        """All of it as one text, with the beginning of a thought."""
        cases = [f"{_turn(case.documents, case.query)}\n{case}\n" for case in self.cases]
        return "\n".join([*([self.system] if self.system else []), *cases, text, "Thought:"])

    def messages(self, question: str, text: str = "") -> list[dict[str, str]]:
        """The messages for a question, for any function that takes messages.

        Args:
            question: what is asked.
            text: the text that may help; empty for a question without one.
        """
        return self.conversation(self._user_message([text] if text.strip() else [], question))

    def _text(self, request: GenerationRequest, documents: Sequence[Document]) -> str:
        return self._user_message([document.text for document in documents], request.query.text)

    def _user_message(self, documents: Sequence[str], question: str) -> str:
        turn = _turn(documents, question)
        return turn if self.cases else f"{turn}\nAnswer in this form:\n{_FORM}"


def _turn(documents: Sequence[str], question: str) -> str:
    """The user's message: a text, where there is one, and a question."""
    text = _TEXT + "\n".join(documents) + "\n" if documents else ""
    return f"{text}{_QUESTION}{question}"


def read_self_explanation(text: str) -> SelfExplanation:
    """The parts of what a model wrote, in whatever form it wrote them.

    A JSON object, labelled lines or labels in one line, with Markdown around them or not; keywords
    as a list, as lines, with quotes or parted by commas. What stands before the first label is the
    thought. What is not labelled is not guessed: the part is missing. So are parts that repeat the
    form (``[keywords]``), and of what a model goes on to write the first explanation counts.
    """
    text = _FURTHER.split(without_thought(text), maxsplit=1)[0]
    found = _from_json(text) or _from_labels(_FENCE.sub("", text))
    thought, keywords, answer = (found.get(part, "") for part in _PARTS)
    return SelfExplanation(
        thought=thought,
        keywords=tuple(dict.fromkeys(keywords)),
        answer=answer,
        missing=tuple(part for part in _PARTS if not found.get(part)),
    )


def _from_json(text: str) -> dict[str, Any]:
    """The parts of the first object that names one; empty without such an object."""
    decoder, start = json.JSONDecoder(), text.find("{")
    while start >= 0:
        try:
            value = decoder.raw_decode(text, start)[0]
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict):
            parts = {_part(str(key)): one for key, one in value.items()}
            if found := {part: one for part, one in parts.items() if part}:
                return _of_values(found)
        start = text.find("{", start + 1)
    return {}


def _part(name: str) -> str:
    bare = re.sub(r"[_-]", " ", name).strip().lower()
    if bare == "answer":
        return bare
    return next((part for part, names in _NAMES.items() if re.fullmatch(names, bare)), "")


def _of_values(values: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for part, value in values.items():
        if part == "keywords":
            many = value if isinstance(value, list) else _keywords(str(value or ""))
            found[part] = tuple(
                filter(
                    None, (_item(str(one)) for one in many if isinstance(one, str | int | float))
                )
            )
            continue
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            found[part] = _filled(str(value))
    return found


def _from_labels(text: str) -> dict[str, Any]:
    """The parts behind labels; the first of each."""
    labels = list(_labels(text))
    found: dict[str, Any] = {}
    if labels and labels[0][0] != "thought" and (before := _filled(text[: labels[0][1]])):
        found["thought"] = before
    for (part, _, start), end in zip_longest(labels, [label[1] for label in labels[1:]]):
        section = text[start:end]
        if part in found and (part != "thought" or found.keys() > {"thought"}):
            break  # it begins to explain another question
        if part == "keywords":
            found[part] = tuple(filter(None, map(_item, _keywords(section))))
        elif part == "answer":
            found[part] = _filled(first_answer(section.strip().strip("_*`,")))
        else:
            found[part] = _filled(section)
    return found


def _labels(text: str) -> Iterator[tuple[str, int, int]]:
    """Part, start and end of each label; the bare word "answer" where nothing is said better."""
    found = [(str(m.lastgroup), m.start(), m.end()) for m in _LABEL.finditer(text)]
    if not any(part == "answer" for part, _, _ in found):
        found += [("answer", m.start(), m.end()) for m in _BARE.finditer(text)]
    return iter(sorted(found, key=lambda label: label[1]))


def _filled(text: str) -> str:
    """A part on one line without marks around it; empty where it only repeats the form."""
    line = " ".join(text.split()).strip(_AROUND)
    bare = line.strip("[](){}<> .").lower()
    return "" if bare in _COPIED or not bare else line.removeprefix("[").removesuffix("]")


def _item(text: str) -> str:
    line = _filled(_MARK.sub("", text.strip()))
    return "" if line.lower() in _NOTHING else line.removesuffix(".").strip()


def _keywords(section: str) -> list[str]:
    """The keywords of a section: a list in brackets, quoted ones, lines, or commas between them."""
    section = _DATE.sub(rf"\1{_HELD}", section.strip())
    inside = re.match(r"\[([^\[\]]*)\]", section)
    if inside:
        section = inside[1]
    elif "\n" in section:
        section = "\n".join(_listed(section.splitlines()))
    items, position = [], 0
    while position < len(section):
        quoted = _QUOTED.match(section, position)
        if quoted:
            items.append(next(filter(None, quoted.groups())))
            position = quoted.end()
        parted = _PARTED.search(section, position)
        end = parted.start() if parted else len(section)
        if not quoted:
            items.append(section[position:end])
        position = parted.end() if parted else len(section)
    return [item.replace(_HELD, ",") for item in items]


def _listed(lines: Sequence[str]) -> Iterator[str]:
    """The lines that go on with a list: marked ones, and those behind a comma."""
    going_on = True
    for line in lines:
        text = line.strip()
        marked = bool(_MARK.match(text))
        if text and (going_on or marked):
            yield text
            going_on = text.endswith((",", ";")) and not marked
