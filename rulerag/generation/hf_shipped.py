"""The small reader that is installed with rulerag, and how a model folder names its prompt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rulerag.io import read_json

__all__ = ["NANO_LLAMA", "shipped", "stated_template"]

NANO_LLAMA = "rulerag-nano-llama"
"""The small reader that is installed with rulerag; its card stands in its folder."""

_SHIPPED = Path(__file__).parents[1] / "models" / "nano-llama"


def shipped(model: Any) -> Any:
    """The folder of :data:`NANO_LLAMA`; any other model as it is."""
    return _SHIPPED if str(model) == NANO_LLAMA else model


def stated_template(model: Any) -> Any:
    """What the ``prompt.json`` of a model folder, or of its adapter's base, holds; else None.

    Raises:
        DataError: the file cannot be read.
    """
    if not isinstance(model, str | Path):
        return None
    folder = Path(shipped(model))
    if (folder / "prompt.json").is_file():
        return read_json(folder / "prompt.json")
    if (folder / "adapter_config.json").is_file():
        return stated_template(read_json(folder / "adapter_config.json")["base_model_name_or_path"])
    return None
