"""Commands about graphs and rules: ``mine`` and ``rules``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from rulerag.arguments import parameters
from rulerag.build import MINERS, load_component, make_miner
from rulerag.cli.common import QuietOption, check_outputs, say, show_progress, table
from rulerag.errors import ConfigError, UnknownNameError, did_you_mean
from rulerag.kg.graph import KnowledgeGraph
from rulerag.rules import RuleBank, readable

__all__ = ["mine", "rules"]

_FORMATS = ("jsonl", "amie", "anyburl", "tlogic")
# What the option --min-confidence is called by each miner.
_CONFIDENCE = {"amie": "min_pca_confidence"}


def mine(
    kg: Annotated[Path, typer.Argument(help="a graph folder, or one file of facts")],
    out: Annotated[Path, typer.Option(help="the rule bank to write")],
    miner: Annotated[str, typer.Option(help="auto, amie (static) or tlogic (temporal)")] = "auto",
    max_atoms: Annotated[
        int | None, typer.Option(help="amie: longest rule, head included (default 3)")
    ] = None,
    lengths: Annotated[
        str | None, typer.Option(help="tlogic: body lengths, comma-separated (default 1)")
    ] = None,
    min_confidence: Annotated[
        float | None, typer.Option(help="least confidence (amie: PCA, default 0.1; tlogic: 0.01)")
    ] = None,
    min_support: Annotated[
        int | None, typer.Option(help="least support, in facts (default amie: 1, tlogic: 2)")
    ] = None,
    min_head_coverage: Annotated[
        float | None, typer.Option(help="amie: least head coverage (default 0.01)")
    ] = None,
    min_head_size: Annotated[
        int | None, typer.Option(help="amie: least facts of a head relation (default 100)")
    ] = None,
    threads: Annotated[int | None, typer.Option(help="amie: threads (default 2)")] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="amie: a folder from which an interrupted run resumes")
    ] = None,
    split: Annotated[str, typer.Option(help="the split to mine")] = "train",
    layout: Annotated[str, typer.Option(help="how the files are laid out")] = "auto",
    format: Annotated[str, typer.Option(help="jsonl, amie, anyburl or tlogic")] = "jsonl",
    quiet: QuietOption = False,
) -> None:
    """Mine a rule bank from a graph."""
    check_outputs(out)
    if format not in _FORMATS:
        raise ConfigError(f"unknown format {format!r}", key="format", hint=", ".join(_FORMATS))
    graph = KnowledgeGraph.load(kg, layout=layout)
    _check_format(format, graph)
    name = miner if miner != "auto" else "tlogic" if graph.is_temporal else "amie"
    options: dict[str, Any] = {
        "max_atoms": max_atoms,
        "lengths": _lengths(lengths),
        _CONFIDENCE.get(name, "min_confidence"): min_confidence,
        "min_support": min_support,
        "min_head_coverage": min_head_coverage,
        "min_head_size": min_head_size,
        "threads": threads,
        "checkpoint": checkpoint,
    }
    given = {key: value for key, value in options.items() if value is not None}
    if miner == "auto":
        # One command line for graphs of both kinds: what the chosen miner knows counts.
        known = parameters(load_component("miner", MINERS, name))
        given = {key: value for key, value in given.items() if key in known}
    engine = make_miner(name, progress=show_progress(quiet), **given)
    facts = graph.split(split)
    started = time.perf_counter()
    bank = engine.mine(facts)
    seconds = time.perf_counter() - started
    from rulerag.mining.formats import export_rules

    export_rules(bank, out, format, graph)
    say(
        f"{len(bank):,} rules for {len(bank.head_relations)} of {len(graph.relations)} relations "
        f"in {seconds:.2f} s ({name}) → {out}"
    )


def _check_format(format: str, graph: KnowledgeGraph) -> None:
    """Say before the work what cannot be written after it."""
    fits = ("jsonl", "tlogic") if graph.is_temporal else ("jsonl", "amie", "anyburl")
    if format not in fits:
        kind = "temporal" if graph.is_temporal else "static"
        raise ConfigError(
            f"{format!r} cannot hold the {kind} rules of {graph.name!r}",
            key="format",
            hint=f"one of {', '.join(fits)}",
        )


def _lengths(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise ConfigError(
            f"{text!r} is no list of lengths", key="lengths", hint="for example --lengths 1"
        ) from None


def rules(
    file: Annotated[Path, typer.Argument(help="a rule bank in any format of `rulerag mine`")],
    head: Annotated[str | None, typer.Option(help="only rules that predict this relation")] = None,
    top: Annotated[int, typer.Option(help="how many rules to show")] = 10,
    format: Annotated[str, typer.Option(help="auto, jsonl, amie, anyburl or tlogic")] = "auto",
    kg: Annotated[
        Path | None, typer.Option(help="the graph of the rules; the format tlogic needs it")
    ] = None,
) -> None:
    """Look into a rule bank."""
    if top < 1:
        raise ConfigError(f"{top} is below 1", key="top", hint="say 10")
    bank = _load(file, format, kg)
    chosen = list(bank) if head is None else bank.for_head(_relation(bank, head))
    chosen.sort(key=lambda r: (-r.ranking_confidence, -(r.quality.support or 0)))
    shown = chosen[:top]
    say(
        f"{len(bank):,} rules for {len(bank.head_relations)} relations"
        + (f", {len(chosen):,} for {head!r}" if head is not None else "")
        + f"; the {len(shown):,} most confident:"
    )
    rows = [
        (
            f"{rule.ranking_confidence:.3f}",
            _count(rule.quality.support),
            _count(rule.quality.body_size),
            rule.text,
        )
        for rule in shown
    ]
    if rows:
        table(("confidence", "support", "body", "rule"), rows)


def _load(file: Path, format: str, kg: Path | None) -> RuleBank:
    from rulerag.mining.formats import detect_format, import_rules

    graph = KnowledgeGraph.load(kg) if kg is not None else None
    if format == "auto":
        # A bank of no rules is an empty file, which tells no format.
        empty = file.is_file() and not file.stat().st_size
        format = "jsonl" if empty else detect_format(file)
    if format == "tlogic" and graph is None:
        raise ConfigError(
            "TLogic's format names relations by their ids in a graph",
            path=file,
            hint="name the graph that the rules were mined from: --kg FOLDER",
        )
    return import_rules(file, format, graph)


def _count(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"


def _relation(bank: RuleBank, name: str) -> str:
    """The raw relation behind a name or its readable form."""
    if name in bank.head_relations:
        return name
    forms = {readable(head).casefold(): head for head in bank.head_relations}
    found = forms.get(readable(name).casefold())
    if found is None:
        raise UnknownNameError(
            f"no rule predicts {name!r}", hint=did_you_mean(name, bank.head_relations)
        )
    return found
