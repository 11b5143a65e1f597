"""Commands about rules: ``mine`` and ``rules``."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from cyclopts import Parameter

from rulerag.assembly import make_miner
from rulerag.cli.common import (
    GraphOptions,
    Output,
    RayOptions,
    check_outputs,
    say,
    show_progress,
    table,
)
from rulerag.composition import check_choice, check_range, find
from rulerag.errors import ConfigError, UnknownNameError, did_you_mean
from rulerag.kg import FactTable, KnowledgeGraph
from rulerag.mining.formats import FORMATS, export_rules, import_rules
from rulerag.mining.paths import merge_rules
from rulerag.mining.pruning import DEFAULT_SCORE, SCORES, prune_subsumed, top_rules
from rulerag.rules import RuleBank, readable

# What the option --min-confidence is called by each miner.
_CONFIDENCE = {"amie": "min_pca_confidence"}
# The least facts of a head relation: AMIE's own, then what small graphs can show.
_HEAD_SIZES = (100, 10, 2)
# What to lower where no rule was found.
_LEAST = {
    "amie": ("min_head_size", "min_head_coverage", "min_confidence"),
    "tlogic": ("min_support", "min_confidence"),
}
# Longer bodies forecast better on validation facts: see the help of --lengths and the changelog.
_LENGTHS = (1, 2, 3)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class PruningOptions:
    """How a bank is made smaller.

    Args:
        prune: drop rules that a rule as confident subsumes, on any graph.
        prune_covered: static: drop rules that predict nothing new here.
        per_head: keep the N best rules of each head.

    Raises:
        ConfigError: an unknown score, a number below 1, or a score without a number.
    """

    prune: bool = False
    prune_covered: bool = False
    per_head: int | None = None
    score: Annotated[
        str | None,
        Parameter(help=f"ranks the rules of a head: {', '.join(SCORES)} (default {DEFAULT_SCORE})"),
    ] = None

    def __post_init__(self) -> None:
        if self.per_head is not None:
            check_range("top", self.per_head, 1)
        if self.score is not None:
            check_choice("score", self.score, SCORES)
            if self.per_head is None:
                raise ConfigError(
                    "ranks the rules of a head, and all are kept",
                    key="score",
                    hint="say how many to keep: --per-head 10",
                )

    def of(self, bank: RuleBank, facts: FactTable | None = None) -> RuleBank:
        """The smaller bank; each step says what it left."""
        if self.prune:
            bank = _reported("not subsumed", bank, prune_subsumed(bank))
        if self.prune_covered:
            if facts is None:
                raise ConfigError(
                    "needs the graph of the rules", key="prune-covered", hint="--kg FOLDER"
                )
            from rulerag.mining.pruning import prune_covered  # loads numba

            bank = _reported("predicting something new", bank, prune_covered(bank, facts))
        if self.per_head is not None:
            score = self.score or DEFAULT_SCORE
            bank = _reported(f"best by {score}", bank, top_rules(bank, self.per_head, score))
        return bank


def _reported(words: str, before: RuleBank, after: RuleBank) -> RuleBank:
    say(f"{len(after):,} of {len(before):,} rules {words}")
    return after


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class MiningOptions:
    """Which rules are mined and how; what a miner does by itself where None.

    Args:
        max_atoms: amie: longest rule, head included (default 3).
        lengths: tlogic: body lengths, comma-separated (default 1,2,3).
        min_confidence: least confidence (amie: PCA, default 0.1; tlogic: 0.01).
        min_support: least support, in facts (default 1; tlogic --lengths 1: 2).
        min_head_coverage: amie: least head coverage (default 0.01).
        min_head_size: amie: least facts of a head relation (default 100, of smaller graphs 10
            or 2).
        threads: workers at a time (default amie: 2, tlogic: 1).
        checkpoint: a folder from which an interrupted run resumes.
        max_memory_gb: refuse what would need more (default: what is free).
    """

    max_atoms: int | None = None
    lengths: str | None = None
    min_confidence: float | None = None
    min_support: int | None = None
    min_head_coverage: float | None = None
    min_head_size: int | None = None
    threads: int | None = None
    checkpoint: Path | None = None
    max_memory_gb: float | None = None

    def of(self, miner: str) -> dict[str, Any]:
        """The options that are stated, as a miner calls them.

        Raises:
            ConfigError: the lengths are no numbers.
        """
        stated = {key: value for key, value in vars(self).items() if value is not None}
        if "min_confidence" in stated:
            confidence = stated.pop("min_confidence")
            stated[_CONFIDENCE.get(miner, "min_confidence")] = confidence
        if self.lengths is not None:
            try:
                stated["lengths"] = tuple(int(part) for part in self.lengths.split(","))
            except ValueError:
                message = f"{self.lengths!r} is no list of lengths"
                hint = "for example --lengths 1"
                raise ConfigError(message, key="lengths", hint=hint) from None
        return stated


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class MinedPruningOptions(PruningOptions):
    """How a mined bank is made smaller: the number of rules has a short name here.

    Args:
        per_head: keep the N best rules of each head.
    """

    per_head: Annotated[int | None, Parameter(name=["--top", "--per-head"])] = None


def mine(
    kg: Path,
    /,
    *,
    out: Output,
    miner: str = "auto",
    how: MiningOptions = MiningOptions(),
    pruning: MinedPruningOptions = MinedPruningOptions(),
    files: GraphOptions = GraphOptions(),
    split: str = "train",
    format: str = "jsonl",
    cluster: RayOptions = RayOptions(),
    quiet: bool = False,
) -> None:
    """Mine a rule bank from a graph.

    Args:
        kg: a graph folder, or one file of facts.
        out: the rule bank to write.
        miner: auto, amie (static) or tlogic (temporal).
        how: which rules are mined and how.
        pruning: how the bank is made smaller.
        files: how the files of the graph are read.
        split: the split to mine.
        format: jsonl, amie, anyburl or tlogic.
        cluster: where rules are mined.
        quiet: no progress bars.

    Example:
        rulerag mine demo-out/temporal/world --out rules.jsonl
    """
    check_outputs(out)
    check_choice("format", format, FORMATS)
    graph = files.load(kg)
    _check_format(format, graph)
    if pruning.prune_covered and graph.is_temporal:
        raise ConfigError(
            f"{graph.name!r} is dated, and covered rules are found on static facts",
            key="prune-covered",
            hint="use --prune",
        )
    name = miner if miner != "auto" else "tlogic" if graph.is_temporal else "amie"
    given = how.of(name)
    if backend := cluster.backend(how.threads):
        given["backend"] = backend
    if miner == "auto":
        # One command line for graphs of both kinds: what the chosen miner knows counts.
        known = {*find("miner", name).keys, "backend"}
        given = {key: value for key, value in given.items() if key in known}
    if name == "tlogic":
        given.setdefault("lengths", _LENGTHS)
    facts = graph.split(split)
    if name == "amie" and "min_head_size" not in given:
        given["min_head_size"] = _head_size(facts)
    engine = make_miner(name, progress=show_progress(quiet), **given)
    started = time.perf_counter()
    bank = engine.mine(facts)
    seconds = time.perf_counter() - started
    say(
        f"{len(bank):,} rule{'s' * (len(bank) != 1)} for {len(bank.head_relations)} of "
        f"{len(graph.relations)} relations "
        f"in {seconds:.2f} s ({name}) → {out}"
    )
    if not len(bank):
        flags = [f"--{key.replace('_', '-')}" for key in _LEAST[name]]
        say(f"{len(facts):,} facts show no rule under these thresholds; lower {', '.join(flags)}")
    bank = pruning.of(bank, facts)
    names = {"name": graph.name, "split": split, "fingerprint": facts.fingerprint}
    aside = {"threads", "checkpoint", "max_memory_gb", "backend", "progress"}  # change no rule
    stated = {key: value for key, value in given.items() if key not in aside}
    settings = find("miner", name).settings.model_validate(stated)
    made_with = settings.model_dump(mode="json", exclude=aside)
    bank.origin = {"graph": names | {"facts": len(facts)}, "miner": name, "settings": made_with}
    export_rules(bank, out, format, graph)


def _head_size(facts: FactTable) -> int:
    """The facts that a head relation needs: fewer where no relation has the usual number."""
    most = int(np.bincount(facts.relation).max())
    usual, *smaller = _HEAD_SIZES
    if most >= usual:
        return usual
    least = next((size for size in smaller if most >= size), None)
    if least is None:
        return smaller[-1]
    say(
        f"no relation has {usual} facts, so those with {least} or more get rules; "
        "--min-head-size sets it"
    )
    return least


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


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class RuleFilter:
    """Which rules of a bank count.

    Args:
        min_confidence: least confidence.
        min_support: least support, in facts.
        max_body_atoms: longest body, in atoms.
    """

    min_confidence: float = 0.0
    min_support: int = 0
    max_body_atoms: int | None = None

    def __post_init__(self) -> None:
        check_range("min-confidence", self.min_confidence, 0, 1)
        check_range("min-support", self.min_support, 0)
        if self.max_body_atoms is not None:
            check_range("max-body-atoms", self.max_body_atoms, 1)


def rules(
    file: Path,
    /,
    *,
    head: str | None = None,
    top: int = 10,
    format: str = "auto",
    kg: Path | None = None,
    merge: list[Path] | None = None,
    filter: RuleFilter = RuleFilter(),
    pruning: PruningOptions = PruningOptions(),
    out: Output | None = None,
    out_format: str = "jsonl",
) -> None:
    """Look into a rule bank, join it with others, make it smaller.

    Args:
        file: a rule bank in any format of `rulerag mine`.
        head: only rules that predict this relation.
        top: how many rules to show.
        format: auto, jsonl, amie, anyburl or tlogic.
        kg: the graph of the rules, for the format tlogic and --prune-covered.
        merge: join another bank; as often as needed. Where counts differ the first stay.
        filter: which rules of the bank count.
        pruning: how the bank is made smaller.
        out: write the rules that are left.
        out_format: jsonl, amie, anyburl or tlogic, for --out.

    Example:
        rulerag rules rules.jsonl --head visits --top 5
    """
    check_range("top", top, 1)
    check_choice("out-format", out_format, FORMATS, "format")
    check_outputs(out)
    graph = KnowledgeGraph.load(kg) if kg is not None else None
    bank = import_rules(file, format, graph)
    if merge:
        bank = merge_rules(bank, *(import_rules(path, graph=graph) for path in merge))
    bank = bank.filter(**vars(filter))
    bank = pruning.of(bank, None if graph is None else graph.train)
    chosen = bank if head is None else bank.filter(heads={_relation(bank, head)})
    _show(bank, chosen, top, head)
    if out is not None:
        export_rules(chosen, out, out_format, graph)
        say(f"{len(chosen):,} rules → {out}")


def _show(bank: RuleBank, chosen: RuleBank, top: int, head: str | None) -> None:
    shown = sorted(chosen, key=lambda r: (-r.ranking_confidence, -(r.quality.support or 0)))[:top]
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
