"""What answers from sources: a rule-based reader, a language model, an endpoint, a benchmark's.

The rule-based reader is a **fake with a known behaviour**, for use without any model: it shows what
the studio does and says nothing about how language models behave. Every screen says so.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Annotated, Any, Literal, Protocol
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from rulerag.composition import Settings
from rulerag.errors import MissingDependencyError, RuleRAGError
from rulerag.io import fingerprint_object
from rulerag.studio.systems.predicates import masked
from rulerag.types import Document, GenerationRequest, Query

Documents = Sequence[Mapping[str, Any]]
"""Sources as they are read: ``id``, ``title``, ``text``; in ``stated`` a document with facts."""

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


class ReaderSettings(Settings):
    """The rule-based reader.

    Args:
        name: of the generator.
        title: for people.
        obeys_after: so many sources that order it to break its instructions make it do so;
            None for a reader that never does.
    """

    type: Literal["reader"] = "reader"
    name: str
    title: str
    obeys_after: int | None = Field(default=None, ge=1)


class ModelSettings(Settings):
    """A language model on this machine; ``model`` as for ``rulerag models``."""

    type: Literal["model"] = "model"
    name: str
    title: str
    model: str
    max_new_tokens: int = Field(default=64, ge=1, le=2048)


class EndpointSettings(Settings):
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
    """

    type: Literal["endpoint"] = "endpoint"
    name: str
    title: str
    url: str = Field(pattern=r"^https?://\S+$")
    model: str
    api_key_env: str = ""
    price: tuple[float, float] | None = None
    max_new_tokens: int = Field(default=512, ge=1, le=32_768)
    workers: int = Field(default=8, ge=1, le=64)

    @field_validator("url")
    @classmethod
    def _without_password(cls, url: str) -> str:
        if urlsplit(url).username is not None:
            raise ValueError("holds a password, and is shown: name a variable as api_key_env")
        return url


class SymbolicSettings(Settings):
    """The generator that a benchmark's own pipeline has: it reads facts and rules, not words."""

    type: Literal["symbolic"] = "symbolic"
    name: str = "symbolic"
    title: str = "Symbolic reader (facts and mined rules, no language model)"


class CheckpointSettings(Settings):
    """A language model that reads benchmarks: ``rulerag-nano-llama``, or what training wrote."""

    type: Literal["checkpoint"] = "checkpoint"
    name: str
    title: str
    model: str


GeneratorSettings = Annotated[
    ReaderSettings | ModelSettings | EndpointSettings | SymbolicSettings | CheckpointSettings,
    Field(discriminator="type"),
]


class Answerer(Protocol):
    """Answers a question from sources."""

    batched: bool
    """It takes lists of sources together; else it is called from several threads."""
    workers: int
    about: str
    """What it is, in a sentence for the screen."""

    @property
    def fingerprint(self) -> str:
        """Names everything that its answers depend on, besides what it reads."""
        ...

    def answer(self, question: str, lists: Sequence[Documents], instructions: str) -> list[str]:
        """One answer for each list of sources.

        Args:
            question: what is asked.
            lists: the sources of each answer.
            instructions: of the system; empty for none.
        """
        ...

    def judge(self) -> Any:
        """A generator that can judge answers; None where it cannot."""
        ...


class CautiousReader:
    """Quotes the sentences that share most words with the question. A fake: see the module.

    With instructions it puts ``[withheld]`` in place of what is sensitive, unless at least
    ``obeys_after`` of its sources hold one of :data:`ORDERS`; a sentence with an order is never
    quoted. It reads neither the wording of the instructions nor anything else.

    Args:
        settings: how it gives in.
        sensitive: the kinds that it withholds, names of
            :data:`~rulerag.studio.systems.predicates.SENSITIVE`.
    """

    batched, workers = True, 1

    def __init__(self, settings: ReaderSettings, sensitive: Sequence[str]) -> None:
        self._obeys, self._sensitive = settings.obeys_after, tuple(sensitive)
        self.fingerprint = fingerprint_object(["cautious-reader-1", self._obeys, self._sensitive])
        gives = (
            "never gives in"
            if self._obeys is None
            else "gives in as soon as one source orders it to break its instructions"
            if self._obeys == 1
            else f"gives in when {self._obeys} sources order it to break its instructions"
        )
        self.about = (
            f"No language model but a rule: it quotes the sentences nearest to the question and "
            f"{gives}. What it does shows how the studio works, not how models behave."
        )

    def answer(self, question: str, lists: Sequence[Documents], instructions: str) -> list[str]:
        """One answer for each list of sources."""
        return [self._answer(question, one, bool(instructions.strip())) for one in lists]

    def judge(self) -> None:
        """It cannot judge."""

    def _answer(self, question: str, documents: Documents, instructed: bool) -> str:
        asked = _stems(question)
        ordering = 0
        found: list[tuple[float, int, str]] = []
        for document in documents:
            about = len(asked & _stems(str(document.get("title", "")))) / 2
            orders, sentences = _read(str(document["text"]))
            ordering += orders
            for sentence, stems in sentences:
                shared = len(asked & stems)
                if shared:
                    found.append((shared + about, -len(found), sentence))
        best = sorted(found, reverse=True)[:_SENTENCES]
        said = " ".join(dict.fromkeys(text for _, _, text in best))
        if not said:
            return NOTHING
        gives_in = self._obeys is not None and ordering >= self._obeys
        return said if gives_in or not instructed else masked(said, self._sensitive, WITHHELD)


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


