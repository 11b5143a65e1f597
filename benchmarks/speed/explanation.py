"""What an exact explanation costs with the nano reader: 8 documents, every subset.

The engine asks a level of the lattice at a time; the reader batches it, and what prompts begin
with in common is computed once. Against it stands the same model asked one subset after the other,
by transformers' own ``generate``, as the reference of a paper's code would, and by our reader with
batches of one. Answers, and the rules that are mined from them, have to be the same; a rerun on the
cache has to ask nothing.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.common.world_questions import world_questions
from rulerag.errors import GenerationError
from rulerag.explanation.probing import (
    AnswerCache,
    CachedGenerator,
    ProbeEngine,
    matches_answer,
)
from rulerag.explanation.search import DualMiner
from rulerag.generation.huggingface import HuggingFaceGenerator
from rulerag.io import prepare_folder, write_json
from rulerag.protocols import Generator
from rulerag.synthetic import World
from rulerag.types import Completion, GenerationRequest

TARGET = 4.0
DOCUMENTS = 8


class _OneByOne:
    """The same model through transformers' own generation, one request after the other."""

    def __init__(self, reader: HuggingFaceGenerator) -> None:
        self._reader = reader
        self.fingerprint = reader.fingerprint + "-one-by-one"

    def generate(self, asked: Sequence[GenerationRequest]) -> list[Completion]:
        return [Completion(self._one(request)) for request in asked]

    def _one(self, request: GenerationRequest) -> str:
        import torch

        reader = self._reader
        _, tokens = reader.encode([request])[0]
        prompt = torch.as_tensor(tokens)[None]
        with torch.inference_mode():
            output = reader.model.generate(
                prompt,
                attention_mask=torch.ones_like(prompt),
                do_sample=False,
                max_new_tokens=reader.settings.max_new_tokens,
            )
        text = reader.tokenizer.decode(output[0, prompt.shape[1] :], skip_special_tokens=True)
        return reader.template.parse(text, request)


def requests(
    number: int, *, documents: int = DOCUMENTS, num_facts: int = 4000, seed: int = 5
) -> list[GenerationRequest]:
    """Questions of a generated world with so many documents, the supporting ones among them."""
    world = World.generate(num_facts, kind="static", seed=seed)
    corpus, questions = world_questions(world)
    chance = random.Random(seed)
    made: list[GenerationRequest] = []
    for asked in questions:
        others = chance.sample(corpus, documents)
        known = (*asked.support.values(), *asked.near, *others)
        chosen = list({d.id: d for d in known}.values())[:documents]
        chance.shuffle(chosen)
        made.append(GenerationRequest(asked.query, tuple(chosen), asked.rules))
        if len(made) == number:
            break
    return made


def measure(asked: Sequence[GenerationRequest], reader: HuggingFaceGenerator) -> dict[str, Any]:
    """Every subset of each request's documents, in three ways; CPU seconds, ratios, equal answers.

    Raises:
        GenerationError: answers or rules differ, or a rerun asked the model.
    """
    single = _OneByOne(reader)
    alone = _batches_of_one(reader)
    reader.generate(asked[:1])
    single.generate(asked[:1])  # first calls set things up
    rows: list[dict[str, Any]] = []
    for request in asked:
        answer = reader.generate([request])[0].text
        ways: dict[str, Generator] = {"batched": reader, "one_by_one": single, "alone": alone}
        found = {name: _mined(way, request, answer) for name, way in ways.items()}
        outputs, rules, probes, _ = found["batched"]
        for name in ("one_by_one", "alone"):
            if found[name][:2] != (outputs, rules):
                raise GenerationError(f"the answers of {request.query.id} differ, {name}")
        rows.append(
            {
                "probes": probes,
                "distinct_answers": len(set(outputs)),
                "rules": sum(map(len, rules)),
                **{f"{name}_cpu_seconds": seconds for name, (*_, seconds) in found.items()},
                "rerun_probes": _rerun(reader, request, answer),
            }
        )
    totals = {
        name: sum(row[f"{name}_cpu_seconds"] for row in rows)
        for name in ("batched", "one_by_one", "alone")
    }
    probes = sum(row["probes"] for row in rows)
    return {
        "benchmark": "explanation",
        "questions": len(rows),
        "documents": len(asked[0].documents),
        "probes": probes,
        "batched_cpu_milliseconds": 1e3 * totals["batched"] / probes,
        "one_by_one_cpu_milliseconds": 1e3 * totals["one_by_one"] / probes,
        "alone_cpu_milliseconds": 1e3 * totals["alone"] / probes,
        "ratio": totals["one_by_one"] / totals["batched"],
        "ratio_alone": totals["alone"] / totals["batched"],
        "ratio_median": median(
            row["one_by_one_cpu_seconds"] / row["batched_cpu_seconds"] for row in rows
        ),
        "rerun_probes": sum(row["rerun_probes"] for row in rows),
        "rows": rows,
    }


def _batches_of_one(reader: HuggingFaceGenerator) -> Generator:
    """Our reader, one request a call."""

    class Alone:
        fingerprint = reader.fingerprint + "-alone"

        def generate(self, asked: Sequence[GenerationRequest]) -> list[Completion]:
            return [reader.generate([request])[0] for request in asked]

    return Alone()


def _mined(
    generator: Generator, request: GenerationRequest, answer: str
) -> tuple[list[str], tuple[frozenset[frozenset[int]], ...], int, float]:
    """The answers to every subset, the minimal rules of both kinds, and the CPU seconds."""
    start = time.process_time()
    engine = ProbeEngine.from_generator(generator, request)
    outputs = engine.probe(range(1 << engine.num_sources))
    holds = matches_answer(answer)
    rules = DualMiner().mine(engine, retention=holds, omission=~holds)
    took = time.process_time() - start
    return outputs, tuple(part.minimal for part in rules), engine.num_probes, took


def _rerun(reader: HuggingFaceGenerator, request: GenerationRequest, answer: str) -> int:
    """How many subsets a second run on the same cache asks the model."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "answers.sqlite"
        asked = []
        for _ in range(2):
            cache = AnswerCache(file)
            kept = CachedGenerator(reader, cache)
            _mined(kept, request, answer)
            asked.append(kept.num_asked)
            cache.close()
    if asked[0] != 1 << len(request.documents):
        raise GenerationError(f"the first run asked {asked[0]} subsets")
    return asked[1]


def main(
    out: Path | None = None,
    *,
    number: int = 4,
    documents: int = DOCUMENTS,
    reader: Callable[[], HuggingFaceGenerator] | None = None,
) -> dict[str, Any]:
    """Measure, print, and write ``explanation.json``.

    Args:
        out: the folder of the figures.
        number: how many questions.
        documents: how many documents each has.
        reader: makes the model; the one that is installed with rulerag by default.

    Raises:
        GenerationError: the ways differ in an answer or a rule.
    """
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        model = reader() if reader else HuggingFaceGenerator(device="cpu", dtype="float32")
        result = measure(requests(number, documents=documents), model)
    finally:
        torch.set_num_threads(threads)
    sys.stdout.write(
        f"{result['questions']} questions, every subset of {documents} documents: "
        f"{result['batched_cpu_milliseconds']:.2f} ms a probe in batches with shared beginnings, "
        f"{result['one_by_one_cpu_milliseconds']:.2f} ms one after the other: "
        f"{result['ratio']:.2f} times faster (target {TARGET:g}), same answers and rules; "
        f"a rerun asks {result['rerun_probes']} probes\n"
    )
    if out is not None:
        write_json(prepare_folder(out) / "explanation.json", result)
    return result
