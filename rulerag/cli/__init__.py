"""The command line: thin commands, each a few library calls."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click
import typer

from rulerag.cli import answering, corpora, graphs, running
from rulerag.console import EXIT_BAD_INPUT, EXIT_INTERRUPTED, guarded

__all__ = ["app", "main"]

app = typer.Typer(
    name="rulerag",
    help="Retrieval-augmented generation that follows rules and shows why it answered.",
    epilog="Start here: rulerag demo --out demo-out",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

app.command("demo", epilog="Example: rulerag demo --out demo-out")(running.demo)
app.command(
    "mine",
    epilog="Example: rulerag mine ../shared/data/icews14 --miner tlogic --out rules.jsonl",
)(graphs.mine)
app.command("rules", epilog='Example: rulerag rules rules.jsonl --head "Consult" --top 5')(
    graphs.rules
)
app.command("index", epilog="Example: rulerag index runs/ruleqa-i --retriever lucene --out index")(
    corpora.index
)
app.command(
    "retrieve",
    epilog="Example: rulerag retrieve runs/ruleqa-i --retriever bm25 --rules guided --out run.trec",
)(corpora.retrieve)
app.command(
    "answer",
    epilog='Example: rulerag answer "Time 2014-12-01 what does China Consult ?" '
    "--dataset runs/ruleqa-i",
)(answering.answer)
app.command(
    "explain",
    epilog="Example: rulerag explain runs/ruleqa-i --query test-000003 --html why.html",
)(answering.explain)
app.command(
    "evaluate",
    epilog="Example: rulerag evaluate configs/ruleqa-i/symbolic__symbolic.yaml "
    "query_set=full --out runs/symbolic",
)(running.evaluate)


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0 success, 2 bad input, 130 interrupted."""
    status = 0

    def run() -> None:
        nonlocal status
        try:
            status = app(args=argv, standalone_mode=False) or 0
        except click.exceptions.Abort:
            raise KeyboardInterrupt from None
        except click.ClickException as error:
            error.show()
            status = EXIT_BAD_INPUT

    code = guarded(run)
    if code == EXIT_INTERRUPTED:
        sys.exit(code)
    sys.exit(code or status)
