"""Solved cases for few-shot prompts; three invented ones for when the data offers none."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rulerag.composition import Config
from rulerag.types import GenerationRequest

__all__ = ["CASES", "ROWS", "Case"]

_KEYS = ("documents", "rules", "query", "answer", "fact")


@dataclass(frozen=True, slots=True)
class Case:
    """One solved case, in words.

    Args:
        documents: the retrieved documents.
        rules: the guiding rules.
        query: the question.
        answer: its answer.
        fact: subject and relation of the supporting fact, for citing templates.
    """

    documents: tuple[str, ...]
    rules: tuple[str, ...]
    query: str
    answer: str
    fact: tuple[str, str] | None = None

    @classmethod
    def from_request(
        cls, request: GenerationRequest, answer: str, fact: tuple[str, str] | None = None
    ) -> Case:
        """The case that a request and its answer make."""
        documents = tuple(document.text for document in request.documents)
        rules = tuple(rule.text for rule in request.rules)
        return cls(documents, rules, request.query.text, answer, fact)

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Case:
        """A case from a configuration.

        Raises:
            ConfigError: a key is missing, unknown or of the wrong kind.
        """
        given = Config(row, where="cases").check(_KEYS, required=("query", "answer"))
        documents, rules, fact = (given.read(k, tuple, ()) for k in ("documents", "rules", "fact"))
        if len(fact) not in (0, 2):
            raise given.error("expected [subject, relation]", "fact")
        for key in ("query", "answer"):
            if not given.read(key, str):
                raise given.error("is empty", key)
        return cls(
            tuple(map(str, documents)),
            tuple(map(str, rules)),
            given.read("query", str),
            given.read("answer", str),
            (str(fact[0]), str(fact[1])) if fact else None,
        )


ROWS: list[dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("few_shot.toml").read_text(encoding="utf-8")
)["case"]
"""The three invented cases, and a chain of thought for each."""

CASES = tuple(Case.from_json({key: row[key] for key in _KEYS}) for row in ROWS)
"""The three invented cases: places, in the form of RuleQA's documents, rules and queries."""
