"""Edits of a session's state: each makes a new one, so that every edit can be taken back."""

from __future__ import annotations

from rulerag.errors import ConfigError
from rulerag.studio.service.records import (
    Add,
    Change,
    Configure,
    Delete,
    Edit,
    Inject,
    Limits,
    Move,
)
from rulerag.studio.systems import OpenSystem, Source, State, injected, named


def changed(state: State, change: Change, system: OpenSystem, limits: Limits) -> State:
    """The state after one edit.

    Raises:
        UnknownNameError: there is no such source, attack or generator.
        ConfigError: a text, a question or the number of sources is over its limit.
    """
    if isinstance(change, Configure):
        if change.generator is not None:
            system.generator_settings(change.generator)
        values = dict(change)
        del values["kind"]
        given = {name: value for name, value in values.items() if value is not None}
        made = state.model_copy(update=given)
    else:
        sources = _changed(list(state.sources), change, state.question, system)
        made = state.model_copy(update={"sources": tuple(sources)})
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


def _changed(
    sources: list[Source],
    change: Add | Edit | Delete | Move | Inject,
    question: str,
    system: OpenSystem,
) -> list[Source]:
    known = [one.id for one in sources]
    if isinstance(change, Add):
        if not change.text.strip():
            raise ConfigError("a source needs a text", key="text")
        number = next(n for n in range(1, len(known) + 2) if f"added-{n}" not in known)
        new = Source(id=f"added-{number}", title=change.title, text=change.text, change="added")
        sources.insert(len(sources) if change.place is None else max(0, change.place), new)
        return sources
    place = named("source", change.source, {name: n for n, name in enumerate(known)})
    old = sources.pop(place)
    if isinstance(change, Delete):
        return sources
    if isinstance(change, Move):
        place, new = max(0, change.place), old
    elif isinstance(change, Edit):
        title = old.title if change.title is None else change.title
        new = old.model_copy(update={"text": change.text, "title": title})
        if new != old:
            new = new.model_copy(update={"change": old.change or "edited"})
    else:
        own = system.settings
        payload = own.payload if change.payload is None else change.payload
        new = injected(old, change.attack, question, payload, own.permission or "this")
    sources.insert(place, new)
    return sources
