"""The probe engine: the only way from an explainer to a model.

Explainers hand over whole batches of subsets, a lattice level at a time. The engine removes
duplicates, asks what it does not know yet, keeps every output, counts and times the questions and
holds a budget. What the model says for a subset must not change from one call to the next: decode
greedily, or with a seed of its own for each request.
"""

from __future__ import annotations

import operator
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from rulerag.errors import ConfigError, ExplanationError, ProbeBudgetError, RuleRAGError
from rulerag.explanation.lattice import indices_of, mask_of
from rulerag.explanation.sources import Evidence, Source, partition
from rulerag.explanation.store import OutputStore
from rulerag.explanation.tables import KeptIndices, Masks
from rulerag.io import fingerprint_object
from rulerag.types import GenerationRequest

if TYPE_CHECKING:
    from rulerag.protocols import Generator

__all__ = ["AnswerFunction", "ProbeEngine", "request_key"]

AnswerFunction = Callable[[list[tuple[int, ...]]], Sequence[str]]
"""Kept source indices, one tuple a subset, to the outputs, in the same order."""

_DEFAULT_BATCH = 1 << 15


def request_key(generator: str, request: GenerationRequest) -> str:
    """The cache key of one probe: what the generator reads, and which generator it is.

    Args:
        generator: the generator's fingerprint; it covers model, template and decoding.
        request: query, rules and the kept documents, in order.
    """
    return fingerprint_object(
        {
            "generator": generator,
            "query": request.query.to_json(),
            "prediction": request.query.prediction,
            "rules": [[rule.id, rule.text] for rule in request.rules],
            "documents": [document.to_json() for document in request.documents],
        }
    )


