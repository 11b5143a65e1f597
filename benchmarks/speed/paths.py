"""The hot paths of the library, each beside another way to the same result in the same run.

Encoder and reader have random weights and the size of small ones: what they find is worth nothing,
how fast they are does not depend on that.
"""

from __future__ import annotations

import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common.folders import shared_folder
from benchmarks.common.random_encoder import small_encoder
from benchmarks.speed.baselines import (
    Subset,
    algorithm_1,
    count_amie_rules,
    count_temporal_rules,
)
from benchmarks.speed.generation import requests, small_llama, subsets
from benchmarks.speed.retrieval_training import training_dataset, training_step
from benchmarks.speed.timing import Timing, check_equal, hot_path, timed
from rulerag.arrays import Floats
from rulerag.assembly import make_pipeline, make_retriever, preset
from rulerag.cache import SETTLED_SECONDS
from rulerag.explanation.probing import ProbeEngine
from rulerag.explanation.search import MonoMiner
from rulerag.kg import FactTable, KnowledgeGraph
from rulerag.kg.grounding import FactIndex, RulePlans, TableIndex, ground
from rulerag.mining.amie import AmieMiner
from rulerag.mining.temporal import TLogicMiner
from rulerag.retrieval.dense import DenseRetriever
from rulerag.ruleqa import RuleQADataset, build
from rulerag.rules import RuleBank
from rulerag.types import Document, GenerationRequest

QUESTION = "Time 2014-12-01 what does China Consult ?"
PLANTED: dict[str, tuple[Subset, ...]] = {
    "every subset": (frozenset(),),
    "{0}": (frozenset({0}),),
    "{0,1} or {2,3}": (frozenset({0, 1}), frozenset({2, 3})),
    "{0,1,2,3,4}": (frozenset(range(5)),),
}
"""What an answer rests on: it holds where all sources of one set are kept."""


@cache
def _graph(name: str) -> KnowledgeGraph:
    return KnowledgeGraph.load(shared_folder("data", name))


@cache
def ruleqa_i() -> RuleQADataset:
    """The benchmark, built from ICEWS14."""
    return build("ruleqa-i", _graph("icews14"))


# --- rules ----


@hot_path("mining", "sets and dictionaries of Python")
def mining() -> Iterator[Timing]:
    """AMIE's rules of up to three atoms, and rules of one dated body atom."""
    every, dated = AmieMiner(threads=1, skyline=False), TLogicMiner(min_support=1, min_confidence=0)
    yield mined("kinship", every, count_amie_rules)
    yield mined("icews14", dated, count_temporal_rules)


def mined(graph: str, miner: Any, count: Callable[[FactTable], int]) -> Timing:
    """How long a miner takes for the rules that the other way counts."""
    facts = _graph(graph).train
    miner.mine(facts)  # loads the compiled kernels
    bank, number, *seconds = timed(lambda: miner.mine(facts), lambda: count(facts), repeats=1)
    check_equal(graph, len(bank), number)
    return Timing(f"rules of {graph}", "rules", number, *(one / number for one in seconds))


@hot_path("grounding", "rule by rule, in Python")
def grounding() -> Iterator[Timing]:
    """All guiding rules of a query at once: chains of two atoms on FB15k-237."""
    graph = _graph("fb15k237")
    rules = [rule for rule in AmieMiner(max_atoms=3).mine(graph.train) if len(rule.body) == 2]
    asked = list(dict.fromkeys((fact.subject, fact.relation) for fact in graph.test))
    yield grounded(graph, RuleBank(rules), random.Random(0).sample(asked, 300))


def grounded(graph: KnowledgeGraph, bank: RuleBank, asked: Sequence[tuple[str, str]]) -> Timing:
    """Groundings of the rules of each question, a subject and a relation."""
    table, facts = TableIndex(graph.train), FactIndex(enumerate(graph.train))
    plans = {head: RulePlans(bank.for_head(head), table) for head in bank.head_relations}

    def ours() -> int:
        known = [plans[head].ground(subject) for subject, head in asked if head in plans]
        return sum(int(found.count.sum()) for found in known)

    def plainly() -> int:
        return sum(
            len(ground(rule, subject, facts))
            for subject, head in asked
            for rule in bank.for_head(head)
        )

    found, expected, *seconds = timed(ours, plainly, repeats=1)
    check_equal("groundings", found, expected)
    size = len(asked)
    return Timing(f"{len(bank):,} rules", "queries", size, *(one / size for one in seconds))


