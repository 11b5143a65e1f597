"""The tokenizer and the network of the nano reader, and the heads that it starts with.

The tokenizer is byte-level BPE, which takes any text and gives it back. A transformer with random
weights needs thousands of steps to find out how to copy (induction heads: Olsson et al.,
arXiv:2209.11895). In the spirit of mimetic initialisation (Trockman and Kolter, arXiv:2305.09828)
three layers start with such heads instead, before any training:

- layer 0: heads that look one and two tokens back (by constant queries and keys, whose rotary
  scores depend on the distance alone), and one that looks at the mark that begins the line;
- layer 1: two induction heads (this token, or this pair, against what stood before each token), one
  head that finds this pair of tokens in a pattern line, one that finds where to go on behind a bar;
- the last layer: two more induction heads.

What is made of that, so which document fires and when, is left to training, and so is every weight.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import torch

from training.shipped.reader.names import NameSource, Random

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM, PreTrainedTokenizerFast


BEGIN, END, PAD = "<s>", "</s>", "<pad>"
MARKS = ("\n>", "\n<", "\n=", "\n?", "\n*", "\n:")
"""Line break and mark of the compact prompt's lines, one token each."""

_SHARPNESS, _MATCH, _SMALL = 9.0, 3.0, 0.05
_KINDS_OF_LINES = ("\n>", "\n<", "\n=", "\n:")

# Places in the residual stream. Tokens fill the first half; behind it stand the tokens one and two
# back, then what is known of the line.
_CONTENT, _BACK, _SEEN = slice(0, 64), (slice(64, 88), slice(88, 112)), 24
_MARK, _KINDS, _BEGIN, _LINE, _FOUND, _BAR = 112, 113, 117, 118, 123, 126
_HALF = 12


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


def make_reader(
    tokenizer: PreTrainedTokenizerFast,
    *,
    width: int = 128,
    layers: int = 5,
    heads: int = 4,
    inner: int = 256,
    window: int = 1024,
    seed: int = 0,
) -> LlamaForCausalLM:
    """A LLaMA with tied embeddings, ready to be trained.

    Args:
        tokenizer: its tokenizer.
        width: of every layer.
        layers: how many.
        heads: of attention.
        inner: width inside the feed-forward blocks.
        window: the most positions.
        seed: of the weights.
    """
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=inner,
        max_position_embeddings=window,
        rope_parameters={"rope_type": "default", "rope_theta": 100_000.0},
        attention_bias=True,
        tie_word_embeddings=True,
        initializer_range=1 / math.sqrt(width),
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LlamaForCausalLM(config)
        with torch.no_grad():
            _start(model, tokenizer)
    return model


def _start(model: Any, tokenizer: Any) -> None:
    """Set the first weights of a model of width 128 with heads of 32.

    Args:
        model: a LLaMA with biases in its attention.
        tokenizer: its tokenizer, which knows the marks of the compact prompt.
    """
    blocks = model.model.layers
    for block in blocks:
        attention = block.self_attn
        attention.o_proj.weight.mul_(_SMALL / math.sqrt(2 * len(blocks)))
        block.mlp.down_proj.weight.mul_(_SMALL / math.sqrt(2 * len(blocks)))
        for part in (attention.q_proj, attention.k_proj, attention.v_proj, attention.o_proj):
            part.bias.zero_()
    _tokens(model, tokenizer)
    frames = torch.zeros(64, 128)
    frames[:, _CONTENT] = torch.linalg.qr(torch.randn(64, 64))[0]
    _look_back(blocks[0].self_attn, frames, model.model.rotary_emb.inv_freq)
    _look_at_mark(blocks[0].self_attn)
    for block in (blocks[1], blocks[-1]):
        _induce(block.self_attn, frames)
    _find_pattern(blocks[1].self_attn, frames)
    _go_on_behind_bar(blocks[1].self_attn, frames)


def _tokens(model: Any, tokenizer: Any) -> None:
    """Unit vectors, and plain signs for the tokens that carry the form."""
    table = model.model.embed_tokens.weight
    table[:, 64:] = 0
    table /= table.norm(dim=1, keepdim=True).clamp(min=1e-6)
    ids = tokenizer.convert_tokens_to_ids
    for kind, mark in enumerate(_KINDS_OF_LINES):
        table[ids(mark), _MARK] = 1.0
        table[ids(mark), _KINDS + kind] = 1.0
    table[tokenizer.bos_token_id, _BEGIN] = 1.5
    table[ids("Ġ|"), _BAR] = 1.0


