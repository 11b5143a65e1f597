"""Speed of reading: batches that share beginnings against one query at a time, same answers.

``main`` lets LLaMAs with random weights answer RuleQA-I prompts (dated facts, up to eight guiding
rules of the query's relation, ten documents) twice in the same run: by ``model.generate`` of
transformers, one query after another, and by :class:`HuggingFaceGenerator` all at once. The
prompts are those of ``runs/ruleqa-i`` with rule-guided BM25 where that folder was built, else
invented ones of that form. The few-shot template shows three cases of ten documents before the
query, as RuleRAG's Table 10 does. ``subsets`` probes all subsets of the eight best documents of one
prompt, as an exact explanation does. Answers must be equal; scores may differ by rounding. The
baseline answers a sample. Times are CPU seconds on one thread, which a busy machine changes least.
``padded_cpu_milliseconds`` are those of the padded decoder, in place of which the packed one works
where it can. The lattice of 256 subsets of 8 documents (224 tokens a prompt, 8 new ones, standard
template) took SmolLM2-135M-Instruct 61.6 CPU seconds packed and 162.9 padded.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from rulerag.assembly import make_retriever, make_selector
from rulerag.composition import Config
from rulerag.errors import GenerationError
from rulerag.generation.huggingface import HuggingFaceGenerator
from rulerag.generation.prompts import PromptTemplate
from rulerag.io import prepare_folder, write_json
from rulerag.ruleqa import RuleQADataset
from rulerag.rules import Atom, Rule
from rulerag.types import Document, GenerationRequest, Query

_RETRIEVAL = {
    "selector": {"type": "head", "max_rules": 8, "rank_by": "support"},
    "retriever": {
        "type": "guided",
        "compose": "substitute",
        "merge": "evidence",
        "retriever": {
            "type": "time_aware",
            "distinct_facts": True,
            "retriever": {"type": "bm25", "dates": "token"},
        },
    },
}
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


def ruleqa_requests(folder: Path, number: int) -> list[GenerationRequest]:
    """Ten documents of rule-guided BM25 and up to eight rules for the first queries of F_G.

    Args:
        folder: the dataset.
        number: how many queries at most.
    """
    dataset = RuleQADataset.load(folder)
    config = Config(_RETRIEVAL)
    selector = make_selector(config, dataset.rules)
    retriever = make_retriever(config, dataset, selector)
    queries = dataset.query_set("f_g")[:number]
    found = retriever.retrieve(queries, 10)
    rules = selector.select(queries) if selector is not None else [[] for _ in queries]
    return [
        GenerationRequest(query, tuple(scored.document for scored in documents), tuple(chosen))
        for query, documents, chosen in zip(queries, found, rules, strict=True)
    ]


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


def _template(kind: str, cases: Sequence[GenerationRequest]) -> PromptTemplate:
    """The template of a kind; few-shot cases have the size of the queries."""
    if kind != "few-shot":
        return PromptTemplate.rule_guided()
    return PromptTemplate.few_shot([PromptTemplate().case(r, "Norland") for r in cases])


def check_equal(answers: Sequence[str], expected: Sequence[str]) -> None:
    """Refuse answers that are not those of the baseline.

    Raises:
        GenerationError: says how many differ.
    """
    differ = sum(one != other for one, other in zip(answers, expected, strict=True))
    if differ:
        raise GenerationError(f"{differ} of {len(expected)} answers differ")


def measure(
    kind: str,
    asked: Sequence[GenerationRequest],
    *,
    sample: int = 32,
    max_new_tokens: int = 16,
    width: int = 128,
    layers: int = 4,
) -> dict[str, Any]:
    """Both ways over the same requests: CPU seconds, queries a second, ratio.

    Args:
        kind: ``rule-guided``, ``few-shot`` (the last three requests are its cases) or ``subsets``
            (of the first request's documents).
        asked: the requests.
        sample: how many of them the baseline answers.
        max_new_tokens: how long each answer may get; the random model uses nearly all of it.
        width: of the model.
        layers: of the model.

    Raises:
        GenerationError: the answers differ.
    """
    template = _template(kind, asked[-3:])
    if kind == "subsets":
        asked = subsets(asked[0])
    texts = [template.render(request).text for request in asked]
    model, tokenizer = small_llama(texts, width=width, layers=layers)
    reader = HuggingFaceGenerator(
        model, tokenizer=tokenizer, template=template, device="cpu", max_new_tokens=max_new_tokens
    )
    chosen = sorted(random.Random(0).sample(range(len(texts)), min(sample, len(texts))))
    prompts = [tokenizer(texts[n], return_tensors="pt")["input_ids"] for n in chosen]
    _one(model, prompts[0], max_new_tokens)  # first calls set things up
    reader.generate(asked[:2])
    started = time.process_time()
    written = [_one(model, prompt, max_new_tokens) for prompt in prompts]
    middle = time.process_time()
    answers = [completion.text for completion in reader.generate(asked)]
    ended = time.process_time()
    expected = [
        template.parse(tokenizer.decode(tokens, skip_special_tokens=True), asked[n])
        for n, tokens in zip(chosen, written, strict=True)
    ]
    check_equal([answers[n] for n in chosen], expected)
    one, batched = (middle - started) / len(chosen), (ended - middle) / len(asked)
    lengths = [len(ids) for ids in tokenizer(texts)["input_ids"]]
    reader._decoders = (None, reader._decoders[1])
    started = time.process_time()
    reader.generate(asked[:256])
    padded = (time.process_time() - started) / min(256, len(asked))
    return {
        "queries": len(asked),
        "compared": len(chosen),
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "prompt_tokens": round(sum(lengths) / len(lengths)),
        "new_tokens": max_new_tokens,
        "distinct_answers": len(set(answers)),
        "single_cpu_milliseconds": round(1e3 * one, 2),
        "batched_cpu_milliseconds": round(1e3 * batched, 2),
        "padded_cpu_milliseconds": round(1e3 * padded, 2),
        "queries_per_cpu_second": round(1 / batched, 1),
        "times_faster": round(one / batched, 2),
    }


def _one(model: Any, prompt: Any, max_new_tokens: int) -> list[int]:
    """The new tokens of one prompt by transformers' own generation."""
    import torch

    with torch.inference_mode():
        output = model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            do_sample=False,
            max_new_tokens=max_new_tokens,
        )
    return cast("list[int]", output[0, prompt.shape[1] :].tolist())


