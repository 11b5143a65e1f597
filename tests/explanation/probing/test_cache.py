from __future__ import annotations

import multiprocessing
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from rulerag.errors import (
    ConfigError,
    DataFormatError,
    EndpointChangedError,
    ExplanationError,
    OutputError,
)
from rulerag.explanation.probing.cache import AnswerCache, CachedGenerator
from rulerag.explanation.probing.engine import ProbeEngine
from rulerag.protocols import Arrival, Generator
from rulerag.types import Candidate, Completion, Document, GenerationRequest, GroundedAtom, Query
from tests.fakes import PlantedGenerator, planted_rule

DOCUMENTS = tuple(Document(f"d{i}", f"Text number {i}.") for i in range(1, 5))
REQUEST = GenerationRequest(Query("q", "where is it ?"), DOCUMENTS, (planted_rule("a"),))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "made" / "answers.sqlite"


def questions(numbers: Iterable[int]) -> list[GenerationRequest]:
    return [GenerationRequest(Query("q", f"{n} ?"), DOCUMENTS) for n in numbers]


def test_a_second_run_asks_nothing_and_another_model_or_prompt_all(path: Path) -> None:
    def cached(say: str, fingerprint: str = "planted") -> CachedGenerator:
        generator = PlantedGenerator(lambda ids: say, fingerprint=fingerprint)
        return CachedGenerator(generator, AnswerCache(path))

    first, second, other = cached("one"), cached("two"), cached("three", "other")
    assert isinstance(first, Generator) and first.fingerprint == "planted"
    for asked in (first, second):
        assert ProbeEngine.from_generator(asked, REQUEST).probe(range(16)) == ["one"] * 16
    assert (first.num_asked, first.num_known, len(first.cache)) == (16, 0, 16)
    assert (second.num_asked, second.num_known) == (0, 16) and not second.generator.requests
    (rule,) = REQUEST.rules
    counted = replace(rule, quality=replace(rule.quality, support=1))  # of a bank mined again
    again = replace(REQUEST, rules=(counted,))
    found = second.generate([again, REQUEST, *questions([1]), again])
    assert [completion.text for completion in found] == ["two", "one", "two", "two"]
    assert second.num_asked == 2 and second.num_known == 16 + 1 and len(second.cache) == 18
    assert other.generate([REQUEST])[0].text == "three"


def test_completions_come_back_whole_and_the_first_one_stays(path: Path) -> None:
    grounded = (GroundedAtom("d1", "r1", 0), GroundedAtom("d1", None, 1))
    candidates = (Candidate("Åbo", 0.5, ("d1",), ("r1", "r2"), grounded), Candidate("b", 0.0))
    whole = Completion("Åbo\n", -float("inf"), candidates)
    cache = AnswerCache(path)
    cache.store("g", [("key", whole, ""), ("key", Completion("none"), "fp_2")])
    cache.store("g", [("key", Completion("later"), "")])
    assert cache.load(["key", "other"]) == {"key": whole}
    assert cache.load(["key"], "fp_2") == {"key": Completion("none")}
    assert cache.load(["key"], None) == {}
    assert cache.system("g") == "" and cache.system("h") is None


def asked_once(path: Path, number: int) -> list[str]:
    cached = CachedGenerator(PlantedGenerator.dnf([["d1"]]), AnswerCache(path), batch_size=1)
    found = cached.generate(questions((i + number) % 40 for i in range(40)))
    return [completion.text for completion in found]


def test_several_processes_write_at_once(path: Path) -> None:
    with ProcessPoolExecutor(3, mp_context=multiprocessing.get_context("spawn")) as pool:
        found = list(pool.map(asked_once, [path] * 3, (0, 10, 20)))
    assert found == [["yes"] * 40] * 3 and len(AnswerCache(path)) == 40


def test_threads_that_share_a_cached_generator_ask_each_request_once(path: Path) -> None:
    def slow(ids: frozenset[str]) -> str:
        time.sleep(0.001)
        return "yes"

    cached = CachedGenerator(PlantedGenerator(slow), AnswerCache(path), batch_size=4)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: cached.generate(questions(range(32))), range(4)))
    assert [[c.text for c in one] for one in found] == [["yes"] * 32] * 4
    assert (cached.num_asked, cached.num_known, len(cached.cache)) == (32, 3 * 32, 32)


