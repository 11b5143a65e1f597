"""What the two training programs share: naming and refusing settings, and the command line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rulerag.config import Config, load_config
from rulerag.console import guarded
from rulerag.errors import ConfigError
from rulerag.io import fingerprint_object

__all__ = ["fingerprint_settings", "refuse_misfits", "run_training"]

_PLACES = ("path", "base", "query", "document", "encoder", "query_encoder", "tokenizer", "weights")
"""Settings that may name a file or folder."""


def fingerprint_settings(settings: Mapping[str, Any]) -> str:
    """Names every setting that changes the result.

    A folder is the same however it is spelled: ``runs/ruleqa-i`` here, absolute elsewhere.

    Args:
        settings: as JSON; may hold mappings.
    """

    def settled(key: str, value: Any) -> Any:
        if isinstance(value, Mapping):
            return {name: settled(name, one) for name, one in value.items()}
        if key in _PLACES and isinstance(value, str) and value and Path(value).exists():
            return str(Path(value).resolve())
        return value

    kept = {k: settled(k, v) for k, v in settings.items() if k not in ("out", "device")}
    return fingerprint_object(kept)


def refuse_misfits(
    settings: object,
    ranges: Mapping[str, tuple[bool, str]],
    sections: Mapping[str, Sequence[str]],
    config: Config | None,
) -> None:
    """Refuse the first value that does not fit.

    Args:
        settings: the values, as attributes.
        ranges: by attribute, whether its value fits and what would.
        sections: which keys stand in which section of the file.
        config: the file, to be named; None where the settings were made in Python.

    Raises:
        ConfigError: names the key, its value and what would work.
    """
    for key, (fits, hint) in ranges.items():
        if fits:
            continue
        section = next((name for name, keys in sections.items() if key in keys), "")
        path = f"{section}.{key}" if section else key
        message = f"{getattr(settings, key)!r} does not fit"
        if config is not None:
            raise config.error(message, path, hint=hint)
        raise ConfigError(message, key=path, hint=hint)


def run_training(
    argv: Sequence[str] | None,
    train: Callable[[Config, bool], str],
    *,
    program: str,
    description: str,
    example: str,
) -> int:
    """Read ``CONFIG [key=value …] [--quiet]``, train, and say what came of it.

    Args:
        argv: the arguments; those of the process when None.
        train: trains by a configuration, with or without progress bars; returns the line to print,
            empty for none.
        program: how the program is called.
        description: what it does.
        example: a command that works.

    Returns:
        The exit status.
    """
    parser = argparse.ArgumentParser(
        prog=f"python -m {program}", description=description, epilog=f"example: {example}"
    )
    parser.add_argument("config", type=Path, help="the YAML file")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="changes of it")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    arguments = parser.parse_intermixed_args(argv)

    def work() -> None:
        config = load_config(arguments.config, arguments.overrides)
        line = train(config, not arguments.quiet)
        if line:
            sys.stdout.write(f"{line}\n")

    return guarded(work)
