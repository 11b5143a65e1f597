"""The probe engine: the only way from an explainer to a model.

Explainers hand over whole batches of subsets, a lattice level at a time. The engine removes
duplicates, asks what it does not know yet, keeps every output, counts and times the questions and
holds a budget, for one thread or for many. What the model says for a subset must not change from
one call to the next: decode greedily.
"""

from __future__ import annotations

import itertools
import operator
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rulerag.errors import ConfigError, ExplanationError, ProbeBudgetError, RuleRAGError
from rulerag.explanation.lattice import Masks, kept_indices, mask_of
from rulerag.explanation.probing.answer_function import AnswerFunction, Kept
from rulerag.explanation.probing.reader import answer_function_of
from rulerag.explanation.units import Context
from rulerag.protocols import Generator
from rulerag.types import GenerationRequest

SubsetFunction = Callable[[list[Kept]], Sequence[str]]
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
        texts: what the sources say, where that is known.
        max_probes: how many distinct subsets may be asked; no limit by default.
        batch_size: how many subsets one call of ``answer`` gets at most.
        together: how many subsets ``answer`` answers in the time of one.
        on_batch: called after each batch that was answered.

    Attributes:
        max_probes: how many distinct subsets may be asked in all; None for no limit.
        num_probes: how many distinct subsets the model was asked.
        seconds: seconds spent in the model, so far.

    Raises:
        ConfigError: an argument is out of range.
    """

    def __init__(
        self,
        answer: SubsetFunction,
        num_sources: int,
        *,
        names: Sequence[str] | None = None,
        texts: Sequence[str] | None = None,
        max_probes: int | None = None,
        batch_size: int = _DEFAULT_BATCH,
        together: int = 1,
        on_batch: Callable[[], object] = lambda: None,
    ) -> None:
        limits = [("num_sources", num_sources, 0), ("batch_size", batch_size, 1)]
        limits += [("together", together, 1)]
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
        self._on_batch = on_batch
        self._together = together
        self._answer = answer
        self._batch_size = batch_size
        self._store = _OutputStore(num_sources)
        # Held while the model answers. A thread may enter again, for an engine over this engine.
        self._asking = threading.RLock()

    @classmethod
    def from_function(cls, answer: SubsetFunction, **options: Any) -> ProbeEngine:
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
        context: Context | None = None,
        *,
        max_probes: int | None = None,
    ) -> ProbeEngine:
        """An engine over a generator: query and rules stay, parts of the documents go.

        Args:
            generator: what answers; it must answer the same for the same request.
            request: the whole request.
            context: its documents cut into sources; each document is one by default.
            max_probes: how many distinct subsets may be asked.

        Raises:
            ExplanationError: there is no source.
            SamplingError: the generator decodes by chance.
            DroppedDocumentsError: its prompt does not hold every document.
            GenerationError: the prompt does not fit even without documents.
        """
        context = Context(request.documents) if context is None else context
        if not context.places:
            hint = "give at least one document with a text"
            raise ExplanationError("there is no source to keep or remove", hint=hint)
        function = answer_function_of(generator, request, context)
        return cls.from_answer_function(function, max_probes=max_probes)

    @classmethod
    def from_answer_function(cls, function: AnswerFunction, **options: Any) -> ProbeEngine:
        """An engine over a function of documents.

        Args:
            function: the function, with its documents.
            options: what else the class takes.
        """
        passages = [function.context.passages[place] for place in function.context.places]
        return cls(
            function,
            len(passages),
            names=[one.label for one in passages],
            texts=[one.text for one in passages],
            together=function.workers,
            **options,
        )

    @property
    def left(self) -> int | None:
        """How many more subsets may be asked; None for no limit."""
        return None if self.max_probes is None else max(0, self.max_probes - self.num_probes)

    def allow(self, more: int | None) -> None:
        """Set how many more subsets may be asked from now on.

        Args:
            more: their number; None for no limit.
        """
        self.max_probes = None if more is None else self.num_probes + more

    @property
    def outputs(self) -> Sequence[str]:
        """The distinct outputs seen so far, in order of appearance; do not change it."""
        return self._store.texts

    def output(self, mask: int) -> str | None:
        """What was answered for a subset; None where it was not asked."""
        code = int(self._store.codes([mask])[0])
        return self.outputs[code] if code >= 0 else None

    def answered(self) -> dict[int, str]:
        """The output of every subset that was asked, by its mask."""
        masks = self._store.masks()
        codes = self._store.codes(masks).tolist()
        return {mask: self.outputs[code] for mask, code in zip(masks, codes, strict=True)}

    def probe(self, masks: Iterable[int | Iterable[int]], besides: Sequence[int] = ()) -> list[str]:
        """The output for each subset, in order; asks each distinct one at most once, ever.

        Args:
            masks: subsets as integer masks or as iterables of source indices.
            besides: masks that will be wanted later; asked where they take no time of their own.

        Raises:
            ExplanationError: a subset is out of range, or the model failed.
            ProbeBudgetError: the budget ran out; what was asked until then is kept.
        """
        codes = self.probe_codes([self._mask(mask) for mask in masks], besides)
        return [self._store.texts[code] for code in codes.tolist()]

    def probe_codes(
        self, masks: Masks | Sequence[int], besides: Sequence[int] = ()
    ) -> npt.NDArray[np.int32]:
        """The same as indices of ``outputs``, for masks known to be in range.

        The exact miners use this form: it costs no Python object for each subset.
        """
        with self._asking:
            self._learn(masks, besides)
        return self._store.codes(masks)

    def known_codes(self, masks: Masks | Sequence[int]) -> npt.NDArray[np.int32]:
        """The same without asking: -1 for a subset never asked."""
        return self._store.codes(masks)

    def _learn(self, masks: Masks | Sequence[int], besides: Sequence[int]) -> None:
        """Ask what is not known yet; one thread at a time."""
        wanted = self._store.unknown(masks)
        if 0 < len(wanted) < self._together and besides:
            most = self._together if self.left is None else min(self._together, self.left)
            later = self._store.unknown(list(besides))
            joined = dict.fromkeys([*map(int, wanted), *map(int, later)])
            wanted = list(joined)[: max(most, len(wanted))]
        allowed = len(wanted) if self.left is None else min(len(wanted), self.left)
        for start in range(0, allowed, self._batch_size):
            self._ask(wanted[start : min(start + self._batch_size, allowed)])
            self._on_batch()
        if allowed < len(wanted):
            raise ProbeBudgetError(
                f"the budget of {self.max_probes} probes is used up, "
                f"{len(wanted) - allowed} more subsets were wanted now",
                hint="allow more with max_probes, or explain fewer sources",
            )

    def _ask(self, batch: Masks | list[int]) -> None:
        """Ask one batch; what had been answered when it failed, or was interrupted, is kept."""
        kept = kept_indices(batch, self.num_sources)
        start = time.perf_counter()
        try:
            outputs = self._answer(kept)
        except BaseException as error:
            arrived: dict[Kept, str] = getattr(self._answer, "arrived", {})
            pairs = zip(map(int, batch), kept, strict=True)
            known = {mask: arrived[one] for mask, one in pairs if one in arrived}
            self._record(list(known), list(known.values()))
            if isinstance(error, RuleRAGError) or not isinstance(error, Exception):
                raise
            raise ExplanationError(
                f"the model failed with {type(error).__name__}: {error} {_about(kept)}",
                hint="what was answered before is kept; probing again goes on from there",
            ) from error
        finally:
            self.seconds += time.perf_counter() - start
        if isinstance(outputs, str) or not isinstance(outputs, Iterable):
            wanted = f"expected a list of {len(kept)} texts {_about(kept)}"
            raise ExplanationError(f"the model returned {type(outputs).__name__}, {wanted}")
        texts = outputs if isinstance(outputs, list | tuple) else list(outputs)
        if len(texts) != len(kept):
            what = f"the model returned {len(texts)} outputs for {len(kept)} subsets"
            hint = "return one output for each subset, in the order given"
            raise ExplanationError(what, hint=hint)
        if not all(issubclass(kind, str) for kind in set(map(type, texts))):
            place = next(n for n, one in enumerate(texts) if not isinstance(one, str))
            raise ExplanationError(
                f"the model returned {type(texts[place]).__name__} instead of a text for the "
                f"subset that keeps the sources {', '.join(map(str, kept[place])) or 'none'}",
                hint="return texts, an empty one for no answer",
            )
        self._record(batch, texts)

    def _record(self, batch: Masks | list[int], texts: Sequence[str]) -> None:
        self._store.record(batch, texts)
        self.num_probes += len(batch)

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


def _about(kept: Sequence[Kept]) -> str:
    """A batch in words."""
    first = f"sources {', '.join(map(str, kept[0]))}" if kept[0] else "no source"
    return f"({len(kept)} subsets asked, the first keeps {first})"


class _OutputStore:
    """The outputs of the subsets asked so far, as codes: every distinct text is kept once."""

    def __init__(self, num_sources: int) -> None:
        # A text that is new gets the next code.
        self._codes: defaultdict[str, int] = defaultdict(itertools.count().__next__)
        self.texts: list[str] = []
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
        """Keep the output of each mask."""
        code = self._codes.__getitem__
        codes = np.fromiter(map(code, outputs), dtype=np.int32, count=len(outputs))
        self.texts += itertools.islice(self._codes, len(self.texts), None)
        if self._dense is not None:
            self._dense[np.asarray(masks, dtype=np.int64)] = codes
        else:
            self._sparse.update(zip((int(m) for m in masks), codes.tolist(), strict=True))
