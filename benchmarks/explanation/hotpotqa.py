"""HotpotQA questions as requests whose sources are sentences in their original documents.

References:
    Yang et al. 2018 (HotpotQA, arXiv:1809.09600): distractor setting.
    Rorseth et al. 2025 (arXiv:2510.22689), section 5.2.1: questions with three supporting facts,
    zero to six sentences, the supporting ones first, shown in their original order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rulerag.errors import DataError
from rulerag.explanation.probing import Piece, Source
from rulerag.io import read_jsonl
from rulerag.types import Document, GenerationRequest, Query

SUPPORTING = 3


@dataclass(frozen=True)
class SentenceQuestion:
    """A question with sentences to keep or remove.

    Args:
        id: HotpotQA's id.
        question: in words.
        answer: the accepted answer.
        sentences: title, place in the paragraph and text of each sentence, supporting ones first.
    """

    id: str
    question: str
    answer: str
    sentences: tuple[tuple[str, int, str], ...]

    def request(self, count: int) -> tuple[GenerationRequest, tuple[Source, ...]]:
        """The request on the first ``count`` sentences in their original order, and its sources.

        Sentences of one paragraph form one document, a line each.
        """
        order = {title: place for place, (title, _, _) in reversed([*enumerate(self.sentences)])}
        chosen = sorted(self.sentences[:count], key=lambda s: (order[s[0]], s[1]))
        lines: dict[str, list[str]] = {}
        for title, _, text in chosen:
            lines.setdefault(title, []).append(text)
        documents = tuple(
            Document(f"p{place}", "\n".join(texts), title=title)
            for place, (title, texts) in enumerate(lines.items())
        )
        sources = []
        for place, (title, texts) in enumerate(lines.items()):
            start = 0
            for number, text in enumerate(texts):
                piece = Piece(place, start, start + len(text))
                sources.append(Source(f"{title}: {number}", text, (piece,)))
                start += len(text) + 1
        query = Query(self.id, self.question, answers=(self.answer,))
        return GenerationRequest(query, documents), tuple(sources)


def sentence_questions(folder: Path, *, most: int = 6) -> Iterator[SentenceQuestion]:
    """The questions with exactly three supporting facts and ``most`` sentences in all.

    Further sentences are the next ones of the supporting paragraphs, then of the others, in order.

    Raises:
        DataError: the folder holds no ``test.jsonl``.
    """
    file = folder / "test.jsonl"
    if not file.is_file():
        raise DataError("not found", path=file, hint="name the folder with --data")
    for row in read_jsonl(file):
        facts = [(title, number) for title, number in row["supporting_facts"]]
        if len(set(facts)) != SUPPORTING or len(facts) != SUPPORTING:
            continue
        question = _question(row, facts, most)
        if len(question.sentences) == most:
            yield question


def _question(row: dict[str, Any], facts: list[tuple[str, int]], most: int) -> SentenceQuestion:
    text = {
        (title, number): " ".join(sentence.split())
        for title, sentences in row["context"]
        for number, sentence in enumerate(sentences)
        if sentence.strip()
    }
    titles = {title for title, _ in facts}
    others = [key for key in text if key not in facts]
    others.sort(key=lambda key: key[0] not in titles)  # a stable sort keeps their order
    chosen = [key for key in facts if key in text] + others
    sentences = tuple((title, number, text[title, number]) for title, number in chosen[:most])
    return SentenceQuestion(row["_id"], row["question"], row["answer"], sentences)
