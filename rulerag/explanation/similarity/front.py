"""Similarity attribution: which sentences of the documents read like the answer.

The texts of an answer and of its documents are cut into sentences, every one is compared with
every other, a softmax makes shares of the numbers, and the shares are put together over the
sentences of the answer. It asks no model that answered anything, which makes it cheap, and is why
it cannot say what that model used.

References:
    Renumics 2025, "Explaining LLMs for RAG and Summarization": sentences, cosines, softmax, mean or
    max, windows, cross-encoders. Its softmax has the temperature 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from rulerag.arrays import Doubles
from rulerag.composition import check_choice, register
from rulerag.errors import ConfigError, ExplanationError
from rulerag.explanation.attribution import Attribution
from rulerag.explanation.claims import Claim, SameClaim, split_sentences
from rulerag.explanation.lattice import full_mask
from rulerag.explanation.levels import Passage, passages_of
from rulerag.explanation.probing import Probed, ProbeEngine, Score
from rulerag.explanation.similarity.records import Sentence, SimilarityAttribution
from rulerag.explanation.similarity.scorers import find_scorer


def similarity_attribution(
    answer: str,
    documents: str | Sequence[Any],
    scorer: Any = "tf-idf",
    *,
    window: int = 1,
    aggregate: Literal["mean", "max"] = "mean",
    temperature: float | None = None,
) -> SimilarityAttribution:
    """Compare every sentence of an answer with every sentence of its documents.

    Args:
        answer: the answer, or a summary.
        documents: what it was made from, as :func:`rulerag.explain` takes them, or one text.
        scorer: what compares: ``tf-idf``, ``bm25``, ``bi-encoder`` (the small one that is
            installed), ``bi-encoder:NAME`` or ``cross-encoder:NAME`` with a name or a folder; or an
            open model with ``encode(texts)`` or ``predict(pairs)``.
        window: so many neighbouring sentences of a document are compared together, one window for
            each place; a sentence has the score of the best window that holds it. A document with
            fewer is one window.
        aggregate: over the sentences of the answer: ``mean``, or ``max``, where one hit counts.
        temperature: what scores are divided by before the softmax: 1 as published, which tells
            cosines hardly apart; by default 0.1 for cosines and 1 for BM25 and cross-encoders.

    Raises:
        ConfigError: answer or documents are empty, no scorer is called so, or a number is out of
            range.
        ExplanationError: a model cannot be opened, is of another kind, or gives no numbers.
        MissingDependencyError: the scorer needs what is not installed.
    """
    check_choice("aggregate", aggregate, ("mean", "max"))
    if isinstance(window, bool) or not isinstance(window, int) or window < 1:
        raise ConfigError(f"expected a whole number from 1, found {window!r}", key="window")
    if temperature is not None and not temperature > 0:
        raise ConfigError(f"expected a number above 0, found {temperature!r}", key="temperature")
    if not isinstance(answer, str):
        raise ConfigError(f"expected a text, found {type(answer).__name__}", key="answer")
    asked = [_sentence(one) for one in split_sentences(answer)]
    passages = passages_of([documents] if isinstance(documents, str) else documents)
    cut = [split_sentences(passage.text) for passage in passages]
    for key, what, there in (("answer", "answer", asked), ("documents", "context", any(cut))):
        if not there:
            raise ConfigError(
                f"the {what} is empty: there is no sentence to compare",
                key=key,
                hint="a text with at least one word",
            )
    chosen = find_scorer(scorer)
    scores = _windowed(chosen.scores, [one.text for one in asked], passages, cut, window)
    if not np.isfinite(scores).all():
        raise ExplanationError(
            f"{chosen.name} gave numbers that are not finite", hint="check the model"
        )
    return SimilarityAttribution(
        answer=answer,
        sentences=tuple(asked),
        documents=tuple(passages),
        sources=tuple(
            _sentence(one, passage.index)
            for passage, sentences in zip(passages, cut, strict=True)
            for one in sentences
        ),
        scores=tuple(map(tuple, scores.tolist())),
        scorer=chosen.name,
        window=window,
        aggregate=aggregate,
        temperature=chosen.temperature if temperature is None else float(temperature),
    )


@register("explainer", "similarity")
def explain_by_similarity(
    engine: Probed, score: Score | None, *, samples: int | None = None, seed: int = 0
) -> Attribution:
    """:func:`similarity_attribution` of the answer, or of the claim that is explained, by tf-idf.

    Nothing is asked but the answer itself.

    Raises:
        ConfigError: what the sources say is not known, or numbers are explained instead of texts.
    """
    return _explained(engine, score, "tf-idf")


@register("explainer", "similarity-encoder")
def explain_by_encoder_similarity(
    engine: Probed, score: Score | None, *, samples: int | None = None, seed: int = 0
) -> Attribution:
    """The same by the cosines of the small encoder that is installed."""
    return _explained(engine, score, "bi-encoder")


def _explained(engine: Probed, score: Score | None, scorer: str) -> Attribution:
    if not isinstance(engine, ProbeEngine) or engine.texts is None or score is None:
        raise ConfigError(
            "similarity compares texts, and only numbers are known here",
            key="attribution",
            hint="explain the verdict on an answer, from sources with a text",
        )
    if isinstance(score, SameClaim):
        answer, probes = score.claim, 0
    else:
        answer, probes = engine.probe([full_mask(engine.num_sources)])[0], 1
    if not split_sentences(answer) or not any(map(split_sentences, engine.texts)):
        values: tuple[float, ...] = (0.0,) * engine.num_sources  # no answer is like anything
        return Attribution(f"similarity, {scorer}", engine.names, values, None, 0.0, 0.0, probes)
    found = similarity_attribution(answer, engine.texts, scorer)
    values = found.document_values
    return Attribution(
        f"similarity, {found.scorer}", engine.names, values, None, sum(values), 0.0, probes
    )


def _sentence(one: Claim, document: int | None = None) -> Sentence:
    return Sentence(one.text, one.start, one.end, document)


def _windowed(
    scores: Any,
    asked: Sequence[str],
    passages: Sequence[Passage],
    cut: Sequence[Sequence[Claim]],
    window: int,
) -> Doubles:
    """The score of each sentence of the answer with each of the documents, in order."""
    units: list[str] = []
    held: list[slice] = []  # by each window: which sentences, counted over all documents
    first = 0
    for passage, sentences in zip(passages, cut, strict=True):
        size = min(window, len(sentences))
        for start in range(len(sentences) - size + 1 if sentences else 0):
            last = sentences[start + size - 1]
            units.append(passage.text[sentences[start].start : last.end])
            held.append(slice(first + start, first + start + size))
        first += len(sentences)
    found = scores(asked, units)
    best = np.full((len(asked), first), -np.inf)
    for column, places in enumerate(held):
        best[:, places] = np.maximum(best[:, places], found[:, [column]])
    return best
