"""Which benchmark a file or a folder holds, found from the keys of its rows, and its dataset."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rulerag.composition import register
from rulerag.errors import ConfigError, DataError, DataFormatError, EmptyDataError
from rulerag.ruleqa.dataset import DatasetInfo, RuleQADataset
from rulerag.ruleqa.formats.beir import beir_files, read_beir
from rulerag.ruleqa.formats.flashrag import read_flashrag
from rulerag.ruleqa.formats.freebase import read_originals, read_rog
from rulerag.ruleqa.formats.hotpotqa import read_hotpotqa
from rulerag.ruleqa.formats.records import QUESTIONS, BenchmarkContents, Row, first_row

FORMATS: Mapping[str, str] = {
    "beir": "corpus.jsonl, queries.jsonl and qrels/*.tsv",
    "flashrag": "lines with question and golden_answers, and a corpus of lines with contents",
    "hotpotqa": "rows with question, answer, context and supporting_facts",
    "rog": "rows with question, answer, q_entity and graph (WebQSP and CWQ)",
    "webqsp": "one object with Questions and their Parses, and a graph",
    "cwq": "rows with ID, webqsp_ID, question and answers, and a graph",
}
"""The formats by name, and how each looks."""

_ENDINGS = (".json", ".jsonl", ".jsonl.gz", ".json.gz")
_CORPUS = "corpus"
_GRAPHS = ("graph", "subgraph", "subgraphs", "triples")


def is_benchmark(path: str | Path) -> bool:
    """Whether a file or a folder is a benchmark in one of :data:`FORMATS`."""
    place = Path(path)
    if place.is_dir():
        return beir_files(place) is not None or bool(_by_format(place).keys() & FORMATS.keys())
    return place.is_file() and place.name.endswith(_ENDINGS) and _format(place) in FORMATS


def read_benchmark(path: str | Path) -> RuleQADataset:
    """The dataset of a benchmark in the form in which it is published.

    Its queries ask for what documents state. A folder has the splits that its files name
    (``train``, ``dev``, ``test``); a file alone is the split ``test``. It has no rules:
    :attr:`~rulerag.ruleqa.RuleQADataset.rules` may be set, and ``save`` keeps all.

    Args:
        path: a file of questions or a folder; see :data:`FORMATS`.

    Raises:
        DataError: there is no such path, or a part of the benchmark is missing.
        DataFormatError: no format is recognised, there are several, or a row cannot be read; names
            file, line and key.
        EmptyDataError: there is no document or no question.
    """
    place = Path(path)
    if not place.exists():
        raise DataError("no such benchmark", path=place, hint="name a file or a folder")
    name, dataset = _read(place)
    if not dataset.documents or not any(dataset.queries.values()):
        what = "question" if dataset.documents else "document"
        raise EmptyDataError(f"holds no {what}", path=place)
    left_out = {why: count for why, count in dataset.left_out.items() if count}
    folder = place if place.is_dir() else place.parent
    try:
        return RuleQADataset(
            corpus=dataset.documents,
            queries=dataset.queries,
            qrels=dataset.qrels,
            labels=dataset.labels,
            info=DatasetInfo(
                name="_".join(folder.resolve().name.split()) or name,
                settings={"format": name},
                statistics={"left_out": left_out},
            ),
            prediction=False,
        )
    except DataFormatError as error:
        if error.path is None:
            error.path = place
        raise


def _read(place: Path) -> tuple[str, BenchmarkContents]:
    """The name of the format and what its reader read."""
    if place.is_dir() and beir_files(place) is not None:
        return "beir", read_beir(place)
    folder = place if place.is_dir() else place.parent
    files = _by_format(folder) if place.is_dir() else {_format(place): [place]}
    formats = [name for name in files if name in FORMATS]
    if len(formats) != 1:
        raise _unclear(place, formats)
    (name,) = formats
    questions = files[name]
    if name == "flashrag":
        corpora = (files if place.is_dir() else _by_format(folder)).get(_CORPUS, [])
        return name, read_flashrag(questions, corpora)
    if name == "hotpotqa":
        return name, read_hotpotqa(questions)
    if name == "rog":
        return name, read_rog(questions)
    return name, read_originals(questions, _graph_beside(folder))


def _unclear(place: Path, formats: list[str]) -> DataFormatError:
    known = "; ".join(f"{name}: {how}" for name, how in FORMATS.items())
    if formats:
        return DataFormatError(
            f"holds several benchmarks: {', '.join(formats)}",
            path=place,
            hint="name one file, or give each a folder of its own",
        )
    if place.suffix == ".parquet" or (place.is_dir() and [*place.rglob("*.parquet")]):
        return DataFormatError(
            "holds Parquet files",
            path=place,
            hint="write them as JSON lines: datasets.load_dataset(…, split='test')"
            ".to_json('test.jsonl')",
        )
    return DataFormatError(
        "is no complete dataset folder (it has no manifest.json) and no benchmark of a known form"
        if place.is_dir()
        else "is no benchmark of a known form",
        path=place,
        hint=f"build a dataset with rulerag ruleqa build; known forms: {known}",
    )


def _by_format(folder: Path) -> dict[str, list[Path]]:
    """The JSON files of a folder by format; those of no known one under an empty name."""
    files: dict[str, list[Path]] = {}
    for file in sorted(folder.iterdir()):
        if file.is_file() and file.name.endswith(_ENDINGS) and not file.name.startswith("."):
            files.setdefault(_format(file), []).append(file)
    return files


def _format(file: Path) -> str:
    """The format of a file by the keys of its first row; empty where it is none."""
    try:
        row = first_row(file)
    except DataError:
        return ""
    if QUESTIONS in row:
        return "webqsp"
    keys: Mapping[str, tuple[str, ...]] = {
        "cwq": ("ID", "webqsp_ID", "question"),
        "flashrag": ("question", "golden_answers"),
        "rog": ("question", "answer", "q_entity", "graph"),
        "hotpotqa": ("question", "context"),
        _CORPUS: ("contents",),
    }
    return next((name for name, wanted in keys.items() if _has(row, wanted)), "")


def _has(row: Row, keys: tuple[str, ...]) -> bool:
    return all(key in row for key in keys)


def _graph_beside(folder: Path) -> Path | None:
    """The file or the folder of triples of a folder."""
    return next(
        (one for one in sorted(folder.iterdir()) if one.name.split(".")[0].lower() in _GRAPHS), None
    )


@register("dataset", "folder")
def open_folder(path: str, *, prediction: bool | None = None) -> RuleQADataset:
    """The dataset of a folder, as :meth:`RuleQADataset.load` reads it, or a benchmark of others.

    Args:
        path: the folder, or a file of :data:`FORMATS`.
        prediction: what the queries ask for, in place of what the manifest says.

    Raises:
        ConfigError: nothing lies there; says how to build it.
        DataError: it holds no dataset, or not the one that its manifest describes.
    """
    place = Path(path)
    if not place.exists():
        name = place.name if place.name.startswith("ruleqa-") else "NAME"
        raise ConfigError(
            f"the dataset folder {place} is not here",
            key="path",
            hint=f"build it: rulerag ruleqa build --name {name} --kg GRAPH_FOLDER --out {place}; "
            "or name another folder",
        )
    # Without its manifest, a folder with rules is one of ours that was not written to its end.
    own = place.is_dir() and any((place / one).exists() for one in ("manifest.json", "rules.jsonl"))
    if own:
        return RuleQADataset.load(place, prediction=prediction)
    return read_benchmark(place)
