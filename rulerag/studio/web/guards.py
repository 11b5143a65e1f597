"""What stands before every request: host, origin, token, size, and the headers of every answer.

A studio on this machine is reached by every page that its browser shows; what keeps other pages
out is said here once, for HTTP and WebSocket alike.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_SAFE = {"GET", "HEAD", "OPTIONS"}
_OPEN = ("/health", "/docs", "/openapi.json")  # the first for others, too
_SLOWEST = 30.0  # seconds that a body may take
_COOKIE, _VISITOR = "rulerag-studio-token", "rulerag-studio-visitor"
_FLAGS = "Path=/; HttpOnly; SameSite=Strict"
# Pages are drawn by Vue, which compiles its templates in the browser: it needs eval and inline
# scripts. No text of a source or an answer is ever part of a template or a script.
_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:; "
    "connect-src 'self'; object-src 'none'; base-uri 'self'; form-action 'self'; "
    "frame-ancestors 'none'"
)
_HEADERS = {
    b"content-security-policy": _POLICY.encode(),
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-resource-policy": b"same-origin",
    b"cross-origin-opener-policy": b"same-origin",
}


def is_loopback(host: str) -> bool:
    """Whether a host name or address is this machine's own."""
    name = host.strip("[]")
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


class Guards:
    """An ASGI application behind its checks.

    Args:
        app: the application.
        local: it is bound to this machine: only names of this machine are answered, so that no
            name of another site can be made to point here (DNS rebinding).
        token: what a request has to bring, as ``Authorization: Bearer``, as a cookie, or once as
            ``?token=``; None for none.
        most: bytes of a request.
    """

    def __init__(self, app: Any, *, local: bool, token: str | None, most: int) -> None:
        self._app, self._local, self._token, self._most = app, local, token, most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        asked = HTTPConnection(scope)
        visitor, cookie = asked.cookies.get(_VISITOR, ""), ""
        if not visitor:
            visitor = secrets.token_urlsafe(16)
            cookie = f"{_VISITOR}={visitor}; {_FLAGS}; Max-Age=31536000"
        scope.setdefault("state", {})["visitor"] = visitor
        refused = self._refusal(asked)
        if refused is not None:
            await _refuse(scope, receive, send, *refused)
        elif scope["type"] == "websocket":
            await self._app(scope, receive, send)
        elif self._token and asked.query_params.get("token") and scope["method"] == "GET":
            await self._remember(asked, send)
        else:
            await self._app(scope, _limited(receive, self._most), _with_headers(send, cookie))

    def _refusal(self, asked: HTTPConnection) -> tuple[int, str] | None:
        headers, scope = asked.headers, asked.scope
        host = headers.get("host", "")
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return 400, "the request names no host"
        if self._local and not is_loopback(name):
            return 421, "this studio answers to names of its own machine alone"
        changing = scope["type"] == "websocket" or scope["method"] not in _SAFE
        # What pages show is no secret of a page that cannot read it; data and messages are.
        asking = changing or scope["path"].startswith(("/api/", "/mcp", "/_nicegui_ws"))
        origin = headers.get("origin")
        if asking and origin is not None and origin.partition("://")[2] != host:
            return 403, "the request comes from another site"
        if asking and headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
            return 403, "the request comes from another site"
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > self._most:
            return 413, f"at most {self._most:,} bytes"
        if self._token is not None and scope["path"] not in _OPEN[: 3 if self._local else 1]:
            kind, _, value = headers.get("authorization", "").partition(" ")
            brought = value.strip() if kind.lower() == "bearer" else ""
            brought = brought or asked.query_params.get("token", "")
            brought = brought or asked.cookies.get(_COOKIE, "")
            if not hmac.compare_digest(brought.encode(), self._token.encode()):
                return 401, "a token is needed: the one that `rulerag studio` printed"
        return None

    async def _remember(self, asked: HTTPConnection, send: Send) -> None:
        """Move the token from the address, which histories keep, into a cookie."""
        query = asked.query_params.multi_items()
        rest = urlencode([(name, value) for name, value in query if name != "token"])
        # Quoted, so that neither a line break nor a backslash leads elsewhere.
        place = "/" + quote(asked.scope["path"].lstrip("/")) + (f"?{rest}" if rest else "")
        cookie = f"{_COOKIE}={self._token}; {_FLAGS}"
        lines = [(b"location", place.encode()), (b"set-cookie", cookie.encode())]
        await send({"type": "http.response.start", "status": 303, "headers": lines})
        await send({"type": "http.response.body", "body": b""})


def _limited(receive: Receive, most: int) -> Receive:
    """Bodies that do not say how long they are end at the limit, and slow ones after a while."""
    seen, ended = 0, False
    loop = asyncio.get_running_loop()
    until = loop.time() + _SLOWEST

    async def limited() -> MutableMapping[str, Any]:
        nonlocal seen, ended
        try:  # behind the body comes but that nobody waits any longer, whenever that is
            message = await asyncio.wait_for(receive(), None if ended else until - loop.time())
        except TimeoutError:
            return {"type": "http.disconnect"}
        seen += len(message.get("body", b""))
        ended = not message.get("more_body", False)
        return {"type": "http.disconnect"} if seen > most else message

    return limited


def _with_headers(send: Send, cookie: str = "") -> Send:
    """Answers with the headers of all; a new browser gets the name by which it is known."""

    async def sent(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            own = {name.lower() for name, _ in message.get("headers", [])}
            more = [(name, value) for name, value in _HEADERS.items() if name not in own]
            more += [(b"set-cookie", cookie.encode())] if cookie else []
            message = {**message, "headers": [*message.get("headers", []), *more]}
        await send(message)

    return sent


async def _refuse(scope: Scope, receive: Receive, send: Send, status: int, why: str) -> None:
    if scope["type"] == "websocket":
        await receive()  # the connection attempt
        await send({"type": "websocket.close", "code": 1008, "reason": why})
        return
    answer = JSONResponse({"error": "Refused", "message": why}, status)
    await answer(scope, receive, _with_headers(send))
