"""Tiny checkpoints of the architectures that people retrieve with, written as their authors do."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from transformers import (
    AutoTokenizer,
    BertConfig,
    BertModel,
    DPRConfig,
    DPRContextEncoder,
    DPRQuestionEncoder,
    PreTrainedModel,
)

WINDOW = 24
LETTERS = "abcdefghijklmnop"
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", ":"]
WORDS += [*LETTERS, *(f"##{letter}" for letter in LETTERS)]
SHAPE: dict[str, Any] = {
    "vocab_size": len(WORDS),
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": WINDOW,
}
TEXTS = ["abc def", "a", "bad cab. a fig", "a b c d e f g h i j a b c d e f g h i j a b c d e f g"]


def write_tokenizer(folder: Path) -> None:
    """What the old hub checkpoints hold: a vocabulary and one setting."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(WORDS), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": true}', encoding="utf-8")


def write_model(folder: Path, model: PreTrainedModel, **config: Any) -> Path:
    """Weights in the old format, as the DPR, SimCSE and Contriever checkpoints have them."""
    write_tokenizer(folder)
    values = {"architectures": [type(model).__name__], **model.config.to_diff_dict(), **config}
    values["model_type"] = model.config.model_type
    (folder / "config.json").write_text(json.dumps(values), encoding="utf-8")
    torch.save(model.state_dict(), folder / "pytorch_model.bin")
    return folder


def bert(seed: int = 0, **options: Any) -> BertModel:
    torch.manual_seed(seed)
    return BertModel(BertConfig(**SHAPE), **options).eval()


def dpr(kind: type, seed: int = 0, projection: int = 0) -> Any:
    torch.manual_seed(seed)
    return kind(DPRConfig(**SHAPE, projection_dim=projection)).eval()


def dpr_pair(folder: Path) -> tuple[Path, Path]:
    """A context and a question encoder."""
    return (
        write_model(folder / "dpr-ctx_encoder-tiny", dpr(DPRContextEncoder, 1)),
        write_model(folder / "dpr-question_encoder-tiny", dpr(DPRQuestionEncoder, 2)),
    )


def forward(model: Any, folder: Path, texts: Sequence[str]) -> Any:
    """A direct forward of transformers, and the mask."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    batch = tokenizer(
        list(texts), padding=True, truncation=True, max_length=WINDOW, return_tensors="pt"
    )
    with torch.no_grad():
        return model(**batch), batch["attention_mask"]


def mean_of(hidden: torch.Tensor, mask: torch.Tensor) -> npt.NDArray[np.float32]:
    return ((hidden * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)).numpy()
