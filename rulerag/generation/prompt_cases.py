"""Solved cases for few-shot prompts; three invented ones for when the data offers none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rulerag.errors import ConfigError, did_you_mean
from rulerag.types import GenerationRequest

__all__ = ["CASES", "Case"]

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
        for key in row:
            if key not in _KEYS:
                raise ConfigError(
                    "a case has no such key", key=f"cases.{key}", hint=did_you_mean(key, _KEYS)
                )
        for key in ("query", "answer"):
            if not isinstance(row.get(key), str) or not row[key]:
                raise ConfigError("a case needs this text", key=f"cases.{key}")
        documents, rules = (tuple(map(str, row.get(key) or ())) for key in ("documents", "rules"))
        fact = row.get("fact")
        if fact is not None and len(fact) != 2:
            raise ConfigError("expected [subject, relation]", key="cases.fact")
        ends = (str(fact[0]), str(fact[1])) if fact is not None else None
        return cls(documents, rules, str(row["query"]), str(row["answer"]), ends)


CASES: tuple[Case, ...] = (
    Case(
        (
            "Time 2014-03-02 Norland Express intent to meet Sudavia.",
            "Time 2014-03-05 Norland Criticize Velmora.",
            "Time 2014-02-11 Sudavia Consult Velmora.",
        ),
        (
            "[Entity 1, Express intent to meet, Entity 2] leads to "
            "[Entity 1, Make a visit, Entity 2].",
        ),
        "Time 2014-03-20 what does Norland Make a visit ?",
        "Sudavia",
        ("Norland", "Express intent to meet"),
    ),
    Case(
        (
            "Time 2014-05-17 Ostra Police Arrest Ivo Marek.",
            "Time 2014-05-09 Ostra Police Investigate Citizen (Ostra).",
            "Time 2014-04-30 Mayor (Ostra) Praise Ostra Police.",
        ),
        (
            "[Entity 1, Investigate, Entity 2] leads to [Entity 1, Accuse, Entity 2].",
            "[Entity 1, Arrest, Entity 2] leads to [Entity 1, Accuse, Entity 2].",
        ),
        "Time 2014-06-01 what does Ostra Police Accuse ?",
        "Ivo Marek",
        ("Ostra Police", "Arrest"),
    ),
    Case(
        (
            "Time 2014-08-14 Velmora Host a visit Norland.",
            "Time 2014-08-21 Velmora Sign formal agreement Ostra.",
            "Time 2014-07-03 Ostra Reject Velmora.",
        ),
        (
            "[Entity 1, Sign formal agreement, Entity 2] leads to "
            "[Entity 1, Provide economic aid, Entity 2].",
        ),
        "Time 2014-09-10 what does Velmora Provide economic aid ?",
        "Ostra",
        ("Velmora", "Sign formal agreement"),
    ),
)
"""Three cases about invented places in the form of RuleQA's documents, rules and queries."""
