"""Small encoders from scratch: a tokenizer of their own and a few layers."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from transformers import PreTrainedTokenizerFast

__all__ = ["make_encoder", "train_tokenizer"]

_SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def train_tokenizer(texts: Iterable[str], *, vocabulary: int = 8000) -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer, lower case; single digits, so that dates share their parts.

    Args:
        texts: what it learns from.
        vocabulary: its size at most.
    """
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Punctuation(), pre_tokenizers.ByteLevel(add_prefix_space=True)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=_SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
    )


def make_encoder(
    tokenizer: PreTrainedTokenizerFast,
    *,
    width: int = 128,
    layers: int = 2,
    heads: int = 2,
    window: int = 128,
    dropout: float = 0.0,
    seed: int = 0,
) -> SentenceTransformer:
    """A BERT with random weights and mean pooling.

    Args:
        tokenizer: its tokenizer.
        width: of every layer and of the vectors.
        layers: how many.
        heads: of attention.
        window: longest text in tokens; longer ones are cut.
        dropout: everywhere.
        seed: of the weights.
    """
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=4 * width,
        max_position_embeddings=window,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
        pad_token_id=tokenizer.pad_token_id,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = BertModel(config)
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        tokenizer.model_max_length = window
        tokenizer.save_pretrained(folder)
        transformer = Transformer(folder, max_seq_length=window)
    return SentenceTransformer(
        modules=[transformer, Pooling(width, pooling_mode="mean")], device="cpu"
    )
