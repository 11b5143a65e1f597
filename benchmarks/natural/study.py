"""Rule-guided against plain retrieval on facts and on prose, and questions in other words."""

from __future__ import annotations

import copy
import random
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from benchmarks.linking.study import WordedQuestion, scores
from benchmarks.natural.rewriting import natural_texts
from rulerag.assembly import make_pipeline, make_retriever, make_selector, method
from rulerag.composition import Config
from rulerag.evaluation import AnswerMatcher, bootstrap_interval, paired_randomization_test
from rulerag.extraction import over_texts
from rulerag.linking import LinkedQuestion, link_mentions, spellings
from rulerag.ruleqa import RuleQADataset, known_names
from rulerag.text import exact_match
from rulerag.types import Document, Query

TOP_K = 10
LINKED, MEANT, EXACT = "own words, linked", "own words, meaning given", "exact questions"
"""How is asked: what the linker made of a question in other words is searched for in the exact
form; the meaning of such words is given; or as the benchmark asks."""
FACTS, UNSTATED = "facts", "facts' words alone"
PROSE: dict[int, dict[str, tuple[str, ...]]] = {
    1: {
        "sentences": (LINKED, MEANT, EXACT),
        "sentences, graph known": (LINKED, MEANT, EXACT),
        "sentences, half of the graph known": (MEANT,),
        "sentences with their facts": (EXACT,),
    },
    3: {"paragraphs": (LINKED,), "paragraphs, graph known": (LINKED,)},
}
"""What is searched and how it is asked, by how many facts a document may state."""
TITLES = (
    *(f"{kind}, {EXACT}" for kind in (FACTS, UNSTATED)),
    *(
        f"{kind}, {words}"
        for rows in PROSE.values()
        for kind, ways in rows.items()
        for words in ways
    ),
)
"""All forms, in the order of tables."""
PLAIN, GUIDED = "bm25-pooled__symbolic", "bm25-guided__symbolic"


@dataclass(frozen=True)
class Form:
    """A corpus and the questions that are asked of it.

    Args:
        title: what it is called in tables.
        dataset: whose documents are searched.
        queries: as they are searched for.
    """

    title: str
    dataset: RuleQADataset
    queries: Sequence[Query]


def drawn(dataset: RuleQADataset, query_set: str, size: int, seed: int) -> list[Query]:
    """Test questions of a set, at random, in the dataset's order."""
    rows = dataset.query_set(query_set)
    chosen = random.Random(seed).sample(range(len(rows)), min(size, len(rows)))
    return [rows[number] for number in sorted(chosen)]


# --- questions in other words ----


def linked_scores(
    dataset: RuleQADataset, linked: Sequence[LinkedQuestion], asked: Sequence[Query]
) -> dict[str, float]:
    """Shares of questions whose entity, relation, direction and all of them were found.

    Args:
        dataset: what is asked about.
        linked: what questions in other words were taken to mean.
        asked: what they mean.
    """
    cases = [
        WordedQuestion(one.text, one.subject_words, one.relation, False, one, one.subject_words)
        for one in asked
    ]
    found = scores(linked, cases)
    times = [
        bool(one.readings) and one.readings[0].query.timestamp == query.timestamp
        for one, query in zip(linked, asked, strict=True)
    ]
    return {**found, "time": sum(times) / max(len(times), 1)}


def understood(linked: Sequence[LinkedQuestion], asked: Sequence[Query]) -> list[Query]:
    """The queries of linked questions, with the ids and answers of those that were meant."""
    return [
        replace(one.best(), id=query.id, answers=query.answers, prediction=query.prediction)
        for one, query in zip(linked, asked, strict=True)
    ]


def matches(dataset: RuleQADataset, queries: Sequence[Query]) -> list[float]:
    """Exact match of each question: rule-guided BM25 over facts with the symbolic reader."""
    config = _linking(method(GUIDED, "", (), static=not dataset.calendar))
    answers = make_pipeline(config, dataset).answer(queries)
    return [exact_match(one.text, one.query.answers) for one in answers]


def _linking(config: Config) -> Config:
    """The same, its rules chosen by every relation that a linked question may ask for."""
    values = config.to_dict()
    if "selector" not in values:
        return config
    return Config({**values, "selector": {"type": "linked", "selector": values["selector"]}})


# --- rules against no rules ----


