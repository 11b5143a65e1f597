"""What a disk says to the libraries that write models."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rulerag.errors import OutputError, RuleRAGError

ELSEWHERE = "make room, name a folder on another disk with --out, or set RULERAG_CACHE"


def check_room(folder: Path, needed: int) -> None:
    """Refuse to begin where so many bytes do not fit.

    Raises:
        OutputError: says how many megabytes are needed, and how many are free.
    """
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise OutputError(
            f"{needed / 1e6:,.0f} MB are needed, {free / 1e6:,.0f} MB are free",
            path=folder,
            hint=ELSEWHERE,
        )


@contextmanager
def saving(place: Path, hint: str = ELSEWHERE) -> Iterator[None]:
    """What libraries raise when a disk is full, each in its own way, as one error.

    Args:
        place: what is written.
        hint: what a user may do.

    Raises:
        OutputError: it cannot be written.
    """
    try:
        yield
    except RuleRAGError as error:
        if isinstance(error, OutputError) and error.hint is None:
            raise OutputError(error.message, path=error.path, hint=hint) from error
        raise
    except Exception as error:
        if isinstance(error, OSError):
            reason = error.strerror
        elif "os error" in str(error):  # safetensors and tokenizers, which are written in Rust
            reason = str(error)
        elif "inline_container" in str(error) or "PytorchStreamWriter" in str(error):
            reason = "the file ended early, as on a full disk"  # torch counts bytes
        else:
            raise
        raise OutputError(f"cannot be written ({reason})", path=place, hint=hint) from error
