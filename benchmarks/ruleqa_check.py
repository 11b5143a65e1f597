"""Proof that a RuleQA dataset does not leak its answers."""

from __future__ import annotations

from collections.abc import Iterator

from rulerag.dataset import RuleQADataset
from rulerag.errors import DataError

__all__ = ["check_leakage"]


def check_leakage(dataset: RuleQADataset) -> list[str]:
    """Check every way in which an answer could leak; return one line for each check passed.

    Raises:
        DataError: a check failed; names the query and what leaks.
    """
    return list(_checks(dataset))


def _checks(dataset: RuleQADataset) -> Iterator[str]:
    label = dataset.labels["entities"]
    stated: dict[tuple[str, str, int | None], set[str]] = {}
    for document in dataset.corpus:
        for fact in document.facts:
            objects = stated.setdefault((fact.subject, fact.relation, fact.timestamp), set())
            objects.add(label.get(fact.object, fact.object))
    everything = [(split, q) for split, rows in dataset.queries.items() for q in rows]
    for split, query in everything:
        asked = (query.subject, query.relation, query.timestamp)
        known = stated.get(asked, set()) & set(query.answers)
        if known:
            raise DataError(
                f"the corpus states the answer {sorted(known)[0]!r} of the {split} query {query.id}"
            )
    yield f"no document states the asked fact of any of {len(everything):,} queries"
    yield from _time_check(dataset)
    yield from _split_check(dataset)
    yield from _half_check(dataset)


def _time_check(dataset: RuleQADataset) -> Iterator[str]:
    times = [t for t in (document.timestamp for document in dataset.corpus) if t is not None]
    if not times:
        return
    latest = max(times)
    for split, rows in dataset.queries.items():
        for query in rows:
            if query.timestamp is not None and query.timestamp <= latest:
                raise DataError(
                    f"the corpus reaches {latest}, the {split} query {query.id} asks about "
                    f"{query.timestamp}"
                )
    yield f"every document ({latest} at the latest) is from before every query"


def _split_check(dataset: RuleQADataset) -> Iterator[str]:
    tested = {(q.subject, q.relation, q.timestamp) for q in dataset.queries.get("test", ())}
    for split in ("f_r", "f_g"):
        for query in dataset.queries.get(split, ()):
            if (query.subject, query.relation, query.timestamp) in tested:
                raise DataError(f"the {split} query {query.id} is asked in the test set too")
    yield "no fine-tuning query is a test query"


def _half_check(dataset: RuleQADataset) -> Iterator[str]:
    halves = [
        {(q.subject, q.relation, q.timestamp) for q in dataset.queries.get(split, ())}
        for split in ("f_r", "f_g")
    ]
    shared = halves[0] & halves[1]
    if shared:
        raise DataError(f"{len(shared)} queries are in both F_R and F_G")
    yield "F_R and F_G share no query"
