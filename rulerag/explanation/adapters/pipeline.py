"""Our own pipeline, as one more chain."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rulerag.explanation.adapters.frozen import FrozenChain, failed
from rulerag.types import Query


def freeze(pipeline: Any, question: Any) -> FrozenChain:
    """Answer once; see :func:`rulerag.explanation.adapters.freeze`."""
    query = question if isinstance(question, Query) else Query("question", str(question))
    try:
        (first,) = pipeline.answer([query])
    except Exception as error:
        raise failed("the pipeline", error) from error
    request = first.request()

    def answer(_: str, documents: list[Any]) -> str:
        (said,) = pipeline.generator.generate([replace(request, documents=tuple(documents))])
        return str(said.text)

    return FrozenChain(
        answer,
        query.text,
        tuple(request.documents),
        first.text,
        frozen="Documents and guiding rules were found once and are frozen",
        empty="the generator reads the question and the rules alone",
        calls=1,
        workers=1,
    )
