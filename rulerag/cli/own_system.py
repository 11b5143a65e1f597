"""Answers of a system of one's own: a function, a chain, a model or a logged run."""

from __future__ import annotations

import importlib
import inspect
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from cyclopts import Parameter
from tqdm import tqdm

from rulerag.cli.common import PipelineOptions
from rulerag.errors import ConfigError, DataFormatError, EmptyDataError, did_you_mean
from rulerag.explanation.explaining import ExplainSettings, Why, estimate, prepare
from rulerag.explanation.probing import AnswerCache, Predicate, VotingGenerator, predicate_of
from rulerag.generation import OpenAICompatibleGenerator
from rulerag.integrations import Trace, read_trace
from rulerag.io import read_json, read_text

_TEXTS = (".txt", ".md", ".rst")


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class OwnSystem:
    """Documents and a system of one's own, which takes the place of a dataset and its pipeline.

    Args:
        documents: explain your own: a folder of text files, a .jsonl or .json file of documents
            (its objects are given to your function as they are), or a text file (documents
            between empty lines, else one a line).
        answerer: MODULE:NAME of your function of a question and a list of documents, or of your
            chain, which finds documents itself; chain.py:answer works too.
        endpoint: the address of an OpenAI-compatible server that answers, with --model.
        model: the model's name at the endpoint.
    """

    documents: Path | None = None
    answerer: str | None = None
    endpoint: str | None = None
    model: str | None = None


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class AskOptions:
    """How the generator is asked, and what of it.

    Args:
        predicate: what must hold: answer, exact, correct, contains:TEXT, regex:PATTERN.
        votes: ask each probe so many times and take the most frequent answer.
        cache: where answers are kept; nothing there is asked again.
    """

    predicate: str = "answer"
    votes: int = 1
    cache: Path | None = None


def is_own(target: str, own: OwnSystem) -> bool:
    """Whether a system of one's own is meant, by its options or by the file of a logged run."""
    return bool(own.documents or own.answerer or own.endpoint or own.model) or _is_trace(target)


def refuse_dataset_options(options: PipelineOptions, **given: object) -> None:
    """Refuse options that count for datasets alone.

    Raises:
        ConfigError: one of them is set.
    """
    wrong = [
        field.name
        for field in fields(options)
        if field.name != "generator" and getattr(options, field.name) is not None
    ]
    wrong += [name for name, value in given.items() if value]
    if wrong:
        raise ConfigError(
            "is for datasets, and your own system is explained", key=wrong[0], hint="leave it out"
        )


def prepare_own(
    target: str,
    own: OwnSystem,
    how: ExplainSettings,
    ask: AskOptions,
    generator: str | None,
    *,
    quiet: bool,
) -> tuple[Why, int]:
    """One answer of one's own system to explain, and how many calls that takes at most.

    What it will cost is said; nothing is asked yet, but a chain is run once.

    Args:
        target: the question; the file of a logged run.
        own: documents and what answers.
        how: how it is explained.
        ask: how it is asked, and what of it; the predicate ``answer`` for claim by claim.
        generator: the name of a local model.
        quiet: no estimate.

    Raises:
        ConfigError: an option is missing, wrong, or does not go with another one.
        DataError: the documents cannot be read.
        ExplanationError: the system fails on the whole prompt.
    """
    trace = _is_trace(target)
    question = "" if trace else target
    documents = None if own.documents is None else _read_documents(own.documents)
    answers = _answers(own, how.workers, ask.votes, generator, trace=trace)
    if trace:
        answers = Trace(read_trace(target), answers)
    elif documents is not None and not _is_records(own.documents) and callable(answers):
        answers = _of_texts(answers)
    given = _given(answers, documents) if _is_records(own.documents) else ""
    why = prepare(
        answers,
        question,
        documents,
        how,
        predicate=_predicate(ask.predicate),
        cache=None if ask.cache is None else AnswerCache(ask.cache),
    )
    costs = estimate(question, why.documents, how)
    if not quiet:
        tqdm.write(f"explaining 1 answer: {costs}{given}", file=sys.stderr)
    return why, costs.most


def _predicate(word: str) -> Predicate | None:
    """The condition of one's own; None where claims are explained."""
    if word == "answer":
        return None
    if word.removeprefix("not ") in ("answer", "exact", "correct"):
        raise ConfigError(
            f"{word!r} is for datasets", key="predicate", hint="contains:TEXT, or regex:PATTERN"
        )
    return predicate_of(word)


# --- what answers ----


def _answers(
    own: OwnSystem, workers: int, votes: int, generator: str | None, *, trace: bool
) -> Any:
    """The function, chain or model that answers."""
    chosen = {
        "answerer": own.answerer,
        "endpoint": own.endpoint,
        "generator": generator,
    }
    named = [name for name, value in chosen.items() if value]
    if len(named) != 1:
        what = f"{' and '.join(named)} were given" if named else "nothing answers"
        hint = "one of --answerer MODULE:FUNCTION, --endpoint URL --model NAME, --generator NAME"
        raise ConfigError(what, key=named[-1] if named else "answerer", hint=hint)
    if bool(own.endpoint) != bool(own.model):
        raise ConfigError(
            "an endpoint and a model go together",
            key="model" if own.endpoint else "endpoint",
            hint="--endpoint http://localhost:8000/v1 --model NAME",
        )
    if own.documents is None and not trace and not own.answerer:
        raise ConfigError(
            "a model needs documents to read", key="documents", hint="--documents FOLDER or FILE"
        )
    if trace and own.documents is not None:
        raise ConfigError(
            "a logged run has its own documents", key="documents", hint="leave it out"
        )
    if own.answerer:
        found = _loaded(own.answerer)
        if own.documents is None and not trace and inspect.isroutine(found):
            hint = "--documents FOLDER or FILE, or the name of a chain, which finds them itself"
            raise ConfigError("a function needs documents", key="documents", hint=hint)
        return found
    if trace and generator:
        hint = "--endpoint URL --model NAME, or --answerer with a function of messages"
        raise ConfigError("takes no logged messages", key="generator", hint=hint)
    return _model(own, workers, votes, generator, trace=trace)


