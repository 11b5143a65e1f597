"""MetaQA in people's words: questions about films, without their brackets, linked and answered.

MetaQA's questions (Zhang et al., AAAI 2018) name their topic in brackets, which are taken away.
Of the validation questions with one hop and with two, 500 each were looked at while the linker's
settings were chosen and are left out; a hundred a relation (or path of relations) are examples;
the others are asked (600 of them had been read once before the work began, to see what fails). The
graph is the part of MetaQA's that its one-hop questions state, so that two-hop questions count
where both hops are in it, with the answers that it gives. On a random half of it, rules mined from
that half may fill in.

    python -m benchmarks.linking.metaqa --questions 2000 --out benchmarks/results/linking
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common.folders import data_folder
from rulerag.assembly import make_pipeline, preset
from rulerag.composition import Config
from rulerag.console import guarded
from rulerag.evaluation import bootstrap_interval, markdown_table, paired_randomization_test
from rulerag.io import read_lines, write_json, write_text
from rulerag.kg import KnowledgeGraph
from rulerag.linking import LinkedExample, QuestionLinker, hops
from rulerag.mining.amie import AmieMiner
from rulerag.protocols import Encoder
from rulerag.ruleqa import DatasetInfo, RuleQADataset
from rulerag.rules import HOP, RuleBank
from rulerag.types import Document, Fact, Query

_LOOKED_AT, _EXAMPLES = 500, 100
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
        path: the relation, or the relations, that lead to the answers.
        answers: those of MetaQA.
    """

    text: str
    topic: str
    path: str
    answers: frozenset[str]


def read_facts(folder: Path) -> list[Fact]:
    """The facts of ``graph.txt``."""
    rows = (line.split("|") for _, line in read_lines(folder / "graph.txt"))
    return [Fact(subject, relation, object_) for subject, relation, object_ in rows]


def read_cases(folder: Path, questions: str, types: str) -> list[FilmQuestion]:
    """The questions of a file, in its order."""
    kinds = [line.strip() for _, line in read_lines(folder / types) if line.strip()]
    found = []
    rows = (line for _, line in read_lines(folder / questions) if line.strip())
    for line, kind in zip(rows, kinds, strict=True):
        text, _, answers = line.rstrip("\r\n").partition("\t")
        topic = re.search(r"\[(.*?)\]", text)
        ends = kind.split("_to_")
        path = HOP.join(_RELATIONS[f"{a}_to_{b}"] for a, b in pairwise(ends))
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


def examples_of(
    cases: Sequence[FilmQuestion], places: Sequence[int]
) -> tuple[list[int], list[int]]:
    """The first hundred places of each path, and the places that are left."""
    chosen: dict[str, list[int]] = defaultdict(list)
    left: list[int] = []
    for place in places:
        mine = chosen[cases[place].path]
        (mine if len(mine) < _EXAMPLES else left).append(place)
    return [place for mine in chosen.values() for place in mine], left


def reached(ends: Ends, case: FilmQuestion) -> set[str]:
    """The answers of MetaQA that the graph gives."""
    found = {case.topic}
    for hop in hops(case.path):
        found = set().union(*(ends.get((entity, hop), set()) for entity in found))
    return found & case.answers


def dataset_of(facts: Sequence[Fact], rules: RuleBank) -> RuleQADataset:
    """A document for each fact."""
    names = {end for fact in facts for end in (fact.subject, fact.object)}
    said = {relation: relation.replace("_", " ") for relation in {fact.relation for fact in facts}}
    corpus = [
        Document(f"d{n}", f"{fact.subject} {said[fact.relation]} {fact.object}.", (fact,))
        for n, fact in enumerate(facts)
    ]
    return RuleQADataset(
        corpus=corpus,
        queries={"test": []},
        rules=rules,
        labels={"entities": {name: name for name in sorted(names)}, "relations": said},
        info=DatasetInfo("metaqa"),
        prediction=False,
    )


def ask(
    dataset: RuleQADataset, linker: QuestionLinker, cases: Sequence[FilmQuestion]
) -> dict[str, Any]:
    """Whether each question's meaning was found, and whether its answer is one.

    Returns:
        For each question ``entity``, ``relation``, ``both`` and ``hit``, and ``ms`` a question.
    """
    started = time.perf_counter()
    linked = linker.link([case.text for case in cases])
    with tempfile.TemporaryDirectory() as folder:
        dataset.save(Path(folder) / "metaqa")
        values = preset(Path(folder) / "metaqa").to_dict()
        values["selector"] = {"type": "linked", "selector": values["selector"]}
        pipeline = make_pipeline(Config(values), RuleQADataset.load(Path(folder) / "metaqa"))
        asked = [one.query() if one.readings else Query("question", one.text) for one in linked]
        answers = pipeline.answer(asked)
    seconds = time.perf_counter() - started
    meant = [one.readings[0].query if one.readings else None for one in linked]
    entity = [q is not None and q.subject == c.topic for q, c in zip(meant, cases, strict=True)]
    relation = [q is not None and q.relation == c.path for q, c in zip(meant, cases, strict=True)]
    return {
        "entity": entity,
        "relation": relation,
        "both": [one and other for one, other in zip(entity, relation, strict=True)],
        "hit": [a.text in case.answers for a, case in zip(answers, cases, strict=True)],
        "ms": 1000 * seconds / max(len(cases), 1),
    }