def test_a_connection_is_opened_anew_after_a_fork_or_a_close(path: Path) -> None:
    cache = AnswerCache(path)
    cache.store("g", [("a", Completion("1"), "")])
    child = os.fork()
    if child == 0:
        cache.store("g", [("b", Completion("2"), "")])
        os._exit(0 if len(cache) == 2 else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert cache.load(["a", "b"]).keys() == {"a", "b"}
    cache.close()
    assert list(path.parent.iterdir()) == [path], "a closed cache is one file"
    assert len(cache) == 2


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("DROP TABLE answers; DROP TABLE systems; CREATE TABLE notes (text)", "other tables"),
        ("DROP TABLE systems; CREATE TABLE systems (generator PRIMARY KEY, system)", "other table"),
        ("CREATE TRIGGER t AFTER INSERT ON answers BEGIN DELETE FROM answers; END", "other tables"),
        ("UPDATE answers SET completion = '{'", "1 validation error"),
        ("UPDATE answers SET completion = X'80049503'", "1 validation error"),
    ],
)
def test_another_format_is_refused_by_name(path: Path, change: str, reason: str) -> None:
    cache = AnswerCache(path)
    cache.store("g", [("a", Completion("1"), "")])
    cache.close()
    connection = sqlite3.connect(path)
    connection.executescript(change)
    connection.close()
    before = path.read_bytes()
    with pytest.raises(DataFormatError, match=rf"answers.sqlite: .*no cache .*{reason}.* — name"):
        AnswerCache(path).load(["a"])
    assert path.read_bytes() == before


def test_places_that_cannot_be_a_cache_are_named(tmp_path: Path) -> None:
    text = tmp_path / "text.sqlite"
    text.write_text("not a database, but long enough to look like one\n" * 9)
    with pytest.raises(DataFormatError, match=r"no cache .*not a database"):
        AnswerCache(text)
    for place in (text / "answers.sqlite", tmp_path):
        with pytest.raises(OutputError, match=rf"{place.name}: .*cannot be used"):
            AnswerCache(place)


def test_a_full_disk_is_named_and_nothing_is_lost(path: Path) -> None:
    cache = AnswerCache(path)
    cached = CachedGenerator(PlantedGenerator(lambda ids: "x" * 5000), cache, batch_size=1)
    with cache._open() as connection:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages + 10}")  # SQLite's own full disk
    with pytest.raises(OutputError, match=r"disk is full.*free some space"):
        cached.generate(questions(range(30)))
    stored = len(cache)
    assert 0 < stored < 30
    cache.close()
    cached.generate(questions(range(30)))
    assert (cached.num_asked, cached.num_known, len(cache)) == (30, stored, 30)


def test_too_few_answers_or_too_small_a_batch_are_named(path: Path) -> None:
    cached = CachedGenerator(PlantedGenerator(str), AnswerCache(path))
    cached.generator.generate = lambda requests: []
    with pytest.raises(ExplanationError, match="0 completions for 1 requests"):
        cached.generate([REQUEST])
    assert len(cached.cache) == 0
    with pytest.raises(ConfigError, match="key 'batch_size'"):
        CachedGenerator(cached, cached.cache, batch_size=0)


def test_requests_that_begin_alike_are_asked_together(path: Path) -> None:
    generator = PlantedGenerator(lambda ids: "+".join(sorted(ids)))
    cached = CachedGenerator(generator, AnswerCache(path), batch_size=4)
    outputs = ProbeEngine.from_generator(cached, REQUEST).probe(range(16))
    assert outputs[0b0101] == "d1+d3" and outputs[0b1111] == "d1+d2+d3+d4"
    first = [[d.id for d in request.documents][:1] for request in generator.requests]
    assert first == sorted(first) and generator.batches == [4] * 4


class Turning(PlantedGenerator):
    """Each answer is given by the next of some builds."""

    builds: Iterator[str]

    def stream(self, requests: Sequence[GenerationRequest]) -> Iterator[Arrival]:
        for place, completion in enumerate(self.generate(requests)):
            yield Arrival(place, completion, next(self.builds))


@pytest.mark.parametrize(
    ("settled", "builds", "system"),
    [
        (True, "B" * 2, None),
        (True, "AB" + 8 * "B" + "A", "A"),
        (True, "AB" + 9 * "B", None),
        (False, "BB", "B"),
        (False, "AB" + 9 * "B" + "B", "B"),
        (False, "AB" + 9 * "B" + 8 * "A" + "B", "B"),
        (False, "AB" + 9 * "B" + 9 * "A", None),
    ],
)
def test_builds_that_take_turns(path: Path, settled: bool, builds: str, system: str | None) -> None:
    """Of two requests, after one that A answered to this object, or to another one before."""
    generator = Turning(lambda ids: "yes")
    generator.builds = iter("A" + builds)
    cached = CachedGenerator(generator, AnswerCache(path))
    cached.generate(questions([0]))
    if not settled:
        cached = CachedGenerator(generator, cached.cache)
    with nullcontext() if system else pytest.raises(EndpointChangedError, match=r"did as '[AB]'"):
        cached.generate(questions([1, 2]))
    assert cached.system_fingerprint == (system or ("A" if settled else ""))
    assert next(generator.builds, "") == "", "asked as often as that"
