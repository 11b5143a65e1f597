"""The command ``explain``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from tqdm import tqdm

from rulerag.cli.answering import (
    DatasetOption,
    IdsOption,
    RulesOption,
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
    QuerySetOption,
    QuietOption,
    RetrieverOption,
    Target,
    TopKOption,
    check_outputs,
    percent,
    say,
)
from rulerag.io import write_jsonl
from rulerag.types import Query

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
        typer.Option(help="explain groups first, then inside: rule (what it found), or document"),
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
    seed: Annotated[int, typer.Option(help="of random subsets and orders")] = 0,
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
    from rulerag.evaluation.html import write_report
    from rulerag.explanation.cache import AnswerCache
    from rulerag.explanation.details import check_methods
    from rulerag.explanation.group_views import check_grouping
    from rulerag.explanation.llm_judge import predicate_pair
    from rulerag.explanation.log_probability import check_value
    from rulerag.explanation.provenance import explain_answer
    from rulerag.explanation.rule_faithfulness import mean_rule_faithfulness
    from rulerag.explanation.votes import VotingGenerator, refuse_another_answer

    check_outputs(out, html)
    check_methods(attribution or (), samples)
    check_grouping(group, unit)
    place = place_of(target, dataset, ids=query, query_set=query_set, limit=limit)
    chosen = Target(place, retriever, rules, top_k, query_set, index, encoder, fusion, generator)
    opened = open_target(chosen, target, dataset, ids=query, limit=limit, quiet=quiet)
    queries = opened.queries[:SHOWN] if limit is None and not query else opened.queries
    reader = opened.pipeline.generator
    asked = reader if votes == 1 else VotingGenerator(reader, votes)
    check_value(value, asked, attribution or ())
    answers = opened.pipeline.answer(queries)
    told = [item for item in answers if item.text and item.documents]
    bar = tqdm(told, "explaining", disable=quiet or len(told) <= SHOWN, unit="answer")
    kept = AnswerCache(cache) if cache is not None else None
    explanations = []
    for item in bar:
        holds, fails = predicate_pair(
            predicate, answer=item.text, answers=item.query.answers, question=item.query.text
        )
        explanations.append(
            explain_answer(
                item,
                asked,
                # By default the explainer words the condition itself.
                predicate=None if predicate == "answer" else holds,
                omission_predicate=None if predicate == "answer" else fails,
                unit=unit,
                max_sources=max_sources,
                validity=validity,
                seed=seed,
                max_probes=max_probes,
                cache=kept,
                attribution=attribution or (),
                samples=samples,
                value=value,
                counterfactuals=counterfactuals,
                group_by=group,
            )
        )
        if votes == 1:  # the probe that keeps every document asked what the pipeline had asked
            refuse_another_answer(item.text, explanations[-1].full_output)
    records = [explanation.to_json() for explanation in explanations]
    if out is not None:
        write_jsonl(out, records)
    if html is not None:
        write_report(html, title="Why these answers", explanations=records)
    for explanation in explanations[:SHOWN]:
        say(f"{explanation}\n")
    tell_rest(len(explanations), "explanation", out)
    faithful, compared = mean_rule_faithfulness(zip(told, explanations, strict=True))
    if compared:
        say(
            f"rule faithfulness {percent(faithful)} % of {compared} "
            f"{'answer' if compared == 1 else 'answers'}: how often the rule that an answer "
            "claims found what it needs"
        )
    _tell_unanswered([item.query for item in answers if not (item.text and item.documents)])
    if len(queries) < len(opened.queries):
        total = f"{len(opened.queries):,}"
        say(f"these are the first {len(queries)} of {total} queries; --limit N explains more")
    written = [str(file) for file in (out, html) if file is not None]
    if written:
        say(f"written to {' and '.join(written)}")


def _tell_unanswered(queries: Sequence[Query]) -> None:
    if queries:
        ids = ", ".join(query.id for query in queries[:SHOWN])
        more = " …" if len(queries) > SHOWN else ""
        say(f"nothing to explain, because nothing found leads to an answer: {ids}{more}")
