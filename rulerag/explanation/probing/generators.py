"""Generators under explanation: keys of what they read, answers as they arrive, votes, refusals.

An answer belongs to what was read for it and to nothing else. So the key of an answer holds all
that its generator reads of a request, and neither the query's id, its gold answers nor its place
in a batch.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from rulerag.errors import (
    ConfigError,
    DroppedDocumentsError,
    EndpointChangedError,
    ExplanationError,
    SamplingError,
)
from rulerag.io import fingerprint_object
from rulerag.protocols import Arrival, Generator
from rulerag.text import normalize_answer
from rulerag.types import Candidate, Completion, GenerationRequest, Query

_UNREAD = ("id", "answers", "relations")  # of a query
_KEY_DIGITS, _MOST_NAMED, _HELD = 40, 5, 4096
# Where readers hold the readers that they are made of.
_PARTS = ("generator", "reader", "model", "symbolic")


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
    return reading(request) if callable(reading) else _whole_request(request)


def _whole_request(request: GenerationRequest) -> object:
    """Everything that a generator may read of a request, as a JSON-like value.

    That is every field of query, rules (with their counts, atoms and words) and documents (with
    their facts and titles), but for the id and the gold answers of the query.
    """
    parts: dict[str, object] = {}
    for field in fields(request):
        value = getattr(request, field.name)
        many = isinstance(value, list | tuple)
        parts[field.name] = list(map(_digest, value)) if many else _digest(value)
    return parts


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


class WrappedGenerator:
    """What stands in front of a generator and reads what that one reads."""

    def __init__(self, generator: Any) -> None:
        self.generator = generator

    @property
    def prompts(self) -> Any:
        """The generator's own, where it has them."""
        return getattr(self.generator, "prompts", None)

    def reading(self, request: GenerationRequest) -> object:
        """What the generator reads."""
        return reading_of(self.generator, request)


def arrivals(
    generator: Generator, requests: Sequence[GenerationRequest]
) -> Iterator[list[Arrival]]:
    """The answers to some requests as they arrive: one by one from a generator that streams.

    Any other generator hands out all of them together.

    Raises:
        ExplanationError: the generator returned too few or too many completions.
    """
    stream = getattr(generator, "stream", None)
    stored = 0
    if callable(stream):
        seen = set()
        for arrival in stream(requests):
            seen.add(arrival.place)
            yield [arrival]
        stored = len(seen)
    else:
        completions = generator.generate(requests)
        stored = len(completions)
        if stored == len(requests):
            system = str(getattr(generator, "system_fingerprint", ""))
            yield [Arrival(place, one, system) for place, one in enumerate(completions)]
    if stored != len(requests):
        raise ExplanationError(
            f"the generator returned {stored} completions for {len(requests)} requests",
            hint="return one completion for each request, in the order given",
        )


def endpoint_changed(before: str, now: str) -> EndpointChangedError:
    """Two builds of a model answered the probes of one explanation."""
    return EndpointChangedError(
        f"the endpoint answers as {now or 'an unnamed build'!r}, and did as "
        f"{before or 'an unnamed build'!r} before: answers of two builds explain neither",
        retryable=True,
        hint="run it again, what this build answered is kept; or name a dated version of the model",
    )


def refuse_unread_documents(generator: Generator, request: GenerationRequest) -> None:
    """Refuse a request of which a prompt does not hold every document, for whatever reason.

    Prompts of readers that a generator is made of are looked at too. Prompts with fewer documents
    are shorter, so that one look at the whole request is enough.

    Raises:
        DroppedDocumentsError: documents are not read; names them.
    """
    wanted = Counter(document.id for document in request.documents if document.text.strip())
    for prompts in dict.fromkeys(_prompts_of(generator)):
        (prompt,) = prompts([request])
        unread = list((wanted - Counter(prompt.kept)).elements())
        if unread:
            names = ", ".join(map(repr, unread[:_MOST_NAMED]))
            more = len(unread) - _MOST_NAMED
            raise DroppedDocumentsError(
                f"the prompt holds {wanted.total() - len(unread)} of {wanted.total()} documents: "
                f"{names}{f' and {more} more' if more > 0 else ''} would not be read, and what is "
                "never read explains nothing",
                hint="let the prompt show all of them (max_documents of the template or of the "
                "model's prompt.json; max_input_tokens, max_prompt_tokens), take a model with a "
                "longer context, or fewer documents (top_k)",
            )


