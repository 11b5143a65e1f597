"""Settings of a training run: each is declared once, with its place in the file and what fits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from rulerag.composition import Config
from rulerag.errors import ConfigError
from rulerag.io import fingerprint_object

__all__ = ["Settings", "setting"]

Made = TypeVar("Made", bound="Settings")

_KINDS: dict[str, type] = {"str": str, "int": int, "float": float, "bool": bool}
_PLACES = ("path", "base", "query", "document", "encoder", "query_encoder", "tokenizer", "weights")
"""Settings that may name a file or folder."""


def setting(
    section: str,
    default: Any = MISSING,
    *,
    key: str = "",
    least: float | None = None,
    above: float | None = None,
    below: float | None = None,
    known: Sequence[str] = (),
    say: str = "",
) -> Any:
    """A field of settings.

    Args:
        section: where it stands in the file; empty for the top.
        default: its value where the file is silent; it must be there without one.
        key: its name in the file, where the field's own is another.
        least: the smallest value that fits.
        above: values up to this one do not fit.
        below: values from this one on do not fit.
        known: the values that fit.
        say: a value that works, or why others do not.
    """
    words = [f"one of {', '.join(known)}"] if known else []
    words += [f"{least:g} or more"] if least is not None else []
    words += [f"above {above:g}"] if above is not None else []
    words += [f"below {below:g}"] if below is not None else []
    hint = ", ".join([" and ".join(words), *([say] if say else [])])

    def fits(value: Any) -> bool:
        return (
            (not known or value in known)
            and (least is None or value >= least)
            and (above is None or value > above)
            and (below is None or value < below)
        )

    metadata = {"section": section, "key": key, "fits": fits, "hint": hint}
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class Settings:
    """The base of a training's settings; fields are made by :func:`setting`."""

    TOP: ClassVar[tuple[str, ...]] = ("metadata", "expected")
    """Keys of the file beside those of the settings."""

    @classmethod
    def from_config(cls: type[Made], config: Config) -> Made:
        """Read and check a configuration.

        Raises:
            ConfigError: an unknown key, a missing one, or a value out of range; names it.
        """
        made = cls(**cls.read(config))
        made.check(config)
        return made

    @classmethod
    def read(cls, config: Config) -> dict[str, Any]:
        """The values that a configuration states, by field."""
        declared = [one for one in fields(cls) if one.metadata]
        sections = dict.fromkeys(one.metadata["section"] for one in declared)
        values: dict[str, Any] = {}
        for section in sorted(sections):  # the top, which has no name, comes first
            own = {_key(one): one for one in declared if one.metadata["section"] == section}
            required = [key for key, one in own.items() if one.default is MISSING]
            part = config.section(section) if section else config
            part.check((*own, *(() if section else (*cls.TOP, *sections))), required=required)
            for key, one in own.items():
                value, kind = part.get(key), str(one.type).removesuffix(" | None")
                if kind == "Any":
                    values[one.name] = value.to_dict() if isinstance(value, Config) else value
                elif value is not None:
                    values[one.name] = part.read(key, _KINDS.get(kind, tuple))
        return values

    def check(self, config: Config | None = None) -> None:
        """Refuse values that do not fit.

        Args:
            config: the file that they come from, to be named in the error.

        Raises:
            ConfigError: names the first key that does not fit, its value and what would work.
        """
        for one in fields(self):
            if one.metadata and not one.metadata["fits"](getattr(self, one.name)):
                raise self.misfit(one.name, one.metadata["hint"], config)

    def misfit(self, name: str, hint: str, config: Config | None) -> ConfigError:
        """The error about a field whose value does not fit."""
        one = next(one for one in fields(self) if one.name == name)
        path = ".".join(filter(None, (one.metadata["section"], _key(one))))
        message = f"{getattr(self, name)!r} does not fit"
        if config is not None:
            return config.error(message, path, hint=hint)
        return ConfigError(message, key=path, hint=hint)

    def to_json(self) -> dict[str, Any]:
        """Every setting as JSON."""
        return asdict(self)

    @property
    def fingerprint(self) -> str:
        """Names every setting that changes the result.

        A folder is the same however it is spelled: ``runs/ruleqa-i`` here, absolute elsewhere.
        """

        def settled(key: str, value: Any) -> Any:
            if isinstance(value, Mapping):
                return {name: settled(name, one) for name, one in value.items()}
            if key in _PLACES and isinstance(value, str) and value and Path(value).exists():
                return str(Path(value).resolve())
            return value

        kept = {k: settled(k, v) for k, v in self.to_json().items() if k not in ("out", "device")}
        return fingerprint_object(kept)


def _key(one: Field[Any]) -> str:
    """The field's name in the file."""
    return one.metadata["key"] or one.name
