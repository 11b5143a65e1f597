"""How the authors of known encoders turn token vectors into one vector of a text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, NamedTuple

from rulerag.errors import ConfigError

__all__ = ["POOLINGS", "Recipe", "check_pooling", "known_recipe"]

POOLINGS = ("cls", "mean", "max", "pooler")
"""Ways to one vector:

- ``cls``: the last layer's vector of the first token;
- ``mean``: the mean of the last layer over the tokens of the text, padding left out;
- ``max``: its maximum in each dimension;
- ``pooler``: the first token's vector through the checkpoint's own linear layer and tanh.
"""


class Recipe(NamedTuple):
    """What a checkpoint's authors do with it.

    Args:
        pooling: one of :data:`POOLINGS`.
        similarity: ``cosine`` or ``dot``.
        query_prefix: text set before every query.
        document_prefix: text set before every document.
    """

    pooling: str
    similarity: str = "cosine"
    query_prefix: str = ""
    document_prefix: str = ""


# By architecture first, for it travels with the checkpoint; then by the end of its name, for a
# plain BertModel does not say what its vectors are pooled by.
_BY_ARCHITECTURE = {
    "DPRQuestionEncoder": Recipe("cls", "dot"),
    "DPRContextEncoder": Recipe("cls", "dot"),
    "Contriever": Recipe("mean", "dot"),
}
_BY_NAME = (
    (re.compile(r"\bunsup-simcse\b"), Recipe("cls")),
    (re.compile(r"\bsup-simcse\b"), Recipe("pooler")),
    (re.compile(r"\bm?contriever\b"), Recipe("mean", "dot")),
    (
        re.compile(r"\be5-(small|base|large)\b"),
        Recipe("mean", query_prefix="query: ", document_prefix="passage: "),
    ),
)


def check_pooling(pooling: str | None) -> None:
    """Raise a ConfigError unless ``pooling`` is None or one of :data:`POOLINGS`."""
    if pooling is not None and pooling not in POOLINGS:
        raise ConfigError(
            f"unknown pooling {pooling!r}", key="pooling", hint=f"one of {', '.join(POOLINGS)}"
        )


def known_recipe(name: str, config: Mapping[str, Any] | None = None) -> Recipe | None:
    """The recipe of a checkpoint; None when nothing tells it.

    Args:
        name: its folder or its name on the Hugging Face Hub; the last part counts.
        config: its ``config.json``.

    References:
        DPR: Karpukhin et al. 2020, section 3.1. SimCSE: Gao et al. 2021, section 3 and its
        repository: unsupervised models drop the pooler's layer after training, supervised ones
        keep it. Contriever: Izacard et al. 2022, section 3.1. E5: Wang et al. 2022, section 4.1.
    """
    for architecture in (config or {}).get("architectures") or ():
        if architecture in _BY_ARCHITECTURE:
            return _BY_ARCHITECTURE[architecture]
    last = PurePath(name).name.lower().replace("_", "-")
    for pattern, recipe in _BY_NAME:
        if pattern.search(last):
            return recipe
    return None
