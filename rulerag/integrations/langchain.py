"""A retriever and a Runnable of LangChain over rulerag.

``RuleRAGRetriever`` stands wherever LangChain takes a retriever; ``RuleRAGRunnable`` is the whole
pipeline. Both can be explained: ``rulerag.explain(chain, question)`` freezes what the retriever
found.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from rulerag.errors import MissingDependencyError
from rulerag.integrations.system import (
    Question,
    System,
    open_system,
    question_in,
    scored_documents,
)
from rulerag.lazy import made_on_first_use

if TYPE_CHECKING:
    from langchain_core.callbacks import CallbackManagerForChainRun, CallbackManagerForRetrieverRun
    from langchain_core.documents import Document
    from langchain_core.runnables import RunnableConfig


@cache
def _retriever() -> type:
    try:
        from langchain_core.documents import Document
        from langchain_core.retrievers import BaseRetriever
    except ImportError as error:
        raise MissingDependencyError("langchain-core", "langchain") from error
    from pydantic import PrivateAttr

    class RuleRAGRetriever(BaseRetriever):
        """A retriever of LangChain over a dataset folder, a pipeline or a retriever of rulerag.

        Its documents hold in their metadata what
        :func:`rulerag.integrations.system.metadata_of` says: id, score, rank, the texts of the
        rules that found them, and facts.

        Args:
            of: see :func:`rulerag.integrations.open_system`, like all else.
            question: how a text becomes a query.
            top_k: documents a question.
            settings: of a dataset folder.

        Raises:
            UnknownNameError: at ``invoke``, the dataset knows no entity and relation that make up
                the question.
        """

        __qualname__ = "RuleRAGRetriever"
        _system: System = PrivateAttr()

        def __init__(
            self,
            of: Any,
            *,
            question: Question = None,
            top_k: int | None = None,
            **settings: Any,
        ) -> None:
            super().__init__()
            self._system = open_system(of, question=question, top_k=top_k, **settings)

        @property
        def system(self) -> System:
            """What is asked."""
            return self._system

        def _get_relevant_documents(
            self, query: str, *, run_manager: CallbackManagerForRetrieverRun
        ) -> list[Document]:
            return [
                Document(document.text, id=document.id, metadata=metadata)
                for document, metadata in self._system.search(query)
            ]

    return RuleRAGRetriever


@cache
def _runnable() -> type:
    retriever_class = _retriever()
    from langchain_core.runnables import Runnable
    from langchain_core.runnables.config import patch_config

    class RuleRAGRunnable(Runnable[Any, dict[str, Any]]):
        """The pipeline as a Runnable: a question in, its answer with the evidence out.

        It takes a text, or a mapping with ``input``, ``question`` or ``query``, and returns what
        LangChain's retrieval chains return: ``input``, ``context`` (the documents) and ``answer``
        (empty where the pipeline abstains); besides ``rules``, the texts of the guiding rules that
        the reader saw. The documents come from its ``retriever``, a ``RuleRAGRetriever``.

        Args:
            of: see :func:`rulerag.integrations.open_system`, like all else; not a bare retriever.
            question: how a text becomes a query.
            top_k: documents a question.
            settings: of a dataset folder.

        Raises:
            UnknownNameError: at ``invoke``, the dataset knows no entity and relation that make up
                the question.
        """

        __qualname__ = "RuleRAGRunnable"

        def __init__(
            self,
            of: Any,
            *,
            question: Question = None,
            top_k: int | None = None,
            **settings: Any,
        ) -> None:
            self.system = open_system(of, question=question, top_k=top_k, **settings)
            self.retriever = retriever_class(self.system)

        def invoke(
            self, input: Any, config: RunnableConfig | None = None, **_: Any
        ) -> dict[str, Any]:
            """Answer one question."""
            return self._call_with_config(self._answered, input, config, run_type="chain")

        def _answered(
            self, given: Any, run_manager: CallbackManagerForChainRun, config: RunnableConfig
        ) -> dict[str, Any]:
            text = question_in(given)
            below = patch_config(config, callbacks=run_manager.get_child())
            documents = self.retriever.invoke(text, below)
            read = [(one.page_content, one.metadata) for one in documents]
            answer = self.system.answer(text, scored_documents(read))
            rules = [rule.text for rule in answer.rules]
            return {"input": text, "context": documents, "answer": answer.text, "rules": rules}

    return RuleRAGRunnable


__getattr__ = made_on_first_use(
    __name__, {"RuleRAGRetriever": _retriever, "RuleRAGRunnable": _runnable}
)
