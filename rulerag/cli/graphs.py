"""Commands about graphs and rules: ``mine`` and ``rules``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from rulerag.build import make_miner
from rulerag.cli.common import QuietOption, say, show_progress, table
from rulerag.errors import ConfigError, UnknownNameError, did_you_mean
from rulerag.kg.graph import KnowledgeGraph
from rulerag.rules import RuleBank

__all__ = ["mine", "rules"]

_FORMATS = ("jsonl", "amie", "anyburl", "tlogic")


def mine(
    kg: Annotated[Path, typer.Argument(help="a graph folder, or one file of facts")],
    out: Annotated[Path, typer.Option(help="the rule bank to write")],
    miner: Annotated[str, typer.Option(help="auto, amie (static) or tlogic (temporal)")] = "auto",
    max_atoms: Annotated[int, typer.Option(help="amie: longest rule, head included")] = 3,
    lengths: Annotated[str, typer.Option(help="tlogic: body lengths, comma-separated")] = "1",
    min_confidence: Annotated[
        float | None, typer.Option(help="least confidence (amie: PCA; default 0.1; tlogic: 0.01)")
    ] = None,
    min_support: Annotated[
        int | None, typer.Option(help="tlogic: least support, in facts (default 2)")
    ] = None,
    min_head_coverage: Annotated[
        float | None, typer.Option(help="amie: least head coverage (default 0.01)")
    ] = None,
    threads: Annotated[int | None, typer.Option(help="amie: threads (default 2)")] = None,
    split: Annotated[str, typer.Option(help="the split to mine")] = "train",
    layout: Annotated[str, typer.Option(help="how the files are laid out")] = "auto",
    format: Annotated[str, typer.Option(help="jsonl, amie, anyburl or tlogic")] = "jsonl",
    quiet: QuietOption = False,
) -> None:
    """Mine a rule bank from a graph."""
    if format not in _FORMATS:
        raise ConfigError(f"unknown format {format!r}", key="format", hint=", ".join(_FORMATS))
    graph = KnowledgeGraph.load(kg, layout=layout)
    if miner == "auto":
        miner = "tlogic" if graph.is_temporal else "amie"
    options: dict[str, Any] = {"progress": show_progress(quiet)}
    if miner == "tlogic":
        options |= {"lengths": _lengths(lengths)}
        wanted = {"min_confidence": min_confidence, "min_support": min_support}
    else:
        options |= {"max_atoms": max_atoms}
        wanted = {
            "min_pca_confidence": min_confidence,
            "min_head_coverage": min_head_coverage,
            "threads": threads,
        }
    options |= {key: value for key, value in wanted.items() if value is not None}
    engine = make_miner(miner, **options)
    started = time.perf_counter()
    bank = engine.mine(graph.split(split))
    seconds = time.perf_counter() - started
    if format == "jsonl":
        bank.save(out)
    else:
        from rulerag.mining.formats import export_rules

        export_rules(bank, out, format, graph)
    say(f"{len(bank):,} rules for {len(bank.head_relations)} relations in {seconds:.2f} s → {out}")


def _lengths(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise ConfigError(
            f"{text!r} is no list of lengths", key="lengths", hint="for example --lengths 1"
        ) from None


def rules(
    file: Annotated[Path, typer.Argument(help="a rule bank (rules.jsonl)")],
    head: Annotated[str | None, typer.Option(help="only rules that predict this relation")] = None,
    top: Annotated[int, typer.Option(help="how many rules to show")] = 10,
) -> None:
    """Look into a rule bank."""
    bank = RuleBank.load(file)
    if head is not None:
        chosen = bank.for_head(_relation(bank, head))
    else:
        chosen = sorted(bank, key=lambda r: (-r.ranking_confidence, -(r.quality.support or 0)))
    heads = len(bank.head_relations)
    say(f"{len(bank):,} rules for {heads} relations; {len(chosen):,} chosen, showing {top}")
    rows = [
        (r.text, f"{r.ranking_confidence:.3f}", r.quality.support, r.quality.body_size)
        for r in chosen[:top]
    ]
    table("", ("rule", "confidence", "support", "body"), rows)


def _relation(bank: RuleBank, name: str) -> str:
    """The raw relation behind a name or its readable form."""
    readable = {head.replace("_", " ").casefold(): head for head in bank.head_relations}
    if name in bank.head_relations:
        return name
    found = readable.get(name.replace("_", " ").casefold())
    if found is None:
        raise UnknownNameError(
            f"no rule predicts {name!r}", hint=did_you_mean(name, bank.head_relations)
        )
    return found
