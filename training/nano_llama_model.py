"""The network of the nano reader: a small LLaMA whose first heads start out looking backwards.

A transformer with random weights needs thousands of steps before it finds out how to copy
(induction heads: Olsson et al., arXiv:2209.11895). Those steps are saved by a start in the spirit
of mimetic initialisation (Trockman and Kolter, arXiv:2305.09828): the heads of the first layer
attend to the token 1, 2, 3, ... places back, and those of the second layer start as induction
heads on them. All weights are trained from there.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from training.nano_llama_start import start

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

__all__ = ["make_reader"]


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
            start(model, tokenizer)
    return model
