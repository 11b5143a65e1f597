"""Questions with the relation that they ask for: their words say it from then on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rulerag.errors import DataFormatError, did_you_mean
from rulerag.io import read_records
from rulerag.linking.words import INVERSE

FILE = "questions-linked.jsonl"
"""The examples of a dataset, in its folder."""


@dataclass(frozen=True, slots=True)
class LinkedExample:
    """A question, who it is about, and what it asks for.

    Args:
        question: in words.
        mention: the entity, as the question spells it.
        relation: a raw relation, behind ``^`` where its subject is asked for.
    """

    question: str
    mention: str
    relation: str

    @property
    def masked(self) -> str:
        """The question with a blank where the entity stands."""
        start = self.question.casefold().find(self.mention.casefold())
        if start < 0:
            return self.question
        blank = "\0" + " " * (len(self.mention) - 1)
        return self.question[:start] + blank + self.question[start + len(self.mention) :]


def read_examples(file: str | Path, relations: Iterable[str]) -> list[LinkedExample]:
    """The examples of a file of JSON lines with ``question``, ``mention`` and ``relation``.

    Args:
        file: where they stand.
        relations: the raw relations that there are.

    Raises:
        DataError: there is no such file.
        DataFormatError: a line lacks a key, its mention does not stand in its question, or a
            relation is unknown; names the line.
    """
    known = sorted(relations)
    return read_records(file, lambda line: _example(line, known))


def _example(line: Mapping[str, object], known: Sequence[str]) -> LinkedExample:
    for key in ("question", "mention", "relation"):
        if not isinstance(line.get(key), str) or not line[key]:
            raise DataFormatError("expected a text that is not empty", key=key)
    example = LinkedExample(*(str(line[key]) for key in ("question", "mention", "relation")))
    if example.mention.casefold() not in example.question.casefold():
        raise DataFormatError(
            f"{example.mention!r} does not stand in the question",
            key="mention",
            hint="write it as the question does",
        )
    name = example.relation.removeprefix(INVERSE)
    if name not in known:
        raise DataFormatError(
            f"there is no relation {name!r}", key="relation", hint=did_you_mean(name, known)
        )
    return example
