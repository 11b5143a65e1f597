"""What compares sentences: words, a bi-encoder, or a cross-encoder."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from rulerag.arrays import Doubles
from rulerag.errors import (
    ConfigError,
    ExplanationError,
    MissingDependencyError,
    did_you_mean,
    needs_package,
)
from rulerag.models import SHIPPED, find_model, quiet_transformers
from rulerag.text import UNSPACED

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

_K1, _B = 1.5, 0.75


def words_of(text: str) -> list[str]:
    """The words of a text without case and English function words, in order, repeats kept.

    Where a script puts no space between words, each pair of neighbouring letters counts as one,
    as in Lucene's analyser of Chinese, Japanese and Korean.
    """
    from bm25s.stopwords import STOPWORDS_EN  # Lucene's

    words: list[str] = []
    for unspaced, word in _pattern().findall(unicodedata.normalize("NFKC", text).casefold()):
        words += [word or unspaced] if len(unspaced) < 2 else map("".join, pairwise(unspaced))
    return [word for word in words if word not in STOPWORDS_EN]


@cache
def _pattern() -> re.Pattern[str]:
    """Runs of letters and digits with their marks, which belong to Indic words."""
    marks = "".join(
        char for char in map(chr, range(0x300, 0x10000)) if unicodedata.category(char)[0] == "M"
    )
    word = rf"(?:(?![{UNSPACED}])[^\W_]|[{marks}])+"
    return re.compile(rf"([{UNSPACED}]+)|({word})")


def tfidf_scores(answers: Sequence[str], units: Sequence[str]) -> Doubles:
    """The cosines of tf-idf vectors, those of scikit-learn's ``TfidfVectorizer`` over all texts.

    Args:
        answers: sentences of an answer.
        units: what they are compared with.

    Returns:
        Shape (len(answers), len(units)), from 0 to 1.
    """
    with needs_package("scikit-learn", "learn"):
        from sklearn.feature_extraction.text import TfidfVectorizer

    texts, count = [words_of(text) for text in (*answers, *units)], len(answers)
    if not any(texts):
        return np.zeros((count, len(units)))
    vectors = TfidfVectorizer(analyzer=iter).fit_transform(texts)
    return np.asarray((vectors[:count] @ vectors[count:].T).toarray())


def bm25_scores(answers: Sequence[str], units: Sequence[str]) -> Doubles:
    """BM25 of each sentence of the answer as a query, in the variant that Lucene uses.

    Args:
        answers: sentences of an answer.
        units: what they are compared with, the corpus.

    Returns:
        Shape (len(answers), len(units)), from 0 without an upper bound.

    References:
        Robertson and Zaragoza 2009; Kamphuis et al. 2020 for the variant; bm25s.
    """
    from bm25s import BM25

    corpus = [words_of(unit) for unit in units]
    if not any(corpus):
        return np.zeros((len(answers), len(units)))
    index = BM25(k1=_K1, b=_B, method="lucene", dtype="float64")
    index.index(corpus, create_empty_token=False, show_progress=False)
    return np.array([index.get_scores(words_of(answer) or [""]) for answer in answers])


_BY_WORDS = {"tf-idf": (tfidf_scores, COSINE_TEMPERATURE), "bm25": (bm25_scores, 1.0)}


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
    kind, name, model = "", type(scorer).__name__, scorer
    if isinstance(scorer, str):
        if scorer in _BY_WORDS:
            return Scorer(scorer, *_BY_WORDS[scorer])
        kind, _, name = scorer.partition(":")
        if kind not in ("bi-encoder", "cross-encoder"):
            hint = did_you_mean(kind, SCORERS)
            raise ConfigError(f"no scorer is called {scorer!r}", key="scorer", hint=hint)
        name = name or (SHIPPED[0] if kind == "bi-encoder" else "")
        if not name:
            raise ConfigError("a cross-encoder needs its name", key="scorer", hint=SCORERS[kind])
        model = _opened(kind, str(find_model(name)))
    elif callable(getattr(model, "predict", None)):  # before encode: some have both
        kind = "cross-encoder"
    elif callable(getattr(model, "encode", None)):
        kind = "bi-encoder"
    else:
        hint = "a name, or an object with encode(texts) or predict(pairs)"
        raise ConfigError(f"{name} is no scorer", key="scorer", hint=hint)
    if kind == "bi-encoder":
        return Scorer(f"{kind}:{name}", _cosines_by(model), COSINE_TEMPERATURE)
    return Scorer(f"{kind}:{name}", _pairs_by(model), 1.0)


def cosines(answers: Any, units: Any) -> Doubles:
    """The cosine of every vector with every other; 0 where one is nothing but zeros.

    Args:
        answers: shape (A, dimension).
        units: shape (U, dimension).

    Returns:
        Shape (A, U).
    """
    with needs_package("scikit-learn", "learn"):
        from sklearn.metrics.pairwise import cosine_similarity

    rows, columns = (np.asarray(vectors, dtype=np.float64) for vectors in (answers, units))
    return np.asarray(cosine_similarity(rows, columns))


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
def _opened(kind: str, name: str) -> Any:
    """The model in a folder, or of a name: a bi-encoder or a cross-encoder.

    A cross-encoder gives what its last layer says, without the sigmoid that flattens it.
    """
    try:
        from sentence_transformers import CrossEncoder, SentenceTransformer
        from torch import nn
        from transformers import AutoConfig
    except ImportError as error:
        missing = (error.name or "sentence_transformers").replace("_", "-")
        raise MissingDependencyError(missing, "dense") from error
    model: Any = None
    try:
        with quiet_transformers():
            architectures = AutoConfig.from_pretrained(name).architectures or ()
            reads_pairs = any(one.endswith("ForSequenceClassification") for one in architectures)
            if kind == "bi-encoder" and not reads_pairs:
                return SentenceTransformer(name)
            # Of any other checkpoint the last layer would be made up, with no more than a warning.
            if kind == "cross-encoder" and reads_pairs:
                model = CrossEncoder(name)
    except Exception as error:
        # What a damaged or foreign checkpoint raises depends on where which reader stumbles.
        reason = " ".join(str(error).split())[:200]
        raise ExplanationError(
            f"{name} cannot be opened as a {kind} ({type(error).__name__}: {reason})",
            hint="the folder of a model, a name of `rulerag models list`, or one on the Hub",
        ) from error
    if kind == "bi-encoder":
        raise ExplanationError(
            f"{name} reads two texts together", hint=f"it is a cross-encoder:{name}"
        )
    if model is None or model.num_labels != 1:
        what = ", ".join(architectures) or "a model without an architecture"
        what = what if model is None else f"a classifier of {model.num_labels} labels"
        raise ExplanationError(
            f"{name} is no cross-encoder but {what}",
            hint="a reranker that gives one number for a pair, cross-encoder/ms-marco-MiniLM-L6-v2 "
            "for example; one of another build can be passed as an open CrossEncoder",
        )
    model.activation_fn = nn.Identity()
    return model
