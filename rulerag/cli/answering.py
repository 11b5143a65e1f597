"""Commands about answers: ``answer`` and ``explain``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from tqdm import tqdm

from rulerag.cli.common import (
    IndexOption,
    LimitOption,
    Opened,
    QuerySetOption,
    QuietOption,
    RetrieverOption,
    RulesOption,
    TopKOption,
    choose_queries,
    open_pipeline,
    percent,
    say,
    show_progress,
)
from rulerag.errors import ConfigError
from rulerag.io import write_jsonl
from rulerag.kg.questions import parse_question
from rulerag.text import exact_match
from rulerag.types import Answer, Query

__all__ = ["answer", "explain"]

TargetArgument = Annotated[
    str, typer.Argument(help="a dataset folder, an experiment file, or a question in quotes")
]
DatasetOption = Annotated[
    Path | None, typer.Option("--dataset", help="the dataset folder a question is asked of")
]
IdsOption = Annotated[list[str] | None, typer.Option("--query", help="a query id; repeatable")]
# Answers printed one by one; more go to the file alone.
_SHOWN = 5


def answer(
    target: TargetArgument,
    dataset: DatasetOption = None,
    query: IdsOption = None,
    out: Annotated[Path | None, typer.Option(help="answers.jsonl to write")] = None,
    retriever: RetrieverOption = "bm25",
    rules: RulesOption = "guided",
    top_k: TopKOption = 10,
    query_set: QuerySetOption = "full",
    index: IndexOption = None,
    limit: LimitOption = None,
    quiet: QuietOption = False,
) -> None:
    """Answer a question, or the queries of a dataset, with the evidence."""
    opened, queries = _open(
        target, dataset, query, retriever, rules, top_k, query_set, index, limit, quiet
    )
    answers = opened.pipeline.answer(queries)
    if out is not None:
        write_jsonl(out, (item.to_json() for item in answers))
    for item in answers[:_SHOWN]:
        say(_shown(item))
    if len(answers) > _SHOWN:
        say(f"… and {len(answers) - _SHOWN:,} more" + (f" in {out}" if out else ""))
    known = [item for item in answers if item.query.answers]
    if known:
        right = sum(exact_match(item.text, item.query.answers) for item in known)
        say(f"exact match {percent(right / len(known))} % of {len(known):,} queries")


def explain(
    target: TargetArgument,
    dataset: DatasetOption = None,
    query: IdsOption = None,
    out: Annotated[Path | None, typer.Option(help="explanations.jsonl to write")] = None,
    html: Annotated[Path | None, typer.Option(help="a page to write")] = None,
    max_sources: Annotated[
        int, typer.Option(help="documents told apart; up to two to this power probes")
    ] = 10,
    retriever: RetrieverOption = "bm25",
    rules: RulesOption = "guided",
    top_k: TopKOption = 10,
    query_set: QuerySetOption = "full",
    index: IndexOption = None,
    limit: LimitOption = None,
    quiet: QuietOption = False,
) -> None:
    """Explain answers: guiding rules, documents, minimal retention and omission rules."""
    from rulerag.evaluation.html import write_report
    from rulerag.explanation.provenance import explain_answer

    if limit is None and not query and dataset is None:
        limit = _SHOWN
    opened, queries = _open(
        target, dataset, query, retriever, rules, top_k, query_set, index, limit, quiet
    )
    answers = opened.pipeline.answer(queries)
    told = [item for item in answers if item.text and item.documents]
    for item in answers:
        if item not in told:
            say(f"{item.query.text}\n  no answer: no guiding rule fires on what was found\n")
    bar = tqdm(told, "explaining", disable=quiet or len(told) < 3, unit="answer")
    explanations = [
        explain_answer(item, opened.pipeline.generator, max_sources=max_sources) for item in bar
    ]
    for explanation in explanations[:_SHOWN]:
        say(f"{explanation}\n")
    if len(explanations) > _SHOWN:
        say(f"… and {len(explanations) - _SHOWN:,} more" + (f" in {out}" if out else ""))
    records = [explanation.to_json() for explanation in explanations]
    if out is not None:
        write_jsonl(out, records)
    if html is not None:
        write_report(html, title="Why these answers", explanations=records)


def _open(
    target: str,
    dataset: Path | None,
    ids: Sequence[str] | None,
    retriever: str,
    rules: str,
    top_k: int,
    query_set: str,
    index: Path | None,
    limit: int | None,
    quiet: bool,
) -> tuple[Opened, list[Query]]:
    """The pipeline, and the question or the chosen queries."""
    is_place = Path(target).exists() or target.endswith((".yaml", ".yml"))
    if dataset is None and not is_place:
        raise ConfigError(
            f"{target!r} is no dataset folder and no experiment file",
            hint="for a question, name the dataset too: --dataset FOLDER",
        )
    opened = open_pipeline(
        target if dataset is None else dataset,
        retriever=retriever,
        rules=rules,
        query_set=query_set,
        top_k=top_k,
        index=index,
        progress=show_progress(quiet) and dataset is None,
    )
    if dataset is not None:
        return opened, [parse_question(target, opened.dataset)]
    return opened, choose_queries(opened.dataset, query_set=query_set, ids=ids or (), limit=limit)


def _shown(item: Answer) -> str:
    lines = [item.query.text, f"  answer: {item.text or '(none)'}"]
    if item.query.answers:
        lines.append(f"  accepted: {', '.join(item.query.answers)}")
    best = item.completion.candidates[0] if item.completion.candidates else None
    support = set(best.document_ids) if best else set()
    texts = {rule.id: rule.text for rule in item.rules}
    for scored in item.documents:
        mark = "*" if scored.document.id in support else " "
        found = "; ".join(texts.get(rule_id, rule_id) for rule_id in scored.rule_ids)
        how = f"   ← {found}" if found else ""
        lines.append(f"  {mark} {scored.rank:2d}. {scored.document.text}{how}")
    return "\n".join(lines) + "\n"
