"""The probe engine: the only way from an explainer to a model.

Explainers hand over whole batches of subsets, a lattice level at a time. The engine removes
duplicates, asks what it does not know yet, keeps every output, counts and times the questions and
holds a budget, for one thread or for many. What the model says for a subset must not change from
one call to the next: decode greedily.
"""

from __future__ import annotations

import operator
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from rulerag.errors import ConfigError, ExplanationError, ProbeBudgetError, RuleRAGError
from rulerag.explanation.lattice import Masks, kept_indices, mask_of
from rulerag.explanation.probing.asking import (
    arrivals,
    endpoint_changed,
    refuse_dropped_documents,
    refuse_sampling_generator,
)
from rulerag.explanation.probing.sources import PartitionedDocuments, Source, partition
from rulerag.protocols import Generator
from rulerag.types import GenerationRequest

Kept = tuple[int, ...]
AnswerFunction = Callable[[list[Kept]], Sequence[str]]
"""Kept source indices, one tuple a subset, to the outputs, in the same order."""

_DEFAULT_BATCH = 1 << 15
_DENSE_SOURCES = 20
"""Up to here an array of 2**n codes (4 MB at most) holds the outputs; beyond it a dictionary."""
_UNKNOWN = -1


class ProbeEngine:
    """A set function from subsets of the sources to outputs: batched, cached, counted.

    Make one with ``from_function`` or ``from_generator``. Threads may share it: one of them asks at
    a time, the others wait and find its answers, so that no subset is asked twice and the budget
    holds to the subset. What is asked need not be safe for threads itself.

    Args:
        answer: gives the outputs for a list of subsets, in order.
        num_sources: how many sources there are; masks run from 0 to ``2**num_sources - 1``.
        names: what explanations call the sources; ``source 0``, ``source 1`` … by default.
        max_probes: how many distinct subsets may be asked; no limit by default.
        batch_size: how many subsets one call of ``answer`` gets at most.
        texts: what the sources say, where that is known.

    Attributes:
        num_probes: how many distinct subsets the model was asked.
        seconds: seconds spent in the model, so far.
        on_batch: called with the number of probes and the seconds of each batch that was answered.
        together: how many subsets are answered at once, in the time of one.
        besides: masks that will be wanted later; asked where a batch is smaller than that.

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
        texts: Sequence[str] | None = None,
    ) -> None:
        limits = [("num_sources", num_sources, 0), ("batch_size", batch_size, 1)]
        limits += [] if max_probes is None else [("max_probes", max_probes, 0)]
        for key, value, least in limits:
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise ConfigError(f"expected a whole number from {least}, found {value!r}", key=key)
        for key, stated in (("names", names), ("texts", texts)):
            if stated is not None and len(stated) != num_sources:
                raise ConfigError(f"{len(stated)} {key} for {num_sources} sources", key=key)
        self.num_sources = num_sources
        self.names = tuple(names or (f"source {index}" for index in range(num_sources)))
        self.texts = None if texts is None else tuple(texts)
        self.max_probes = max_probes
        self.num_probes = 0
        self.seconds = 0.0
        self.on_batch: Callable[[int, float], object] | None = None
        self.together = 1
        self.besides: Sequence[int] = ()
        self._answer = answer
        self._batch_size = batch_size
        self._store = _OutputStore(num_sources)
        # Held while the model answers. A thread may enter again, for an engine over this engine.
        self._asking = threading.RLock()

    @classmethod
    def from_function(cls, answer: AnswerFunction, **options: Any) -> ProbeEngine:
        """An engine over any function from kept source indices to outputs.

        Args:
            answer: takes a list of tuples of kept indices, ascending; returns one output each.
            options: ``num_sources``, and what else the class takes.

        Raises:
            ConfigError: an argument is out of range.
        """
        return cls(answer, **options)

    @classmethod
    def from_generator(
        cls,
        generator: Generator,
        request: GenerationRequest,
        sources: Sequence[Source] | PartitionedDocuments | None = None,
        *,
        max_probes: int | None = None,
    ) -> ProbeEngine:
        """An engine over a generator: query and rules stay, parts of the documents go.

        Args:
            generator: what answers; it must answer the same for the same request.
            request: the whole request.
            sources: disjoint parts of ``request.documents``; each document is one by default.
                Documents that no source covers are kept in every probe. Or the documents already
                cut, which then decide what a subset leaves of them.
            max_probes: how many distinct subsets may be asked.

        Raises:
            ExplanationError: there is no source, or the sources do not fit the documents.
            SamplingError: the generator decodes by chance.
            DroppedDocumentsError: its prompt does not hold every document.
            GenerationError: the prompt does not fit even without documents.
        """
        sources = partition(request.documents) if sources is None else sources
        if not sources:
            hint = "give at least one document"
            raise ExplanationError("there is no source to keep or remove", hint=hint)
        cut = sources
        if not isinstance(cut, PartitionedDocuments):
            cut = PartitionedDocuments(request.documents, cut)
        refuse_sampling_generator(generator)
        refuse_dropped_documents(generator, request)
        answer = _GeneratorAnswers(generator, request, cut)
        names, texts = ([getattr(one, key) for one in cut.sources] for key in ("name", "text"))
        return cls(
            answer,
            len(cut.sources),
            names=names,
            max_probes=max_probes,
            batch_size=1024,
            texts=texts,
        )

    @property
    def outputs(self) -> Sequence[str]:
        """The distinct outputs seen so far, in order of appearance; do not change it."""
        return self._store.texts

    def answered(self) -> dict[int, str]:
        """The output of every subset that was asked, by its mask."""
        masks = self._store.masks()
        codes = self._store.codes(masks).tolist()
        return {mask: self.outputs[code] for mask, code in zip(masks, codes, strict=True)}

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
        """The same as indices of ``outputs``, for masks known to be in range.

        The exact miners use this form: it costs no Python object for each subset.
        """
        with self._asking:
            self._learn(masks)
        return self._store.codes(masks)

    def known_codes(self, masks: Masks | Sequence[int]) -> npt.NDArray[np.int32]:
        """The same without asking: -1 for a subset never asked."""
        return self._store.codes(masks)

    def _learn(self, masks: Masks | Sequence[int]) -> None:
        """Ask what is not known yet; one thread at a time."""
        wanted = self._store.unknown(masks)
        if len(wanted) < self.together and len(wanted) and self.besides:
            wanted = self._with_others(wanted)
        allowed = len(wanted)
        if self.max_probes is not None:
            allowed = min(allowed, max(0, self.max_probes - self.num_probes))
        for start in range(0, allowed, self._batch_size):
            batch = wanted[start : min(start + self._batch_size, allowed)]
            before = self.seconds
            self._learn_batch(batch)
            if self.on_batch is not None:
                self.on_batch(len(batch), self.seconds - before)
        if allowed < len(wanted):
            raise ProbeBudgetError(
                f"the budget of {self.max_probes} probes is used up, "
                f"{len(wanted) - allowed} more subsets were wanted now",
                hint="allow more with max_probes, or explain fewer sources",
            )

    def _with_others(self, wanted: Masks | Sequence[int]) -> list[int]:
        """Subsets that are wanted, and what is asked besides in the same time."""
        most = self.together
        if self.max_probes is not None:
            most = min(most, self.max_probes - self.num_probes)
        later = self._store.unknown(list(self.besides))
        joined = dict.fromkeys([*map(int, wanted), *map(int, later)])
        return list(joined)[: max(most, len(wanted))]

    def _learn_batch(self, batch: Masks | list[int]) -> None:
        kept = kept_indices(batch, self.num_sources)
        try:
            outputs = self._ask(kept)
        except BaseException:
            # What had been answered when it failed, or was interrupted, is kept.
            arrived: dict[Kept, str] = getattr(self._answer, "arrived", {})
            pairs = zip(map(int, batch), kept, strict=True)
            known = {mask: arrived[one] for mask, one in pairs if one in arrived}
            self._store.record(list(known), list(known.values()))
            self.num_probes += len(known)
            raise
        try:
            self._store.record(batch, outputs)
        except TypeError:
            index = next((i for i, text in enumerate(outputs) if not isinstance(text, str)), 0)
            raise ExplanationError(
                f"the model returned {type(outputs[index]).__name__} instead of a text for the "
                f"subset that keeps the sources {', '.join(map(str, kept[index])) or 'none'}",
                hint="return texts, an empty one for no answer",
            ) from None
        self.num_probes += len(batch)

    def _ask(self, kept: list[Kept]) -> Sequence[str]:
        """One output for each subset."""
        first = f"sources {', '.join(map(str, kept[0]))}" if kept[0] else "no source"
        about = f"({len(kept)} subsets asked, the first keeps {first})"
        start = time.perf_counter()
        try:
            outputs = self._answer(kept)
        except RuleRAGError:
            raise
        except Exception as error:
            raise ExplanationError(
                f"the model failed with {type(error).__name__}: {error} {about}",
                hint="what was answered before is kept; probing again goes on from there",
            ) from error
        finally:
            self.seconds += time.perf_counter() - start
        if isinstance(outputs, str) or not isinstance(outputs, Iterable):
            wanted = f"expected a list of {len(kept)} texts {about}"
            raise ExplanationError(f"the model returned {type(outputs).__name__}, {wanted}")
        texts = outputs if isinstance(outputs, list | tuple) else list(outputs)
        if len(texts) != len(kept):
            what = f"the model returned {len(texts)} outputs for {len(kept)} subsets"
            hint = "return one output for each subset, in the order given"
            raise ExplanationError(what, hint=hint)
        return texts

    def _mask(self, subset: int | Iterable[int]) -> int:
        many, count = isinstance(subset, Iterable), self.num_sources
        try:
            indices = [operator.index(one) for one in (subset if many else [subset])]  # type: ignore
        except TypeError:
            hint = "give an integer mask or an iterable of source indices"
            raise ExplanationError(f"{subset!r} is not a subset", hint=hint) from None
        if any(not 0 <= one < (count if many else 1 << count) for one in indices):
            raise ExplanationError(
                f"the subset {subset!r} does not fit {count} sources",
                hint=f"sources run from 0 to {count - 1}",
            )
        return mask_of(indices) if many else indices[0]


def stopped(error: ProbeBudgetError, found: str, partial: object) -> ProbeBudgetError:
    """What ended a search, with what the search had found by then, in words and as a result."""
    return ProbeBudgetError(f"{error.message}; {found}", partial=partial, hint=error.hint)


class _GeneratorAnswers:
    """A generator as the answer function of an engine.

    Args:
        generator: what is asked.
        request: the whole request.
        evidence: its documents, cut into the sources.

    Attributes:
        arrived: what the last batch got so far, by kept indices.
    """

    def __init__(
        self, generator: Generator, request: GenerationRequest, evidence: PartitionedDocuments
    ) -> None:
        self._generator = generator
        self._request = request
        self._evidence = evidence
        self._system: str | None = None
        self.arrived: dict[Kept, str] = {}

    def __call__(self, batch: list[Kept]) -> list[str]:
        """The outputs for some subsets, in order.

        Raises:
            EndpointChangedError: an answer came from another build of the model than those before.
            ExplanationError: the generator returned too few or too many completions.
        """
        self.arrived = {}
        requests = [replace(self._request, documents=self._evidence.keep(k)) for k in batch]
        for place, completion, system in chain.from_iterable(arrivals(self._generator, requests)):
            if self._system not in (None, system):
                raise endpoint_changed(self._system or "", system)
            self._system = system
            self.arrived[batch[place]] = completion.text
        return [self.arrived[kept] for kept in batch]


class _Codes(dict[str, int]):
    """Texts to codes 0, 1, 2 … in order of appearance; an unknown text gets the next code."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def __missing__(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(type(text).__name__)
        self.texts.append(text)
        self[text] = len(self.texts) - 1
        return self[text]


