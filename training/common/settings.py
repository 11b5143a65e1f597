"""Settings of a training run: sections as in its file, each setting declared once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

import pydantic

from rulerag.composition import Config, Settings, known_keys, load_config
from rulerag.composition.config import PATH_KEYS
from rulerag.io import fingerprint_object

_PLACES = (*PATH_KEYS, "base", "query", "document")
"""Settings that may name a file or folder."""

Tracker = Literal[
    "tensorboard", "wandb", "mlflow", "trackio", "comet_ml", "clearml", "dvclive", "swanlab"
]
"""Those that the Hugging Face trainer and accelerate both write to."""


class Section(Settings):
    """A section of the file; a null in it means the default."""

    @pydantic.model_validator(mode="before")
    @classmethod
    def _null_is_the_default(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        return {key: value for key, value in values.items() if value is not None}


class TrainingSettings(Section):
    """The base of a training's settings: its sections, and what every training has.

    Args:
        out: the folder to write.
        device: ``cpu``, ``cuda``; a GPU where there is one when empty. Several processes take one
            GPU each; ``CUDA_VISIBLE_DEVICES`` says which.
        seed: of everything that is drawn.
        report_to: programs that show loss, learning rate and validation of a run while it goes on.
        metadata: what the file says about itself; changes nothing.
        expected: figures to compare with; changes nothing.
    """

    out: str
    device: Literal["", "cpu", "cuda"] = ""
    seed: int = pydantic.Field(default=0, ge=0)
    report_to: tuple[Tracker, ...] = ()
    metadata: Mapping[str, Any] = pydantic.Field(default={}, exclude=True)
    expected: Mapping[str, Any] = pydantic.Field(default={}, exclude=True)
    _source: Path | None = None

    @pydantic.field_validator("report_to", mode="before")
    @classmethod
    def _one_or_none(cls, value: Any) -> Any:
        """The spellings of the Hugging Face trainer: one name, or ``none``."""
        return () if value == "none" else (value,) if isinstance(value, str) else value

    @classmethod
    def load(cls, file: str | Path, overrides: Sequence[str] = ()) -> Self:
        """Read and check a file, those that it extends, and ``key=value`` changes of it.

        Raises:
            ConfigError: as :meth:`from_config`, or the file cannot be read.
        """
        return cls.from_config(load_config(file, overrides, keys=cls.keys))

    @classmethod
    def from_config(cls, config: Config) -> Self:
        """Read and check a configuration.

        Raises:
            ConfigError: an unknown key, a missing one, or a value that does not fit; names it.
        """
        made = cls.read(config.to_dict(), source=config.source)
        made._source = config.source  # for what is read later
        return made

    @classmethod
    def keys(cls, config: Mapping[str, Any]) -> Iterator[str]:
        """Every dotted key that may be set, those of the components in a configuration included."""
        yield from known_keys(config)
        for name, field in cls.model_fields.items():
            yield name
            if isinstance(field.annotation, type) and issubclass(field.annotation, Section):
                yield from (f"{name}.{key}" for key in field.annotation.model_fields)

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

        values = self.model_dump(mode="json", exclude={"out", "device", "report_to"})
        return fingerprint_object(settled("", values))
