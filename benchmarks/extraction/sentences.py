"""Two sets of sentences with the facts that they state, and how many of them are found.

``everyday.toml`` has sentences written for this benchmark, over ten relations, each of which is
shown in one wording. ``hotpotqa.jsonl`` has a hundred sentences of HotpotQA's paragraphs, which
nobody here has written; its notes stand in ``README.md``.
"""

from __future__ import annotations

import json
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.common.folders import data_folder
from rulerag.extraction.words import verb_stem
from rulerag.io import read_lines, read_text
from rulerag.types import Document, Fact

HERE = Path(__file__).parent
INVERSE = "^"
_MARKS = '".,()'


@dataclass(frozen=True)
class MarkedFact:
    """A fact that a sentence states.

    Args:
        subject: as the text names it; for a pronoun the name in its paragraph.
        words: what joins the two in the text.
        object: as the text names it.
        relation: one of the known relations, behind ``^`` where its object stands first; None
            where it is none of these.
    """

    subject: str
    words: str
    object: str
    relation: str | None

    @property
    def known(self) -> Fact | None:
        """The fact of a known relation; None where it is of none."""
        if self.relation is None:
            return None
        if self.relation.startswith(INVERSE):
            return Fact(self.object, self.relation.removeprefix(INVERSE), self.subject)
        return Fact(self.subject, self.relation, self.object)


@dataclass(frozen=True)
class Sentences:
    """Sentences with their facts, and what an extractor is given.

    Args:
        documents: all texts, those of the known facts among them.
        seeds: known facts, which count on neither side.
        marked: for each document of interest its sentences: spans in characters, and facts.
    """

    documents: Sequence[Document]
    seeds: Sequence[Fact]
    marked: Mapping[str, Sequence[tuple[tuple[int, int], Sequence[MarkedFact]]]]


def everyday() -> Sentences:
    """The sentences that were written by hand; each is a document."""
    given = tomllib.loads(read_text(HERE / "everyday.toml"))
    seeds, documents, marked = [], [], {}
    for relation, one in given["relations"].items():
        for subject, object_ in one["seeds"]:
            seeds.append(Fact(subject, relation, object_))
            text = one["said"].format(x=subject, y=object_)
            documents.append(Document(f"seed-{len(seeds)}", text))
    for number, one in enumerate(given["sentences"]):
        facts = [MarkedFact(s, r, o, r) for s, r, o in one.get("facts", ())]
        documents.append(Document(f"sentence-{number}", one["text"]))
        marked[documents[-1].id] = [((0, len(one["text"])), facts)]
    return Sentences(documents, seeds, marked)


def hotpotqa() -> Sentences:
    """The hundred sentences of HotpotQA, in their paragraphs, and those that state known facts.

    Raises:
        DataError: HotpotQA is not among the public data.
    """
    paragraphs: dict[str, str] = {}
    for _, line in read_lines(data_folder() / "hotpotqa" / "test.jsonl"):
        for title, sentences in json.loads(line)["context"]:
            paragraphs.setdefault(title, " ".join(one.strip() for one in sentences))
    rows = [json.loads(line) for _, line in read_lines(HERE / "hotpotqa.jsonl")]
    marked: dict[str, list[tuple[tuple[int, int], list[MarkedFact]]]] = defaultdict(list)
    for row in rows:
        start = paragraphs[row["title"]].index(row["text"])
        facts = [MarkedFact(*one) for one in row["triples"]]
        marked[row["title"]].append(((start, start + len(row["text"])), facts))
    table = [line.split("\t") for _, line in read_lines(HERE / "hotpotqa-seeds.tsv")][1:]
    seeds = [Fact(subject, relation, object_.strip()) for subject, relation, object_ in table]
    documents = [
        Document(title, text)
        for title, text in sorted(paragraphs.items())
        if title in marked or any(f.subject in text and f.object in text for f in seeds)
    ]
    return Sentences(documents, seeds, marked)


def scores(right: int, found: int, stated: int) -> dict[str, float]:
    """Counts, and precision, recall and F1 as fractions."""
    precision, recall = right / max(found, 1), right / max(stated, 1)
    f1 = 2 * precision * recall / max(precision + recall, 1e-12)
    counts = {"right": right, "found": found, "stated": stated}
    return {**counts, "precision": precision, "recall": recall, "f1": f1}


def compared(
    found: Iterable[tuple[Fact, str, tuple[int, int]]], given: Sentences, *, open_: bool
) -> dict[str, float]:
    """How many of the marked facts were found, and how much of what was found is one.

    Two names are the same where the words of one stand in the other in their order ("Fischler",
    "Abraham S. Fischler"). A relation of its own words is right where a stem of them is one of
    those in the text.

    Args:
        found: facts with document and span of what states them.
        given: the sentences.
        open_: whether relations are called by their own words; else known ones are compared.
    """
    by_document: dict[str, list[tuple[Fact, tuple[int, int]]]] = defaultdict(list)
    for fact, document, span in found:
        by_document[document].append((fact, span))
    right = number = stated = 0
    for document, sentences in given.marked.items():
        for (start, end), facts in sentences:
            here = dict.fromkeys(
                fact for fact, (a, b) in by_document[document] if a < end and b > start
            )
            left = [(f.subject, f.words, f.object) for f in facts] if open_ else []
            left += [] if open_ else [f.known[:3] for f in facts if f.known is not None]
            number, stated = number + len(here), stated + len(left)
            for fact in here:
                hit = next((one for one in left if _is_right(fact, one, open_=open_)), None)
                if hit is not None:
                    left.remove(hit)
                    right += 1
    return scores(right, number, stated)


def _is_right(fact: Fact, stated: tuple[str, str, str], *, open_: bool) -> bool:
    subject, relation, object_ = stated
    if not (_is_same(fact.subject, subject) and _is_same(fact.object, object_)):
        return False
    if not open_:
        return fact.relation == relation
    return bool(_stems(fact.relation) & _stems(relation))


def _stems(words: str) -> set[str]:
    function = {"a", "an", "the", "and", "is", "was", "be", "as", "his", "her", "its"}
    weak = {"of", "in", "on", "at", "by", "for", "to", "from", "with"}
    stems = {word for word in words.casefold().split() if word not in function}
    return {verb_stem(word.strip(_MARKS)) for word in (stems - weak) or stems}


def _is_same(one: str, other: str) -> bool:
    a, b = ([word.strip(_MARKS) for word in name.casefold().split()] for name in (one, other))
    short, long = sorted((a, b), key=len)
    starts = range(len(long) - len(short) + 1)
    return any(long[start : start + len(short)] == short for start in starts)
