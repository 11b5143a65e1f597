"""What is asked of a generator: keys of what it reads, answers as they arrive, what spoils them.

An answer belongs to what was read for it and to nothing else. So the key of an answer holds all
that its generator reads of a request, and neither the query's id, its gold answers nor its place
in a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

from rulerag.errors import DroppedDocumentsError, EndpointChangedError, ExplanationError
from rulerag.io import fingerprint_object
from rulerag.protocols import Arrival
from rulerag.types import GenerationRequest, Query

if TYPE_CHECKING:
    from rulerag.protocols import Generator

__all__ = [
    "Asked",
    "arrivals",
    "endpoint_changed",
    "reading_of",
    "refuse_dropped_documents",
    "request_key",
    "whole_request",
]

_UNREAD = ("id", "answers")  # of a query
_KEY_DIGITS = 40
_SHOWN = 5
_HELD = 4096


def request_key(generator: str, reading: object) -> str:
    """The key of one answer.

    Args:
        generator: the generator's fingerprint; it covers model, template and decoding.
        reading: what it reads of the request (:func:`reading_of`).
    """
    return fingerprint_object([generator, reading], digits=_KEY_DIGITS)


def reading_of(generator: Generator, request: GenerationRequest) -> object:
    """What a generator reads of a request: what it says itself, else the whole request."""
    reading = getattr(generator, "reading", None)
    return reading(request) if callable(reading) else whole_request(request)


def whole_request(request: GenerationRequest) -> object:
    """Everything that a generator may read of a request, as a JSON-like value.

    That is every field of query, rules (with their counts, atoms and words) and documents (with
    their facts and titles), but for the id and the gold answers of the query.
    """
    told: dict[str, object] = {}
    for field in fields(request):
        value = getattr(request, field.name)
        many = isinstance(value, list | tuple)
        told[field.name] = [_digest(part) for part in value] if many else _digest(value)
    return told


# Digests of records, which cannot change and recur from probe to probe. As long as a record is held
# here, its id is its own.
_digests: dict[int, tuple[object, str]] = {}


def _digest(part: object) -> object:
    if not is_dataclass(part):
        return _plain(part)
    held = _digests.get(id(part))
    if held is not None and held[0] is part:
        return held[1]
    digest = fingerprint_object(_plain(part), digits=_KEY_DIGITS)
    if len(_digests) >= _HELD:
        _digests.clear()
    _digests[id(part)] = (part, digest)
    return digest


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        unread = _UNREAD if isinstance(value, Query) else ()
        names = [field.name for field in fields(value) if field.name not in unread]
        return {name: _plain(getattr(value, name)) for name in names}
    if isinstance(value, Mapping):
        return sorted([str(key), _plain(item)] for key, item in value.items())
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def arrivals(
    generator: Generator, requests: Sequence[GenerationRequest]
) -> Iterator[list[Arrival]]:
    """The answers to some requests as they arrive: one by one from a generator that streams.

    Any other generator hands out all of them together.

    Raises:
        ExplanationError: the generator returned too few or too many completions.
    """
    stream = getattr(generator, "stream", None)
    if callable(stream):
        waiting = set(range(len(requests)))
        for arrival in stream(requests):
            waiting.discard(arrival.place)
            yield [arrival]
        if waiting:
            raise _wrong_count(len(requests) - len(waiting), len(requests))
        return
    completions = generator.generate(requests)
    if len(completions) != len(requests):
        raise _wrong_count(len(completions), len(requests))
    system = str(getattr(generator, "system_fingerprint", ""))
    yield [Arrival(place, completion, system) for place, completion in enumerate(completions)]


def _wrong_count(found: int, wanted: int) -> ExplanationError:
    return ExplanationError(
        f"the generator returned {found} completions for {wanted} requests",
        hint="return one completion for each request, in the order given",
    )


class Asked:
    """A generator as the answer function of an engine.

    Args:
        generator: what is asked.
        reduced: the request that keeps some sources, given by their indices.

    Attributes:
        arrived: what the last batch got so far, by kept indices.
        scores: the generator's own score of every answer that arrived, where it states one.
    """

    def __init__(
        self, generator: Generator, reduced: Callable[[tuple[int, ...]], GenerationRequest]
    ) -> None:
        self._generator = generator
        self._reduced = reduced
        self._system: str | None = None
        self.arrived: dict[tuple[int, ...], str] = {}
        self.scores: dict[tuple[int, ...], float | None] = {}

    def __call__(self, batch: list[tuple[int, ...]]) -> list[str]:
        """The outputs for some subsets, in order.

        Raises:
            EndpointChangedError: an answer came from another build of the model than those before.
            ExplanationError: the generator returned too few or too many completions.
        """
        self.arrived = {}
        requests = [self._reduced(kept) for kept in batch]
        for place, completion, system in chain.from_iterable(arrivals(self._generator, requests)):
            if self._system not in (None, system):
                raise endpoint_changed(self._system or "", system)
            self._system = system
            self.scores[batch[place]] = completion.score
            self.arrived[batch[place]] = completion.text
        return [self.arrived[kept] for kept in batch]


def endpoint_changed(before: str, now: str) -> EndpointChangedError:
    """Two builds of a model answered the probes of one explanation."""
    return EndpointChangedError(
        f"the endpoint answers as {now or 'an unnamed build'!r}, and did as "
        f"{before or 'an unnamed build'!r} before: answers of two builds explain neither",
        retryable=True,
        hint="run it again, what this build answered is kept; or name a dated version of the model",
    )


def refuse_dropped_documents(generator: Generator, request: GenerationRequest) -> None:
    """Refuse a request of which the generator's prompt does not hold every document.

    Prompts with fewer documents are shorter, so that one look at the whole request is enough.

    Raises:
        DroppedDocumentsError: documents did not fit; names them.
    """
    prompts = getattr(generator, "prompts", None)
    if not callable(prompts):
        return
    (prompt,) = prompts([request])
    if not prompt.dropped:
        return
    names = ", ".join(map(repr, prompt.dropped[:_SHOWN]))
    more = len(prompt.dropped) - _SHOWN
    raise DroppedDocumentsError(
        f"the prompt of query {request.query.id!r} holds {len(prompt.kept)} of "
        f"{len(request.documents)} documents: {names}{f' and {more} more' if more > 0 else ''} "
        "did not fit, and what is never read explains nothing",
        hint="allow longer prompts (max_input_tokens, max_prompt_tokens), take a model with a "
        "longer context, or fewer documents (top_k)",
    )
