"""A reader of random weights, and requests of the size of RuleQA-I's: speed needs no knowledge."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rulerag.rules import Atom, Rule
from rulerag.types import Document, GenerationRequest, Query

_PLACES = (
    *("Nor", "Sud", "Vel", "Os", "Mar", "Tir", "Bel"),
    *("Kar", "Lun", "Pel", "Quo", "Ran", "Sel", "Tor"),
)
_ENDINGS = ("land", "avia", "mora", "tra", "onia", "stan")
_ROLES = ("Citizen ({})", "Police ({})", "Head of Government ({})", "{}", "Military ({})", "{}")
_VERBS = ("Consult", "Criticize", "Praise", "Accuse", "Visit", "Threaten", "Investigate", "Arrest")
_MANNERS = ("", " in public", " by telephone", " through a mediator", " formally")


def requests(number: int, *, seed: int = 0) -> list[GenerationRequest]:
    """Invented requests of the size of RuleQA-I's: ten documents and eight rules."""
    chance = random.Random(seed)
    names = [role.format(first + last) for first in _PLACES for last in _ENDINGS for role in _ROLES]
    relations = [verb + manner for verb in _VERBS for manner in _MANNERS]

    def rule(head: str) -> Rule:
        return Rule(Atom(head, "?x", "?y"), (Atom(chance.choice(relations), "?x", "?y"),))

    bank = {head: tuple(rule(head) for _ in range(8)) for head in relations}
    made = []
    for i in range(number):
        subject, head = chance.choice(names), chance.choice(relations)
        documents = []
        for place in range(10):
            date = f"2014-{chance.randint(1, 11):02d}-{chance.randint(1, 28):02d}"
            fact = f"{subject} {chance.choice(relations)} {chance.choice(names)}"
            documents.append(Document(f"d{i}-{place}", f"Time {date} {fact}."))
        query = Query(f"q{i}", f"Time 2014-12-01 what does {subject} {head} ?", subject, head)
        made.append(GenerationRequest(query, tuple(documents), bank[head]))
    return made


def small_llama(
    texts: Sequence[str], *, width: int = 128, layers: int = 4, seed: int = 0
) -> tuple[Any, Any]:
    """A LLaMA of random weights, 1.3 million by default, and a tokenizer made from the texts."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    bpe: Any = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=2048, special_tokens=["<s>", "</s>", "<pad>"], show_progress=False
    )
    bpe.train_from_iterator(texts, trainer)
    fast: Any = PreTrainedTokenizerFast
    tokenizer = fast(tokenizer_object=bpe, bos_token="<s>", eos_token="</s>", pad_token="<pad>")
    config = LlamaConfig(
        vocab_size=2048,
        hidden_size=width,
        intermediate_size=3 * width,
        num_hidden_layers=layers,
        num_attention_heads=width // 32,
        max_position_embeddings=4096,
        initializer_range=0.3 * (128 / width) ** 0.5,  # answers should depend on prompts
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=2,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return LlamaForCausalLM(config), tokenizer


def subsets(request: GenerationRequest, documents: int = 8) -> list[GenerationRequest]:
    """A request with each subset of its best documents, in their order."""
    best = request.documents[:documents]
    return [
        replace(request, documents=tuple(d for n, d in enumerate(best) if mask >> n & 1))
        for mask in range(1 << len(best))
    ]
