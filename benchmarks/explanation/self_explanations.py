"""Table 1 of Fragkathoulas and Chlapanis 2024 with other models: do models know why they answer?

A model answers questions of Natural Questions with the annotated passage and names the words that
helped. Parts of the passage, and parts with groups of words masked, show what its answer needs
(:mod:`rulerag.explanation.faithfulness.self_explanations`). Questions that it answers without the
passage are left out (*Retrieval-Hard*). Correct is what the hybrid metric of section 3.3 says, with
MiniLM as its sentence encoder.

Two baselines stand beside ``F``, on the same questions: phrases drawn from the passage, as many
words each as the model's keywords; and the model's short answer as its only keyword.

Every answer of the model is kept in a file, so that a run goes on where it ended.

References:
    Fragkathoulas and Chlapanis 2024 (SETN, doi 10.1145/3688671.3688775): section 4, Table 1.
    Liu et al. 2024 (Lost in the Middle, TACL 12): the questions and passages (``nq_open_oracle``).
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import Any

from tqdm import tqdm

from benchmarks.common.folders import shared_folder
from benchmarks.explanation.tables import nq_questions
from rulerag.errors import (
    ConfigError,
    CutCompletionError,
    EmptyCompletionError,
    RefusedCompletionError,
)
from rulerag.evaluation import markdown_table
from rulerag.explanation.attribution import RegionExplanation
from rulerag.explanation.correctness import HybridCorrectness
from rulerag.explanation.faithfulness import (
    SelfFaithfulness,
    assess_self_explanation,
    mean_self_faithfulness,
)
from rulerag.explanation.probing import AnswerCache, CachedGenerator, self_explaining
from rulerag.generation.prompts import read_self_explanation
from rulerag.io import prepare_folder, read_json, write_json, write_text
from rulerag.protocols import Encoder, Generator
from rulerag.types import GenerationRequest

ENCODER = "all-minilm-l6-v2"
PAPER: dict[str, Mapping[str, Any]] = {
    "GPT-3.5 (paper)": {
        **{"total": 790, "hard": 311, "right": 224, "sufficient": 119, "necessary": 100},
        **{"common": 62, "common_score": 0.653},
    },
    "GPT-4o (paper)": {
        **{"total": 790, "hard": 311, "right": 227, "sufficient": 177, "necessary": 149},
        **{"common": 62, "common_score": 0.691},
    },
}
"""Table 1: 311 of 790 questions that GPT-4o does not answer without the passage, for both models;
its scores are means over the 62 questions that were explained for both."""

_BATCH, _DRAWS, _TOKENS = 32, 20, 96


@dataclass
class Study:
    """One model on some questions.

    Args:
        generator: with the template ``self-explanation``.
        cache: where its answers are kept.
        encoder: of the hybrid metric.
        failed: how many questions ended in an answer without a text, by the error's name.
    """

    generator: Generator
    cache: AnswerCache
    encoder: Encoder
    failed: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.reader = CachedGenerator(
            self_explaining(self.generator), self.cache, batch_size=_BATCH
        )

    def assess(
        self, requests: Sequence[GenerationRequest], parts: int, groups: int
    ) -> dict[str, SelfFaithfulness]:
        """Every question, by its id."""
        found = {}
        for request in tqdm(requests, f"p={parts}, q={groups}", unit="question"):
            correct = HybridCorrectness(request.query.answers, self.encoder)
            try:
                one = assess_self_explanation(
                    self.reader, request, correct, parts=parts, groups=groups, without_text=True
                )
            except (EmptyCompletionError, CutCompletionError, RefusedCompletionError) as error:
                self.failed[type(error).__name__] += 1
            else:
                found[request.query.id] = one
        return found

    def said_without_text(self, requests: Sequence[GenerationRequest]) -> int:
        """To how many questions the model gives any short answer without the passage."""
        replies = self.reader.generate([replace(request, documents=()) for request in requests])
        return sum(bool(read_self_explanation(one.text).answer) for one in replies)


def drawn(keywords: Sequence[str], text: str, rng: random.Random) -> list[str]:
    """Phrases of a text at random, each with as many words as a keyword."""
    words = text.split()
    phrases = []
    for keyword in keywords:
        length = min(len(keyword.split()), len(words))
        start = rng.randrange(len(words) - length + 1)
        phrases.append(" ".join(words[start : start + length]))
    return phrases


def baselines(
    results: Sequence[SelfFaithfulness], requests: Mapping[str, GenerationRequest]
) -> dict[str, float | None]:
    """The mean score of other keywords on the questions that have one: drawn ones, the answer."""
    rng = random.Random(0)
    at_random, answers = [], []
    for one in results:
        regions = one.regions
        if one.stage != "explained" or regions is None:
            continue
        text = requests[one.query_id].documents[0].text
        draws = [drawn(one.keywords, text, rng) for _ in range(_DRAWS)]
        at_random.append(fmean(_score(regions, keywords) for keywords in draws))
        answers.append(_score(regions, [one.answer]))
    if not answers:
        return {"drawn": None, "answer": None}
    return {"drawn": fmean(at_random), "answer": fmean(answers)}


def _score(regions: RegionExplanation, keywords: Sequence[str]) -> float:
    found = regions.faithfulness(keywords)
    assert found is not None  # noqa: S101  (the question has a score)
    return found


def measure(
    name: str, study: Study, requests: Sequence[GenerationRequest], parts: int, groups: int
) -> dict[str, Any]:
    """Funnel, score and baselines of one model.

    Args:
        name: of the model.
        study: the model.
        requests: the questions with their passages.
        parts: of a passage.
        groups: of words in a part.
    """
    by_id = {request.query.id: request for request in requests}
    results = study.assess(requests, parts, groups)
    every = list(results.values())
    places = [at for one in every if one.fit is not None for _, at in one.fit.keywords]
    return {
        "model": name,
        "parts": parts,
        "groups": groups,
        "most": 2 + parts * (1 + groups),  # one of them without the passage
        **mean_self_faithfulness(every).to_json(),
        "failed": dict(study.failed),
        "said_without_text": study.said_without_text([by_id[one] for one in results]),
        "keyword_places": dict(Counter(places)),
        "scores": {one.query_id: one.score for one in every if one.stage == "explained"},
        "baselines": baselines(every, by_id),
    }


def tables(found: Sequence[Mapping[str, Any]]) -> str:
    """Table 1 beside the paper's, as Markdown."""
    common = set.intersection(*(set(one["scores"]) for one in found)) if found else set()
    columns: dict[str, Mapping[str, Any]] = {}
    for one in found:
        shared = [one["scores"][name] for name in sorted(common)]
        mean = fmean(shared) if shared else None
        columns[str(one["model"])] = {**one, "common": len(shared), "common_score": mean}
    columns |= PAPER
    lines = {
        "questions": "total",
        "explanations with a part missing": "incomplete",
        "with any short answer without the passage": "said_without_text",
        "with a correct one: known": "known",
        "Retrieval-Hard": "hard",
        "of these, answered with the passage": "right",
        "of these, with a sufficient region": "sufficient",
        "of these, with a necessary keyword": "necessary",
        "faithfulness F, on these": "score",
        "explained for every model beside it": "common",
        "F, on these common ones": "common_score",
        "F of phrases drawn from the passage": "drawn",
        "F of the short answer as only keyword": "answer",
        "requests a question answered with the passage, one of them without it": "calls",
    }
    rows = [
        [title, *(_cell({**one, **one.get("baselines", {})}.get(key)) for one in columns.values())]
        for title, key in lines.items()
    ]
    return markdown_table(["", *columns], rows)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else f"{value:,}"


