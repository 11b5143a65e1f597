"""The command ``answer``, and how questions are asked of a dataset."""

from __future__ import annotations

import operator
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from rulerag.cli.common import (
    FACTS_ALONE,
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
    scoring_model,
    show_progress,
)
from rulerag.cli.corpora import open_own
from rulerag.errors import ConfigError
from rulerag.io import write_jsonl
from rulerag.kg import Calendar, Phrases
from rulerag.kg.grounding import statement_lines
from rulerag.linking import LinkedQuestion, QuestionLinker, Reading
from rulerag.retrieval.dense.encoders import load_encoder
from rulerag.ruleqa import RuleQADataset, is_benchmark
from rulerag.text import exact_match
from rulerag.types import Answer, Query

# Other readings of a question and relations that are named, and how much of a question is shown.
_OTHERS, _RELATIONS, _WIDTH = 4, 5, 400

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
    phrases = own_phrases(dataset or Path(target), opened)
    tell_understood(opened)
    for item in answers[:SHOWN]:
        say(_shown(item, phrases))
    tell_no_reader(answers, options)
    tell_rest(len(answers), "answer", out)
    known = [item for item in answers if item.query.answers]
    if known:
        right = sum(exact_match(item.text, item.query.answers) for item in known)
        plural = "query" if len(known) == 1 else "queries"
        say(f"exact match {percent(right / len(known))} % of {len(known):,} {plural}")


