"""MetaQA in people's words: questions about films, without their brackets.

MetaQA's questions (Zhang et al., AAAI 2018) name their topic in brackets, which are taken away.
Of the validation questions with one hop and with two, 500 each were looked at while the linker's
settings were chosen and are left out. The graph is the part of MetaQA's that its one-hop questions
state: a question is right where the answers are all those that this graph gives.

    python -m benchmarks.linking.metaqa --questions 1000 --out benchmarks/results/linking
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.common.folders import data_folder
from benchmarks.linking.asking import OUTCOMES, dataset_of
from rulerag.console import guarded
from rulerag.evaluation import markdown_table
from rulerag.io import read_lines, write_json, write_text
from rulerag.kg.grounding import execute
from rulerag.linking import QuestionLinker
from rulerag.protocols import Encoder
from rulerag.retrieval.dense.encoders import load_encoder

_SETS = (
    ("one hop", "1hop_dev.txt", "1hop_dev_types.txt", 1),
    ("one hop, paraphrased", "1hop_dev_paraphrased.txt", "1hop_dev_types.txt", 1),
    ("two hops", "2hop_dev.txt", "2hop_dev_types.txt", 2),
)
_LOOKED_AT = 500
_RELATIONS = {
    "actor_to_movie": "^starred_actors",
    "director_to_movie": "^directed_by",
    "movie_to_actor": "starred_actors",
    "movie_to_director": "directed_by",
    "movie_to_genre": "has_genre",
    "movie_to_imdbrating": "has_imdb_rating",
    "movie_to_imdbvotes": "has_imdb_votes",
    "movie_to_language": "in_language",
    "movie_to_tags": "has_tags",
    "movie_to_writer": "written_by",
    "movie_to_year": "release_year",
    "tag_to_movie": "^has_tags",
    "writer_to_movie": "^written_by",
}
Ends = Mapping[tuple[str, str], set[str]]


@dataclass(frozen=True)
class FilmQuestion:
    """A question with what it means.

    Args:
        text: without brackets.
        topic: the entity in brackets.
        path: the relations that lead to the answers.
        answers: those of MetaQA.
    """

    text: str
    topic: str
    path: tuple[str, ...]
    answers: frozenset[str]


def read_cases(folder: Path, questions: str, types: str) -> list[FilmQuestion]:
    """The questions of a file, in its order."""
    kinds = [line.strip() for _, line in read_lines(folder / types) if line.strip()]
    found = []
    rows = (line for _, line in read_lines(folder / questions) if line.strip())
    for line, kind in zip(rows, kinds, strict=True):
        text, _, answers = line.rstrip("\r\n").partition("\t")
        topic = re.search(r"\[(.*?)\]", text)
        ends = kind.split("_to_")
        path = tuple(_RELATIONS[f"{a}_to_{b}"] for a, b in pairwise(ends))
        bare = re.sub(r"[\[\]]", "", text)
        found.append(
            FilmQuestion(bare, topic[1] if topic else "", path, frozenset(answers.split("|")))
        )
    return found


def parted(number: int, seed: int) -> tuple[list[int], list[int]]:
    """Places of the questions that were looked at while choosing, and of all others."""
    places = list(range(number))
    random.Random(seed).shuffle(places)
    return places[:_LOOKED_AT], places[_LOOKED_AT:]


def reached(ends: Ends, case: FilmQuestion) -> set[str]:
    """The answers of MetaQA that the graph gives."""
    found = {case.topic}
    for hop in case.path:
        found = set().union(*(ends.get((entity, hop), set()) for entity in found))
    return found & case.answers


def ask(linker: QuestionLinker, cases: Sequence[FilmQuestion], ends: Ends) -> dict[str, list[str]]:
    """The outcome of each question, and the questions themselves."""
    found = []
    for case, linked in zip(cases, linker.link([case.text for case in cases]), strict=True):
        gold = reached(ends, case)
        if linked.exact:  # in the form of a dataset's own questions
            query = linked.readings[0].query
            values = ends.get((query.subject, query.relation), set())
        else:
            meaning = linked.meaning
            values = set(map(str, execute(meaning, linker.index).values)) if meaning else set()
        right = values - {case.topic} == gold - {case.topic}
        found.append("right" if values and right else "wrong" if values else "refused")
    return {"outcomes": found, "questions": [case.text for case in cases]}


def run(folder: Path, questions: int, encoder: Encoder | None) -> list[dict[str, Any]]:
    """Every row of the table."""
    linker = QuestionLinker(dataset_of("metaqa", "test"), encoder=encoder)
    ends: dict[tuple[str, str], set[str]] = defaultdict(set)
    for document in linker.dataset.corpus:
        for fact in document.facts:
            ends[fact.subject, fact.relation].add(fact.object)
            ends[fact.object, f"^{fact.relation}"].add(fact.subject)
    rows = []
    for name, file, types, seed in _SETS:
        cases = read_cases(folder, file, types)
        _, left = parted(len(cases), seed)
        some = [cases[n] for n in left if reached(ends, cases[n]) - {cases[n].topic}][:questions]
        started = time.process_time()
        found = ask(linker, some, ends)
        ms = 1000 * (time.process_time() - started) / max(len(some), 1)
        shares = {one: found["outcomes"].count(one) / max(len(some), 1) for one in OUTCOMES}
        rows.append({"questions": name, "number": len(some), **shares, "ms": ms})
    return rows


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    cells = [
        [
            *(row["questions"], row["linker"], f"{row['number']:,}"),
            *(f"{100 * row[one]:.1f}" for one in OUTCOMES),
            f"{row['ms']:.0f}",
        ]
        for row in rows
    ]
    return markdown_table(("questions", "linker", "number", *OUTCOMES, "ms"), cells, "llrrrrr")


def _run(arguments: argparse.Namespace) -> None:
    folder = arguments.data or data_folder() / "metaqa"
    encoders: dict[str, Encoder | None] = {"embedded": None}
    if arguments.encoder:
        encoders[arguments.encoder] = load_encoder(arguments.encoder)
    rows = [
        {**row, "linker": name}
        for name, encoder in encoders.items()
        for row in run(folder, arguments.questions, encoder)
    ]
    sys.stdout.write(_table(rows))
    if arguments.out is not None:
        write_json(arguments.out / "metaqa.json", rows)
        write_text(arguments.out / "metaqa.md", _table(rows))


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.linking.metaqa",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", type=Path, help="MetaQA's folder (RULERAG_DATA/metaqa)")
    parser.add_argument("--questions", type=int, default=1000, help="of each set, at most")
    parser.add_argument("--encoder", help="a folder or name; words alone without one")
    parser.add_argument("--out", type=Path, help="a folder for the figures, JSON and Markdown")
    return guarded(lambda: _run(parser.parse_args(argv)))


if __name__ == "__main__":
    sys.exit(main())
