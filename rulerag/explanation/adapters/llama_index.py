"""Query engines of LlamaIndex: nodes are retrieved once, answers synthesised from those kept."""

from __future__ import annotations

from typing import Any

from rulerag.explanation.adapters.frozen import FrozenChain, asked, failed, no_retriever


def freeze(engine: Any, question: Any) -> FrozenChain:
    """Retrieve and answer once; see :func:`rulerag.explanation.adapters.freeze`."""
    from llama_index.core.schema import QueryBundle

    if not callable(getattr(engine, "retrieve", None)) or not hasattr(engine, "synthesize"):
        raise no_retriever(f"{type(engine).__name__} does not retrieve and synthesize apart")
    bundle = question if isinstance(question, QueryBundle) else QueryBundle(asked(question))
    try:
        nodes = tuple(engine.retrieve(bundle))
        said = _text(engine.synthesize(bundle, list(nodes)))
    except NotImplementedError as error:
        raise no_retriever(f"{type(engine).__name__} cannot retrieve apart") from error
    except Exception as error:
        raise failed("the query engine", error) from error

    def answer(_: str, documents: list[Any]) -> str:
        return _text(engine.synthesize(bundle, list(documents)))

    return FrozenChain(
        answer,
        bundle.query_str,
        nodes,
        said,
        frozen="The nodes were retrieved once, after all postprocessors, and are frozen",
        empty='LlamaIndex answers "Empty Response" without asking the model'
        if type(engine).__module__.startswith("llama_index.")
        else "the engine synthesizes from no nodes",
    )


def _text(response: Any) -> str:
    """The answer, which may be empty: as a string an empty response of LlamaIndex is "None"."""
    said = getattr(response, "response", None)
    return said if isinstance(said, str) else str(response)