def _prompts_of(generator: object) -> Iterator[Callable[..., list[Any]]]:
    """What makes the prompts of a generator, and of those that it is made of."""
    own = getattr(generator, "prompts", None)
    if callable(own):
        yield own
    for name in _PARTS:
        part = getattr(generator, name, None)
        if hasattr(part, "fingerprint"):
            yield from _prompts_of(part)


class VotingGenerator(WrappedGenerator):
    """Asks a generator several times and answers what most of the tries said.

    Outputs count as one after normalisation. Ties go to the one that was said first.

    Args:
        generator: one that samples, anew in each call.
        votes: how many tries.

    Raises:
        ConfigError: fewer than one vote.
    """

    def __init__(self, generator: Generator, votes: int = 5) -> None:
        if votes < 1:
            raise ConfigError(f"expected a number from 1, found {votes}", key="votes")
        super().__init__(generator)
        self.votes = votes

    @property
    def fingerprint(self) -> str:
        """Names the generator and the number of votes."""
        return fingerprint_object(["votes", self.votes, self.generator.fingerprint])

    @property
    def sampling(self) -> str:
        """Empty: the vote stands for the tries, unless there is only one."""
        return "" if self.votes > 1 else _sampling_of(self.generator)

    @property
    def system_fingerprint(self) -> str:
        """Which build of a model gave the last answers, where the generator knows."""
        return str(getattr(self.generator, "system_fingerprint", ""))

    def generate(self, requests: Sequence[GenerationRequest]) -> list[Completion]:
        """Return one completion for each request, in order; its candidates hold the votes.

        The candidates' scores are shares of the votes; the completion keeps the generator's own
        score of the winning try.
        """
        ballots = [self.generator.generate(requests) for _ in range(self.votes)]
        return [self._count([ballot[i] for ballot in ballots]) for i in range(len(requests))]

    def _count(self, tries: Sequence[Completion]) -> Completion:
        first: dict[str, Completion] = {}
        for one in tries:
            first.setdefault(normalize_answer(one.text), one)
        # Equal counts stay in the order of appearance.
        ranked = Counter(normalize_answer(one.text) for one in tries).most_common()
        candidates = [Candidate(first[text].text, count / len(tries)) for text, count in ranked]
        winner = first[ranked[0][0]]
        return Completion(winner.text, winner.score, tuple(candidates))


def _sampling_of(generator: object) -> str:
    """How a generator, or one that it is made of, decodes by chance; empty where none says so.

    Read from ``sampling``, else from ``do_sample`` and ``temperature``.
    """
    stated = getattr(generator, "sampling", None)
    if stated is not None:
        return str(stated) if stated else ""
    if getattr(generator, "do_sample", None) is True:
        return "do_sample"
    temperature = getattr(generator, "temperature", None)
    if isinstance(temperature, int | float) and temperature > 0:
        return f"temperature {temperature:g}"
    parts = (getattr(generator, name, None) for name in _PARTS)
    return next(filter(None, (_sampling_of(p) for p in parts if hasattr(p, "fingerprint"))), "")


def refuse_sampling_generator(generator: Generator) -> None:
    """Refuse a generator that says it decodes by chance; asks nothing.

    Raises:
        SamplingError: it does; says how.
    """
    if how := _sampling_of(generator):
        raise SamplingError(
            f"the generator decodes by chance ({how}): asked the same again it may answer "
            "otherwise, and a probe would tell as much about chance as about the sources",
            hint="set temperature 0, or let several tries vote (votes, VotingGenerator)",
        )


def refuse_another_answer(first: str, second: str | None) -> None:
    """Refuse two answers to one request that differ; costs nothing where both are known.

    Args:
        first: what the generator said.
        second: what it said when it was asked the same again; None when it was not.

    Raises:
        SamplingError: the answers differ.
    """
    if second is not None and normalize_answer(first) != normalize_answer(second):
        raise SamplingError(
            f"the generator says {first!r} and then {second!r} to the same request",
            hint="decode greedily, or let several tries vote (votes, VotingGenerator)",
        )


def self_explaining(generator: Generator) -> Generator:
    """The same generator, of which a completion is a whole explanation and not its answer alone.

    Args:
        generator: with the template ``self-explanation``; it stays as it is.

    Raises:
        ConfigError: it has another template.
    """
    template = getattr(generator, "template", None)
    if not hasattr(template, "explained"):
        raise ConfigError(
            f"{type(generator).__name__} does not ask for explanations",
            key="template",
            hint="template: self-explanation, or self-explanation-few-shot for small models",
        )
    changed: Any = copy.copy(generator)
    changed.template = template.whole()  # type: ignore[union-attr]
    return changed  # type: ignore[no-any-return]