def forms_of(
    dataset: RuleQADataset,
    asked: Sequence[Query],
    linked: Sequence[Query] | None,
    seed: int,
    done: Collection[str] = (),
) -> Iterator[Form]:
    """Facts and prose, asked exactly and in other words; one corpus is held at a time.

    Args:
        dataset: its documents state facts.
        asked: its own queries.
        linked: what the same questions in other words were taken to mean; forms that need it are
            left out when None.
        seed: of the wordings.
        done: titles of forms that are left out.
    """
    if f"{FACTS}, {EXACT}" not in done:
        yield Form(f"{FACTS}, {EXACT}", dataset, asked)
    if f"{UNSTATED}, {EXACT}" not in done:
        yield Form(f"{UNSTATED}, {EXACT}", _over(dataset, _unstated(dataset)), asked)
    for most_facts, kinds in PROSE.items():
        left = {
            f"{kind}, {words}": (kind, words)
            for kind, several in kinds.items()
            for words in several
            if f"{kind}, {words}" not in done and (linked is not None or words != LINKED)
        }
        if not left:
            continue
        written = natural_texts(dataset, seed=seed, most_facts=most_facts)
        said = {query.id: query.text for query in written.query_set("full")}
        own_words = [replace(query, text=said[query.id]) for query in asked]
        ways = {LINKED: linked or (), MEANT: own_words, EXACT: asked}
        for kind in dict.fromkeys(kind for kind, _ in left.values()):
            searched = _searched(kind, written, dataset)
            for title, (of_kind, words) in left.items():
                if of_kind == kind:
                    yield Form(title, searched, ways[words])
            del searched
        del written


def _searched(kind: str, written: RuleQADataset, dataset: RuleQADataset) -> RuleQADataset:
    """A dataset of a kind, from one whose texts state nothing."""
    if kind.endswith("half of the graph known"):
        corpus = dataset.corpus
        half = random.Random("half").sample(corpus, len(corpus) // 2)
        return over_texts(_over(dataset, half), written.corpus)
    if kind.endswith("graph known"):
        return over_texts(dataset, written.corpus)
    if kind.endswith("with their facts"):
        stated = dataset.documents
        return _over(written, [replace(one, facts=stated[one.id].facts) for one in written.corpus])
    return written


def _unstated(dataset: RuleQADataset) -> list[Document]:
    """The documents of a dataset with their words alone, and whom these mention."""
    plain = [replace(one, facts=(), time=one.timestamp) for one in dataset.corpus]
    names = spellings(known_names(dataset)[0], dataset.labels["entities"], dataset.aliases)
    return link_mentions(plain, names)


def _over(dataset: RuleQADataset, documents: Sequence[Document]) -> RuleQADataset:
    """The same dataset with other documents of the same ids."""
    other = copy.copy(dataset)
    other.corpus = documents
    other.__dict__.pop("documents", None)  # those that were there
    return other


def known_scores(dataset: RuleQADataset, seed: int) -> dict[str, float]:
    """How much of what sentences state is found where the graph is known.

    Args:
        dataset: its documents state facts.
        seed: of the wordings.
    """
    written = natural_texts(dataset, seed=seed)
    started = time.perf_counter()
    texts = over_texts(dataset, written.corpus).corpus
    seconds = time.perf_counter() - started
    stated = dataset.documents
    right = sum(len({*one.facts} & {*stated[one.id].facts}) for one in texts)
    found = sum(len(one.facts) for one in texts)
    return {
        "facts": found,
        "precision": right / max(found, 1),
        "recall": right / max(sum(len({*one.facts}) for one in dataset.corpus), 1),
        "ms": 1000 * seconds / len(texts),
    }


def recalls(
    form: Form, name: str, overrides: Sequence[str] = ()
) -> tuple[list[float], list[list[str]]]:
    """Whether an answer stands in the ten documents of each question, and their texts.

    Args:
        form: what is asked of which corpus.
        name: the method.
        overrides: of its settings.
    """
    config = _linking(method(name, "", overrides, static=not form.dataset.calendar))
    selector = make_selector(config, form.dataset.rules, form.dataset)
    retriever = make_retriever(config, form.dataset, selector)
    matcher, texts, right = AnswerMatcher(), [], []
    for found, query in zip(retriever.retrieve(form.queries, TOP_K), form.queries, strict=True):
        documents = [scored.document for scored in found]
        texts.append([document.text for document in documents])
        right.append(float(matcher.first_rank(documents, query.answers) is not None))
    return right, texts


def compared(before: Sequence[float], after: Sequence[float]) -> dict[str, Any]:
    """Means of two methods over the same questions, the difference, its interval and p-value."""
    difference = np.subtract(after, before)
    return {
        "before": float(np.mean(before)),
        "after": float(np.mean(after)),
        "added": float(difference.mean()),
        "interval": bootstrap_interval(difference.tolist()),
        "p": paired_randomization_test(after, before),
    }
