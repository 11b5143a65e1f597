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

from rulerag.composition import FAMILIES, Config, Entry, Settings, find, names
from rulerag.errors import ConfigError, did_you_mean
from rulerag.kg import Phrases
from rulerag.linking import QuestionLinker
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


# Settings of an index that `rulerag index` has a flag for, by the same name.
_INDEXED = ("dates", "encoder")
# Fewer fine-tuning questions of F_G than this teach less than trusting rules too much costs.
_FEW_EXAMPLES = 300


@dataclass(frozen=True)
class Options:
    """What a run adds to a configuration: never part of its fingerprint.

    Args:
        index: the folder of an index built by `rulerag index`; without one, BM25 indexes in
            memory, Lucene keeps its index in the cache folder, and so does dense retrieval with
            the vectors of the corpus.
        progress: show progress bars.
        keep_union: also compute the untrimmed union, as the pipeline does by default.
    """

    index: Path | None = None
    progress: bool = False
    keep_union: bool = True


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
        plain = section.without("type", *entry.holds).to_dict()
        entry.settings.read(plain, source=section.source, where=section.where)
        given = {key: self._resource(entry, one) for key, one in entry.injected.items()}
        given |= {key: self._part(entry, section, key) for key in entry.holds}
        folder = self._index_of(entry)
        try:
            if folder is None:
                made = entry.maker(**given, **plain)
            else:
                made = _open_index(entry, section, folder, {**given, **plain})
        except ConfigError as error:
            if error.path is not None or error.key is None:
                raise
            raise section.error(error.message, error.key, hint=error.hint) from error
        if family == "retriever":
            self._made[section.fingerprint] = made
        return made

    def _part(self, entry: Entry, section: Config, name: str) -> Any:
        """What a parameter that holds components gets."""
        family = entry.holds[name]
        if family.endswith("*"):
            default = entry.parameters[name].default
            if section.get(name) is None and default is not inspect.Parameter.empty:
                return default
            return [
                self.make(family.removesuffix("*"), section.section(f"{name}.{number}"))
                for number in range(len(section.read(name, tuple)))
            ]
        if section.get(name) is None:
            if self.parts.get(name) is not None:
                return self.parts[name]
            if name == "selector":
                message = f"the {entry.name} {entry.family} needs guiding rules"
                hint = "add selector: {type: head}"
                raise ConfigError(message, path=section.source, key=name, hint=hint)
            if not FAMILIES[family]:
                hint = f"write {name}: {{type: …}}, one of {', '.join(names(family))}"
                raise section.error("is missing", name, hint=hint)
        return self.make(family, section.section(name))

    def _resource(self, entry: Entry, name: str) -> Any:
        if name not in self.shared:
            message = f"the {entry.family} {entry.name!r} needs {name}, which is not at hand here"
            raise ConfigError(message, hint=did_you_mean(name, self.shared))
        return self.shared[name]()

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


def resources(dataset: RuleQADataset, options: Options) -> dict[str, Callable[[], Any]]:
    """What components may ask for, of a dataset and a run."""

    def known() -> Any:
        from rulerag.generation import answers_by_relation

        return answers_by_relation(dataset.corpus)

    @cache
    def facts() -> Any:
        from rulerag.candidates import CorpusFacts

        return CorpusFacts(dataset.corpus, dataset.labels)

    def words(kind: str) -> Callable[[str], str]:
        return lambda name: dataset.labels[kind].get(name, name)

    @cache
    def linker() -> QuestionLinker:
        return QuestionLinker(dataset)

    step = int(dataset.calendar.get("step", 1) or 1)
    return {
        "documents": lambda: dataset.corpus,
        "facts": facts,
        "examples": lambda: _examples(dataset),
        "bank": lambda: dataset.rules,
        "labels": lambda: dataset.labels["entities"],
        "all_labels": lambda: dataset.labels,
        "names": lambda: {**dataset.labels["relations"], **dataset.labels["entities"]},
        "known": known,
        "linker": linker,
        "rule_label": lambda: words("relations"),
        "entity_label": lambda: words("entities"),
        "time_step": lambda: step,
        "dataset_fingerprint": lambda: dataset.fingerprint,
        "progress": lambda: options.progress,
        "backend": lambda: None,  # work of a configuration stays in this process
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
    shared = {} if dataset is None else resources(dataset, Options())
    builder = Builder({**shared, "bank": lambda: rules})
    selector: RuleSelector = builder.make("selector", config.section("selector"))
    if dataset is None or not dataset.templates:
        return selector
    labels = dataset.labels["relations"]
    return WordedSelector(selector, Phrases(dataset.templates, lambda r: labels.get(r, r)))


def make_generator(
    config: Config,
    dataset: RuleQADataset,
    options: Options | None = None,
    *,
    retriever: Retriever | None = None,
) -> Generator:
    """The reader that a configuration names.

    Args:
        config: the whole configuration.
        dataset: what is asked about.
        options: what the run adds.
        retriever: what the chain-of-thought baselines search with; that of the configuration.

    Raises:
        ConfigError: an unknown name or key.
    """
    parts = {"retriever": retriever, "scorer": getattr(retriever, "scorer", None)}
    builder = Builder(resources(dataset, options or Options()), parts)
    generator: Generator = builder.make("generator", config.section("generator"))
    return generator


def make_scorer(
    config: Config, dataset: RuleQADataset, options: Options | None = None
) -> CandidateScorer:
    """The candidate scorer of the retriever that a configuration names, without the retriever.

    Args:
        config: the whole configuration.
        dataset: whose facts are scored.
        options: what the run adds.

    Raises:
        ConfigError: an unknown name or key, or the retriever has no scorer.
    """
    section = config.section("retriever")
    if section.get("scorer") is None:
        raise section.error("is missing", "scorer", hint="name a method with one: bm25-scored")
    builder = Builder(resources(dataset, options or Options()))
    scorer: CandidateScorer = builder.make("scorer", section.section("scorer"))
    return scorer


def make_retriever(
    config: Config,
    dataset: RuleQADataset,
    selector: RuleSelector | None,
    options: Options | None = None,
) -> Retriever:
    """The retriever that a configuration names, with all that it wraps.

    Args:
        config: the whole configuration.
        dataset: what is searched.
        selector: the guiding rules; None where no retriever follows rules.
        options: what the run adds.

    Raises:
        ConfigError: an unknown name or key, or a part that does not fit another.
    """
    options = options or Options()
    builder = Builder(resources(dataset, options), {"selector": selector}, options.index)
    retriever: Retriever = builder.make("retriever", config.section("retriever"))
    return retriever


def make_pipeline(
    config: Config, dataset: RuleQADataset, options: Options | None = None
) -> RuleRAGPipeline:
    """Everything that a configuration names, put together.

    Raises:
        ConfigError: an unknown name or key; names file and key.
    """
    options = options or Options()
    values = {key: value for key, value in config.to_dict().items() if value is not None}
    stated = Experiment.read(values, source=config.source)
    selector = make_selector(config, dataset.rules, dataset)
    retriever = make_retriever(config, dataset, selector, options)
    return RuleRAGPipeline(
        retriever,
        make_generator(config, dataset, options, retriever=retriever),
        selector=selector,
        top_k=stated.top_k,
        reader_rules=stated.reader_rules,
        keep_union=options.keep_union,
        fingerprints={"dataset": dataset.fingerprint, "rules": dataset.rules.fingerprint},
        labels=dataset.labels["entities"],
    )
