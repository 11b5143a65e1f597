"""Edits of a session's state: each makes a new one, so that every edit can be taken back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rulerag.errors import ConfigError, UnknownNameError, did_you_mean
from rulerag.studio.service.records import (
    Add,
    Change,
    Configure,
    Delete,
    Edit,
    Inject,
    Limits,
    Move,
    Source,
    State,
)
from rulerag.studio.systems import OpenSystem, injected


def changed(state: State, change: Change, system: OpenSystem, limits: Limits) -> State:
    """The state after one edit.

    Raises:
        UnknownNameError: there is no such source, attack or generator.
        ConfigError: a text, a question or the number of sources is over its limit.
    """
    made = _EDITS[type(change)](state, change, system)
    check(made, limits)
    return made


def check(state: State, limits: Limits) -> None:
    """Refuse a state that is over a limit.

    Raises:
        ConfigError: names the limit.
    """
    if len(state.sources) > limits.sources:
        what = f"{len(state.sources):,} sources are more than {limits.sources:,}"
        raise ConfigError(what, key="sources", hint="delete some")
    for name, text, most in (
        ("question", state.question, limits.question),
        ("instructions", state.instructions, limits.question * 4),
        *(("text", one.text + one.title, limits.characters) for one in state.sources),
    ):
        if len(text) > most:
            what = f"has {len(text):,} characters, at most {most:,}"
            raise ConfigError(what, key=name, hint="cut it into several" * (name == "text"))


def _edit(state: State, change: Edit, _: OpenSystem) -> State:
    place = _place(state, change.source)
    old = state.sources[place]
    title = old.title if change.title is None else change.title
    if (change.text, title) == (old.text, old.title):
        return state
    kind = old.change or "edited"
    new = old.model_copy(update={"text": change.text, "title": title, "change": kind})
    return _with(state, place, new)


def _add(state: State, change: Add, _: OpenSystem) -> State:
    if not change.text.strip():
        raise ConfigError("a source needs a text", key="text")
    known = {one.id for one in state.sources}
    number = next(n for n in range(1, len(known) + 2) if f"added-{n}" not in known)
    new = Source(id=f"added-{number}", title=change.title, text=change.text, change="added")
    sources = list(state.sources)
    sources.insert(len(sources) if change.place is None else max(0, change.place), new)
    return state.model_copy(update={"sources": tuple(sources)})


def _delete(state: State, change: Delete, _: OpenSystem) -> State:
    place = _place(state, change.source)
    return state.model_copy(
        update={"sources": (*state.sources[:place], *state.sources[place + 1 :])}
    )


def _move(state: State, change: Move, _: OpenSystem) -> State:
    sources = list(state.sources)
    moved = sources.pop(_place(state, change.source))
    sources.insert(max(0, change.place), moved)
    return state.model_copy(update={"sources": tuple(sources)})


def _inject(state: State, change: Inject, system: OpenSystem) -> State:
    place = _place(state, change.source)
    own = system.settings
    payload = own.payload if change.payload is None else change.payload
    new = injected(
        state.sources[place], change.attack, state.question, payload, own.permission or "this"
    )
    return _with(state, place, new)


def _configure(state: State, change: Configure, system: OpenSystem) -> State:
    if change.generator is not None:
        system.generator_settings(change.generator)
    given = {
        name: getattr(change, name)
        for name in ("question", "generator", "instructed", "instructions", "rules_off")
        if getattr(change, name) is not None
    }
    return state.model_copy(update=given)


_EDITS: dict[type, Callable[[State, Any, OpenSystem], State]] = {
    Edit: _edit,
    Add: _add,
    Delete: _delete,
    Move: _move,
    Inject: _inject,
    Configure: _configure,
}


def _place(state: State, source: str) -> int:
    for place, one in enumerate(state.sources):
        if one.id == source:
            return place
    known = [one.id for one in state.sources]
    raise UnknownNameError(f"no source has the id {source!r}", hint=did_you_mean(source, known))


def _with(state: State, place: int, source: Source) -> State:
    sources = (*state.sources[:place], source, *state.sources[place + 1 :])
    return state.model_copy(update={"sources": sources})
