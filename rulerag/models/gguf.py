"""GGUF files: their weights are de-quantised once, into a folder that everything opens.

transformers reads a GGUF file through its package ``gguf`` and computes with de-quantised weights;
reading one takes half a minute, so that what was read is kept as a normal folder.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import logging
import struct
from pathlib import Path
from typing import Any

from rulerag.cache import cache_root, remembered_fingerprint
from rulerag.errors import DataError, DataFormatError, MissingDependencyError
from rulerag.folders import LOCK, locked, output_folder
from rulerag.io import made_folder, read_json, write_json
from rulerag.models.disk import check_room, saving
from rulerag.models.quiet import quiet_transformers

logger = logging.getLogger(__name__)

SOURCE = "source.json"
"""Beside the weights: where they come from. Its presence says that the folder is whole."""

_MAGIC = b"GGUF"
_BYTES_A_WEIGHT = 4
_TORN = "the file is damaged or was not downloaded to its end: fetch it again"


def is_gguf(model: object) -> bool:
    """Whether a model is named by a GGUF file."""
    return isinstance(model, str | Path) and Path(model).suffix.lower() == ".gguf"


def gguf_info(path: str | Path) -> dict[str, Any]:
    """What the head of a GGUF file says.

    Args:
        path: the file.

    Returns:
        ``architecture``, ``name``, ``quantization`` (the type of most of its weights),
        ``parameters``, ``context`` (tokens), ``chat_template`` (whether it has one), ``bytes``;
        None where it does not say.

    Raises:
        DataError: there is no such file.
        DataFormatError: it is no GGUF file, or is cut off.
        MissingDependencyError: the package gguf is not installed.
    """
    file = Path(path)
    _check_head(file)
    _need("gguf")
    from gguf import GGUFReader

    try:
        reader: Any = GGUFReader(file)
        sizes: dict[str, int] = {}
        for tensor in reader.tensors:
            kind = tensor.tensor_type.name
            sizes[kind] = sizes.get(kind, 0) + int(tensor.n_elements)

        def field(name: str) -> Any:
            found = reader.get_field(name)
            return None if found is None else found.contents()

        kind = field("general.architecture")
        return {
            "architecture": kind,
            "name": field("general.name"),
            "quantization": max(sizes, key=sizes.__getitem__, default=None),
            "parameters": sum(sizes.values()),
            "context": field(f"{kind}.context_length"),
            "chat_template": field("tokenizer.chat_template") is not None,
            "bytes": file.stat().st_size,
        }
    except (ValueError, IndexError, KeyError, struct.error, OSError, UnicodeDecodeError) as error:
        raise DataFormatError(f"cannot be read ({error})", path=file, hint=_TORN) from error


def save_gguf(path: str | Path, folder: str | Path) -> Path:
    """De-quantise a GGUF file into a folder of transformers: weights in float32, tokenizer.

    Args:
        path: the file.
        folder: the folder to write; its ``source.json`` states file, checksum and quantization.

    Returns:
        The folder.

    Raises:
        DataError: there is no such file.
        DataFormatError: it is no GGUF file, is cut off, or of an architecture that transformers
            does not read.
        OutputError: the folder cannot be written, another process writes there, or the disk is
            full.
        MissingDependencyError: torch, transformers or gguf is not installed.
    """
    file = Path(path)
    about = gguf_info(file)
    _need("torch")
    _need("transformers")
    with output_folder(folder) as home:
        check_room(home, about["parameters"] * _BYTES_A_WEIGHT)
        logger.info("%s is de-quantised to float32, once", file.name)
        with saving(home), quiet_transformers():
            model, tokenizer = _dequantised(file, about)
            model.save_pretrained(home)
            tokenizer.save_pretrained(home)
        _drop_unknown(home / "tokenizer.json", model.config.get_text_config().vocab_size)
        stated = {
            "file": file.name,
            "sha256": remembered_fingerprint(file),
            "dequantised": f"float32 from {about['quantization']}",
        }
        write_json(home / SOURCE, stated)
        return home


def opened_gguf(path: str | Path) -> Path:
    """The folder of a GGUF file's de-quantised weights in the cache, made when missing.

    Raises:
        DataError: as :func:`save_gguf`, like the rest.
    """
    file = Path(path)
    _check_head(file)
    home = cache_root() / "models" / f"gguf-{remembered_fingerprint(file)[:16]}"
    if not (home / SOURCE).is_file():
        # Another run may be reading the same file.
        with made_folder(home), locked(home / LOCK, home, wait=True):
            if not (home / SOURCE).is_file():
                save_gguf(file, home)
    return home


def _check_head(file: Path) -> None:
    try:
        with open(file, "rb") as opened:
            head = opened.read(len(_MAGIC))
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror})", path=file) from error
    if head != _MAGIC:
        raise DataFormatError("is no GGUF file", path=file, hint="it must begin with 'GGUF'")


def _dequantised(file: Path, about: dict[str, Any]) -> tuple[Any, Any]:
    """The model, which can be saved, and its tokenizer."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    try:
        named: dict[str, Any] = {"gguf_file": file.name, "local_files_only": True}
        tokenizer = AutoTokenizer.from_pretrained(str(file.parent), **named)
        with contextlib.redirect_stderr(io.StringIO()):  # bars that nothing else turns off
            loaded: Any = AutoModelForCausalLM.from_pretrained(
                str(file.parent), dtype=torch.float32, **named
            )
    except (ValueError, KeyError, IndexError, TypeError, RuntimeError, OSError) as error:
        reason = " ".join(str(error).split())[:200]
        raise DataFormatError(
            f"a model of the architecture {about['architecture']!r} cannot be opened ({reason})",
            path=file,
            hint="transformers reads LLaMA, Qwen, Gemma, Mistral, Phi and some others from GGUF",
        ) from error
    config = loaded.config
    with contextlib.suppress(AttributeError):  # what says that the weights are still quantised
        del config.quantization_config
    with torch.device("meta"):
        plain = type(loaded)(config)
    plain.load_state_dict(loaded.state_dict(), assign=True)
    plain.tie_weights()
    plain.generation_config = loaded.generation_config
    return plain, tokenizer


def _drop_unknown(path: Path, rows: int) -> None:
    """Transformers adds tokens that some files do not hold, and the model has no vector for."""
    stated = read_json(path)
    added = [token for token in stated["added_tokens"] if token["id"] < rows]
    if len(added) < len(stated["added_tokens"]):
        write_json(path, {**stated, "added_tokens": added})


def _need(package: str) -> None:
    if importlib.util.find_spec(package) is None:
        raise MissingDependencyError(package, "models")
