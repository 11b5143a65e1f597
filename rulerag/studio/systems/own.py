"""Systems of one's own: from a form, with what is wrong at each field; from a session's file."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from rulerag.composition import Config
from rulerag.errors import ConfigError, UnknownNameError, did_you_mean
from rulerag.io import prepare_folder, write_jsonl, write_text
from rulerag.models import SHIPPED, known_models
from rulerag.studio.systems.reach import Reach
from rulerag.studio.systems.records import Message, Source
from rulerag.studio.systems.systems import SystemSettings, read_system

_READERS: tuple[dict[str, Any], ...] = (
    {"type": "reader", "name": "weak-reader", "title": "Weak reader (a rule, no model)"}
    | {"obeys_after": 1},
    {"type": "reader", "name": "strong-reader", "title": "Strong reader (a rule, no model)"},
    {"type": "model", "name": "smollm2", "title": "SmolLM2 135M"}
    | {"model": "smollm2-135m-instruct"},
)
_MINILM = {"name": "minilm", "title": "MiniLM L6", "model": "all-minilm-l6-v2"}


class FormText(Message):
    """A text of one's own, as it was handed over."""

    title: str
    text: str


class SystemForm(Message):
    """The fields of the form.

    Args:
        name: in links and files.
        title: for people; the name when empty.
        folder: a folder of texts, or a ``.jsonl`` file, that lies beside the systems' files; the
            texts themselves when empty.
        texts: the texts, in place of a folder.
        top_k: how many sources a question gets.
        url: of an OpenAI-compatible endpoint; rule-based readers answer when empty.
        model: the model's name there.
        instructions: the safety instructions.
        condition: what the instructions forbid: nothing, what a pattern finds, or kinds of
            :data:`~rulerag.studio.systems.predicates.SENSITIVE`.
        pattern: the pattern, in RE2's syntax.
        kinds: the kinds.
        words: the condition in words.
        payload: what an attacker wants to be said.
        questions: examples, one a line.
    """

    name: str = ""
    title: str = ""
    folder: str = ""
    texts: tuple[FormText, ...] = ()
    top_k: int = 5
    url: str = ""
    model: str = ""
    instructions: str = ""
    condition: Literal["none", "regex", "sensitive"] = "none"
    pattern: str = ""
    kinds: tuple[str, ...] = ()
    words: str = ""
    payload: str = ""
    questions: str = ""


class OwnSystems:
    """The files of one's own systems.

    Args:
        place: the folder that they lie in.
    """

    def __init__(self, place: Path) -> None:
        self.place = place

    def read(self) -> list[SystemSettings]:
        """Every system; :class:`ConfigError` where a file is wrong."""
        return [read_system(file) for file in sorted(self.place.glob("*.yaml"))]

    def folders(self) -> list[str]:
        """The folders and ``.jsonl`` files beside the systems' files, which a form may name."""
        there = sorted(self.place.iterdir()) if self.place.is_dir() else []
        return [one.name for one in there if one.is_dir() or one.suffix == ".jsonl"]

    def problems(self, form: SystemForm, taken: Collection[str]) -> dict[str, str]:
        """What is wrong, by field; nothing where a system can be made of it.

        Args:
            form: the form.
            taken: names that other systems have.
        """
        found: dict[str, str] = {}
        try:
            SystemSettings.model_validate(_values(form))
        except ValidationError as error:
            for one in error.errors():
                field = _field(tuple(map(str, one["loc"])))
                found.setdefault(field, _message(field, one["msg"]))
        for field, value in form:
            if isinstance(value, str) and "${" in value:
                found[field] = "cannot hold “${”, which files of settings read as a reference"
        if form.name in taken:
            found["name"] = f"{form.name!r} is taken; choose another name"
        if form.folder and form.folder not in self.folders():
            found["folder"] = "no folder and no .jsonl file of this name lies beside the systems"
        if not form.folder and not any(one.text.strip() for one in form.texts):
            found.setdefault("folder", "choose a folder, or hand over texts")
        if form.url and not form.model.strip():
            found["model"] = "the endpoint has to know which model is meant"
        return found

    def save(self, form: SystemForm) -> SystemSettings:
        """Write a form without problems as a system's file, its texts beside it.

        Returns:
            The system, as it is read from the file from now on.

        Raises:
            OutputError: the folder cannot be written.
        """
        return self._written(_values(form), [] if form.folder else form.texts)

    def adopt(self, row: Mapping[str, Any], sources: Sequence[Source]) -> SystemSettings:
        """Write the system of a session from elsewhere; its corpus is what was read there.

        Args:
            row: the system as a session's file has it.
            sources: of the session.

        Raises:
            ConfigError: it names models that are no known ones, or holds what no file may.
            UnknownNameError: it is a benchmark, whose folder has to be opened, or but a name.
            OutputError: the folder cannot be written.
        """
        name = str(row.get("name", ""))
        if not row.get("generators"):
            hint = "the session's file does not describe it"
            raise UnknownNameError(f"no system is called {name!r}", hint=hint)
        if {str(one.get("type")) for one in row["generators"]} & {"symbolic", "checkpoint"}:
            hint = "open its folder: rulerag studio --dataset FOLDER"
            raise UnknownNameError(f"no benchmark {name!r} is open here", hint=hint)
        # Whoever opens a file was not asked whether its endpoint may read what is asked here.
        here = [one for one in row["generators"] if one.get("type") != "endpoint"]
        row = {**row, "generators": here or [*_READERS]}
        if "${" in json.dumps(row):
            sentence = "holds “${”, which files of settings read as a reference"
            raise ConfigError(sentence, key="system")
        about = "Opened from a session's file: its corpus is what that session had read."
        check_foreign(SystemSettings.read({**row, "about": about}))
        texts = [FormText(title=one.title, text=one.text) for one in sources]
        return self._written({**row, "about": about}, texts)

    def _written(self, values: Mapping[str, Any], texts: Sequence[FormText]) -> SystemSettings:
        """A system's file, and its texts beside it; read as it will be again."""
        name, made = values["name"], dict(values)
        file = prepare_folder(self.place) / f"{name}.yaml"
        if texts:
            made["corpus"] = f"{name}.jsonl"
            rows = [
                {"id": f"text-{number}", "title": one.title, "text": one.text}
                for number, one in enumerate(texts, start=1)
            ]
            write_jsonl(self.place / made["corpus"], rows)
        write_text(file, Config(made).to_yaml())
        return read_system(file)


