"""The command ``answer``, and how questions are asked of a dataset."""

from __future__ import annotations

import operator
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rulerag.assembly import (
    FACTS_ALONE,
    following_all,
    make_generator,
    make_pipeline,
    open_dataset,
    preset,
)
from rulerag.cli.common import (
    SHOWN,
    Output,
    PipelineOptions,
    QueryRun,
    RayOptions,
    check_outputs,
    choose_queries,
    is_experiment,
    over_index,
    percent,
    say,
    show_progress,
    spread,
)
from rulerag.composition import Config, check_choice
from rulerag.errors import ConfigError, EmptyDataError
from rulerag.io import read_jsonl, write_json, write_jsonl
from rulerag.kg import Phrases
from rulerag.kg.grounding import statement_lines
from rulerag.linking import INVERSE, LinkedQuestion, QueryWriter, QuestionLinker, Reading
from rulerag.parallel import RayBackend
from rulerag.ruleqa import RuleQADataset, is_benchmark
from rulerag.text import exact_match
from rulerag.types import Answer, Query

# Other readings of a question that are named, and how much of a question is shown.
_OTHERS, _WIDTH = 4, 400


def answer(
    target: str,
    /,
    *,
    dataset: Path | None = None,
    query: list[str] | None = None,
    out: Output | None = None,
    options: PipelineOptions = PipelineOptions(),
    limit: int | None = None,
    cluster: RayOptions = RayOptions(),
    quiet: bool = False,
) -> None:
    """Answer a question, or the queries of a dataset, with the evidence.

    Args:
        target: a dataset folder, an experiment file, or a question in quotes.
        dataset: what a question is asked of: a dataset folder or experiment.
        query: a query id; repeatable.
        out: answers.jsonl to write.
        options: how documents are found and read.
        limit: only the first N queries.
        cluster: where the queries of a dataset are answered.
        quiet: no progress bars.

    Example:
        rulerag answer "Time 2014-12-01 what does China Consult ?" --dataset runs/ruleqa-i
    """
    check_outputs(out)
    chosen: Any = {"ids": query or (), "limit": limit, "quiet": quiet}
    backend = cluster.backend() if dataset is None and Path(target).exists() else None
    run = open_target(target, dataset, options, backend=backend, **chosen)
    answers = run.pipeline.answer(run.queries)
    if out is not None:
        write_jsonl(out, (item.to_json() for item in answers))
    say_understood(run)
    for item in answers[:SHOWN]:
        text = item.query.text if run.understood is None else run.understood.text
        say(_shown(item, text, run.phrases))
    say_no_reader(answers, options)
    say_rest(len(answers), "answer", out)
    known = [item for item in answers if item.query.answers]
    if known:
        right = sum(exact_match(item.text, item.query.answers, item.values) for item in known)
        plural = "query" if len(known) == 1 else "queries"
        say(f"exact match {percent(right / len(known))} % of {len(known):,} {plural}")


def export(
    file: Path,
    /,
    *,
    out: Output | None = None,
    to: str | None = None,
    format: str = "spans",
    project: str = "rulerag",
) -> None:
    """Hand answers or explanations to other programs: OpenTelemetry spans, samples of RAGAS.

    Args:
        file: answers.jsonl or explanations.jsonl.
        out: the file to write: spans as JSON, samples as JSON lines.
        to: send spans to an address, such as http://localhost:6006/v1/traces of Phoenix.
        format: spans or ragas.
        project: what Phoenix lists the spans under.

    Example:
        rulerag export answers.jsonl --format ragas --out samples.jsonl
    """
    # Imported here: most commands hand on nothing.
    from rulerag.integrations import otlp_spans, ragas_samples, send_spans

    check_choice("format", format, ("spans", "ragas"))
    check_outputs(out)
    if out is None and to is None:
        raise ConfigError("neither a file nor a server", key="out", hint="--out FILE, or --to URL")
    if to is not None and format != "spans":
        raise ConfigError("only spans are sent", key="to", hint="--format spans, or --out FILE")
    rows = list(read_jsonl(file))
    if not rows:
        raise EmptyDataError("holds no answer", path=file)
    if format == "ragas" and out is not None:
        write_jsonl(out, ragas_samples(rows))
    else:
        spans = otlp_spans(rows, project=project)
        if out is not None:
            write_json(out, spans)
        if to is not None:
            send_spans(spans, to)
    say(f"{len(rows):,} answers → {', '.join(str(one) for one in (out, to) if one is not None)}")


# --- the dataset, the queries, the pipeline -----


