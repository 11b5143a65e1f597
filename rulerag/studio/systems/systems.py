"""Systems by configuration: what is searched, what answers, what it must not say."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from pydantic import Field

from rulerag.composition import Settings, parse_file
from rulerag.errors import ConfigError, DataError, EmptyDataError, UnknownNameError, did_you_mean
from rulerag.io import read_jsonl, read_text
from rulerag.studio.benchmarks import SYMBOLIC, Benchmark
from rulerag.studio.systems.answerers import (
    Answerer,
    BenchmarkAnswerer,
    CautiousReader,
    CheckpointSettings,
    EndpointReader,
    EndpointSettings,
    GeneratorSettings,
    ModelReader,
    ModelSettings,
    ReaderSettings,
    SymbolicSettings,
    is_here,
    model_is_here,
)
from rulerag.studio.systems.attack_templates import SHIPPED
from rulerag.studio.systems.predicates import Condition, SensitiveCondition, predicate_of
from rulerag.studio.systems.sources import FoundBy, Source
from rulerag.types import Document, Query, ScoredDocument

_TEXTS = (".txt", ".md", ".rst")


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
        corpus: a ``.jsonl`` file of ``id``, ``title`` and ``text``, or a folder of text files;
            beside the file that states it.
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
    """A system whose corpus and readers are opened when they are first needed.

    Args:
        settings: what it is.
    """

    def __init__(self, settings: SystemSettings) -> None:
        self.settings = settings
        self._lock = threading.RLock()
        self._answerers: dict[str, Answerer] = {}
        self._searchers: dict[str, Any] = {}

    @cached_property
    def retrievers(self) -> dict[str, str]:
        """What may search, each with its title; the first is a new session's."""
        own = self.settings
        if not own.benchmark:
            dense = {f"dense-{one.name}": f"{one.title} (vectors)" for one in own.encoders}
            return {"bm25": "BM25 (words)"} | dense
        made = {"guided": "BM25, guided by mined rules", "plain": "BM25, without rules"}
        for one in own.encoders:
            made[f"dense-{one.name}"] = f"{one.title}, without rules"
            made[f"dense-{one.name}-guided"] = f"{one.title}, guided by mined rules"
        return made

    def retriever_rows(self) -> list[dict[str, str]]:
        """What may search: name, title, and why it cannot be used now."""
        missing = {
            one.name: model_is_here(one.model, ("faiss", "sentence_transformers"), "dense")
            for one in self.settings.encoders
        }
        found = []
        for name, title in self.retrievers.items():
            encoder = name.removeprefix("dense-")
            why = missing.get(encoder) or missing.get(encoder.removesuffix("-guided"), "")
            found.append({"name": name, "title": title, "missing": why})
        return found

    def check_retriever(self, name: str) -> None:
        """Refuse a retriever that cannot search now.

        Raises:
            UnknownNameError: there is none of this name.
            DataError: its model is not on this machine.
        """
        if name not in self.retrievers:
            hint = did_you_mean(name, self.retrievers)
            raise UnknownNameError(f"no retriever is called {name!r}", hint=hint)
        row = next(one for one in self.retriever_rows() if one["name"] == name)
        if row["missing"]:
            raise DataError(f"{row['title']} cannot search: {row['missing']}")

    def follows_rules(self, retriever: str) -> bool:
        """Whether a retriever is guided by mined rules; what reads then follows them too."""
        return bool(self.settings.benchmark) and (
            retriever == "guided" or retriever.endswith("-guided")
        )

    @cached_property
    def documents(self) -> list[Document]:
        """The corpus.

        Raises:
            DataError: it cannot be read, or holds nothing.
        """
        own = self.settings
        if own.documents:
            rows: Sequence[Mapping[str, Any]] = own.documents
        elif Path(own.corpus).is_dir():
            files = sorted(f for f in Path(own.corpus).rglob("*") if f.suffix.lower() in _TEXTS)
            rows = [
                {"id": f.relative_to(own.corpus).as_posix(), "text": read_text(f).strip()}
                for f in files
            ]
            rows = [{**row, "title": row["id"]} for row in rows]
        elif own.corpus:
            rows = list(read_jsonl(own.corpus))
        else:
            raise ConfigError("the system has no corpus", key="corpus", hint="a folder of texts")
        made = [
            Document(
                str(row.get("id") or f"document-{place}"),
                str(row.get("text", "")),
                title=str(row.get("title", "")),
            )
            for place, row in enumerate(rows, start=1)
        ]
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
        searcher = self._bm25 if retriever in ("", "bm25") else self._dense(retriever)
        found = searcher.retrieve([Query("question", question)], wanted)[0]
        return tuple(map(_source, found))

    @cached_property
    def _bm25(self) -> Any:
        from rulerag.retrieval.lexical import BM25Retriever

        with self._lock:
            return BM25Retriever(self.documents, threads=1)

    def _dense(self, retriever: str) -> Any:
        from rulerag.retrieval.dense import DenseRetriever
        from rulerag.retrieval.dense.encoders import load_encoder

        with self._lock:
            if retriever not in self._searchers:
                own = {f"dense-{one.name}": one for one in self.settings.encoders}[retriever]
                self._searchers[retriever] = DenseRetriever(
                    self.documents, load_encoder(own.model), threads=1
                )
            return self._searchers[retriever]

    @cached_property
    def benchmark(self) -> Benchmark:
        """The benchmark folder, opened."""
        own = self.settings
        with self._lock:
            return Benchmark(
                Path(own.benchmark),
                own.top_k,
                {one.name: one.model for one in own.encoders},
                {one.name: one.model for one in own.generators if hasattr(one, "model")},
            )

    def accepted(self, question: str) -> tuple[str, ...]:
        """The accepted answers of a benchmark's own question; none where they are not known."""
        if not self.settings.benchmark or not question.strip():
            return ()
        return tuple(self.benchmark.query(question).answers)

    def way_in_words(self, retriever: str, generator: str = "") -> str:
        """A retriever, and what reads, by their titles."""
        title = self.retrievers[retriever]
        return f"{title}; {self.generator_settings(generator).title}" if generator else title

    def rules_for(self, question: str) -> list[dict[str, Any]]:
        """The mined rules that guide a question, strongest first; none without a rule bank."""
        if not self.settings.benchmark:
            return []
        rules = self.benchmark.rules(self.benchmark.query(question))
        return [one.to_json() | {"id": one.id} for one in rules]

    def examples(self) -> tuple[str, ...]:
        """Questions to begin with."""
        if self.settings.benchmark and not self.settings.questions:
            return self.benchmark.examples()
        return self.settings.questions

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
        known = {one.name: one for one in self.settings.generators}
        if name not in known:
            what = f"{self.settings.title} has no generator {name!r}"
            raise UnknownNameError(what, hint=did_you_mean(name, known))
        return known[name]

    def answerer(self, name: str, rules_off: Sequence[str] = (), retriever: str = "") -> Answerer:
        """One generator, opened.

        Args:
            name: of the generator.
            rules_off: ids of the mined rules that are switched off, for readers of benchmarks.
            retriever: what found the sources; readers of benchmarks follow mined rules where it
                does.

        Raises:
            DataError: it is not on this machine.
        """
        settings = self.generator_settings(name)
        if missing := is_here(settings):
            raise DataError(f"{settings.title} cannot answer: {missing}")
        if isinstance(settings, SymbolicSettings | CheckpointSettings):
            return self._of_benchmark(settings, tuple(rules_off), retriever or "guided")
        with self._lock:
            if name not in self._answerers:
                self._answerers[name] = self._made(settings)
            return self._answerers[name]

    def _made(self, settings: ReaderSettings | ModelSettings | EndpointSettings) -> Answerer:
        if isinstance(settings, ReaderSettings):
            return CautiousReader(settings, self._sensitive)
        if isinstance(settings, ModelSettings):
            return _model(settings)
        return EndpointReader(settings)

    def _of_benchmark(
        self,
        settings: SymbolicSettings | CheckpointSettings,
        rules_off: Sequence[str],
        retriever: str,
    ) -> Answerer:
        if not self.settings.benchmark:
            raise ConfigError("reads facts, and this system has texts", key="generators")
        held = self.benchmark
        model = settings.model if isinstance(settings, CheckpointSettings) else ""
        about = (
            f"The language model {Path(model).name}, a reader of benchmarks"
            if model
            else "Reads the facts behind the documents; no language model"
        )
        follows = self.follows_rules(retriever)
        told = "follows mined rules" if follows else "follows no rules, for retrieval did not"
        return BenchmarkAnswerer(
            held.generator(settings.name if model else SYMBOLIC),
            f"{about}; it {told}.",
            held.query,
            (lambda query: held.rules(query, rules_off, retriever)) if follows else lambda _: (),
            (*rules_off, *(() if follows else ("without rules",))),
        )

    @property
    def _sensitive(self) -> tuple[str, ...]:
        condition: Any = self.settings.condition
        condition = getattr(condition, "instead", condition)
        return condition.kinds if isinstance(condition, SensitiveCondition) else ()

    def condition(self, generator: str) -> Any:
        """The target condition as a predicate, judged by a generator that can; None without one."""
        if self.settings.condition is None:
            return None
        judges = isinstance(self._known(generator), EndpointSettings)
        judge = self.answerer(generator).judge() if judges else None
        return predicate_of(self.settings.condition, judge)

    def price(self, generator: str) -> tuple[float, float] | None:
        """What a million tokens of prompts and of answers cost; None where that is not known."""
        settings = self._known(generator)
        return settings.price if isinstance(settings, EndpointSettings) else None

    def _known(self, generator: str) -> GeneratorSettings | None:
        """The settings of a generator; None where a session from elsewhere names one of its own."""
        return next((one for one in self.settings.generators if one.name == generator), None)

    def document(self, source: Source) -> Document | None:
        """The corpus's own document behind a source that nobody changed, with its facts."""
        if not self.settings.benchmark or source.change:
            return None
        return self.benchmark.document(source.id)


