"""Commands about data: ``inspect``, ``ruleqa`` build, check and table, ``data fetch``."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from cyclopts import Parameter

from rulerag.cli.common import GraphOptions, Output, say, show_progress
from rulerag.errors import ConfigError
from rulerag.folders import output_folder
from rulerag.io import excerpt
from rulerag.kg import KnowledgeGraph, Verbalizer
from rulerag.ruleqa import is_benchmark, read_settings
from rulerag.ruleqa.formats import open_folder
from rulerag.text import normalize_answer
from rulerag.types import Document

if TYPE_CHECKING:
    from rulerag.ruleqa import RuleQADataset

_SHOWN = 8  # relations; examples of anything else: three
_MOST = 0.9  # of the subjects of a relation have one object, so several may contradict
_SOME = 10  # subjects that show what a relation usually has


def build(
    *changes: str,
    kg: Path,
    out: Output,
    name: str | None = None,
    seed: int = 0,
    variant: str = "test",
    missing: bool = False,
    files: GraphOptions = GraphOptions(),
    quiet: bool = False,
    program: Annotated[str, Parameter(show=False)] = "rulerag ruleqa",
) -> None:
    """Make questions, corpus, rules and judgements from a knowledge graph.

    A graph without splits gets some, and thresholds are chosen that leave some rules; the dataset
    states both.

    Args:
        changes: changed settings, KEY=VALUE.
        kg: a graph folder, or one file of facts.
        out: the dataset folder to write.
        name: take the settings of ruleqa-i, ruleqa-y, ruleqa-w, ruleqa-f or ruleqa-n; leave it out
            for any other graph.
        seed: decides every draw.
        variant: test; validation (questions about the validation facts, for tuning); degenerate
            (the test questions, turned into questions that the corpus answers directly).
        missing: ask for facts that rules infer and that are removed; writes the folders
            incomplete, complete (with these facts) and validation (incomplete, for tuning).
        files: how the files of the graph are read.
        quiet: no progress bars.
        program: what the dataset's card says it was built by.

    Example:
        rulerag ruleqa build --kg facts.csv --out dataset
    """
    from rulerag.extraction import read_evidence
    from rulerag.ruleqa import build as build_dataset, build_missing, card_files

    given = read_settings(changes)
    if missing and (name or variant != "test"):
        raise ConfigError(
            "goes with neither --name nor --variant", key="--missing", hint="leave them out"
        )
    command = [f"{program} build", *([f"--name {name}"] if name else [])]
    command += [f"--kg {kg.name}", f"--out {out.name}", f"--seed {seed}"]
    command += [f"--{key} {shlex.quote(value)}" for key, value in files.stated.items()]
    command += [f"--variant {variant}"] * (variant != "test") + ["--missing"] * missing
    command += changes
    with output_folder(out):  # before anything costly is done
        graph = files.load(kg)
        how: Any = {
            "sources": read_evidence(kg, graph.calendar) or (),
            "seed": seed,
            "changes": given,
            "progress": show_progress(quiet),
        }
        if missing:
            made = {out / key: one for key, one in build_missing(graph, **how).items()}
        else:
            made = {out: build_dataset(name, graph, variant=variant, **how)}
        for place, dataset in made.items():
            dataset.save(place, beside=card_files(dataset, " ".join(command)))
    for place, dataset in made.items():
        _say_built(dataset, name, place)


def _say_built(dataset: RuleQADataset, name: str | None, out: Path) -> None:
    sizes = dataset.statistics["sizes"]
    if name is None:
        say(f"splits: {dataset.settings['splits']}")
        chosen = ("miner", "max_atoms", "min_support", "min_confidence", "min_head_size")
        known = (f"{key}={dataset.settings[key]}" for key in chosen if key in dataset.settings)
        say(f"settings: {' '.join(known)} (see manifest.json for all)")
        if not any(dataset.rules.for_head(one.relation) for one in dataset.queries["test"]):
            say(
                f"no rule guides a held-out question ({len(dataset.rules):,} were mined): what "
                "documents state can be asked, and more facts give more rules"
            )
    say(
        f"{dataset.name}: |R| {sizes['rules']:,}  |D| {sizes['documents']:,}  "
        f"|F_R| {sizes['f_r']:,} pairs of {sizes['f_r_queries']:,} queries  "
        f"|F_G| {sizes['f_g']:,}  "
        f"|Q| {sizes['queries']:,} balanced, {sizes['queries_full']:,} full"
    )
    say(f"written to {out}, fingerprint {dataset.fingerprint}")


def check(folder: Path, /) -> None:
    """Prove that a dataset does not leak its answers.

    Args:
        folder: a dataset folder.

    Example:
        rulerag ruleqa check runs/ruleqa-i
    """
    from rulerag.ruleqa import RuleQADataset, check_leakage

    for line in check_leakage(RuleQADataset.load(folder)):
        say(f"ok  {line}")


def table(*folders: Annotated[Path, Parameter(required=True)], out: Output | None = None) -> None:
    """Sizes and ceilings of built datasets, beside the published sizes.

    Args:
        folders: dataset folders.
        out: the folder for table.json and table.md; shown without.

    Example:
        rulerag ruleqa table runs/ruleqa-i runs/ruleqa-y
    """
    from rulerag.io import write_json, write_text
    from rulerag.ruleqa import size_table, table_row

    with output_folder(out) if out is not None else nullcontext() as home:
        rows = [table_row(folder) for folder in folders]
        if home is None:
            say(size_table(rows))
            return
        write_json(home / "table.json", {"datasets": rows})
        write_text(home / "table.md", size_table(rows))
    for name in ("table.json", "table.md"):
        say(f"written to {home / name}")


def fetch(
    name: str | None = None,
    /,
    *,
    show: Annotated[bool, Parameter(name="--list")] = False,
    out: Output = Path("data"),
    mirror: str | None = None,
    quiet: bool = False,
) -> None:
    """Download one data set, every file checked by its SHA-256.

    A file that is there and right is left alone, so an interrupted download goes on where it was.

    Args:
        name: the data set; --list shows them.
        show: show what there is, and from where.
        out: where the folder NAME goes.
        mirror: another address of files, with {repository}, {commit} and {path}.
        quiet: no progress bars.

    Example:
        rulerag data fetch icews14 --out data
    """
    from rulerag.data import fetch as fetch_files, known_sources

    if show:
        for known, source in known_sources().items():
            size = sum(entry["bytes"] for entry in source["files"].values()) / 1e6
            place = f"{source['repository']}@{source['commit']}"
            say(f"{known:20} {size:5.1f} MB  {place}  licence: {source['licence']}")
        return
    if name is None:
        raise ConfigError("no data set was named", key="name", hint="--list shows them")
    made = fetch_files(name, out, mirror=mirror, progress=show_progress(quiet))
    what = f"{len(made)} new files" if made else "everything was here already"
    say(f"{out / name}: {what}, every SHA-256 is right")


# --- inspect ----


def inspect(kg: Path, /, *, files: GraphOptions = GraphOptions()) -> None:
    """Show what is understood of a graph or dataset: columns, dates, facts, what was left out.

    Args:
        kg: a graph folder or one file of facts; or a dataset or benchmark.
        files: how the files of the graph are read.

    Example:
        rulerag inspect facts.csv
    """
    if (kg / "manifest.json").is_file() or is_benchmark(kg):
        _inspect_dataset(kg)
        return
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


def _inspect_dataset(place: Path) -> None:
    """Show the documents and questions of a dataset, or of a benchmark of others."""
    dataset = open_folder(str(place))
    say(f"{place}: read as {dataset.settings.get('format', 'a dataset folder')}")
    say(f"  documents  {len(dataset.corpus):,}, as {_in_short(dataset.corpus[0])}")
    stated = sum(bool(document.facts) for document in dataset.corpus)
    say(f"             {stated:,} state facts; {len(dataset.rules):,} rules")
    for split, queries in dataset.queries.items():
        answered = sum(bool(query.answers) for query in queries)
        judged = len(dataset.qrels(split))
        say(f"  questions  {split} {len(queries):,}: {answered:,} with answers, {judged:,} judged")
        if queries:
            answers = _some(queries[0].answers, 3) or "no answer"
            say(f"             as {queries[0].text!r}: {answers}")
    left_out = (dataset.statistics.get("left_out") or {}).items()
    for number, (why, count) in enumerate(left_out):
        say(f"  {'' if number else 'left out':9}  {count:,} × {why}")
    split = "" if "test" in dataset.queries else f" query_set={next(iter(dataset.queries))}"
    method = "bm25-guided__symbolic" if len(dataset.rules) else "bm25__symbolic"
    place_ = shlex.quote(str(place))
    say(f"Next: rulerag evaluate {method} --dataset {place_}{split} --out run")


def _in_short(document: Document) -> str:
    text = f"{document.title}: {document.text}" if document.title else document.text
    return excerpt(" ".join(text.split()))


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
    dated = graph.train.timestamp is not None
    found = [*_several(graph, ("subject", "timestamp") if dated else ("subject",), "object")][:3]
    if dated:
        found += [*_several(graph, ("subject", "object"), "timestamp")][:3]
    for number, text in enumerate(found):
        yield "" if number else "may contradict", text


def _several(graph: KnowledgeGraph, keys: Sequence[str], value: str) -> Iterator[str]:
    """Relations of which most groups of facts have one value, and one group that has several.

    Args:
        graph: whose training facts are looked at.
        keys: the columns that make a group.
        value: the column whose values differ inside it: ``object`` or ``timestamp``.
    """
    for relation in _often(graph.train.relation):
        facts = graph.train.select(graph.train.relation == relation)
        columns = np.stack([getattr(facts, key) for key in keys], axis=1)
        known, group = np.unique(columns, axis=0, return_inverse=True)
        counts = np.bincount(group.reshape(-1))
        several = np.flatnonzero(counts > 1)
        if len(known) < _SOME or not len(several) or (counts == 1).mean() < _MOST:
            continue
        values = getattr(facts, value)[group.reshape(-1) == several[0]].tolist()
        labels = graph.entities.labels
        if value == "object":
            names = [labels[place] for place in values]
            what = "objects at one time" if "timestamp" in keys else "objects"
            whose = [labels[int(known[several[0]][0])]]
        else:
            names, what = [graph.calendar.format(time) for time in sorted(values)], "dates"
            whose = [labels[int(end)] for end in known[several[0]]]
        yield (
            f"{graph.relations.labels[relation]}: {len(several):,} of {len(known):,} have several "
            f"{what}, as {', '.join(whose)}: {_some(names, 3)}; all are kept"
        )


def _often(*columns: np.ndarray[Any, np.dtype[np.int32]]) -> list[int]:
    """The ids of columns, the most frequent first."""
    ids, counts = np.unique(np.concatenate(columns), return_counts=True)
    return [int(i) for i in ids[np.argsort(-counts, kind="stable")]]


def _some(names: Iterable[str], most: int) -> str:
    all_names = list(names)
    more = len(all_names) - most
    return ", ".join(all_names[:most]) + (f" and {more:,} more" if more > 0 else "")
