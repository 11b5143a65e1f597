"""Opening models, tokenizers and adapters of transformers, with errors that say what is missing."""

from __future__ import annotations

import importlib
import importlib.util
import logging
import re
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

from rulerag.composition import Settings
from rulerag.errors import ConfigError, GenerationError, MissingDependencyError
from rulerag.io import read_json
from rulerag.models import bars_on_terminals, find_model, is_gguf, opened_gguf

logger = logging.getLogger(__name__)

failure = partial(GenerationError, provider="huggingface")
NANO_LLAMA = "rulerag-nano-llama"
"""The small reader that is installed with rulerag; its card stands in its folder."""


class Loading(Settings):
    """How a model is opened.

    Args:
        device: ``auto`` (a GPU when there is one), ``cpu``, ``cuda``, ``cuda:1`` and so on.
        dtype: ``auto`` (float32 on a CPU, else as stored), ``fast`` (bfloat16 on a CPU that
            multiplies it in hardware, by AMX or AVX-512, else as ``auto``), ``float32``,
            ``bfloat16``, ``float16``; 4-bit weights are multiplied in it.
        quantization: None, ``4bit`` (NF4, its scales quantized again: Dettmers et al., QLoRA,
            arXiv:2305.14314, section 3) or ``8bit``, by bitsandbytes.
        local_files_only: never ask the hub.
    """

    device: str = "auto"
    dtype: Literal["auto", "fast", "float32", "bfloat16", "float16"] = "auto"
    quantization: Literal["4bit", "8bit"] | None = None
    local_files_only: bool = False

    def place(self) -> str:
        """The device to use.

        Raises:
            ConfigError: torch does not know the device, or it is not here.
        """
        import torch

        if self.device == "auto":
            return "cuda" if torch.cuda.is_available() else "cpu"
        try:
            torch.empty(0, device=self.device)
        except (RuntimeError, AssertionError) as error:
            message = str(error).splitlines()[0]
            raise ConfigError(message, key="device", hint="try device='cpu'") from error
        return self.device


def shipped(model: Any) -> Any:
    """The folder of a model that goes by a name here, or of a GGUF file; another as it is.

    Raises:
        DataError: the model was not fetched, or the GGUF file cannot be read.
    """
    return opened_gguf(model) if is_gguf(model) else find_model(model)


def stated_template(*models: Any) -> Any:
    """What ``prompt.json`` of a model folder, or of its adapter's base, says of the prompts.

    Args:
        models: an adapter and its model, say; the first one counts that states any.

    Returns:
        A template as a configuration has it; None where nothing is stated.

    Raises:
        DataError: the file cannot be read.
    """
    stated = _stated_prompt(models)
    if not isinstance(stated, Mapping):
        return stated
    return {key: value for key, value in stated.items() if key != "chat"} or None


def stated_chat(*models: Any) -> bool | None:
    """Whether that file says to use the chat template; None where it does not say.

    Raises:
        DataError: the file cannot be read.
    """
    stated = _stated_prompt(models)
    return stated.get("chat") if isinstance(stated, Mapping) else None


def _stated_prompt(models: Sequence[Any]) -> Any:
    for model in models:
        if not isinstance(model, str | Path):
            continue
        folder = Path(shipped(model))
        if (folder / "prompt.json").is_file():
            return read_json(folder / "prompt.json")
        if (folder / "adapter_config.json").is_file():
            base = read_json(folder / "adapter_config.json")["base_model_name_or_path"]
            if (found := _stated_prompt([base])) is not None:
                return found
    return None


def open_tokenizer(name: Any, loading: Loading) -> Any:
    """The tokenizer of a model's name, folder or hub id, padding on the left; an open one as it is.

    Raises:
        DataError: the model was not fetched, or its GGUF file cannot be read.
        DataFormatError: its config.json cannot be read.
        GenerationError: there is none, or it cannot be read.
    """
    from transformers import AutoTokenizer

    if not isinstance(name, str | Path):
        return name
    name = shipped(name)
    _check_folder(name)
    try:
        tokenizer = AutoTokenizer.from_pretrained(
            str(name), padding_side="left", local_files_only=loading.local_files_only
        )
    except Exception as error:
        raise _unopened("tokenizer", name, error) from error
    if not len(tokenizer):
        raise failure(
            f"the model {name} has no tokenizer",
            hint="save it there with tokenizer.save_pretrained(folder), or give tokenizer=",
        )
    return tokenizer


