"""What compares sentences: words, a bi-encoder, or a cross-encoder."""

from __future__ import annotations

import importlib
import importlib.util
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from rulerag.arrays import Doubles
from rulerag.errors import (
    ConfigError,
    ExplanationError,
    MissingDependencyError,
    RuleRAGError,
    did_you_mean,
)
from rulerag.explanation.similarity.lexical import bm25_scores, tfidf_scores
from rulerag.models import SHIPPED, find_model, quiet_transformers

Scores = Callable[[Sequence[str], Sequence[str]], Doubles]
"""Sentences of an answer and texts to numbers, of shape (sentences, texts)."""

COSINE_TEMPERATURE = 0.1
"""A cosine that is 0.1 higher counts e = 2.7 times as much: a convention, not tuned on anything.

At 1, as published, the largest share is e² times the smallest at most, so that among fifty
sentences all have some 2 %; at 0.05, as encoders are trained, the second of two sources that say
the same in other words gets next to nothing."""

SCORERS: Mapping[str, str] = {
    "tf-idf": "the words in common, rare ones first; needs nothing",
    "bm25": "the same as retrieval counts them; needs nothing",
    "bi-encoder": "the cosine of two vectors; bi-encoder:NAME or bi-encoder:FOLDER",
    "cross-encoder": "a model that reads both; cross-encoder:NAME or cross-encoder:FOLDER",
}
"""Scorers by name, and what each is."""


class Scorer(NamedTuple):
    """A way to compare sentences.

    Args:
        name: what it is called in records.
        scores: the numbers.
        temperature: what they are divided by before the softmax, unless something else is said.
    """

    name: str
    scores: Scores
    temperature: float


def find_scorer(scorer: Any) -> Scorer:
    """A scorer by name, or around a model that is open.

    Args:
        scorer: a key of :data:`SCORERS`, with the name or folder of a model behind a colon; an
            object with ``encode(texts)`` (a bi-encoder) or with ``predict(pairs)`` (a
            cross-encoder), as sentence-transformers has them.

    Raises:
        ConfigError: nothing is called so; suggests close names.
        MissingDependencyError: torch or sentence-transformers is not installed.
        ExplanationError: the model cannot be opened, or is of another kind.
        DataError: the model is known by name and was not fetched; the hint is the command.
    """
    if not isinstance(scorer, str):
        return _around(scorer)
    kind, _, model = scorer.partition(":")
    if kind == "tf-idf" and not model:
        return Scorer(kind, tfidf_scores, COSINE_TEMPERATURE)
    if kind == "bm25" and not model:
        return Scorer(kind, bm25_scores, 1.0)
    if kind == "bi-encoder":
        opened = _bi_encoder(str(find_model(model or SHIPPED[0])))
        return Scorer(f"{kind}:{model or SHIPPED[0]}", _cosines_by(opened), COSINE_TEMPERATURE)
    if kind == "cross-encoder" and model:
        return Scorer(scorer, _pairs_by(_cross_encoder(str(find_model(model)))), 1.0)
    if kind == "cross-encoder":
        raise ConfigError("a cross-encoder needs its name", key="scorer", hint=SCORERS[kind])
    raise ConfigError(
        f"no scorer is called {scorer!r}", key="scorer", hint=did_you_mean(kind, SCORERS)
    )


def cosines(answers: Any, units: Any) -> Doubles:
    """The cosine of every vector with every other; 0 where one is nothing but zeros.

    Args:
        answers: shape (A, dimension).
        units: shape (U, dimension).

    Returns:
        Shape (A, U).
    """
    rows, columns = _unit(answers), _unit(units)
    return np.asarray(rows @ columns.T, dtype=np.float64)


def _unit(vectors: Any) -> Doubles:
    found = np.asarray(vectors, dtype=np.float64)
    norms = np.linalg.norm(found, axis=1, keepdims=True)
    return np.asarray(found / np.where(norms > 0, norms, 1.0))


