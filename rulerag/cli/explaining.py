"""The command ``explain``."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from tqdm import tqdm

from rulerag.cli.answering import (
    DatasetOption,
    IdsOption,
    TargetArgument,
    open_target,
    place_of,
    tell_rest,
)
from rulerag.cli.common import (
    SHOWN,
    EncoderOption,
    FusionOption,
    GeneratorOption,
    IndexOption,
    Opened,
    PipelineOptions,
    QuerySetOption,
    QuietOption,
    RetrieverOption,
    RulesOption,
    Target,
    TopKOption,
    check_outputs,
    command_line,
    say,
)
from rulerag.errors import ConfigError
from rulerag.io import write_jsonl
from rulerag.pipeline import RuleRAGPipeline
from rulerag.ruleqa import RuleQADataset
from rulerag.types import Answer, Document, Query

if TYPE_CHECKING:
    from rulerag.explanation.probing import Predicate
    from rulerag.explanation.report import AnswerExplanation
    from rulerag.protocols import Generator

__all__ = ["explain"]


def explain(
    target: TargetArgument,
    dataset: DatasetOption = None,
    query: IdsOption = None,
    out: Annotated[Path | None, typer.Option(help="explanations.jsonl to write")] = None,
    html: Annotated[Path | None, typer.Option(help="a page to write")] = None,
    unit: Annotated[
        str, typer.Option(help="what is kept or removed: document, sentence or word")
    ] = "document",
    max_sources: Annotated[
        int, typer.Option(help="sources told apart; up to two to this power probes")
    ] = 10,
    predicate: Annotated[
        str,
        typer.Option(help="what must hold: answer, exact, correct, contains:TEXT, regex:PATTERN"),
    ] = "answer",
    attribution: Annotated[
        list[str] | None,
        typer.Option(
            help="what each source counts: leave-one-out, shapley, banzhaf, linear or guided; "
            "repeatable"
        ),
    ] = None,
    samples: Annotated[
        int | None, typer.Option(help="random orders or subsets that attribution asks")
    ] = None,
    value: Annotated[
        str,
        typer.Option(help="what attribution explains: verdict, or log-probability of the response"),
    ] = "verdict",
    group: Annotated[
        str | None,
        typer.Option(
            "--group",
            "--group-by",
            help="explain groups first, then inside: rule (what it found), or document",
        ),
    ] = None,
    counterfactuals: Annotated[
        bool, typer.Option(help="the smallest removals that change the answer, too")
    ] = False,
    votes: Annotated[
        int, typer.Option(help="ask each probe so many times and take the most frequent answer")
    ] = 1,
    validity: Annotated[
        float | None,
        typer.Option(help="certify rules on random subsets to this share, for many sources"),
    ] = None,
    subsets: Annotated[
        str,
        typer.Option(
            help="with --validity, random subsets: uniform (nearly all keep half of the "
            "documents), or by-size (how many are kept is drawn first)"
        ),
    ] = "uniform",
    seed: Annotated[int, typer.Option(help="of random subsets and orders")] = 0,
    rerun_retrieval: Annotated[
        bool,
        typer.Option(
            "--rerun-retrieval",
            help="take the documents that the answer goes without out of the corpus, retrieve and "
            "answer again; indexes the corpus anew for each answer",
        ),
    ] = False,
    max_probes: Annotated[
        int | None, typer.Option(help="stop after so many probes with what is certain")
    ] = None,
    cache: Annotated[
        Path | None, typer.Option(help="a file that keeps answers; nothing in it is asked again")
    ] = None,
    retriever: RetrieverOption = None,
    rules: RulesOption = None,
    top_k: TopKOption = None,
    query_set: QuerySetOption = None,
    index: IndexOption = None,
    encoder: EncoderOption = None,
    fusion: FusionOption = None,
    generator: GeneratorOption = None,
    limit: Annotated[
        int | None, typer.Option(help=f"only the first N queries (default {SHOWN})")
    ] = None,
    quiet: QuietOption = False,
) -> None:
    """Explain answers: guiding rules, documents, minimal retention and omission rules."""
    from rulerag.explanation.faithfulness import mean_rule_faithfulness
    from rulerag.explanation.probing import (
        AnswerCache,
        VotingGenerator,
        check_value,
        predicate_pair,
        refuse_another_answer,
    )
    from rulerag.explanation.report import ExplainSettings, explain_answer

    check_outputs(out, html)
    settings = ExplainSettings.read(
        {
            "unit": unit,
            "max_sources": max_sources,
            "validity": validity,
            "seed": seed,
            "subsets": subsets,
            "max_probes": max_probes,
            "attribution": tuple(attribution or ()),
            "samples": samples,
            "value": value,
            "counterfactuals": counterfactuals,
            "group_by": group,
        }
    )
    if rerun_retrieval and index is not None:
        raise ConfigError(
            "holds the documents that shall be taken out",
            key="index",
            hint="leave --index or --rerun-retrieval out",
        )
    place = place_of(target, dataset, ids=query, query_set=query_set, limit=limit)
    chosen = Target(
        place,
        PipelineOptions(retriever, rules, top_k, query_set, index, encoder, fusion, generator),
    )
    opened = open_target(chosen, target, dataset, ids=query, limit=limit, quiet=quiet)
    queries = opened.queries[:SHOWN] if limit is None and not query else opened.queries
    reader = opened.pipeline.generator
    asked = reader if votes == 1 else VotingGenerator(reader, votes)
    check_value(value, asked, settings.attribution)
    answers = opened.pipeline.answer(queries)
    told = [item for item in answers if item.text and item.documents]
    bar = tqdm(told, "explaining", disable=quiet or len(told) <= SHOWN, unit="answer")
    kept = AnswerCache(cache) if cache is not None else None
    explanations: list[AnswerExplanation] = []
    try:
        for item in bar:
            holds, fails = predicate_pair(predicate, answer=item.text, answers=item.query.answers)
            explanation = explain_answer(
                item,
                asked,
                settings,
                # By default the explainer words the condition itself.
                predicate=None if predicate == "answer" else holds,
                omission_predicate=None if predicate == "answer" else fails,
                cache=kept,
            )
            if votes == 1:  # the probe that keeps every document asked what the pipeline had asked
                refuse_another_answer(item.text, explanation.full_output)
            if rerun_retrieval:
                explanation = _rerun(explanation, item, chosen, opened, asked, holds)
            explanations.append(explanation)
    except KeyboardInterrupt:
        if explanations:
            _write(chosen, opened, explanations, out, html)
            how_many = f"{len(explanations)} of {len(told)} answers were explained"
            sys.stderr.write(f"\n{how_many}{_written(out, html)}\n")
        raise
    _write(chosen, opened, explanations, out, html)
    for explanation in explanations[:SHOWN]:
        say(f"{explanation}\n")
    tell_rest(len(explanations), "explanation", out)
    faithful = mean_rule_faithfulness(zip(told, explanations, strict=True))
    if faithful.compared:
        say(str(faithful))
    _tell_unanswered([item.query for item in answers if not (item.text and item.documents)])
    if len(queries) < len(opened.queries):
        total = f"{len(opened.queries):,}"
        say(f"these are the first {len(queries)} of {total} queries; --limit N explains more")
    if out is not None or html is not None:
        say(_written(out, html).removeprefix(", "))


def _write(
    chosen: Target,
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
    if html is not None:
        about = _about(chosen, opened, explanations)
        write_report(html, title="Why these answers", about=about, explanations=records)


def _written(out: Path | None, html: Path | None) -> str:
    files = [str(file) for file in (out, html) if file is not None]
    return f", written to {' and '.join(files)}" if files else ""


def _rerun(
    explanation: AnswerExplanation,
    answer: Answer,
    chosen: Target,
    opened: Opened,
    generator: Generator,
    predicate: Predicate,
) -> AnswerExplanation:
    """The explanation with what is answered from the corpus without an omission rule's documents.

    Retrieval is put together anew, so that nothing of them is left; the reader stays.
    """
    from rulerag.assembly import make_retriever, make_selector
    from rulerag.explanation.report import rerun_retrieval

    config, whole, pipeline = chosen.config(), opened.dataset, opened.pipeline

    def over(documents: list[Document]) -> RuleRAGPipeline:
        dataset = RuleQADataset(
            corpus=documents,
            queries={},
            rules=whole.rules,
            labels=whole.labels,
            calendar=whole.calendar,
            name=whole.name,
        )
        selector = make_selector(config, whole.rules)
        return RuleRAGPipeline(
            make_retriever(config, dataset, selector),
            generator,
            selector=selector,
            top_k=pipeline.top_k,
            reader_rules=pipeline.reader_rules,
            keep_union=False,
        )

    return rerun_retrieval(explanation, answer, whole.corpus, over, predicate=predicate)


def _about(
    chosen: Target, opened: Opened, explanations: Sequence[AnswerExplanation]
) -> list[tuple[str, str]]:
    """What the page says about itself: question, dataset, settings, command and date."""
    dataset = opened.dataset
    rows = [("question", explanations[0].query)] if len(explanations) == 1 else []
    rows.append(("dataset", f"{dataset.name}, {len(dataset.corpus):,} documents, {chosen.place}"))
    rows.append(("dataset fingerprint", opened.pipeline.fingerprints["dataset"]))
    settings = chosen.config().without("dataset", "metadata", "expected").to_dict()
    rows += [(key, _in_line(value)) for key, value in settings.items()]
    if explanations:
        made = {k: v for k, v in explanations[0].settings.items() if k != "fingerprints"}
        rows.append(("explanation", _in_line(made)))
    rows.append(("command", command_line()))
    rows.append(("date", datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")))
    return rows


def _in_line(value: object) -> str:
    """A setting on one line: ``type bm25, k1 0.9``; what is not set is left out."""
    if not isinstance(value, Mapping):
        return str(value)
    told = {key: part for key, part in value.items() if part is not None}
    return ", ".join(f"{key} {_in_line(part)}" for key, part in told.items()) or "as by default"


def _tell_unanswered(queries: Sequence[Query]) -> None:
    if queries:
        ids = ", ".join(query.id for query in queries[:SHOWN])
        more = " …" if len(queries) > SHOWN else ""
        say(f"nothing to explain, because nothing found leads to an answer: {ids}{more}")
