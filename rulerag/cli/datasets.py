"""Commands about data: ``ruleqa`` build, check, table and phrases, and ``data fetch``."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from rulerag.cli.common import QuietOption, say, show_progress, with_settings
from rulerag.errors import ConfigError
from rulerag.output_folder import output_folder
from rulerag.ruleqa import BENCHMARKS, VARIANTS, RuleQASettings, read_settings


@with_settings(RuleQASettings)
def build(
    kg: Annotated[Path, typer.Option(help="a graph folder, or one file of facts")],
    out: Annotated[Path, typer.Option(help="the dataset folder to write")],
    changes: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="changed settings")
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(help=f"one of {', '.join(BENCHMARKS)}; leave it out for any other graph"),
    ] = None,
    seed: Annotated[int, typer.Option(help="decides every draw")] = 0,
    variant: Annotated[
        str, typer.Option(help="; ".join(f"{name}: {what}" for name, what in VARIANTS.items()))
    ] = "test",
    quiet: QuietOption = False,
    program: Annotated[str, typer.Option(hidden=True)] = "rulerag ruleqa",
) -> None:
    """Make questions, corpus, rules and judgements from a knowledge graph.

    A graph without splits gets some, and thresholds are chosen that leave some rules; the dataset
    states both.
    """
    from rulerag.kg import KnowledgeGraph
    from rulerag.ruleqa import build as build_dataset
    from rulerag.ruleqa import card_files

    given = read_settings(changes or ())
    command = [f"{program} build", *([f"--name {name}"] if name else [])]
    command += [f"--kg {kg.name}", f"--out {out.name}", f"--seed {seed}"]
    command += [f"--variant {variant}"] * (variant != "test") + (changes or [])
    with output_folder(out):  # before anything costly is done
        dataset = build_dataset(
            name,
            KnowledgeGraph.load(kg),
            seed=seed,
            changes=given,
            variant=variant,
            progress=show_progress(quiet),
        )
        dataset.save(out, beside=card_files(dataset, " ".join(command)))
    sizes = dataset.statistics["sizes"]
    if name is None:
        say(f"splits: {dataset.settings['splits']}")
        chosen = ("miner", "max_atoms", "min_support", "min_confidence", "min_head_size")
        known = (f"{key}={dataset.settings[key]}" for key in chosen if key in dataset.settings)
        say(f"settings: {' '.join(known)} (see manifest.json for all)")
    say(
        f"{dataset.name}: |R| {sizes['rules']:,}  |D| {sizes['documents']:,}  "
        f"|F_R| {sizes['f_r']:,} pairs of {sizes['f_r_queries']:,} queries  "
        f"|F_G| {sizes['f_g']:,}  "
        f"|Q| {sizes['queries']:,} balanced, {sizes['queries_full']:,} full"
    )
    say(f"written to {out}, fingerprint {dataset.fingerprint}")


def check(folder: Annotated[Path, typer.Argument(help="a dataset folder")]) -> None:
    """Prove that a dataset does not leak its answers."""
    from rulerag.ruleqa import RuleQADataset, check_leakage

    for line in check_leakage(RuleQADataset.load(folder)):
        say(f"ok  {line}")


def table(
    folders: Annotated[list[Path], typer.Argument(help="dataset folders")],
    out: Annotated[
        Path | None, typer.Option(help="the folder for table.json and table.md; shown without")
    ] = None,
) -> None:
    """Sizes and ceilings of built datasets, beside the published sizes."""
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


def phrases(folder: Annotated[Path, typer.Argument(help="a dataset folder")]) -> None:
    """Write phrases.yaml into a dataset folder: how each relation is said, to be edited.

    Templates that stand there already are kept; relations without one get a derived one.
    """
    from rulerag.kg import Phrases
    from rulerag.ruleqa import RuleQADataset, known_names

    dataset = RuleQADataset.load(folder)
    labels = dataset.labels["relations"]
    said = Phrases.of_folder(folder, lambda name: labels.get(name, name))
    _, relations = known_names(dataset)
    file = said.save(folder, relations)
    say(f"{len(relations)} relations in {file}; {{x}} is the subject, {{y}} the object")


def fetch(
    name: Annotated[str | None, typer.Argument(help="the data set; --list shows them")] = None,
    show: Annotated[
        bool, typer.Option("--list", help="show what there is, and from where")
    ] = False,
    out: Annotated[Path, typer.Option(help="where the folder NAME goes")] = Path("data"),
    mirror: Annotated[
        str | None,
        typer.Option(help="another address of files, with {repository}, {commit} and {path}"),
    ] = None,
    quiet: QuietOption = False,
) -> None:
    """Download one data set, every file checked by its SHA-256.

    A file that is there and right is left alone, so an interrupted download goes on where it was.
    """
    from rulerag.data import fetch as fetch_files
    from rulerag.data import known_sources

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
