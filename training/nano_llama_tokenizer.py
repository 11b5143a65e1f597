"""The tokenizer of the nano reader: byte-level BPE, which takes any text and gives it back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from training.nano_llama_names import NameSource, Random

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

__all__ = ["tokenizer_texts", "train_reader_tokenizer"]

BEGIN, END, PAD = "<s>", "</s>", "<pad>"
MARKS = ("\n>", "\n<", "\n=", "\n?", "\n*", "\n:")
"""Line break and mark of the compact prompt's lines, one token each."""


def tokenizer_texts(names: NameSource, *, seed: int = 0, worlds: int = 400) -> Iterator[str]:
    """What the tokenizer learns from: real labels and invented ones, as they stand in prompts."""
    rng = Random(f"tokenizer-{seed}")
    yield from [" | > < @ |"] * 1000
    for label in names.real:
        yield f" {label}"
    for labels in names.graphs:
        for label in labels:
            yield from [f" {label}"] * 20
    for _ in range(worlds):
        for name in names.entities(rng, 10) + names.relations(rng, 6):
            yield f" {name}"


def train_reader_tokenizer(
    texts: Iterable[str], *, vocabulary: int = 4096, window: int = 1024
) -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer whose texts begin with ``<s>``.

    Args:
        texts: what it learns from.
        vocabulary: its size at most; 259 tokens are bytes and signs.
        window: the longest text that the model reads, in tokens.
    """
    from tokenizers import (
        AddedToken,
        Tokenizer,
        decoders,
        models,
        pre_tokenizers,
        processors,
        trainers,
    )
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[PAD, BEGIN, END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_tokens([AddedToken(mark, normalized=False) for mark in MARKS])
    begin = tokenizer.token_to_id(BEGIN)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BEGIN} $A", special_tokens=[(BEGIN, begin)]
    )
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        pad_token=PAD,
        bos_token=BEGIN,
        eos_token=END,
        padding_side="left",
        model_max_length=window,
        clean_up_tokenization_spaces=False,
    )