class ProbeEngine:
    """A set function from subsets of the sources to outputs: batched, cached, counted.

    Make one with ``from_function`` or ``from_generator``.

    Args:
        answer: gives the outputs for a list of subsets, in order.
        num_sources: how many sources there are.
        names: what explanations call the sources; ``source 0``, ``source 1`` … by default.
        max_probes: how many distinct subsets may be asked; no limit by default.
        batch_size: how many subsets one call of ``answer`` gets at most.
        key: the cache key of a subset given by its kept indices.
        score: the score of a subset's output, once it was asked; None where there is none.

    Raises:
        ConfigError: an argument is out of range.
    """

    def __init__(
        self,
        answer: AnswerFunction,
        num_sources: int,
        *,
        names: Sequence[str] | None = None,
        max_probes: int | None = None,
        batch_size: int = _DEFAULT_BATCH,
        key: Callable[[tuple[int, ...]], str] | None = None,
        score: Callable[[tuple[int, ...]], float | None] | None = None,
    ) -> None:
        _check_count("num_sources", num_sources, least=0)
        _check_count("batch_size", batch_size, least=1)
        if max_probes is not None:
            _check_count("max_probes", max_probes, least=0)
        if names is not None and len(names) != num_sources:
            raise ConfigError(f"{len(names)} names for {num_sources} sources", key="names")
        self._answer = answer
        self._num_sources = num_sources
        self._names = tuple(names or (f"source {index}" for index in range(num_sources)))
        self._batch_size = batch_size
        self._key = key
        self._score = score
        self._store = OutputStore(num_sources)
        self._kept = KeptIndices(num_sources)
        self.max_probes = max_probes
        self._num_probes = 0
        self._seconds = 0.0

    @classmethod
    def from_function(
        cls,
        answer: AnswerFunction,
        *,
        num_sources: int,
        names: Sequence[str] | None = None,
        max_probes: int | None = None,
        batch_size: int = _DEFAULT_BATCH,
    ) -> ProbeEngine:
        """An engine over any function from kept source indices to outputs.

        Args:
            answer: takes a list of tuples of kept indices, ascending; returns one output each.
            num_sources: how many sources there are.
            names: what explanations call the sources.
            max_probes: how many distinct subsets may be asked.
            batch_size: how many subsets one call gets at most.

        Raises:
            ConfigError: an argument is out of range.
        """
        return cls(answer, num_sources, names=names, max_probes=max_probes, batch_size=batch_size)

    @classmethod
    def from_generator(
        cls,
        generator: Generator,
        request: GenerationRequest,
        sources: Sequence[Source] | None = None,
        *,
        max_probes: int | None = None,
        batch_size: int = 1024,
    ) -> ProbeEngine:
        """An engine over a generator: query and rules stay, parts of the documents go.

        Args:
            generator: what answers; it must answer the same for the same request.
            request: the whole request.
            sources: disjoint parts of ``request.documents``; each document is one by default.
                Documents that no source covers are kept in every probe.
            max_probes: how many distinct subsets may be asked.
            batch_size: how many requests one call of the generator gets at most.

        Raises:
            ExplanationError: there is no source, or the sources do not fit the documents.
        """
        if sources is None:
            sources = partition(request.documents)
        if not sources:
            raise ExplanationError(
                "there is no source to keep or remove", hint="give at least one document"
            )
        evidence = Evidence(request.documents, sources)

        def reduced(kept: tuple[int, ...]) -> GenerationRequest:
            return GenerationRequest(request.query, evidence.keep(kept), request.rules)

        scores: dict[tuple[int, ...], float | None] = {}

        def answer(batch: list[tuple[int, ...]]) -> list[str]:
            completions = generator.generate([reduced(kept) for kept in batch])
            scores.update(zip(batch, (c.score for c in completions), strict=False))
            return [completion.text for completion in completions]

        return cls(
            answer,
            len(sources),
            names=[source.name for source in sources],
            max_probes=max_probes,
            batch_size=batch_size,
            key=lambda kept: request_key(generator.fingerprint, reduced(kept)),
            score=scores.get,
        )

    @property
    def num_sources(self) -> int:
        """How many sources there are; masks run from 0 to ``2**num_sources - 1``."""
        return self._num_sources

    @property
    def names(self) -> tuple[str, ...]:
        """What explanations call the sources, in order."""
        return self._names

    @property
    def num_probes(self) -> int:
        """How many distinct subsets the model was asked."""
        return self._num_probes

    @property
    def seconds(self) -> float:
        """Seconds spent in the model, so far."""
        return self._seconds

    @property
    def outputs(self) -> Sequence[str]:
        """The distinct outputs seen so far, in order of appearance; do not change it."""
        return self._store.texts

    def key(self, mask: int | Iterable[int]) -> str:
        """The key under which a persistent cache holds this subset's output.

        It is made from what the generator reads for the subset, so the same kept text under the
        same query, rules and generator has the same key in every process.

        Raises:
            ExplanationError: the engine was made from a plain function, which has no fingerprint.
        """
        if self._key is None:
            raise ExplanationError(
                "an engine over a plain function has no cache keys",
                hint="make it with ProbeEngine.from_generator",
            )
        return self._key(indices_of(self._mask(mask)))

    def probe(self, masks: Iterable[int | Iterable[int]]) -> list[str]:
        """The output for each subset, in order; asks each distinct one at most once, ever.

        Args:
            masks: subsets as integer masks or as iterables of source indices.

        Raises:
            ExplanationError: a subset is out of range, or the model failed.
            ProbeBudgetError: the budget ran out; what was asked until then is kept.
        """
        texts = self._store.texts
        return [texts[code] for code in self.probe_codes([self._mask(m) for m in masks]).tolist()]

    def probe_codes(self, masks: Masks | Sequence[int]) -> npt.NDArray[np.int32]:
        """The same as places in ``outputs``, for masks known to be in range.

        The exact miners use this form: it costs no Python object for each subset.
        """
        wanted = self._store.unknown(masks)
        allowed = len(wanted)
        if self.max_probes is not None:
            allowed = min(allowed, max(0, self.max_probes - self._num_probes))
        for start in range(0, allowed, self._batch_size):
            batch = wanted[start : min(start + self._batch_size, allowed)]
            kept = self._kept(batch)
            outputs = self._ask(kept)
            try:
                self._store.record(batch, outputs)
            except TypeError:
                raise _not_a_text(outputs, kept) from None
            self._num_probes += len(batch)
        if allowed < len(wanted):
            raise ProbeBudgetError(
                f"the budget of {self.max_probes} probes is used up, "
                f"{len(wanted) - allowed} more subsets were wanted now",
                hint="allow more with max_probes, or explain fewer sources",
            )
        return self._store.codes(masks)

    def scores(self, masks: Iterable[int | Iterable[int]]) -> list[float]:
        """The generator's own score of its output for each subset, asked for like ``probe``.

        Raises:
            ExplanationError: the generator states no score.
            ProbeBudgetError: the budget ran out.
        """
        asked = [self._mask(mask) for mask in masks]
        self.probe_codes(asked)
        scores: list[float] = []
        for mask in asked:
            score = self._score(indices_of(mask)) if self._score is not None else None
            if score is None:
                raise ExplanationError(
                    "the generator states no score for its outputs",
                    hint="give a score of the output's text, such as a predicate",
                )
            scores.append(score)
        return scores

    def known_codes(self, masks: Masks | Sequence[int]) -> npt.NDArray[np.int32]:
        """The same without asking: -1 for a subset never asked."""
        return self._store.codes(masks)

    def _mask(self, subset: int | Iterable[int]) -> int:
        try:
            if isinstance(subset, Iterable):
                indices = [operator.index(index) for index in subset]
                fits = all(0 <= index < self._num_sources for index in indices)
                mask = mask_of(indices) if fits else -1
            else:
                mask = operator.index(subset)
        except TypeError:
            raise ExplanationError(
                f"{subset!r} is not a subset",
                hint="give an integer mask or an iterable of source indices",
            ) from None
        if mask < 0 or mask >> self._num_sources:
            raise ExplanationError(
                f"the subset {subset!r} does not fit {self._num_sources} sources",
                hint=f"sources run from 0 to {self._num_sources - 1}",
            )
        return mask

    def _ask(self, kept: list[tuple[int, ...]]) -> Sequence[str]:
        start = time.perf_counter()
        try:
            outputs = self._answer(kept)
        except RuleRAGError:
            raise
        except Exception as error:
            raise ExplanationError(
                f"the model failed with {type(error).__name__}: {error} ({_batch_words(kept)})",
                hint="what was answered before is kept; probing again goes on from there",
            ) from error
        finally:
            self._seconds += time.perf_counter() - start
        return _checked(outputs, kept)