def tell_no_reader(answers: Sequence[Answer], options: PipelineOptions) -> None:
    """Say that texts need a language model, where a reader of facts found texts alone."""
    prose = any(item.documents for item in answers) and not any(
        scored.document.facts for item in answers for scored in item.documents
    )
    if prose and options.generator in (None, *FACTS_ALONE) and not any(a.text for a in answers):
        say(
            "no reader: texts are read by a language model, --generator smollm2-135m-instruct or "
            "another of `rulerag models list`"
        )


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
    if options.language_model is not None and dataset is None:
        raise ConfigError(
            "weighs what a question about a dataset may mean",
            key="language_model",
            hint="ask one in words with --dataset FOLDER, or leave it out",
        )
    own = is_own(target, dataset, options)
    if (own or dataset is not None) and not target.strip():
        raise ConfigError("the question is empty", hint="ask one in words, in quotes")
    if own:
        return open_own(target, options)
    if dataset is None:
        if not is_experiment(target) and not _is_dataset(target):
            raise ConfigError(
                f"{target!r} is no dataset folder and no experiment file",
                hint="for a question, name the dataset too: --dataset FOLDER, or an index of your "
                "own texts: --index FOLDER",
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
    encoder = options.encoder if dataset is not None else None
    if encoder is not None and options.retriever != "dense":
        options = replace(options, encoder=None)  # it links the question alone
    config = options.config(dataset or Path(target))

    def choose(opened: RuleQADataset) -> list[Query]:
        return choose_queries(opened, config, ids=ids or (), limit=limit)

    def link(opened: RuleQADataset) -> LinkedQuestion:
        model = None if encoder is None else load_encoder(encoder)
        judge = None
        if options.language_model is not None:
            judge = scoring_model(options.language_model)
        place = str(config.get("dataset", {}).get("path", "")) or None
        linker = QuestionLinker.of_folder(place, opened, encoder=model, language_model=judge)
        (found,) = linker.link([target])
        return found

    progress = show_progress(quiet) and dataset is None
    asked = choose if dataset is None else link
    return open_pipeline(config, asked, index=options.index, progress=progress, keep_union=False)


def is_own(target: str, dataset: Path | None, options: PipelineOptions) -> bool:
    """Whether a question is asked of an index of one's own texts."""
    there = is_experiment(target) or _exists(target)
    return dataset is None and options.index is not None and not there


def _is_dataset(target: str) -> bool:
    return _exists(target) and (Path(target).is_dir() or is_benchmark(target))


def _exists(target: str) -> bool:
    try:
        return bool(target) and Path(target).exists()
    except OSError:  # a question may be longer than a file name can be
        return False


def own_phrases(place: Path, opened: Opened) -> Phrases | None:
    """How rules are said in words.

    A question in one's own words is answered in words; else rules are shown in words where the
    dataset folder has templates of its own, and in the paper's form where it has none.

    Args:
        place: the dataset folder, or an experiment file.
        opened: what was opened.
    """
    labels = opened.dataset.labels["relations"]
    folder = place if place.is_dir() else None
    phrases = Phrases.of_folder(folder, lambda name: labels.get(name, name))
    return phrases if phrases.own or opened.understood is not None else None


def tell_understood(opened: Opened) -> None:
    """Say what a question in one's own words was taken to mean; nothing of any other."""
    if opened.understood is not None:
        say(_understood(opened.understood, opened))


def _understood(question: LinkedQuestion, opened: Opened) -> str:
    """What a question was taken to mean, what else it could mean, and who is meant by a name."""
    if not question.readings:
        near = " or ".join(map(repr, question.nearest))
        lines = ["nobody known is mentioned" + (f"; nearest names: {near}" if near else "")]
        lines.append("plain retrieval was used, without rules")
        return "\n".join(lines)
    labels = opened.dataset.labels["relations"]
    folder = Path(str(opened.config.get("dataset", {}).get("path", "")))
    phrases = Phrases.of_folder(folder, lambda name: labels.get(name, name))
    best, *others = question.readings
    lines = [f"understood: {_said(best, phrases, opened)}"]
    if best.mention is not None and not best.mention.exact:
        start, end = best.mention.span
        lines.append(f"  {question.text[start:end]!r} was read as {best.query.subject_words!r}")
    if question.guessed:
        known = sorted({labels.get(name, name) for name in opened.dataset.rules.head_relations})
        some = ", ".join(map(repr, known[:_RELATIONS])) or "none"
        lines.append(
            "  no word of the question names a known relation: what is asked is guessed "
            f"(English is understood; some relations: {some})"
        )
    choices = question.choices()
    if choices:
        names = ", ".join(f"{one.query.subject_words} ({one.query.subject})" for one in choices)
        lines.append(f"  the name is that of several, name one of them in full: {names}")
    told = [one for one in others if percent(one.probability) != "0.0"][:_OTHERS]
    if told:
        lines.append("  it could also mean:")
        lines += [f"    {_said(one, phrases, opened)}" for one in told]
    return "\n".join(lines)


def _said(reading: Reading, phrases: Phrases, opened: Opened) -> str:
    """A reading in words, with ``?`` for what is asked, its time and its probability."""
    query, ends = reading.query, [reading.query.subject_words, "?"]
    said = phrases.say(reading.relation, *(ends[::-1] if reading.asks_for_subject else ends))
    time = ""
    if query.timestamp is not None and opened.dataset.calendar:
        time = f" ({Calendar(**opened.dataset.calendar).format(query.timestamp)})"
    return f"{said}{time}  [{percent(reading.probability)} %]"


def _legible(text: str) -> str:
    """A question as a terminal can show it: on one line, not too long, no control characters."""
    plain = "".join(letter if letter.isprintable() else " " for letter in text)
    return textwrap.shorten(plain, _WIDTH, placeholder=" …") if len(plain) > _WIDTH else plain


def _shown(item: Answer, phrases: Phrases | None = None) -> str:
    """An answer, what is stated and what rules say of it, and its documents with their rules."""
    lines = [
        _legible(item.query.text),
        f"  answer: {item.text or '(none: nothing found leads to one)'}",
    ]
    if item.query.answers:
        lines.append(f"  accepted: {', '.join(item.query.answers)}")
    found = dict.fromkeys(rule_id for scored in item.documents for rule_id in scored.rule_ids)
    names = {rule_id: f"R{number}" for number, rule_id in enumerate(found, start=1)}
    say_rule = operator.attrgetter("text") if phrases is None else phrases.rule
    texts = {rule.id: say_rule(rule) for rule in item.rules}
    places = {scored.document.id: f"[{scored.rank}]" for scored in item.documents}
    stated = statement_lines(item.stated, item.query, item.text, places, names)
    lines += [f"  {line}" for line in stated]
    lines += _equally_likely(item)
    if names:
        lines.append("  rules that found documents:")
        lines += [f"    {name:4}{texts.get(rule_id, rule_id)}" for rule_id, name in names.items()]
    best = item.completion.candidates[0] if item.completion.candidates else None
    support = set(best.document_ids) if best else set()
    led = [rule for rule in item.rules if best is not None and rule.id in best.rule_ids]
    if phrases is not None and led:
        because = phrases.because(led[0], item.query.subject_words, item.text)
        lines.insert(2, f"  {because}")
    if not item.documents:
        lines.append("  no document was found")
    else:
        lines.append("  documents (* leads to the answer):")
    for scored in item.documents:
        mark = "*" if scored.document.id in support else " "
        rules = ", ".join(names[rule_id] for rule_id in scored.rule_ids)
        place = places[scored.document.id]
        lines.append(
            f"  {mark} {place:<5}{scored.document.text}" + (f"  [{rules}]" if rules else "")
        )
        lines += [f"         {one.scorer}: {one.why}" for one in scored.support[:1]]
    return "\n".join(lines) + "\n"


def _equally_likely(item: Answer) -> list[str]:
    """Candidates of scorers that are as likely as the answer, which comes first by a rule alone."""
    best, *others = item.completion.candidates or (None,)
    if best is None or not any(scored.support for scored in item.documents):
        return []
    equal = [one.text for one in others if one.score == best.score and one.text != best.text]
    return [f"  equally likely: {', '.join(equal)}"] if equal else []


def tell_rest(count: int, what: str, out: Path | None) -> None:
    """Say how many more there are than were shown, and where they are."""
    if count > SHOWN:
        plural = "" if count == SHOWN + 1 else "s"
        where = f"all are in {out}" if out else "--out FILE writes all"
        say(f"… and {count - SHOWN:,} more {what}{plural}; {where}")