@hot_path("guided search", "plain BM25, without rules and reading")
def guided_search() -> Iterator[Timing]:
    """Every balanced query of RuleQA-I by rule-guided BM25, read by the symbolic reader."""
    dataset = ruleqa_i()
    queries = dataset.query_set("balanced")
    plain = make_retriever(preset("x", rules="none"), dataset, None)
    pipeline = make_pipeline(preset("x", rules="guided"), dataset)
    plain.retrieve(queries[:64], 10)  # compiles the kernel
    pipeline.answer(queries[:64])
    _, _, *seconds = timed(
        lambda: pipeline.answer(queries), lambda: plain.retrieve(queries, 10), repeats=1
    )
    size = len(queries)
    yield Timing("RuleQA-I", "queries", size, *(one / size for one in seconds))


# --- commands ----


@hot_path("commands", "the same with an empty cache folder")
def commands() -> Iterator[Timing]:
    """One question by the command line, in a process of its own."""
    with tempfile.TemporaryDirectory() as place:
        dataset = Path(place) / "ruleqa-i"
        ruleqa_i().save(dataset)
        ours = [sys.executable, "-m", "rulerag.cli"]
        answer = [*ours, "answer", QUESTION, "--dataset", str(dataset)]
        child_seconds(answer, Path(place) / "warm")
        time.sleep(SETTLED_SECONDS + 0.5)  # files as young as that are not remembered
        for command in ("answer", "explain"):
            words, folder = [*ours, command, *answer[4:]], Path(place) / command
            first = child_seconds(words, folder)
            yield Timing(f"rulerag {command}", "question", 1, child_seconds(words, folder), first)


