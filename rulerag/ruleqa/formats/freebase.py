"""WebQSP and CWQ: questions about Freebase, over its triples.

References:
    Yih et al. 2016 (WebQuestionsSP, ACL short papers): one object with ``Questions``, each with
    ``QuestionId``, ``RawQuestion`` and ``Parses`` (``TopicEntityMid``, ``TopicEntityName``,
    ``InferentialChain``, ``Answers`` with ``AnswerType``, ``AnswerArgument``, ``EntityName``).
    Talmor and Berant 2018 (ComplexWebQuestions, arXiv:1803.06643), its README: a list of ``ID``,
    ``webqsp_ID``, ``question``, ``sparql``, ``answers`` with ``answer``, ``aliases``.
    Luo et al. 2024 (RoG, arXiv:2310.01061), ``rmanluo/RoG-webqsp`` and ``RoG-cwq`` on the Hub:
    rows of ``id``, ``question``, ``answer``, ``q_entity``, ``a_entity`` and ``graph``, the triples
    around the question.

What solves a question (the inferential chain, the SPARQL query) is not read: systems are given the
question, and the topic where the rows name it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

from rulerag.errors import DataError, DataFormatError
from rulerag.kg import Calendar, FactTable, KnowledgeGraph, Verbalizer, Vocabulary
from rulerag.kg.labels import LabelCandidates, entity_candidates, make_labels, relation_candidates
from rulerag.ruleqa.formats.records import (
    BenchmarkContents,
    Row,
    list_of,
    read_splits,
    text_of,
)
from rulerag.ruleqa.questions import graph_labels
from rulerag.types import Query

Triple = tuple[str, str, str]
QueryTopics = tuple[Query, list[str]]
"""A question and the names or ids of its topics."""
_MID = re.compile(r"[mg]\.[0-9a-z_]+")
_NO_ANSWER = "questions without an answer"


def read_rog(files: Sequence[Path]) -> BenchmarkContents:
    """RoG's rows: the corpus states the triples of all questions, each once.

    Published systems search the triples of one question; here a search is among those of all.

    Raises:
        DataFormatError: a row cannot be read; names file, line and key.
    """
    contents = BenchmarkContents()
    triples: dict[Triple, None] = {}

    def make(row: Row) -> QueryTopics:
        for triple in list_of(row, "graph", list):
            if len(triple) != 3 or not all(isinstance(name, str) and name for name in triple):
                raise DataFormatError(
                    f"expected [subject, relation, object], found {triple!r}", key="graph"
                )
            triples[triple[0], triple[1], triple[2]] = None
        answers = tuple(dict.fromkeys(list_of(row, "answer", str)))
        topics = list_of(row, "q_entity", str)
        return Query(text_of(row, "id"), text_of(row, "question"), answers=answers), topics

    asked = _questions(files, make, contents)
    _fill_in(contents, asked, _graph(triples, {}))
    return contents


def read_originals(files: Sequence[Path], graph: Path | None) -> BenchmarkContents:
    """The published questions of WebQSP or CWQ, over a graph that lies beside them.

    The answers of a question are those of all of its parses, its topic is that of the first; an
    alias of an answer is as good as the answer. CWQ names no topics.

    Args:
        files: the files of questions.
        graph: a file or a folder of triples, as :meth:`rulerag.KnowledgeGraph.load` reads it;
            entities by their Freebase ids (``m.03_r3``).

    Raises:
        DataError: there is no graph.
        DataFormatError: a row cannot be read; names file, line and key.
    """
    if graph is None:
        raise DataError(
            "holds questions about Freebase without its triples",
            path=files[0],
            hint="put them into the same folder, as a file or a folder `graph` (graph.tsv: "
            "subject, relation, object); or take RoG's rows, which hold them",
        )
    contents, names = BenchmarkContents(), dict[str, str]()

    def make(row: Row) -> QueryTopics:
        return _webqsp(row, names) if "Parses" in row else _cwq(row, names)

    asked = _questions(files, make, contents)
    loaded = _load(graph)
    triples = ((_mid(s), _mid(r), _mid(o)) for s, r, o, _ in loaded.train)
    words = zip(loaded.entities.names, loaded.entities.labels, strict=True)
    labels = {_mid(n): label for n, label in words if label not in (n, *entity_candidates(n))}
    _fill_in(contents, asked, _graph(dict.fromkeys(triples), {**labels, **names}))
    return contents


def _load(graph: Path) -> KnowledgeGraph:
    try:
        return KnowledgeGraph.load(graph)
    except DataFormatError as error:
        if error.key != "columns":
            raise
        return KnowledgeGraph.load(graph, columns="hrt")  # ids do not show where the relation is


def _questions(
    files: Sequence[Path], make: Callable[[Row], QueryTopics], contents: BenchmarkContents
) -> dict[str, list[QueryTopics]]:
    """The questions of each split that have an answer, each with its topics."""
    asked: dict[str, list[QueryTopics]] = {}
    for split, rows in read_splits(files, make).items():
        asked[split] = [(query, topics) for query, topics in rows if query.answers]
        contents.left_out[_NO_ANSWER] += len(rows) - len(asked[split])
    return asked


def _fill_in(
    contents: BenchmarkContents, asked: dict[str, list[QueryTopics]], graph: KnowledgeGraph
) -> None:
    """Fill in the corpus, and the queries with the first of their topics that the graph knows."""
    contents.documents = Verbalizer(graph).corpus(graph.train)
    contents.labels = graph_labels(graph)
    for split, rows in asked.items():
        contents.queries[split] = []
        for query, topics in rows:
            known = [topic for topic in topics if topic in graph.entities]
            if topics and not known:
                contents.left_out["topics that no triple names"] += 1
            subject = known[0] if known else ""
            contents.queries[split].append(
                Query(query.id, query.text, subject, answers=query.answers)
            )


def _graph(triples: Iterable[Triple], names: dict[str, str]) -> KnowledgeGraph:
    """The graph of triples; ``names`` are those of entities by their ids."""
    facts = list(triples)
    entities = list(dict.fromkeys(end for s, _, o in facts for end in (s, o)))
    relations = list(dict.fromkeys(relation for _, relation, _ in facts))
    given: dict[str, LabelCandidates] = {
        one: (names[one], f"{names[one]} ({one})") for one in entities if one in names
    }
    # sports.sports_team.sport is a path of Freebase as /sports/sports_team/sport is.
    paths = {
        one: relation_candidates("/" + one.replace(".", "/")) for one in relations if "." in one
    }
    kinds = (
        Vocabulary(entities, make_labels(entities, _labels_of, given)),
        Vocabulary(relations, make_labels(relations, relation_candidates, paths)),
    )
    ids = [{name: n for n, name in enumerate(one.names)} for one in kinds]
    rows = [(ids[0][s], ids[1][r], ids[0][o]) for s, r, o in facts]
    table = FactTable.of(np.array(rows, np.int32).reshape(-1, 3), *kinds, Calendar(), "train")
    return KnowledgeGraph(*kinds, {"train": table})


def _labels_of(name: str) -> LabelCandidates:
    """An id is no words: its underscore stays."""
    return (name,) if _MID.fullmatch(name) else entity_candidates(name)


def _webqsp(row: Row, names: dict[str, str]) -> QueryTopics:
    answers: dict[str, None] = {}
    topics = []
    for parse in list_of(row, "Parses", dict):
        if parse.get("TopicEntityMid"):
            topic = _mid(text_of(parse, "TopicEntityMid"))
            topics.append(topic)
            _name(names, topic, parse.get("TopicEntityName"))
        for answer in list_of(parse, "Answers", dict):
            value = _mid(text_of(answer, "AnswerArgument"))
            _name(names, value, answer.get("EntityName"))
            answers[str(answer.get("EntityName") or value)] = None
    question = text_of(row, "RawQuestion", "ProcessedQuestion")
    return Query(text_of(row, "QuestionId"), question, answers=tuple(answers)), topics


def _cwq(row: Row, names: dict[str, str]) -> QueryTopics:
    if "answers" not in row:
        raise DataFormatError(
            "the question has no answers",
            key="answers",
            hint="the published test file has none; take the file of validation questions (dev)",
        )
    answers: dict[str, None] = {}
    for answer in list_of(row, "answers", dict):
        value = _mid(str(answer.get("answer_id") or ""))
        _name(names, value, answer.get("answer"))
        for one in (answer.get("answer") or value, *list_of(answer, "aliases", str)):
            if one:
                answers[str(one)] = None
    return Query(text_of(row, "ID"), text_of(row, "question"), answers=tuple(answers)), []


def _name(names: dict[str, str], mid: str, name: object) -> None:
    if isinstance(name, str) and name and name != mid:
        names.setdefault(mid, name)


def _mid(name: str) -> str:
    """A Freebase id without the address in front of it."""
    return name.removeprefix("http://rdf.freebase.com/ns/").removeprefix("ns:")