def _model(own: OwnSystem, workers: int, votes: int, name: str | None, *, trace: bool) -> Any:
    """A generator with the prompt for any question; for a logged run a function of messages."""
    generator: Any
    if own.endpoint and own.model:
        generator = OpenAICompatibleGenerator(
            own.endpoint, own.model, template="open", max_new_tokens=512, concurrency=workers
        )
        if trace:
            return generator.chat
    else:
        from rulerag.generation.huggingface import HuggingFaceGenerator

        generator = HuggingFaceGenerator(name, template="open", dtype="fast", max_new_tokens=64)
    return VotingGenerator(generator, votes) if votes > 1 else generator


def _loaded(place: str) -> Any:
    """What ``module:name`` or ``file.py:name`` names, looked for from the working folder first.

    Raises:
        ConfigError: the module cannot be imported, or holds no such name.
    """
    module, colon, name = place.rpartition(":")
    if not colon or not module or not name:
        hint = "module:function, such as my_rag:answer, or chain.py:answer"
        raise ConfigError(f"{place!r} names no function", key="answerer", hint=hint)
    try:
        held = _imported(module)
    except Exception as error:
        where = f"{module!r} cannot be imported: {type(error).__name__}: {error}"
        hint = "run it from the folder of your module, or name the file: path/to/chain.py:answer"
        raise ConfigError(where, key="answerer", hint=hint) from error
    for part in name.split("."):
        if not hasattr(held, part):
            known = [word for word in vars(held) if not word.startswith("_")] if vars(held) else []
            hint = did_you_mean(part, known)
            raise ConfigError(f"{module} holds no {part!r}", key="answerer", hint=hint)
        held = getattr(held, part)
    return held


def _imported(module: str) -> Any:
    if not module.endswith(".py"):
        if "" not in sys.path:
            sys.path.insert(0, "")
        return importlib.import_module(module)
    path = Path(module).resolve()
    if not path.is_file():
        raise FileNotFoundError("there is no such file")
    sys.path.insert(0, str(path.parent))
    return importlib.import_module(path.stem)


def _of_texts(answer: Callable[..., Any]) -> Callable[..., Any]:
    """A function that takes texts as one of documents with titles."""

    def of_documents(question: str, documents: Sequence[Any]) -> Any:
        return answer(question, [one["text"] for one in documents])

    return of_documents


# --- documents ----


def _is_trace(target: str) -> bool:
    return target.endswith((".json", ".jsonl")) and Path(target).is_file()


def _is_records(path: Path | None) -> bool:
    """Whether documents are JSON values, which the function gets as they are."""
    return path is not None and path.suffix in (".json", ".jsonl")


def _read_documents(path: Path) -> list[Any]:
    """Documents with texts and titles, or the JSON values of a file.

    Raises:
        DataError: there is no such file, or it cannot be read. EmptyDataError: it holds none.
    """
    found: list[Any]
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.suffix.lower() in _TEXTS)
        names = [str(file.relative_to(path)) for file in files]
        texts = map(read_text, files)
        found = [{"title": n, "text": t.strip()} for n, t in zip(names, texts, strict=True)]
    elif path.suffix == ".jsonl":
        found = [_json_line(path, number, line) for number, line in _lines(path)]
    elif path.suffix == ".json":
        value = read_json(path)
        if not isinstance(value, list):
            what = f"expected a list of documents, found {type(value).__name__}"
            raise DataFormatError(what, path=path)
        found = value
    else:
        text = read_text(path)
        blocks = [block.strip() for block in text.replace("\r\n", "\n").split("\n\n")]
        blocks = [block for block in blocks if block]
        if len(blocks) == 1:
            blocks = [line.strip() for line in text.splitlines() if line.strip()]
        found = [{"text": block} for block in blocks]
    if not found:
        kinds = ", ".join(_TEXTS)
        hint = f"text files ({kinds})" if path.is_dir() else "at least one document"
        raise EmptyDataError("no document is there", path=path, hint=hint)
    return found


def _given(answers: Any, documents: Sequence[Any] | None) -> str:
    """What a function of one's own gets for a document, where that is not a text."""
    first = documents[0] if documents else ""
    if not inspect.isroutine(answers) or not isinstance(first, dict):
        return ""
    words = ", ".join(sorted(map(str, first)))
    return f"; it is given documents as they are in the file: dicts with {words}"


def _lines(path: Path) -> list[tuple[int, str]]:
    lines = enumerate(read_text(path).split("\n"), start=1)
    return [(number, line) for number, line in lines if line.strip()]


def _json_line(path: Path, number: int, line: str) -> Any:
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        what = f"not JSON ({error.msg})"
        raise DataFormatError(what, path=path, line=number, hint='{"text": "…"}') from error
