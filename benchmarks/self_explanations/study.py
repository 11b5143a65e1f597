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

import argparse
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from tqdm import tqdm

from benchmarks.common.folders import shared_folder
from rulerag.errors import (
    ConfigError,
    CutCompletionError,
    DataFormatError,
    EmptyCompletionError,
    GenerationError,
    RefusedCompletionError,
)
from rulerag.evaluation import markdown_table
from rulerag.explanation.attribution import MaskedRegions, RegionExplanation
from rulerag.explanation.correctness import HybridCorrectness
from rulerag.explanation.faithfulness import (
    SelfFaithfulness,
    assess_self_explanation,
    mean_self_faithfulness,
)
from rulerag.explanation.probing import AnswerCache, CachedGenerator, self_explaining
from rulerag.generation.prompts import read_self_explanation
from rulerag.io import prepare_folder, read_json, read_jsonl, write_json, write_text
from rulerag.protocols import Encoder, Generator
from rulerag.types import Document, GenerationRequest, Query

ENCODER = "all-minilm-l6-v2"
PARTS, GROUPS = 3, 5
SWEEP = ((1, 5), (2, 5), (3, 5), (5, 5), (3, 3), (3, 8))
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

_BATCH, _DRAWS, _SHOWN, _TOKENS = 32, 20, 10, 96
_NO_TEXT = (EmptyCompletionError, CutCompletionError, RefusedCompletionError)


def questions(path: Path, limit: int) -> Iterator[GenerationRequest]:
    """The first questions of a file of NQ-Open with their annotated passages.

    Raises:
        DataFormatError: a row is not of that form.
    """
    for number, row in enumerate(read_jsonl(path)):
        if number >= limit:
            return
        try:
            passage = next(one for one in row["ctxs"] if one.get("isgold"))
            query = Query(f"nq-{number}", row["question"], answers=tuple(row["answers"]))
            document = Document(f"nq-{number}-gold", passage["text"], title=passage["title"])
        except (KeyError, TypeError, StopIteration) as error:
            what = f"no question with answers and a gold passage ({error!r})"
            raise DataFormatError(what, path=path, line=number + 1) from error
        yield GenerationRequest(query, (document,))


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
    failed: dict[str, int]

    def __post_init__(self) -> None:
        self.reader = CachedGenerator(
            self_explaining(self.generator), self.cache, batch_size=_BATCH
        )

    def assess(
        self, requests: Sequence[GenerationRequest], parts: int = PARTS, groups: int = GROUPS
    ) -> dict[str, SelfFaithfulness]:
        """Every question, by its id."""
        found = {}
        with tqdm(total=len(requests), desc=f"p={parts}, q={groups}", unit="question") as bar:
            for start in range(0, len(requests), _BATCH):
                batch = requests[start : start + _BATCH]
                # One by one they take longer; what ends in an error is asked again, and counted.
                with suppress(*_NO_TEXT):
                    self._ask_together(batch, parts, groups)
                for request in batch:
                    bar.update()
                    try:
                        found[request.query.id] = self._one(request, parts, groups)
                    except _NO_TEXT as error:
                        self._count(error)
        return found

    def raw(self, requests: Sequence[GenerationRequest]) -> list[str]:
        """What the model wrote for some questions with the passage, word for word."""
        return [one.text for one in self.reader.generate(requests)]

    def _ask_together(self, requests: Sequence[GenerationRequest], parts: int, groups: int) -> None:
        """Ask what assessing some questions will ask, so that the cache has it: stage by stage."""
        bare = [replace(request, documents=()) for request in requests]
        right = self._right([*requests, *bare])
        going = [
            (request, MaskedRegions(request.documents, parts, groups))
            for request, holds, known in zip(
                requests, right[: len(requests)], right[len(requests) :], strict=True
            )
            if holds and not known
        ]
        alone = [(request, cut, part) for request, cut in going for part in range(len(cut.members))]
        enough = self._right(
            [replace(r, documents=cut.keep(cut.members[part])) for r, cut, part in alone]
        )
        self._right(
            [
                replace(r, documents=cut.keep(g for g in cut.members[part] if g != masked))
                for (r, cut, part), holds in zip(alone, enough, strict=True)
                if holds
                for masked in cut.members[part]
            ]
        )

    def _right(self, requests: Sequence[GenerationRequest]) -> list[bool]:
        answers = [read_self_explanation(text).answer for text in self.raw(requests)]
        return [
            HybridCorrectness(request.query.answers, self.encoder)(answer)
            for request, answer in zip(requests, answers, strict=True)
        ]

    def _one(self, request: GenerationRequest, parts: int, groups: int) -> SelfFaithfulness:
        correct = HybridCorrectness(request.query.answers, self.encoder)
        return assess_self_explanation(
            self.reader, request, correct, parts=parts, groups=groups, without_text=True
        )

    def _count(self, error: GenerationError) -> None:
        name = type(error).__name__
        self.failed[name] = self.failed.get(name, 0) + 1


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


