"""A language model says what words mean that no pattern knows.

It is asked once for each run of words, with an example sentence, and may only choose: one of the
relations whose ends fit, or none. A model that scores texts is held to the choices by construction:
each is put as a statement, and what counts is how much likelier the sentence makes it (domain
conditional PMI: Holtzman et al. 2021, arXiv:2104.08315, section 3). Any other writes JSON of one
schema; what is no such JSON is counted and named.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rulerag.errors import CutCompletionError, EmptyCompletionError, RefusedCompletionError
from rulerag.io import excerpt, fingerprint_object, to_json
from rulerag.linking import QueryWriter
from rulerag.protocols import Generator
from rulerag.types import GenerationRequest, Query

NONE = "none"
_BATCH = 16
# Tokens of a reply: JSON of one relation, however long its name.
_LONGEST = 64
# What a server says that is no answer, though it works.
_NO_ANSWER = (CutCompletionError, EmptyCompletionError, RefusedCompletionError)
_TOGETHER = "{x} and {y} have nothing to do with each other"


class RelationQuestion(NamedTuple):
    """What a model is asked of some words.

    Args:
        document_id: where the example stands.
        sentence: the example.
        subject: its first name, in words.
        object: the other.
        choices: for each relation that may be meant, its statement in words.
    """

    document_id: str
    sentence: str
    subject: str
    object: str
    choices: Mapping[str, str]


class ModelExtractor:
    """Asks a language model what words mean.

    Args:
        generator: a model whose template shows nothing but the question (:attr:`PROMPT`).
        cache: a file that keeps what it said, line by line; an interrupted extraction goes on.

    Attributes:
        faults: replies that could not be read, one line each.
        num_asked: how many questions the model answered now; the others were in the cache.
    """

    PROMPT: Mapping[str, Any] = QueryWriter.PROMPT
    """What the configuration of a local model needs beside its name: statements follow as text."""

    @staticmethod
    def endpoint(relations: Sequence[str]) -> dict[str, Any]:
        """What the configuration of a server needs beside its address: a prompt, and the schema.

        The schema goes along as ``response_format``, to which vLLM, Ollama and llama.cpp hold the
        reply; a server that does not know it ignores it, and what it writes is checked anyway.

        Args:
            relations: all that may be chosen.
        """
        choice = {"type": "string", "enum": [*relations, NONE]}
        schema = {
            "type": "object",
            "properties": {"relation": choice},
            "required": ["relation"],
            "additionalProperties": False,
        }
        named = {"name": "relation", "strict": True, "schema": schema}
        return {
            "template": ModelExtractor.PROMPT["template"],
            "max_new_tokens": _LONGEST,
            "options": {"response_format": {"type": "json_schema", "json_schema": named}},
        }

    def __init__(self, generator: Generator, *, cache: str | Path | None = None) -> None:
        self.generator = generator
        self.cache = None if cache is None else Path(cache)
        self.faults: list[str] = []
        self.num_asked = 0

    def choose(self, asked: Sequence[RelationQuestion]) -> list[dict[str, float]]:
        """The probability of each relation, for each question; empty where none is meant.

        Args:
            asked: the questions.
        """
        name = self.generator.fingerprint
        keys = [fingerprint_object([name, *one[1:4], dict(one.choices)]) for one in asked]
        known = self._known()
        new = [n for n, key in enumerate(keys) if key not in known]
        for start in range(0, len(new), _BATCH):
            part = new[start : start + _BATCH]
            for place, said in self._said([asked[n] for n in part]):
                known[keys[part[place]]] = said
                self._keep({keys[part[place]]: said})
                self.num_asked += 1
        found = []
        for one, key in zip(asked, keys, strict=True):
            reply = known[key]
            if "fault" in reply:
                self.faults.append(f"{one.document_id}: {reply['fault']}")
            found.append({r: p for r, p in reply.get("relations", {}).items() if r != NONE})
        return found

    def _said(self, asked: Sequence[RelationQuestion]) -> Iterator[tuple[int, dict[str, Any]]]:
        """The reply to each question, as soon as it is there: its number and what was said."""
        if hasattr(self.generator, "score"):
            yield from enumerate(self._scored(asked))
            return
        requests = [GenerationRequest(Query("extract", _question(one))) for one in asked]
        if not hasattr(self.generator, "stream"):
            for place, reply in enumerate(self.generator.generate(requests)):
                yield place, _read(reply.text, asked[place])
            return
        # A server may fail in the middle: what it had answered before is kept.
        left = list(range(len(asked)))
        try:
            for arrival in self.generator.stream(requests):
                left.remove(arrival.place)
                yield arrival.place, _read(arrival.completion.text, asked[arrival.place])
        except _NO_ANSWER:  # a reply like one without JSON; whose it is, asking one by one tells
            for place in left:
                try:
                    (arrival,) = self.generator.stream([requests[place]])
                    yield place, _read(arrival.completion.text, asked[place])
                except _NO_ANSWER as error:
                    yield place, {"fault": f"{error.message:.300}"}

    def _scored(self, asked: Sequence[RelationQuestion]) -> Iterator[dict[str, Any]]:
        requests, answers = [], []
        for one in asked:
            for statement in _statements(one).values():
                for context in (f"{one.sentence}\nIn short:", "In short:"):
                    requests.append(GenerationRequest(Query("extract", context)))
                    answers.append(f" {statement}.")
        scores: Any = self.generator.score(requests, answers, literal=True)  # type: ignore[attr-defined]
        gains = iter((np.asarray(scores)[0::2] - np.asarray(scores)[1::2]).tolist())
        for one in asked:
            names = list(_statements(one))
            own = np.array([next(gains) for _ in names])
            share = np.exp(own - own.max())
            yield {
                "relations": dict(zip(names, (share / share.sum()).round(4).tolist(), strict=True))
            }

    def _known(self) -> dict[str, dict[str, Any]]:
        """What the cache holds; a line that a killed run left half-written is asked again."""
        known = {}
        if self.cache is not None and self.cache.is_file():
            for line in self.cache.read_text(encoding="utf-8").splitlines():
                try:
                    row = json.loads(line)
                    known[str(row["key"])] = row["reply"]
                except (ValueError, KeyError, TypeError):
                    continue
        return known

    def _keep(self, said: Mapping[str, Any]) -> None:
        if self.cache is None:
            return
        with open(self.cache, "a", encoding="utf-8") as file:
            # On a line of its own, whatever a killed run left before it.
            file.writelines("\n" + to_json({"key": k, "reply": v}) + "\n" for k, v in said.items())
            file.flush()
            os.fsync(file.fileno())


def _statements(one: RelationQuestion) -> dict[str, str]:
    together = _TOGETHER.replace("{x}", one.subject).replace("{y}", one.object)
    return {**one.choices, NONE: together}


def _question(one: RelationQuestion) -> str:
    lines = "\n".join(f"- {relation}: {said}" for relation, said in one.choices.items())
    return (
        f'Sentence: "{one.sentence}"\nWhich of these does the sentence state?\n{lines}\n- {NONE}: '
        f'none of them\nReply with JSON alone, such as {{"relation": "{NONE}"}}.'
    )


def _read(reply: str, one: RelationQuestion) -> dict[str, Any]:
    """The relation of a reply; a fault where it is no JSON of the schema."""
    start, end = reply.find("{"), reply.rfind("}")
    try:
        value = json.loads(reply[start : end + 1])
    except ValueError:
        return {"fault": f"no JSON: {excerpt(reply)}"}
    relation = value.get("relation") if isinstance(value, dict) else None
    if relation != NONE and relation not in one.choices:
        return {"fault": f"no relation that was asked for: {excerpt(reply)}"}
    return {"relations": {relation: 1.0}}
