"""One file from an address, put in place only when its SHA-256 is the one that was stated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rulerag.errors import DataError, FingerprintError, MissingDependencyError, OutputError
from rulerag.io import prepare_folder

_REFUSED = range(400, 408)  # answers that another attempt would not change


def download_file(
    url: str,
    target: Path,
    sha256: str,
    *,
    elsewhere: str = "name a mirror with --mirror",
    retries: int = 3,
    progress: bool = False,
) -> None:
    """Put the file of an address in place; one that is there and right is left alone.

    Args:
        url: the address.
        target: the file.
        sha256: the checksum of its content, in hex digits.
        elsewhere: what a user may do when the address does not answer.
        retries: further attempts after the connection or the content failed.
        progress: show a progress bar.

    Raises:
        DataError: it cannot be downloaded.
        FingerprintError: it has another content; names both checksums.
        OutputError: it cannot be written.
        MissingDependencyError: the package pooch is not installed.
    """
    try:
        import pooch
        import requests
    except ImportError:
        raise MissingDependencyError("pooch", "data") from None

    def get(url: str, file: str, owner: Any) -> None:
        try:
            pooch.HTTPDownloader(progressbar=progress)(url, file, owner)
        except requests.HTTPError as error:
            if error.response is not None and error.response.status_code in _REFUSED:
                hint = f"the address may have moved: {elsewhere}"
                raise DataError(str(error), hint=hint) from error
            raise

    pooch.get_logger().setLevel("WARNING")
    store = pooch.create(
        path=prepare_folder(target.parent),
        base_url="",
        registry={target.name: sha256},
        urls={target.name: url},
        retry_if_failed=retries,
    )
    try:
        store.fetch(target.name, downloader=get)
    except requests.RequestException as error:
        raise DataError(
            f"{url} cannot be downloaded ({error})",
            hint=f"check the connection, or {elsewhere}; what is here is kept",
        ) from error
    except ValueError as error:
        raise FingerprintError(f"{url}: {error}", path=target) from error
    except OSError as error:
        raise OutputError(f"cannot be written ({error.strerror})", path=target) from error
