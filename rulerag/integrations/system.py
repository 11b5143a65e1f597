"""What is asked in plain words: a retriever or a pipeline, with the way from a text to its query.

Frameworks hand on texts and documents of their own. Everything that rulerag knows of a document
(facts, scores, the rules that found it) travels in its metadata, so that a reader behind any other
component gets back what the retriever found.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from rulerag.assembly import (
    experiment,
    following_all,
    make_pipeline,
    open_dataset,
    preset,
)
from rulerag.errors import ConfigError
from rulerag.linking import QuestionLinker
from rulerag.pipeline import RuleRAGPipeline, with_evidence
from rulerag.protocols import Retriever, RuleSelector
from rulerag.retrieval.base import check_top_k
from rulerag.ruleqa import RuleQADataset
from rulerag.types import Answer, Document, Query, RuleHit, ScoredDocument

Question = RuleQADataset | QuestionLinker | Callable[[str], Query] | None
"""How a text becomes a query: by a dataset, by a linker, by a function, or as it stands."""

_TOP_K = 10


class System:
    """A retriever, and a pipeline where there is one, asked in plain words.

    Frameworks ask from many threads; searches and answers run one at a time.

    Args:
        retriever: what finds documents.
        pipeline: what answers; None where documents are only found.
        question: how a text becomes a query: a dataset that it is about, in its own form or in
            any words, the :class:`rulerag.linking.QuestionLinker` of one, a function, or None for
            the bare text, which is enough for retrievers and readers of text.
        top_k: documents a question; those of the pipeline, else 10, when None.
    """

    def __init__(
        self,
        retriever: Retriever,
        pipeline: RuleRAGPipeline | None = None,
        *,
        question: Question = None,
        top_k: int | None = None,
    ) -> None:
        self.retriever, self.pipeline = retriever, pipeline
        usual = _TOP_K if pipeline is None else pipeline.top_k
        self.top_k = usual if top_k is None else top_k
        check_top_k(self.top_k)
        self._question = (
            QuestionLinker(question) if isinstance(question, RuleQADataset) else question
        )
        self._selector = _selector_of(pipeline, retriever)
        self._lock = threading.RLock()
        self.query = lru_cache(maxsize=1024)(self._query)
        """The query behind a text; it says why where it is not understood."""

    def _query(self, text: str) -> Query:
        if self._question is None:
            return Query("question", text)
        if not isinstance(self._question, QuestionLinker):
            return self._question(text)
        (linked,) = self._question.link([text])
        return linked.query()

    def search(self, text: str, top_k: int | None = None) -> list[tuple[Document, dict[str, Any]]]:
        """The documents for a question, best first, each with its metadata; none if it is refused.

        Args:
            text: the question.
            top_k: how many at most; those of the system when None.
        """
        with self._lock:
            query = self.query(text)
            if query.refusal:
                return []
            (results,) = self.retriever.retrieve([query], self.top_k if top_k is None else top_k)
            if self.pipeline is not None:
                results = with_evidence(query, results, self.pipeline.statements)
            (rules,) = self._selector.select([query]) if self._selector else ([],)
        texts = {rule.id: rule.text for rule in rules}
        return [(scored.document, metadata_of(scored, texts)) for scored in results]

    def answer(self, text: str, documents: Sequence[tuple[str, Mapping[str, Any]]]) -> Answer:
        """The pipeline's answer from some documents; it reads its own ``top_k`` of them.

        Args:
            text: the question.
            documents: texts with metadata, best first, perhaps none; see
                :func:`scored_documents`.

        Raises:
            ConfigError: there is no pipeline.
            DataFormatError: ``facts`` in the metadata are no facts.
        """
        if self.pipeline is None:
            raise ConfigError(
                f"{type(self.retriever).__name__} finds documents and does not answer",
                key="of",
                hint="give a RuleRAGPipeline, a dataset folder or an experiment file",
            )
        retrieved = scored_documents(documents)
        with self._lock:
            (answer,) = self.pipeline.answer([self.query(text)], retrieved=[retrieved])
        return answer


def open_system(
    of: Any, *, question: Question = None, top_k: int | None = None, **settings: Any
) -> System:
    """A system of whatever is at hand.

    Args:
        of: a dataset folder or an experiment file, a :class:`~rulerag.RuleRAGPipeline`, any
            retriever of rulerag, or a system, which is returned as it is.
        question: see :class:`System`; of a folder its dataset when None.
        top_k: documents a question; 10, or those of the pipeline or the file, when None.
        settings: of a folder, those of :func:`rulerag.assembly.preset`: ``retriever``, ``rules``,
            ``encoder``, ``fusion``, ``generator``.

    Raises:
        ConfigError: it is none of these, or settings come with what has its own.
        DataError: the folder holds no dataset.
    """
    if isinstance(of, str | Path):
        return _opened(Path(of), question, top_k, settings)
    fixed = {"question": question, "top_k": top_k} if isinstance(of, System) else {}
    _refuse({**settings, **fixed}, type(of).__name__)
    if isinstance(of, System):
        return of
    if isinstance(of, RuleRAGPipeline):
        return System(of.retriever, of, question=question, top_k=top_k)
    if isinstance(of, Retriever):
        return System(of, question=question, top_k=top_k)
    raise ConfigError(
        f"{type(of).__name__} is nothing that can be asked",
        key="of",
        hint="a dataset folder, an experiment file, a RuleRAGPipeline or a retriever",
    )


def _opened(
    place: Path, question: Question, top_k: int | None, settings: Mapping[str, Any]
) -> System:
    if place.suffix in (".yaml", ".yml"):
        _refuse(settings, f"the experiment file {place}")
        config = experiment(place)
    else:
        config = preset(place, top_k=_TOP_K if top_k is None else top_k, **settings)
    dataset = open_dataset(config)
    pipeline = make_pipeline(following_all(config), dataset, keep_union=False)
    linker = QuestionLinker.of_folder(config.get("dataset", {}).get("path"), dataset)
    return System(pipeline.retriever, pipeline, question=question or linker, top_k=top_k)


def _refuse(settings: Mapping[str, Any], what: str) -> None:
    for key, value in settings.items():
        if value is not None:
            raise ConfigError(
                f"{what} has settings of its own",
                key=key,
                hint="leave it out, or give the path of a dataset folder",
            )


def _selector_of(*places: Any) -> RuleSelector | None:
    """What chooses the guiding rules, of a retriever also in what it wraps."""
    for one in places:
        if (selector := getattr(one, "selector", None)) is not None:
            return selector  # type: ignore[no-any-return]
        inner = [getattr(one, "retriever", None), *getattr(one, "retrievers", ())]
        if (selector := _selector_of(*filter(None, inner))) is not None:
            return selector
    return None


def metadata_of(scored: ScoredDocument, rules: Mapping[str, str]) -> dict[str, Any]:
    """What is known of a found document, as a JSON-like object.

    Args:
        scored: the document.
        rules: texts of rules by id.

    Returns:
        ``id``, ``score``, ``rank`` (from 1), ``rules`` (texts of the rules that found it),
        ``facts`` (``[subject, relation, object, timestamp]``), ``found_by`` as in
        ``answers.jsonl``; ``title`` where there is one.
    """
    document = scored.document
    return {
        "id": document.id,
        "score": float(scored.score),
        "rank": scored.rank,
        "rules": [rules.get(identifier, identifier) for identifier in scored.rule_ids],
        "facts": [list(fact) for fact in document.facts],
        "found_by": [
            {"rule": hit.rule_id, "rank": hit.rank, "score": float(hit.score), "atom": hit.atom}
            for hit in scored.found_by
        ],
        **({"title": document.title} if document.title else {}),
    }


def scored_documents(documents: Sequence[tuple[str, Mapping[str, Any]]]) -> list[ScoredDocument]:
    """Documents of a framework, as rulerag reads them.

    Args:
        documents: texts with metadata, best first; what :func:`metadata_of` wrote is read, and a
            document of another retriever has a text alone.

    Raises:
        DataFormatError: ``facts`` in the metadata are no facts.
    """
    scored = []
    for rank, (text, metadata) in enumerate(documents, start=1):
        row = {
            "_id": str(metadata.get("id") or f"document-{rank}"),
            "text": text,
            "title": metadata.get("title"),
            "metadata": {"facts": metadata.get("facts")},
        }
        found_by = tuple(
            RuleHit(hit["rule"], hit["rank"], hit["score"], hit["atom"])
            for hit in metadata.get("found_by") or ()
        )
        score = float(metadata.get("score") or 0)
        scored.append(ScoredDocument(Document.from_json(row), score, rank, found_by))
    return scored
