"""The chain-of-thought baselines of RuleRAG: thoughts that are corrected by retrieved documents.

References:
    Zhao et al. 2023 (Verify-and-Edit, arXiv:2305.03268), section 3.
    Li et al. 2024 (Chain-of-Knowledge, arXiv:2305.13269), section 3.
    RuleRAG (arXiv:2410.22353), section 4.1: both with the corpus as knowledge source, 3-shot.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from rulerag.errors import ConfigError
from rulerag.generation.prompts import PromptTemplate
from rulerag.generation.thoughts import (
    answer_prompt,
    ask_prompt,
    read_prompt,
    sentences,
    think_prompt,
)
from rulerag.io import fingerprint_object
from rulerag.protocols import Generator, Retriever
from rulerag.types import Candidate, Completion, GenerationRequest, Query

__all__ = ["ChainOfKnowledge", "VerifyAndEdit"]


@dataclass(slots=True)
class _Chain:
    """One query on its way.

    Args:
        query: what is asked.
        thought: its sentences, corrected as far as the method has come.
        answer: the answer so far.
        evidence: ids of the documents that corrected it, in order.
    """

    query: Query
    thought: list[str] = field(default_factory=list)
    answer: Completion = field(default_factory=lambda: Completion(""))
    evidence: dict[str, None] = field(default_factory=dict)


class _ThoughtReader(ABC):
    """Thinks, corrects what it thought by documents that it finds itself, and answers.

    The documents and rules of a request are not read: these baselines search by themselves. The
    papers correct only what a vote over samples leaves in doubt; decoding here is greedy, so the
    probability of the first answer takes the vote's place.

    Args:
        reader: a language model with the template ``plain``.
        retriever: finds documents for the checking queries.
        top_k: how many documents a check reads.
        max_thoughts: how many sentences of a thought are checked.
        certainty: a first answer of this probability or more is kept as it stands; every answer
            is checked when None, and where the reader states no log-probability.

    Raises:
        ConfigError: a number is out of range, or the reader has another template.
    """

    name = ""

    def __init__(
        self,
        reader: Generator,
        retriever: Retriever,
        *,
        top_k: int = 10,
        max_thoughts: int = 3,
        certainty: float | None = None,
    ) -> None:
        for key, value in (("top_k", top_k), ("max_thoughts", max_thoughts)):
            if value < 1:
                raise ConfigError(f"{value} is below 1", key=key)
        if certainty is not None and not 0 < certainty <= 1:
            raise ConfigError(f"{certainty} is not in (0, 1]", key="certainty", hint="0.9")
        template = getattr(reader, "template", None)
        if isinstance(template, PromptTemplate) and template != PromptTemplate.plain():
            raise ConfigError(
                "the reader of a thought must take prompts as they are",
                key="reader.template",
                hint="reader: {template: plain, …}",
            )
        self.reader, self.retriever = reader, retriever
        self.top_k, self.max_thoughts, self.certainty = top_k, max_thoughts, certainty

    @property
    def fingerprint(self) -> str:
        """Names the method, its reader, its retriever and every setting."""
        settings = [self.top_k, self.max_thoughts, self.certainty]
        return fingerprint_object(
            [self.name, self.reader.fingerprint, self.retriever.fingerprint, *settings]
        )

    def generate(self, requests: Sequence[GenerationRequest]) -> list[Completion]:
        """Return one completion for each request, in order.

        Each completion's only candidate names the documents that corrected the thought.
        """
        chains = [_Chain(request.query) for request in requests]
        thoughts = self._ask([think_prompt(chain.query.text) for chain in chains])
        for chain, thought in zip(chains, thoughts, strict=True):
            chain.thought = sentences(thought.text)
        self._answer(chains)
        doubtful = [chain for chain in chains if self._doubts(chain.answer)]
        if doubtful:
            self._correct(doubtful)
            self._answer(doubtful)
        return [_completion(chain) for chain in chains]

    @abstractmethod
    def _correct(self, chains: Sequence[_Chain]) -> None:
        """Correct the thoughts of some queries by documents."""

    def _doubts(self, answer: Completion) -> bool:
        if self.certainty is None or answer.score is None or not answer.text:
            return True
        return math.exp(answer.score) < self.certainty

    def _answer(self, chains: Sequence[_Chain]) -> None:
        prompts = [answer_prompt(chain.query.text, " ".join(chain.thought)) for chain in chains]
        for chain, answer in zip(chains, self._ask(prompts), strict=True):
            chain.answer = answer

    def _checked(self, chains: Sequence[_Chain], statements: Sequence[str]) -> list[str]:
        """One statement of each chain, put right by the documents found for it.

        A statement without a document stays as it is.
        """
        prompts = [
            ask_prompt(chain.query.text, statement)
            for chain, statement in zip(chains, statements, strict=True)
        ]
        questions = [
            replace(chain.query, text=asked.text or chain.query.text)
            for chain, asked in zip(chains, self._ask(prompts), strict=True)
        ]
        found = self.retriever.retrieve(questions, self.top_k)
        read = [
            read_prompt([scored.document.text for scored in documents], question.text)
            for documents, question in zip(found, questions, strict=True)
        ]
        answers = self._ask(read)
        corrected = []
        for chain, statement, question, documents, answer in zip(
            chains, statements, questions, found, answers, strict=True
        ):
            if not documents or not answer.text:
                corrected.append(statement)
                continue
            chain.evidence.update((scored.document.id, None) for scored in documents)
            corrected.append(f"{question.text} {answer.text}.")
        return corrected

    def _ask(self, prompts: Sequence[str]) -> list[Completion]:
        """What the reader writes behind some prompts, one line each."""
        return self.reader.generate(
            [GenerationRequest(Query(f"step-{n}", text)) for n, text in enumerate(prompts)]
        )


class VerifyAndEdit(_ThoughtReader):
    """Verify-and-Edit: each sentence of the first thought is checked and edited on its own.

    A check writes a query for the sentence, retrieves documents for it and answers it from them;
    query and answer take the sentence's place. The edited thought leads to the answer.
    """

    name = "verify-and-edit"

    def _correct(self, chains: Sequence[_Chain]) -> None:
        owners = [
            (chain, place)
            for chain in chains
            for place in range(min(len(chain.thought), self.max_thoughts))
        ]
        if not owners:
            return
        statements = [chain.thought[place] for chain, place in owners]
        corrected = self._checked([chain for chain, _ in owners], statements)
        for (chain, place), sentence in zip(owners, corrected, strict=True):
            chain.thought[place] = sentence


class ChainOfKnowledge(_ThoughtReader):
    """Chain-of-Knowledge: sentences are corrected one after another.

    After each correction the rest of the thought is written anew, so that later sentences build
    on corrected ones.
    """

    name = "chain-of-knowledge"

    def _correct(self, chains: Sequence[_Chain]) -> None:
        going = [chain for chain in chains if chain.thought]
        for place in range(self.max_thoughts):
            corrected = self._checked(going, [chain.thought[place] for chain in going])
            for chain, sentence in zip(going, corrected, strict=True):
                chain.thought[place:] = [sentence]
            if place + 1 == self.max_thoughts:
                return
            prompts = [think_prompt(c.query.text, " ".join(c.thought)) for c in going]
            for chain, rest in zip(going, self._ask(prompts), strict=True):
                chain.thought += sentences(rest.text)
            going = [chain for chain in going if len(chain.thought) > place + 1]
            if not going:
                return


def _completion(chain: _Chain) -> Completion:
    answer = chain.answer
    score = 0.0 if answer.score is None else answer.score
    candidate = Candidate(answer.text, score, tuple(chain.evidence))
    return Completion(answer.text, answer.score, (candidate,) if answer.text else ())