def _around(model: Any) -> Scorer:
    name = type(model).__name__
    if callable(getattr(model, "predict", None)):  # before encode: some have both
        return Scorer(f"cross-encoder:{name}", _pairs_by(model), 1.0)
    if callable(getattr(model, "encode", None)):
        return Scorer(f"bi-encoder:{name}", _cosines_by(model), COSINE_TEMPERATURE)
    raise ConfigError(
        f"{name} is no scorer",
        key="scorer",
        hint="a name, or an object with encode(texts) or predict(pairs)",
    )


def _cosines_by(model: Any) -> Scores:
    def scores(answers: Sequence[str], units: Sequence[str]) -> Doubles:
        texts = list(dict.fromkeys([*answers, *units]))
        vectors = np.asarray(model.encode(texts))
        if vectors.ndim != 2 or len(vectors) != len(texts):
            raise ExplanationError(
                f"the encoder gave an array of shape {vectors.shape} for {len(texts)} texts",
                hint="one vector for each text",
            )
        place = {text: row for row, text in enumerate(texts)}
        return cosines(*([vectors[place[text]] for text in part] for part in (answers, units)))

    return scores


def _pairs_by(model: Any) -> Scores:
    def scores(answers: Sequence[str], units: Sequence[str]) -> Doubles:
        pairs = [(answer, unit) for answer in answers for unit in units]
        numbers = np.asarray(model.predict(pairs), dtype=np.float64)
        if numbers.shape not in ((len(pairs),), (len(pairs), 1)):
            raise ExplanationError(
                f"the cross-encoder gave an array of shape {numbers.shape} for {len(pairs)} pairs",
                hint="one number for each pair; models of entailment give three",
            )
        return numbers.reshape(len(answers), len(units))

    return scores


@lru_cache(maxsize=2)
def _bi_encoder(name: str) -> Any:
    if _reads_pairs(_architectures("bi-encoder", name)):
        raise ExplanationError(
            f"{name} reads two texts together", hint=f"it is a cross-encoder:{name}"
        )
    return _opened("bi-encoder", name, "sentence_transformers", "SentenceTransformer")


@lru_cache(maxsize=2)
def _cross_encoder(name: str) -> Any:
    """A cross-encoder that gives what its last layer says, without the sigmoid that flattens it."""
    # Of any other checkpoint the last layer would be made up, with no more than a warning.
    found = _architectures("cross-encoder", name)
    if not _reads_pairs(found):
        raise _no_cross_encoder(name, ", ".join(found) or "a model without an architecture")
    model = _opened("cross-encoder", name, "sentence_transformers", "CrossEncoder")
    if model.num_labels != 1:
        raise _no_cross_encoder(name, f"a classifier of {model.num_labels} labels")
    model.activation_fn = importlib.import_module("torch").nn.Identity()
    return model


def _architectures(kind: str, name: str) -> tuple[str, ...]:
    config = _opened(kind, name, "transformers", "AutoConfig.from_pretrained")
    return tuple(config.architectures or ())


def _reads_pairs(architectures: Sequence[str]) -> bool:
    return any(one.endswith("ForSequenceClassification") for one in architectures)


def _no_cross_encoder(name: str, found: str) -> ExplanationError:
    return ExplanationError(
        f"{name} is no cross-encoder but {found}",
        hint="a reranker that gives one number for a pair, cross-encoder/ms-marco-MiniLM-L6-v2 for "
        "example; one of another build can be passed as an open CrossEncoder",
    )


def _opened(kind: str, name: str, module: str, maker: str) -> Any:
    for needed in ("torch", "transformers", "sentence_transformers"):
        if importlib.util.find_spec(needed) is None:
            raise MissingDependencyError(needed.replace("_", "-"), "dense")
    try:
        with quiet_transformers():
            return operator.attrgetter(maker)(importlib.import_module(module))(name)
    except RuleRAGError:
        raise
    except Exception as error:
        # What a damaged or foreign checkpoint raises depends on where which reader stumbles.
        reason = " ".join(str(error).split())[:200]
        raise ExplanationError(
            f"{name} cannot be opened as a {kind} ({type(error).__name__}: {reason})",
            hint="the folder of a model, a name of `rulerag models list`, or one on the Hub",
        ) from error
