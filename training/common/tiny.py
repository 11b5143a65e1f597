"""Small encoders from scratch: a tokenizer of their own and a few layers."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from transformers import PreTrainedTokenizerFast


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
    feed_forward: int | None = None,
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
        feed_forward: width inside a layer; four times ``width`` when None.
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
        intermediate_size=feed_forward or 4 * width,
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


def save_half(encoder: SentenceTransformer, folder: str | Path) -> None:
    """Write an encoder with weights in half precision that opens in single.

    The encoder's own weights are rounded too, so that it and what is opened give the same numbers.

    Args:
        encoder: of :func:`make_encoder`.
        folder: where to.
    """
    from safetensors.torch import load_file, save_file

    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.copy_(parameter.half().float())
    encoder.save(str(folder), create_model_card=False)
    # The configuration still says float32: that is what transformers opens the weights as.
    place = Path(folder) / "model.safetensors"
    weights = {name: value.half() for name, value in load_file(place).items()}
    save_file(weights, place, metadata={"format": "pt"})
    place.chmod(0o644)  # as its neighbours: safetensors writes files for their owner alone
