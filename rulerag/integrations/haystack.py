"""A retriever and a reader of Haystack over rulerag.

Connected (``retriever.documents`` to ``reader.documents``) they are the whole pipeline, and
``rulerag.explain(pipeline, question)`` freezes what the retriever found. Annotations are objects
here, not texts: Haystack reads the types of a component's inputs from them.
"""

from functools import cache
from pathlib import Path
from typing import Any

from rulerag.errors import MissingDependencyError
from rulerag.integrations.system import Question, open_system, scored_documents
from rulerag.lazy import made_on_first_use


def _written(of: Any) -> Any:
    """A path as files hold it; what else a component was made of is none."""
    return str(of) if isinstance(of, Path) else of


@cache
def _retriever() -> type:
    try:
        from haystack import Document, component, default_to_dict
    except ImportError as error:
        raise MissingDependencyError("haystack-ai") from error

    @component
    class RuleRAGRetriever:
        """A retriever of Haystack over a dataset folder, a pipeline or a retriever of rulerag.

        Its documents hold in their ``meta`` what
        :func:`rulerag.integrations.system.metadata_of` says: id, score, rank, the texts of the
        rules that found them, and facts. Made of a path it can be written to a file with its
        pipeline.

        Args:
            of: see :func:`rulerag.integrations.open_system`, like all else.
            question: how a text becomes a query.
            top_k: documents a question.
            settings: of a dataset folder.
        """

        __qualname__ = "RuleRAGRetriever"

        def __init__(
            self,
            of: Any,
            *,
            question: Question = None,
            top_k: int | None = None,
            **settings: Any,
        ) -> None:
            kept = {"question": question, "top_k": top_k, **settings}
            self._made_of = {"of": _written(of), **kept}
            self.system = open_system(of, question=question, top_k=top_k, **settings)

        def to_dict(self) -> dict[str, Any]:
            """What it was made of."""
            return default_to_dict(self, **self._made_of)

        @component.output_types(documents=list[Document])
        def run(self, query: str, top_k: int | None = None) -> dict[str, Any]:
            """Find documents.

            Args:
                query: the question.
                top_k: how many at most; those of the system when None.

            Raises:
                UnknownNameError: the dataset knows no entity and relation that make up the
                    question.
            """
            found = self.system.search(query, top_k)
            return {
                "documents": [
                    Document(id=one.id, content=one.text, meta=metadata, score=metadata["score"])
                    for one, metadata in found
                ]
            }

    return RuleRAGRetriever


@cache
def _reader() -> type:
    try:
        from haystack import Document, GeneratedAnswer, component, default_to_dict
    except ImportError as error:
        raise MissingDependencyError("haystack-ai") from error

    @component
    class RuleRAGReader:
        """What answers in a rulerag pipeline, as a component: from a question and documents.

        It reads the documents of any retriever; those of ``RuleRAGRetriever`` bring their facts.
        Its answer holds the documents, and in ``meta["rules"]`` the texts of the guiding rules; it
        is empty where the reader abstains. Given the retriever's ``system`` it shares its dataset.

        Args:
            of: see :func:`rulerag.integrations.open_system`, like all else; not a bare retriever.
            question: how a text becomes a query.
            settings: of a dataset folder.
        """

        __qualname__ = "RuleRAGReader"

        def __init__(self, of: Any, *, question: Question = None, **settings: Any) -> None:
            self._made_of = {"of": _written(of), "question": question, **settings}
            self.system = open_system(of, question=question, **settings)

        def to_dict(self) -> dict[str, Any]:
            """What it was made of."""
            return default_to_dict(self, **self._made_of)

        @component.output_types(answers=list[GeneratedAnswer])
        def run(self, query: str, documents: list[Document]) -> dict[str, Any]:
            """Answer one question.

            Args:
                query: the question.
                documents: best first, perhaps none.

            Raises:
                UnknownNameError: the dataset knows no entity and relation that make up the
                    question.
            """
            read = [(one.content or "", one.meta) for one in documents]
            answer = self.system.answer(query, scored_documents(read))
            meta = {"rules": [rule.text for rule in answer.rules]}
            return {"answers": [GeneratedAnswer(answer.text, query, documents, meta)]}

    return RuleRAGReader


__getattr__ = made_on_first_use(
    __name__, {"RuleRAGRetriever": _retriever, "RuleRAGReader": _reader}
)
