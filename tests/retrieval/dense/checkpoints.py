"""Tiny checkpoints of the architectures that people retrieve with, and vectors as texts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
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

from rulerag.arrays import Floats
from rulerag.retrieval.dense import DenseRetriever
from rulerag.types import Document, Query

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


def write_model(folder: Path, model: PreTrainedModel, **config: Any) -> Path:
    """Weights in the old format, as the DPR, SimCSE and Contriever checkpoints have them."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(WORDS), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": true}', encoding="utf-8")
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


def forward(model: Any, folder: Path, texts: Sequence[str]) -> tuple[Any, Floats]:
    """A direct forward of transformers, and the mean over its tokens."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    batch = tokenizer(
        list(texts), padding=True, truncation=True, max_length=WINDOW, return_tensors="pt"
    )
    with torch.no_grad():
        output = model(**batch)
    if not hasattr(output, "last_hidden_state"):
        return output, np.empty(0, dtype=np.float32)
    mask = batch["attention_mask"]
    total = (output.last_hidden_state * mask[..., None]).sum(1)
    return output, (total / mask.sum(1, keepdim=True)).numpy()


class Points:
    """Encodes texts that are vectors already: "3 4" is (3, 4)."""

    def __init__(self, fingerprint: str | None = "points", dimension: int | None = None) -> None:
        self.batches: list[list[str]] = []
        if fingerprint is not None:
            self.fingerprint = fingerprint
        if dimension is not None:
            self.dimension = dimension

    def encode(self, texts: Sequence[str]) -> Floats:
        self.batches.append(list(texts))
        return np.array([[float(x) for x in text.split()] for text in texts], dtype=np.float32)


def text_of(vector: Sequence[float]) -> str:
    return " ".join(repr(float(x)) for x in vector)


def corpus_of(vectors: Any) -> list[Document]:
    return [Document(f"d{i}", text_of(vector)) for i, vector in enumerate(vectors)]


def queries_of(vectors: Any) -> list[Query]:
    return [Query(f"q{i}", text_of(vector)) for i, vector in enumerate(vectors)]


def dense(documents: Sequence[Document], encoder: Any = None, **options: Any) -> DenseRetriever:
    return DenseRetriever(documents, encoder or Points(), **{"cache": False, **options})


def cloud(size: int, dimension: int = 8, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).standard_normal((size, dimension)).astype(np.float32)


SQUARE = corpus_of([(1, 0), (0, 2), (3, 3), (-1, 0)])
