"""The command ``answer``, and how questions are asked of a dataset."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from rulerag.cli.common import (
    SHOWN,
    LimitOption,
    Opened,
    PipelineOptions,
    QuietOption,
    by_flags,
    check_outputs,
    choose_queries,
    is_experiment,
    open_pipeline,
    percent,
    say,
    show_progress,
)
from rulerag.errors import ConfigError
from rulerag.io import write_jsonl
from rulerag.kg.grounding import statement_lines
from rulerag.ruleqa import RuleQADataset, parse_question
from rulerag.text import exact_match
from rulerag.types import Answer, Query

TargetArgument = Annotated[
    str, typer.Argument(help="a dataset folder, an experiment file, or a question in quotes")
]
DatasetOption = Annotated[
    Path | None,
    typer.Option("--dataset", help="what a question is asked of: a dataset folder or experiment"),
]
IdsOption = Annotated[
    list[str] | None, typer.Option("--query", metavar="ID", help="a query id; repeatable")
]


@by_flags()
def answer(
    *,
    target: TargetArgument,
    dataset: DatasetOption = None,
    query: IdsOption = None,
    out: Annotated[Path | None, typer.Option(help="answers.jsonl to write")] = None,
    options: PipelineOptions,
    limit: LimitOption = None,
    quiet: QuietOption = False,
) -> None:
    """Answer a question, or the queries of a dataset, with the evidence."""
    check_outputs(out)
    opened = open_target(target, dataset, options, ids=query, limit=limit, quiet=quiet)
    answers = opened.pipeline.answer(opened.queries)
    if out is not None:
        write_jsonl(out, (item.to_json() for item in answers))
    for item in answers[:SHOWN]:
        say(_shown(item))
    tell_rest(len(answers), "answer", out)
    known = [item for item in answers if item.query.answers]
    if known:
        right = sum(exact_match(item.text, item.query.answers) for item in known)
        plural = "query" if len(known) == 1 else "queries"
        say(f"exact match {percent(right / len(known))} % of {len(known):,} {plural}")


def open_target(
    target: str,
    dataset: Path | None,
    options: PipelineOptions,
    *,
    ids: Sequence[str] | None,
    limit: int | None,
    quiet: bool,
) -> Opened:
    """The pipeline, with the question or else the chosen queries.

    Args:
        target: a dataset folder or an experiment file; the question where ``dataset`` is set.
        dataset: the folder or file that a question belongs to.
        options: how it is opened.
        ids: of the queries.
        limit: only the first so many.
        quiet: no progress bars.

    Raises:
        ConfigError: the target is neither, or a question comes with a choice of queries.
    """
    if dataset is None:
        if not is_experiment(target) and not (_exists(target) and Path(target).is_dir()):
            raise ConfigError(
                f"{target!r} is no dataset folder and no experiment file",
                hint="for a question, name the dataset too: --dataset FOLDER",
            )
    elif _exists(target):
        raise ConfigError(
            f"{target!r} is no question", hint="leave out --dataset to ask its queries"
        )
    else:
        for key, value in (("query", ids), ("query_set", options.query_set), ("limit", limit)):
            if value:
                raise ConfigError(
                    "chooses queries of a dataset, and a question was asked",
                    key=key,
                    hint="leave out the question or this option",
                )
    config = options.config(dataset or Path(target))

    def choose(opened: RuleQADataset) -> list[Query]:
        if dataset is not None:
            return [parse_question(target, opened)]
        return choose_queries(opened, config, ids=ids or (), limit=limit)

    progress = show_progress(quiet) and dataset is None
    return open_pipeline(config, choose, index=options.index, progress=progress, keep_union=False)


def _exists(target: str) -> bool:
    try:
        return bool(target) and Path(target).exists()
    except OSError:  # a question may be longer than a file name can be
        return False


def _shown(item: Answer) -> str:
    """An answer, what is stated and what rules say of it, and its documents with their rules."""
    lines = [item.query.text, f"  answer: {item.text or '(none: nothing found leads to one)'}"]
    if item.query.answers:
        lines.append(f"  accepted: {', '.join(item.query.answers)}")
    found = dict.fromkeys(rule_id for scored in item.documents for rule_id in scored.rule_ids)
    names = {rule_id: f"R{number}" for number, rule_id in enumerate(found, start=1)}
    texts = {rule.id: rule.text for rule in item.rules}
    places = {scored.document.id: f"D{scored.rank}" for scored in item.documents}
    stated = statement_lines(item.stated, item.query, item.text, places, names)
    lines += [f"  {line}" for line in stated]
    if names:
        lines.append("  rules that found documents:")
        lines += [f"    {name:4}{texts.get(rule_id, rule_id)}" for rule_id, name in names.items()]
    best = item.completion.candidates[0] if item.completion.candidates else None
    support = set(best.document_ids) if best else set()
    if item.documents:
        lines.append("  documents (* leads to the answer):")
    for scored in item.documents:
        mark = "*" if scored.document.id in support else " "
        rules = ", ".join(names[rule_id] for rule_id in scored.rule_ids)
        place = places[scored.document.id]
        lines.append(
            f"  {mark} {place:4}{scored.document.text}" + (f"  [{rules}]" if rules else "")
        )
        lines += [f"         {one.scorer}: {one.why}" for one in scored.support[:1]]
    return "\n".join(lines) + "\n"


def tell_rest(count: int, what: str, out: Path | None) -> None:
    """Say how many more there are than were shown, and where they are."""
    if count > SHOWN:
        plural = "" if count == SHOWN + 1 else "s"
        where = f"all are in {out}" if out else "--out FILE writes all"
        say(f"… and {count - SHOWN:,} more {what}{plural}; {where}")
