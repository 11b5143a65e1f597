"""The command ``inspect``: what was understood of a graph, on one screen."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from rulerag.cli.common import GraphFiles, by_flags, say
from rulerag.kg import FactTable, KnowledgeGraph, Verbalizer
from rulerag.text import normalize_answer

_SHOWN = 8  # relations; examples of anything else: three
_MOST = 0.9  # of the subjects of a relation have one object, so several may contradict
_SOME = 10  # subjects that show what a relation usually has


@by_flags()
def inspect(
    *,
    kg: Annotated[Path, typer.Argument(help="a graph folder, or one file of facts")],
    files: GraphFiles,
) -> None:
    """Show what is understood of a graph's files: columns, dates, facts, and what was left out."""
    graph = files.load(kg)
    parts: Any = graph.notes.get("parts")
    files_read = f" from {_some(parts, _SHOWN)}" if parts else ""
    say(f"{kg}: read as {graph.notes['layout']}{files_read}")
    rows = list(_lines(graph))
    width = max(len(name) for name, _ in rows)
    for name, text in rows:
        say(f"  {name:{width}}  {text}".rstrip())
    stated = "".join(f" --{key} {shlex.quote(value)}" for key, value in files.stated.items())
    place = shlex.quote(str(kg))
    say(f"Next: rulerag mine {place}{stated} --out rules.jsonl")
    say(f"      rulerag ruleqa build --kg {place}{stated} --out dataset")


def _lines(graph: KnowledgeGraph) -> Iterator[tuple[str, str]]:
    notes: Mapping[str, Any] = graph.notes
    columns = notes.get("columns")
    if isinstance(columns, Mapping):
        yield "columns", ", ".join(f"{role} = {name!r}" for role, name in columns.items())
        if notes.get("other_columns"):
            yield "", f"not read: {_some(notes['other_columns'], _SHOWN)}"
    elif notes.get("other_columns"):
        yield "not read", _some(notes["other_columns"], _SHOWN)
    if isinstance(columns, str):
        order = {"h": "subject", "r": "relation", "t": "object"}
        yield "columns", ", ".join(order[letter] for letter in columns)
    times = [t.timestamp for t in graph.splits.values() if t.timestamp is not None and len(t)]
    if times:
        known = np.unique(np.concatenate(times))
        first, last = (graph.calendar.format(int(time)) for time in (known[0], known[-1]))
        form = f"{notes['dates']}: " if notes.get("dates") else ""
        yield "dates", f"{form}{first} to {last}, {len(known):,} different"
    else:
        yield "dates", "none: facts are read without time"
    sizes = ", ".join(f"{name} {len(facts):,}" for name, facts in graph.splits.items())
    one = len(graph.splits) == 1
    yield "facts", f"{len(graph.train):,}" if one else sizes
    if one:
        yield "", "no splits: `rulerag ruleqa build` makes train, valid and test"
    yield from _left_out(notes)
    entities = [graph.entities.labels[i] for i in _often(graph.train.subject, graph.train.object)]
    yield "entities", f"{len(graph.entities):,}, most often {_some(entities, 4)}"
    yield from _labels(graph, notes)
    yield from _relations(graph)
    yield from _doubts(graph)


def _left_out(notes: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    reasons = [
        f"{entry['rows']:,} × {why}"
        + (f" (first: line {entry['first_line']:,})" if entry["first_line"] else "")
        for why, entry in (notes.get("left_out") or {}).items()
    ]
    twice = sum(notes["duplicates_dropped"].values())
    if twice:
        reasons.append(f"{twice:,} × stated before, kept once")
    for number, reason in enumerate(reasons):
        yield "" if number else "left out", reason


def _labels(graph: KnowledgeGraph, notes: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    found = notes["labels"]
    if found["entities"] or found["relations"]:
        where = f" (from {', '.join(found['files'])})" if found["files"] else ""
        yield (
            "labels",
            f"given for {found['entities']:,} entities and {found['relations']:,} relations{where}",
        )
    if graph.entities.aliases:
        name, also = next(iter(graph.entities.aliases.items()))
        shown = f"{graph.entities.label(name)}: {_some(also, 3)}"
        yield "aliases", f"of {len(graph.entities.aliases):,} entities, as {shown}"


def _relations(graph: KnowledgeGraph) -> Iterator[tuple[str, str]]:
    words, facts = Verbalizer(graph), graph.train
    often = _often(facts.relation)
    yield "relations", f"{len(graph.relations):,}; facts, and one in words:"
    for relation in often[:_SHOWN]:
        rows = np.flatnonzero(facts.relation == relation)
        label = graph.relations.labels[relation]
        yield "", f"{len(rows):>7,}  {label}: {words.fact(facts.fact(int(rows[0])))}"
    if len(often) > _SHOWN:
        yield "", f"         and {len(often) - _SHOWN:,} more"


def _doubts(graph: KnowledgeGraph) -> Iterator[tuple[str, str]]:
    """Names that look alike, and facts that may contradict each other."""
    # A label is numbered where answers could not tell it from another one.
    alike: dict[str, list[str]] = {}
    for name in graph.entities.names:
        alike.setdefault(normalize_answer(name), []).append(name)
    same = [" and ".join(map(repr, names)) for names in alike.values() if len(names) > 1]
    if same:
        yield "look alike", f"{len(same):,} names differ only in case or signs: {_some(same, 3)}"
    found = list(_several(graph, graph.train))
    for number, text in enumerate(found[:3]):
        yield "" if number else "may contradict", text


def _several(graph: KnowledgeGraph, facts: FactTable) -> Iterator[str]:
    """Relations of which most subjects have one object (at a time), and those that have more."""
    places = ("subject", "timestamp") if facts.timestamp is not None else ("subject",)
    for relation in _often(facts.relation):
        table = facts.select(facts.relation == relation)
        keys = np.stack([getattr(table, place) for place in places], axis=1)
        known, key = np.unique(keys, axis=0, return_inverse=True)
        counts = np.bincount(key.reshape(-1))
        several = np.flatnonzero(counts > 1)
        if len(known) < _SOME or not len(several) or (counts == 1).mean() < _MOST:
            continue
        subject = graph.entities.labels[int(known[several[0]][0])]
        objects = table.object[key.reshape(-1) == several[0]].tolist()
        names = _some([graph.entities.labels[i] for i in objects], 3)
        when = " at one time" if len(places) > 1 else ""
        yield (
            f"{graph.relations.labels[relation]}: {len(several):,} of {len(known):,} have several "
            f"objects{when}, as {subject}: {names}; all are kept"
        )


def _often(*columns: np.ndarray[Any, np.dtype[np.int32]]) -> list[int]:
    """The ids of columns, the most frequent first."""
    ids, counts = np.unique(np.concatenate(columns), return_counts=True)
    return [int(i) for i in ids[np.argsort(-counts, kind="stable")]]


def _some(names: Iterable[str], most: int) -> str:
    all_names = list(names)
    more = len(all_names) - most
    return ", ".join(all_names[:most]) + (f" and {more:,} more" if more > 0 else "")