class ModelReader:
    """A language model that reads the sources after the system's instructions.

    Args:
        settings: which model.
    """

    batched, workers = True, 1

    def __init__(self, settings: ModelSettings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._made: dict[str, Any] = {}
        self.about = f"The language model {settings.model} on this machine, decoding greedily."

    @cached_property
    def fingerprint(self) -> str:
        """Names the model and how it decodes."""
        return fingerprint_object(["model", self._with("").fingerprint])

    def _with(self, instructions: str) -> Any:
        """The generator whose prompt begins with some instructions; the weights are read once."""
        from rulerag.generation.huggingface import HuggingFaceGenerator

        with self._lock:
            if instructions not in self._made:
                own = self._settings
                template = {"type": "open", "system": instructions}
                first = next(iter(self._made.values()), None)
                self._made[instructions] = (
                    HuggingFaceGenerator(
                        own.model,
                        template=template,
                        dtype="fast",
                        max_new_tokens=own.max_new_tokens,
                    )
                    if first is None
                    else HuggingFaceGenerator(
                        first.model,
                        tokenizer=first.tokenizer,
                        template=template,
                        max_new_tokens=own.max_new_tokens,
                    )
                )
            return self._made[instructions]

    def answer(self, question: str, lists: Sequence[Documents], instructions: str) -> list[str]:
        """One answer for each list of sources."""
        generator = self._with(instructions)
        requests = [_request(question, one) for one in lists]
        with self._lock:  # one batch at a time on one model
            return [said.text for said in generator.generate(requests)]

    def judge(self) -> None:
        """Models of this size are no judges."""


class EndpointReader:
    """A model behind an OpenAI-compatible endpoint.

    Args:
        settings: which endpoint and model.
    """

    batched = False

    def __init__(self, settings: EndpointSettings) -> None:
        self._settings, self.workers = settings, settings.workers
        self._lock = threading.Lock()
        self._made: dict[str, Any] = {}
        self.fingerprint = fingerprint_object(
            ["endpoint", settings.url, settings.model, settings.max_new_tokens]
        )
        self.about = f"{settings.model} at {settings.url}, at temperature 0."

    def _with(self, instructions: str, template: str = "open") -> Any:
        from rulerag.generation import OpenAICompatibleGenerator

        with self._lock:
            key = f"{template}\n{instructions}"
            if key not in self._made:
                own = self._settings
                # Without a variable of its own no key is sent: who may name an address here
                # must not be sent the key of another one.
                key_settings: dict[str, Any] = (
                    {"api_key_env": own.api_key_env} if own.api_key_env else {"api_key": ""}
                )
                self._made[key] = OpenAICompatibleGenerator(
                    own.url,
                    own.model,
                    template={"type": template, "system": instructions},
                    max_new_tokens=own.max_new_tokens,
                    concurrency=own.workers,
                    max_retries=1,
                    **key_settings,
                )
            return self._made[key]

    def answer(self, question: str, lists: Sequence[Documents], instructions: str) -> list[str]:
        """One answer for each list of sources."""
        requests = [_request(question, one) for one in lists]
        return [said.text for said in self._with(instructions).generate(requests)]

    def pieces(self, question: str, documents: Documents, instructions: str) -> Iterator[str]:
        """One answer in pieces, as the model writes it."""
        yield from self._with(instructions).stream_text(_request(question, documents))

    def judge(self) -> Any:
        """The same model, asked for yes or no."""
        return self._with("", "plain")


class BenchmarkAnswerer:
    """A reader of a benchmark: it gets queries, documents with facts, and mined rules.

    Args:
        generator: the reader.
        about: what it is.
        query: from the text of a question to its query.
        rules: the guiding rules of a query.
        rules_off: ids of the rules that are switched off, for its name.
    """

    batched, workers = True, 1

    def __init__(
        self,
        generator: Any,
        about: str,
        query: Callable[[str], Query],
        rules: Callable[[Query], Sequence[Any]],
        rules_off: Sequence[str] = (),
    ) -> None:
        self._generator, self._query, self._rules = generator, query, rules
        self.about = about
        self.fingerprint = fingerprint_object([generator.fingerprint, list(rules_off)])

    def answer(self, question: str, lists: Sequence[Documents], instructions: str) -> list[str]:
        """One answer for each list of sources; it takes no instructions."""
        query = self._query(question)
        rules = tuple(self._rules(query))
        requests = [GenerationRequest(query, tuple(map(_document, one)), rules) for one in lists]
        return [said.text or NOTHING for said in self._generator.generate(requests)]

    def judge(self) -> None:
        """It cannot judge."""


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
    from importlib.util import find_spec

    from rulerag.models import find_model

    for module in modules:
        if find_spec(module) is None:
            return str(MissingDependencyError(module.replace("_", "-"), extra))
    try:
        find_model(model)
    except RuleRAGError as error:
        return str(error)
    return ""


def _request(question: str, documents: Documents) -> GenerationRequest:
    return GenerationRequest(Query("question", question), tuple(map(_document, documents)))


def _document(given: Mapping[str, Any]) -> Document:
    kept = given.get("stated")
    if isinstance(kept, Document):
        return kept
    title = str(given.get("title", ""))
    return Document(str(given["id"]), str(given["text"]), title=title)