def open_model(name: str | Path, loading: Loading) -> Any:
    """The causal language model of a folder or hub id, on its device, ready to infer.

    Raises:
        ConfigError: the device is not here.
        DataFormatError: its config.json cannot be read.
        GenerationError: it is not there, is damaged, or is no causal language model.
        MissingDependencyError: quantization without its packages.
    """
    from transformers import AutoModelForCausalLM

    _check_folder(name)
    device = loading.place()
    options: dict[str, Any] = {"local_files_only": loading.local_files_only}
    dtype: str = loading.dtype
    if dtype in ("auto", "fast"):
        dtype = "auto" if device != "cpu" else _cpu_dtype() if dtype == "fast" else "float32"
    options["dtype"] = dtype
    if loading.quantization is not None:
        options |= {
            "quantization_config": _quantized(loading.quantization, dtype),
            "device_map": device,
        }
    try:
        with bars_on_terminals():
            opened: Any = AutoModelForCausalLM.from_pretrained(
                str(name), output_loading_info=True, **options
            )
            model, report = opened
        if loading.quantization is None:
            model = model.to(device)
    except Exception as error:
        # What a damaged or foreign checkpoint raises depends on where which reader stumbles.
        raise _unopened("model", name, error) from error
    if missing := sorted(report["missing_keys"]):  # transformers makes them up
        raise failure(
            f"{len(missing)} weights of the model {name} are missing ({', '.join(missing[:3])} …)",
            hint="the checkpoint is of another architecture than its config.json says, or damaged",
        )
    return model.eval()


def _cpu_dtype() -> str:
    """What this processor multiplies fastest."""
    try:
        flags = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:  # other systems than Linux do not say it there
        return "float32"
    return "bfloat16" if re.search(r"\b(amx|avx512)_bf16\b", flags) else "float32"


def adapted(model: Any, adapter: str | Path, base: str, *, merge: bool) -> Any:
    """The model with a PEFT adapter.

    Args:
        model: the base.
        adapter: the adapter's folder or hub id.
        base: the base's name, for messages.
        merge: add the adapter into the weights, which makes inference faster.

    Raises:
        MissingDependencyError: PEFT is not installed.
        GenerationError: there is no adapter, or it was made for another base.
    """
    if importlib.util.find_spec("peft") is None:
        raise MissingDependencyError("peft", "train")
    # By name: type checkers run where it may be missing.
    peft: Any = importlib.import_module("peft")
    folder = Path(adapter)
    if folder.is_dir():
        stated = adapter_base(folder)
        if stated and Path(shipped(stated)).name != Path(base).name:
            logger.warning("the adapter %s was trained on %s, not on %s", adapter, stated, base)
    elif folder.exists() or len(folder.parts) != 2:
        raise failure(f"there is no adapter folder {adapter}")
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message=".*missing adapter keys.*")
            wrapped = peft.PeftModel.from_pretrained(model, str(adapter))
            # The base model itself keeps the layers of the adapter, and its own arguments.
            return (wrapped.merge_and_unload() if merge else wrapped.get_base_model()).eval()
    except Exception as error:
        message = next((line.strip() for line in str(error).splitlines()[1:]), str(error))
        raise failure(
            f"the adapter {adapter} does not fit the model {base}: {message[:300]}",
            hint="take the base that its adapter_config.json names",
        ) from error


def adapter_base(folder: Path) -> str:
    """The base model that an adapter folder names.

    Raises:
        GenerationError: the folder holds no adapter.
    """
    config = folder / "adapter_config.json"
    if not config.is_file():
        raise failure(
            f"{folder} holds no adapter (no adapter_config.json)",
            hint="name the folder that model.save_pretrained wrote for a PEFT model",
        )
    return str(read_json(config).get("base_model_name_or_path") or "")


def _check_folder(name: str | Path) -> None:
    path = Path(name)
    if path.is_dir() and not (path / "config.json").is_file():
        raise failure(
            f"the folder {path} holds no model (no config.json)",
            hint="name the folder that model.save_pretrained wrote",
        )
    if path.is_dir():
        read_json(path / "config.json")  # what reads it next blames the tokenizer
    elif path.is_absolute() or len(path.parts) > 2 or str(name)[:1] == ".":
        raise failure(f"there is no model folder {path}")


def _unopened(what: str, name: str | Path, error: BaseException) -> GenerationError:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    reason = lines[0][:300] if lines else type(error).__name__
    if Path(name).is_dir():
        hint = (
            "save it there with tokenizer.save_pretrained(folder), or give tokenizer="
            if what == "tokenizer"
            else "the folder must hold a causal language model that transformers can open, its "
            "files whole: fetch it again where one was cut off"
        )
    else:
        hint = "check the hub id and the connection, or give a folder with the model"
    return failure(f"the {what} of {name} cannot be opened: {reason}", hint=hint)


def _quantized(kind: str, dtype: str) -> Any:
    """The configuration of bitsandbytes; ``auto`` multiplies as the GPU does fastest."""
    for package, extra in (("bitsandbytes", "bnb"), ("accelerate", "train")):
        if importlib.util.find_spec(package) is None:
            raise MissingDependencyError(package, extra)
    import torch
    import transformers

    config: Any = transformers.BitsAndBytesConfig
    if kind == "8bit":
        return config(load_in_8bit=True)
    if dtype == "auto":  # only on a GPU; those before Ampere emulate bfloat16
        native = torch.cuda.is_bf16_supported(including_emulation=False)
        dtype = "bfloat16" if native else "float16"
    return config(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=getattr(torch, dtype),
    )