def run(folder: Path, questions: int, encoder: Encoder | None, half: bool) -> list[dict[str, Any]]:
    """Every row of the table."""
    facts = read_facts(folder)
    ends: dict[tuple[str, str], set[str]] = defaultdict(set)
    for fact in facts:
        ends[fact.subject, fact.relation].add(fact.object)
        ends[fact.object, f"^{fact.relation}"].add(fact.subject)
    one = read_cases(folder, "1hop_dev.txt", "1hop_dev_types.txt")
    other = read_cases(folder, "1hop_dev_paraphrased.txt", "1hop_dev_types.txt")
    two = read_cases(folder, "2hop_dev.txt", "2hop_dev_types.txt")
    learned, left = examples_of(one, parted(len(one), 1)[1])
    learned_two, left_two = examples_of(two, parted(len(two), 2)[1])
    sets = {
        "one hop": [one[n] for n in left[:questions]],
        "one hop, paraphrased": [other[n] for n in left[:questions]],
        "two hops": [two[n] for n in left_two if reached(ends, two[n])][:questions],
    }
    if half:
        kept = np.random.default_rng(0).random(len(facts)) < 0.5
        facts = [fact for fact, keep in zip(facts, kept, strict=True) if keep]
    taught = [LinkedExample(c.text, c.topic, c.path) for c in map(one.__getitem__, learned)]
    paths = [LinkedExample(c.text, c.topic, c.path) for c in map(two.__getitem__, learned_two)]
    banks = {"no rules": RuleBank([])}
    if half:
        miner = AmieMiner(min_head_size=20, min_support=20)
        banks["rules"] = miner.mine(KnowledgeGraph.from_facts(facts).train)
    rows: list[dict[str, Any]] = []
    for name, cases in sets.items():
        for number, examples in ((0, []), (_EXAMPLES, [*taught, *paths])):
            if name == "two hops" and not examples:
                continue  # a path is known by examples alone
            found = {}
            for bank, rules in banks.items():
                dataset = dataset_of(facts, rules)
                linker = QuestionLinker(dataset, examples=examples, encoder=encoder)
                found[bank] = ask(dataset, linker, cases)
                shares = {key: float(np.mean(found[bank][key])) for key in found[bank]}
                interval = bootstrap_interval([float(one) for one in found[bank]["hit"]])
                row = {"questions": name, "number": len(cases), "examples": number, "rules": bank}
                row |= {**shares, "interval": list(interval), "mined": len(rules)}
                if bank == "rules":
                    hits = [[float(one) for one in found[one_bank]["hit"]] for one_bank in banks]
                    row["p"] = paired_randomization_test(*hits)
                rows.append(row)
                sys.stdout.write(_table([row]))
    return rows


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    cells = []
    for row in rows:
        low, high = (100 * value for value in row["interval"])
        tested = f", p = {row['p']:.4f}" if "p" in row else ""
        cells.append(
            [
                *(row["questions"], f"{row['number']:,}", str(row["examples"])),
                *(row.get("linker", ""), row.get("graph", "")),
                str(row["mined"]) if row["rules"] == "rules" else "none",
                *(f"{100 * row[key]:.1f}" for key in ("entity", "relation", "both")),
                f"{100 * row['hit']:.1f} [{low:.1f}, {high:.1f}]{tested}",
                f"{row['ms']:.0f}",
            ]
        )
    heads = ("questions", "number", "examples a path", "linker", "graph", "rules")
    measures = ("entity", "relation", "both", "Hits@1", "ms")
    return markdown_table((*heads, *measures), cells, "lrrlllrrrrr")


def _run(arguments: argparse.Namespace) -> None:
    folder = arguments.data or data_folder() / "metaqa"
    encoders: dict[str, Encoder | None] = {"letters": None}
    if arguments.encoder:
        from rulerag.retrieval.dense.encoders import load_encoder

        encoders["encoder"] = load_encoder(arguments.encoder)
    rows = []
    for graph in ("whole", "half"):
        for linker, encoder in encoders.items():
            if graph == "half" and encoder is not None:
                continue
            found = run(folder, arguments.questions, encoder, graph == "half")
            rows += [{**row, "graph": graph, "linker": linker} for row in found]
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
    parser.add_argument("--questions", type=int, default=2000, help="of each set, at most")
    parser.add_argument("--encoder", help="a folder or name; letters alone without one")
    parser.add_argument("--out", type=Path, help="a folder for the figures, JSON and Markdown")
    return guarded(lambda: _run(parser.parse_args(argv)))


if __name__ == "__main__":
    sys.exit(main())
