"""Haystack: our retriever and reader as its components, and its pipelines explained.

Connected (``retriever.documents`` to ``reader.documents``) they are the whole pipeline. Any
pipeline in which a component hands on documents can be explained by
``rulerag.explain(pipeline, question)``. Annotations are objects here, not texts: Haystack reads the
types of a component's inputs from them.
"""

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rulerag.errors import needs_package
from rulerag.explanation import FrozenChain, answer_text, no_retriever, question_text
from rulerag.integrations.system import open_system

with needs_package("haystack-ai"):
    from haystack import Document, GeneratedAnswer, component, default_to_dict
    from networkx import descendants


class _SystemComponent:
    def __init__(self, of: Any, **options: Any) -> None:
        self.system = open_system(of, **options)
        self._parameters = {"of": str(of) if isinstance(of, Path) else of, **options}

    def to_dict(self) -> dict[str, Any]:
        """What it was made of, as files hold it."""
        return default_to_dict(self, **self._parameters)


@component
class RuleRAGRetriever(_SystemComponent):
    """A retriever of Haystack over a dataset folder, a pipeline or a retriever of rulerag.

    Its documents hold in their ``meta`` what :func:`rulerag.integrations.system.metadata_of` says:
    id, score, rank, the texts of the rules that found them, and facts. Made of a path it can be
    written to a file with its pipeline.

    Args:
        of: see :func:`rulerag.integrations.open_system`.
        options: ``question``, ``top_k`` and the settings of a folder, likewise.

    Attributes:
        system: what is asked.
    """

    @component.output_types(documents=list[Document])
    def run(self, query: str, top_k: int | None = None) -> dict[str, Any]:
        """Find documents.

        Args:
            query: the question.
            top_k: how many at most; those of the system when None.

        Raises:
            UnknownNameError: the dataset knows no entity and relation that make up the question.
        """
        return {
            "documents": [
                Document(id=one.id, content=one.text, meta=metadata, score=metadata["score"])
                for one, metadata in self.system.search(query, top_k)
            ]
        }


@component
class RuleRAGReader(_SystemComponent):
    """What answers in a rulerag pipeline, as a component: from a question and documents.

    It reads the documents of any retriever; those of ``RuleRAGRetriever`` bring their facts.
    Its answer holds the documents, and in ``meta["rules"]`` the texts of the guiding rules; it
    is empty where the reader abstains. Given the retriever's ``system`` it shares its dataset.

    Args:
        of: see :func:`rulerag.integrations.open_system`; not a bare retriever.
        options: ``question``, ``top_k`` and the settings of a folder, likewise.

    Attributes:
        system: what is asked.
    """

    @component.output_types(answers=list[GeneratedAnswer])
    def run(self, query: str, documents: list[Document]) -> dict[str, Any]:
        """Answer one question.

        Args:
            query: the question.
            documents: best first, perhaps none.

        Raises:
            UnknownNameError: the dataset knows no entity and relation that make up the question.
        """
        answer = self.system.answer(query, [(one.content or "", one.meta) for one in documents])
        meta = {"rules": [rule.text for rule in answer.rules]}
        return {"answers": [GeneratedAnswer(answer.text, query, documents, meta)]}


_QUESTION_KEYS = ("query", "question", "text", "prompt")
_LOCK = threading.Lock()
"""Components hold state while a pipeline runs; one is replaced, for the thread that asks."""


def freeze(pipeline: Any, question: Any) -> FrozenChain:
    """Run a pipeline once; see :func:`rulerag.explanation.chains.freeze`.

    The last component before the generator that gives ``documents`` is frozen: rankers and joiners
    behind a retriever are part of what was found.
    """
    name = _source(pipeline)
    source = pipeline.get_component(name)
    data = question if isinstance(question, Mapping) else _inputs(pipeline, question)
    first = pipeline.run(dict(data), include_outputs_from={name})
    if name not in first:
        raise no_retriever(f"the component {name!r} was not run")

    def answer(_: str, documents: list[Any]) -> Any:
        outputs, thread = {**first[name], "documents": documents}, threading.get_ident()
        with _LOCK:
            run = source.run
            source.run = lambda **inputs: (
                outputs if threading.get_ident() == thread else run(**inputs)
            )
            try:
                return _answer(pipeline.run(dict(data)))
            finally:
                source.run = run

    places = [question, data, *data.values()]
    return FrozenChain(
        answer,
        next(filter(None, (question_text(one, _QUESTION_KEYS) for one in places)), str(data)),
        tuple(first[name]["documents"]),
        _answer(first),
        frozen=f"The component {name!r} was run once and its documents are frozen",
        empty="the components behind it get an empty list",
        workers=1,
    )


def _source(pipeline: Any) -> str:
    """The last component that hands on documents, in the order of the graph."""
    edges = pipeline.graph.edges(data=True)
    sources = {name: 0 for name, _, edge in edges if edge["from_socket"].name == "documents"}
    last = [one for one in sources if not descendants(pipeline.graph, one) & sources.keys()]
    if not last:
        raise no_retriever("no component of the pipeline hands on documents")
    return str(last[-1])


def _inputs(pipeline: Any, question: str) -> dict[str, str]:
    """The question for every open input that is called like one."""
    names = {name for sockets in pipeline.inputs().values() for name in sockets}
    inputs = {name: question for name in _QUESTION_KEYS if name in names}
    if not inputs:
        raise no_retriever("no component of the pipeline takes a question; give its inputs instead")
    return inputs


def _answer(outputs: Mapping[str, Any]) -> Any:
    """The first reply or answer of a pipeline; empty where there is none."""
    lists = [
        values[name]
        for values in outputs.values()
        for name in ("replies", "answers")
        if name in values
    ]
    first = next(filter(None, lists), None)
    if first:
        return answer_text(first[0])
    return "" if lists else outputs
