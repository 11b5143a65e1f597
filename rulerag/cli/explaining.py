"""The command ``explain``: answers of a dataset, or of a system of one's own (``own_system``)."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from cyclopts import Parameter
from pydantic import Field
from tqdm import tqdm

from rulerag.cli import command_line
from rulerag.cli.answering import (
    open_target,
    say_no_reader,
    say_rest,
    say_understood,
)
from rulerag.cli.common import (
    SHOWN,
    Output,
    PipelineOptions,
    QueryRun,
    check_outputs,
    in_line,
    say,
    show_progress,
)
from rulerag.cli.own_system import (
    AskOptions,
    OwnSystem,
    is_own,
    prepare_own,
    refuse_dataset_options,
)
from rulerag.composition import names
from rulerag.explanation.explaining import (
    EventHook,
    ExplainSettings,
    Explanation,
    Why,
    estimate,
    explain_answer,
    explanation_lines,
)
from rulerag.explanation.faithfulness import mean_rule_faithfulness
from rulerag.explanation.probing import (
    AnswerCache,
    VotingGenerator,
    predicate_of,
    refuse_another_answer,
    refuse_without_scores,
)
from rulerag.io import write_jsonl
from rulerag.kg import Phrases
from rulerag.types import Answer, Query


@Parameter(name="*")
class ExplainOptions(ExplainSettings, strict=False):
    """The settings of explanations, each a flag."""

    attribution: tuple[str, ...] = Field(
        (), description=f"what each source counts: {', '.join(names('explainer'))}; repeatable"
    )


def explain(
    target: str,
    /,
    *,
    own: OwnSystem = OwnSystem(),
    dataset: Path | None = None,
    query: list[str] | None = None,
    out: Output | None = None,
    html: Output | None = None,
    how: ExplainOptions = ExplainOptions(),  # type: ignore[call-arg]  # no plugin for pydantic
    ask: AskOptions = AskOptions(),
    options: PipelineOptions = PipelineOptions(),
    limit: int | None = None,
    quiet: bool = False,
) -> None:
    """Explain answers: what they rest on, in a dataset or in a system of your own.

    Args:
        target: a question in quotes, the .json or .jsonl file of a logged run, a dataset folder,
            or an experiment file.
        own: documents and a system of your own.
        dataset: what a question is asked of: a dataset folder or experiment.
        query: a query id; repeatable.
        out: explanations.jsonl to write.
        html: a page to write.
        how: how answers are explained.
        ask: how the generator is asked.
        options: how documents are found and read.
        limit: only the first N queries (default 5).
        quiet: no progress bars.

    Example:
        rulerag explain "Who wrote it?" --documents notes --answerer rag.py:answer
    """
    check_outputs(out, html)
    if is_own(target, own):
        refuse_dataset_options(options, dataset=dataset, query=query, limit=limit)
        why, most = prepare_own(target, own, how, ask, options.generator, quiet=quiet)
        try:
            with _bar(most, quiet=quiet) as bar:
                why.proceed(on_event=_counter(bar, 0))
        finally:  # after Ctrl-C what is certain by then
            if why.claims or why.explanation.regions is not None:
                _write([why.explanation], [], out, html)
                say(f"{why}{_written(out, html).replace(', ', chr(10), 1)}")
        return
    run = open_target(target, dataset, options, ids=query or (), limit=limit, quiet=quiet)
    place = dataset or Path(target)
    queries = run.queries[:SHOWN] if limit is None and not query else run.queries
    answers = run.pipeline.answer(queries)
    explained = [item for item in answers if item.text and item.documents]
    whys: list[Why] = []
    try:
        _explain(explained, run, how, ask, whys, quiet=quiet)
    except KeyboardInterrupt:
        if whys:
            _write([one.explanation for one in whys], _about(place, run, whys), out, html)
            count = f"{len(whys)} of {len(explained)} answers were explained"
            sys.stderr.write(f"\n{count}{_written(out, html)}\n")
        raise
    explanations = [one.explanation for one in whys]
    _write(explanations, _about(place, run, whys), out, html)
    say_understood(run)
    for explanation in explanations[:SHOWN]:
        shown = explanation
        if run.phrases is not None:
            shown = _in_words(explanation, explained, run.phrases)
        say("\n".join([*explanation_lines(shown), ""]))
    say_rest(len(explanations), "explanation", out)
    faithful = mean_rule_faithfulness(zip(explained, explanations, strict=True))
    if faithful.compared:
        say(str(faithful))
    _say_unanswered([item.query for item in answers if not (item.text and item.documents)])
    say_no_reader(answers, options)
    if len(queries) < len(run.queries):
        total = f"{len(run.queries):,}"
        say(f"these are the first {len(queries)} of {total} queries; --limit N explains more")
    if out is not None or html is not None:
        say(_written(out, html).removeprefix(", "))


def _explain(
    answers: Sequence[Answer],
    run: QueryRun,
    how: ExplainSettings,
    ask: AskOptions,
    whys: list[Why],
    *,
    quiet: bool,
) -> None:
    """Explain answers one by one, each added as soon as it is there; a bar counts the calls."""
    generator = run.pipeline.generator
    asked = generator if ask.votes == 1 else VotingGenerator(generator, ask.votes)
    if how.value != "verdict":  # said before any work is done
        refuse_without_scores(asked)
    most = sum(estimate(item.query.text, item.documents, how, own=True).most for item in answers)
    if not quiet:
        count = f"{len(answers):,} answer{'' if len(answers) == 1 else 's'}"
        tqdm.write(f"explaining {count}: at most {most:,} calls", file=sys.stderr)
    cache = AnswerCache(ask.cache) if ask.cache is not None else None
    with _bar(most, quiet=quiet) as bar:
        for item in answers:
            predicate = None
            if ask.predicate != "answer":
                known = {"answer": item.text, "answers": item.query.answers}
                predicate = predicate_of(ask.predicate, **known)  # type: ignore[arg-type]
            on_event = _counter(bar, sum(one.num_calls for one in whys))
            why = explain_answer(
                item, asked, how, predicate=predicate, cache=cache, on_event=on_event
            )
            if ask.votes == 1 and why.run is not None:  # it has just said something else
                refuse_another_answer(item.text, why.run.full_output)
            whys.append(why)


def _bar(most: int, *, quiet: bool) -> tqdm[Any]:
    hidden = not show_progress(quiet)
    return tqdm(total=most, desc="explaining", unit="call", disable=hidden, leave=False)


def _counter(bar: tqdm[Any], before: int) -> EventHook:
    """Moves a bar on by the calls of an explanation."""
    return lambda event: bar.update(before + event.run.function.calls - bar.n)


def _in_words(explanation: Explanation, answers: Sequence[Answer], phrases: Phrases) -> Explanation:
    """An explanation as the screen shows it, its rules in plain words; records keep theirs."""
    texts = {rule.id: phrases.rule(rule) for item in answers for rule in item.rules}
    traces = (replace(one, text=texts.get(one.id, one.text)) for one in explanation.rules)
    return replace(explanation, rules=tuple(traces))


def _write(
    explanations: Sequence[Explanation],
    about: Sequence[tuple[str, str]],
    out: Path | None,
    html: Path | None,
) -> None:
    """The records and the page, where they are wanted."""
    rows = [explanation.to_json() for explanation in explanations]
    if out is not None:
        write_jsonl(out, rows)
    if html is not None:
        from rulerag.evaluation.page import write_report

        title = "Why this answer" if len(rows) == 1 else "Why these answers"
        write_report(html, title=title, about=about, explanations=rows)


def _written(out: Path | None, html: Path | None) -> str:
    files = [str(file) for file in (out, html) if file is not None]
    return f", written to {' and '.join(files)}" if files else ""


def _about(place: Path, run: QueryRun, whys: Sequence[Why]) -> list[tuple[str, str]]:
    """What the page says about itself: dataset, settings, command and date."""
    dataset = run.dataset
    rows = [("dataset", f"{dataset.name}, {len(dataset.corpus):,} documents, {place}")]
    rows.append(("dataset fingerprint", run.pipeline.fingerprints["dataset"]))
    settings = run.config.without("dataset", "metadata", "expected").to_dict()
    rows += [(key, in_line(value)) for key, value in settings.items()]
    if whys:
        made = whys[0].explanation.settings
        rows.append(("explanation", in_line({k: v for k, v in made.items() if k in _SETTINGS})))
    rows.append(("command", command_line()))
    rows.append(("date", datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")))
    return rows


_SETTINGS = frozenset(ExplainSettings.model_fields)


def _say_unanswered(unanswered: Sequence[Query]) -> None:
    for query in unanswered:
        if query.refusal:
            say(f"answer: cannot be answered: {query.refusal}")
    queries = [query for query in unanswered if not query.refusal]
    if queries:
        ids = ", ".join(query.id for query in queries[:SHOWN])
        more = " …" if len(queries) > SHOWN else ""
        say(f"nothing to explain, because nothing found leads to an answer: {ids}{more}")
