"""Systems by configuration: what is searched, what answers, what it must not say."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from pydantic import Field

from rulerag.composition import Settings, parse_file
from rulerag.errors import ConfigError, DataError, EmptyDataError, UnknownNameError, did_you_mean
from rulerag.io import read_jsonl, read_text
from rulerag.studio.benchmarks import Benchmark
from rulerag.studio.systems.answerers import (
    Answerer,
    CautiousReader,
    EndpointReader,
    EndpointSettings,
    GeneratorSettings,
    ModelReader,
    ModelSettings,
    ReaderSettings,
    SymbolicAnswerer,
    SymbolicSettings,
    is_here,
)
from rulerag.studio.systems.attack_templates import SHIPPED
from rulerag.studio.systems.predicates import Condition, SensitiveCondition, predicate_of
from rulerag.studio.systems.sources import FoundBy, Source
from rulerag.types import Document, Query, ScoredDocument

_TEXTS = (".txt", ".md", ".rst")


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


def read_system(file: Path) -> SystemSettings:
    """The system of a YAML file, its paths beside the file.

    Raises:
        ConfigError: a key is missing, unknown or wrong.
    """
    values = parse_file(file)
    for key in ("corpus", "benchmark"):
        if values.get(key):
            values[key] = str((file.parent / str(values[key])).resolve())
    return SystemSettings.read(values, source=file)


def shipped_systems() -> list[SystemSettings]:
    """Finance, Software and Employees."""
    names = ("finance", "software", "employees")
    return [read_system(SHIPPED / f"{name}.yaml") for name in names]


def benchmark_system(folder: Path) -> SystemSettings:
    """A benchmark folder as a system: rule-guided retrieval and the symbolic reader."""
    title = f"RuleQA ({folder.name})"
    return SystemSettings(
        name=_slug(folder.name),
        title=title,
        about="A benchmark with its mined rules: each source names the rule that found it.",
        benchmark=str(folder),
        top_k=10,
        generators=(SymbolicSettings(),),
    )


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

    @property
    def retrievers(self) -> tuple[str, ...]:
        """What may search; the first is a new session's."""
        return ("guided", "plain") if self.settings.benchmark else ("bm25",)

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
            guided = retriever != "plain"
            found = self.benchmark.retrieve(query, wanted, guided=guided, without=rules_off)
            rules = {rule.id: rule for rule in self.benchmark.rules(query)}
            return tuple(_source(one, rules) for one in found)
        found = self._bm25.retrieve([Query("question", question)], wanted)[0]
        return tuple(map(_source, found))

    @cached_property
    def _bm25(self) -> Any:
        from rulerag.retrieval.lexical import BM25Retriever

        with self._lock:
            return BM25Retriever(self.documents, threads=1)

    @cached_property
    def benchmark(self) -> Benchmark:
        """The benchmark folder, opened."""
        with self._lock:
            return Benchmark(Path(self.settings.benchmark), self.settings.top_k)

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

    def answerer(self, name: str, rules_off: Sequence[str] = ()) -> Answerer:
        """One generator, opened; a benchmark's without the mined rules that are switched off.

        Raises:
            DataError: it is not on this machine.
        """
        settings = self.generator_settings(name)
        if isinstance(settings, SymbolicSettings):
            return self._symbolic(tuple(rules_off))
        with self._lock:
            if name not in self._answerers:
                if missing := is_here(settings):
                    raise DataError(f"{settings.title} cannot answer: {missing}")
                self._answerers[name] = self._made(settings)
            return self._answerers[name]

    def _made(self, settings: ReaderSettings | ModelSettings | EndpointSettings) -> Answerer:
        if isinstance(settings, ReaderSettings):
            return CautiousReader(settings, self._sensitive)
        if isinstance(settings, ModelSettings):
            return _model(settings)
        return EndpointReader(settings)

    def _symbolic(self, rules_off: Sequence[str]) -> Answerer:
        if not self.settings.benchmark:
            raise ConfigError("reads facts, and this system has texts", key="generators")
        held = self.benchmark
        return SymbolicAnswerer(
            held.generator, held.query, lambda query: held.rules(query, rules_off), rules_off
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
        return predicate_of(self.settings.condition, self.answerer(generator).judge())

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
    row = settings.model_dump(exclude={"documents", "corpus", "benchmark"})
    row["generators"] = [
        {key: value for key, value in one.items() if key != "api_key_env"}
        for one in row["generators"]
    ]
    return json.loads(json.dumps(row, default=str))  # type: ignore[no-any-return]
