"""Similarity attribution by hand: cosines, shares, windows, what cannot be said."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import rulerag
from rulerag.errors import ConfigError, DataFormatError, ExplanationError
from rulerag.explanation.attribution import attributions
from rulerag.explanation.explaining import ExplainSettings
from rulerag.explanation.probing import ProbeEngine, SetValue
from rulerag.explanation.similarity import SimilarityAttribution, similarity_attribution

VECTORS = {
    "It rains here.": (1, 0),
    "Nobody sings now.": (0, 1),
    "Clouds are grey.": (3, 4),
    "Water falls down.": (1, 0),
}
ANSWER = "It rains here. Nobody sings now."
TEXT = "Clouds are grey. Water falls down."


class ByHand:
    """A bi-encoder of four sentences."""

    def encode(self, texts: Sequence[str]) -> Any:
        return np.array([VECTORS[text] for text in texts], dtype=np.float32)


class CountingX:
    """A cross-encoder: how often an x stands in what is compared."""

    def predict(self, pairs: Sequence[tuple[str, str]]) -> Any:
        return np.array([unit.count("x") for _, unit in pairs], dtype=np.float32)


def test_two_sentences_against_two_by_hand() -> None:
    found = similarity_attribution(ANSWER, TEXT, ByHand(), temperature=1)
    np.testing.assert_allclose(found.scores, [[0.6, 1.0], [0.8, 0.0]], atol=1e-7)
    first, second = 1 / (1 + math.exp(0.4)), 1 / (1 + math.exp(-0.8))
    np.testing.assert_allclose(found.shares, [[first, 1 - first], [second, 1 - second]], atol=1e-7)
    assert found.values == pytest.approx([(first + second) / 2, 1 - (first + second) / 2])
    largest = similarity_attribution(ANSWER, TEXT, ByHand(), temperature=1, aggregate="max")
    assert largest.values == pytest.approx([second, 1 - first])
    assert (found.ranking, largest.ranking) == ((0, 1), (0, 1))
    assert found.scorer == "bi-encoder:ByHand"
    assert similarity_attribution(ANSWER, TEXT, ByHand()).temperature == 0.1


@pytest.mark.parametrize("size", [1.0, 1e4, -1e4, 1e300])
def test_shares_are_finite_for_scores_of_any_size(size: float) -> None:
    class Logits:
        def predict(self, pairs: Sequence[tuple[str, str]]) -> Any:
            return size * np.arange(len(pairs))

    made = similarity_attribution(ANSWER, TEXT, Logits(), temperature=0.01)
    assert np.isfinite(made.shares).all()
    np.testing.assert_allclose(made.shares.sum(axis=1), 1)


@pytest.mark.parametrize("scorer", ["tf-idf", "bm25", "bi-encoder"])
def test_rows_sum_to_one_over_sentences_and_over_documents(scorer: str) -> None:
    answer = "Paris is the capital of France. Lyon is a city. Xyzzy."
    documents = ["Paris is a capital. It is large.", "", "Lyon lies in France."]
    found = similarity_attribution(answer, documents, scorer)
    assert found.shares.shape == (3, 3) and found.document_shares.shape == (3, 3)
    for table in (found.shares, found.document_shares):
        np.testing.assert_allclose(table.sum(axis=1), 1, atol=1e-12)
    assert sum(found.values) == pytest.approx(1) == sum(found.document_values)
    assert found.document_values[0] == pytest.approx(found.values[0] + found.values[1])
    assert found.document_values[1] == 0 and "Without text: [2]." in found.notes


def test_a_sentence_has_the_score_of_its_best_window() -> None:
    documents = ["Max can box well. The dog is here. A fox ox ax ran.", "An ibex came by."]

    def scores(window: int) -> list[float]:
        found = similarity_attribution("Go.", documents, CountingX(), window=window)
        return list(found.scores[0])

    assert scores(1) == [2, 0, 3, 1]
    assert scores(2) == [2, 3, 3, 1]  # windows 2 + 0 and 0 + 3; none reaches over two documents
    assert scores(3) == scores(99) == [5, 5, 5, 1]


def test_a_sentence_like_no_other_says_so_and_does_not_count() -> None:
    documents = ["Paris is a capital.", "Lyon is a city."]
    found = similarity_attribution("Paris is a capital. Xyzzy plugh.", documents)
    assert found.undecided == (1,)
    assert found.shares[1].tolist() == [0.5, 0.5]
    assert found.values == tuple(found.shares[0].tolist())
    assert any("sentence 2 of the answer" in note for note in found.notes)
    nothing = similarity_attribution("Xyzzy.", documents)
    assert nothing.undecided == (0,) and nothing.values == (0.5, 0.5)


def test_one_sentence_gets_everything_and_is_told_so() -> None:
    found = similarity_attribution("Yes.", "It rains.")
    assert found.values == (1.0,) and found.undecided == ()
    assert "The documents hold one sentence, which gets everything." in found.notes


def test_the_record_says_what_it_is_not_and_comes_back_from_json() -> None:
    found = similarity_attribution(ANSWER, [{"title": "Sky", "text": TEXT}], "bm25", window=2)
    row = json.loads(json.dumps(found.to_json()))
    assert row["caution"].startswith("Similarity is not causation")
    assert SimilarityAttribution.from_json(row) == found
    for text in (str(found), found.to_html()):
        assert "Similarity is not causation" in text
    with pytest.raises(DataFormatError, match="key 'scores'"):
        SimilarityAttribution.from_json({key: row[key] for key in row if key != "scores"})
    for change in ({"scores": [[1.0]]}, {"documents": []}, {"temperature": 0.0}):
        with pytest.raises(DataFormatError, match="the scores do not fit"):
            SimilarityAttribution.from_json({**row, **change})
    with pytest.raises(DataFormatError, match="key 'aggregate'"):
        SimilarityAttribution.from_json({**row, "aggregate": "median"})


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"answer": None}, "key 'answer': expected a text, found NoneType"),
        ({"answer": " … "}, "key 'answer': the answer is empty"),
        ({"documents": ["", "—"]}, "key 'documents': the context is empty"),
        ({"documents": []}, "key 'documents': the context is empty"),
        ({"scorer": "tfidf"}, "no scorer is called 'tfidf' — did you mean 'tf-idf'"),
        ({"scorer": "bm25:x"}, "no scorer is called 'bm25:x'"),
        ({"scorer": "cross-encoder"}, "a cross-encoder needs its name"),
        ({"scorer": 3}, "int is no scorer"),
        ({"window": 0}, "key 'window': expected a whole number from 1, found 0"),
        ({"window": True}, "key 'window'"),
        ({"aggregate": "mena"}, "did you mean 'mean'"),
        ({"temperature": 0}, "key 'temperature': expected a number above 0"),
        ({"documents": [3]}, "document 0 is a int without a text"),
    ],
)
def test_what_cannot_be_compared_is_an_error_that_says_why(
    arguments: dict[str, Any], told: str
) -> None:
    with pytest.raises(ConfigError, match=told):
        similarity_attribution(**{"answer": "Yes.", "documents": ["It rains."], **arguments})


@pytest.mark.parametrize(
    ("numbers", "told"),
    [([math.nan], "not finite"), ([[1, 2, 3]], "one number for each pair"), ([1, 2], "shape")],
)
def test_a_model_that_gives_no_number_for_a_pair_is_refused(numbers: Any, told: str) -> None:
    class Model:
        def predict(self, pairs: Any) -> Any:
            return np.array(numbers, dtype=float)

    with pytest.raises(ExplanationError, match=told):
        similarity_attribution("Yes.", "It rains.", Model())


# --- as an explainer ---------------------------------------------------------------------------

DOCUMENTS = ["Lyon is a city.", "", "Paris is the capital of France. It is large."]


def answer(question: str, documents: Sequence[str]) -> str:
    return "Paris is the capital. Lyon is nice." if len(documents) > 1 else "I don't know."


@pytest.mark.parametrize("method", ["similarity", "similarity-encoder"])
def test_each_claim_of_an_explained_answer_is_compared_by_itself(method: str) -> None:
    why = rulerag.explain(answer, "Which city?", DOCUMENTS)
    calls = why.num_calls
    about_paris, about_lyon = (why.attribution(place, method) for place in (0, 1))
    assert about_paris.names == ("[1]", "[3]")
    assert (about_paris.ranking[0], about_lyon.ranking[0]) == (1, 0)
    assert sum(about_paris.values) == pytest.approx(1) == about_paris.full
    assert why.deepen().num_calls == calls
    whole = similarity_attribution(why.text, why.documents)
    assert whole.document_values[1] == 0 and len(whole.sentences) == 2


def test_a_refusal_is_like_nothing_and_numbers_are_not_compared() -> None:
    engine = ProbeEngine.from_function(lambda kept: [""] * len(kept), num_sources=1, texts=["a"])
    (found,), _ = attributions(engine, lambda text: not text, ["similarity"])
    assert found.values == (0.0,) and found.num_probes == 1
    for numbers in (
        SetValue(lambda masks: [0.0] * len(masks), 1),
        ProbeEngine.from_function(lambda kept: [""] * len(kept), num_sources=1),
    ):
        with pytest.raises(ConfigError, match="similarity compares texts"):
            attributions(numbers, None, ["similarity"])
    with pytest.raises(ConfigError, match="key 'value': similarity compares texts"):
        ExplainSettings(attribution=("similarity",), value="log-probability")
    with pytest.raises(ConfigError, match="2 texts for 1 sources"):
        ProbeEngine.from_function(lambda kept: [""], num_sources=1, texts=["a", "b"])
