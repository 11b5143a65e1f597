"""A RuleQA dataset as people would have it: questions in their words, documents in prose.

Every document states what it stated, in one of several wordings and without its facts beside it;
every question asks what it asked, in other words. ``wordings.toml`` holds what is written by hand
for the labels of the five benchmarks; a relation that is not there is worded from its label
(:func:`rulerag.kg.derived_phrase`).

    python -m benchmarks.natural.rewriting runs/ruleqa-i --out runs/ruleqa-i-natural
"""

from __future__ import annotations

import argparse
import datetime as dt
import random
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from rulerag.composition import check_range
from rulerag.console import guarded
from rulerag.errors import DataError
from rulerag.folders import output_folder
from rulerag.kg import Calendar, derived_phrase
from rulerag.linking import link_mentions, spellings
from rulerag.ruleqa import DatasetInfo, RuleQADataset, known_names
from rulerag.rules import readable
from rulerag.types import Document, Fact, Query

_NOUN = re.compile(r"the (.+) of \{x\} is \{y\}")
_ENDS = re.compile(r"(\ba )?(\{[xy]\})")
_DATES = ("{day} {month} {year}", "{month} {day}, {year}")
_SUBJECT = "{x} "


@dataclass(frozen=True)
class Wordings:
    """How a relation is stated and asked.

    Args:
        statements: sentences without a full stop, with ``{x}`` and ``{y}``.
        questions: for the object, with ``{x}``.
    """

    statements: tuple[str, ...]
    questions: tuple[str, ...]


@cache
def _by_hand() -> dict[str, Wordings]:
    text = Path(__file__).with_name("wordings.toml").read_text(encoding="utf-8")
    return {label: Wordings(tuple(a), tuple(b)) for label, (a, b) in tomllib.loads(text).items()}


@cache
def wordings_of(label: str) -> Wordings:
    """The wordings of a relation: those written by hand for its label, else made from the label.

    Args:
        label: the relation in words.
    """
    known = _by_hand().get(label.casefold())
    if known is not None:
        return known
    template = derived_phrase(label)
    noun = _NOUN.fullmatch(template)
    if noun:
        name = noun[1]
        return Wordings(
            (template, f"{{y}} is the {name} of {{x}}", f"{{x}} has {{y}} as its {name}"),
            (
                f"What is the {name} of {{x}}?",
                f"Which {name} does {{x}} have?",
                f"Can you tell me the {name} of {{x}}?",
            ),
        )
    said = re.sub(r":? \{y\}$", "", template)
    return Wordings(
        (template, f"it is known that {template}", f"according to reports, {template}"),
        (
            f"Who or what is it that {said}?",
            f"Do you know whom or what {said}?",
            f"Can you tell me what {said}?",
        ),
    )


def natural_dataset(dataset: RuleQADataset, *, seed: int = 0, most_facts: int = 1) -> RuleQADataset:
    """The same questions, rules and judgements, with questions and documents in other words.

    Documents keep their ids and have neither facts nor entities (see
    :func:`rulerag.linking.link_mentions`); a paragraph has the id of its first document, and is
    judged as the best of them. Queries keep their answers and what they mean.

    Args:
        dataset: documents state facts, one or several each.
        seed: decides every wording.
        most_facts: facts that a document may state; above 1, paragraphs are about one subject, each
            with 1 to that many facts in the order of time.

    Raises:
        ConfigError: ``most_facts`` is below 1.
        DataError: a document states no fact; names it.
    """
    check_range("most_facts", most_facts, 1)
    writer = _Writer(dataset, random.Random(f"natural {seed}"))
    documents, paragraph_of = [], dict[str, str]()
    for group in _groups(dataset.corpus, most_facts, writer.rng):
        facts = [fact for one in group for fact in one.facts]
        documents.append(Document(group[0].id, writer.paragraph(facts)))
        paragraph_of.update((one.id, group[0].id) for one in group)
    queries = {
        split: [replace(query, text=writer.question(query)) for query in rows]
        for split, rows in dataset.queries.items()
    }
    qrels: dict[str, dict[str, dict[str, int]]] = {}
    for split in dataset.queries:
        for query, grades in dataset.qrels(split).items():
            judged = qrels.setdefault(split, {}).setdefault(query, {})
            for document, grade in grades.items():
                place = paragraph_of[document]
                judged[place] = max(grade, judged.get(place, grade))
    settings = {**dataset.settings, "natural": {"seed": seed, "most_facts": most_facts}}
    name = f"{dataset.name}-natural"
    info = DatasetInfo(name, dataset.calendar, dataset.seed, settings, dataset.statistics)
    written = RuleQADataset(
        corpus=documents,
        queries=queries,
        qrels=qrels,
        rules=dataset.rules,
        query_sets=dataset.query_sets,
        labels={**dataset.labels, "aliases": dataset.aliases},
        info=info,
        prediction=dataset.prediction,
    )
    written.templates = dataset.templates
    return written


def natural_texts(dataset: RuleQADataset, *, seed: int = 0, most_facts: int = 1) -> RuleQADataset:
    """A dataset in prose, as a user with texts and a graph has it.

    Whom and which time a text of :func:`natural_dataset` speaks of is what its words say
    (:func:`rulerag.linking.link_mentions`), and nothing else.

    Args:
        dataset: its documents state facts.
        seed: decides every wording.
        most_facts: facts of one subject that a document may state.

    Raises:
        ConfigError: ``most_facts`` is below 1.
        DataError: a document states no fact.
    """
    written = natural_dataset(dataset, seed=seed, most_facts=most_facts)
    names = spellings(known_names(dataset)[0], dataset.labels["entities"], dataset.aliases)
    calendar = Calendar(**dataset.calendar) if dataset.calendar else None
    written.corpus = link_mentions(written.corpus, names, calendar)
    return written


