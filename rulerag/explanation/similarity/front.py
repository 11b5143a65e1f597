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

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from rulerag.arrays import Doubles
from rulerag.composition import check_choice, register
from rulerag.errors import ConfigError, ExplanationError
from rulerag.explanation.attribution import Attribution
from rulerag.explanation.claims import SameClaim, split_sentences
from rulerag.explanation.lattice import full_mask
from rulerag.explanation.probing import Probed, ProbeEngine, Score
from rulerag.explanation.similarity.records import Sentence, SimilarityAttribution
from rulerag.explanation.similarity.scorers import Scores, find_scorer
from rulerag.explanation.units import Passage, passages_of


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
    asked = _sentences(answer)
    passages = passages_of([documents] if isinstance(documents, str) else documents)
    sources = [one for passage in passages for one in _sentences(passage.text, passage.index)]
    for key, what, sentences in (("answer", "answer", asked), ("documents", "context", sources)):
        if not sentences:
            raise ConfigError(
                f"the {what} is empty: there is no sentence to compare",
                key=key,
                hint="a text with at least one word",
            )
    chosen = find_scorer(scorer)
    scores = _windowed(chosen.scores, [one.text for one in asked], passages, sources, window)
    if not np.isfinite(scores).all():
        raise ExplanationError(
            f"{chosen.name} gave numbers that are not finite", hint="check the model"
        )
    return SimilarityAttribution(
        answer=answer,
        sentences=tuple(asked),
        documents=tuple(passages),
        sources=tuple(sources),
        scores=tuple(map(tuple, scores.tolist())),
        scorer=chosen.name,
        window=window,
        aggregate=aggregate,
        temperature=chosen.temperature if temperature is None else float(temperature),
    )


@register("explainer", "similarity")
def explain_by_similarity(
    engine: Probed,
    score: Score | None,
    *,
    samples: int | None = None,
    seed: int = 0,
    scorer: str = "tf-idf",
) -> Attribution:
    """:func:`similarity_attribution` of the answer, or of the claim that is explained, by tf-idf.

    Nothing is asked but the answer itself.

    Raises:
        ConfigError: what the sources say is not known, or numbers are explained instead of texts.
    """
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
        nothing = (0.0,) * engine.num_sources  # no answer is like anything
        names = engine.names
        return Attribution(f"similarity, {scorer}", names, nothing, None, 0.0, 0.0, probes)
    similarity = similarity_attribution(answer, engine.texts, scorer).attribution()
    return replace(similarity, names=engine.names, num_probes=probes)


@register("explainer", "similarity-encoder")
def explain_by_encoder_similarity(
    engine: Probed, score: Score | None, *, samples: int | None = None, seed: int = 0
) -> Attribution:
    """The same by the cosines of the small encoder that is installed."""
    return explain_by_similarity(engine, score, scorer="bi-encoder")


def _sentences(text: str, document: int | None = None) -> list[Sentence]:
    return [Sentence(one.text, one.start, one.end, document) for one in split_sentences(text)]


def _windowed(
    scores: Scores,
    asked: Sequence[str],
    passages: Sequence[Passage],
    sources: Sequence[Sentence],
    window: int,
) -> Doubles:
    """The score of each sentence of the answer with each of the documents, in order."""
    units, held = list[str](), list[slice]()  # by each window: which of the sources
    first = 0
    for _, group in itertools.groupby(sources, lambda source: source.document):
        sentences = list(group)
        size = min(window, len(sentences))
        for start in range(len(sentences) - size + 1):
            begin, end = sentences[start].start, sentences[start + size - 1].end
            units.append(passages[sentences[start].document or 0].text[begin:end])
            held.append(slice(first + start, first + start + size))
        first += len(sentences)
    numbers = scores(asked, units)
    best = np.full((len(asked), len(sources)), -np.inf)
    for column, places in enumerate(held):
        best[:, places] = np.maximum(best[:, places], numbers[:, [column]])
    return best