class _OutputStore:
    """The outputs of the subsets asked so far, as codes: every distinct text is kept once."""

    def __init__(self, num_sources: int) -> None:
        self._codes = _Codes()
        self.texts = self._codes.texts
        self._sparse: dict[int, int] = {}
        self._dense: npt.NDArray[np.int32] | None = None
        if num_sources <= _DENSE_SOURCES:
            self._dense = np.full(1 << num_sources, _UNKNOWN, dtype=np.int32)

    def codes(self, masks: Masks | Sequence[int]) -> npt.NDArray[np.int32]:
        """The code of each mask's output, -1 where it was never asked."""
        if self._dense is not None:
            return self._dense[np.asarray(masks, dtype=np.int64)]
        known = (self._sparse.get(int(mask), _UNKNOWN) for mask in masks)
        return np.fromiter(known, dtype=np.int32, count=len(masks))

    def masks(self) -> list[int]:
        """Every mask that was asked."""
        if self._dense is None:
            return list(self._sparse)
        asked: list[int] = np.flatnonzero(self._dense != _UNKNOWN).tolist()
        return asked

    def unknown(self, masks: Masks | Sequence[int]) -> Masks | list[int]:
        """The distinct masks never asked, in order of first appearance."""
        if self._dense is None:
            return list(dict.fromkeys(int(m) for m in masks if int(m) not in self._sparse))
        array: Masks = np.asarray(masks, dtype=np.int64)
        array = array[self._dense[array] == _UNKNOWN]
        if array.size < 2 or bool((array[1:] > array[:-1]).all()):
            return array  # a lattice level comes sorted: nothing to look for
        first_seen: Masks = array[np.sort(np.unique(array, return_index=True)[1])]
        return first_seen

    def record(self, masks: Masks | Sequence[int], outputs: Sequence[str]) -> None:
        """Keep the output of each mask.

        Raises:
            TypeError: an output is no text.
        """
        code = self._codes.__getitem__
        codes = np.fromiter(map(code, outputs), dtype=np.int32, count=len(outputs))
        if self._dense is not None:
            self._dense[np.asarray(masks, dtype=np.int64)] = codes
        else:
            self._sparse.update(zip((int(m) for m in masks), codes.tolist(), strict=True))