def main(
    out: Path | None = None, *, number: int = 1559, dataset: Path = Path("runs/ruleqa-i")
) -> dict[str, Any]:
    """Measure, print, and write ``generation.json``.

    Args:
        out: the folder of the figures.
        number: how many queries; as many as RuleQA-I has for testing.
        dataset: a RuleQA-I folder, used where it is built.

    Raises:
        GenerationError: the two ways answer differently.
    """
    import torch

    real = (dataset / "manifest.json").exists()
    asked = ruleqa_requests(dataset, number + 3) if real else requests(number + 3)
    few, some = number // 32, number // 3
    big: dict[str, Any] = {"width": 768, "layers": 6, "sample": 6}
    runs: dict[str, tuple[str, int, dict[str, Any]]] = {
        "rule-guided": ("rule-guided", number, {}),
        "few-shot": ("few-shot", some, {"sample": 16}),
        "subsets": ("subsets", 4, {}),
        "rule-guided, large": ("rule-guided", few, big),
        "few-shot, large": ("few-shot", few, big),
    }
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    figures: dict[str, Any] = {"prompts": "ruleqa-i" if real else "invented"}
    try:
        for name, (kind, size, options) in runs.items():
            row = figures[name] = measure(kind, [*asked[:size], *asked[-3:]], **options)
            sys.stdout.write(
                f"{name} ({row['parameters'] / 1e6:.1f} M parameters), {row['queries']} prompts of "
                f"{row['prompt_tokens']} tokens: {row['batched_cpu_milliseconds']} ms a query in "
                f"batches with shared beginnings, {row['single_cpu_milliseconds']} ms one at a "
                f"time: {row['times_faster']} times faster, same answers\n"
            )
            sys.stdout.flush()
    finally:
        torch.set_num_threads(threads)
    if out is not None:
        write_json(prepare_folder(out) / "generation.json", figures)
    return figures
