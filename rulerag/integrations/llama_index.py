"""A retriever and a query engine of LlamaIndex over rulerag.

``RuleRAGRetriever`` stands wherever LlamaIndex takes a retriever; ``RuleRAGQueryEngine`` is the
whole pipeline, which retrieves and synthesizes apart, so that ``rulerag.explain(engine, question)``
freezes its nodes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from rulerag.errors import MissingDependencyError
from rulerag.integrations.system import Question, System, open_system, scored_documents
from rulerag.lazy import made_on_first_use

if TYPE_CHECKING:
    from llama_index.core.base.response.schema import Response
    from llama_index.core.schema import NodeWithScore, QueryBundle


def _nodes(system: System, text: str) -> list[NodeWithScore]:
    """What a system finds, as nodes; their metadata stay out of prompts and embeddings."""
    from llama_index.core.schema import NodeWithScore, TextNode

    return [
        NodeWithScore(
            node=TextNode(
                id_=document.id,
                text=document.text,
                metadata=metadata,
                excluded_llm_metadata_keys=list(metadata),
                excluded_embed_metadata_keys=list(metadata),
            ),
            score=metadata["score"],
        )
        for document, metadata in system.search(text)
    ]


@cache
def _retriever() -> type:
    try:
        from llama_index.core.retrievers import BaseRetriever
    except ImportError as error:
        raise MissingDependencyError("llama-index-core", "llama-index") from error

    class RuleRAGRetriever(BaseRetriever):
        """A retriever of LlamaIndex over a dataset folder, a pipeline or a retriever of rulerag.

        Its nodes hold in their metadata what
        :func:`rulerag.integrations.system.metadata_of` says: id, score, rank, the texts of the
        rules that found them, and facts; prompts and embeddings do not show them.

        Args:
            of: see :func:`rulerag.integrations.open_system`, like all else.
            question: how a text becomes a query.
            top_k: documents a question.
            settings: of a dataset folder.

        Raises:
            UnknownNameError: at ``retrieve``, the dataset knows no entity and relation that make
                up the question.
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
            super().__init__()
            self.system = open_system(of, question=question, top_k=top_k, **settings)

        def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
            return _nodes(self.system, query_bundle.query_str)

        async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
            return await asyncio.to_thread(self._retrieve, query_bundle)

    return RuleRAGRetriever


@cache
def _query_engine() -> type:
    retriever_class = _retriever()
    from llama_index.core.base.base_query_engine import BaseQueryEngine
    from llama_index.core.base.response.schema import Response

    class RuleRAGQueryEngine(BaseQueryEngine):
        """The pipeline as a query engine, which also retrieves and synthesizes apart.

        ``metadata["rules"]`` of a response holds the texts of the guiding rules that the reader
        saw; the response is empty where the pipeline abstains.

        Args:
            of: see :func:`rulerag.integrations.open_system`, like all else; not a bare retriever.
            question: how a text becomes a query.
            top_k: documents a question.
            settings: of a dataset folder.

        Raises:
            UnknownNameError: at ``query``, the dataset knows no entity and relation that make up
                the question.
        """

        __qualname__ = "RuleRAGQueryEngine"

        def __init__(
            self,
            of: Any,
            *,
            question: Question = None,
            top_k: int | None = None,
            **settings: Any,
        ) -> None:
            super().__init__(callback_manager=None)
            self.system = open_system(of, question=question, top_k=top_k, **settings)
            self.retriever = retriever_class(self.system)

        def retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
            """The nodes for a question, best first."""
            return list(self.retriever.retrieve(query_bundle))

        def synthesize(
            self,
            query_bundle: QueryBundle,
            nodes: list[NodeWithScore],
            additional_source_nodes: Sequence[NodeWithScore] | None = None,
        ) -> Response:
            """The answer from some nodes, which may be those of another retriever."""
            read = [(one.node.get_content(), one.node.metadata) for one in nodes]
            answer = self.system.answer(query_bundle.query_str, scored_documents(read))
            sources = [*nodes, *(additional_source_nodes or ())]
            rules = [rule.text for rule in answer.rules]
            return Response(answer.text, source_nodes=sources, metadata={"rules": rules})

        async def asynthesize(
            self,
            query_bundle: QueryBundle,
            nodes: list[NodeWithScore],
            additional_source_nodes: Sequence[NodeWithScore] | None = None,
        ) -> Response:
            """As :meth:`synthesize`, in a thread."""
            given = query_bundle, nodes, additional_source_nodes
            return await asyncio.to_thread(self.synthesize, *given)

        def _query(self, query_bundle: QueryBundle) -> Response:
            return self.synthesize(query_bundle, self.retrieve(query_bundle))

        async def _aquery(self, query_bundle: QueryBundle) -> Response:
            return await asyncio.to_thread(self._query, query_bundle)

        def _get_prompt_modules(self) -> dict[str, Any]:
            return {}

    return RuleRAGQueryEngine


__getattr__ = made_on_first_use(
    __name__, {"RuleRAGRetriever": _retriever, "RuleRAGQueryEngine": _query_engine}
)
