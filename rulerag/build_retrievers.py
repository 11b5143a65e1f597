"""The retriever of a configuration: the base on its index, its wrappers, its fusion."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import Any

from rulerag.arguments import arguments, construct, parameters
from rulerag.config import Config
from rulerag.dataset import RuleQADataset
from rulerag.errors import ConfigError, DataError, RetrievalError, did_you_mean
from rulerag.io import cache_folder
from rulerag.kg.evidence import EvidenceModel
from rulerag.protocols import Retriever, RuleSelector
from rulerag.retrieval.index_folder import index_lock

__all__ = ["RETRIEVERS", "Options", "evidence_model", "load_component", "make_retriever"]

RETRIEVERS = {
    "bm25": "rulerag.retrieval.bm25:BM25Retriever",
    "dense": "rulerag.retrieval.dense:DenseRetriever",
    "lucene": "rulerag.retrieval.lucene:LuceneRetriever",
    "none": "rulerag.retrieval.nothing:NoRetriever",
    "symbolic": "rulerag.retrieval.symbolic:SymbolicRetriever",
}

# The settings that a BM25 index is built with, and where the opened retriever keeps them.
_KEPT_BY_BM25 = {
    "k1": "k1",
    "b": "b",
    "dates": "tokenizer.dates",
    "stopwords": "tokenizer.stopwords",
    "min_token_length": "tokenizer.min_length",
}
_CHAIN = ("retriever", "time_aware", "pooled", "guided")
_PLAIN = "plain"


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


def load_component(family: str, table: Mapping[str, str], name: str, *, key: str = "type") -> Any:
    """The class behind a name.

    Args:
        family: what the classes are called, for messages.
        table: the names of the family.
        name: one of them.
        key: where the name stood, for messages.

    Raises:
        ConfigError: the family has no such name; lists those it has.
    """
    if name not in table:
        raise ConfigError(
            f"no {family} is called {name!r}", key=key, hint=did_you_mean(name, table)
        )
    module, _, attribute = table[name].partition(":")
    return getattr(importlib.import_module(module), attribute)


def evidence_model(config: Config, dataset: RuleQADataset) -> EvidenceModel:
    """How evidence is weighed, in the time steps of the dataset."""
    step = int(dataset.calendar.get("step", 1) or 1)
    model: EvidenceModel = construct(EvidenceModel, config.section("evidence"), {"time_step": step})
    return model


def make_retriever(
    config: Config,
    dataset: RuleQADataset,
    selector: RuleSelector | None,
    options: Options | None = None,
) -> Retriever:
    """The retriever with its wrappers: the base, ``time_aware``, ``pooled`` or ``guided``.

    Where there is a section ``fusion``, its list is fused with those ``with`` names (``plain``
    when it names none): ``plain`` for the same retriever without rules, or sections that hold
    ``retriever``, ``time_aware``, ``pooled`` and ``guided`` as the configuration itself does.

    Raises:
        ConfigError: an unknown name or key, or a part that does not fit another.
    """
    options = options or Options()
    plain, whole = _chain(config, config, dataset, selector, options)
    if config.get("fusion") is None:
        return whole
    from rulerag.retrieval.fusion import FusedRetriever

    section = config.section("fusion")
    given = section.get("with")
    parts = given if isinstance(given, tuple) else (_PLAIN if given is None else given,)
    fused = [whole]
    for number, part in enumerate(parts):
        key = f"with.{number}"
        if part == _PLAIN:
            if whole is plain:
                raise section.error(
                    "the retriever has no rules to leave out",
                    key,
                    hint="add guided: {}, or name another: with: [{retriever: {type: bm25}}]",
                )
            fused.append(plain)
        elif isinstance(part, Config):
            part.check(_CHAIN, required=("retriever",))
            # The index on disk is that of the first.
            fused.append(_chain(part, config, dataset, selector, replace(options, index=None))[1])
        else:
            raise section.error(
                f"expected plain or a section, found {part!r}",
                key,
                hint=f"write {{retriever: {{type: {part}}}}}",
            )
    fusion: Retriever = construct(FusedRetriever, section.without("with"), {"retrievers": fused})
    return fusion


def _chain(
    config: Config,
    whole: Config,
    dataset: RuleQADataset,
    selector: RuleSelector | None,
    options: Options,
) -> tuple[Retriever, Retriever]:
    """A base with its wrappers, but for the rules, and with them; ``whole`` weighs evidence."""
    section = config.section("retriever")
    name = section.check(tuple(section), required=("type",)).read("type", str)
    component = load_component("retriever", RETRIEVERS, name)
    given: dict[str, Any] = {"documents": dataset.corpus, "progress": options.progress}
    if name == "none":
        nothing: Retriever = construct(component, section, {})
        return nothing, nothing
    if name == "symbolic":
        _check_symbolic(config, selector, options)
        given |= {"selector": selector, "evidence": evidence_model(whole, dataset)}
        symbolic: Retriever = construct(component, section, given)
        return symbolic, symbolic
    retriever: Retriever = _base(component, name, section, given, dataset, options)
    if _wants(config, "time_aware"):
        from rulerag.retrieval.temporal import TimeAwareRetriever

        unit = int(dataset.calendar.get("step", 1) or 1)
        retriever = construct(
            TimeAwareRetriever,
            config.section("time_aware"),
            {"retriever": retriever, "time_unit": unit},
        )
    if _wants(config, "pooled") and _wants(config, "guided"):
        raise config.error(
            "pooled and guided retrieval exclude each other",
            "pooled",
            hint="guided: {merge: evidence} pools its searches itself",
        )
    if _wants(config, "pooled"):
        from rulerag.retrieval.pooled import PooledRetriever

        retriever = construct(PooledRetriever, config.section("pooled"), {"retriever": retriever})
    if _wants(config, "guided"):
        return retriever, _guided(config, dataset, retriever, selector)
    return retriever, retriever


def _wants(config: Config, key: str) -> bool:
    """Whether a part is asked for; an empty section asks for it with its defaults."""
    return config.get(key) is not None


def _check_symbolic(config: Config, selector: RuleSelector | None, options: Options) -> None:
    """Refuse what the symbolic retriever has no use for."""
    if selector is None:
        raise config.error(
            "the symbolic retriever needs guiding rules",
            "selector",
            hint="add selector: {type: head}",
        )
    for wrapper in ("time_aware", "pooled", "guided"):
        if _wants(config, wrapper):
            raise config.error(
                "the symbolic retriever cannot be wrapped",
                wrapper,
                hint="it follows rules and time itself",
            )
    if options.index is not None:
        raise ConfigError(
            "the symbolic retriever keeps no index on disk", key="index", hint="leave --index out"
        )


def _base(
    component: Any,
    name: str,
    section: Config,
    given: Mapping[str, Any],
    dataset: RuleQADataset,
    options: Options,
) -> Any:
    """A text retriever on its index: the one that was named, or one of its own."""
    if name == "lucene":
        return _lucene(component, section, given, dataset, options)
    if name == "dense":
        from rulerag.retrieval.dense_checkpoints import dense_from_checkpoints, load_dense

        return _opened_or_made(dense_from_checkpoints, load_dense, section, given, options)
    return _opened_or_made(component, component.load, section, given, options)


def _opened_or_made(
    make: Callable[..., Any],
    load: Callable[..., Any],
    section: Config,
    given: Mapping[str, Any],
    options: Options,
) -> Any:
    if options.index is None:
        return construct(make, section, given)
    arguments(make, section, given=tuple(given))
    known = parameters(load, given=(*given, "folder"))
    search = Config(
        {key: section[key] for key in section if key in known},
        source=section.source,
        where=section.where,
    )
    opened = construct(load, search, {**given, "folder": options.index})
    return _check_index(opened, section, _built_with(opened), options.index)


def _built_with(opened: Any) -> dict[str, Any]:
    """The settings that an index keeps, by their names in a configuration."""
    told: dict[str, Any] | None = getattr(opened, "built_with", None)
    if told is not None:
        return told
    return {key: attrgetter(place)(opened) for key, place in _KEPT_BY_BM25.items()}


def _lucene(
    component: Any,
    section: Config,
    given: Mapping[str, Any],
    dataset: RuleQADataset,
    options: Options,
) -> Any:
    arguments(component.build, section, given=("index_dir", *given))
    opening = section.without("dates")  # the index knows how it treats dates
    if options.index is not None:
        opened = construct(component, opening, {**given, "index_dir": options.index})
        return _check_index(opened, section, {"dates": opened.dates}, options.index)
    dates = section.read("dates", str, "split")
    folder = cache_folder("lucene", f"{dataset.fingerprint}-{dates}")
    with index_lock(folder, wait=True):  # another run may be building what this one needs
        if (folder / "manifest.json").exists():
            try:
                return construct(component, opening, {**given, "index_dir": folder})
            except (DataError, RetrievalError):
                pass  # a damaged cache is no reason to stop
        return construct(component.build, section, {**given, "index_dir": folder})


def _check_index(opened: Any, section: Config, kept: Mapping[str, Any], folder: Path) -> Any:
    """The opened retriever; settings that its index was not built with are an error."""
    for key, value in kept.items():
        if section.get(key) is not None and section[key] != value:
            raise section.error(
                f"is {section[key]!r} here, and the index {folder} was built with {value!r}",
                key,
                hint="name an index that fits, or leave --index out",
            )
    return opened


def _guided(
    config: Config, dataset: RuleQADataset, retriever: Retriever, selector: RuleSelector | None
) -> Retriever:
    from rulerag.retrieval.rule_guided import RuleGuidedRetriever

    if selector is None:
        raise config.error(
            "rule-guided retrieval needs guiding rules",
            "selector",
            hint="add selector: {type: head}",
        )
    relations, entities = dataset.labels["relations"], dataset.labels["entities"]
    given = {
        "retriever": retriever,
        "selector": selector,
        "rule_label": lambda name: relations.get(name, name),
        "entity_label": lambda name: entities.get(name, name),
    }
    wrapped: Retriever = construct(RuleGuidedRetriever, config.section("guided"), given)
    return wrapped