def open_generator(model: str, endpoint: str | None) -> Generator:
    """The model on this machine, or behind an OpenAI-compatible endpoint.

    Raises:
        GenerationError: the model cannot be opened.
    """
    template = {"type": "self-explanation-few-shot"}
    if endpoint:
        from rulerag.generation.openai_compatible import OpenAICompatibleGenerator

        return OpenAICompatibleGenerator(
            endpoint, model, template=template, max_new_tokens=4 * _TOKENS
        )
    from rulerag.generation.huggingface import HuggingFaceGenerator

    return HuggingFaceGenerator(model, template=template, dtype="fast", max_new_tokens=_TOKENS)


def run(
    model: str,
    *,
    out: Path = Path("runs/self-explanations"),
    endpoint: str | None = None,
    questions: int = 300,
    parts: int = 3,
    groups: int = 5,
    cache: Path = Path("runs/self-explanations.sqlite"),
) -> None:
    """Does a model know why it answers; beside every model measured.

    Args:
        model: a folder or name, or the name at the endpoint.
        out: the folder of the figures of all models.
        endpoint: the address of an OpenAI-compatible endpoint.
        questions: the first so many.
        parts: of a passage.
        groups: of words in a part.
        cache: the file that keeps answers; a run goes on from it.

    Raises:
        ConfigError: the number of questions is below 1.
        DataError: the questions are not there.
    """
    from rulerag.retrieval.dense.encoders import load_encoder

    if questions < 1:
        raise ConfigError(f"expected a number from 1, found {questions}", key="questions")
    data = shared_folder("data", "nq_open_oracle") / "nq-open-oracle.jsonl.gz"
    requests = list(islice(nq_questions(data), questions))
    study = Study(open_generator(model, endpoint), AnswerCache(cache), load_encoder(ENCODER))
    found = measure(model, study, requests, parts, groups)
    write_json(prepare_folder(out) / f"{Path(model).name}.json", found)
    text = tables([read_json(file) for file in sorted(out.glob("*.json"))])
    write_text(out / "self_explanations.md", text)
    sys.stdout.write(text)
