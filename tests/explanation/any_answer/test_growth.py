"""How certainty grew: what is recorded while an answer is explained, and what is drawn of it."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

import rulerag
from rulerag.errors import ConfigError
from rulerag.explanation.any_answer import Why
from rulerag.explanation.source_rules import lower_bound

QUESTION = "When does the moon melt?"
DOCUMENTS = [f"Filler number {n}." for n in range(50)]
DOCUMENTS[7], DOCUMENTS[20] = "The moon is made of cheese.", "Cheese melts at 60 degrees."
DOCUMENTS[33] = "The moon melts."


def answer(question: str, documents: list[str]) -> str:
    text = " ".join(documents)
    melts = "moon" in text and "melts" in text
    return "The moon melts at 60 degrees." if melts else "I don't know."


def test_the_share_grows_with_the_draws_that_were_answered() -> None:
    why = rulerag.explain(answer, QUESTION, DOCUMENTS, workers=1)
    growth = why.explained.growth
    assert [one.documents for one in growth if one.kind == "set"] == [(33,), (7, 20)]
    shares = [(one.calls, one.share) for one in growth if one.kind == "together"]
    assert shares[0][1] == 0.0, "nothing was drawn when the first set was found"
    assert shares[-1] == (why.num_calls, why.claims[0].retention[0].certificate.bound)
    assert {one.claim for one in growth} == {0}


def test_with_several_calls_at_once_it_grows_before_the_search_ends() -> None:
    why = rulerag.explain(answer, QUESTION, DOCUMENTS, workers=4)
    shares = [one.share or 0.0 for one in why.explained.growth if one.kind == "together"]
    possible = {round(lower_bound(k, n, 0.04), 9) for n in range(1, 64) for k in range(1, n + 1)}
    assert len(shares) > 3
    assert all(share == 0 or round(share, 9) in possible for share in shares[:-1])
    # The set of two was not known at first: without it too few combinations are told right.
    first = next(one for one in why.explained.growth if one.documents == (7, 20))
    before = [o.share for o in why.explained.growth if o.share and o.calls < first.calls]
    assert max(before) < 0.9 <= shares[-1]


def test_each_set_has_a_curve_of_its_own() -> None:
    why = rulerag.explain(answer, QUESTION, DOCUMENTS, each=True)
    for one in why.claims[0].retention:
        grown = [m.share for m in why.explained.growth if m.documents == tuple(sorted(one))]
        grown = [share for share in grown if share is not None]
        assert grown == sorted(grown) and len(grown) > 2
        assert grown[-1] == one.certificate.bound
    picture = why.picture("certainty")
    assert sum("hold [34]" in row[2] for row in picture.rows) > 2


def test_of_few_documents_the_share_that_was_tried_is_certain() -> None:
    documents = DOCUMENTS[31:36]
    why = rulerag.explain(answer, QUESTION, documents)
    tried = [one for one in why.explained.growth if one.kind == "tried"]
    assert all(a.share < b.share for a, b in pairwise(tried))  # type: ignore[operator]
    assert tried[-1].share == 1.0 and tried[-1].calls == why.num_calls
    ended = rulerag.explain(answer, QUESTION, documents, budget=6)
    assert 0 < ended.explained.growth[-1].share < 1  # type: ignore[operator]


def test_a_search_that_goes_on_repeats_nothing() -> None:
    why = rulerag.explain(answer, QUESTION, DOCUMENTS, workers=1, budget=30)
    assert not [one for one in why.explained.growth if one.kind == "together"]
    assert "Nothing was tested" in why.picture("certainty").note
    why.deepen()
    sets = [one.documents for one in why.explained.growth if one.kind == "set"]
    assert len(sets) == len(set(sets)) == 2
    calls = [one.calls for one in why.explained.growth]
    assert calls == sorted(calls) and calls[-1] == why.num_calls


def test_it_is_small_and_stands_in_the_record_and_on_the_page() -> None:
    claims = [f"Fact {n} holds." for n in range(20)]

    def facts(question: str, documents: list[str]) -> str:
        return " ".join(claim for claim in claims if any(claim in text for text in documents))

    why = rulerag.explain(facts, "?", [f"{c} Said." for c in claims] * 2)
    row = json.dumps(why.to_json()["growth"])
    assert len(row) < 60_000
    again = Why.from_json(json.dumps(why.to_json()))
    assert again.explained.growth == why.explained.growth
    assert again.picture("certainty") == why.picture("certainty")
    assert "How certain it became" in again.to_html()


def test_a_record_without_it_has_no_picture_of_it() -> None:
    row = rulerag.explain(answer, QUESTION, DOCUMENTS[31:36]).to_json()
    del row["growth"]
    old = Why.from_json(row)
    assert "How certain it became" not in old.to_html()
    with pytest.raises(ConfigError, match="how certainty grew"):
        old.picture("certainty")
