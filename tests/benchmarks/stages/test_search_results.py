"""What a retriever found as arrays, and the measures of it by hand."""

from __future__ import annotations

import numpy as np

from benchmarks.stages.search_results import RETRIEVAL_MEASURES, SearchResults, mean_columns
from rulerag.ruleqa import RuleQADataset
from rulerag.types import Document, Fact, Query, RuleHit, ScoredDocument


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


def test_answers_are_found_as_entities_beside_strings() -> None:
    corpus = [
        Document("d0", "ann meets Citizen (China).", (Fact("ann", "meets", "Citizen_(China)"),)),
        Document("d1", "ann meets China.", (Fact("ann", "meets", "China"),)),
    ]
    queries = [Query("a", "whom?", "ann", "meets", answers=("China",))]
    dataset = RuleQADataset(
        corpus=corpus,
        queries={"test": queries},
        labels={"entities": {"Citizen_(China)": "Citizen (China)"}},
    )
    best = [[hit(corpus[0], 1, 1), hit(corpus[1], 2, 7)]]
    found = SearchResults.collect(best, best, {"d0": 0, "d1": 1})
    values = found.measure(queries, dataset)
    assert values.keys() == RETRIEVAL_MEASURES
    assert values["answer_recall@1"].tolist() == [1] and values["entity_recall@1"].tolist() == [0]
    assert values["entity_recall@2"].tolist() == [1]
    assert values["answer_recall@5_union"].tolist() == [1]
    assert values["entity_recall@5_union"].tolist() == [0], "its rank in a search is 7"
    assert values["entity_recall@10_union"].tolist() == [1]