def _groups(
    documents: Iterable[Document], most_facts: int, rng: random.Random
) -> Iterator[list[Document]]:
    """Documents about one subject that become one; a statement is not repeated in a paragraph."""
    by_subject: dict[str, list[Document]] = {}
    for document in documents:
        if not document.facts:
            raise DataError(
                f"the document {document.id!r} states no fact",
                hint="a dataset that is in prose already cannot be written again",
            )
        if most_facts == 1:
            yield [document]
        else:
            by_subject.setdefault(document.facts[0].subject, []).append(document)
    for own in by_subject.values():
        own.sort(key=lambda one: (one.timestamp or 0, one.id))
        group: list[Document] = []
        size, said = rng.randint(1, most_facts), set[Fact]()
        for document in own:
            states = {fact._replace(timestamp=None) for fact in document.facts}
            if group and (len(group) >= size or states & said):
                yield group
                group, said, size = [], set(), rng.randint(1, most_facts)
            group.append(document)
            said |= states
        yield group


class _Writer:
    """Puts facts and questions in words; every draw is from one generator of random numbers."""

    def __init__(self, dataset: RuleQADataset, rng: random.Random) -> None:
        self.rng = rng
        self.labels = dataset.labels
        self.calendar = Calendar(**dataset.calendar) if dataset.calendar else None

    def paragraph(self, facts: Sequence[Fact]) -> str:
        """Sentences about facts of one subject; two may share it: "X did this and did that"."""
        text, last, open_end = "", None, False
        for fact in facts:
            template = self.rng.choice(self._wordings(fact.relation).statements)
            date = self._date(fact.timestamp, last)
            joins = open_end and template.startswith(_SUBJECT) and self.rng.random() < 0.5
            said = template.removeprefix(_SUBJECT) if joins else template
            clause = self._fill(said, fact.subject, fact.object)
            if joins:
                text = f"{text.removesuffix('.')} and {clause} {date}".rstrip() + "."
                open_end = False  # a third clause would make the sentence long
            else:
                ahead = date and not date.startswith("that same") and self.rng.random() < 0.4
                clause = f"{date}, {clause}" if ahead else f"{clause} {date}".rstrip()
                text = f"{text} {clause[0].upper()}{clause[1:]}.".lstrip()
                open_end = template.startswith(_SUBJECT)
            last = fact.timestamp
        return text

    def question(self, query: Query) -> str:
        """A query in other words."""
        template = self.rng.choice(self._wordings(query.relation).questions)
        asked = self._fill(template, query.subject, "")
        date = self._date(query.timestamp, None)
        if not date:
            return asked
        if self.rng.random() < 0.4:
            return f"{date[0].upper()}{date[1:]}, {asked[0].lower()}{asked[1:]}"
        return f"{asked.removesuffix('?')} {date}?"

    def _wordings(self, relation: str) -> Wordings:
        return wordings_of(self.labels["relations"].get(relation, readable(relation)))

    def _fill(self, template: str, subject: str, object_: str) -> str:
        names = self.labels["entities"]
        ends = {"{x}": names.get(subject, subject), "{y}": names.get(object_, object_)}

        def said(match: re.Match[str]) -> str:
            name = ends[match[2]]
            article = "an " if name[:1] in "aeiouAEIOU" else "a "
            return f"{article if match[1] else ''}{name}"

        return _ENDS.sub(said, template)  # one pass: a name may hold braces

    def _date(self, time: int | None, last: int | None) -> str:
        """When, in words: on a day, in a year, or at a step; empty without a time."""
        if time is None or self.calendar is None:
            return ""
        written = self.calendar.format(time)
        if self.calendar.unit == "year":
            return "that same year" if time == last else f"in {written}"
        try:
            day = dt.date.fromisoformat(written)
        except ValueError:
            return f"at {written}"
        if time == last:
            return "that same day"
        form = self.rng.choice(_DATES)
        return f"on {form.format(day=day.day, month=f'{day:%B}', year=day.year)}"


def _run(arguments: argparse.Namespace) -> None:
    with output_folder(arguments.out):  # before anything costly is done
        dataset = RuleQADataset.load(arguments.dataset)
        dataset = natural_texts(dataset, seed=arguments.seed, most_facts=arguments.facts)
        dataset.save(arguments.out)
    dates = sum(document.time is not None for document in dataset.corpus)
    named = sum(bool(document.entities) for document in dataset.corpus)
    sys.stdout.write(
        f"{dataset.name}: {len(dataset.corpus):,} texts, {named:,} of which mention somebody known"
        + (f", {dates:,} a date" if dataset.calendar else "")
        + f"\nwritten to {arguments.out}, fingerprint {dataset.fingerprint}\n"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.natural.rewriting",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("dataset", type=Path, help="a dataset folder whose documents state facts")
    parser.add_argument("--out", type=Path, required=True, help="the dataset folder to write")
    parser.add_argument("--facts", type=int, default=1, help="facts a document may state")
    parser.add_argument("--seed", type=int, default=0, help="decides every wording")
    return guarded(lambda: _run(parser.parse_args(argv)))


if __name__ == "__main__":
    sys.exit(main())
