"""Questions of a generated world that the nano reader answers, with ContextCite set up on them.

Both sides explain the same text, which the model wrote, over the same documents and in the same
prompt, token by token; that they do is checked for each question, not assumed.
"""

from __future__ import annotations

import contextlib
import copy
import io
import logging
import random
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from benchmarks.common.world_questions import world_questions
from rulerag.errors import GenerationError, MissingDependencyError
from rulerag.explanation.lattice import mask_of
from rulerag.explanation.probing import ProbeEngine, ResponseScorer, SetValue, valued
from rulerag.generation.huggingface import HuggingFaceGenerator
from rulerag.synthetic import World
from rulerag.types import GenerationRequest

SIZES = (8, 12, 16, 24)
"""How many documents the questions have, by turns."""

_SAME = 1e-2
_ATTEMPTS = 4  # candidates for each question wanted
_REPEATED = 2  # ablations of ContextCite for each call allowed, at most


@dataclass(frozen=True)
class Question:
    """One answer to explain.

    Args:
        request: the question, its documents and its rules.
        response: what the model writes, word for word.
        truth: the places of the documents that state a supporting fact of the answer.
        scores: the response's log-probability for subsets; shared by all explainers, so that
            computing saves time, while each explainer's own calls are counted in ``engine``.
    """

    request: GenerationRequest
    response: str
    truth: frozenset[int]
    scores: SetValue

    def engine(self, budget: int, asked: set[int]) -> ProbeEngine:
        """An engine that allows so many distinct calls, as ``response_engine`` makes it.

        Args:
            budget: the most subsets.
            asked: gets the mask of each subset that is asked.
        """

        def answer(batch: list[tuple[int, ...]]) -> list[str]:
            masks = [mask_of(kept) for kept in batch]
            asked.update(masks)
            return [repr(value) for value in self.scores(masks).tolist()]

        size, names = self.scores.num_sources, self.scores.names
        return ProbeEngine(answer, size, names=names, max_probes=budget)


@dataclass(frozen=True)
class Cited:
    """What ContextCite says.

    Args:
        weights: of the documents, in order.
        masks: the subsets of its ablations, in order, with repetition.
    """

    weights: tuple[float, ...]
    masks: tuple[int, ...]

    @property
    def asked(self) -> frozenset[int]:
        """The distinct subsets among them."""
        return frozenset(self.masks)