def _look_back(attention: Any, frames: Any, frequencies: Any) -> None:
    for back, places in enumerate(_BACK, start=1):
        rows = _clear(attention, back - 1)
        half = frequencies.numel()
        angle = frequencies * back
        attention.q_proj.bias[rows] = _SHARPNESS * torch.cat([torch.ones(half), torch.zeros(half)])
        attention.k_proj.bias[rows] = _SHARPNESS * torch.cat([angle.cos(), angle.sin()])
        first = rows.start
        attention.v_proj.weight[first : first + _SEEN] = frames[:_SEEN]
        for n in range(_SEEN):
            attention.o_proj.weight[places.start + n, first + n] = 0.2


def _look_at_mark(attention: Any) -> None:
    """The nearest mark before: its score falls with the distance, other tokens have none."""
    rows = _clear(attention, 2)
    near = torch.arange(rows.start + 3, rows.start + 8)
    attention.q_proj.bias[near] = 2.0
    attention.k_proj.weight[near, _MARK] = 2.2
    for n in range(5):
        attention.v_proj.weight[rows.start + n, _KINDS + n] = 1.0
        attention.o_proj.weight[_LINE + n, rows.start + n] = 0.2


def _induce(attention: Any, frames: Any) -> None:
    eye = torch.eye(128)
    for head in range(2):
        rows = _clear(attention, head)
        first = rows.start
        if head == 0:
            attention.q_proj.weight[first : first + _SEEN] = _MATCH * frames[:_SEEN]
            attention.k_proj.weight[first : first + _SEEN] = _MATCH * eye[_BACK[0]]
        else:
            _pair(attention, first, (frames[:_HALF], eye[64:76]), (eye[64:76], eye[88:100]))
        copied = frames[32 * head : 32 * head + 32]
        attention.v_proj.weight[rows] = copied
        attention.o_proj.weight[:, rows] = copied.T * 32**-0.5


def _find_pattern(attention: Any, frames: Any) -> None:
    """This pair of tokens in a pattern line; the first token of all where there is none."""
    rows = _clear(attention, 2)
    first, eye = rows.start, torch.eye(128)
    here = (frames[:_HALF], eye[64:76])
    _pair(attention, first, here, here)
    attention.q_proj.bias[first + 15] = 4.0
    attention.k_proj.weight[first + 15, _LINE] = 2.0
    attention.k_proj.weight[first + 15, _LINE + 1] = 2.0
    attention.k_proj.weight[first + 15, _LINE + 2] = -4.0
    attention.k_proj.weight[first + 15, _LINE + 3] = -4.0
    attention.q_proj.bias[first + 31] = 4.0
    attention.k_proj.weight[first + 31, _BEGIN] = 6.5
    for n in range(2):
        attention.v_proj.weight[first + n, _LINE + n] = 1.0
        attention.o_proj.weight[_FOUND + n, first + n] = 0.2


def _go_on_behind_bar(attention: Any, frames: Any) -> None:
    """Behind a bar: the token of a document that follows the same pair."""
    rows = _clear(attention, 3)
    first, eye = rows.start, torch.eye(128)
    before = (eye[64:76], eye[88:100])
    _pair(attention, first, before, before)
    attention.q_proj.weight[first + 15, _BAR] = 4.0
    attention.k_proj.weight[first + 15, _LINE + 2] = 4.0
    attention.k_proj.weight[first + 15, _LINE + 3] = -4.0
    attention.q_proj.bias[first + 31] = 4.0
    attention.k_proj.weight[first + 31, _BEGIN] = 3.0
    attention.v_proj.weight[rows] = frames[:32]
    attention.o_proj.weight[:, rows] = frames[:32].T * 32**-0.5


def _pair(attention: Any, first: int, asked: Any, known: Any) -> None:
    """Two features of twelve numbers each, where rotation is slow."""
    for part, (query, key) in enumerate(zip(asked, known, strict=True)):
        rows = slice(first + 3 + 16 * part, first + 15 + 16 * part)
        attention.q_proj.weight[rows] = _MATCH * query
        attention.k_proj.weight[rows] = _MATCH * key


def _clear(attention: Any, head: int) -> slice:
    """The rows of a head, emptied."""
    rows = slice(32 * head, 32 * head + 32)
    for part in (attention.q_proj, attention.k_proj, attention.v_proj):
        part.weight[rows] *= _SMALL
    attention.o_proj.weight[:, rows] = 0
    return rows
