from __future__ import annotations

from collections.abc import Callable

import pytest

from rulerag.errors import ConfigError, EmptyCompletionError, PredicateError, SamplingError
from rulerag.explanation.probing.cache import AnswerCache, CachedGenerator
from rulerag.explanation.probing.engine import ProbeEngine
from rulerag.explanation.probing.predicates import judged, predicate_of
from rulerag.explanation.search.exact import MonoMiner
from rulerag.types import Completion
from tests.fakes import PlantedFunction


class Judge:
    """A generator that replies by a function of the prompt."""

    fingerprint = "judge"

    def __init__(self, reply: Callable[[str], str]) -> None:
        self.reply = reply
        self.prompts: list[str] = []
        self.calls = 0

    def generate(self, requests):  # type: ignore[no-untyped-def]
        self.calls += 1
        self.prompts += [request.query.text for request in requests]
        return [Completion(self.reply(request.query.text)) for request in requests]


def test_a_judge_answers_for_whole_batches() -> None:
    judge = Judge(lambda prompt: "Yes." if "Rome" in prompt else "no, it is not")
    predicate = judged(judge, "Is {output} {what}?", what="in Italy {here}", holds="Italian")
    assert predicate("Rome") and not predicate("Paris") and (~predicate)("Paris")
    assert str(predicate) == "Italian" and judge.prompts[0] == "Is Rome in Italy {here}?"
    judge.calls = 0
    outputs = ["Rome", "Paris", "Rome", "Rome, Italy"]
    engine = ProbeEngine.from_function(PlantedFunction(outputs), num_sources=2)
    assert MonoMiner("retention").mine(engine, predicate).minimal == {frozenset({1})}
    assert judge.calls == 2  # one for each of two levels; a known output is not judged again
    assert (~predicate).many(outputs) == [False, True, False, False]


def test_verdicts_may_be_kept_on_disk(tmp_path) -> None:  # type: ignore[no-untyped-def]
    cache = AnswerCache(tmp_path / "verdicts.sqlite")
    for _ in range(2):
        judge = CachedGenerator(Judge(lambda prompt: "true"), cache)
        assert judged(judge, "{output}?")("Rome")
    assert judge.num_asked == 0 and judge.num_known == 1


@pytest.mark.parametrize("reply", ["", " \n"])
def test_no_reply_is_no_verdict(reply: str) -> None:
    engine = ProbeEngine.from_function(PlantedFunction(["Rome"] * 2), num_sources=1)
    for unclear in (None, False):
        predicate = judged(Judge(lambda prompt: reply), "{output}?", unclear=unclear)
        with pytest.raises(EmptyCompletionError, match="said nothing about the output 'Rome'"):
            MonoMiner("retention").mine(engine, predicate)


def test_a_judge_that_samples_is_refused() -> None:
    sampling = Judge(lambda prompt: "yes")
    sampling.temperature = 0.7  # type: ignore[attr-defined]
    with pytest.raises(SamplingError, match=r"temperature 0\.7"):
        judged(sampling, "{output}?")


@pytest.mark.parametrize("reply", ["maybe", "I think yes"])
def test_an_unclear_verdict_is_an_error_unless_it_counts_as_something(reply: str) -> None:
    predicate = judged(Judge(lambda prompt: reply), "{output}?")
    engine = ProbeEngine.from_function(PlantedFunction(["Rome"] * 2), num_sources=1)
    with pytest.raises(PredicateError, match=r"neither yes nor no, about the output 'Rome'"):
        MonoMiner("retention").mine(engine, predicate)
    assert not judged(Judge(lambda prompt: reply), "{output}?", unclear=False)("Rome")


def test_a_judge_that_fails_is_named() -> None:
    engine = ProbeEngine.from_function(PlantedFunction(["Rome"] * 2), num_sources=1)
    broken = judged(Judge(lambda prompt: str(1 / 0)), "{output}?")
    with pytest.raises(PredicateError, match=r"ZeroDivisionError.*the first 'Rome'"):
        MonoMiner("retention").mine(engine, broken)

    class Short:
        def __call__(self, output: str) -> bool:
            return True

        def many(self, outputs: list[str]) -> list[bool]:
            return []

    with pytest.raises(PredicateError, match="0 verdicts on 1 outputs"):
        MonoMiner("retention").mine(engine, Short())
    with pytest.raises(ConfigError, match=r"does not contain \{output\}"):
        judged(Judge(str), "yes or no?")
    with pytest.raises(ConfigError, match="names mood"):
        judged(Judge(str), "Is {output} {mood}?")


@pytest.mark.parametrize(
    ("word", "holds", "fails"),
    [
        ("answer", "rome.", "Paris"),
        ("exact", "Rome", "rome"),
        ("correct", "Roma", "Rome"),
        ("contains:ita", "in Ita", "Italy"),
        ("regex:^R", "Rome", "in Rome"),
        ("abstains", "", "Rome"),
        ("not answer", "Paris", "Rome"),
    ],
)
def test_predicates_by_one_word(word: str, holds: str, fails: str) -> None:
    predicate = predicate_of(word, answer="Rome", answers=["Roma"])
    assert predicate(holds) and not predicate(fails)
    assert (~predicate)(fails) and not (~predicate)(holds)


@pytest.mark.parametrize(
    ("word", "message"),
    [("corect", "did you mean 'correct'"), ("contains", "contains:TEXT"), ("correct", "at least")],
)
def test_bad_words_are_refused(word: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        predicate_of(word)
