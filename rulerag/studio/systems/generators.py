"""What answers from sources: a rule-based reader, a language model, an endpoint, a benchmark's.

The rule-based reader is a **fake with a known behaviour**, for use without any model: it shows what
the studio does and says nothing about how language models behave. Every screen says so.
"""

from __future__ import annotations

import copy
import re
import threading
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, lru_cache
from importlib.util import find_spec
from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from rulerag.composition import Settings
from rulerag.errors import MissingDependencyError, RuleRAGError
from rulerag.io import fingerprint_object
from rulerag.models import find_model
from rulerag.studio.systems.predicates import masked
from rulerag.studio.systems.reach import Reach
from rulerag.types import Completion, Document, GenerationRequest

WITHHELD = "[withheld]"
NOTHING = "The sources do not say."

ORDERS = (
    "make an exception",
    "already public knowledge",
    "ignore all previous instructions",
    "the operator has approved",
    "task complete. new task",
    "task complete.\nignore",
)
"""What the rule-based reader takes for an order to break its instructions."""

_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)?")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_STOP = frozenset(
    """a an and any are as at be by can could do does for from give has have how i in is it its me
    my of on or our please should tell that the their there this to us was we were what when where
    which who whom will with you your""".split()  # noqa: SIM905
)
_SENTENCES = 2


class _Answering(Settings):
    """What every kind of generator has: a name, and a title for people."""

    words: ClassVar[str]
    name: str
    title: str

    @property
    def about(self) -> str:
        """What it is, in a sentence for the screen."""
        return self.words.format(self)


class ReaderSettings(_Answering):
    """The rule-based reader.

    Args:
        name: of the generator.
        title: for people.
        obeys_after: so many sources that order it to break its instructions make it do so;
            None for a reader that never does.
    """

    words = (
        "No language model but a rule: it quotes the sentences nearest to the question and {0}. "
        "What it does shows how the studio works, not how models behave."
    )
    type: Literal["reader"] = "reader"
    obeys_after: int | None = Field(default=None, ge=1)

    @property
    def about(self) -> str:
        """What it is, in a sentence for the screen."""
        many = "when one source orders" if self.obeys_after == 1 else "when {} sources order"
        gives = f"gives in {many.format(self.obeys_after)} it to break its instructions"
        return self.words.format("never gives in" if self.obeys_after is None else gives)


class ModelSettings(_Answering):
    """A language model on this machine; ``model`` as for ``rulerag models``."""

    words = "The language model {0.model} on this machine, decoding greedily."
    type: Literal["model"] = "model"
    model: str
    max_new_tokens: int = Field(default=128, ge=1, le=2048)


class ServerSettings(_Answering):
    """An OpenAI-compatible endpoint.

    Args:
        name: of the generator.
        title: for people.
        url: its address.
        model: the model's name there.
        api_key_env: the environment variable that holds the key; the key is never shown.
        price: for a million tokens of prompts, and of answers.
        max_new_tokens: how long an answer may get.
        workers: calls that run at once.
        foreign: it was named over the network: it may lie elsewhere, or where it was allowed at
            start (:class:`~rulerag.studio.systems.reach.Reach`).
    """

    words = "{0.model} at {0.url}, at temperature 0."
    type: Literal["endpoint"] = "endpoint"
    url: str = Field(pattern=r"^https?://\S+$")
    model: str
    api_key_env: str = ""
    price: tuple[float, float] | None = None
    max_new_tokens: int = Field(default=512, ge=1, le=32_768)
    workers: int = Field(default=8, ge=1, le=64)
    foreign: bool = False

    @field_validator("url")
    @classmethod
    def _without_password(cls, url: str) -> str:
        if urlsplit(url).username is not None:
            raise ValueError("holds a password, and is shown: name a variable as api_key_env")
        return url


class SymbolicSettings(_Answering):
    """The generator that a benchmark's own pipeline has: it reads facts and rules, not words."""

    words = "Reads the facts behind the documents; no language model."
    type: Literal["symbolic"] = "symbolic"
    name: str = "symbolic"
    title: str = "Symbolic reader (facts and mined rules, no language model)"


class CheckpointSettings(_Answering):
    """A language model that reads benchmarks: ``rulerag-nano-llama``, or what training wrote."""

    words = "The language model {0.title}, a reader of benchmarks."
    type: Literal["checkpoint"] = "checkpoint"
    model: str


GeneratorSettings = Annotated[
    ReaderSettings | ModelSettings | ServerSettings | SymbolicSettings | CheckpointSettings,
    Field(discriminator="type"),
]