def questions(
    reader: HuggingFaceGenerator, number: int, *, num_facts: int = 12_000, seed: int = 2
) -> list[Question]:
    """Questions that the reader answers right with all of their documents, ``SIZES`` by turns.

    Documents are the supporting ones, others about the subject, and random ones, shuffled. The
    response has to be the same tokens when it is read back, since ContextCite scores its text.

    Args:
        reader: the model.
        number: how many questions, at most; a world may have fewer.
        num_facts: of the world.
        seed: of the world and of the documents.
    """
    made: list[Question] = []
    waiting = _candidates(num_facts, seed, number)
    wanted = {size: number // len(SIZES) for size in SIZES}
    for size in SIZES[: number % len(SIZES)]:
        wanted[size] += 1
    for place, size in enumerate(SIZES):
        asked = [_cut(full, size, truth) for full, truth in waiting[place :: len(SIZES)]]
        requests = [request for request, _ in asked]
        completions = reader.generate(requests)
        texts = reader.write(requests)
        scores = reader.score(requests, texts, literal=True)
        rows = zip(asked, completions, texts, scores, strict=True)
        for (request, truth), completion, text, score in rows:
            right = completion.text in request.query.answers
            same = completion.score is not None and abs(completion.score - score) < _SAME
            if right and same and wanted[size]:
                wanted[size] -= 1
                engine = ProbeEngine.from_generator(ResponseScorer(reader, text), request)
                made.append(Question(request, text, truth, valued(engine, None)))
    return made


def _candidates(
    num_facts: int, seed: int, number: int
) -> list[tuple[GenerationRequest, frozenset[str]]]:
    """Questions with more documents than needed, the supporting ones first, and their ids."""
    world = World.generate(num_facts, kind="static", seed=seed)
    corpus, questions = world_questions(world)
    chance = random.Random(seed)
    found = []
    for asked in questions:
        others = chance.sample(corpus, max(SIZES))
        documents = {d.id: d for d in (*asked.support.values(), *asked.near, *others)}
        request = GenerationRequest(asked.query, tuple(documents.values()), asked.rules)
        found.append((request, frozenset(asked.support)))
        if len(found) == _ATTEMPTS * number:
            break
    return found


def _cut(
    full: GenerationRequest, size: int, truth: frozenset[str]
) -> tuple[GenerationRequest, frozenset[int]]:
    chosen = list(full.documents[:size])
    random.Random(f"{full.query.id} {size}").shuffle(chosen)
    places = frozenset(place for place, document in enumerate(chosen) if document.id in truth)
    return replace(full, documents=tuple(chosen)), places


class ContextCite:
    """The installed package on a reader's model and prompts.

    Args:
        reader: the model, its tokenizer and its template.

    Raises:
        MissingDependencyError: ``context-cite`` is not installed.
    """

    def __init__(self, reader: HuggingFaceGenerator) -> None:
        self._package = context_cite()
        self._reader = reader
        self._tokenizer = copy.deepcopy(reader.tokenizer)
        self._tokenizer.chat_template = "{{ bos_token }}{{ messages[0]['content'] }}"
        self._tokenizer.padding_side = "left"

    def attributions(
        self, question: Question, budgets: Sequence[int], *, batch_size: int = 32
    ) -> tuple[dict[int, Cited], float]:
        """The weights of the documents, from so many distinct ablations each.

        The package draws its ablations with repetition, one after the other from seeds that count
        up. What was scored once is known: a repeated ablation costs no call, and the package gets
        as many ablations as it takes, twice the number of calls at most. The first of a long run
        are those of a short one, so that the model is asked for the most once.

        Returns:
            What is said by budget, and the largest difference between the log-probabilities that
            the package took from the model and those of ``question.scores``.

        Raises:
            GenerationError: the package reads or explains other tokens than the reader wrote.
        """
        lengths = self._ablations(question.scores.num_sources, budgets)
        most = self._citer(question, max(lengths.values()), batch_size)
        logging.getLogger("ContextCite").setLevel(logging.ERROR)
        found = {}
        with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            self._check(most, question)
            logits = most._logit_probs
            masks = [mask_of(np.flatnonzero(row).tolist()) for row in most._masks]
            for calls, length in lengths.items():
                citer = self._citer(question, length, batch_size)
                citer._cache |= {
                    "output": most._output,
                    "reg_masks": most._masks[:length],
                    "reg_logit_probs": logits[:length],
                }
                weights = tuple(map(float, citer.get_attributions(verbose=False)))
                found[calls] = Cited(weights, tuple(masks[:length]))
        logs = self._package.utils.aggregate_logit_probs(logits, "log_prob")
        return found, float(np.abs(question.scores(masks) - logs).max())

    def _ablations(self, num_sources: int, budgets: Sequence[int]) -> dict[int, int]:
        """How many of the package's ablations make up to so many distinct ones, by budget."""
        lengths = dict.fromkeys(budgets, 0)
        known: set[bytes] = set()
        for seed in range(_REPEATED * max(budgets)):
            known.add(self._package.utils._create_mask(num_sources, 0.5, seed).tobytes())
            for calls in budgets:
                if len(known) <= calls and seed < _REPEATED * calls:
                    lengths[calls] = seed + 1
        return lengths

    def _citer(self, question: Question, calls: int, batch_size: int) -> Any:
        partitioner = self._partitioner(question)
        return self._package.ContextCiter(
            self._reader.model,
            self._tokenizer,
            partitioner.context,
            "",
            generate_kwargs={
                "max_new_tokens": self._reader.settings.max_new_tokens,
                "do_sample": False,
            },
            num_ablations=calls,
            batch_size=batch_size,
            prompt_template="{context}",
            partitioner=partitioner,
        )

    def _check(self, citer: Any, question: Question) -> None:
        prompt, tokens = self._reader.encode([question.request])[0]
        end = self._reader.encode_completion(prompt.text, question.response)
        same = citer._get_prompt_ids() == tokens.tolist() and citer._response_ids == end.tolist()
        if not same:
            raise GenerationError(
                f"ContextCite explains other tokens than the reader wrote: {citer.response!r}"
            )

    def _partitioner(self, question: Question) -> Any:
        reader, request = self._reader, question.request

        def rendered(mask: Sequence[bool] | None = None) -> str:
            kept = [
                document
                for place, document in enumerate(request.documents)
                if mask is None or mask[place]
            ]
            return reader.prompts([replace(request, documents=tuple(kept))])[0].text

        class Documents(self._package.context_partitioner.BaseContextPartitioner):  # type: ignore[misc, name-defined]
            """A source is a document; the context is the whole prompt of those kept."""

            @property
            def num_sources(self) -> int:
                return len(request.documents)

            def split_context(self) -> None:
                """The documents are split already."""

            def get_source(self, index: int) -> str:
                return request.documents[index].text

            def get_context(self, mask: Sequence[bool] | None = None) -> str:
                return rendered(mask)

        return Documents(rendered())


@cache
def context_cite() -> Any:
    """The package, imported without its download of sentence data, which nothing here needs."""
    try:
        import nltk
    except ImportError:
        raise _missing() from None
    download, nltk.download = nltk.download, lambda *_, **__: True
    try:
        import context_cite
        import context_cite.context_partitioner
        import context_cite.utils
    except ImportError:
        raise _missing() from None
    finally:
        nltk.download = download
    return context_cite


def _missing() -> MissingDependencyError:
    return MissingDependencyError("context-cite", "dev")
