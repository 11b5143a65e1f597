"""A session as one file that opens anywhere without a model: what it holds, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import ValidationError

from rulerag import __version__
from rulerag.errors import ConfigError, DataFormatError
from rulerag.studio.service.editing import check
from rulerag.studio.service.records import Limits, Reply, Session, View
from rulerag.studio.systems import State

FORMAT = "rulerag-studio-session"
VERSION = 1
_EXPLANATIONS, _OUTPUTS = 1_000, 200_000
Outputs = dict[tuple[int, ...], str]


class SessionFile(NamedTuple):
    """What was read of a file.

    Args:
        name: of the session.
        system: its system, as the wire has it.
        state: as it was saved.
        reply: its last answer.
        explanations: what was explained, with every answer by the places of its sources.
    """

    name: str
    system: Mapping[str, Any]
    state: State
    reply: Reply | None
    explanations: tuple[tuple[View, Outputs], ...]


def kept_of(view: View, outputs: Outputs) -> dict[str, Any]:
    """Everything that is kept of an explanation, as a JSON object."""
    answers = [[list(kept), reply] for kept, reply in dict(outputs).items()]
    return {"view": view.model_dump(mode="json"), "outputs": answers}


def read_kept(kept: Mapping[str, Any]) -> tuple[View, Outputs]:
    """What :func:`kept_of` made; what ran when the studio was killed runs no more."""
    view = View.model_validate(kept["view"])
    outputs = {tuple(places): str(reply) for places, reply in kept["outputs"]}
    return view if view.finished else view.model_copy(update={"status": "cancelled"}), outputs


def exported(
    session: Session, system: Mapping[str, Any], kept: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """A session as one JSON object.

    Args:
        session: the session.
        system: its system, as the wire has it.
        kept: its explanations with every probe.
    """
    return {
        "format": FORMAT,
        "version": VERSION,
        "rulerag": __version__,
        "name": session.name,
        "system": dict(system),
        "state": session.state.model_dump(mode="json"),
        "reply": session.reply and session.reply.model_dump(mode="json"),
        "explanations": list(kept),
    }


def read_session(row: Any, limits: Limits) -> SessionFile:
    """Read what :func:`exported` made; every part is looked at before anything is kept.

    Raises:
        DataFormatError: it is no session, of another version, or damaged.
        ConfigError: it is over a limit.
    """
    if not isinstance(row, Mapping) or row.get("format") != FORMAT:
        raise DataFormatError("no session of the studio", hint="what “Save as file” wrote")
    if row.get("version") != VERSION:
        raise DataFormatError(
            f"written in version {row.get('version')!r} of the format, here {VERSION}",
            hint="open it with the rulerag that wrote it",
        )
    try:
        state = State.model_validate(row["state"])
        kept = tuple(map(_opened, row["explanations"]))
        reply = row.get("reply") and Reply.model_validate({**row["reply"], "opened": True})
        system = dict(row["system"], name=str(row["system"]["name"]))
    except (KeyError, TypeError, ValueError, ValidationError) as error:
        raise DataFormatError(f"a damaged session: {str(error).splitlines()[0]}") from error
    if len(kept) > _EXPLANATIONS or sum(len(outputs) for _, outputs in kept) > _OUTPUTS:
        raise ConfigError("holds more than a session has", key="explanations")
    for one in (state, *(view.state for view, _ in kept)):
        check(one, limits)
    return SessionFile(str(row.get("name", "")), system, state, reply or None, kept)


def _opened(kept: Mapping[str, Any]) -> tuple[View, Outputs]:
    """An explanation of a file: its answers, without what the file says that follows from them.

    Raises:
        ValueError: a place is none of a source. Sets of sources are drawn and counted as numbers
            of so many bits: it would take as much memory as whoever wrote the file likes.
    """
    about = {"explanation": None, "holds": None, "error": "", "status": "done", "opened": True}
    view, outputs = read_kept({**kept, "view": {**kept["view"], **about}})
    count = len(view.state.sources)
    if not all(type(one) is int and 0 <= one < count for places in outputs for one in places):
        raise ValueError(f"an explanation names a source that is none of its {count}")
    return view, outputs
