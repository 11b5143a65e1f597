"""The chain-of-thought baselines of RuleRAG: thoughts that are corrected by retrieved documents.

References:
    Zhao et al. 2023 (Verify-and-Edit, arXiv:2305.03268), section 3 and its Algorithm 1.
    Li et al. 2024 (Chain-of-Knowledge, arXiv:2305.13269), section 3.
    RuleRAG (arXiv:2410.22353), section 4.1: both with the corpus as knowledge source, 3-shot.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pydantic

from rulerag.composition import Settings, register
from rulerag.errors import ConfigError
from rulerag.generation.prompts import ROWS as CASES, PromptTemplate
from rulerag.io import fingerprint_object
from rulerag.protocols import Retriever, SamplingGenerator
from rulerag.text import normalize_answer
from rulerag.types import Candidate, Completion, GenerationRequest, Query

# A full stop that ends a sentence: not one after an initial, as in J. R.
_END = re.compile(r"(?<=[.!?])(?<!\b[A-Z]\.)\s+")

_THINK = (
    "Each query asks for the missing object of a fact. Think in one line about the facts that lead "
    "to it, then give the missing object only.\n"
)
_ASK = "Write the query that checks a statement.\n"
_READ = "Read the documents and complete the answer with the missing object only.\n"


@dataclass(slots=True)
class _Chain:
    """One query on its way.

    Args:
        query: the question.
        thought: its sentences, corrected as far as the method has come.
        answer: what they led to.
        evidence: ids of the documents that corrected it, in order.
    """

    query: Query
    thought: list[str] = field(default_factory=list)
    answer: Completion = field(default_factory=lambda: Completion(""))
    evidence: dict[str, None] = field(default_factory=dict)

    @property
    def line(self) -> str:
        """The thought in one line."""
        return " ".join(self.thought)


class ThoughtSettings(Settings):
    """How thoughts are drawn, voted on and checked.

    Args:
        top_k: how many documents a check reads.
        max_thoughts: how many sentences of a thought are checked.
        samples: thoughts of each query; both papers draw five.
        temperature: they are drawn at; both papers take 0.7.
        consistency: an answer that this share of the thoughts or more leads to is kept.
            Half of them, as in both papers, is three of five.
        seed: of the draws.
    """

    top_k: int = pydantic.Field(default=10, ge=1)
    max_thoughts: int = pydantic.Field(default=3, ge=1)
    samples: int = pydantic.Field(default=5, ge=1)
    temperature: float = pydantic.Field(default=0.7, gt=0)
    consistency: float = pydantic.Field(default=0.5, gt=0, le=1)
    seed: int = 0


class _ThoughtReader(ABC):
    """Thinks several times, votes, and corrects by documents what the vote leaves in doubt.

    Thoughts and their answers are drawn at a temperature. The most frequent answer stands where
    enough of them agree (self-consistency: Wang et al. 2022, arXiv:2203.11171); where fewer do, the
    first thought that led to it is corrected by documents that the method finds itself, and
    answered again, greedily. The documents and rules of a request are not read.

    Args:
        reader: a language model with the template ``plain``, which can draw answers.
        retriever: finds documents for the checking queries.
        settings: how (:class:`ThoughtSettings`).
        changes: settings one by one, which overrule.

    Raises:
        ConfigError: a number is out of range, or the reader has another template or cannot draw.
    """

    name = ""

    def __init__(
        self,
        reader: SamplingGenerator,
        retriever: Retriever,
        *,
        settings: ThoughtSettings | None = None,
        **changes: Any,
    ) -> None:
        self.settings = ThoughtSettings.joined(settings, changes)
        template = getattr(reader, "template", None)
        if isinstance(template, PromptTemplate) and template != PromptTemplate.plain():
            raise ConfigError(
                "the reader of a thought must take prompts as they are",
                key="reader.template",
                hint="reader: {template: plain, …}",
            )
        if not isinstance(reader, SamplingGenerator):
            raise ConfigError(
                f"{type(reader).__name__} cannot draw answers, and a vote needs several",
                key="reader.type",
                hint="reader: {type: huggingface, …} or {type: openai, …}",
            )
        self.reader, self.retriever = reader, retriever

    @property
    def fingerprint(self) -> str:
        """Names the method, its reader, its retriever and every setting."""
        parts = [self.reader.fingerprint, self.retriever.fingerprint]
        return fingerprint_object([self.name, *parts, self.settings.model_dump()])

    @property
    def sampling(self) -> str:
        """How answers are sampled, in words."""
        return f"a vote of {self.settings.samples} at temperature {self.settings.temperature}"

    def generate(self, requests: Sequence[GenerationRequest]) -> list[Completion]:
        """Return one completion for each request, in order.

        Each completion's only candidate names the documents that corrected the thought; none where
        the vote stood.
        """
        votes = self._votes([request.query for request in requests])
        doubtful = [chain for chain, share in votes if share < self.settings.consistency]
        if doubtful:
            self._correct(doubtful)
            prompts = [answer_prompt(chain.query.text, chain.line) for chain in doubtful]
            for chain, answer in zip(doubtful, self._ask(prompts), strict=True):
                chain.answer = answer
        return [_completion(chain) for chain, _ in votes]

    def _votes(self, queries: Sequence[Query]) -> list[tuple[_Chain, float]]:
        """What the sampled thoughts of each query agree on (see :func:`_vote`)."""
        prompts = [think_prompt(query.text) for query in queries]
        own = self.settings
        drawn = self._draw(prompts, own.samples, own.seed)
        chains = [
            [_Chain(query, sentences(thought.text)) for thought in thoughts]
            for query, thoughts in zip(queries, drawn, strict=True)
        ]
        for number in range(own.samples):  # equal thoughts answer each by a draw of its own
            column = [thoughts[number] for thoughts in chains]
            prompts = [answer_prompt(chain.query.text, chain.line) for chain in column]
            answers = self._draw(prompts, 1, own.seed + 1 + number)
            for chain, (answer,) in zip(column, answers, strict=True):
                chain.answer = answer
        return [_vote(thoughts) for thoughts in chains]

    @abstractmethod
    def _correct(self, chains: Sequence[_Chain]) -> None:
        """Correct the thoughts of some queries by documents."""

    def _check(self, places: Sequence[tuple[_Chain, int]]) -> None:
        """Correct one sentence of each chain by the documents found for it.

        A sentence for which nothing is found, or nothing read, stays.
        """
        if not places:
            return
        prompts = [ask_prompt(chain.query.text, chain.thought[n]) for chain, n in places]
        questions = [
            replace(chain.query, text=written.text or chain.query.text)
            for (chain, _), written in zip(places, self._ask(prompts), strict=True)
        ]
        found = self.retriever.retrieve(questions, self.settings.top_k)
        prompts = [
            read_prompt([scored.document.text for scored in documents], question.text)
            for documents, question in zip(found, questions, strict=True)
        ]
        answers = self._ask(prompts)
        for (chain, n), question, documents, answer in zip(
            places, questions, found, answers, strict=True
        ):
            if documents and answer.text:
                chain.evidence.update((scored.document.id, None) for scored in documents)
                chain.thought[n] = f"{question.text} {answer.text}."

    def _ask(self, prompts: Sequence[str]) -> list[Completion]:
        """What the reader writes behind some prompts, one line each, greedily."""
        return self.reader.generate(_requests(prompts))

    def _draw(self, prompts: Sequence[str], count: int, seed: int) -> list[list[Completion]]:
        """What it draws behind them."""
        temperature = self.settings.temperature
        return self.reader.sample(_requests(prompts), count, temperature=temperature, seed=seed)


@register("generator", "verify-and-edit", parts={"reader": "generator"})
class VerifyAndEdit(_ThoughtReader):
    """Verify-and-Edit: each sentence of a doubtful thought is checked and edited on its own.

    A check writes a query for the sentence, retrieves documents for it and answers it from them;
    query and answer take the sentence's place. The edited thought leads to the answer.
    """

    name = "verify-and-edit"

    def _correct(self, chains: Sequence[_Chain]) -> None:
        most = self.settings.max_thoughts
        self._check([(c, n) for c in chains for n in range(min(len(c.thought), most))])


@register("generator", "chain-of-knowledge", parts={"reader": "generator"})
class ChainOfKnowledge(_ThoughtReader):
    """Chain-of-Knowledge: sentences of a doubtful thought are corrected one after another.

    After each correction the rest of the thought is written anew, so that later sentences build
    on corrected ones. The one knowledge source is the corpus, as in RuleRAG: no domain is chosen
    and no query language learned.
    """

    name = "chain-of-knowledge"

    def _correct(self, chains: Sequence[_Chain]) -> None:
        going = [chain for chain in chains if chain.thought]
        for place in range(self.settings.max_thoughts):
            self._check([(chain, place) for chain in going])
            for chain in going:
                del chain.thought[place + 1 :]
            if place + 1 == self.settings.max_thoughts:
                return
            prompts = [think_prompt(c.query.text, c.line) for c in going]
            for chain, rest in zip(going, self._ask(prompts), strict=True):
                chain.thought += sentences(rest.text)
            going = [chain for chain in going if len(chain.thought) > place + 1]
            if not going:
                return


def _vote(chains: Sequence[_Chain]) -> tuple[_Chain, float]:
    """The first thought that led to the most frequent answer, and the share of those that did.

    The first of equally frequent answers is taken; an empty one is no vote.
    """
    answers = [normalize_answer(chain.answer.text) for chain in chains]
    votes = Counter(answer for answer in answers if answer)
    if not votes:
        return chains[0], 0.0
    best, count = votes.most_common(1)[0]
    return chains[answers.index(best)], count / len(chains)


def _requests(prompts: Sequence[str]) -> list[GenerationRequest]:
    return [GenerationRequest(Query(f"step-{n}", text)) for n, text in enumerate(prompts)]


def _completion(chain: _Chain) -> Completion:
    answer = chain.answer
    score = 0.0 if answer.score is None else answer.score
    candidate = Candidate(answer.text, score, tuple(chain.evidence))
    return Completion(answer.text, answer.score, (candidate,) if answer.text else ())


def think_prompt(query: str, thought: str = "") -> str:
    """Three cases (RuleRAG, section 4.1), the query, and the beginning of a thought to go on with.

    Args:
        query: the question.
        thought: what was thought so far; may be empty.
    """
    blocks = [_THINK]
    blocks += [
        f"Query: {case['query']}\nThought: {case['thought']}\nAnswer: {case['answer']}.\n"
        for case in CASES
    ]
    return "\n".join([*blocks, f"Query: {query}\nThought: {thought}".rstrip()])


def answer_prompt(query: str, thought: str) -> str:
    """Cases, the query and a whole thought; the answer follows."""
    return f"{think_prompt(query, thought)}\nAnswer:"


def ask_prompt(query: str, sentence: str) -> str:
    """A statement of a thought; the query that checks it follows."""
    blocks = [_ASK]
    for case in CASES:
        first = sentences(case["thought"])[0]
        blocks.append(f"Query: {case['query']}\nStatement: {first}\nCheck: {case['check']}\n")
    return "\n".join([*blocks, f"Query: {query}\nStatement: {sentence}\nCheck:"])


def read_prompt(documents: Sequence[str], question: str) -> str:
    """Documents and a checking query; its answer follows."""
    found = "\n".join(["Retrieved documents:", *documents])
    return f"{_READ}\n{found}\n\nQuery: {question}\nAnswer:"


def sentences(thought: str) -> list[str]:
    """The sentences of a thought, each with its full stop."""
    parts = [part.strip() for part in _END.split(thought)]
    return [part if part[-1] in ".!?" else part + "." for part in parts if part]
