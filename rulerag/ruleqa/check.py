"""Proof that a RuleQA dataset does not leak its answers."""

from __future__ import annotations

from collections.abc import Iterator

from rulerag.errors import DataError
from rulerag.ruleqa.dataset import RuleQADataset
from rulerag.types import Query


def check_leakage(dataset: RuleQADataset) -> list[str]:
    """Check every way in which an answer could leak; return one line for each check passed.

    Raises:
        DataError: a check failed; names the query and what leaks.
    """
    return list(_checks(dataset))


def _checks(dataset: RuleQADataset) -> Iterator[str]:
    variant = str(dataset.settings.get("variant"))
    if variant == "degenerate":
        yield from _degenerate_check(dataset)
        return
    if variant.startswith("missing"):
        yield from _missing_check(dataset, stated=variant == "missing-complete")
        return
    # A corpus that holds validation facts states what F_R and F_G ask about: their questions are
    # asked of the facts before them.
    strict = {"test"} if dataset.settings.get("corpus") == "train+valid" else set(dataset.queries)
    stated = _stated_objects(dataset)
    everything = [(split, q) for split in sorted(strict) for q in dataset.queries.get(split, ())]
    for split, query in everything:
        known = stated.get(_question_of(query), set()) & set(query.answers)
        if known:
            raise DataError(
                f"the corpus states the answer {sorted(known)[0]!r} of the {split} query {query.id}"
            )
    yield f"no document states the asked fact of any of {len(everything):,} queries"
    times = [t for t in (document.timestamp for document in dataset.corpus) if t is not None]
    if times:
        latest = max(times)
        for split, query in everything:
            if query.timestamp is not None and query.timestamp <= latest:
                raise DataError(
                    f"the corpus reaches {latest}, the {split} query {query.id} asks about "
                    f"{query.timestamp}"
                )
        yield f"every document ({latest} at the latest) is from before every query"
    tested, retrieval, generation = (
        {_question_of(query): query.id for query in dataset.queries.get(split, ())}
        for split in ("test", "f_r", "f_g")
    )
    for split, asked in (("f_r", retrieval), ("f_g", generation)):
        for question in asked.keys() & tested.keys():
            raise DataError(f"the {split} query {asked[question]} is asked in the test set too")
    yield "no fine-tuning query is a test query"
    if shared := retrieval.keys() & generation.keys():
        raise DataError(f"{len(shared)} queries are in both F_R and F_G")
    yield "F_R and F_G share no query"


def _question_of(query: Query) -> tuple[str, str, int | None]:
    return query.subject, query.relation, query.timestamp


def _stated_objects(dataset: RuleQADataset) -> dict[tuple[str, str, int | None], set[str]]:
    """The objects, by label, that documents state of a subject, a relation and a time."""
    label = dataset.labels["entities"]
    stated: dict[tuple[str, str, int | None], set[str]] = {}
    for document in dataset.corpus:
        for fact in document.facts:
            objects = stated.setdefault((fact.subject, fact.relation, fact.timestamp), set())
            objects.add(label.get(fact.object, fact.object))
    return stated


def _missing_check(dataset: RuleQADataset, *, stated: bool) -> Iterator[str]:
    """The first answer of each query is stated or not, and documents that prove it are there."""
    known, judged = _stated_objects(dataset), dataset.qrels("test")
    for query in dataset.queries["test"]:
        if (query.answers[0] in known.get(_question_of(query), set())) != stated:
            what = "does not state" if stated else "states"
            raise DataError(f"the corpus {what} the answer {query.answers[0]!r} of {query.id}")
        if query.id not in judged:
            raise DataError(f"no documents prove the answer {query.answers[0]!r} of {query.id}")
    yield f"the corpus proves the first answer of all {len(dataset.queries['test']):,} queries"
    yield f"it states {'each' if stated else 'none'} of them"


def _degenerate_check(dataset: RuleQADataset) -> Iterator[str]:
    """Degenerate queries need no rule: a document states an answer, about their subject."""
    label = dataset.labels["entities"]
    for query in dataset.queries["test"]:
        judged = [dataset.documents[i] for i in dataset.qrels("test").get(query.id, {})]
        facts = [fact for document in judged for fact in document.facts]
        if not facts or any(
            fact.subject != query.subject
            or label.get(fact.object, fact.object) not in query.answers
            for fact in facts
        ):
            raise DataError(f"no document answers the degenerate query {query.id} directly")
    yield f"a document answers each of {len(dataset.queries['test']):,} queries directly"