def check_foreign(settings: SystemSettings) -> None:
    """Refuse a system from elsewhere that names a path, or the variable of a key.

    Raises:
        ConfigError: names the first.
    """
    for key in ("corpus", "benchmark"):
        if getattr(settings, key):
            raise ConfigError("paths are read from files alone", key=key, hint="give documents")
    if any(getattr(one, "api_key_env", "") for one in settings.generators):
        raise ConfigError("is read from files alone", key="api_key_env", hint="leave it out")
    known = (*known_models(), *SHIPPED)
    models = [one.model for one in settings.generators if one.type in ("model", "checkpoint")]
    for model in (*models, *(one.model for one in settings.encoders)):
        if model not in known:
            hint = did_you_mean(model, known)
            raise ConfigError("folders are read from files alone", key="model", hint=hint)


def foreign(settings: SystemSettings, reach: Reach) -> SystemSettings:
    """The same system, its endpoints marked as named over the network.

    Raises:
        ConfigError: one lies where it may not be called.
    """
    made = settings.model_dump()
    for one in made["generators"]:
        if one["type"] == "endpoint":
            one["foreign"] = reach.check(one["url"])
    return SystemSettings.read(made)


def _values(form: SystemForm) -> dict[str, Any]:
    """The keys of the system's file."""
    readers: list[Mapping[str, Any]] = [*_READERS]
    if form.url:
        endpoint: dict[str, Any] = {"type": "endpoint", "name": "endpoint", "foreign": True}
        endpoint["url"] = form.url.strip()
        readers.insert(0, {**endpoint, "title": form.model or form.url, "model": form.model})
    condition: dict[str, Any] | None = None
    if form.condition == "regex":
        condition = {"type": "regex", "pattern": form.pattern, "words": form.words}
    elif form.condition == "sensitive":
        condition = {"type": "sensitive", "kinds": form.kinds, "words": form.words}
    return {
        "name": form.name,
        "title": form.title.strip() or form.name,
        "about": "A system of your own.",
        "corpus": form.folder,
        "top_k": form.top_k,
        "instructions": form.instructions,
        "condition": condition,
        "payload": form.payload,
        "questions": tuple(one.strip() for one in form.questions.splitlines() if one.strip()),
        "generators": tuple(readers),
        "encoders": (_MINILM,),
    }


def _field(where: tuple[str, ...]) -> str:
    """The field of the form behind a place in the settings."""
    inner = {one for one in where if one in ("url", "model", "pattern", "kinds", "words")}
    return next(iter(inner), where[0] if where else "name")


def _message(field: str, message: str) -> str:
    known = {
        "name": "small letters, digits and hyphens, 40 at most, the first a letter or digit",
        "url": "an address that begins with http:// or https://",
        "top_k": "a whole number from 1 to 500",
    }
    return known.get(field, message.removeprefix("Value error, "))
