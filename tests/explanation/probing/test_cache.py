from __future__ import annotations

import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rulerag.errors import ConfigError, DataFormatError, ExplanationError, OutputError
from rulerag.explanation.probing.cache import FORMAT, AnswerCache, CachedGenerator
from rulerag.explanation.probing.engine import ProbeEngine
from rulerag.explanation.report.explain import explain_answer
from rulerag.explanation.source_rules.exact import MonoMiner
from rulerag.generation.symbolic_reader import SymbolicReader
from rulerag.protocols import Generator
from rulerag.rules import Atom, Rule, RuleBank, RuleQuality
from rulerag.types import (
    Answer,
    Candidate,
    Completion,
    Document,
    Fact,
    GenerationRequest,
    GroundedAtom,
    Query,
    ScoredDocument,
)
from tests.fakes import PlantedGenerator, planted_rule

DOCUMENTS = tuple(Document(f"d{i}", f"Text number {i}.") for i in range(1, 5))
REQUEST = GenerationRequest(Query("q", "where is it ?"), DOCUMENTS, (planted_rule("a"),))
ROOT = Path(__file__).resolve().parents[3]


def mine(generator: Generator) -> frozenset[frozenset[int]]:
    engine = ProbeEngine.from_generator(generator, REQUEST)
    return MonoMiner("retention").mine(engine, lambda output: output == "yes").minimal


def test_a_second_run_asks_nothing(tmp_path: Path) -> None:
    path = tmp_path / "made" / "answers.sqlite"
    first = PlantedGenerator.dnf([["d1", "d2"]])
    cached = CachedGenerator(first, AnswerCache(path))
    assert isinstance(cached, Generator) and cached.fingerprint == "planted"
    rules = mine(cached)
    assert cached.num_asked == len(first.requests) > 4 and cached.num_known == 0
    second = PlantedGenerator.dnf([["d1", "d2"]])
    again = CachedGenerator(second, AnswerCache(path))
    assert mine(again) == rules == {frozenset({0, 1})}
    assert second.requests == [] and again.num_asked == 0
    assert again.num_known == cached.num_asked
    assert len(again.cache) == cached.num_asked
    with again.cache._open() as connection:  # what people look up in the file
        row = connection.execute("SELECT generator, tokens, seconds FROM answers").fetchone()
    assert row[0] == "planted" and row[1] > 0 and row[2] > 0


def test_another_model_or_prompt_has_its_own_answers(tmp_path: Path) -> None:
    cache = AnswerCache(tmp_path / "answers.sqlite")
    CachedGenerator(PlantedGenerator(lambda ids: "one"), cache).generate([REQUEST])
    other = CachedGenerator(PlantedGenerator(lambda ids: "two", fingerprint="other"), cache)
    assert other.generate([REQUEST])[0].text == "two"
    asked = GenerationRequest(Query("q", "who is it ?"), DOCUMENTS, REQUEST.rules)
    same = CachedGenerator(PlantedGenerator(lambda ids: "three"), cache)
    assert [c.text for c in same.generate([asked, REQUEST, asked])] == ["three", "one", "three"]
    assert same.num_asked == 1 and same.num_known == 1 and len(cache) == 3


def test_completions_come_back_whole(tmp_path: Path) -> None:
    grounded = (GroundedAtom("d1", "r1", 0), GroundedAtom("d1", None, 1))
    whole = Completion("Åbo", -1.5, (Candidate("Åbo", 0.5, ("d1",), ("r1", "r2"), grounded),))

    class Full(PlantedGenerator):
        def generate(self, requests):  # type: ignore[no-untyped-def]
            return [whole] * len(requests)

    cache = AnswerCache(tmp_path / "answers.sqlite")
    CachedGenerator(Full(str), cache).generate([REQUEST])
    silent = CachedGenerator(PlantedGenerator(str), cache)
    assert silent.generate([REQUEST]) == [whole] and silent.num_asked == 0


