"""Speed of reading: batches that share beginnings against one query at a time, same answers.

``main`` writes RuleQA-I-like prompts (dated facts, guiding rules of the query's relation, ten
documents) and lets one small LLaMA with random weights answer them twice in the same run: one
query at a time without sharing, and batched with shared beginnings. The few-shot template shows
three cases of ten documents before the query, as RuleRAG's Table 10 does. Answers must be equal;
scores may differ by rounding. Times are CPU seconds on one thread, which a busy machine changes
least.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rulerag.errors import GenerationError
from rulerag.generation.huggingface import HuggingFaceGenerator
from rulerag.generation.prompts import Case, PromptTemplate
from rulerag.io import prepare_folder, write_json
from rulerag.rules import Atom, Rule
from rulerag.types import Document, GenerationRequest, Query

__all__ = ["main", "measure", "requests", "small_llama"]

_PLACES = (
    "Nor",
    "Sud",
    "Vel",
    "Os",
    "Mar",
    "Tir",
    "Bel",
    "Kar",
    "Lun",
    "Pel",
    "Quo",
    "Ran",
    "Sel",
    "Tor",
)
_ENDINGS = ("land", "avia", "mora", "tra", "onia", "stan")
_ROLES = ("Citizen ({})", "Police ({})", "Head of Government ({})", "{}", "Military ({})", "{}")
_VERBS = ("Consult", "Criticize", "Praise", "Accuse", "Visit", "Threaten", "Investigate", "Arrest")
_MANNERS = ("", " in public", " by telephone", " through a mediator", " formally")


def requests(number: int, *, seed: int = 0) -> list[GenerationRequest]:
    """Invented requests of the size of RuleQA-I's: ten documents and one to three rules."""
    chance = random.Random(seed)
    names = [role.format(first + last) for first in _PLACES for last in _ENDINGS for role in _ROLES]
    relations = [verb + manner for verb in _VERBS for manner in _MANNERS]

    def rule(head: str) -> Rule:
        return Rule(Atom(head, "?x", "?y"), (Atom(chance.choice(relations), "?x", "?y"),))

    bank = {head: tuple(rule(head) for _ in range(chance.randint(1, 3))) for head in relations}
    made = []
    for i in range(number):
        subject, head = chance.choice(names), chance.choice(relations)
        documents = []
        for place in range(10):
            date = f"2014-{chance.randint(1, 11):02d}-{chance.randint(1, 28):02d}"
            fact = f"{subject} {chance.choice(relations)} {chance.choice(names)}"
            documents.append(Document(f"d{i}-{place}", f"Time {date} {fact}."))
        query = Query(f"q{i}", f"Time 2014-12-01 what does {subject} {head} ?")
        made.append(GenerationRequest(query, tuple(documents), bank[head]))
    return made


def small_llama(texts: Sequence[str], *, seed: int = 0) -> tuple[Any, Any]:
    """A LLaMA of about 1.3 million random weights, and a tokenizer made from the texts."""
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
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=4,
        num_attention_heads=4,
        max_position_embeddings=4096,
        initializer_range=0.3,  # answers should depend on prompts
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=2,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return LlamaForCausalLM(config), tokenizer


def _template(kind: str) -> PromptTemplate:
    """The template of a kind; few-shot cases have the size of the queries."""
    if kind != "few-shot":
        return PromptTemplate.of(kind)
    return PromptTemplate.few_shot([Case.from_request(r, "Norland") for r in requests(3, seed=1)])


def measure(kind: str, number: int, *, max_new_tokens: int = 16) -> dict[str, Any]:
    """Both ways over the same requests: CPU seconds, queries a second, ratio.

    Args:
        kind: the template's name.
        number: how many requests.
        max_new_tokens: how long each answer may get; the random model uses all of it.

    Raises:
        GenerationError: the answers differ.
    """
    asked, template = requests(number), _template(kind)
    texts = [template.render(request).text for request in asked]
    model, tokenizer = small_llama(texts)
    shared: dict[str, Any] = {"tokenizer": tokenizer, "template": template, "device": "cpu"}
    shared["max_new_tokens"] = max_new_tokens
    single = HuggingFaceGenerator(model, batch_size=1, prefix_cache=False, **shared)
    batched = HuggingFaceGenerator(model, **shared)
    for generator in (single, batched):
        generator.generate(asked[:2])  # first calls set things up
    started = time.process_time()
    expected = [single.generate([request])[0].text for request in asked]
    middle = time.process_time()
    answers = [completion.text for completion in batched.generate(asked)]
    ended = time.process_time()
    same = sum(a == b for a, b in zip(answers, expected, strict=True))
    if same < number:
        raise GenerationError(f"{number - same} of {number} answers differ")
    lengths = [len(ids) for ids in tokenizer(texts)["input_ids"]]
    return {
        "queries": number,
        "prompt_tokens": round(sum(lengths) / number),
        "new_tokens": max_new_tokens,
        "distinct_answers": len(set(answers)),
        "single_cpu_seconds": round(middle - started, 2),
        "batched_cpu_seconds": round(ended - middle, 2),
        "queries_per_cpu_second": round(number / (ended - middle), 1),
        "times_faster": round((middle - started) / (ended - middle), 1),
    }


def main(out: Path | None = None, *, number: int = 96) -> dict[str, Any]:
    """Measure, print, and write ``generation.json``.

    Raises:
        GenerationError: the two ways answer differently.
    """
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        figures = {kind: measure(kind, number) for kind in ("rule-guided", "few-shot")}
    finally:
        torch.set_num_threads(threads)
    for kind, row in figures.items():
        sys.stdout.write(
            f"{kind}, {row['queries']} queries of {row['prompt_tokens']} tokens: "
            f"{row['batched_cpu_seconds']} CPU s in batches with shared beginnings, "
            f"{row['single_cpu_seconds']} CPU s one at a time: {row['times_faster']} times "
            f"faster, same answers ({row['distinct_answers']} different ones)\n"
        )
    if out is not None:
        write_json(prepare_folder(out) / "generation.json", figures)
    return figures