def _checked(outputs: Sequence[str], kept: list[tuple[int, ...]]) -> Sequence[str]:
    """The outputs as a list, when there is one for each subset asked.

    Raises:
        ExplanationError: there are too many or too few, or it is no list.
    """
    if not isinstance(outputs, list | tuple) and (
        isinstance(outputs, str) or not isinstance(outputs, Iterable)
    ):
        raise ExplanationError(
            f"the model returned {type(outputs).__name__}, expected a list of "
            f"{len(kept)} texts ({_batch_words(kept)})"
        )
    texts = outputs if isinstance(outputs, list | tuple) else list(outputs)
    if len(texts) != len(kept):
        raise ExplanationError(
            f"the model returned {len(texts)} outputs for {len(kept)} subsets",
            hint="return one output for each subset, in the order given",
        )
    return texts


def _not_a_text(outputs: Sequence[object], kept: list[tuple[int, ...]]) -> ExplanationError:
    place = next((i for i, text in enumerate(outputs) if not isinstance(text, str)), 0)
    shown = ", ".join(map(str, kept[place])) or "none"
    return ExplanationError(
        f"the model returned {type(outputs[place]).__name__} instead of a text "
        f"for the subset that keeps the sources {shown}",
        hint="return texts, an empty one for no answer",
    )


def _batch_words(kept: list[tuple[int, ...]]) -> str:
    shown = "no source" if not kept[0] else f"sources {', '.join(map(str, kept[0]))}"
    return f"{len(kept)} subsets asked, the first keeps {shown}"


def _check_count(name: str, value: object, *, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ConfigError(f"expected a whole number from {least}, found {value!r}", key=name)
