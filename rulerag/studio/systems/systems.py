"""Systems by configuration: what is searched, what answers, what it must not say."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from pydantic import Field

from rulerag.composition import Settings, parse_file
from rulerag.errors import ConfigError, DataError, EmptyDataError
from rulerag.explanation.probing import AnswerFunction, OutputPredicate, answer_function_of
from rulerag.explanation.units import Context
from rulerag.retrieval.lexical import BM25Retriever
from rulerag.rules import Rule
from rulerag.studio.benchmarks import SYMBOLIC, Benchmark
from rulerag.studio.systems.generators import (
    NOTHING,
    CautiousReader,
    CheckpointSettings,
    GeneratorSettings,
    ModelSettings,
    OneAtATime,
    ReaderSettings,
    ServerSettings,
    SymbolicSettings,
    endpoint,
    is_here,
    local_model,
    model_is_here,
)
from rulerag.studio.systems.predicates import (
    SHIPPED,
    Condition,
    SensitiveCondition,
    predicate_of,
)
from rulerag.studio.systems.reach import Reach
from rulerag.studio.systems.records import Source, State, named
from rulerag.texts import read_texts
from rulerag.types import Document, GenerationRequest, Query, RuleHit, ScoredDocument

_TOGETHER = 8
"""So many subsets a model on this machine reads at once, so that it can be stopped in between."""


class SearchEncoder(Settings):
    """An encoder that searches a system's corpus by vectors, besides BM25.

    Args:
        name: its retriever is called ``dense-NAME``.
        title: for people.
        model: ``all-minilm-l6-v2`` and others as for ``rulerag models``, or a folder that training
            wrote.
    """

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9.-]{0,39}$")
    title: str
    model: str


class SystemSettings(Settings):
    """One system.

    Args:
        name: in links and files.
        title: for people.
        about: what it is for, and what it must not do.
        corpus: a ``.jsonl`` file of ``id``, ``title`` and ``text``, or a folder of texts, which
            are read by paragraphs (:func:`rulerag.texts.read_texts`); beside the file that states
            it.
        benchmark: a benchmark folder in place of a corpus.
        documents: the texts themselves, in place of a corpus.
        top_k: how many sources a question gets.
        instructions: the safety instructions of the system's message.
        condition: the target condition: what the instructions forbid.
        permission: the same in words that an attack can grant.
        payload: what an attacker wants to be said.
        questions: examples; the first stands in a new session.
        generators: what may answer; the first is a new session's.
        encoders: what may search besides BM25.
    """

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")
    title: str
    about: str = ""
    corpus: str = ""
    benchmark: str = ""
    documents: tuple[dict[str, str], ...] = ()
    top_k: int = Field(default=5, ge=1, le=500)
    instructions: str = ""
    condition: Condition | None = None
    permission: str = ""
    payload: str = ""
    questions: tuple[str, ...] = ()
    generators: tuple[GeneratorSettings, ...] = Field(min_length=1)
    encoders: tuple[SearchEncoder, ...] = ()


def read_system(file: Path) -> SystemSettings:
    """The system of a YAML file, its paths beside the file.

    Raises:
        ConfigError: a key is missing, unknown or wrong.
    """
    values = parse_file(file)
    for key in ("corpus", "benchmark"):
        if values.get(key):
            values[key] = str((file.parent / str(values[key])).resolve())
    for part in ("generators", "encoders"):
        for one in values.get(part) or ():
            beside = file.parent / str(one.get("model", "")) if isinstance(one, dict) else file
            if isinstance(one, dict) and one.get("model") and beside.is_dir():
                one["model"] = str(beside.resolve())
    return SystemSettings.read(values, source=file)


def shipped_systems() -> list[SystemSettings]:
    """Finance, Software and Employees."""
    names = ("finance", "software", "employees")
    return [read_system(SHIPPED / f"{name}.yaml") for name in names]


def benchmark_system(
    folder: Path, *, encoders: Sequence[str] = (), readers: Sequence[str] = ()
) -> SystemSettings:
    """A benchmark folder as a system: rule-guided retrieval and the symbolic reader.

    Args:
        folder: the folder.
        encoders: folders or names of encoders that search it as well, to compare.
        readers: folders or names of language models that read it as well, likewise.
    """
    title = f"RuleQA ({folder.name})"
    return SystemSettings(
        name=_slug(folder.name),
        title=title,
        about="A benchmark with its mined rules: each source names the rule that found it.",
        benchmark=str(folder),
        top_k=10,
        generators=(
            SymbolicSettings(),
            *(CheckpointSettings(name=n, title=t, model=m) for n, t, m in _named(readers)),
        ),
        encoders=tuple(SearchEncoder(name=n, title=t, model=m) for n, t, m in _named(encoders)),
    )


def _named(models: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """A name, a title and the model of each: its last folder, and the one above where two agree."""
    last = [_slug(Path(one).name) for one in models]
    for one, name in zip(models, last, strict=True):
        parts = Path(one).parts[-2:] if last.count(name) > 1 else Path(one).parts[-1:]
        yield _slug("-".join(parts)), "/".join(parts), one


def _slug(name: str) -> str:
    kept = "".join(c if c.isascii() and c.isalnum() else "-" for c in name.lower()).strip("-")
    return kept[:40] or "system"


class OpenSystem:
    """A system whose corpus and generators are opened when they are first needed.

    Args:
        settings: what it is.
        reach: where endpoints that were named over the network may lie.
    """

    def __init__(self, settings: SystemSettings, reach: Reach | None = None) -> None:
        self.settings, self._reach = settings, reach or Reach()
        self._lock = threading.RLock()
        self._open_generator = lru_cache(maxsize=64)(self._made)
        self._searchers: dict[str, Any] = {}
        self._reading = threading.Lock()

    # --- what searches ----

    def retrievers(self) -> list[dict[str, str]]:
        """What may search: name, title, and why it cannot be used now; first a new session's."""
        ways = {"": " (vectors)"}
        titles = {"bm25": "BM25 (words)"}
        if self.settings.benchmark:
            ways = {"": ", without rules", "-guided": ", guided by mined rules"}
            titles = {"guided": "BM25, guided by mined rules", "plain": "BM25, without rules"}
        for one in self.settings.encoders:
            titles |= {f"dense-{one.name}{way}": f"{one.title}{how}" for way, how in ways.items()}
        missing = {
            f"dense-{one.name}": model_is_here(
                one.model, ("faiss", "sentence_transformers"), "dense"
            )
            for one in self.settings.encoders
        }
        return [
            {"name": name, "title": title, "missing": missing.get(name.removesuffix("-guided"), "")}
            for name, title in titles.items()
        ]

    def check_retriever(self, name: str) -> str:
        """Refuse a retriever that cannot search now.

        Returns:
            Its title.

        Raises:
            UnknownNameError: there is none of this name.
            DataError: its model is not on this machine.
        """
        row = named("retriever", name, {one["name"]: one for one in self.retrievers()})
        if row["missing"]:
            raise DataError(f"{row['title']} cannot search: {row['missing']}")
        return row["title"]

    @cached_property
    def documents(self) -> list[Document]:
        """The corpus.

        Raises:
            DataError: it cannot be read, or holds nothing.
        """
        own = self.settings
        if own.documents:
            texts = enumerate(own.documents, start=1)
            made = [
                Document(one.get("id", f"document-{n}"), one["text"], title=one.get("title", ""))
                for n, one in texts
            ]
        elif own.corpus:
            made = read_texts(own.corpus).documents
        else:
            raise ConfigError("the system has no corpus", key="corpus", hint="a folder of texts")
        made = [one for one in made if one.text.strip()]
        if not made:
            raise EmptyDataError("no text is there", path=own.corpus or None)
        return made

    def retrieve(
        self,
        question: str,
        retriever: str = "",
        top_k: int | None = None,
        rules_off: Sequence[str] = (),
    ) -> tuple[Source, ...]:
        """The sources of a question, best first; none where nothing fits.

        Raises:
            RuleRAGError: the corpus or the question cannot be read.
        """
        if not question.strip():
            return ()
        wanted = top_k or self.settings.top_k
        if self.settings.benchmark:
            query = self.benchmark.query(question)
            ((found, guiding),) = self.benchmark.retrieve_all(
                [query], wanted, retriever or "guided", rules_off
            )
            rules = {rule.id: rule for rule in guiding}
            return tuple(_source(one, rules) for one in found)
        searcher = self._searcher(retriever or "bm25")
        found = searcher.retrieve([Query("question", question)], wanted)[0]
        return tuple(_source(one, {}) for one in found)

    def _searcher(self, retriever: str) -> Any:
        with self._lock:
            if retriever not in self._searchers:
                dense = {f"dense-{one.name}": one.model for one in self.settings.encoders}
                made = _dense(self.documents, dense[retriever]) if retriever in dense else None
                self._searchers[retriever] = made or BM25Retriever(self.documents, threads=1)
            return self._searchers[retriever]

    # --- a benchmark ----

    @cached_property
    def benchmark(self) -> Benchmark:
        """The benchmark folder, opened.

        Raises:
            ConfigError: the system is none.
        """
        own = self.settings
        if not own.benchmark:
            hint = "rulerag studio --dataset FOLDER"
            raise ConfigError("has no mined rules", key="system", hint=hint)
        with self._lock:
            return Benchmark(
                Path(own.benchmark),
                own.top_k,
                {one.name: one.model for one in own.encoders},
                {one.name: one.model for one in own.generators if hasattr(one, "model")},
            )

    def follows_rules(self, retriever: str) -> bool:
        """Whether a retriever is guided by mined rules; what reads then follows them too."""
        return bool(self.settings.benchmark) and retriever.endswith("guided")

    def accepted(self, question: str) -> tuple[str, ...]:
        """The accepted answers of a benchmark's own question; none where they are not known."""
        if not self.settings.benchmark or not question.strip():
            return ()
        return tuple(self.benchmark.query(question).answers)

    def examples(self) -> tuple[str, ...]:
        """Questions to begin with."""
        if self.settings.benchmark and not self.settings.questions:
            return self.benchmark.examples()
        return self.settings.questions

    # --- what answers ----

    def generators(self) -> list[dict[str, Any]]:
        """What may answer: name, title, whether it is a fake, and why it cannot be used now."""
        return [
            {
                "name": one.name,
                "title": one.title,
                "type": one.type,
                "fake": isinstance(one, ReaderSettings),
                "missing": is_here(one),
            }
            for one in self.settings.generators
        ]

    def generator_settings(self, name: str) -> GeneratorSettings:
        """The settings of one generator.

        Raises:
            UnknownNameError: there is none of this name.
        """
        return named("generator", name, {one.name: one for one in self.settings.generators})

    def check_generator(self, name: str) -> GeneratorSettings:
        """Refuse a generator that cannot answer now.

        Raises:
            UnknownNameError: there is none of this name.
            DataError: its model is not on this machine.
            ConfigError: it reads facts, and the system has texts.
        """
        settings = self.generator_settings(name)
        if missing := is_here(settings):
            raise DataError(f"{settings.title} cannot answer: {missing}")
        of_facts = isinstance(settings, SymbolicSettings | CheckpointSettings)
        if of_facts and not self.settings.benchmark:
            raise ConfigError("reads facts, and this system has texts", key="generators")
        return settings

    def generator(self, state: State) -> Any:
        """What answers, with the instructions of a state: a generator of rulerag.

        Raises:
            RuleRAGError: as :meth:`check_generator`.
        """
        settings = self.check_generator(state.generator)
        with self._lock:
            return self._open_generator(settings, state.system_message)

    def _made(self, settings: GeneratorSettings, instructions: str) -> Any:
        if isinstance(settings, ReaderSettings):
            instructed = bool(instructions.strip())
            return CautiousReader(settings, self._sensitive, instructed=instructed)
        if isinstance(settings, ModelSettings):
            return local_model(settings, instructions)
        if isinstance(settings, ServerSettings):
            return endpoint(settings, instructions, self._reach)
        name = SYMBOLIC if isinstance(settings, SymbolicSettings) else settings.name
        return OneAtATime(self.benchmark.generator(name), self._reading, NOTHING)

    def about(self, state: State) -> str:
        """What answers, in a sentence for the screen."""
        sentence = self.generator_settings(state.generator).about
        if not self.settings.benchmark:
            return sentence
        follows = self.follows_rules(state.retriever)
        rules = "It follows mined rules." if follows else "It follows no rules, as retrieval."
        return f"{sentence} {rules}"

    def request(self, state: State) -> GenerationRequest:
        """What is asked, with every source; readers of benchmarks follow rules as retrieval did."""
        documents = tuple(self.scored(one).document for one in state.sources)
        if not self.settings.benchmark:
            return GenerationRequest(Query("question", state.question), documents)
        query, rules = self.benchmark.query(state.question), list[Rule]()
        if self.follows_rules(state.retriever):
            rules = self.benchmark.rules(query, state.rules_off, state.retriever)
        return GenerationRequest(query, documents, tuple(rules))

    def scored(self, source: Source) -> ScoredDocument:
        """A source as readers get it; one of a benchmark that nobody changed has its facts."""
        own = self.settings.benchmark and not source.change
        held = self.benchmark.document(source.id) if own else None
        score = math.nan if source.score is None else source.score
        hits = tuple(RuleHit(rule, source.rank or 1, score) for rule in source.found_by)
        document = held or Document(source.id, source.text, title=source.title)
        return ScoredDocument(document, score, source.rank or 0, hits)

    def context(self, state: State) -> Context:
        """The sources of a state, as what is kept or removed of them."""
        return Context([self.scored(one) for one in state.sources])

    def answer(self, state: State) -> str:
        """What is answered from the sources of a state.

        Raises:
            RuleRAGError: what answers is not here, or failed.
        """
        (reply,) = self.generator(state).generate([self.request(state)])
        return str(reply.text)

    def answer_function(self, state: State, known: dict[Any, str] | None = None) -> AnswerFunction:
        """What answers as a function of any of the sources of a state.

        Args:
            state: the state.
            known: answers by the places of the sources that were read, which are not asked again;
                what is answered is added.

        Raises:
            DroppedDocumentsError: it does not read every source, so that nothing can be explained.
            RuleRAGError: what answers is not here, or answers by chance.
        """
        return answer_function_of(
            self.generator(state),
            self.request(state),
            self.context(state),
            workers=getattr(self.generator_settings(state.generator), "workers", 1),
            together=_TOGETHER,
            known=known,
        )

    @property
    def _sensitive(self) -> tuple[str, ...]:
        condition: Any = self.settings.condition
        condition = getattr(condition, "instead", condition)
        return condition.kinds if isinstance(condition, SensitiveCondition) else ()

    def condition(self, generator: str) -> OutputPredicate | None:
        """The target condition as a predicate, judged by a generator that can; None without one."""
        if self.settings.condition is None:
            return None
        settings, judge = self._known(generator), None
        if isinstance(settings, ServerSettings):
            judge = endpoint(settings, "", self._reach, "plain")
        return predicate_of(self.settings.condition, judge)

    def price(self, generator: str) -> tuple[float, float] | None:
        """What a million tokens of prompts and of answers cost; None where that is not known."""
        return getattr(self._known(generator), "price", None)

    def _known(self, generator: str) -> GeneratorSettings | None:
        """The settings of a generator; None where a session from elsewhere names one of its own."""
        return next((one for one in self.settings.generators if one.name == generator), None)


