"""Connections to endpoints that others name: to allowed addresses alone, answers of bounded size.

Who may name an address may otherwise have this machine call what only this machine reaches, or
fill its memory (server-side request forgery, CWE-918).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from functools import cache
from typing import Any

Resolve = Callable[[str, int], str]
"""From a host and a port to the address that is called; raises what says why it may not be."""

_MOST_BYTES = 16 * 2**20


def clients(resolve: Resolve, verify: Any) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """What makes clients that call one at a time, and side by side.

    Args:
        resolve: where calls may go.
        verify: whom to trust.
    """
    import httpx2

    one, many = _transports()
    options: dict[str, Any] = {"follow_redirects": False}
    return (
        lambda: httpx2.Client(transport=one(resolve, verify), **options),
        lambda: httpx2.AsyncClient(transport=many(resolve, verify), **options),
    )


@cache
def _transports() -> tuple[Any, Any]:
    import httpx2

    class Answer(httpx2.SyncByteStream, httpx2.AsyncByteStream):
        def __init__(self, stream: Any) -> None:
            self._stream, self._seen = stream, 0

        def _counted(self, piece: bytes) -> bytes:
            self._seen += len(piece)
            if self._seen > _MOST_BYTES:
                raise httpx2.ReadError(f"the answer is longer than {_MOST_BYTES:,} bytes")
            return piece

        def __iter__(self) -> Iterator[bytes]:
            return map(self._counted, self._stream)

        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for piece in self._stream:
                yield self._counted(piece)

        def close(self) -> None:
            self._stream.close()

        async def aclose(self) -> None:
            await self._stream.aclose()

    def aim(request: Any, resolve: Resolve) -> None:
        """Send a request to the address that its host was resolved to, under its own name."""
        url = request.url
        request.extensions = {**request.extensions, "sni_hostname": url.host}
        port = url.port or {"http": 80, "https": 443}[url.scheme]
        request.url = url.copy_with(host=resolve(url.host, port))

    class Calls(httpx2.HTTPTransport):
        def __init__(self, resolve: Resolve, verify: Any) -> None:
            super().__init__(verify=verify)
            self._resolve = resolve

        def handle_request(self, request: httpx2.Request) -> httpx2.Response:
            aim(request, self._resolve)
            response = super().handle_request(request)
            response.stream = Answer(response.stream)
            return response

    class AsyncCalls(httpx2.AsyncHTTPTransport):
        def __init__(self, resolve: Resolve, verify: Any) -> None:
            super().__init__(verify=verify)
            self._resolve = resolve

        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            aim(request, self._resolve)
            response = await super().handle_async_request(request)
            response.stream = Answer(response.stream)
            return response

    return Calls, AsyncCalls
