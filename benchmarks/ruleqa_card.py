"""What stands beside a RuleQA dataset: its data card, and its judgements as JSON lines.

The card's header lets ``datasets.load_dataset(folder, "queries")`` open the folder. One folder has
one reader there, so the judgements, which BEIR wants as tables, are written as JSON lines too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from benchmarks.data_sources import source_of
from benchmarks.ruleqa_ceilings import CEILINGS
from benchmarks.ruleqa_settings import GRAPHS, PUBLISHED, VARIANTS
from rulerag.dataset import RuleQADataset
from rulerag.io import to_json

__all__ = ["card_files"]

_SIZES = {
    "rules": "rules \\|R\\|",
    "documents": "documents \\|D\\|",
    "f_r": "query-document pairs \\|F_R\\|",
    "f_g": "query-answer pairs \\|F_G\\|",
    "queries": "test queries \\|Q\\|, balanced",
}


def card_files(dataset: RuleQADataset, command: str) -> dict[str, Iterable[str]]:
    """The files to save beside a built dataset, as lines by name.

    Args:
        dataset: with the statistics of its builder.
        command: what built it.
    """
    splits = [split for split in dataset.queries if dataset.qrels(split)]
    files: dict[str, Iterable[str]] = {
        f"judgements/{split}.jsonl": _judgements(dataset.qrels(split)) for split in splits
    }
    files["README.md"] = [*_header(dataset, splits), *_body(dataset, command)]
    return files


def _judgements(qrels: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    for query, grades in qrels.items():
        yield to_json(
            {"query-id": query, "corpus-id": list(grades), "score": list(grades.values())}
        )


def _header(dataset: RuleQADataset, splits: Iterable[str]) -> Iterator[str]:
    yield from ("---", f"pretty_name: {dataset.name}", "language:", "- en", "license: other")
    yield from ("task_categories:", "- question-answering", "- text-retrieval")
    yield from ("tags:", "- knowledge-graph", "- rules", "- retrieval-augmented-generation")
    yield "configs:"
    single = {name: {name: f"{name}.jsonl"} for name in ("queries", "corpus", "rules")}
    judged = {split: f"judgements/{split}.jsonl" for split in splits}
    for name, files in {**single, "qrels": judged}.items():
        if not files:
            continue
        yield f"- config_name: {name}"
        yield "  data_files:"
        for split, path in files.items():
            yield from (f"  - split: {split}", f"    path: {path}")
    yield "---"


def _body(dataset: RuleQADataset, command: str) -> Iterator[str]:
    variant = str(dataset.settings.get("variant", "test"))
    base = dataset.name.removesuffix(f"-{variant}")
    yield from ("", f"# {dataset.name}", "")
    yield (
        f"A reconstruction of {base} of RuleRAG (arXiv:2410.22353, section 2), whose own files "
        f"are not public. Its test queries are {VARIANTS[variant]}."
    )
    yield from ("", "```", command, "```", "")
    yield from _opening()
    yield from _counts(dataset, PUBLISHED[base])
    yield from _ceilings(dataset)
    yield from ("## No leakage", "", "Checked when it was built (`benchmarks.ruleqa check`):", "")
    yield from (f"- {line}" for line in dataset.statistics["leakage"])
    yield from _making(dataset)
    yield from _source(GRAPHS[base])


def _opening() -> Iterator[str]:
    yield from ("## How to open it", "", "```python", "import datasets")
    yield 'queries = datasets.load_dataset(folder, "queries")["queries"]   # also corpus, rules'
    yield 'qrels = datasets.load_dataset(folder, "qrels")["test"]          # also f_r, f_g'
    yield from ("", "from rulerag import RuleQADataset", "dataset = RuleQADataset.load(folder)")
    yield from ("```", "")
    yield (
        "It is a BEIR folder too: `corpus.jsonl`, `queries.jsonl`, `qrels/<split>.tsv`. A query's "
        "`metadata` holds its raw names, its acceptable `answers`, its `split` (`test`, `f_r`, "
        "`f_g`) and, for test queries, the `sets` that it is in (`balanced`; all together are "
        "`full`). A document's `metadata` holds the fact that it states."
    )
    yield ""


def _counts(dataset: RuleQADataset, published: Mapping[str, int]) -> Iterator[str]:
    sizes = dataset.statistics["sizes"]
    yield from ("## Sizes", "", "| | here | paper |", "| --- | ---: | ---: |")
    for key, what in _SIZES.items():
        if key == "rules":
            theirs = f"{published['rules_v1']:,} / {published['rules_v2']:,}"
        else:
            theirs = f"{published[key]:,}"
        yield f"| {what} | {sizes[key]:,} | {theirs} |"
    yield f"| all test queries | {sizes['queries_full']:,} | |"
    yield ""
    yield (
        f"F_R has {sizes['f_r_queries']:,} queries (with the three latest documents of each: "
        f"{sizes['f_r_three_latest']:,} pairs), F_G {sizes['f_g_queries']:,}. The paper's two "
        "counts of rules are those of its two published versions."
    )
    yield ""


def _ceilings(dataset: RuleQADataset) -> Iterator[str]:
    yield from ("## Ceilings", "", "Share of queries whose acceptable answer stands in …", "")
    sets: Mapping[str, Mapping[str, Any]] = dataset.statistics["ceilings"]
    yield "| | " + " | ".join(sets) + " |"
    yield "| --- |" + " ---: |" * len(sets)
    for key, what in CEILINGS.items():
        yield f"| {what} | " + " | ".join(f"{sets[name][key]:.1%}" for name in sets) + " |"
    yield ""


def _making(dataset: RuleQADataset) -> Iterator[str]:
    settings = dataset.settings
    yield from ("", "## How it was made", "")
    mined = "TLogic" if settings["miner"] == "tlogic" else "AMIE"
    yield from (
        "- **D**: one document for each distinct training fact, `subject relation object`, dated "
        "facts after `Time …`.",
        f"- **R**: rules of up to {settings['max_atoms']} atoms, head included, mined by {mined} "
        "from the training facts alone.",
        "- **Q**: one query for each (subject, relation, time) of the test facts, all of its "
        "objects as answers. `balanced`: equal parts of popular and long-tail subjects and "
        "answers among queries that a rule guides.",
        "- **F_R, F_G**: the same questions about the two halves of the validation facts, those "
        "that a rule guides and that the test set does not ask.",
        "- **qrels**: every document that grounds a guiding rule for an acceptable answer, alone "
        "or in a chain.",
    )
    yield from ("", "Settings (see `python -m benchmarks.ruleqa build --help`):", "")
    yield from (f"- `{key}`: {value}" for key, value in settings.items())
    yield f"- `seed`: {dataset.seed}"
    yield ""


def _source(graph: str) -> Iterator[str]:
    source = source_of(graph)
    yield from ("## Source and licence", "")
    yield (
        f"Facts: {source['repository']}, `{source['folder']}`, commit {source['commit']}. "
        f"Licence: {source['licence']}. Papers: {source['papers']}."
    )
    for labels in source.get("labels", ()):
        place = f"{labels['repository']}, commit {labels['commit']}"
        yield f"Labels: {place}. Licence: {labels['licence']}."
    yield f"`python -m benchmarks.data fetch {graph}` gets the graph."
    yield "Questions, rules and judgements derive from these facts and carry their terms."
