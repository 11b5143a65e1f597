"""An encoder of any size with random weights: how fast it is does not depend on what it knows."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from typing import Any

from rulerag.models import quiet_transformers
from rulerag.retrieval.dense.encoders import SentenceEncoder, load_encoder

_SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def small_encoder(
    texts: Sequence[str], *, layers: int = 2, width: int = 128, batch_size: int = 128
) -> SentenceEncoder:
    """A BERT with random weights and a vocabulary learned from some texts."""
    import torch
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=_word_pieces(texts),
        model_max_length=128,
        **{f"{name[1:-1].lower()}_token": name for name in _SPECIAL},
    )
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=max(2, width // 64),
        intermediate_size=4 * width,
        max_position_embeddings=128,
    )
    with tempfile.TemporaryDirectory() as folder, quiet_transformers():
        BertModel(config, add_pooling_layer=False).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        return load_encoder(folder, pooling="mean", batch_size=batch_size)


def _word_pieces(texts: Sequence[str]) -> Any:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(
        vocab_size=8000, special_tokens=_SPECIAL, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    ends = [(name, _SPECIAL.index(name)) for name in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=ends
    )
    return tokenizer
