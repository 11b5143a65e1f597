"""Downloads one file: resumed where it was cut, checked by SHA-256, in place only when whole."""

from __future__ import annotations

import http.client
import os
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from rulerag.errors import DataError, FingerprintError, OutputError
from rulerag.io import fingerprint_file, prepare_folder

__all__ = ["Downloader"]

_BLOCK = 1 << 16
# What a later attempt may not meet: the server or the way to it was in trouble.
_PASSING = (408, 425, 429, 500, 502, 503, 504)
_OFFLINE = "check the connection, or name a mirror with --mirror; what is here is kept and resumed"


class _Cut(Exception):
    """The connection ended before the file did; another attempt may go on from there."""


@dataclass(frozen=True)
class Downloader:
    """Downloads files, each as often as it takes.

    Args:
        attempts: attempts in a row that bring nothing, before it gives up.
        pause: seconds before the second attempt; doubled for each further one.
        timeout: seconds of silence after which a connection counts as cut.
        progress: called with the number of new bytes.
    """

    attempts: int = 5
    pause: float = 0.5
    timeout: float = 30.0
    progress: Callable[[int], object] = lambda count: None

    def fetch(self, url: str, target: Path, sha256: str, size: int | None = None) -> bool:
        """Put the file of an address in place; whether anything had to be downloaded.

        A file that is there and right is left alone. Bytes of an unfinished download wait beside
        the target as ``.NAME.part`` and are resumed (HTTP ``Range``); a server that knows no
        ranges starts again.

        Args:
            url: the address.
            target: the file.
            sha256: what its content must be.
            size: its bytes, where they are known.

        Raises:
            DataError: the server cannot be reached, refuses, redirects in circles, or the
                connection is cut again and again.
            FingerprintError: the content is another one; names both checksums.
            OutputError: the file cannot be written.
        """
        if target.exists() and fingerprint_file(target) == sha256:
            return False
        prepare_folder(target.parent)
        part = target.with_name(f".{target.name}.part")
        try:
            resumed = part.exists() and part.stat().st_size > 0
            found = self._complete(url, part, size)
            if found != sha256 and resumed:  # the first bytes may be of another version
                part.unlink()
                found = self._complete(url, part, size)
            if found != sha256:
                part.unlink()
                raise FingerprintError(
                    f"{url} has the SHA-256 {found}, expected {sha256}",
                    path=target,
                    hint="the file at this address has changed, or something on the way changes "
                    "it; nothing was kept",
                )
            os.replace(part, target)
        except OSError as error:
            raise OutputError(f"cannot be written ({error.strerror})", path=target) from error
        return True

    def _complete(self, url: str, part: Path, size: int | None) -> str:
        """Download until the file ends; the SHA-256 of what there is then."""
        failed, pause = 0, self.pause
        while True:
            before = part.stat().st_size if part.exists() else 0
            try:
                self._attempt(url, part, before, size)
                return fingerprint_file(part)
            except _Cut as error:
                gained = part.exists() and part.stat().st_size > before
                failed = 0 if gained else failed + 1
                pause = self.pause if gained else pause
                if failed >= self.attempts:
                    raise DataError(f"{url}: {error}", hint=_OFFLINE) from error
                time.sleep(pause)
                pause *= 2

    def _attempt(self, url: str, part: Path, start: int, size: int | None) -> None:
        request = urllib.request.Request(url, headers={"Accept-Encoding": "identity"})
        if start:
            request.add_header("Range", f"bytes={start}-")
        try:
            with urllib.request.urlopen(request, timeout=self.timeout) as response:
                self._receive(response, part, start, size)
        except urllib.error.HTTPError as error:
            if error.code == 416:  # nothing is left to send, or the part is longer than the file
                if error.headers.get("Content-Range") == f"bytes */{start}":
                    return
                part.unlink()
                raise _Cut("the server knows no such range") from error
            if error.code in _PASSING:
                raise _Cut(f"the server answers {error.code} {error.reason}") from error
            raise DataError(
                f"{url}: the server answers {error.code} {' '.join(str(error.reason).split())}",
                hint="the address may have moved: name another with --mirror",
            ) from error
        except urllib.error.URLError as error:
            place = urlsplit(url).netloc
            raise _Cut(f"{place} cannot be reached ({error.reason})") from error
        except (http.client.HTTPException, ConnectionError, TimeoutError, ssl.SSLError) as error:
            raise _Cut(f"the connection was cut ({error or type(error).__name__})") from error

    def _receive(self, response: Any, part: Path, start: int, size: int | None) -> None:
        goes_on = response.status == 206 and str(
            response.headers.get("Content-Range", "")
        ).startswith(f"bytes {start}-")
        if response.status == 206 and not goes_on:
            part.unlink(missing_ok=True)
            raise _Cut("the server sent another range")
        stated = response.headers.get("Content-Length")
        if stated is None and size is not None:
            stated = size - (start if goes_on else 0)
        received = 0
        with open(part, "ab" if goes_on else "wb") as file:
            while block := response.read(_BLOCK):
                file.write(block)
                received += len(block)
                self.progress(len(block))
        if stated is not None and received < int(stated):
            raise _Cut(f"the connection was cut after {received:,} of {int(stated):,} bytes")
