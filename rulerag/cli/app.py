"""The table of commands: a name, an example and a function each."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import typer

from rulerag.cli import answering, corpora, graphs, running
from rulerag.console import guarded

__all__ = ["COMMANDS", "app"]

COMMANDS: dict[str, tuple[Callable[..., None], str]] = {
    "demo": (running.demo, "rulerag demo --out demo-out"),
    "mine": (graphs.mine, "rulerag mine ../shared/data/icews14 --out rules.jsonl"),
    "rules": (graphs.rules, 'rulerag rules rules.jsonl --head "Consult" --top 5'),
    "index": (corpora.index, "rulerag index runs/ruleqa-i --retriever lucene --out index"),
    "retrieve": (
        corpora.retrieve,
        "rulerag retrieve runs/ruleqa-i --retriever bm25 --rules guided --out run.trec",
    ),
    "answer": (
        answering.answer,
        'rulerag answer "Time 2014-12-01 what does China Consult ?" --dataset runs/ruleqa-i',
    ),
    "explain": (
        answering.explain,
        "rulerag explain runs/ruleqa-i --query test-000003 --html why.html",
    ),
    "evaluate": (
        running.evaluate,
        "rulerag evaluate configs/ruleqa-i/symbolic__symbolic.yaml query_set=full "
        "--out runs/symbolic",
    ),
}
"""By name, what a command runs and the example that its help shows."""

_RESUMES = "interrupted; answered queries are kept, the same command goes on from there"

app = typer.Typer(
    name="rulerag",
    help="Retrieval-augmented generation that follows rules and shows why it answered.",
    epilog="Start here: rulerag demo --out demo-out",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _readable(work: Callable[..., None], **options: Any) -> Callable[..., None]:
    """The command with readable errors; typer itself would end Ctrl-C without a word."""

    @functools.wraps(work)
    def run(*args: Any, **kwargs: Any) -> None:
        code = guarded(lambda: work(*args, **kwargs), **options)
        if code:
            raise typer.Exit(code)

    return run


for _name, (_work, _example) in COMMANDS.items():
    _options = {"interrupted": _RESUMES} if _work is running.evaluate else {}
    app.command(_name, epilog=f"Example: {_example}")(_readable(_work, **_options))
