"""Names for weights and tokenizers by their content: of files, and of models that are open.

Two models of one size, or one model before and after a training step, have two names; a folder
that was moved or downloaded again keeps its own.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rulerag.cache import remembered_fingerprint
from rulerag.errors import GenerationError
from rulerag.io import fingerprint_object

_READ = frozenset({"config.json", "generation_config.json", "adapter_config.json"})
_WEIGHTS = (".safetensors", ".safetensors.index.json")
_OLD_WEIGHTS = ("pytorch_model", "adapter_model")  # .bin, read where there is no safetensors
# What a model's settings say about where it lay and what wrote it.
_UNREAD_SETTINGS = frozenset({"_name_or_path", "transformers_version", "_commit_hash"})
_SAMPLED = 16


def folder_identity(folder: Path) -> str:
    """A name for the weights and settings in a model or adapter folder: the content of its files.

    Files of any size count by their content (:func:`~rulerag.cache.remembered_fingerprint`); what a
    training leaves beside them does not count. The tokenizer has a name of its own.

    Raises:
        DataError: a file cannot be read.
    """
    files = [path for path in sorted(folder.iterdir()) if path.is_file()]
    weights = [path for path in files if path.name.endswith(_WEIGHTS)]
    if not weights:
        weights = [path for path in files if path.name.startswith(_OLD_WEIGHTS)]
    settings = [path for path in files if path.name in _READ]
    return fingerprint_object([[p.name, remembered_fingerprint(p)] for p in [*settings, *weights]])


def adapter_identity(adapter: str | Path) -> str:
    """The same for an adapter's folder, or for the copy of a hub id that was just opened.

    Empty where that copy is not found.
    """
    folder = Path(adapter)
    if not folder.is_dir():
        from huggingface_hub import try_to_load_from_cache

        found = try_to_load_from_cache(str(adapter), "adapter_config.json")
        if not isinstance(found, str):
            return ""
        folder = Path(found).parent
    return folder_identity(folder)


def model_identity(name: str | Path, revision: str | None) -> str:
    """A name for the weights of a folder, by content, or of a hub id, by its revision.

    Empty for a hub id whose revision is not known.
    """
    folder = Path(name)
    if folder.is_dir():
        return folder_identity(folder)
    return f"{name}@{revision}" if revision else ""


def tokenizer_identity(tokenizer: Any) -> str:
    """A name for everything by which a tokenizer makes tokens of text, and text of tokens."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    state: Any
    if backend is not None:
        # How it pads and truncates changes with every call.
        state = {**json.loads(backend.to_str()), "padding": None, "truncation": None}
    else:
        state = sorted(tokenizer.get_vocab().items())
    extras = ("chat_template", "eos_token_id", "bos_token_id", "clean_up_tokenization_spaces")
    settings = [str(getattr(tokenizer, name, None)) for name in extras]
    return fingerprint_object([type(tokenizer).__name__, state, settings])


class Weights:
    """The weights of a model in memory, named by their content as it is when the name is read.

    The content is read anew only when a tensor was written, moved or replaced. That is seen by its
    place in memory, by torch's count of changes, and by some of its values, since not every way of
    writing is counted.

    Args:
        model: a model of transformers, with its adapters if it has any.
        name: of the files that it was opened from just now, which holds until the weights change;
            empty for a model that was open already.
    """

    def __init__(self, model: Any, name: str = "") -> None:
        self._model = model
        self._name = name
        self._state = self._seen() if name else None

    @property
    def name(self) -> str:
        """That of the files, or SHA-256 over settings and each tensor's name, kind, shape, bytes.

        Raises:
            GenerationError: weights are not in memory, as with an offloaded model.
        """
        state = self._seen()
        if state != self._state:
            self._state, self._name = state, self._hashed()
        return self._name

    def _seen(self) -> object:
        """What changes when the weights do, without reading them all."""
        tensors = [tensor.detach() for _, tensor in self._tensors()]
        values = [_sample(tensor) for tensor in tensors]
        places = [(tensor.data_ptr(), _changes(tensor)) for tensor in tensors]
        return places, values, self._settings()

    def _tensors(self) -> Iterator[tuple[str, Any]]:
        named: dict[str, Any] = self._model.state_dict(keep_vars=True)
        for name, tensor in sorted(named.items()):
            if not hasattr(tensor, "data_ptr"):
                continue
            if tensor.is_meta:
                raise GenerationError(
                    f"the weights {name!r} are not in memory, so the model has no name",
                    hint="give its folder instead of the open model, or do not offload it",
                )
            yield name, tensor

    def _settings(self) -> str:
        config: dict[str, Any] = self._model.config.to_dict()
        settings = {key: value for key, value in config.items() if key not in _UNREAD_SETTINGS}
        adapters: dict[str, Any] = getattr(self._model, "peft_config", None) or {}
        named = {key: _without_paths(one.to_dict()) for key, one in adapters.items()}
        kind = type(self._model).__name__
        return json.dumps([kind, settings, named], default=str, sort_keys=True)

    def _hashed(self) -> str:
        import torch

        digest = hashlib.sha256(self._settings().encode())
        for name, tensor in self._tensors():
            digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)};".encode())
            raw = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
            digest.update(raw.numpy())
        return digest.hexdigest()


def _without_paths(config: dict[str, Any]) -> dict[str, Any]:
    return {key: one for key, one in config.items() if key != "base_model_name_or_path"}


def _changes(tensor: Any) -> int:
    """How often torch saw the tensor written; it does not count for tensors made for inference."""
    return -1 if tensor.is_inference() else int(tensor._version)


def _sample(tensor: Any) -> bytes:
    """Some values spread over a tensor."""
    flat = tensor.reshape(-1)
    some = flat[:: max(1, flat.numel() // _SAMPLED)][: 2 * _SAMPLED]
    return bytes(some.float().cpu().numpy().tobytes())
