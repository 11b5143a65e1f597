"""Prompts as data: RuleRAG's instruction, packed to a token budget, and the way back to an answer.

A prompt has the parts of RuleRAG's Tables 8 and 10 (arXiv:2410.22353): the instruction, the
retrieved documents, the guiding rules, the query and the cue for the answer; a few-shot prompt
shows solved cases of the same form first. In the order ``shared`` the rules stand before the
documents, so that prompts of one relation begin with the same words and a model can share the
work on them; ``paper`` keeps the published order; ``question-first`` puts the query before both.
The fixed wording is ours.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import pydantic

from rulerag.composition import Settings, find, register
from rulerag.errors import ConfigError, GenerationError
from rulerag.generation.prompts.parsing import (
    before_repeats,
    first_answer,
    not_restated,
    without_thought,
)
from rulerag.io import fingerprint_object
from rulerag.types import Document, Fact, GenerationRequest, Query

_FORM = (
    "Each query asks for the missing object of a fact: it gives a subject and a relation, and a "
    "time where facts are dated. Each retrieved document states one fact as subject, relation and "
    "object. "
)
_STANDARD = _FORM + "Read the documents and answer with the missing object only.\n"
_GUIDED = _FORM + (
    "A rule says which known facts lead to the fact asked for. Follow the rules on the documents "
    "and answer with the missing object only.\n"
)
_CITED = _FORM + (
    "Cite the fact that tells the missing object, as subject | relation | object; its object is "
    "the answer.\n"
)
_GUIDED_CITED = _FORM + (
    "A rule says which known facts lead to the fact asked for. Cite the fact that a rule starts "
    "from, as subject | relation | object; its object is the answer.\n"
)
_OPEN = "Answer the question from the documents. Say so where they do not tell.\n"
_NUMBERS = ("Zero", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine", "Ten")
_SEPARATOR = " | "

# The day that RuleQA's questions and documents begin with.
_TIME = re.compile(r"^Time \S+ ")


class Citation(NamedTuple):
    """A fact in words, seen from the end that is not the answer.

    Args:
        subject: that other end.
        relation: the relation.
        inverse: whether the answer is the subject of the fact.
        bridge: whether the other end is another entity than the question's subject, as in the
            second step of a chain.
    """

    subject: str
    relation: str
    inverse: bool = False
    bridge: bool = False


def citation_of(
    fact: Fact, answer: str, subject: str, labels: Mapping[str, Mapping[str, str]]
) -> Citation | None:
    """A fact as a citation of an answer; None where the answer is at neither end.

    Args:
        fact: by its names.
        answer: the answer in words.
        subject: the name of the question's subject.
        labels: readable names, by ``entities`` and ``relations``.
    """
    entities, relations = labels.get("entities", {}), labels.get("relations", {})
    first, last = (entities.get(end, end) for end in (fact.subject, fact.object))
    relation = relations.get(fact.relation, fact.relation)
    if last == answer:
        return Citation(first, relation, False, fact.subject != subject)
    if first == answer:
        return Citation(last, relation, True, fact.object != subject)
    return None


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


ROWS: list[dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("few_shot.toml").read_text(encoding="utf-8")
)["case"]
"""The three invented cases, and a chain of thought for each."""

CASES = tuple(Case(**{key: row[key] for key in Case.model_fields}) for row in ROWS)
"""The three invented cases: places, in the form of RuleQA's documents, rules and queries."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """One request in words.

    Args:
        text: the whole prompt; the answer follows its last character.
        kept: the ids of the documents in it, best first.
        dropped: the ids of those that did not fit the budget, in their order.
    """

    text: str
    kept: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()


@register("prompt", "rule-guided", make="rule_guided")
@register("prompt", "standard", make="standard")
@register("prompt", "few-shot", make="few_shot")
@register("prompt", "citation", make="citation")
@register("prompt", "plain", make="plain")
@register("prompt", "cloze", make="cloze")
@register("prompt", "open", make="open_question")
class PromptTemplate(Settings):
    """How requests are put into words and how answers are read out of completions.

    Args:
        instruction: the fixed text at the beginning; empty for none. The default fits the target
            and speaks of rules only where the prompt shows some.
        rules: whether guiding rules are shown.
        order: ``shared`` (rules before documents), ``paper`` (documents before rules), or
            ``question-first`` (query and rules before documents: all that the probes of one
            explanation have in common comes first, for servers that keep what prompts begin with).
        cases: solved cases shown before the query (few-shot).
        target: what a completion is: the ``answer``, or a ``citation``, that is the supporting
            fact written ``subject | relation | object`` as seen from the query's subject, whose
            object is the answer; or a ``text``, which is the answer as it stands.
        documents_heading: the line above the documents.
        rules_heading: the line above the rules; ``{count}`` is their number in words.
        max_documents: the most documents shown, the best ones; None for all. Small models read
            few better than many.
        best_last: show the best document last, next to the query, instead of first.
        system: the message of the system, for chat models; others read it first of all.
        ask: what the query is: its own ``question``, or a ``statement`` of its subject and
            relation in the form of the documents, to be continued with the object.
        query_cue: what stands before the query.
        answer_cue: what stands before the answer.

    Raises:
        ConfigError: an unknown setting, or a value that does not fit.
    """

    instruction: str | None = None
    rules: bool = True
    order: Literal["shared", "paper", "question-first"] = "shared"
    cases: tuple[Case, ...] = ()
    target: Literal["answer", "citation", "text"] = "answer"
    documents_heading: str = "Retrieved documents:"
    rules_heading: str = "Use the following {count} to find the answer:"
    max_documents: int | None = pydantic.Field(default=None, ge=1)
    best_last: bool = False
    system: str = ""
    ask: Literal["question", "statement"] = "question"
    query_cue: str = "Query: "
    answer_cue: str = "Answer:"

    @pydantic.field_validator("cases", mode="before")
    @classmethod
    def _cases(cls, values: Any) -> Any:
        rows = values if isinstance(values, Sequence) else ()
        stated = [Case.read(row, where="cases") for row in rows if isinstance(row, Mapping)]
        return tuple(stated) if stated else values

    @classmethod
    def standard(cls, **changes: Any) -> PromptTemplate:
        """Documents and query; rules of a request are not shown."""
        return cls(**{"rules": False, **changes})

    @classmethod
    def rule_guided(cls, **changes: Any) -> PromptTemplate:
        """Rules, documents and query (Table 8)."""
        return cls(**changes)

    @classmethod
    def few_shot(cls, cases: Sequence[Case] = CASES, **changes: Any) -> PromptTemplate:
        """Solved cases before the query (Table 10); three invented ones by default.

        Cases of the data at hand, from its fine-tuning examples, teach its form better.
        """
        return cls(cases=tuple(cases), **changes)

    @classmethod
    def citation(cls, **changes: Any) -> PromptTemplate:
        """For generators that cite the supporting fact before they answer."""
        return cls(**{"target": "citation", **changes})

    @classmethod
    def plain(cls, **changes: Any) -> PromptTemplate:
        """The query's own text and nothing else when it comes alone, as for a judge's question."""
        return cls(**{"instruction": "", "query_cue": "", "answer_cue": "", **changes})

    @classmethod
    def cloze(cls, **changes: Any) -> PromptTemplate:
        """Documents, then the unfinished statement of the query, for models that continue text."""
        bare = {"instruction": "", "documents_heading": "", "query_cue": "", "answer_cue": ""}
        return cls(**{**bare, "rules": False, "ask": "statement", **changes})

    @classmethod
    def open_question(cls, **changes: Any) -> PromptTemplate:
        """Any documents and any question, answered in sentences."""
        words = {"instruction": _OPEN, "documents_heading": "Documents:", "query_cue": "Question: "}
        return cls(**{**words, "rules": False, "target": "text", **changes})

    @classmethod
    def of(cls, value: PromptTemplate | str | Mapping[str, Any] | None) -> PromptTemplate:
        """A template from what a configuration may hold.

        Args:
            value: a template; the name of a template; a mapping with the name as ``type`` and
                further arguments; None for rule-guided.

        Raises:
            ConfigError: an unknown name or argument.
        """
        if isinstance(value, PromptTemplate):
            return value
        options = dict(value) if isinstance(value, Mapping) else {"type": value}
        name = str(options.pop("type", None) or "rule-guided")
        entry = find("prompt", name, key="template")
        try:
            made: PromptTemplate = entry.maker(**options)
        except ConfigError as error:
            key = f"template.{error.key}"
            raise ConfigError(error.message, key=key, hint=error.hint) from error
        return made

    @property
    def fingerprint(self) -> str:
        """Names every word and setting of the template."""
        return fingerprint_object(self.model_dump())

    def render(
        self,
        request: GenerationRequest,
        *,
        budget: int | None = None,
        count: Callable[[str], int] | None = None,
    ) -> Prompt:
        """The prompt of a request, within a budget of tokens.

        When the whole does not fit, documents are kept best first: each that still fits.

        Args:
            request: the request.
            budget: the largest allowed count; None for no limit.
            count: counts the tokens of a text; words by default.

        Raises:
            GenerationError: the prompt does not fit even without documents.
        """
        documents = self._shown(request)
        text = self._text(request, documents)
        count = count or _words
        if budget is None or count(text) <= budget:
            return Prompt(text, tuple(d.id for d in documents))
        bare = count(self._text(request, ()))
        if bare > budget:
            raise GenerationError(
                f"the prompt of query {request.query.id!r} has {bare} tokens without any "
                f"document, and {max(budget, 0)} fit",
                hint="show fewer rules or cases, ask for fewer new tokens, or take a model "
                "with a longer context",
            )
        kept = self._packed(request, budget, count, bare)
        chosen = {place for place, _ in kept}
        return Prompt(
            self._text(request, [document for _, document in kept]),
            tuple(document.id for _, document in kept),
            tuple(d.id for place, d in enumerate(documents) if place not in chosen),
        )

    def _shown(self, request: GenerationRequest) -> Sequence[Document]:
        """The documents of a request that are to be shown, best first."""
        return request.documents[: self.max_documents]

    def case(
        self, request: GenerationRequest, answer: str, fact: tuple[str, str] | None = None
    ) -> Case:
        """The solved case that a request and its answer make, in the form of this template."""
        return Case(
            documents=tuple(document.text for document in self._shown(request)),
            rules=tuple(rule.text for rule in request.rules),
            query=self._query(request.query),
            answer=answer,
            fact=fact,
        )

    def _packed(
        self, request: GenerationRequest, budget: int, count: Callable[[str], int], bare: int
    ) -> list[tuple[int, Document]]:
        """Places and documents that fit, best first."""
        used = bare + count(self.documents_heading + "\n\n")
        kept: list[tuple[int, Document]] = []
        for place, document in enumerate(self._shown(request)):
            cost = count(document.text + "\n")
            if used + cost <= budget:
                kept.append((place, document))
                used += cost
        # Tokens of a whole are not the sum of tokens of its parts: the last word is the whole's.
        while kept and count(self._text(request, [d for _, d in kept])) > budget:
            kept.pop()
        return kept

    def parse(self, completion: str, request: GenerationRequest | None = None) -> str:
        """The answer in a completion; empty when there is none.

        It is the whole text where the target is one, until it begins again; else the first line
        with text, without what models set around an answer; of a line that restates the question,
        the part that answers (see :mod:`~rulerag.generation.prompts.parsing`).

        Args:
            completion: what the model wrote.
            request: what it read, which helps to find the answer.
        """
        if self.target == "text":
            return self._text_of(without_thought(completion))[0]
        answer = first_answer(completion, self.answer_cue)
        if self.target == "citation":
            return answer.rpartition(_SEPARATOR.strip())[2].strip()
        return answer if request is None else not_restated(answer, request)

    def is_complete(self, text: str) -> bool:
        """Whether what was written up to a line break is a whole completion; else it goes on."""
        return self._text_of(text)[1] if self.target == "text" else bool(text.strip())

    def _text_of(self, completion: str) -> tuple[str, bool]:
        cues = self.query_cue, self.answer_cue, self.documents_heading
        return before_repeats(completion, [cue.strip() for cue in cues if cue.strip()])

    @property
    def stop(self) -> str:
        """What ends a completion of an endpoint without a chat template.

        Behind a text, which may have several lines, such a model makes up a further question.
        """
        return f"\n{self.query_cue if self.target == 'text' else ''}".rstrip(" ")

    def conversation(self, text: str) -> list[dict[str, str]]:
        """The messages that a chat model reads before it answers.

        Args:
            text: of the prompt.
        """
        system = [{"role": "system", "content": self.system}] if self.system else []
        return [*system, {"role": "user", "content": text}]

    def continued(self, text: str) -> str:
        """What a model without a chat template goes on from; ``text`` is that of the prompt."""
        return f"{self.system}\n{text}" if self.system else text

    def read_by(self, request: GenerationRequest) -> tuple[str, ...]:
        """What decides how a completion is read, beside the prompt's words."""
        query = request.query
        return (query.subject_words, query.relation_words) if self.target == "answer" else ()

    def cited(self, completion: str) -> tuple[str, ...]:
        """The parts of the fact that a completion cites; empty when it cites none."""
        parts = first_answer(completion, self.answer_cue).split(_SEPARATOR.strip())
        return tuple(part.strip() for part in parts) if len(parts) == 3 else ()

    def completion(self, answer: str, fact: Citation | tuple[str, str] | None = None) -> str:
        """What a model should write after the prompt, for training.

        Args:
            answer: the answer in words.
            fact: subject and relation of the supporting fact in words, as seen from the query's
                subject; needed where the target is a citation.

        Raises:
            ConfigError: the target is a citation and there is no fact.
        """
        if self.target == "citation":
            if fact is None:
                raise ConfigError("a citation needs the supporting fact", key="fact")
            answer = _SEPARATOR.join((*fact[:2], answer))
        return f" {answer}."

    def without_rules(self) -> Self:
        """The same template for requests whose rules are to stay unseen."""
        return self.model_copy(update={"rules": False})

    def _text(self, request: GenerationRequest, documents: Sequence[Document]) -> str:
        rules = [rule.text for rule in request.rules] if self.rules else []
        guided = bool(rules) or (self.rules and any(case.rules for case in self.cases))
        instruction = self._instruction(guided)
        blocks = [instruction] if instruction else []
        for case in self.cases:
            shown = case.rules if self.rules else ()
            answer = self.completion(case.answer, case.fact)
            blocks.append(self._block(case.documents, shown, case.query) + answer + "\n")
        blocks.append(self._block([d.text for d in documents], rules, self._query(request.query)))
        return "\n".join(blocks)

    def _query(self, query: Query) -> str:
        if self.ask == "question" or not (query.subject and query.relation):
            return query.text
        time = _TIME.match(query.text)
        return f"{time[0] if time else ''}{query.subject_words} {query.relation_words}"

    def _instruction(self, guided: bool) -> str:
        if self.instruction is not None:
            return self.instruction
        if self.target == "citation":
            return _GUIDED_CITED if guided else _CITED
        return _GUIDED if guided else _STANDARD

    def _block(self, documents: Sequence[str], rules: Sequence[str], query: str) -> str:
        """Documents, rules, query and the cue for the answer."""
        parts = []
        if self.best_last:
            documents = documents[::-1]
        if documents:
            above = [self.documents_heading] if self.documents_heading else []
            parts.append("\n".join([*above, *documents]) + "\n" * len(above))
        if rules:
            number = _number(len(rules))
            count = f"{number} rule" if len(rules) == 1 else f"{number} rules"
            lines = [f"Rule {_number(i)}: {_sentence(r)}" for i, r in enumerate(rules, start=1)]
            heading = self.rules_heading.replace("{count}", count)
            parts.append("\n".join([heading, *lines]) + "\n")
        if self.order != "paper":
            parts.reverse()
        asked = f"{self.query_cue}{query}"
        if self.order == "question-first":
            return "\n".join([f"{asked}\n", *parts, *filter(None, [self.answer_cue])])
        parts.append(f"{asked}\n{self.answer_cue}" if self.answer_cue else asked)
        return "\n".join(parts)


def _words(text: str) -> int:
    return len(text.split())


def _number(value: int) -> str:
    return _NUMBERS[value] if value < len(_NUMBERS) else str(value)


def _sentence(text: str) -> str:
    return text if text.endswith(".") else text + "."