def open_target(
    target: str,
    dataset: Path | None,
    options: PipelineOptions,
    *,
    ids: Sequence[str],
    limit: int | None,
    quiet: bool,
    backend: RayBackend | None = None,
) -> QueryRun:
    """The question or else the chosen queries, and the pipeline that answers them.

    Args:
        target: a dataset folder or an experiment file; the question where ``dataset`` is set.
        dataset: the folder or file that a question belongs to.
        options: how documents are found and read.
        ids: of the queries.
        limit: only the first so many.
        quiet: no progress bars.
        backend: a cluster that answers; this process when None.

    Raises:
        ConfigError: the target is neither, or a question comes with a choice of queries.
    """
    if _check_target(target, dataset, options, ids, limit):
        # Imported here: what reads texts is of no use to other questions.
        from rulerag.cli.corpora import open_texts

        return open_texts(target, options)
    # The encoder may be there to link a question alone.
    linked = dataset is not None and options.retriever != "dense"
    config = (replace(options, encoder=None) if linked else options).config(dataset or Path(target))
    data = open_dataset(config)
    understood = None
    if dataset is None:
        queries = choose_queries(data, config, ids=ids, limit=limit)
    else:
        (question,) = _linker(data, config, options).link([target])
        queries = [_query_of(question, config)]
        if not question.exact:
            understood = question
            config = following_all(config) if question.readings else config
    data = over_index(data, options.index, config)
    progress = show_progress(quiet) and dataset is None
    how: Any = {"index": options.index, "progress": progress, "keep_union": False}
    pipeline: Any = (
        make_pipeline(config, data, **how)
        if backend is None
        else spread(config, data, backend, **how)
    )
    return QueryRun(config, data, queries, pipeline, understood)


def _check_target(
    target: str,
    dataset: Path | None,
    options: PipelineOptions,
    ids: Sequence[str],
    limit: int | None,
) -> bool:
    """Whether an index of one's own texts is asked.

    Raises:
        ConfigError: the target is neither a question nor a dataset, or an option does not fit it.
    """
    if options.language_model is not None and dataset is None:
        raise ConfigError(
            "writes what a question about a dataset means",
            key="language_model",
            hint="ask one in words with --dataset FOLDER, or leave it out",
        )
    there = is_experiment(target) or _exists(target)
    of_texts = dataset is None and options.index is not None and not there
    if (of_texts or dataset is not None) and not target.strip():
        raise ConfigError("the question is empty", hint="ask one in words, in quotes")
    if dataset is None:
        if not (of_texts or is_experiment(target) or _is_dataset(target)):
            raise ConfigError(
                f"{target!r} is no dataset folder and no experiment file",
                hint="for a question, name the dataset too: --dataset FOLDER, or an index of your "
                "own texts: --index FOLDER",
            )
        return of_texts
    if _exists(target):
        raise ConfigError(
            f"{target!r} is no question", hint="leave out --dataset to ask its queries"
        )
    for key, value in (("query", ids), ("query_set", options.query_set), ("limit", limit)):
        if value:
            raise ConfigError(
                "chooses queries of a dataset, and a question was asked",
                key=key,
                hint="leave out the question or this option",
            )
    return False


def _is_dataset(target: str) -> bool:
    return _exists(target) and (Path(target).is_dir() or is_benchmark(target))


def _exists(target: str) -> bool:
    try:
        return bool(target) and Path(target).exists()
    except OSError:  # a question may be longer than a file name can be
        return False


def _linker(dataset: RuleQADataset, config: Config, options: PipelineOptions) -> QuestionLinker:
    """What finds the meaning of a question."""
    place = str(config.get("dataset", {}).get("path", "")) or None
    encoder = None
    if options.encoder is not None:
        from rulerag.retrieval.dense.encoders import load_encoder

        encoder = load_encoder(options.encoder)
    model = None
    if options.language_model is not None:
        name, asked = options.language_model, QueryWriter.PROMPT
        model = make_generator(preset("", generator=name, model_settings=asked))
    return QuestionLinker.of_folder(place, dataset, encoder=encoder, language_model=model)


def _query_of(question: LinkedQuestion, config: Config) -> Query:
    """The query of a question; a prediction where the configuration says that they are."""
    query = question.query()
    prediction = config.get("dataset", {}).get("prediction")
    if prediction is None or query.refusal:
        return query
    return replace(query, prediction=prediction, meaning=None if prediction else query.meaning)


# --- what is printed -----


def say_no_reader(answers: Sequence[Answer], options: PipelineOptions) -> None:
    """Say that texts need a language model, where a reader of facts found texts alone."""
    prose = any(item.documents for item in answers) and not any(
        scored.document.facts for item in answers for scored in item.documents
    )
    if prose and options.generator in (None, *FACTS_ALONE) and not any(a.text for a in answers):
        say(
            "no reader: texts are read by a language model, --generator smollm2-135m-instruct or "
            "another of `rulerag models list`"
        )


