"""Finding a checkpoint, on disk or on the Hugging Face Hub, and telling what it is."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from rulerag.errors import DataError, MissingDependencyError, RetrievalError
from rulerag.io import read_json

DPR = {
    "DPRQuestionEncoder": ("question_encoder", "query"),
    "DPRContextEncoder": ("ctx_encoder", "document"),
}
"""The encoders of DPR: where each keeps its BERT, and the side that it encodes."""

_WHAT_WORKS = (
    "give a sentence-transformers folder, or a checkpoint of a DPR question or context encoder, "
    "SimCSE, Contriever or another BERT-like model"
)
_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")
# What other frameworks read; the old format of the weights only where there is no other.
_UNUSED = ["onnx/*", "openvino/*", "coreml/*", "flax_model*", "tf_model*", "rust_model*"]
_OLD_WEIGHTS = "pytorch_model*.bin"
# Heads that give something else than a vector of a text.
_NO_ENCODER = re.compile(r"(ForCausalLM|LMHeadModel|ForConditionalGeneration|Reader)$")
_CLASSIFIER = re.compile(r"For(Sequence|Token|Image)Classification$|ForQuestionAnswering$")


class Checkpoint(NamedTuple):
    """A checkpoint on disk.

    Args:
        name: what the user called it.
        folder: where its files are.
        kind: ``sentence-transformers``, ``transformer``, or a key of :data:`DPR`.
        config: its ``config.json``; empty where there is none.
    """

    name: str
    folder: Path
    kind: str
    config: dict[str, Any]


def find_checkpoint(name: str | Path) -> Checkpoint:
    """Find a checkpoint and tell its kind.

    A name that is no folder is looked for on the Hugging Face Hub and in its local cache.

    Args:
        name: a folder, or a name on the Hub such as ``facebook/contriever``.

    Raises:
        RetrievalError: there is no such folder, the Hub cannot be reached and the checkpoint is
            not in the cache, or the checkpoint is no encoder.
        MissingDependencyError: a Hub name, and ``huggingface-hub`` is not installed.
    """
    folder = Path(name).expanduser()
    if not folder.is_dir():
        folder = _from_hub(str(name))
    config = _read(folder / "config.json")
    if (folder / "modules.json").is_file():
        kind = _read(folder / "config_sentence_transformers.json").get("model_type")
        if kind not in (None, "SentenceTransformer"):
            raise RetrievalError(f"{name}: is a {kind}, no dense encoder", hint=_WHAT_WORKS)
        return Checkpoint(str(name), folder, "sentence-transformers", config)
    if not config:
        raise RetrievalError(
            f"{name}: holds no encoder (neither modules.json nor config.json)", hint=_WHAT_WORKS
        )
    return Checkpoint(str(name), folder, _kind(name, config), config)


def _from_hub(name: str) -> Path:
    if not _HUB_NAME.fullmatch(name) or name.startswith("."):
        raise RetrievalError(f"{name}: no such folder", hint=_WHAT_WORKS)
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError
    except ImportError as error:
        raise MissingDependencyError("huggingface-hub", "hf") from error
    fetch: Any = partial(snapshot_download, name)
    try:
        folder = Path(fetch(ignore_patterns=[*_UNUSED, _OLD_WEIGHTS]))
        if not any(folder.rglob("*.safetensors")):
            fetch(ignore_patterns=_UNUSED)
    except (OSError, HfHubHTTPError, HFValidationError) as error:
        reason = str(error).split("\n")[0]
        raise RetrievalError(
            f"{name}: neither a folder here nor a checkpoint that can be had from the Hugging "
            f"Face Hub or its cache ({type(error).__name__}: {reason})",
            hint="give the folder of a downloaded checkpoint, or download it once where there is "
            f"a network: hf download {name}",
        ) from error
    return folder


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        value = read_json(path)
    except DataError as error:
        raise RetrievalError(f"the checkpoint is damaged: {error}") from error
    if not isinstance(value, dict):
        raise RetrievalError("the checkpoint is damaged (no keys)", path=path)
    return value


def _kind(name: str | Path, config: dict[str, Any]) -> str:
    refused = ""
    for architecture in map(str, config.get("architectures") or ()):
        if architecture in DPR:
            return architecture
        if _CLASSIFIER.search(architecture):
            refused = f"is a classifier or cross-encoder ({architecture}), no encoder of texts"
        elif _NO_ENCODER.search(architecture):
            refused = f"is no encoder ({architecture})"
    if not refused and (config.get("is_encoder_decoder") or config.get("is_decoder")):
        refused = f"is a decoder (model type {config.get('model_type')!r}), no encoder"
    if refused:
        raise RetrievalError(f"{name}: {refused}", hint=_WHAT_WORKS)
    if config.get("model_type") == "dpr":
        # Loaded as the wrong one of the two, every weight would be random, without a word.
        raise RetrievalError(
            f"{name}: is a DPR checkpoint that does not say whether it encodes questions or "
            "contexts",
            hint=f'add "architectures": {" or ".join(repr([kind]) for kind in DPR)} to its '
            "config.json",
        )
    return "transformer"
