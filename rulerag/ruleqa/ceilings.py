"""How many queries of a RuleQA dataset a retriever could answer at best."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from rulerag.ruleqa.dataset import RuleQADataset
from rulerag.text import normalize_answer
from rulerag.types import Document, Query

#: Each ceiling and what it counts: the fraction of queries with an acceptable answer in …
CEILINGS = {
    "anywhere": "any document",
    "same_subject": "a document that shares an entity with the query",
    "oracle": "an oracle document (it grounds a guiding rule for an acceptable answer)",
}


def ceilings(dataset: RuleQADataset) -> dict[str, dict[str, float]]:
    """The ceilings of answer recall for every set of test queries.

    An answer is found as answer recall finds it: normalised, on token boundaries of the text. A
    document shares an entity with a query when a fact that it states has the query's subject at
    one of its ends. Facts that differ in time alone are read once, without their time.

    Args:
        dataset: a built dataset.

    Returns:
        By query set (``full`` and the named ones), the keys of :data:`CEILINGS` and
        ``num_queries``; fractions of 1.
    """
    anywhere, around = _answers_found(dataset)
    judged = dataset.qrels("test")
    results = {}
    for name in sorted({*dataset.query_sets, "full"}):
        queries = dataset.query_set(name)
        reachable = [
            (_answers(q) & anywhere, _answers(q) & around.get(q.subject, set()), judged.get(q.id))
            for q in queries
        ]
        counts = (sum(map(bool, column)) for column in zip(*reachable, strict=True))
        shares = (round(count / len(queries), 6) for count in counts)
        results[name] = {"num_queries": len(queries), **dict(zip(CEILINGS, shares, strict=True))}
    return results


def _answers(query: Query) -> set[str]:
    return {text for text in map(normalize_answer, query.answers) if text}


def _answers_found(dataset: RuleQADataset) -> tuple[set[str], dict[str, set[str]]]:
    """The answers that occur in any document, and by entity those in the documents about it."""
    queries = dataset.query_set("full")
    wanted = set().union(*map(_answers, queries))
    lengths = sorted({answer.count(" ") + 1 for answer in wanted})
    subjects = {query.subject for query in queries}
    anywhere: set[str] = set()
    around: dict[str, set[str]] = defaultdict(set)
    for document in _distinct(dataset.corpus):
        tokens = normalize_answer(document.text).split()
        found = {
            piece
            for length in lengths
            for start in range(len(tokens) - length + 1)
            if (piece := " ".join(tokens[start : start + length])) in wanted
        }
        anywhere |= found
        for fact in document.facts:
            for end in (fact.subject, fact.object):
                if end in subjects:
                    around[end] |= found
    return anywhere, around


def _distinct(corpus: Iterable[Document]) -> Iterator[Document]:
    """One document for each set of facts, whatever their time."""
    seen = set()
    for document in corpus:
        key = tuple(fact[:3] for fact in document.facts) or document.text
        if key not in seen:
            seen.add(key)
            yield document