def say_understood(run: QueryRun) -> None:
    """Say what a question in one's own words was taken to mean; nothing of any other."""
    if run.understood is not None and not run.understood.refusal:
        say("\n".join(_understood(run.understood, run.dataset)))


def _understood(question: LinkedQuestion, dataset: RuleQADataset) -> list[str]:
    """What a question was taken to mean, and what else it could mean."""
    others = [one for one in question.readings[1:] if percent(one.probability) != "0.0"][:_OTHERS]
    lines = [f"understood: {question.words}"]
    if others:
        lines.append("  it could also mean:")
        lines += [f"    {_reading_line(one, dataset)}" for one in others]
    return lines


def _reading_line(reading: Reading, dataset: RuleQADataset) -> str:
    """A reading in words, with ``?`` for what is asked, and its probability."""
    ends = [reading.query.subject_words, "?"]
    ends = ends[::-1] if reading.asks_for_subject else ends
    words = dataset.phrases.say(reading.relation, *ends)
    return f"{words}  [{percent(reading.probability)} %]"


def _legible(text: str) -> str:
    """A question as a terminal can show it: on one line, not too long, no control characters."""
    plain = "".join(letter if letter.isprintable() else " " for letter in text)
    return textwrap.shorten(plain, _WIDTH, placeholder=" …") if len(plain) > _WIDTH else plain


def _shown(item: Answer, question: str, phrases: Phrases | None) -> str:
    """An answer, what is stated and what rules say of it, and its documents with their rules."""
    lines = [
        _legible(question),
        f"  answer: {_number(item)}{item.text or '(none: nothing found leads to one)'}",
    ]
    if item.query.answers:
        lines.append(f"  accepted: {', '.join(item.query.answers)}")
    stating = {rule.id for rule in item.rules if rule.restates_head}
    found = dict.fromkeys(
        rule_id
        for scored in item.documents
        for rule_id in scored.rule_ids
        if rule_id not in stating
    )
    names = {rule_id: f"R{number}" for number, rule_id in enumerate(found, start=1)}
    say_rule = operator.attrgetter("text") if phrases is None else phrases.rule
    texts = {rule.id: say_rule(rule) for rule in item.rules}
    places = {scored.document.id: f"[{scored.rank}]" for scored in item.documents}
    # Several who stand in a relation to one, all of whom are asked for, are no contradiction.
    plural = len(item.values) > 1 and item.query.relation.startswith(INVERSE)
    record = {**item.stated, "functional": False} if plural else item.stated
    stated = statement_lines(record, item.query, item.text, places, names)
    lines += [f"  {line}" for line in stated]
    lines += _equally_likely(item)
    if names:
        lines.append("  rules that found documents:")
        lines += [f"    {name:4}{texts.get(rule_id, rule_id)}" for rule_id, name in names.items()]
    best = item.completion.candidates[0] if item.completion.candidates else None
    support = set(best.document_ids) if best else set()
    led = [rule for rule in item.rules if best is not None and rule.id in best.rule_ids]
    led = [rule for rule in led if not rule.restates_head]
    if phrases is not None and led:
        because = phrases.because(led[0], item.query.subject_words, item.text)
        lines.insert(2, f"  {because}")
    if not item.documents and item.query.refusal:
        return "\n".join(lines) + "\n"
    if not item.documents:
        lines.append("  no document was found")
    else:
        lines.append("  documents (* leads to the answer):")
    for scored in item.documents:
        mark = "*" if scored.document.id in support else " "
        rules = ", ".join(names[rule_id] for rule_id in scored.rule_ids if rule_id in names)
        place = places[scored.document.id]
        lines.append(
            f"  {mark} {place:<5}{scored.document.text}" + (f"  [{rules}]" if rules else "")
        )
        lines += [f"         {one.scorer}: {one.why}" for one in scored.support[:1]]
    return "\n".join(lines) + "\n"


def _number(item: Answer) -> str:
    """How many answers there are, before several of them."""
    number = len(item.values)
    return f"{number}: " if number > 1 else ""


def _equally_likely(item: Answer) -> list[str]:
    """Candidates of scorers that are as likely as the answer, which comes first by a rule alone."""
    best, *others = item.completion.candidates or (None,)
    if best is None or not any(scored.support for scored in item.documents):
        return []
    equal = [one.text for one in others if one.score == best.score and one.text != best.text]
    return [f"  equally likely: {', '.join(equal)}"] if equal else []


def say_rest(count: int, what: str, out: Path | None) -> None:
    """Say how many more there are than were shown, and where they are."""
    if count > SHOWN:
        plural = "" if count == SHOWN + 1 else "s"
        where = f"all are in {out}" if out else "--out FILE writes all"
        say(f"… and {count - SHOWN:,} more {what}{plural}; {where}")
