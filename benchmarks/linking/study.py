"""What the linker understands of paraphrased RuleQA questions, and what is answered then."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from rapidfuzz import process
from rapidfuzz.distance import OSA

from benchmarks.linking import wordings
from rulerag.linking import LinkedQuestion, QuestionLinker
from rulerag.linking.words.mentions import words_of
from rulerag.protocols import Encoder
from rulerag.ruleqa import RuleQADataset, known_names
from rulerag.types import Query

VARIANTS = ("worded", "slip", "synonyms")
_CODE = re.compile(r"^[QP]\d+$")
_VERB_FIRST = "ruleqa-i"  # the labels of ICEWS start with the base form of a verb


@dataclass(frozen=True)
class WordedQuestion:
    """A question with what it means.

    Args:
        text: the question.
        entity: the label of the entity that is known.
        relation: the raw relation.
        asks_subject: whether the known entity is the object.
        query: the benchmark's own query.
        written: the entity as the question spells it.
    """

    text: str
    entity: str
    relation: str
    asks_subject: bool
    query: Query
    written: str


def cases(
    dataset: RuleQADataset,
    queries: Sequence[Query],
    direction: str,
    variant: str,
    *,
    held_out: bool,
    seed: int,
) -> list[WordedQuestion]:
    """One question for each query, the wordings in turn."""
    rng, made = random.Random(seed), []
    labels = dataset.labels
    known = {name.casefold() for name in labels["entities"].values()}
    templates = wordings.half(direction, held_out=held_out)
    for number, query in enumerate(queries):
        entity = query.subject_words if direction == "object" else query.answers[0]
        relation = labels["relations"].get(query.relation, query.relation)
        said = relation
        if variant == "synonyms":
            said = wordings.other_words(relation, held_out=held_out)
            if said == relation:  # the table has none of its words: nothing is asked otherwise
                continue
        name = wordings.slip(entity, known, rng) if variant == "slip" else entity
        verb = dataset.name.startswith(_VERB_FIRST)
        text = wordings.word(templates[number % len(templates)], name, said, verb=verb)
        made.append(
            WordedQuestion(text, entity, query.relation, direction == "subject", query, name)
        )
    return made


def sample(dataset: RuleQADataset, split: str, size: int, seed: int) -> list[Query]:
    """Queries of a split, at random, whose ends the corpus knows, by names and not by codes."""
    ends = {end for one in dataset.corpus for fact in one.facts for end in (fact.subject, fact[2])}
    known = {dataset.labels["entities"].get(end, end) for end in ends}
    rows = [
        query
        for query in dataset.query_set(split)
        if {query.subject_words, query.answers[0]} <= known
        and not any(_CODE.match(name) for name in (query.subject_words, *query.answers))
        and min(map(_letters, (query.subject_words, query.answers[0]))) > 3
    ]
    return random.Random(seed).sample(rows, min(size, len(rows)))


def _letters(name: str) -> int:
    return sum(letter.isalpha() for letter in name)


def baseline(
    dataset: RuleQADataset, linker: QuestionLinker, asked: Sequence[WordedQuestion]
) -> dict[str, float]:
    """The longest entity and the longest relation whose label stands in the question as it is."""
    labels = dataset.labels
    entities = {
        " ".join(words_of(n)): n for n in (labels["entities"].get(e, e) for e in linker.entities)
    }
    relations = {
        " ".join(words_of(labels["relations"].get(r, r))): r for r in known_names(dataset)[1]
    }
    right = {"entity": 0, "relation": 0}
    for case in asked:
        text = f" {' '.join(words_of(case.text))} "
        words = text.split()
        runs = {
            " ".join(words[a:b]) for a in range(len(words)) for b in range(a + 1, len(words) + 1)
        }
        entity = max((run for run in runs if run in entities), key=len, default="")
        relation = max((run for run in runs if run in relations), key=len, default="")
        right["entity"] += entities.get(entity) == case.entity
        right["relation"] += relations.get(relation) == case.relation
    return {key: count / max(len(asked), 1) for key, count in right.items()}


def scores(linked: Sequence[LinkedQuestion], asked: Sequence[WordedQuestion]) -> dict[str, float]:
    """Shares of questions whose entity, relation (first, first three) and direction are right."""
    right = dict.fromkeys(("entity", "relation", "relation@3", "direction", "all"), 0)
    for one, case in zip(linked, asked, strict=True):
        best = one.readings[0] if one.readings else None
        ranked: dict[str, float] = {}
        for reading in one.readings:
            ranked[reading.relation] = ranked.get(reading.relation, 0.0) + reading.probability
        order = sorted(ranked, key=lambda name: -ranked[name])
        entity = best is not None and best.query.subject_words == case.entity
        direction = best is not None and best.asks_for_subject == case.asks_subject
        right["entity"] += entity
        right["relation"] += order[:1] == [case.relation]
        right["relation@3"] += case.relation in order[:3]
        right["direction"] += direction
        right["all"] += entity and direction and best is not None and best.relation == case.relation
    return {key: count / max(len(asked), 1) for key, count in right.items()}


def open_slips(asked: Sequence[WordedQuestion], names: Collection[str]) -> list[dict[str, Any]]:
    """The questions whose misspelt name is one slip away from another name as well.

    Nobody can know which is meant but by what is asked of it.

    Args:
        asked: questions with one slip in the name.
        names: the labels of every entity.
    """
    found = []
    for case in asked:
        written = case.written.casefold()
        near = process.extract(written, names, scorer=OSA.distance, score_cutoff=1, limit=6)
        others = sorted(name for name, *_ in near if name != case.entity.casefold())
        if others:
            found.append({"question": case.text, "entity": case.entity, "as near": others})
    return found


def study(
    dataset: RuleQADataset,
    *,
    split: str,
    size: int,
    encoder: Encoder | None,
    held_out: bool,
    seed: int = 0,
) -> dict[str, Any]:
    """Every figure of one dataset.

    Args:
        dataset: what is asked about.
        split: whose queries are reworded.
        size: how many of them.
        encoder: compares meanings too, in a second row of figures.
        held_out: whether the held-out wordings are used.
        seed: of the sample and of the slips.
    """
    queries = sample(dataset, split, size, seed)
    plain = QuestionLinker(dataset)
    plain.link(["Who is that?"])  # what is read once of a dataset is no time of a question
    linkers = {"letters": plain}
    if encoder is not None:
        linkers["encoder"] = plain.with_encoder(encoder)
    found: dict[str, Any] = {"dataset": dataset.name, "split": split, "questions": len(queries)}
    found["linking"], found["examples"] = {}, []
    for variant in VARIANTS:
        asked = [
            case
            for direction in ("object", "subject")
            for case in cases(dataset, queries, direction, variant, held_out=held_out, seed=seed)
        ]
        found.setdefault("asked", {})[variant] = len(asked)
        if variant == "slip":
            labels = dataset.labels["entities"]
            names = {labels.get(name, name).casefold() for name in plain.entities}
            found["open_slips"] = open_slips(asked, names)
        rows: dict[str, Any] = {"baseline": baseline(dataset, plain, asked)}
        for name, linker in linkers.items():
            started = time.perf_counter()
            linked = linker.link([case.text for case in asked])
            seconds = time.perf_counter() - started
            rows[name] = scores(linked, asked)
            rows[name]["ms"] = 1000 * seconds / len(asked)
            wrong = [
                {
                    "variant": variant,
                    "linker": name,
                    "question": case.text,
                    "meant": case.relation,
                    "entity": case.entity,
                    "understood": [
                        [r.query.text, round(r.probability, 3)] for r in one.readings[:3]
                    ],
                }
                for one, case in zip(linked, asked, strict=True)
                if not one.readings
                or one.readings[0].relation != case.relation
                or one.readings[0].query.subject_words != case.entity
                or one.readings[0].asks_for_subject != case.asks_subject
            ]
            found["examples"] += wrong[:20]
        found["linking"][variant] = rows
    return found
