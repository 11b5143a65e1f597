"""The studio as a server: guards, REST, tools and pages in one process."""

from __future__ import annotations

import logging
import secrets
import socket
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rulerag.errors import ConfigError, MissingDependencyError
from rulerag.studio.service import Studio
from rulerag.studio.systems import SystemSettings


def serve(
    data: Path,
    *,
    host: str = "127.0.0.1",
    port: int = 8080,
    systems: Sequence[SystemSettings] = (),
    runs: Sequence[Path] = (),
    tell: Callable[[str], object] = lambda text: sys.stderr.write(text + "\n"),
) -> None:
    """Run the studio until it is interrupted.

    Args:
        data: the folder of its sessions.
        host: the address to bind; one that others can reach needs the token that is told.
        port: the port; 0 for a free one.
        systems: systems besides the shipped ones and those of ``data``.
        runs: run folders of ``rulerag evaluate`` to look into.
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
    bound = _bound(host, port)
    # It logs every index at the level DEBUG, and the package of MCP shows whatever is logged.
    logging.getLogger("bm25s").setLevel(logging.WARNING)
    local = is_loopback(host)
    token = None if local else secrets.token_urlsafe(24)
    studio = Studio(data, systems=systems, runs=runs)
    try:
        server = uvicorn.Server(
            uvicorn.Config(
                guarded(studio, local=local, token=token),
                log_level="warning",
                timeout_graceful_shutdown=2,
                ws_max_size=studio.limits.body,
            )
        )
        number = bound.getsockname()[1]
        shown = f"[{host}]" if ":" in host else host
        query = "" if token is None else f"/?token={token}"
        tell(f"rulerag studio: http://{shown}:{number}{query} (Ctrl-C stops it)")
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
