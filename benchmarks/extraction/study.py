"""One world written as prose, in one part of the wordings or in two, and what is read out of it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rulerag.assembly.demo import check_mining, mine_world
from rulerag.extraction import ModelExtractor, PatternBook, TripleExtractor
from rulerag.kg import KnowledgeGraph
from rulerag.mining.amie import AmieMiner
from rulerag.mining.temporal import TLogicMiner
from rulerag.protocols import Encoder
from rulerag.synthetic import PARTS, World, write_prose
from rulerag.types import Fact


def seeds_of(facts: Sequence[Fact], size: int, seed: int) -> list[Fact]:
    """Some facts of every relation.

    Args:
        facts: all facts.
        size: of each relation.
        seed: decides which.
    """
    rng = np.random.default_rng([seed, 5])
    chosen = []
    for relation in sorted({fact.relation for fact in facts}):
        own = [fact for fact in facts if fact.relation == relation]
        chosen += [own[n] for n in rng.permutation(len(own))[:size].tolist()]
    return chosen


def measured(
    found: Iterable[Fact], stated: Iterable[Fact], known: Iterable[Fact]
) -> dict[str, float]:
    """Precision, recall and F1 of facts that were not known before, fractions.

    Args:
        found: what was read.
        stated: what was written.
        known: the seeds, which count on neither side.
    """
    seeds = set(known)
    read, written = set(found) - seeds, set(stated) - seeds
    right = len(read & written)
    precision, recall = right / max(1, len(read)), right / max(1, len(written))
    f1 = 2 * precision * recall / (precision + recall) if right else 0.0
    return {"precision": precision, "recall": recall, "f1": f1}


def study(
    world: World,
    *,
    seeds: int,
    split: int,
    encoder: Encoder | None = None,
    model: ModelExtractor | None = None,
    parts: Sequence[str] = PARTS,
) -> dict[str, Any]:
    """What is read of a world in each part of the wordings; patterns are learned on ``seen`` alone.

    The first row of each part is the baseline: patterns made of the relations' own labels.

    Args:
        world: dated or not.
        seeds: known facts of each relation.
        split: decides which wordings belong to which part.
        encoder: compares words by meaning.
        model: is asked about words without a pattern.
        parts: what is read.
    """
    facts, calendar = list(world.graph.train), world.graph.calendar
    known = seeds_of(facts, seeds, world.seed)
    labels = dict(zip(world.graph.relations.names, world.graph.relations.labels, strict=True))
    bare = PatternBook()
    bare.add_labels(sorted({fact.relation for fact in facts}), labels)
    learned = TripleExtractor(known, calendar=calendar, labels=labels)
    learned.learn(page.document for page in write_prose(facts, calendar, split=split))
    found: dict[str, Any] = {"seeds": len(known), "patterns": len(learned.patterns), "parts": {}}
    ways: dict[str, dict[str, Any]] = {
        "labels": {"patterns": bare},
        "patterns": {"patterns": learned.patterns},
    }
    if encoder is not None:
        ways["and encoder"] = {"patterns": learned.patterns, "encoder": encoder}
    if model is not None:
        ways["and model"] = {"patterns": learned.patterns}
    for part in parts:
        pages = write_prose(facts, calendar, part=part, split=split)
        stated = [one.fact for page in pages for one in page.statements]
        rows = found["parts"].setdefault(part, {})
        for name, how in ways.items():
            if name == "and model" and part != "new words":
                continue  # it is asked of unknown words alone
            extractor = TripleExtractor(known, calendar=calendar, labels=labels, **how)
            started = time.perf_counter()
            read = extractor.extract(
                [page.document for page in pages],
                learn=False,
                model=model if name == "and model" else None,
            )
            seconds = time.perf_counter() - started
            facts_read = [triple.fact for triple in read.triples]
            rows[name] = {**measured(facts_read, stated, known), "seconds": round(seconds, 1)}
            if name == "patterns":
                rows[name]["rules"] = rules_found(world, facts_read)
            if name == "and model":
                rows[name]["faults"] = len(read.faults)
        rows["facts"] = len(set(stated) - set(known))
    found["rules_of_the_facts"] = vars(check_mining(world, mine_world(world)[0]))
    return found


def study_texts(
    world: World,
    *,
    seeds: int,
    split: int,
    share: float,
    unknown: int = 0,
    encoder: Encoder | None = None,
) -> dict[str, Any]:
    """What is read of a world of which a share of the facts is said in new words alone.

    Every fact is written once, those that are known among the *seen* wordings; so new words can be
    understood by the company that they keep, and in no other way.

    Args:
        world: dated or not.
        seeds: known facts of each relation.
        split: decides which wordings belong to which part, and which facts are said in new words.
        share: of the facts that are not known.
        unknown: of so many relations no fact is known: a triple of their sentences is wrong.
        encoder: compares words by meaning.
    """
    facts, calendar = list(world.graph.train), world.graph.calendar
    rng = np.random.default_rng([split, 99])
    relations = sorted({fact.relation for fact in facts})
    gone = set(rng.permutation(relations)[:unknown].tolist())
    known = [one for one in seeds_of(facts, seeds, world.seed) if one.relation not in gone]
    rest = [one for one in facts if one not in set(known)]
    order = rng.permutation(len(rest)).tolist()
    first = len(rest) - round(share * len(rest))
    old = [*known, *(rest[n] for n in order[:first])]
    new = [rest[n] for n in order[first:]]
    told = [page.document for page in write_prose(old, calendar, split=split)]
    for page in write_prose(new, calendar, part="new words", split=split, seed=1):
        told.append(replace(page.document, id=f"new {page.document.id}"))
    labels = dict(zip(world.graph.relations.names, world.graph.relations.labels, strict=True))
    found: dict[str, Any] = {"unknown": sorted(gone)}
    ways: dict[str, Encoder | None] = {"patterns": None, "and company": None}
    ways |= {"encoder and company": encoder} if encoder is not None else {}
    for name, compared in ways.items():
        extractor = TripleExtractor(known, calendar=calendar, labels=labels, encoder=compared)
        started = time.perf_counter()
        if name == "patterns":
            extractor.learn(told)
        read = extractor.extract(told, learn=name != "patterns")
        seconds = time.perf_counter() - started
        stated = [one for one in facts if one.relation not in gone]
        all_read = [one.fact for one in read.triples]
        of_new = [one.fact for one in read.triples if one.document_id.startswith("new ")]
        found[name] = {
            **measured(all_read, stated, known),
            "new": measured(of_new, [one for one in new if one.relation not in gone], known),
            "seconds": round(seconds, 1),
        }
        if not gone:
            found[name]["rules"] = rules_found(world, all_read)
        if read.company.margin is not None:
            guesses = read.company.guesses.values()
            found[name]["company"] = {
                "margin": read.company.margin,
                "right_on_held_out_words": round(read.company.right, 4),
                "words_understood": len(read.company.guesses),
                "clauses_understood": sum(one.said for one in guesses),
                "clauses_with_unknown_words": read.company.unknown,
            }
    return found


TEXTS: Mapping[str, Mapping[str, Any]] = {
    "half in new words": {"share": 0.5},
    "a fifth in new words": {"share": 0.2},
    "a fifth, 7 relations unknown": {"share": 0.2, "unknown": 7},
}
"""What :func:`study_texts` is run with."""


def rules_found(world: World, facts: Sequence[Fact]) -> dict[str, Any]:
    """The planted rules of one body atom among those mined from facts that were read.

    Args:
        world: its rules are the truth.
        facts: what was read.
    """
    if not facts:
        return {"planted": 0, "mined": 0, "precision": 0.0, "recall": 0.0}
    graph = KnowledgeGraph.from_facts(dict.fromkeys(facts), calendar=world.graph.calendar)
    dated = world.kind == "temporal"
    bank = (_TLOGIC if dated else _AMIE).mine(graph.train).filter(min_support=_SUPPORT)
    check = vars(check_mining(world, bank))
    return {key: check[key] for key in ("planted", "mined", "precision", "recall", "max_error")}


# As the demo mines worlds.
_SUPPORT = 20
_TLOGIC = TLogicMiner(lengths=(1,), min_support=_SUPPORT, min_confidence=0.3)
_AMIE = AmieMiner(max_atoms=2, min_pca_confidence=0.3, min_head_size=1)
