"""transformers without its bars and reports."""

from __future__ import annotations

import importlib
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Keep transformers from writing bars and load reports: what matters is checked here.

    And bitsandbytes, which comes with it where it is installed, from naming kernels that it lacks.
    """
    talk: Any = importlib.import_module("transformers.utils.logging")
    kernels = logging.getLogger("bitsandbytes")
    before = kernels.level, talk.get_verbosity(), talk.is_progress_bar_enabled()
    kernels.setLevel(logging.ERROR)
    talk.set_verbosity_error()
    talk.disable_progress_bar()
    try:
        yield
    finally:
        kernels.setLevel(before[0])
        talk.set_verbosity(before[1])
        if before[2]:
            talk.enable_progress_bar()


@contextmanager
def bars_on_terminals() -> Iterator[None]:
    """Keep transformers' bars out of files and pipes; what it reports stays."""
    talk: Any = importlib.import_module("transformers.utils.logging")
    shown = talk.is_progress_bar_enabled()
    if not sys.stderr.isatty():
        talk.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            talk.enable_progress_bar()
