"""A language model writes the query of a question whose words alone do not explain it.

What it writes is held to the grammar of queries, to names that the question mentions and to
relations that exist, and it has to say which relation each word means that nothing else accounts
for. What fails any of this is no query: the question stays refused.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from rulerag.errors import DataFormatError
from rulerag.kg import FORMS, ConjunctiveQuery, ends
from rulerag.rules import Atom
from rulerag.types import GenerationRequest, Query

if TYPE_CHECKING:
    from rulerag.protocols import Generator

_PROMPT = """Facts have the form [subject, relation, object].
Relations: {relations}
Write what a question asks of the facts as one JSON object with these keys:
"form": one of {forms}
"wanted": the variable that is asked for, such as "?x"
"atoms": facts that have to hold, with variables for what is not known
"words": for each of some words of the question the relation that it means

Question: Who is the superior of Ann Lee? (names: Ann Lee; words: superior)
JSON: {{"form": "entities", "wanted": "?x", "atoms": [["Ann Lee", "reports to", "?x"]], \
"words": {{"superior": "reports to"}}}}

Question: {question} (names: {names}; words: {words})
JSON:"""
_RELATIONS = 40


class QueryWriter:
    """Asks a language model for the query of a question.

    Args:
        generator: any model that follows an instruction.
    """

    PROMPT: ClassVar[Mapping[str, Any]] = {
        "template": {"type": "plain", "rules": False, "target": "text"},
        "chat": False,
        "dtype": "fast",
        "max_new_tokens": 160,  # a query of three facts; 32, the default, cuts one fact in two
    }
    """What the configuration of a model needs beside its name: the prompt is the question."""

    def __init__(self, generator: Generator) -> None:
        self.generator = generator

    @property
    def fingerprint(self) -> str:
        """Names the model."""
        return self.generator.fingerprint

    def write(
        self,
        question: str,
        names: Mapping[str, str],
        words: Collection[str],
        relations: Mapping[str, str],
    ) -> ConjunctiveQuery | None:
        """The query that the model writes, or None where it is none.

        Args:
            question: in one's own words.
            names: the entities that it mentions, raw names by label; each has to be used.
            words: those that nothing accounts for; each has to mean a relation of the query.
            relations: raw names by label, the likeliest first.
        """
        prompt = _PROMPT.format(
            relations="; ".join(list(relations)[:_RELATIONS]),
            forms=", ".join(f'"{form}"' for form in FORMS),
            question=" ".join(question.split()),
            names="; ".join(names),
            words="; ".join(words),
        )
        (reply,) = self.generator.generate([GenerationRequest(Query("link", prompt))])
        row = _first_object(reply.text)
        meant = row.get("words")
        if not isinstance(meant, dict) or not all(isinstance(one, str) for one in meant.values()):
            return None
        try:
            query = ConjunctiveQuery.from_json(row)
        except DataFormatError:
            return None
        used = {one.relation for one in query.atoms}
        if not used <= set(relations) or not all(meant.get(word) in used for word in words):
            return None
        terms = {term for one in query.atoms for term in ends(one) if not term.startswith("?")}
        if terms != set(names):
            return None
        return replace(query, atoms=tuple(_raw(query.atoms, names, relations)), since=None)


def _raw(
    atoms: Sequence[Atom], names: Mapping[str, str], relations: Mapping[str, str]
) -> list[Atom]:
    """Atoms with raw names in place of labels."""
    return [
        Atom(relations[one.relation], *(names.get(term, term) for term in ends(one)))
        for one in atoms
    ]


def _first_object(text: str) -> Mapping[str, Any]:
    """The first JSON object of a text; empty where there is none."""
    start = text.find("{")
    if start >= 0:
        with suppress(json.JSONDecodeError, RecursionError):
            row, _ = json.JSONDecoder().raw_decode(text[start:])
            return row if isinstance(row, dict) else {}
    return {}
