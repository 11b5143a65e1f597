"""Ten thousand probes at a local server, every answer checked to be its own; how cancelling ends.

``python -m benchmarks.models.load --out benchmarks/results/models``. The server is a
process of its own, speaks HTTP/1.1 as OpenAI's, takes some time for each call and answers with the
digest of the prompt, so that no answer can be taken for another's. Nothing is tried again: a call
that fails is a loss.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import multiprocessing
import random
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from rulerag import Document, GenerationRequest, OpenAICompatibleGenerator, Query
from rulerag.console import guarded
from rulerag.evaluation import markdown_table
from rulerag.explanation.explaining import Why, prepare
from rulerag.explanation.lattice import indices_of
from rulerag.explanation.probing import AskedFunction
from rulerag.explanation.units import Context
from rulerag.io import prepare_folder, write_json, write_text

_DOCUMENTS, _CANCEL_CALL, _CANCEL_AFTER = 16, 3.0, 1.0
_QUESTION = "What is it?"


# --- the server ----


class _Server:
    """Answers digests of prompts after a while, and counts."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.calls = self.at_once = self.most_at_once = 0

    async def connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Every call of one connection."""
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                lengths = [
                    int(line.partition(b":")[2])
                    for line in head.split(b"\r\n")
                    if line.lower().startswith(b"content-length:")
                ]
                body = json.loads(await reader.readexactly(lengths[0])) if lengths else {}
                writer.write(await self._answer(body))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _answer(self, body: dict[str, Any]) -> bytes:
        if body:
            self.calls += 1
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
            await asyncio.sleep(self.seconds)
            self.at_once -= 1
            message = {"role": "assistant", "content": digest(body["messages"][-1]["content"])}
            choice = {"index": 0, "finish_reason": "stop", "message": message}
            told: dict[str, Any] = {"id": "1", "object": "x", "choices": [choice]}
        else:
            told = {"calls": self.calls, "most_at_once": self.most_at_once}
        text = json.dumps(told).encode()
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(text)}"
        return head.encode() + b"\r\n\r\n" + text


def digest(prompt: str) -> str:
    """What the server answers to a prompt."""
    return hashlib.sha256(prompt.encode()).hexdigest()


def _serve(seconds: float, told: Connection) -> None:
    async def run() -> None:
        server = _Server(seconds)
        listening = await asyncio.start_server(server.connection, "127.0.0.1", 0, backlog=20_000)
        told.send(listening.sockets[0].getsockname()[1])
        await listening.serve_forever()

    asyncio.run(run())


@contextmanager
def serving(seconds: float) -> Iterator[str]:
    """A server at work, by its address; a call takes so many seconds."""
    context = multiprocessing.get_context("spawn")
    mine, its = context.Pipe()
    process = context.Process(target=_serve, args=(seconds, its), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{mine.recv()}/v1"
    finally:
        process.kill()
        process.join()


async def _posted(url: str, body: dict[str, Any] | None = None) -> Any:
    """One call with nothing between us and the socket; without a body, what the server counted."""
    place = urlsplit(url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    try:
        data = b"" if body is None else json.dumps(body).encode()
        length = "" if body is None else f"Content-Length: {len(data)}\r\n"
        head = f"POST {place.path}/chat/completions HTTP/1.1\r\nHost: {place.netloc}\r\n{length}"
        writer.write(head.encode() + b"\r\n" + data)
        answer = await reader.readuntil(b"\r\n\r\n")
        size = int(answer.lower().partition(b"content-length:")[2].split()[0])
        return json.loads(await reader.readexactly(size))
    finally:
        writer.close()


# --- probes ----


def subsets(count: int, documents: int = _DOCUMENTS) -> list[tuple[int, ...]]:
    """So many different subsets of the documents."""
    masks = random.Random(0).sample(range(1 << documents), count)
    return [tuple(map(int, indices_of(mask))) for mask in masks]


def by_generator(url: str, count: int, at_once: int) -> dict[str, float]:
    """Probes of the generator for OpenAI-compatible servers, all in one batch."""
    documents = [Document(str(n), f"Document {n}: {n * 7919}.") for n in range(_DOCUMENTS)]
    generator = OpenAICompatibleGenerator(
        url, "digest", template="open", concurrency=at_once, max_retries=0
    )
    requests = [
        GenerationRequest(Query(str(number), _QUESTION), tuple(documents[n] for n in kept))
        for number, kept in enumerate(subsets(count))
    ]
    begun = time.perf_counter()
    said = generator.generate(requests)
    seconds = time.perf_counter() - begun
    prompts = generator.prompts(requests)
    own = sum(one.text == digest(prompt.text) for one, prompt in zip(said, prompts, strict=True))
    return {"seconds": seconds, "own": own}


def by_function(url: str, count: int, at_once: int) -> dict[str, float]:
    """Probes of an async function of a user's own, as explanations ask it."""
    documents = [f"Document {n}: {n * 7919}." for n in range(_DOCUMENTS)]

    async def answer(question: str, kept: list[str]) -> str:
        prompt = "\n".join([*kept, question])
        body = {"model": "digest", "messages": [{"role": "user", "content": prompt}]}
        return str((await _posted(url, body))["choices"][0]["message"]["content"])

    asked = AskedFunction(answer, _QUESTION, Context(documents), workers=at_once)
    wanted = subsets(count)
    begun = time.perf_counter()
    said = asked(wanted)
    seconds = time.perf_counter() - begun
    prompts = ["\n".join([*(documents[n] for n in kept), _QUESTION]) for kept in wanted]
    own = sum(one == digest(prompt) for one, prompt in zip(said, prompts, strict=True))
    return {"seconds": seconds, "own": own}


