"""The studio as a server: guards, REST, tools and pages in one process."""

from __future__ import annotations

import ctypes
import logging
import secrets
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from rulerag.errors import ConfigError, MissingDependencyError
from rulerag.studio.service import Studio
from rulerag.studio.systems import SystemSettings

_MOST_ARENAS = -8  # M_ARENA_MAX of malloc.h


def serve(
    data: Path,
    *,
    host: str = "127.0.0.1",
    port: int = 8080,
    systems: Sequence[SystemSettings] = (),
    runs: Sequence[Path] = (),
    endpoints: Sequence[str] = (),
    guarded_by_token: bool = True,
    tell: Callable[[str], object] = lambda text: sys.stderr.write(text + "\n"),
) -> None:
    """Run the studio until it is interrupted.

    Args:
        data: the folder of its sessions.
        host: the address to bind. Every request needs the token that is told: others use this
            machine too.
        port: the port; 0 for a free one.
        systems: systems besides the shipped ones and those of ``data``.
        runs: run folders of ``rulerag evaluate`` to look into.
        endpoints: addresses of this network that systems made in the studio may name.
        guarded_by_token: whether requests need the token; only a studio of this machine alone may
            go without.
        tell: told where it answers.

    Raises:
        ConfigError: the address or the port cannot be used.
        MissingDependencyError: the extra ``studio`` is not installed.
    """
    try:
        import uvicorn

        from rulerag.studio.web import is_loopback
    except ImportError as error:
        raise MissingDependencyError(error.name or "uvicorn", "studio") from error
    local = is_loopback(host)
    if not (local or guarded_by_token):
        raise ConfigError(f"{host} is reached by others", key="without_token", hint="leave it out")
    bound = _bound(host, port)
    # It logs every index at the level DEBUG, and the package of MCP shows whatever is logged.
    logging.getLogger("bm25s").setLevel(logging.WARNING)
    token = secrets.token_urlsafe(24) if guarded_by_token else None
    with suppress(OSError, AttributeError):  # glibc keeps memory for each thread that a model had
        ctypes.CDLL(None).mallopt(_MOST_ARENAS, 2)
    studio = Studio(data, systems=systems, runs=runs, endpoints=endpoints)
    try:
        server = uvicorn.Server(
            uvicorn.Config(
                guarded(studio, local=local, token=token),
                log_level="warning",
                timeout_graceful_shutdown=2,
                ws_max_size=studio.limits.body,
            )
        )
        shown = f"[{host}]" if ":" in host else host
        shown += f":{bound.getsockname()[1]}" + (f"/?token={token}" if token else "")
        tell(f"rulerag studio: http://{shown} (Ctrl-C stops it)")
        server.run(sockets=[bound])
    finally:
        bound.close()
        studio.close()


def guarded(studio: Studio, *, local: bool = True, token: str | None = None) -> Any:
    """The whole application behind its guards.

    Args:
        studio: the service.
        local: it is bound to this machine alone.
        token: what requests have to bring.

    Raises:
        MissingDependencyError: the extra ``studio`` is not installed.
    """
    try:
        from rulerag.studio.pages import add_pages
        from rulerag.studio.web import Guards, create_app
    except ImportError as error:
        raise MissingDependencyError(error.name or "fastapi", "studio") from error
    app = create_app(studio)
    add_pages(app, studio)
    return Guards(app, local=local, token=token, most=studio.limits.body)


def _bound(host: str, port: int) -> socket.socket:
    """A listening socket, so that a port that is taken is said before anything is opened."""
    if not 0 <= port < 65536:
        raise ConfigError(f"{port} is no port", key="port", hint="8080, or 0 for a free one")
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        made = socket.socket(family, socket.SOCK_STREAM)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
        made.listen(128)
    except OSError as error:
        what = f"{host}:{port} cannot be used: {error.strerror or error}"
        raise ConfigError(what, key="port", hint="another --port, or 0 for a free one") from error
    return made
