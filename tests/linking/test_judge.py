"""A language model weighs what a question may mean, and can choose nothing else."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from rulerag.cli import main
from rulerag.errors import ConfigError
from rulerag.linking import LinkedExample, QuestionLinker, weighed
from rulerag.ruleqa import RuleQADataset
from rulerag.types import GenerationRequest

EMPLOYED = "Where is Dora Lenz employed?"


class Employer:
    """A model to which questions about employment sound like hiring."""

    fingerprint = "employer"

    def __init__(self, word: str = "hired") -> None:
        self.word = word
        self.asked: list[tuple[str, str]] = []

    def score(
        self, requests: Sequence[GenerationRequest], answers: Sequence[str], *, literal: bool
    ) -> np.ndarray:
        assert literal
        self.asked += [(r.query.text, a) for r, a in zip(requests, answers, strict=True)]
        return np.array(
            [
                -50.0 + 49.0 * ("employed" in r.query.text and self.word in a)
                for r, a in zip(requests, answers, strict=True)
            ]
        )


def best(linker: QuestionLinker, text: str) -> str:
    (found,) = linker.link([text])
    assert sum(one.probability for one in found.readings) <= 1 + 1e-9
    return found.readings[0].query.relation


def test_the_model_decides_what_words_leave_open(people: RuleQADataset) -> None:
    for word, relation in (("hired", "hired_by"), ("lives", "lives_in")):
        linker = QuestionLinker(people, language_model=Employer(word))  # type: ignore[arg-type]
        assert best(linker, EMPLOYED).removeprefix("^") == relation
    plain, model = QuestionLinker(people), Employer()
    judged = plain.with_language_model(model)  # type: ignore[arg-type]
    assert judged.fingerprint != plain.fingerprint
    assert best(plain, EMPLOYED) == best(QuestionLinker(people), EMPLOYED)
    best(judged, EMPLOYED)
    assert ("The question asks this:", " Dora Lenz is hired by something.") in model.asked


def test_what_has_one_meaning_is_not_asked(people: RuleQADataset) -> None:
    model = Employer()
    linker = QuestionLinker(people, language_model=model)  # type: ignore[arg-type]
    assert best(linker, "Time 2020-01-05 what does Dora Lenz hired by ?") == "hired_by"
    assert not linker.link(["Who knows Zxqwv?"])[0].readings
    taught = QuestionLinker(
        people,
        examples=[LinkedExample("Who hired Ann?", "Ann", "hired_by")],
        language_model=model,  # type: ignore[arg-type]
    )
    taught.link([EMPLOYED])
    assert not model.asked


def test_readings_share_what_they_had(people: RuleQADataset) -> None:
    readings = QuestionLinker(people).link([EMPLOYED])[0].readings
    assert len(readings) > 3
    same = weighed(readings, [2.5] * 3, 0.5)
    assert [r.query for r in same] == [r.query for r in readings]
    assert [r.probability for r in same] == pytest.approx([r.probability for r in readings])
    turned = weighed(readings, [0.0, 0.0, 90.0], 1.0)
    assert turned[0].query == readings[2].query
    assert sum(r.probability for r in turned) == pytest.approx(sum(r.probability for r in readings))


def test_a_model_that_cannot_score_is_refused(
    people: RuleQADataset, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ConfigError, match="cannot score statements"):
        QuestionLinker(people, language_model=object())  # type: ignore[arg-type]
    with pytest.raises(SystemExit, match="2"):
        main(["answer", "Who is it?", "--language-model", "smollm2-135m-instruct"])
    assert "what a question about a dataset may mean" in capsys.readouterr().err
