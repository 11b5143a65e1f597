"""Prompts for small readers: patterns to look for, then documents, one short line each.

A small model pays for every token and every step of thought. So ``@`` stands for the question's
subject wherever a line begins or ends with it (entity markers, as in Hermann et al.,
arXiv:1506.03340), and each guiding rule is shown as the words that a supporting document holds:
``>`` before words that the answer follows, ``<`` before words that the answer precedes. Without
rules the relation of the question itself is the pattern. Dates are left out: documents come best
first, from before the question. The completion is the document that a pattern was found in, with a
bar between pattern and answer::

    > @ Make a visit
    < Host a visit @
    = Japan Make a visit Iran
    = Iran Host a visit @
    : < Iran | Host a visit @
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from rulerag.composition import register
from rulerag.generation.prompts.template import Citation, PromptTemplate, first_answer
from rulerag.rules import Rule
from rulerag.types import Document, GenerationRequest

_MARK = "@"
_DATE = re.compile(r"^Time \d\S*(?: \d+:\d+)? ")
_ATOM = re.compile(r"^Entity \d+, (.*), Entity \d+$", re.DOTALL)
_SIGNED = re.compile(r"^([<>])\s+(.*?)\s*\|\s*(.*)$", re.DOTALL)


@register("prompt", "compact")
class CompactTemplate(PromptTemplate):
    """Prompts of patterns and documents; arguments as those of the parent.

    Instruction, order, cases, headings and the query's cue do not show.
    """

    instruction: str = ""
    target: Literal["answer", "citation", "text"] = "citation"
    answer_cue: str = ":"

    def parse(self, completion: str, request: GenerationRequest | None = None) -> str:
        """The answer: behind the bar after ``>``, before it after ``<``; empty when none.

        A bar that is missing or misplaced is put where a pattern of the request ends: a model that
        copied the right document may miss the border between an entity and the words of a
        relation, which only the pattern shows.
        """
        line = completion.strip().partition("\n")[0].strip()
        if request is not None and (answer := self._by_pattern(line, request)):
            return answer
        signed = _SIGNED.match(line)
        if signed is None:
            return first_answer(completion.lstrip("<> "), self.answer_cue)
        return signed.group(3 if signed.group(1) == ">" else 2).strip()

    def _by_pattern(self, line: str, request: GenerationRequest) -> str:
        """The answer where the bar does not stand behind a pattern; empty where it does."""
        patterns = _patterns(request if self.rules else replace(request, rules=()))
        sides = self.cited(line)
        if sides and f"{line[0]} {sides[0 if line[0] == '>' else 1]}" in patterns:
            return ""
        words = " ".join(line.lstrip("<>").replace("|", " ").split())
        for sign, named in (one.split(" ", 1) for one in patterns if not one.startswith("*")):
            if sign == ">" and words.startswith(f"{named} "):
                return words.removeprefix(f"{named} ")
            before, found, _ = words.partition(f" {named.removesuffix(f' {_MARK}')} ")
            if sign == "<" and found and before:
                return before
        return ""

    def read_by(self, request: GenerationRequest) -> tuple[str, ...]:
        """Nothing: patterns are shown."""
        return ()

    def cited(self, completion: str) -> tuple[str, ...]:
        """The two sides of the bar, which together are the document; empty when there is none."""
        signed = _SIGNED.match(completion.strip().partition("\n")[0].strip())
        return (signed.group(2).strip(), signed.group(3).strip()) if signed else ()

    def completion(self, answer: str, fact: Citation | tuple[str, str] | None = None) -> str:
        """What a model should write after the prompt, for training.

        Args:
            answer: the answer in words.
            fact: the other end and the relation of the supporting fact in words; the question's
                subject is not shown, a bridge is.
        """
        if fact is None:
            return f" {answer}"
        cited = Citation(*fact)
        end = cited.subject if cited.bridge else _MARK
        if cited.inverse:
            return f" < {answer} | {cited.relation} {end}"
        return f" > {end} {cited.relation} | {answer}"

    def line(self, document: Document, request: GenerationRequest) -> str:
        """A document as it is shown, with the mark in place of the question's subject at one end.

        A good citation repeats it with a bar put in. A document that states facts is marked where
        they name the subject: "China Daily" is not "China". A text of unknown content is marked
        where it begins or ends with the subject's words.
        """
        query, text = request.query, _undated(document.text).removesuffix(".")
        subject = query.subject_words
        first = last = bool(subject)
        if document.facts:
            first = any(fact.subject == query.subject for fact in document.facts)
            last = any(fact.object == query.subject for fact in document.facts)
        if first and text.startswith(f"{subject} "):
            return _MARK + text[len(subject) :]
        if last and text.endswith(f" {subject}"):
            return text[: -len(subject)] + _MARK
        return text

    def _text(self, request: GenerationRequest, documents: Sequence[Document]) -> str:
        lines = _patterns(request if self.rules else replace(request, rules=()))
        shown = documents[::-1] if self.best_last else documents
        lines += [f"= {self.line(document, request)}" for document in shown]
        return "".join(f"\n{line}" for line in [*lines, self.answer_cue])


def _undated(text: str) -> str:
    return _DATE.sub("", text)


def _patterns(request: GenerationRequest) -> list[str]:
    """What to look for: the rules from the question's subject, else the relation of the question.

    A question whose subject or relation is not known is shown in its own words.
    """
    query = request.query
    if not query.subject or not query.relation:
        return [f"> {_undated(query.text)}"]
    if not request.rules:
        return [f"> {_MARK} {query.relation_words}"]
    return [_pattern(rule) for rule in request.rules]


def _pattern(rule: Rule) -> str:
    """A rule's body as a walk from the subject; the rule's own words where it is none."""
    atoms = _atoms(rule)
    here = rule.head.subject
    steps: list[str] = []
    for atom, words in zip(rule.body, atoms[:-1], strict=False):
        if here not in (atom.subject, atom.object):
            return f"* {rule.text}"
        forwards = atom.subject == here
        here = atom.object if forwards else atom.subject
        named = words if steps else f"{_MARK} {words}" if forwards else f"{words} {_MARK}"
        steps.append(f"{'>' if forwards else '<'} {named}")
    return " ".join(steps) if steps and here == rule.head.object else f"* {rule.text}"


def _atoms(rule: Rule) -> list[str]:
    """The relations in words, of the body's atoms and of the head; empty if they do not show."""
    body, _, head = rule.text.rpartition(" leads to ")
    parts = [*body.removeprefix("[").removesuffix("]").split("] and ["), head.strip("[].")]
    found = [_ATOM.match(part) for part in parts]
    if len(parts) != len(rule.body) + 1 or not all(found):
        return []
    return [match.group(1) for match in found if match]
