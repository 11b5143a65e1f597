"""Questions that people ask of graphs: right, refused, or silently another one.

Questions over every form of query, a third of which cannot be answered. Those of
``questions/test`` were written before the linker, by somebody who did not see it; no question of
them was looked at. Those of ``questions/valid`` were, and so were those of ``questions/dev``, also
written by others, from which the lists of everyday words grew.

    python -m benchmarks.linking.asking --encoder all-minilm-l6-v2 --out benchmarks/results/linking
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.common.folders import data_folder
from rulerag.console import guarded
from rulerag.evaluation import markdown_table
from rulerag.io import read_json, read_jsonl, read_lines, write_json, write_text
from rulerag.kg import ConjunctiveQuery, KnowledgeGraph
from rulerag.kg.grounding import execute
from rulerag.linking import QuestionLinker
from rulerag.protocols import Encoder
from rulerag.retrieval.dense.encoders import load_encoder
from rulerag.ruleqa import DatasetInfo, RuleQADataset
from rulerag.ruleqa.questions import graph_labels
from rulerag.rules import Atom, readable
from rulerag.types import Document, Fact

QUESTIONS = Path(__file__).with_name("questions")
_FOLDERS = {"countries": "countries_s1", "icewsv": "icews14_forecasting"}
_SPLITS = {"icewsv": "valid"}
OUTCOMES, KINDS = ("right", "refused", "wrong"), ("answerable", "unanswerable")


def dataset_of(name: str, split: str) -> RuleQADataset:
    """A document for each fact of a graph.

    Args:
        name: of the graph.
        split: where the worlds of invented graphs stand.
    """
    world = QUESTIONS / split / f"{name}.tsv"
    folder = data_folder() / _FOLDERS.get(name, name)
    labels = {"wiki": data_folder() / "wiki_labels"}.get(name)
    if name == "metaqa":
        rows = (line.split("|") for _, line in read_lines(folder / "graph.txt"))
        graph = KnowledgeGraph.from_facts([*dict.fromkeys(Fact(a, b, c) for a, b, c in rows)])
    else:
        graph = KnowledgeGraph.load(world if world.is_file() else folder, labels=labels)
    own = world.with_suffix(".labels.json")
    known = read_json(own) if own.is_file() else graph_labels(graph)
    facts = list(graph.splits[_SPLITS.get(name, "train")])
    words = {
        kind: {one: known.get(kind, {}).get(one, readable(one)) for one in names}
        for kind, names in (
            ("entities", {end for fact in facts for end in (fact.subject, fact.object)}),
            ("relations", {fact.relation for fact in facts}),
        )
    }
    entities, relations = words["entities"], words["relations"]
    return RuleQADataset(
        corpus=[
            Document(
                f"d{n}",
                f"{entities[fact.subject]} {relations[fact.relation]} {entities[fact.object]}.",
                (fact,),
            )
            for n, fact in enumerate(facts)
        ],
        queries={},
        labels=words,
        info=DatasetInfo(name, calendar=asdict(graph.calendar) if graph.is_temporal else None),
        prediction=False,
    )


def outcome(linker: QuestionLinker, row: Mapping[str, Any]) -> tuple[str, str]:
    """Whether a question was answered right, refused or answered wrong; and what was understood."""
    (linked,) = linker.link([row["question"]])
    meaning = linked.meaning
    if linked.exact:
        asked = linked.best()
        atom = Atom(asked.relation, asked.subject, "?x")
        meaning = ConjunctiveQuery((atom,), "?x", until=asked.timestamp)
    if meaning is None:
        return "refused", linked.refusal
    result = execute(meaning, linker.index)
    if not result.values:
        return "refused", f"not stated: {linked.words}"
    gold, values = set(map(str, row["answers"])), set(map(str, result.values))
    if meaning.asks_time and linker.calendar is not None:
        dates = {linker.calendar.format(int(one)) for one in result.values}
        values = dates if dates & gold else values
    return ("right" if values == gold else "wrong"), linked.words


def ask(name: str, split: str, encoder: Encoder | None) -> dict[str, Any]:
    """The outcomes of the questions about one graph."""
    rows = list(read_jsonl(QUESTIONS / split / f"{name}.jsonl"))
    linker = QuestionLinker(dataset_of(name, split), encoder=encoder)
    linker.link(["Who is that?"])  # what is read once of a graph is no time of a question
    started = time.process_time()
    found = [outcome(linker, row) for row in rows]
    seconds = time.process_time() - started
    kinds = [KINDS[not row["answers"]] for row in rows]
    counts = Counter(zip(kinds, (one for one, _ in found), strict=True))
    return {
        "graph": name,
        **{kind: {one: counts[kind, one] for one in OUTCOMES} for kind in KINDS},
        "ms": 1000 * seconds / len(rows),
        "questions": [
            {"question": row["question"], "form": row["form"], "outcome": one, "understood": words}
            for row, (one, words) in zip(rows, found, strict=True)
        ],
    }


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Counts for each graph and linker, and over all."""
    cells = []
    for linker in dict.fromkeys(row["linker"] for row in rows):
        some = [row for row in rows if row["linker"] == linker]
        whole = {
            kind: {one: sum(row[kind][one] for row in some) for one in OUTCOMES} for kind in KINDS
        }
        for row in (*some, {"graph": "**all**", **whole, "ms": None}):
            can, cannot = row["answerable"], row["unanswerable"]
            number = sum(can.values()) + sum(cannot.values())
            wrong = can["wrong"] + cannot["wrong"] + cannot["right"]
            ms = "" if row["ms"] is None else f"{row['ms']:.0f}"
            cells.append(
                [
                    *(linker, row["graph"], *(str(can[one]) for one in OUTCOMES)),
                    *(str(cannot["refused"]), str(cannot["wrong"] + cannot["right"])),
                    f"{100 * can['right'] / max(sum(can.values()), 1):.1f}",
                    f"{100 * wrong / max(number, 1):.1f}",
                    f"{100 * cannot['refused'] / max(sum(cannot.values()), 1):.1f}",
                    ms,
                ]
            )
    heads = ("linker", "graph", *OUTCOMES, "unanswerable: refused", "answered")
    measures = ("right, %", "wrong of all, %", "unanswerable refused, %", "ms")
    return markdown_table((*heads, *measures), cells, "ll" + "r" * 9)


def _run(arguments: argparse.Namespace) -> None:
    linkers: dict[str, Encoder | None] = {"embedded": None}
    if arguments.encoder:
        linkers[arguments.encoder] = load_encoder(arguments.encoder)
    names = arguments.graphs or sorted(
        one.stem for one in (QUESTIONS / arguments.split).glob("*.jsonl")
    )
    rows = []
    for linker, encoder in linkers.items():
        for name in names:
            rows.append({"linker": linker, **ask(name, arguments.split, encoder)})
            sys.stdout.write(table(rows[-1:]))
    sys.stdout.write(table(rows))
    if arguments.out is not None:
        write_json(arguments.out / f"asking-{arguments.split}.json", rows)
        write_text(arguments.out / f"asking-{arguments.split}.md", table(rows))


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.linking.asking",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("graphs", nargs="*", help="graphs; every one of the split without any")
    parser.add_argument("--split", choices=("test", "valid", "dev"), default="test")
    parser.add_argument("--encoder", help="a folder or name; words alone without one")
    parser.add_argument("--out", type=Path, help="a folder for the figures, JSON and Markdown")
    return guarded(lambda: _run(parser.parse_args(argv)))


if __name__ == "__main__":
    sys.exit(main())
