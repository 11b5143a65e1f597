"""Whether claims find the true sources of a model that words its answers as it likes.

``python -m benchmarks.models.rewording smollm2-135m-instruct --out benchmarks/results/models``.
Generated questions, ``Who is the mayor of Oslo?``, of six or seven documents: one or two state the
answer, one names another person of another place, the others are filler. The model answers in its
own words, and :func:`rulerag.explain` asks it again without some of the documents. Sources are the
documents of all sets that keep the claim whatever else is shown, as ``claim.sources``; and those of
the smallest set without which it is never made. A model that filler distracts has filler in the
former, truly. Beside the claims stands what equal words alone find.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from tqdm import tqdm

import rulerag
from rulerag.console import guarded
from rulerag.evaluation import markdown_table
from rulerag.generation.huggingface import HuggingFaceGenerator
from rulerag.io import prepare_folder, write_json, write_text
from rulerag.text import normalize_answer

PEOPLE = ("Ann Meyer", "Bo Li", "Carla Souza", "Dmitri Orlov", "Eve O'Hara", "Fatou Diallo")
PLACES = ("Oslo", "Graz", "Quito", "Perth")
FILLER = ("The weather was mild.", "A new bridge was opened.", "The museum has 300 pictures.")


@dataclass(frozen=True)
class PostQuestion:
    """A question with what is true of it.

    Args:
        question: in words.
        documents: in the order in which they are shown.
        sources: the places, from 0, of those that state the answer.
        person: the answer.
        post: of the person.
        place: of the post.
    """

    question: str
    documents: tuple[str, ...]
    sources: frozenset[int]
    person: str
    post: str
    place: str


def asked(seed: int) -> PostQuestion:
    """A question, documents of which one or two state the answer, and the words of it."""
    rng = random.Random(seed)
    post, (place, other), (right, wrong) = (
        rng.choice(["mayor", "director"]),
        rng.sample(PLACES, 2),
        rng.sample(PEOPLE, 2),
    )
    texts = [f"{right} is the {post} of {place}."] * rng.choice([1, 1, 2])
    documents = [*texts, f"{wrong} is the {post} of {other}.", *FILLER, f"{place} is a city."]
    order = rng.sample(range(len(documents)), len(documents))
    sources = frozenset(n for n, old in enumerate(order) if old < len(texts))
    shown = tuple(documents[old] for old in order)
    return PostQuestion(f"Who is the {post} of {place}?", shown, sources, right, post, place)


def f1(found: frozenset[int], true: frozenset[int]) -> float:
    """The F1 of some documents against the true ones; 1 where both are empty."""
    return 2 * len(found & true) / (len(found) + len(true)) if found or true else 1.0


def sources_found(answer: Any, one: PostQuestion) -> dict[str, Any]:
    """The answer, and how well claims and equal words find its sources.

    Args:
        answer: what :func:`rulerag.explain` takes.
        one: the question.
    """
    why = rulerag.explain(answer, one.question, list(one.documents))
    named = [claim for claim in why.claims if one.person in claim.text]
    exact = normalize_answer(why.text)
    same = rulerag.explain(
        answer,
        one.question,
        list(one.documents),
        predicate=lambda text: normalize_answer(text) == exact,
    )
    by_claims = frozenset(index for claim in named for index in claim.sources)
    removals = [removed for claim in named for removed in claim.omission]
    by_removal = frozenset(min(removals, key=len, default=frozenset()))
    by_words = frozenset(index for claim in same.claims for index in claim.sources)
    return {
        "question": one.question,
        "answer": why.text,
        "names_the_person": bool(named),
        "true": sorted(one.sources),
        "by_claims": sorted(by_claims),
        "by_removal": sorted(by_removal),
        "by_words": sorted(by_words),
        "f1_claims": f1(by_claims, one.sources),
        "f1_removal": f1(by_removal, one.sources),
        "f1_words": f1(by_words, one.sources),
        "calls": why.num_calls,
    }


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.models.rewording",
        description=__doc__,
        epilog="example: python -m benchmarks.models.rewording smollm2-135m-instruct --out DIR",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", help="the name or folder of a language model")
    parser.add_argument("--questions", type=int, default=30)
    parser.add_argument("--out", type=Path, help="the folder of the figures")
    given = parser.parse_args(argv)
    return guarded(lambda: _measure(given.model, given.questions, given.out))


def _measure(model: str, questions: int, out: Path | None) -> None:
    if out is not None:
        prepare_folder(out)
    reader = HuggingFaceGenerator(model, template="open", dtype="fast", max_new_tokens=24)
    rows = [sources_found(reader, asked(seed)) for seed in tqdm(range(questions), unit="question")]
    named = [row for row in rows if row["names_the_person"]]
    figures = {
        "model": Path(model).name,
        "questions": len(rows),
        "answers_that_name_the_person": len(named),
        "answers_in_different_words": len({row["answer"] for row in rows}),
        **{
            name: round(fmean(row[name] for row in named), 3) if named else None
            for name in ("f1_claims", "f1_removal", "f1_words")
        },
        "calls": round(fmean(row["calls"] for row in rows), 1),
    }
    table = markdown_table(list(figures), [[str(value) for value in figures.values()]])
    print(table)
    if out is not None:
        write_json(out / "rewording.json", {**figures, "rows": rows})
        write_text(out / "rewording.md", table + "\n")


if __name__ == "__main__":
    sys.exit(main())
