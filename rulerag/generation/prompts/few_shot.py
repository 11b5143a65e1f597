"""Solved cases for few-shot prompts; three invented ones for when the data offers none."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pydantic

from rulerag.composition import Settings
from rulerag.types import GenerationRequest


class Case(Settings):
    """One solved case, in words.

    Args:
        documents: the retrieved documents.
        rules: the guiding rules.
        query: the question.
        answer: its answer.
        fact: subject and relation of the supporting fact, for citing templates.

    Raises:
        ConfigError: a key is missing, unknown or of the wrong kind.
    """

    documents: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    query: str = pydantic.Field(min_length=1)
    answer: str = pydantic.Field(min_length=1)
    fact: tuple[str, str] | None = None

    @classmethod
    def from_request(
        cls, request: GenerationRequest, answer: str, fact: tuple[str, str] | None = None
    ) -> Case:
        """The case that a request and its answer make."""
        return cls(
            documents=tuple(document.text for document in request.documents),
            rules=tuple(rule.text for rule in request.rules),
            query=request.query.text,
            answer=answer,
            fact=fact,
        )


ROWS: list[dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("few_shot.toml").read_text(encoding="utf-8")
)["case"]
"""The three invented cases, and a chain of thought for each."""

CASES = tuple(Case(**{key: row[key] for key in Case.model_fields}) for row in ROWS)
"""The three invented cases: places, in the form of RuleQA's documents, rules and queries."""
