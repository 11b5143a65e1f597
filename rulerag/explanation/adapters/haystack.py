"""Pipelines of Haystack: their retriever answers from one recorded run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rulerag.explanation.adapters.frozen import (
    MODE,
    FrozenChain,
    Recording,
    asked,
    during,
    failed,
    no_retriever,
)

_QUESTIONS = ("query", "question", "text", "prompt")


def freeze(pipeline: Any, question: Any) -> FrozenChain:
    """Run a pipeline once; see :func:`rulerag.explanation.adapters.freeze`.

    The last component before the generator that gives ``documents`` is frozen: rankers and joiners
    behind a retriever are part of what was found.
    """
    name = _source(pipeline)
    data = question if isinstance(question, Mapping) else _inputs(pipeline, question)
    component, recording = pipeline.get_component(name), Recording([])
    with _intercepted(component), during((recording, None)):
        try:
            said = pipeline.run(dict(data))
        except Exception as error:
            raise failed("the pipeline", error) from error
    if not recording.calls:
        raise no_retriever(f"the component {name!r} was not run")
    words = question if isinstance(question, str) else _question(data)

    def answer(_: str, documents: list[Any]) -> Any:
        with _intercepted(component), during((recording, documents)):
            return _text(pipeline.run(dict(data)))

    return FrozenChain(
        answer,
        words,
        recording.documents,
        _text(said),
        frozen=f"The component {name!r} was run once and its documents are frozen",
        empty="the components behind it get an empty list",
        workers=1,  # components hold state while a pipeline runs
        by_identity=True,
    )


def _source(pipeline: Any) -> str:
    """The last component, in the order of the graph, that gives documents on."""
    graph = pipeline.graph
    givers = [
        source
        for source, _, key in graph.edges(keys=True)
        if str(key).partition("/")[0].rpartition(".")[2] == "documents"
        or _socket(graph, source, key) == "documents"
    ]
    if not givers:
        raise no_retriever("no component of the pipeline hands on documents")
    ends = [one for one in dict.fromkeys(givers) if not _later_giver(graph, one, set(givers))]
    return str(ends[-1])


def _socket(graph: Any, source: str, key: Any) -> str:
    for _, _, found, data in graph.out_edges(source, keys=True, data=True):
        if found == key:
            return str(getattr(data.get("from_socket"), "name", ""))
    return ""


def _later_giver(graph: Any, one: str, givers: set[str]) -> bool:
    waiting, seen = [one], set[str]()
    while waiting:
        following = set(graph.successors(waiting.pop())) - seen
        seen |= following
        waiting += following
    return bool((seen - {one}) & givers)


def _inputs(pipeline: Any, question: str) -> dict[str, dict[str, str]]:
    """The question in every open input that is called like one."""
    found = {
        name: {socket: question for socket in sockets if socket in _QUESTIONS}
        for name, sockets in pipeline.inputs().items()
    }
    given = {name: values for name, values in found.items() if values}
    if not given:
        raise no_retriever("no component of the pipeline takes a question; give its inputs instead")
    return given


def _question(data: Mapping[str, Any]) -> str:
    for values in data.values():
        if isinstance(values, Mapping) and (text := asked(values, _QUESTIONS)) != str(values):
            return text
    return asked(data, _QUESTIONS)


def _text(outputs: Mapping[str, Any]) -> Any:
    """The answer in what a pipeline returns."""
    for values in outputs.values():
        for name in ("replies", "answers"):
            if isinstance(values, Mapping) and values.get(name):
                first = values[name][0]
                held = (getattr(first, kind, None) for kind in ("text", "data", "answer"))
                return next((one for one in held if isinstance(one, str)), first)
    for values in outputs.values():
        if isinstance(values, Mapping) and "replies" in values:
            return ""
    return outputs


@contextmanager
def _intercepted(component: Any) -> Iterator[None]:
    """The component looks whether something is frozen for the thread that asks it."""
    own = component.run

    def run(*args: Any, **kwargs: Any) -> dict[str, Any]:
        mode = MODE.get()
        if mode is None:
            return dict(own(*args, **kwargs))
        recording, kept = mode
        if kept is None:
            found = dict(own(*args, **kwargs))
            recording.add(id(component), found["documents"])
            return found
        return {"documents": recording.replay(id(component), kept) or []}

    component.run = run
    try:
        yield
    finally:
        component.run = own