@cache
def _model(settings: ModelSettings) -> ModelReader:
    """A model is in memory once, however many systems name it."""
    return ModelReader(settings)


def _source(found: ScoredDocument, rules: Mapping[str, Any] | None = None) -> Source:
    by = dict[str, FoundBy]()
    for hit in found.found_by:
        rule = (rules or {}).get(hit.rule_id or "")
        if rule is not None:
            atom = "" if hit.atom is None else _atom(rule, hit.atom)
            by.setdefault(rule.text, FoundBy(rule=rule.text, atom=atom))
    document = found.document
    return Source(
        id=document.id,
        title=document.title,
        text=document.text,
        score=round(float(found.score), 4),
        rank=found.rank,
        found_by=tuple(by.values()),
    )


def _atom(rule: Any, number: int) -> str:
    """One body atom in words, cut out of the rule's."""
    body = rule.text.partition(" leads to ")[0].split(" and [")
    return body[number] if number == 0 or number >= len(body) else f"[{body[number]}"


def as_json(settings: SystemSettings) -> dict[str, Any]:
    """A system as the wire has it: no documents, no paths, no names of variables."""
    row = settings.model_dump(exclude={"documents", "corpus", "benchmark", "encoders"})
    row["generators"] = [
        {key: value for key, value in one.items() if key != "api_key_env"}
        | ({"model": Path(one["model"]).name} if one["type"] == "checkpoint" else {})
        for one in row["generators"]
    ]
    return json.loads(json.dumps(row, default=str))  # type: ignore[no-any-return]
