"""What a retriever found as arrays, and the measures of it by hand."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.stages.answers import (
    CHARACTERS,
    EM,
    F1,
    LENIENT,
    EntityMatcher,
    entity_names,
    reading_columns,
)
from benchmarks.stages.search_results import RETRIEVAL_MEASURES, SearchResults, mean_columns
from rulerag.evaluation import AnswerMatcher
from rulerag.ruleqa import RuleQADataset
from rulerag.types import Document, Fact, GenerationRequest, Query, RuleHit, ScoredDocument


def hit(document: Document, rank: int, *ranks: int) -> ScoredDocument:
    return ScoredDocument(document, 1.0 / rank, rank, tuple(RuleHit("r", n, 1.0) for n in ranks))


def test_measures_by_hand() -> None:
    corpus = [Document(f"d{n}", f"ann meets {name}.") for n, name in enumerate("pqrst")]
    queries = [
        Query("a", "whom?", "ann", "meets", answers=("r",)),
        Query("b", "whom?", "ann", "meets", answers=("nobody",)),
    ]
    dataset = RuleQADataset(
        corpus=corpus, queries={"test": queries}, qrels={"test": {"a": {"d2": 1, "d4": 1}}}
    )
    best = [[hit(corpus[n], i, i) for i, n in enumerate((0, 2, 1), 1)], [hit(corpus[0], 1, 1)]]
    unions = [
        [hit(corpus[0], 1, 1), hit(corpus[2], 2, 7, 4), hit(corpus[4], 3, 1)],
        [hit(corpus[0], 1, 1), hit(corpus[3], 2, 9)],
    ]
    found = SearchResults.collect(best, unions, {d.id: n for n, d in enumerate(corpus)})
    values = found.measure(queries, dataset)
    assert values["answer_recall@1"].tolist() == [0, 0]
    assert values["answer_recall@2"].tolist() == [1, 0]
    assert values["answer_recall@2_union"].tolist() == [0, 0], "its best rank in a search is 4"
    assert values["answer_recall@5_union"].tolist() == [1, 0]
    assert values["documents@5_union"].tolist() == [3, 1]
    assert values["documents@10_union"].tolist() == [3, 2]
    assert values["recall@10"][0] == 0.5 and np.isnan(values["recall@10"][1])
    assert (
        mean_columns(values)["recall@10"] == 0.5 and mean_columns(values)["answer_recall@10"] == 0.5
    )


def test_an_entity_is_not_the_name_inside_a_longer_name() -> None:
    citizen = Document(
        "1", "Citizen (China) Praise Iran.", (Fact("Citizen_(China)", "Praise", "Iran"),)
    )
    visit = Document("2", "Iran Host a visit PRC.", (Fact("Iran", "Host a visit", "Q148"),))
    free = Document("3", "China is a country.")
    assert AnswerMatcher().first_rank([citizen], ["China"]) == 1
    matcher = EntityMatcher({"Q148": "China", "Citizen_(China)": "Citizen (China)"})
    assert matcher.first_rank([citizen, free, visit], ["China"]) == 3, "object, by its label"
    assert matcher.first_rank([citizen], ["citizen china"]) == 1, "subject"
    assert matcher.first_rank([free], ["China"]) is None, "states no fact"
    assert matcher.first_rank([citizen, visit], ["", "..."]) is None
    assert EntityMatcher().first_rank([visit], ["q148"]) == 1


def test_answers_are_found_as_entities_beside_strings() -> None:
    names = "Citizen_(China)", "China"
    texts = "ann meets Citizen (China).", "ann meets China."
    corpus = [
        Document(f"d{n}", text, (Fact("ann", "meets", name),))
        for n, (text, name) in enumerate(zip(texts, names, strict=True))
    ]
    queries = [
        Query(name, "whom?", "ann", "meets", answers=answers)
        for name, answers in {"a": ("China", "Oman"), "b": ("Oman", "China")}.items()
    ]
    labels = {"entities": {"Citizen_(China)": "Citizen (China)"}}
    dataset = RuleQADataset(corpus=corpus, queries={"test": queries}, labels=labels)
    best = [[hit(corpus[0], 1, 1), hit(corpus[1], 2, 7)]] * 2
    values = SearchResults.collect(best, best, {"d0": 0, "d1": 1}).measure(queries, dataset)
    assert values.keys() == RETRIEVAL_MEASURES
    assert values["answer_recall@1"][0] == 1 and values["entity_recall@1"][0] == 0
    assert values["entity_recall@2"][0] == 1 and values["answer_recall@5_union"][0] == 1
    assert values["entity_recall@5_union"][0] == 0, "its rank in a search is 7"
    assert values["entity_recall@10_union"][0] == 1

    assert entity_names(dataset).first("of citizen china") == "citizen china"
    requests = [GenerationRequest(q, (d,)) for q, d in zip(queries, corpus, strict=True)]
    found = reading_columns(requests, ["I say China.", "China"], dataset)
    assert found["in_documents"].tolist() == [1, 1]
    assert found["entity_in_documents"].tolist() == [0, 1]
    assert found[EM].tolist() == [0, 1] and found[LENIENT].tolist() == [1, 1]
    assert found[F1].tolist() == pytest.approx([1 / 2, 1])
    # against the first answer alone: "china" and "oman" share a and n
    assert found[CHARACTERS][1] == pytest.approx(2 * 2 / (5 + 4))