def cancelled(url: str, how: str) -> dict[str, float]:
    """Seconds from cancelling an explanation until it hands back what it knows."""
    documents = [f"Document {n}: {n * 7919}." for n in range(50)]

    async def function(question: str, kept: list[str]) -> str:
        prompt = "\n".join([*kept, question])
        body = {"model": "digest", "messages": [{"role": "user", "content": prompt}]}
        return str((await _posted(url, body))["choices"][0]["message"]["content"])

    generator = OpenAICompatibleGenerator(url, "digest", template="open", max_new_tokens=99)
    why = prepare(function if how == "function" else generator, _QUESTION, documents)

    async def listen() -> float:
        events = why.stream()
        async for event in events:
            if event.kind == "answer":
                await asyncio.sleep(_CANCEL_AFTER)
                break
        begun = time.perf_counter()
        await events.aclose()  # type: ignore[attr-defined]
        return time.perf_counter() - begun

    return {"seconds": asyncio.run(listen()), "known": float(_known(why))}


def _known(why: Why) -> bool:
    return bool(why.text) and not why.explanation.complete


def run(out: Path | None, count: int, seconds: float) -> None:
    """Measure, print the tables, and write them with the figures.

    Args:
        out: the folder of ``load.json`` and ``load.md``.
        count: probes.
        seconds: that a call takes.
    """
    rows: list[dict[str, Any]] = []
    ways = ((by_generator, 256), (by_generator, count), (by_function, 256), (by_function, count))
    for way, at_once in ways:
        with serving(seconds) as url:
            found = way(url, count, at_once)
            counted = asyncio.run(_posted(url))
        row = {"way": way.__name__, "workers": at_once, "probes": count, "call": seconds}
        rows.append({**row, **found, **counted, "lost": count - found["own"]})
        sys.stderr.write(f"{rows[-1]}\n")
    ends = []
    for how in ("function", "generator"):
        with serving(_CANCEL_CALL) as url:
            ends.append({"what": how, "call": _CANCEL_CALL, **cancelled(url, how)})
            sys.stderr.write(f"{ends[-1]}\n")
    names = {"by_generator": "OpenAICompatibleGenerator", "by_function": "an async function"}
    text = markdown_table(
        ["asked by", "workers", "probes", "most at once", "lost", "seconds", "least possible, s"],
        [
            [
                names[row["way"]],
                f"{row['workers']:,}",
                f"{row['probes']:,}",
                f"{row['most_at_once']:,}",
                f"{row['lost']:.0f}",
                f"{row['seconds']:.1f}",
                f"{row['call'] * -(-row['probes'] // row['workers']):.1f}",
            ]
            for row in rows
        ],
    )
    text += "\n" + markdown_table(
        ["cancelled while it asks", "a call takes, s", "handed back after, s"],
        [[names[f"by_{e['what']}"], f"{e['call']:.0f}", f"{e['seconds']:.2f}"] for e in ends],
    )
    sys.stdout.write(text)
    if out is not None:
        write_json(prepare_folder(out) / "load.json", {"probes": rows, "cancelled": ends})
        write_text(out / "load.md", text)


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.models.load",
        description=__doc__,
        epilog="example: python -m benchmarks.models.load --probes 1000",
    )
    parser.add_argument("--out", type=Path, help="the folder of the figures")
    parser.add_argument("--probes", type=int, default=10_000, help="so many (10,000)")
    parser.add_argument("--seconds", type=float, default=1.0, help="that a call takes (1)")
    arguments = parser.parse_args(argv)
    return guarded(lambda: run(arguments.out, arguments.probes, arguments.seconds))


if __name__ == "__main__":
    sys.exit(main())