def child_seconds(command: Sequence[str], cache_folder: Path | None = None) -> float:
    """CPU seconds of a command in a process of its own."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, **({"RULERAG_CACHE": str(cache_folder)} if cache_folder else {})}
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


# --- explanations ----


@hot_path("lattice", "Algorithm 1 of the paper, line by line")
def lattice() -> Iterator[Timing]:
    """Every valid rule of planted answers that cost next to nothing, the answers included."""
    for case, sets in PLANTED.items():
        yield valid_rules(case, 16, lambda kept, sets=sets: any(one <= kept for one in sets))  # type: ignore[misc]


def valid_rules(case: str, num_sources: int, holds: Callable[[Subset], bool]) -> Timing:
    """How long the miner takes for all valid rules of an answer.

    Args:
        case: the answer in words.
        num_sources: of the answer.
        holds: whether it is given on some sources.
    """

    def answer(batch: Sequence[tuple[int, ...]]) -> list[str]:
        return ["yes" if holds(frozenset(kept)) else "no" for kept in batch]

    def mine() -> Any:
        engine = ProbeEngine.from_function(answer, num_sources=num_sources)
        return MonoMiner("retention").mine(engine, lambda output: output == "yes")

    rules, expected, *seconds = timed(mine, lambda: algorithm_1(range(num_sources), holds))
    check_equal(case, set(rules.valid), expected)
    size = rules.num_probes
    return Timing(
        f"{num_sources} sources, {case}", "probes", size, *(one / size for one in seconds)
    )


# --- models ----


class _Given:
    """Encodes numbers as the rows of a matrix."""

    def __init__(self, vectors: Floats) -> None:
        self.vectors = vectors

    def encode(self, texts: Sequence[str]) -> Floats:
        return self.vectors[[int(text) for text in texts]]


@hot_path("dense search", "FAISS's IndexFlatIP on the same vectors, which leaves ties open")
def dense_search() -> Iterator[Timing]:
    """Made-up vectors of small and of usual encoders, few documents wanted and many."""
    yield searched(100_000, 128, queries=500, depth=10)
    yield searched(100_000, 128, queries=500, depth=200)
    yield searched(50_000, 768, queries=200, depth=10)


def searched(size: int, width: int, *, queries: int, depth: int) -> Timing:
    """So many vectors of a width, so many queries, so many best of each."""
    import faiss

    chance = np.random.default_rng(0)
    vectors, asked = (
        chance.standard_normal((number, width)).astype(np.float32) for number in (size, queries)
    )
    for matrix in (vectors, asked):
        faiss.normalize_L2(matrix)
    documents = [Document(f"d{i}", str(i)) for i in range(size)]
    retriever = DenseRetriever(documents, _Given(vectors), cache=False)
    index = faiss.IndexFlatIP(width)
    index.add(vectors)
    _, _, *seconds = timed(
        lambda: retriever.search_vectors(asked, depth), lambda: index.search(asked, depth)
    )
    case = f"{size:,} × {width}, depth {depth}"
    return Timing(case, "queries", queries, *(one / queries for one in seconds))


@hot_path("encoding", "the bare model's forward on batches that are padded already")
def encoding(size: int = 4096, layers: int = 2, width: int = 128) -> Iterator[Timing]:
    """Made-up sentences of a date, names and a few words."""
    import torch

    texts = made_up_texts(size)
    encoder = small_encoder(texts, layers=layers, width=width)
    inner: Any = encoder.model[0].auto_model
    ordered = sorted(texts, key=len, reverse=True)
    step = encoder.batch_size
    batches = [encoder.model.preprocess(ordered[n : n + step]) for n in range(0, size, step)]

    def bare() -> None:
        with torch.inference_mode():
            for batch in batches:
                inner(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"])

    encoder.encode(texts[:step])
    _, _, *seconds = timed(lambda: encoder.encode(texts), bare)
    yield Timing(f"{layers} layers × {width}", "texts", size, *(one / size for one in seconds))


def made_up_texts(size: int) -> list[str]:
    """Sentences of a date, two names and a few words, as documents of a temporal graph are."""
    chance = random.Random(0)
    letters = "abcdefghijklmnoprstuvw"
    words = ["".join(chance.choices(letters, k=chance.randint(3, 9))) for _ in range(3000)]
    texts = []
    for _ in range(size):
        month, day = chance.randint(1, 12), chance.randint(1, 28)
        phrase = " ".join(chance.choices(words, k=chance.randint(5, 14)))
        texts.append(f"Time 2014-{month:02d}-{day:02d} {phrase}.")
    return texts


@hot_path("training step", "the bare model's forward and backward on the same tokens")
def training(facts: int = 8000, steps: int = 32) -> Iterator[Timing]:
    """Fine-tuning a query encoder on a generated world, 32 texts a step."""
    dataset = training_dataset(facts)
    encoder = small_encoder([document.text for document in dataset.corpus])
    ours, bare = training_step(dataset, encoder, steps=steps)
    yield Timing("retriever", "steps", steps, ours / steps, bare / steps)


@hot_path("reading", "model.generate of transformers, one prompt after another")
def reading() -> Iterator[Timing]:
    """Prompts of ten documents and eight rules; with three cases; every subset of documents."""
    asked = requests(243)
    yield read("rule-guided", asked[:240])
    yield read("few-shot", asked[:80], cases=asked[-3:])
    yield read("subsets of eight documents", subsets(asked[0]))


def read(
    case: str,
    asked: Sequence[GenerationRequest],
    *,
    cases: Sequence[GenerationRequest] = (),
    sample: int = 16,
    **size: int,
) -> Timing:
    """All requests by the library at once, a sample of them by the other way.

    Args:
        case: what the prompts are.
        asked: the requests.
        cases: shown before each; a plain rule-guided prompt without any.
        sample: how many the other way answers.
        size: of the model, ``width`` and ``layers``.

    Raises:
        DataError: the answers differ; scores may, by rounding.
    """
    from rulerag.generation.huggingface import HuggingFaceGenerator
    from rulerag.generation.prompts import PromptTemplate

    template = PromptTemplate.rule_guided()
    if cases:
        template = PromptTemplate.few_shot([PromptTemplate().case(one, "Norland") for one in cases])
    texts = [template.render(request).text for request in asked]
    model, tokenizer = small_llama(texts, **size)
    reader = HuggingFaceGenerator(
        model, tokenizer=tokenizer, template=template, device="cpu", max_new_tokens=_NEW_TOKENS
    )
    chosen = sorted(random.Random(0).sample(range(len(asked)), min(sample, len(asked))))
    prompts = [tokenizer(texts[n], return_tensors="pt")["input_ids"] for n in chosen]
    _generated(model, prompts[0])  # first calls set things up
    reader.generate(asked[:2])
    answers, written, ours, one_by_one = timed(
        lambda: [completion.text for completion in reader.generate(asked)],
        lambda: [_generated(model, prompt) for prompt in prompts],
        repeats=1,
    )
    expected = [
        template.parse(tokenizer.decode(tokens, skip_special_tokens=True), asked[n])
        for n, tokens in zip(chosen, written, strict=True)
    ]
    check_equal(case, [answers[n] for n in chosen], expected)
    return Timing(case, "prompts", len(asked), ours / len(asked), one_by_one / len(chosen))


_NEW_TOKENS = 16


def _generated(model: Any, prompt: Any) -> list[int]:
    """The new tokens of one prompt by transformers' own generation."""
    import torch

    with torch.inference_mode():
        output = model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            do_sample=False,
            max_new_tokens=_NEW_TOKENS,
        )
    tokens: list[int] = output[0, prompt.shape[1] :].tolist()
    return tokens
