"""Where endpoints that were named over the network may lie: elsewhere, or where it was allowed."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Collection
from urllib.parse import urlsplit

from rulerag.errors import ConfigError


class Reach:
    """Resolves the hosts of endpoints, each once, and refuses addresses of this network.

    A form, a request or an opened file must not have the studio call what only its machine reaches:
    itself, its neighbours, the service that tells a machine of a cloud its secrets.

    Args:
        allowed: addresses of endpoints that may lie anywhere, as ``http://localhost:8000/v1``.

    Raises:
        ConfigError: one is no address.
    """

    def __init__(self, allowed: Collection[str] = ()) -> None:
        self._allowed = {_place(one) for one in allowed}
        self._resolved: dict[tuple[str, int], str] = {}

    def __call__(self, host: str, port: int) -> str:
        """The address that is called for a host: always the one that was looked at.

        Raises:
            ConfigError: it may not be called, or is unknown.
        """
        place = host.strip("[]").lower(), port
        if place not in self._resolved:
            try:
                found = socket.getaddrinfo(*place, type=socket.SOCK_STREAM)
            except (OSError, UnicodeError) as error:
                raise ConfigError(f"{host!r} is unknown here ({error})", key="url") from None
            addresses = [str(one[4][0]).partition("%")[0] for one in found]
            if place not in self._allowed and not all(map(_is_public, addresses)):
                what = f"{host!r} is an address of this machine or its network"
                hint = f"allow it at start: rulerag studio --endpoint http://{host}:{port}"
                raise ConfigError(what, key="url", hint=hint)
            self._resolved[place] = addresses[0]
        return self._resolved[place]

    def check(self, url: str) -> bool:
        """True for the address of an endpoint that may be called, else :class:`ConfigError`."""
        return bool(self(*_place(url)))


def _place(url: str) -> tuple[str, int]:
    try:
        parts = urlsplit(url.strip())
        port = parts.port or {"http": 80, "https": 443}[parts.scheme]
        return str(parts.hostname or "").lower(), port
    except (KeyError, ValueError):
        raise ConfigError(f"{url!r} is no http:// or https:// address", key="url") from None


def _is_public(address: str) -> bool:
    found = ipaddress.ip_address(address)
    mapped = getattr(found, "ipv4_mapped", None) or found
    return mapped.is_global and not mapped.is_multicast
