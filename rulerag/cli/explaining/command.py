"""The command ``explain``, and answers of a dataset."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from rulerag.assembly import make_retriever, make_selector
from rulerag.cli.answering import (
    DatasetOption,
    IdsOption,
    open_target,
    own_phrases,
    tell_no_reader,
    tell_rest,
    tell_understood,
)
from rulerag.cli.common import (
    SHOWN,
    Opened,
    PipelineOptions,
    QuietOption,
    by_flags,
    check_outputs,
    command_line,
    in_line,
    say,
)
from rulerag.cli.explaining.own import Asking, OwnOptions, explain_own, is_own, refuse_others
from rulerag.composition import names
from rulerag.errors import ConfigError
from rulerag.explanation import report
from rulerag.explanation.faithfulness import mean_rule_faithfulness
from rulerag.explanation.probing import (
    AnswerCache,
    Predicate,
    VotingGenerator,
    check_value,
    predicate_pair,
    refuse_another_answer,
)
from rulerag.explanation.report import AnswerExplanation, ExplainSettings, Progress, explain_answer
from rulerag.io import write_jsonl, write_text
from rulerag.kg import Phrases
from rulerag.pipeline import RuleRAGPipeline
from rulerag.protocols import Generator
from rulerag.ruleqa import RuleQADataset
from rulerag.types import Answer, Document, Query


@dataclass(frozen=True)
class AskOptions:
    """How the generator is asked, and what of it."""

    predicate: Annotated[
        str,
        typer.Option(help="what must hold: answer, exact, correct, contains:TEXT, regex:PATTERN"),
    ] = "answer"
    votes: Annotated[
        int, typer.Option(help="ask each probe so many times and take the most frequent answer")
    ] = 1
    cache: Annotated[
        Path | None, typer.Option(help="a file that keeps answers; nothing in it is asked again")
    ] = None


ExplainTarget = Annotated[
    str,
    typer.Argument(
        help="a question in quotes, the .json or .jsonl file of a logged run, a dataset folder, or "
        "an experiment file"
    ),
]


@by_flags(
    attribution=typer.Option(
        help=f"what each source counts: {', '.join(names('explainer'))}; repeatable"
    ),
    group_by=typer.Option(
        "--group",
        "--group-by",
        help="explain groups first, then inside: rule (what it found), or document",
    ),
)
def explain(
    target: ExplainTarget,
    *,
    own: OwnOptions,
    dataset: DatasetOption = None,
    query: IdsOption = None,
    out: Annotated[Path | None, typer.Option(help="explanations.jsonl to write")] = None,
    html: Annotated[Path | None, typer.Option(help="a page to write")] = None,
    how: ExplainSettings,
    ask: AskOptions,
    rerun_retrieval: Annotated[
        bool,
        typer.Option(
            "--rerun-retrieval",
            help="take the documents that the answer goes without out of the corpus, retrieve and "
            "answer again; indexes the corpus anew for each answer",
        ),
    ] = False,
    options: PipelineOptions,
    limit: Annotated[
        int | None, typer.Option(help=f"only the first N queries (default {SHOWN})")
    ] = None,
    quiet: QuietOption = False,
) -> None:
    """Explain answers: what they rest on, in a dataset or in a system of your own."""
    if is_own(target, own):
        only = {"dataset": dataset, "query": query, "limit": limit}
        refuse_others(how, options, **only, rerun_retrieval=rerun_retrieval)
        asking = Asking(how, ask.predicate, ask.votes, ask.cache, options.generator)
        explain_own(target, own, asking, out=out, html=html, quiet=quiet)
        return
    check_outputs(out, html)
    if rerun_retrieval and options.index is not None:
        raise ConfigError(
            "holds the documents that are to be taken out",
            key="index",
            hint="leave --index or --rerun-retrieval out",
        )
    if how.explainer == "regions" and rerun_retrieval:
        what = "takes rules, and the explainer 'regions' looks for none"
        raise ConfigError(what, key="rerun-retrieval", hint="leave one of them out")
    opened = open_target(target, dataset, options, ids=query, limit=limit, quiet=quiet)
    place = dataset or Path(target)
    phrases = own_phrases(place, opened)
    queries = opened.queries[:SHOWN] if limit is None and not query else opened.queries
    reader = opened.pipeline.generator
    asked = reader if ask.votes == 1 else VotingGenerator(reader, ask.votes)
    check_value(how.value, asked, how.attribution)
    again = functools.partial(_again, opened, asked) if rerun_retrieval else None
    explanations: list[AnswerExplanation] = []
    with Progress(len(queries), how.most_probes(), quiet=quiet) as progress:
        answers = opened.pipeline.answer(queries)
        kept = AnswerCache(ask.cache) if ask.cache is not None else None
        explained = [item for item in answers if item.text and item.documents]
        try:
            for item in explained:
                explanations.append(_explained(item, asked, how, ask, kept, progress, again))
        except KeyboardInterrupt:
            if explanations:
                _write(place, opened, explanations, out, html)
                how_many = f"{len(explanations)} of {len(explained)} answers were explained"
                sys.stderr.write(f"\n{how_many}{_written(out, html)}\n")
            raise
    _write(place, opened, explanations, out, html)
    tell_understood(opened)
    for explanation in explanations[:SHOWN]:
        say(f"{explanation if phrases is None else _in_words(explanation, explained, phrases)}\n")
    tell_rest(len(explanations), "explanation", out)
    faithful = mean_rule_faithfulness(zip(explained, explanations, strict=True))
    if faithful.compared:
        say(str(faithful))
    _tell_unanswered([item.query for item in answers if not (item.text and item.documents)])
    tell_no_reader(answers, options)
    if len(queries) < len(opened.queries):
        total = f"{len(opened.queries):,}"
        say(f"these are the first {len(queries)} of {total} queries; --limit N explains more")
    if out is not None or html is not None:
        say(_written(out, html).removeprefix(", "))


def _in_words(
    explanation: AnswerExplanation, explained: Sequence[Answer], phrases: Phrases
) -> AnswerExplanation:
    """An explanation as the screen shows it, its rules in plain words; records keep theirs."""
    said = {rule.id: phrases.rule(rule) for item in explained for rule in item.rules}
    traces = (replace(one, text=said.get(one.id, one.text)) for one in explanation.rules)
    return replace(explanation, rules=tuple(traces))


def _write(
    place: Path,
    opened: Opened,
    explanations: Sequence[AnswerExplanation],
    out: Path | None,
    html: Path | None,
) -> None:
    """The records and the page, where they are wanted."""
    from rulerag.evaluation.page import write_report

    records = [explanation.to_json() for explanation in explanations]
    if out is not None:
        write_jsonl(out, records)
    if html is None:
        return
    about = _about(place, opened, explanations)
    if any(explanation.regions is not None for explanation in explanations):
        write_text(html, report.regions_page(explanations, about))
    else:
        title = "Why this answer" if len(records) == 1 else "Why these answers"
        write_report(html, title=title, about=about, explanations=records)


def _written(out: Path | None, html: Path | None) -> str:
    files = [str(file) for file in (out, html) if file is not None]
    return f", written to {' and '.join(files)}" if files else ""


def _explained(
    item: Answer,
    generator: Generator,
    how: ExplainSettings,
    ask: AskOptions,
    cache: AnswerCache | None,
    progress: Progress,
    again: Callable[[AnswerExplanation, Answer, Predicate], AnswerExplanation] | None,
) -> AnswerExplanation:
    """The explanation of one answer."""
    holds, fails = predicate_pair(ask.predicate, answer=item.text, answers=item.query.answers)
    by_default = ask.predicate == "answer"  # then the explainer words the condition itself
    explanation = explain_answer(
        item,
        generator,
        how,
        predicate=None if by_default else holds,
        omission_predicate=None if by_default else fails,
        cache=cache,
        progress=progress,
    )
    progress.next_answer()
    if ask.votes == 1:  # the probe that keeps every document asked what the pipeline had asked
        refuse_another_answer(item.text, explanation.full_output)
    return explanation if again is None else again(explanation, item, holds)


def _again(
    opened: Opened,
    generator: Generator,
    explanation: AnswerExplanation,
    answer: Answer,
    predicate: Predicate,
) -> AnswerExplanation:
    """The explanation with what is answered from the corpus without an omission rule's documents.

    Retrieval is put together anew, so that nothing of them is left; the reader stays.
    """
    config, whole, pipeline = opened.config, opened.dataset, opened.pipeline

    def over(documents: list[Document]) -> RuleRAGPipeline:
        dataset = RuleQADataset(
            corpus=documents,
            queries={},
            rules=whole.rules,
            labels={**whole.labels, "aliases": whole.aliases},
            info=whole.info,
        )
        selector = make_selector(config, whole.rules, whole)
        return RuleRAGPipeline(
            make_retriever(config, dataset, selector),
            generator,
            selector=selector,
            top_k=pipeline.top_k,
            reader_rules=pipeline.reader_rules,
            keep_union=False,
        )

    return report.rerun_retrieval(explanation, answer, whole.corpus, over, predicate=predicate)


def _about(
    place: Path, opened: Opened, explanations: Sequence[AnswerExplanation]
) -> list[tuple[str, str]]:
    """What the page says about itself: dataset, settings, command and date."""
    dataset = opened.dataset
    rows = [("dataset", f"{dataset.name}, {len(dataset.corpus):,} documents, {place}")]
    rows.append(("dataset fingerprint", opened.pipeline.fingerprints["dataset"]))
    settings = opened.config.without("dataset", "metadata", "expected").to_dict()
    rows += [(key, in_line(value)) for key, value in settings.items()]
    if explanations:
        made = {k: v for k, v in explanations[0].settings.items() if k != "fingerprints"}
        rows.append(("explanation", in_line(made)))
    rows.append(("command", command_line()))
    rows.append(("date", datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")))
    return rows


def _tell_unanswered(queries: Sequence[Query]) -> None:
    if queries:
        ids = ", ".join(query.id for query in queries[:SHOWN])
        more = " …" if len(queries) > SHOWN else ""
        say(f"nothing to explain, because nothing found leads to an answer: {ids}{more}")
