"""LlamaIndex: our retriever and pipeline as its components, and its query engines explained.

``RuleRAGRetriever`` stands wherever LlamaIndex takes a retriever; ``RuleRAGQueryEngine`` is the
whole pipeline. Any engine that retrieves and synthesizes apart can be explained by
``rulerag.explain(engine, question)``: nodes are retrieved once, and answers synthesized again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from rulerag.errors import needs_package
from rulerag.explanation import FrozenChain, answer_text, no_retriever, question_text
from rulerag.integrations.system import open_system

with needs_package("llama-index-core", "llama-index"):
    from llama_index.core.base.base_query_engine import BaseQueryEngine
    from llama_index.core.base.response.schema import Response
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode


class RuleRAGRetriever(BaseRetriever):
    """A retriever of LlamaIndex over a dataset folder, a pipeline or a retriever of rulerag.

    Its nodes hold in their metadata what :func:`rulerag.integrations.system.metadata_of` says: id,
    score, rank, the texts of the rules that found them, and facts; prompts and embeddings do not
    show them.

    Args:
        of: see :func:`rulerag.integrations.open_system`.
        options: ``question``, ``top_k`` and the settings of a folder, likewise.

    Attributes:
        system: what is asked.

    Raises:
        UnknownNameError: at ``retrieve``, the dataset knows no entity and relation that make
            up the question.
    """

    def __init__(self, of: Any, **options: Any) -> None:
        super().__init__()
        self.system = open_system(of, **options)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        nodes = []
        for document, metadata in self.system.search(query_bundle.query_str):
            hidden = list(metadata)
            node = TextNode(
                id_=document.id,
                text=document.text,
                metadata=metadata,
                excluded_llm_metadata_keys=hidden,
                excluded_embed_metadata_keys=hidden,
            )
            nodes.append(NodeWithScore(node=node, score=metadata["score"]))
        return nodes

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._retrieve, query_bundle)


class RuleRAGQueryEngine(BaseQueryEngine):
    """The pipeline as a query engine, which also retrieves and synthesizes apart.

    ``metadata["rules"]`` of a response holds the texts of the guiding rules that the reader
    saw; the response is empty where the pipeline abstains.

    Args:
        of: see :func:`rulerag.integrations.open_system`; not a bare retriever.
        options: ``question``, ``top_k`` and the settings of a folder, likewise.

    Raises:
        UnknownNameError: at ``query``, the dataset knows no entity and relation that make up
            the question.
    """

    def __init__(self, of: Any, **options: Any) -> None:
        super().__init__(callback_manager=None)
        self.system = open_system(of, **options)
        self.retriever = RuleRAGRetriever(self.system)

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
        texts = [(one.node.get_content(), one.node.metadata) for one in nodes]
        answer = self.system.answer(query_bundle.query_str, texts)
        sources = [*nodes, *(additional_source_nodes or ())]
        rules = [rule.text for rule in answer.rules]
        return Response(answer.text, source_nodes=sources, metadata={"rules": rules})

    async def asynthesize(self, *args: Any, **kwargs: Any) -> Response:
        """As :meth:`synthesize`, in a thread."""
        return await asyncio.to_thread(self.synthesize, *args, **kwargs)

    def _query(self, query_bundle: QueryBundle) -> Response:
        return self.synthesize(query_bundle, self.retrieve(query_bundle))

    async def _aquery(self, query_bundle: QueryBundle) -> Response:
        return await asyncio.to_thread(self._query, query_bundle)

    def _get_prompt_modules(self) -> dict[str, Any]:
        return {}


def freeze(engine: Any, question: Any) -> FrozenChain:
    """Retrieve and answer once; see :func:`rulerag.explanation.chains.freeze`."""
    bundle = question
    if not isinstance(question, QueryBundle):
        bundle = QueryBundle(question_text(question) or str(question))

    def answer(_: str, documents: Sequence[Any]) -> str:
        return str(answer_text(engine.synthesize(bundle, list(documents))))

    try:
        nodes = tuple(engine.retrieve(bundle))
        text = answer(bundle.query_str, nodes)
    except NotImplementedError as error:
        name = type(engine).__name__
        raise no_retriever(f"{name} does not retrieve and synthesize apart") from error
    return FrozenChain(
        answer,
        bundle.query_str,
        nodes,
        text,
        frozen="The nodes were retrieved once, after all postprocessors, and are frozen",
        empty='LlamaIndex answers "Empty Response" without asking the model'
        if type(engine).__module__.startswith("llama_index.")
        else "the engine synthesizes from no nodes",
    )