def sweep(
    study: Study, requests: Sequence[GenerationRequest], sizes: Sequence[tuple[int, int]]
) -> list[dict[str, Any]]:
    """Success against calls for other numbers of parts and groups.

    Args:
        study: the model.
        requests: questions that it answers with the passage alone.
        sizes: parts and groups.
    """
    rows = []
    for parts, groups in sizes:
        summary = mean_self_faithfulness(study.assess(requests, parts, groups).values())
        rows.append(
            {
                "parts": parts,
                "groups": groups,
                "most": 2 + parts * (1 + groups),  # one of them without the passage
                **summary.to_json(),
            }
        )
    return rows


def measure(
    name: str, study: Study, requests: Sequence[GenerationRequest], sizes: Sequence[tuple[int, int]]
) -> dict[str, Any]:
    """Funnel, score, baselines, sweep and the first outputs of one model."""
    by_id = {request.query.id: request for request in requests}
    results = study.assess(requests)
    every = list(results.values())
    summary = mean_self_faithfulness(every)
    answered = [by_id[one.query_id] for one in every if one.right and not one.known]
    told = [request for request in requests if request.query.id in results]
    bare = study.raw([replace(request, documents=()) for request in told])
    kinds = ("thought", "keywords", "answer")
    explained = [one for one in every if one.fit is not None]
    places = [at for one in explained if one.fit for _, at in one.fit.keywords]
    return {
        "model": name,
        "parts": PARTS,
        "groups": GROUPS,
        **summary.to_json(),
        "failed": dict(study.failed),
        "said_without_text": sum(bool(read_self_explanation(text).answer) for text in bare),
        "missing": {kind: sum(kind in one.missing for one in every) for kind in kinds},
        "keyword_places": {at: places.count(at) for at in sorted(set(places))},
        "scores": {one.query_id: one.score for one in every if one.stage == "explained"},
        "baselines": baselines(every, by_id),
        "sweep": sweep(study, answered, sizes) if answered else [],
        "outputs": [
            {
                "question": request.query.text,
                "answers": list(request.query.answers),
                "output": text,
                "stage": results[request.query.id].stage,
            }
            for request, text in zip(told[:_SHOWN], study.raw(told[:_SHOWN]), strict=True)
        ],
    }


def tables(found: Sequence[Mapping[str, Any]]) -> str:
    """Table 1 beside the paper's, and the sweep of each model, as Markdown."""
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
    parts = [markdown_table(["", *columns], rows)]
    for one in found:
        swept = [
            [
                *(str(row["parts"]), str(row["groups"]), str(row["most"])),
                *(
                    _cell(row[key])
                    for key in ("calls", "right", "sufficient", "necessary", "score")
                ),
            ]
            for row in one["sweep"]
        ]
        if swept:
            head = ["parts", "groups", "requests at most", "requests, mean", "answered"]
            head += ["sufficient region", "necessary keyword", "F"]
            parts.append(f"{one['model']}\n\n{markdown_table(head, swept, 'r' * len(head))}")
    return "\n".join(parts)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else f"{value:,}"


def open_generator(arguments: argparse.Namespace) -> Generator:
    """The model on this machine, or behind an endpoint.

    Raises:
        GenerationError: the model cannot be opened.
    """
    template = {"type": "self-explanation-few-shot"}
    if arguments.endpoint:
        from rulerag.generation.openai_compatible import OpenAICompatibleGenerator

        return OpenAICompatibleGenerator(
            arguments.endpoint, arguments.model, template=template, max_new_tokens=4 * _TOKENS
        )
    from rulerag.generation.huggingface import HuggingFaceGenerator

    return HuggingFaceGenerator(
        arguments.model, template=template, dtype="fast", max_new_tokens=_TOKENS
    )


def run(arguments: argparse.Namespace) -> None:
    """Measure one model, write its figures, and print the table of every model measured."""
    from rulerag.retrieval.dense.encoders import load_encoder

    if arguments.questions < 1:
        raise ConfigError(f"expected a number from 1, found {arguments.questions}", key="questions")
    data = shared_folder("data", "nq_open_oracle") / "nq-open-oracle.jsonl.gz"
    requests = list(questions(data, arguments.questions))
    study = Study(
        open_generator(arguments), AnswerCache(arguments.cache), load_encoder(ENCODER), {}
    )
    found = measure(arguments.model, study, requests, SWEEP if arguments.sweep else ())
    out = prepare_folder(arguments.out)
    write_json(out / f"{Path(arguments.model).name}.json", found)
    text = tables([read_json(file) for file in sorted(out.glob("*.json"))])
    write_text(out / "self_explanations.md", text)
    sys.stdout.write(text)
