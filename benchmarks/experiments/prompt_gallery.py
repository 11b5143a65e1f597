"""One question of each benchmark in the words of every template: prompts to read before a table.

Writes, for each benchmark, ``request.json`` (a query with its guiding rules and ten documents, as
rule-guided BM25 finds them) and one text a template. The committed copy is
``tests/generation/golden_prompts``; a test renders its requests again.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rulerag.assembly import make_retriever, make_selector, method
from rulerag.composition import names
from rulerag.console import guarded
from rulerag.generation.prompts import PromptTemplate
from rulerag.io import read_json, write_json, write_text
from rulerag.ruleqa import GRAPHS, RuleQADataset
from rulerag.rules import Rule
from rulerag.types import Document, GenerationRequest, Query

_METHOD = "bm25-guided__symbolic"


def prompts(request: GenerationRequest) -> Iterator[tuple[str, str]]:
    """Name and prompt of every template, with rules and, where it shows some, without."""
    for kind in names("prompt"):
        template = PromptTemplate.of(kind)
        yield kind, template.render(request).text
        if template.rules and kind != "plain":
            yield f"{kind}-without-rules", template.without_rules().render(request).text


def save_request(path: Path, request: GenerationRequest) -> None:
    """Write a request as JSON."""
    query = request.query
    made: dict[str, Any] = {
        "query": query.to_json(),
        "rules": [rule.to_json() for rule in request.rules],
        "documents": [document.to_json() for document in request.documents],
    }
    write_json(path, made)


def load_request(path: Path) -> GenerationRequest:
    """Read a request of :func:`save_request`."""
    row: Mapping[str, Any] = read_json(path)
    return GenerationRequest(
        Query.from_json(row["query"]),
        tuple(Document.from_json(document) for document in row["documents"]),
        tuple(Rule.from_json(rule) for rule in row["rules"]),
    )


def _request(folder: Path, benchmark: str, number: int) -> GenerationRequest:
    dataset = RuleQADataset.load(folder)
    config = method(_METHOD, benchmark, [f"dataset.path={folder}"])
    selector = make_selector(config, dataset.rules)
    query = dataset.query_set("balanced")[number]
    (found,) = make_retriever(config, dataset, selector).retrieve([query], 10)
    (rules,) = selector.select([query]) if selector is not None else ([],)
    return GenerationRequest(query, tuple(hit.document for hit in found), tuple(rules))


def _main(arguments: argparse.Namespace) -> None:
    for benchmark in arguments.benchmarks or GRAPHS:
        request = _request(arguments.datasets / benchmark, benchmark, arguments.query)
        save_request(arguments.out / benchmark / "request.json", request)
        for name, text in prompts(request):
            write_text(arguments.out / benchmark / f"{name}.txt", text)
        sys.stdout.write(f"{arguments.out / benchmark}: {request.query.text}\n")


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.experiments.prompt_gallery",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: python -m benchmarks.experiments.prompt_gallery --datasets runs "
        "--out runs/prompts",
    )
    parser.add_argument("--datasets", required=True, type=Path, help="built datasets")
    parser.add_argument("--out", required=True, type=Path, help="where the texts go")
    parser.add_argument("--benchmarks", nargs="+", metavar="NAME", help="these alone")
    parser.add_argument("--query", type=int, default=0, help="which of the balanced queries (0)")
    arguments = parser.parse_args(argv)
    return guarded(lambda: _main(arguments))


if __name__ == "__main__":
    sys.exit(main())