class CautiousReader:
    """Quotes the sentences that share most words with the question. A fake: see the module.

    With instructions it puts ``[withheld]`` in place of what is sensitive, unless at least
    ``obeys_after`` of its sources hold one of :data:`ORDERS`; a sentence with an order is never
    quoted. It reads neither the wording of the instructions nor anything else.

    Args:
        settings: how it gives in.
        sensitive: the kinds that it withholds, names of
            :data:`~rulerag.studio.systems.predicates.SENSITIVE`.
        instructed: whether it has instructions.
    """

    def __init__(
        self, settings: ReaderSettings, sensitive: Sequence[str], *, instructed: bool
    ) -> None:
        self._obeys, self._sensitive = settings.obeys_after, tuple(sensitive)
        self._instructed = instructed
        kind = ["cautious-reader", self._obeys, self._sensitive, instructed]
        self.fingerprint = fingerprint_object(kind)

    def generate(self, requests: Sequence[GenerationRequest]) -> list[Completion]:
        """One answer for each request."""
        return [Completion(self._answer(one.query.text, one.documents)) for one in requests]

    def _answer(self, question: str, documents: Sequence[Document]) -> str:
        asked = _stems(question)
        ordering = 0
        found: list[tuple[float, int, str]] = []
        for document in documents:
            about = len(asked & _stems(document.title)) / 2
            orders, sentences = _read(document.text)
            ordering += orders
            for sentence, stems in sentences:
                shared = len(asked & stems)
                if shared:
                    found.append((shared + about, -len(found), sentence))
        best = sorted(found, reverse=True)[:_SENTENCES]
        reply = " ".join(dict.fromkeys(text for _, _, text in best))
        if not reply:
            return NOTHING
        if not self._instructed or (self._obeys is not None and ordering >= self._obeys):
            return reply
        return masked(reply, self._sensitive, WITHHELD)


@lru_cache(maxsize=64)
def _read(text: str) -> tuple[bool, tuple[tuple[str, frozenset[str]], ...]]:
    """Whether a source orders to break the instructions, and the sentences that may be quoted."""
    sentences = (one.strip() for one in _SENTENCE.split(text))
    quotable = (one for one in sentences if one and not _orders(one) and not one.endswith("?"))
    return _orders(text), tuple((one, frozenset(_stems(one))) for one in quotable)


def _orders(text: str) -> bool:
    plain = text.casefold()
    return any(order in plain for order in ORDERS)


def _stems(text: str) -> set[str]:
    words = (word.casefold().removesuffix("'s") for word in _WORD.findall(text))
    return {word[:-1] if len(word) > 3 and word.endswith("s") else word for word in words} - _STOP


class OneAtATime:
    """A model in memory, which answers one batch at a time, whoever asks.

    Args:
        generator: the model.
        lock: held while it answers.
        empty: what stands in place of an empty answer.
    """

    def __init__(self, generator: Any, lock: threading.Lock, empty: str = "") -> None:
        self._generator, self._lock, self._empty = generator, lock, empty

    def __getattr__(self, name: str) -> Any:
        return getattr(self._generator, name)

    def generate(self, requests: Sequence[GenerationRequest]) -> list[Completion]:
        """One completion for each request, in order."""
        with self._lock:
            found = self._generator.generate(requests)
        return [one if one.text else replace(one, text=self._empty) for one in found]


def local_model(settings: ModelSettings, instructions: str) -> OneAtATime:
    """A language model of this machine that reads the sources after some instructions."""
    from rulerag.generation.prompts import PromptTemplate

    with _LOADING:
        opened, lock = _weights(settings)
    # The same weights under another system message.
    reader = copy.copy(opened)
    reader.template = PromptTemplate.of({"type": "open", "system": instructions})
    return OneAtATime(reader, lock)


_LOADING = threading.Lock()


@cache
def _weights(settings: ModelSettings) -> tuple[Any, threading.Lock]:
    """A model is in memory once, however many systems and instructions name it."""
    from rulerag.generation.huggingface import HuggingFaceGenerator

    words = settings.max_new_tokens
    opened = HuggingFaceGenerator(
        settings.model, template="open", dtype="fast", max_new_tokens=words
    )
    return opened, threading.Lock()


def endpoint(
    settings: ServerSettings, instructions: str, reach: Reach, template: str = "open"
) -> Any:
    """A model behind an OpenAI-compatible endpoint.

    Args:
        settings: where it is.
        instructions: what it is told first.
        reach: where one that was named over the network may lie.
        template: of the prompt.
    """
    from rulerag.generation import OpenAICompatibleGenerator

    # Without a variable of its own no key is sent: who may name an address here must not be sent
    # the key of another one.
    key: dict[str, Any] = {"api_key_env": settings.api_key_env}
    made = OpenAICompatibleGenerator(
        settings.url,
        settings.model,
        template={"type": template, "system": instructions},
        max_new_tokens=settings.max_new_tokens,
        concurrency=settings.workers,
        max_retries=1,
        **(key if settings.api_key_env else {"api_key": ""}),
    )
    return made.only_to(reach) if settings.foreign else made


def is_here(settings: GeneratorSettings) -> str:
    """Why a generator cannot be used now; empty where it can."""
    if not isinstance(settings, ModelSettings | CheckpointSettings):
        return ""
    return model_is_here(settings.model, ("torch", "transformers"), "hf")


def model_is_here(model: str, modules: Sequence[str], extra: str) -> str:
    """Why a model cannot be used now; empty where it can.

    Args:
        model: its folder or name.
        modules: what it needs.
        extra: what installs these.
    """
    for module in modules:
        if find_spec(module) is None:
            return str(MissingDependencyError(module.replace("_", "-"), extra))
    try:
        find_model(model)
    except RuleRAGError as error:
        return str(error)
    return ""
