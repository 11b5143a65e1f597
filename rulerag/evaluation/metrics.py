"""Metrics of answers and of retrieval, each with its direction and kind as data.

This module knows answers, documents and judgements; it knows no benchmark, file or model.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from rulerag.errors import UnknownNameError, did_you_mean
from rulerag.text import best_token_f1, contains_answer, exact_match, normalize_answer
from rulerag.types import Answer, Document

CUTOFFS = (1, 2, 5, 10)
TOKEN_BUDGET = 100
"""Tokens of what the reader saw, for answer coverage."""
_TOKEN = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True, slots=True)
class Metric:
    """What a metric's number means.

    Args:
        name: its key in ``metrics.json``.
        title: its heading in tables.
        description: what one value says.
        higher_is_better: the direction; None for a count that is neither good nor bad.
        is_fraction: whether values are from 0 to 1, which tables print as per cent; counts are not.
    """

    name: str
    title: str
    description: str
    higher_is_better: bool | None = True
    is_fraction: bool = True


_METRICS = {
    metric.name: metric
    for metric in (
        # RuleRAG, arXiv:2410.22353, section 4.3; of entities instead of strings below.
        Metric(
            "answer_recall@k",
            "R@k",
            "an acceptable answer stands, normalised and on token boundaries, in the text of one "
            "of the first k documents",
        ),
        Metric(
            "answer_recall@k_union",
            "R@k union",
            "the same over the whole union of every rule's first k documents, however many",
        ),
        Metric(
            "entity_recall@k",
            "R@k entity",
            "one of the first k documents states a fact whose subject or object is an acceptable "
            "answer; a name inside a longer name, China in Citizen (China), does not count",
        ),
        Metric(
            "entity_recall@k_union",
            "R@k union, entity",
            "the same over the whole union of every rule's first k documents, however many",
        ),
        Metric(
            "documents_per_query",
            "docs",
            "documents that the reader saw",
            higher_is_better=None,
            is_fraction=False,
        ),
        Metric(
            "documents_per_query_union",
            "docs union",
            "documents in the whole union, before it was cut to the best",
            higher_is_better=None,
            is_fraction=False,
        ),
        # What a fixed reading costs: GNN-RAG, arXiv:2405.20139, compares retrievals of graphs by
        # their answer coverage and their number of tokens.
        Metric(
            "answer_coverage@k_tokens",
            "coverage@k tokens",
            "an acceptable answer stands in the first k tokens (words and signs) of the documents",
        ),
        Metric(
            "tokens_per_query",
            "tokens",
            "tokens (words and signs) of the documents that the reader saw",
            higher_is_better=None,
            is_fraction=False,
        ),
        # Exact match and F1: SQuAD, arXiv:1606.05250, section 6.1; the lenient ones: the evaluator
        # published with RuleRAG, which calls them EM and T-F1.
        Metric("exact_match", "EM", "the normalised answer equals an acceptable one"),
        Metric(
            "lenient_match",
            "EM, lenient",
            "the first known entity name in the output equals an acceptable answer",
        ),
        Metric(
            "refused",
            "refused",
            "the question was not understood, or nothing is stated or follows: no answer is given",
            higher_is_better=None,
        ),
        Metric(
            "exact_match_answered",
            "EM, answered",
            "exact match of the questions that were not refused",
        ),
        Metric("token_f1", "F1", "token overlap with the closest acceptable answer"),
        Metric(
            "character_f1",
            "char-F1",
            "overlap of the bags of characters with the first acceptable answer",
        ),
        # trec_eval, through ir_measures; averaged over the queries that have judgements.
        Metric("recall@k", "recall@k", "share of the judged documents in the first k"),
        Metric("mrr@k", "MRR@k", "one over the rank of the first judged document, or 0"),
        Metric("ndcg@k", "nDCG@k", "discounted gain of the first k over the best possible"),
    )
}


def metric(name: str) -> Metric:
    """What the metric of a key of ``metrics.json`` means, ``answer_recall@10`` for example.

    Raises:
        UnknownNameError: no metric has this name; suggests close ones.
    """
    general = re.sub(r"@\d+", "@k", name)
    if general not in _METRICS:
        raise UnknownNameError(f"unknown metric {name!r}", hint=did_you_mean(general, _METRICS))
    measure = _METRICS[general]
    cutoff = "".join(re.findall(r"@(\d+)", name))
    return replace(
        measure,
        name=name,
        title=measure.title.replace("@k", f"@{cutoff}"),
        description=measure.description.replace("first k", f"first {cutoff}"),
    )


class AnswerCoverage:
    """Whether an answer stands within so many tokens of documents, whatever their number.

    Documents of different lengths, and retrievers that find more or fewer of them, are compared
    at one cost of reading. The document in which the budget ends is cut there. Tokens are words and
    signs, ``U.S.`` four, ``location.contains`` three; a language model's are more, since it cuts
    rare words into pieces. One object serves one corpus.
    """

    def __init__(self) -> None:
        self._known: dict[str, Sequence[int]] = {}
        self._matcher = AnswerMatcher()

    def num_tokens(self, document: Document) -> int:
        """The tokens of a document's text."""
        return len(self._of(document))

    def tokens_needed(self, documents: Iterable[Document], answers: Sequence[str]) -> float:
        """The tokens, from the first of the documents on, until an answer stands there whole.

        Args:
            documents: in the order in which they are read.
            answers: the acceptable answers.

        Returns:
            A whole number; infinite where no document holds an answer.
        """
        before = 0
        for document in documents:
            if self._matcher.first_rank((document,), answers) is None:
                before += self.num_tokens(document)
                continue
            ends = self._of(document)
            low, high = 0, len(ends)  # tokens: too few, enough
            while high - low > 1:
                middle = (low + high) // 2
                if contains_answer(document.text[: ends[middle - 1]], answers):
                    high = middle
                else:
                    low = middle
            return float(before + high)
        return math.inf

    def _of(self, document: Document) -> Sequence[int]:
        ends = self._known.get(document.id)
        if ends is None:
            ends = [match.end() for match in _TOKEN.finditer(document.text)]
            self._known[document.id] = ends
        return ends


