"""The composition root: a configuration becomes objects here and nowhere else.

:class:`Builder` walks nested sections: each is a component of the registry, its keys become
arguments, the parameters named in :data:`~rulerag.composition.registry.SHARED` are filled from the
dataset.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from rulerag import candidates, generation  # whose modules are loaded when they are first used
from rulerag.composition import FAMILIES, Config, Entry, Settings, find, names
from rulerag.errors import ConfigError, did_you_mean
from rulerag.kg import Calendar
from rulerag.linking import QuestionLinker
from rulerag.parallel import Backend
from rulerag.pipeline import RuleRAGPipeline
from rulerag.protocols import CandidateScorer, Generator, Retriever, RuleMiner, RuleSelector
from rulerag.retrieval.guided import WordedSelector
from rulerag.ruleqa import RuleQADataset
from rulerag.rules import RuleBank
from rulerag.types import Query


class Experiment(Settings):
    """The sections of an experiment file, and what it says beside them.

    Args:
        metadata: what the run is called in tables: ``benchmark``, ``method``.
        dataset: a component, and ``query_set``: a split, or a set of the dataset.
        selector: a component; none where no rules guide.
        retriever: a component.
        generator: a component.
        reader_rules: which rules the reader sees, see :class:`~rulerag.RuleRAGPipeline`.
        top_k: documents of a query.
        seed: stands in the record of a run.
        expected: numbers that a run is compared with.
    """

    metadata: Mapping[str, Any] = {}
    dataset: Mapping[str, Any] = {}
    selector: Mapping[str, Any] | None = None
    retriever: Mapping[str, Any]
    generator: Mapping[str, Any]
    reader_rules: str = "selected"
    top_k: int = 10
    seed: int = 0
    expected: Mapping[str, Any] = {}


FACTS_ALONE = ("symbolic", "candidate")
"""Generators that read facts, and say nothing of texts without any."""
# Settings of an index that `rulerag index` has a flag for, by the same name.
_INDEXED = ("dates", "encoder")
# Fewer fine-tuning questions of F_G than this teach less than trusting rules too much costs.
_FEW_EXAMPLES = 300


@dataclass
class Builder:
    """Makes components from sections; retrievers with equal settings are one object.

    Args:
        shared: the shared resources by name, each made when it is first needed.
        parts: the parts of the run (``selector``, ``retriever``, ``scorer``), for components that
            hold such a part and state none of their own.
        index: an index on disk, for the first retriever that searches.
    """

    shared: Mapping[str, Callable[[], Any]]
    parts: Mapping[str, Any] = field(default_factory=dict)
    index: Path | None = None
    _made: dict[str, Retriever] = field(default_factory=dict)

    def make(self, family: str, section: Config) -> Any:
        """The component of a section, with all that stands inside it.

        Raises:
            ConfigError: an unknown name or key, a value of another kind, a part that is missing,
                or a component that refused a value; names file and key.
        """
        if family == "retriever" and section.fingerprint in self._made:
            return self._made[section.fingerprint]
        name = section.read("type", str, FAMILIES[family])
        if not name:
            raise section.error("is missing", "type", hint=f"one of {', '.join(names(family))}")
        entry = find(family, name, key=f"{section.where}.type".removeprefix("."))
        section.check(entry.keys)
        values = section.without("type", *entry.holds).to_dict()
        entry.settings.read(values, source=section.source, where=section.where)
        for key, resource in entry.injected.items():
            if resource not in self.shared:
                message = f"the {family} {name!r} needs {resource}, which is not at hand here"
                raise ConfigError(message, hint=did_you_mean(resource, self.shared))
            values[key] = self.shared[resource]()
        for key, part in entry.holds.items():
            if part.endswith("*"):
                needed = entry.parameters[key].default is inspect.Parameter.empty
                if needed or section.get(key) is not None:
                    numbers = range(len(section.read(key, tuple)))
                    sections = [section.section(f"{key}.{number}") for number in numbers]
                    values[key] = [self.make(part.removesuffix("*"), one) for one in sections]
            elif section.get(key) is None and self.parts.get(key) is not None:
                values[key] = self.parts[key]
            else:
                _check_part(entry, section, key)
                values[key] = self.make(part, section.section(key))
        folder = self._index_of(entry)
        try:
            if folder is None:
                made = entry.maker(**values)
            else:
                made = _open_index(entry, section, folder, values)
        except ConfigError as error:
            if error.path is not None or error.key is None:
                raise
            raise section.error(error.message, error.key, hint=error.hint) from error
        if family == "retriever":
            self._made[section.fingerprint] = made
        return made

    def _index_of(self, entry: Entry) -> Path | None:
        """The index of the run, for the first retriever that wraps none."""
        wraps = any(family.startswith("retriever") for family in entry.holds.values())
        if entry.family != "retriever" or wraps or self.index is None:
            return None
        if entry.loader is None:
            message = f"the {entry.name} retriever keeps no index on disk"
            raise ConfigError(message, key="index", hint="leave --index out")
        folder, self.index = self.index, None
        return folder


def _check_part(entry: Entry, section: Config, key: str) -> None:
    """Raise a ConfigError where a part is not stated and its family has no default."""
    if section.get(key) is not None:
        return
    if key == "selector":
        message = f"the {entry.name} {entry.family} needs guiding rules"
        hint = "add selector: {type: head}"
        raise ConfigError(message, path=section.source, key=key, hint=hint)
    family = entry.holds[key]
    if not FAMILIES[family]:
        hint = f"write {key}: {{type: …}}, one of {', '.join(names(family))}"
        raise section.error("is missing", key, hint=hint)


def _open_index(entry: Entry, section: Config, folder: Path, values: Mapping[str, Any]) -> Any:
    """A retriever on its index; settings that the index was not built with are an error."""
    assert entry.loader is not None  # noqa: S101  (checked when it was chosen)
    taken = inspect.signature(entry.loader).parameters
    every = any(one.kind is one.VAR_KEYWORD for one in taken.values())
    known = [key for key in values if key in taken or (every and key not in entry.injected)]
    opened = entry.loader(folder=folder, **{key: values[key] for key in known})
    for key, value in opened.built_with.items():
        if section.get(key) is not None and section[key] != value:
            raise section.error(
                f"is {section[key]!r} here, and the index {folder} was built with {value!r}",
                key,
                hint="name an index that fits"
                + (f" (rulerag index … --{key} {section[key]})" if key in _INDEXED else "")
                + ", or leave --index out",
            )
    return opened


def resources(
    dataset: RuleQADataset, *, progress: bool = False, backend: Backend | None = None
) -> dict[str, Callable[[], Any]]:
    """What components may ask for, of a dataset and a run."""

    def words(kind: str) -> Callable[[str], str]:
        return lambda name: dataset.labels[kind].get(name, name)

    step = int(dataset.calendar.get("step", 1) or 1)
    return {
        "documents": lambda: dataset.corpus,
        "facts": cache(lambda: candidates.CorpusFacts(dataset.corpus, dataset.labels)),
        "examples": lambda: _examples(dataset),
        "bank": lambda: dataset.rules,
        "labels": lambda: dataset.labels["entities"],
        "all_labels": lambda: dataset.labels,
        "names": lambda: {**dataset.labels["relations"], **dataset.labels["entities"]},
        "known": lambda: generation.answers_by_relation(dataset.corpus),
        "linker": cache(lambda: QuestionLinker(dataset)),
        "rule_label": lambda: words("relations"),
        "entity_label": lambda: words("entities"),
        "time_step": lambda: step,
        "calendar": lambda: Calendar(**dataset.calendar) if dataset.calendar else None,
        "dataset_fingerprint": lambda: dataset.fingerprint,
        "progress": lambda: progress,
        "backend": lambda: backend,
    }


def _examples(dataset: RuleQADataset) -> list[Query]:
    """Questions that weights of candidate scorers are learned from: F_G, and F_R where few.

    F_R holds only questions that some rule answers: rules would be trusted too much.
    """
    examples = list(dataset.queries.get("f_g", ()))
    few = len(examples) < _FEW_EXAMPLES
    return [*examples, *(dataset.queries.get("f_r", ()) if few else ())]


def make_miner(name: str, **options: Any) -> RuleMiner:
    """A rule miner by name with its own keyword arguments.

    Raises:
        ConfigError: an unknown name, or an option that the miner does not take.
    """
    entry = find("miner", name, key="miner")
    stated = {key: value for key, value in options.items() if key not in entry.injected}
    entry.settings.read(stated)
    miner: RuleMiner = entry.maker(**options)
    return miner


def open_dataset(config: Config) -> RuleQADataset:
    """The dataset that a configuration names.

    Raises:
        ConfigError: it names none, or the folder is missing; says how to build it.
        DataError: the folder holds no dataset, or not the one that its manifest describes.
    """
    section = config.section("dataset").without("query_set")  # which queries is for a run to say
    dataset: RuleQADataset = Builder({}).make("dataset", section)
    return dataset


def make_selector(
    config: Config, rules: RuleBank, dataset: RuleQADataset | None = None
) -> RuleSelector | None:
    """The selector of guiding rules; None when the configuration has no selector.

    Args:
        config: the whole configuration.
        rules: the rule bank.
        dataset: what is asked about, for selectors that read the words of a question; where it
            has templates of its own (``phrases.yaml``), rules are said by them.

    Raises:
        ConfigError: an unknown name or key, or a selector that needs a dataset and has none.
        DataFormatError: a template lacks ``{x}`` or ``{y}``.
    """
    if config.get("selector") is None:
        return None
    shared = {} if dataset is None else resources(dataset)
    builder = Builder({**shared, "bank": lambda: rules})
    selector: RuleSelector = builder.make("selector", config.section("selector"))
    if dataset is None or not dataset.templates:
        return selector
    return WordedSelector(selector, dataset.phrases)


def make_generator(
    config: Config,
    dataset: RuleQADataset | None = None,
    *,
    retriever: Retriever | None = None,
    progress: bool = False,
) -> Generator:
    """The reader that a configuration names.

    Args:
        config: the whole configuration.
        dataset: what is asked about; nothing for a language model by itself.
        retriever: what the chain-of-thought baselines search with; that of the configuration.
        progress: show progress bars.

    Raises:
        ConfigError: an unknown name or key.
    """
    parts = {"retriever": retriever, "scorer": getattr(retriever, "scorer", None)}
    if dataset is None:
        dataset = RuleQADataset(corpus=(), queries={})
    builder = Builder(resources(dataset, progress=progress), parts)
    generator: Generator = builder.make("generator", config.section("generator"))
    return generator


def make_scorer(config: Config, dataset: RuleQADataset) -> CandidateScorer:
    """The candidate scorer of the retriever that a configuration names, without the retriever.

    Args:
        config: the whole configuration.
        dataset: whose facts are scored.

    Raises:
        ConfigError: an unknown name or key, or the retriever has no scorer.
    """
    section = config.section("retriever")
    if section.get("scorer") is None:
        raise section.error("is missing", "scorer", hint="name a method with one: bm25-scored")
    scorer: CandidateScorer = Builder(resources(dataset)).make("scorer", section.section("scorer"))
    return scorer


def make_retriever(
    config: Config,
    dataset: RuleQADataset,
    selector: RuleSelector | None,
    *,
    index: Path | None = None,
    progress: bool = False,
    backend: Backend | None = None,
) -> Retriever:
    """The retriever that a configuration names, with all that it wraps.

    Args:
        config: the whole configuration.
        dataset: what is searched.
        selector: the guiding rules; None where no retriever follows rules.
        index: the folder of an index built by `rulerag index`; without one, BM25 indexes in
            memory, Lucene keeps its index in the cache folder, and so does dense retrieval with
            the vectors of the corpus.
        progress: show progress bars.
        backend: encodes the corpus of dense retrieval; this process when None.

    Raises:
        ConfigError: an unknown name or key, or a part that does not fit another.
    """
    shared = resources(dataset, progress=progress, backend=backend)
    builder = Builder(shared, {"selector": selector}, index)
    retriever: Retriever = builder.make("retriever", config.section("retriever"))
    return retriever


def make_pipeline(
    config: Config,
    dataset: RuleQADataset,
    *,
    index: Path | None = None,
    progress: bool = False,
    keep_union: bool = True,
) -> RuleRAGPipeline:
    """Everything that a configuration names, put together.

    Args:
        config: the whole configuration.
        dataset: what is asked about.
        index: as in :func:`make_retriever`.
        progress: show progress bars.
        keep_union: also compute the untrimmed union, as the pipeline does by default.

    Raises:
        ConfigError: an unknown name or key; names file and key.
    """
    values = {key: value for key, value in config.to_dict().items() if value is not None}
    stated = Experiment.read(values, source=config.source)
    selector = make_selector(config, dataset.rules, dataset)
    retriever = make_retriever(config, dataset, selector, index=index, progress=progress)
    of_facts = config.read("generator.type", str, "") in FACTS_ALONE
    linked = of_facts and any(document.facts for document in dataset.corpus)
    pipeline = RuleRAGPipeline(
        retriever,
        make_generator(config, dataset, retriever=retriever, progress=progress),
        selector=selector,
        top_k=stated.top_k,
        reader_rules=stated.reader_rules,
        keep_union=keep_union,
        fingerprints={"dataset": dataset.fingerprint, "rules": dataset.rules.fingerprint},
        labels=dataset.labels["entities"],
    )
    if linked:
        pipeline.linker = QuestionLinker(dataset)
    return pipeline
