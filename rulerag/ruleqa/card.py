"""What is written about RuleQA datasets: the data card of one, and a table of several.

The card's header lets ``datasets.load_dataset(folder, "queries")`` open the folder. One folder has
one reader there, so the judgements, which BEIR wants as tables, are written as JSON lines too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rulerag.data import source_of
from rulerag.errors import DataError, DataFormatError
from rulerag.io import read_json, to_json
from rulerag.ruleqa.ceilings import CEILINGS
from rulerag.ruleqa.dataset import RuleQADataset
from rulerag.ruleqa.settings import GRAPHS, MISSING_VARIANTS, VARIANTS


def card_files(dataset: RuleQADataset, command: str) -> dict[str, Iterable[str]]:
    """The files to save beside a built dataset, as lines by name.

    Args:
        dataset: with the statistics of its builder.
        command: what built it, such as ``rulerag ruleqa build --kg …``.
    """
    variant = str(dataset.settings.get("variant", "test"))
    base = dataset.name.removesuffix(f"-{variant}")
    graph = GRAPHS.get(base)
    splits = [split for split in dataset.queries if dataset.qrels(split)]
    judged = {split: f"judgements/{split}.jsonl" for split in splits}
    single = {name: {name: f"{name}.jsonl"} for name in ("queries", "corpus", "rules")}
    files: dict[str, Iterable[str]] = {
        path: (
            to_json({"query-id": query, "corpus-id": list(grades), "score": list(grades.values())})
            for query, grades in dataset.qrels(split).items()
        )
        for split, path in judged.items()
    }
    card = _render(
        "card",
        dataset=dataset,
        base=base,
        asks={**VARIANTS, **MISSING_VARIANTS}[variant],
        command=command,
        program=command.partition(" build")[0],
        configs={**single, "qrels": judged},
        sizes=dataset.statistics["sizes"],
        published=_published(dataset.statistics),
        sets=dataset.statistics["ceilings"],
        settings=dataset.settings,
        graph=graph,
        source=source_of(graph) if graph else None,
    )
    files["README.md"] = card.removesuffix("\n").split("\n")
    return files


def table_row(folder: Path) -> dict[str, Any]:
    """What the manifest of a built dataset states: name, fingerprint, seed, settings, statistics.

    Args:
        folder: a dataset folder of :func:`rulerag.ruleqa.build`.

    Raises:
        DataError: the folder is missing.
        DataFormatError: it is no dataset, or one that another builder made.
    """
    path = folder / "manifest.json"
    if not path.is_file():
        raise DataError("is no built dataset", path=folder, hint="rulerag ruleqa build makes one")
    manifest = read_json(path)
    statistics = manifest.get("statistics") if isinstance(manifest, dict) else None
    if not statistics:
        raise DataFormatError("holds no statistics", path=path, hint="build the dataset again")
    keys = ("name", "fingerprint", "seed", "settings")
    row = {**{key: manifest[key] for key in keys}, **statistics}
    graph = row["settings"]["graph"]
    if GRAPHS.get(row["name"], graph) != graph:
        row["name"] = f"{row['name']} of {graph}"
    return row


def size_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Sizes and ceilings of datasets beside the published sizes, as Markdown.

    Args:
        rows: of :func:`table_row`.
    """
    keys = dict.fromkeys(key for row in rows for key in row["settings"])
    return _render("table", rows=[{**row, "theirs": _published(row)} for row in rows], keys=keys)


def _published(statistics: Mapping[str, Any]) -> dict[str, str]:
    """The paper's sizes in words; empty for other graphs."""
    sizes = {key: f"{size:,}" for key, size in statistics["published"].items()}
    return {**sizes, "rules": f"{sizes['rules_v1']} / {sizes['rules_v2']}"} if sizes else {}


def _render(name: str, **parts: Any) -> str:
    from jinja2 import Environment, PackageLoader

    environment = Environment(
        loader=PackageLoader("rulerag.ruleqa"),
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["number"] = "{:,}".format
    return environment.get_template(f"{name}.md.j2").render(ceilings=CEILINGS, **parts)