def test_a_killed_run_goes_on_where_it_stood(tmp_path: Path) -> None:
    script = f"""
import os, signal, sys
sys.path.insert(0, {str(ROOT)!r})
from rulerag.explanation.probing.cache import AnswerCache, CachedGenerator
from tests.explanation.probing.test_cache import REQUEST, mine
from tests.fakes import PlantedGenerator
inner = PlantedGenerator.dnf([[]])
answer = inner.generate
def generate(requests):
    if len(inner.requests) >= 8:
        os.kill(os.getpid(), signal.SIGKILL)
    return answer(requests)
inner.generate = generate
mine(CachedGenerator(inner, AnswerCache({str(tmp_path / "a.sqlite")!r}), batch_size=2))
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert run.returncode == -signal.SIGKILL, run.stderr
    generator = PlantedGenerator.dnf([[]])
    cached = CachedGenerator(generator, AnswerCache(tmp_path / "a.sqlite"))
    stored = len(cached.cache)
    assert 8 <= stored < 16  # whole batches, up to the one that was killed
    assert mine(cached) == {frozenset()}
    assert len(generator.requests) == cached.num_asked == 16 - stored


def _work(path: str, number: int, queue) -> None:  # type: ignore[no-untyped-def]
    cached = CachedGenerator(PlantedGenerator.dnf([["d1"]]), AnswerCache(path), batch_size=1)
    requests = [
        GenerationRequest(Query("q", f"{(i + number) % 40} ?"), DOCUMENTS) for i in range(40)
    ]
    queue.put([completion.text for completion in cached.generate(requests)])


def test_several_processes_write_at_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    path = str(tmp_path / "answers.sqlite")
    workers = [context.Process(target=_work, args=(path, 10 * i, queue)) for i in range(3)]
    for worker in workers:
        worker.start()
    results = [queue.get(timeout=60) for _ in workers]
    for worker in workers:
        worker.join(timeout=60)
        assert worker.exitcode == 0
    assert results == [["yes"] * 40] * 3
    assert len(AnswerCache(path)) == 40


def test_a_connection_is_opened_anew_after_a_fork(tmp_path: Path) -> None:
    cache = AnswerCache(tmp_path / "answers.sqlite")
    cache.store("g", [("a", Completion("1"), 1)], seconds=0.0)
    child = os.fork()
    if child == 0:
        cache.store("g", [("b", Completion("2"), 1)], seconds=0.0)
        os._exit(0 if len(cache) == 2 else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert cache.load(["a", "b"]).keys() == {"a", "b"}
    cache.close()
    assert len(cache) == 2


def test_another_format_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "answers.sqlite"
    AnswerCache(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {FORMAT + 1}")
    connection.close()
    named = rf"answers.sqlite: .*format {FORMAT + 1}.*reads {FORMAT}"
    with pytest.raises(DataFormatError, match=named):
        AnswerCache(path)
    foreign = tmp_path / "foreign.sqlite"
    with sqlite3.connect(foreign) as connection:
        connection.execute("CREATE TABLE notes (text)")
    connection.close()
    with pytest.raises(DataFormatError, match="no cache of answers"):
        AnswerCache(foreign)
    (tmp_path / "text.sqlite").write_text("not a database, but long enough to look like one\n" * 9)
    with pytest.raises(DataFormatError, match="no cache of answers"):
        AnswerCache(tmp_path / "text.sqlite")


def test_a_path_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="file"):
        AnswerCache(tmp_path / "file" / "answers.sqlite")
    with pytest.raises(OutputError, match="cannot be used"):
        AnswerCache(tmp_path)


def test_a_full_disk_is_named_and_nothing_is_lost(tmp_path: Path) -> None:
    cache = AnswerCache(tmp_path / "answers.sqlite")
    cached = CachedGenerator(PlantedGenerator(lambda ids: "x" * 5000), cache, batch_size=1)
    with cache._open() as connection:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages + 10}")  # SQLite's own full disk
    requests = [GenerationRequest(Query("q", f"{i} ?"), DOCUMENTS) for i in range(30)]
    with pytest.raises(OutputError, match=r"disk is full.*free some space"):
        cached.generate(requests)
    stored = len(cache)
    assert 0 < stored < 30
    cache.close()
    again = CachedGenerator(PlantedGenerator(lambda ids: "x" * 5000), cache)
    again.generate(requests)
    assert again.num_asked == 30 - stored and len(cache) == 30


def test_a_generator_that_answers_too_little_is_named(tmp_path: Path) -> None:
    class Short(PlantedGenerator):
        def generate(self, requests):  # type: ignore[no-untyped-def]
            return super().generate(requests)[1:]

    cached = CachedGenerator(Short.dnf([[]]), AnswerCache(tmp_path / "answers.sqlite"))
    with pytest.raises(ExplanationError, match="0 completions for 1 requests"):
        cached.generate([REQUEST])
    assert len(cached.cache) == 0
    with pytest.raises(ConfigError, match="key 'batch_size'"):
        CachedGenerator(PlantedGenerator(str), cached.cache, batch_size=0)


def test_requests_that_begin_alike_are_asked_together(tmp_path: Path) -> None:
    generator = PlantedGenerator(lambda ids: "+".join(sorted(ids)))
    cached = CachedGenerator(generator, AnswerCache(tmp_path / "answers.sqlite"), batch_size=4)
    engine = ProbeEngine.from_generator(cached, REQUEST)
    outputs = engine.probe(range(16))
    assert outputs[0b0101] == "d1+d3" and outputs[0b1111] == "d1+d2+d3+d4"
    first = [[d.id for d in request.documents][:1] for request in generator.requests]
    assert first == sorted(first) and generator.batches == [4] * 4


def test_a_cache_with_the_keys_of_old_is_refused_by_name(tmp_path: Path) -> None:
    """Format 1, as written until its keys were found to leave out what readers read."""
    path = tmp_path / "old.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute(
            "CREATE TABLE answers (key TEXT PRIMARY KEY, generator TEXT NOT NULL, completion TEXT"
            " NOT NULL, tokens INTEGER NOT NULL, seconds REAL NOT NULL) WITHOUT ROWID"
        )
        connection.execute("PRAGMA application_id = 1381122375")
        connection.execute("PRAGMA user_version = 1")
    connection.close()
    with pytest.raises(DataFormatError, match=r"format 1, .* name another file, or delete"):
        AnswerCache(path)


def test_threads_that_share_a_cached_generator_ask_each_request_once(tmp_path: Path) -> None:
    class Slow(PlantedGenerator):
        def generate(self, requests):  # type: ignore[no-untyped-def]
            time.sleep(0.01)
            return super().generate(requests)

    inner = Slow.dnf([["d1"]])
    cached = CachedGenerator(inner, AnswerCache(tmp_path / "answers.sqlite"), batch_size=4)
    asked = [GenerationRequest(Query("q", f"{i} ?"), DOCUMENTS) for i in range(32)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: cached.generate(asked), range(4)))
    assert [[c.text for c in one] for one in found] == [["yes"] * 32] * 4
    assert len(inner.requests) == cached.num_asked == len(cached.cache) == 32
    assert cached.num_known == 3 * 32


def test_a_bank_mined_again_gives_no_stale_explanation(tmp_path: Path) -> None:
    """The same rules with other counts: the reader weighs them anew, and the cache stays silent."""

    def bank(name: str, first: float, second: float) -> RuleBank:
        path = tmp_path / name
        rules = [
            Rule(Atom("visit", "?x", "?y"), (Atom(body, "?x", "?y"),), quality=quality)
            for body, share in (("host", first), ("praise", second))
            for quality in [RuleQuality(support=int(100 * share), body_size=100, confidence=share)]
        ]
        RuleBank(rules).save(path)
        return RuleBank.load(path)

    facts = [Fact("Japan", "host", "China"), Fact("Japan", "praise", "Peru")]
    documents = tuple(
        Document(f"d{n}", f"{f.subject} {f.relation} {f.object}.", (f,))
        for n, f in enumerate(facts, start=1)
    )

    def told(rules: RuleBank, cache: AnswerCache | None) -> tuple[str, object, object]:
        reader = SymbolicReader()
        query = Query("q", "what does Japan visit ?", "Japan", "visit", answers=("China",))
        completion = reader.generate([GenerationRequest(query, documents, tuple(rules))])[0]
        scored = tuple(ScoredDocument(d, 1.0, n) for n, d in enumerate(documents, start=1))
        answer = Answer(query, completion, scored, tuple(rules))
        why = explain_answer(answer, reader, cache=cache)
        return completion.text, why.retention, why.omission

    cache = AnswerCache(tmp_path / "answers.sqlite")
    before = told(bank("rules.jsonl", 0.9, 0.2), cache)
    stored = len(cache)
    after = told(bank("rules.jsonl", 0.2, 0.9), cache)
    assert (before[0], after[0]) == ("China", "Peru")
    assert after == told(bank("rules.jsonl", 0.2, 0.9), None) != before
    # Without documents too: the reader is given the rules all the same.
    assert len(cache) == 2 * stored