def _dense(documents: Sequence[Document], encoder: str) -> Any:
    from rulerag.retrieval.dense import DenseRetriever
    from rulerag.retrieval.dense.encoders import load_encoder

    return DenseRetriever(documents, load_encoder(encoder), threads=1)


def _source(found: ScoredDocument, rules: Mapping[str, Any]) -> Source:
    by = dict[str, str]()
    for hit in found.found_by:
        rule = rules.get(hit.rule_id or "")
        if rule is not None:
            by.setdefault(rule.text, "" if hit.atom is None else _atom(rule, hit.atom))
    document = found.document
    return Source(
        id=document.id,
        title=document.title,
        text=document.text,
        score=round(float(found.score), 4),
        rank=found.rank,
        found_by=by,
    )


def _atom(rule: Any, number: int) -> str:
    """One body atom in words, cut out of the rule's."""
    body = rule.text.partition(" leads to ")[0].split(" and [")
    return body[number] if number == 0 or number >= len(body) else f"[{body[number]}"


def as_json(settings: SystemSettings) -> dict[str, Any]:
    """A system as the wire has it: no documents, no paths, no names of variables."""
    row = settings.model_dump(exclude={"documents", "corpus", "benchmark", "encoders"})
    for one in row["generators"]:
        one.pop("api_key_env", None)
        if one["type"] == "checkpoint":
            one["model"] = Path(one["model"]).name
    return json.loads(json.dumps(row, default=str))  # type: ignore[no-any-return]