class AnswerMatcher:
    """Finds answers in documents; the normalised text of a document is kept by its id.

    One matcher serves one corpus: ids must keep their text.
    """

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def first_rank(self, documents: Iterable[Document], answers: Iterable[str]) -> int | None:
        """The rank, from 1, of the first document that holds an answer; None without one."""
        wanted = _padded_answers(tuple(answers))
        if not wanted:
            return None
        texts = self._texts
        for rank, document in enumerate(documents, start=1):
            text = texts.get(document.id)
            if text is None:
                text = texts[document.id] = f" {_normalize_text(document.text)} "
            for answer in wanted:
                if answer in text:
                    return rank
        return None


# A corpus would push the short answers, which come again and again, out of the shared cache.
_normalize_text = normalize_answer.__wrapped__


@lru_cache(maxsize=1 << 14)
def _padded_answers(answers: tuple[str, ...]) -> tuple[str, ...]:
    """Answers as they occur inside a normalised text; those without a token are left out."""
    normalized = dict.fromkeys(normalize_answer(answer) for answer in answers)
    return tuple(f" {answer} " for answer in normalized if answer)


def answer_metrics(
    answer: Answer,
    *,
    top_k: int = 10,
    matcher: AnswerMatcher | None = None,
    coverage: AnswerCoverage | None = None,
) -> dict[str, float]:
    """The metrics of one answer, all in [0, 1] but the counts of documents and of tokens.

    Args:
        answer: with its documents, and with the untrimmed union where there was one.
        top_k: the depth of each search; it names the union's recall, and is a k of answer recall
            beside those of :data:`CUTOFFS` below it.
        matcher: one for a whole run, which makes it fast.
        coverage: one for a whole run, likewise.
    """
    matcher = matcher or AnswerMatcher()
    answers = answer.query.answers
    rank = matcher.first_rank((scored.document for scored in answer.documents), answers)
    # The paper's protocol: the union alone. A merge that looks deeper than the union may show the
    # reader documents from outside of it, and these must not count here.
    whole = answer.union or answer.documents
    union = matcher.first_rank((scored.document for scored in whole), answers) is not None
    depth = math.inf if rank is None else rank
    values = {
        f"answer_recall@{k}": float(depth <= k)
        for k in sorted({*(k for k in CUTOFFS if k < top_k), top_k})
    }
    values[f"answer_recall@{top_k}_union"] = float(union)
    coverage = coverage or AnswerCoverage()
    seen = [scored.document for scored in answer.documents]
    values[f"answer_coverage@{TOKEN_BUDGET}_tokens"] = float(
        coverage.tokens_needed(seen, answers) <= TOKEN_BUDGET
    )
    values["tokens_per_query"] = float(sum(map(coverage.num_tokens, seen)))
    values["documents_per_query"] = float(len(answer.documents))
    values["documents_per_query_union"] = float(answer.union_size)
    values["exact_match"] = exact_match(answer.text, answers, answer.values)
    values["token_f1"] = best_token_f1(answer.text, answers)
    return values


def mean_metrics(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The mean of every metric over the queries; exact sums, so that order does not matter.

    Args:
        rows: the same metrics in each.
    """
    names = rows[0] if rows else ()
    return {name: math.fsum(row[name] for row in rows) / len(rows) for name in names}


def qrels_metrics(
    qrels: Mapping[str, Mapping[str, int]],
    rankings: Mapping[str, Sequence[str]],
    *,
    top_k: int = 10,
) -> dict[str, float]:
    """``recall@k``, ``mrr@k`` and ``ndcg@k`` over the judged queries; empty without judgements.

    Args:
        qrels: query id → document id → grade.
        rankings: query id → document ids, best first; a judged query without one counts as 0.
        top_k: the k.
    """
    if not any(qrels.values()):
        return {}
    import ir_measures

    measures = {
        f"recall@{top_k}": ir_measures.R @ top_k,
        f"mrr@{top_k}": ir_measures.RR @ top_k,
        f"ndcg@{top_k}": ir_measures.nDCG @ top_k,
    }
    # Tools order a run by score: a score made from the rank keeps the order that the reader saw.
    run = {
        query: {document: -float(rank) for rank, document in enumerate(documents[:top_k])}
        for query, documents in rankings.items()
        if query in qrels
    }
    judged = {query: dict(grades) for query, grades in qrels.items() if grades}
    means = ir_measures.calc_aggregate(list(measures.values()), judged, run)
    return {name: float(means[measure]) for name, measure in measures.items()}
