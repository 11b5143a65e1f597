"""Folders on the Hugging Face Hub: what is kept there opens like a folder here."""

from __future__ import annotations

import importlib
import re
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Self

from rulerag.errors import DataError, needs_package

PREFIX = "hf://"
_PLACE = re.compile(
    r"(?:hf://)?(?:(?P<kind>models|datasets)/)?(?P<name>[\w.-]+/[\w.-]+)"
    r"(?:@(?P<revision>[^/]+))?(?:/(?P<path>.+))?"
)
_FORM = "hf://owner/name, with @revision and /file where wanted; datasets/ before the owner"


class HubMixin(ABC):
    """What is saved to a repository of the Hub, and opened from one.

    A class says how its files are written, the card ``README.md`` among them, and how read.
    """

    _repository_kind: ClassVar[str] = "dataset"

    @abstractmethod
    def _write_repository(self, folder: Path) -> None:
        """Write the files of the repository, its card with them."""

    @classmethod
    @abstractmethod
    def _read_repository(cls, folder: Path) -> Self:
        """What the files hold."""

    def push_to_hub(
        self,
        repository: str,
        *,
        private: bool = False,
        revision: str | None = None,
        message: str | None = None,
        token: str | None = None,
    ) -> str:
        """Upload to a repository of the Hub with a card, in one commit; made when missing.

        Args:
            repository: ``owner/name``.
            private: whether a new repository is seen by its owner alone.
            revision: a branch, made when missing; ``main`` when None.
            message: of the commit.
            token: of the Hub; the one of ``hf auth login`` when None.

        Returns:
            The address of the commit.

        Raises:
            DataError: the Hub refuses it or cannot be reached; nothing is half uploaded.
            MissingDependencyError: huggingface-hub is not installed.
        """
        with tempfile.TemporaryDirectory() as folder:
            self._write_repository(Path(folder))
            return push_folder(
                folder,
                repository,
                kind=self._repository_kind,
                private=private,
                revision=revision,
                message=message,
                token=token,
            )

    @classmethod
    def from_pretrained(
        cls,
        repository: str,
        *,
        revision: str | None = None,
        token: str | None = None,
        local_files_only: bool = False,
    ) -> Self:
        """Open what :meth:`push_to_hub` uploaded, from the Hub or its cache here.

        Args:
            repository: ``owner/name``, or a folder.
            revision: a branch, tag or commit; ``main`` when None.
            token: of the Hub; the one of ``hf auth login`` when None.
            local_files_only: whether only the cache is looked at, as with ``HF_HUB_OFFLINE=1``.

        Raises:
            DataError: there is no such repository, it is private or gated, or not in the cache
                while the Hub cannot be reached; what cannot be read.
            MissingDependencyError: huggingface-hub is not installed.
        """
        folder = Path(repository)
        if not folder.is_dir():
            folder = local_copy(
                repository,
                kind=cls._repository_kind,
                revision=revision,
                token=token,
                local_files_only=local_files_only,
            )
        return cls._read_repository(folder)


def local_copy(
    place: str,
    *,
    kind: str | None = None,
    revision: str | None = None,
    token: str | None = None,
    local_files_only: bool = False,
) -> Path:
    """The folder, or file, in the Hub's cache that holds a repository as it is now.

    Args:
        place: ``hf://owner/name``, with ``@revision`` and ``/file`` where wanted.
        kind: ``model`` or ``dataset``; when None what the place says, else a model where there is
            one of that name, else a dataset.
        revision: a branch, tag or commit; that of the place when None.
        token: of the Hub; the one of ``hf auth login`` when None.
        local_files_only: whether only the cache is looked at.

    Raises:
        DataError: the place has another form, or cannot be had.
        MissingDependencyError: huggingface-hub is not installed.
    """
    match = _PLACE.fullmatch(place)
    if match is None:
        raise DataError(f"{place} names no repository of the Hugging Face Hub", hint=_FORM)
    kinds = [kind] if kind else [match["kind"][:-1]] if match["kind"] else ["model", "dataset"]
    with _hub(place) as hub:
        for number, one in enumerate(kinds, 1):
            try:
                folder = hub.snapshot_download(
                    match["name"],
                    repo_type=one,
                    revision=revision or match["revision"],
                    token=token,
                    local_files_only=local_files_only,
                )
                break
            except (
                hub.errors.RepositoryNotFoundError,
                hub.errors.LocalEntryNotFoundError,
            ) as error:
                if number == len(kinds) or isinstance(error, hub.errors.GatedRepoError):
                    raise
    found = Path(folder) / (match["path"] or "")
    if not found.exists():
        what = f"has no {match['path']}" if match["path"] else "is empty"
        raise DataError(f"{place}: the repository {what}", hint=_FORM)
    return found


def push_folder(
    folder: str | Path,
    repository: str,
    *,
    kind: str = "model",
    private: bool = False,
    revision: str | None = None,
    message: str | None = None,
    token: str | None = None,
) -> str:
    """Upload a folder as it is, in one commit; see :meth:`HubMixin.push_to_hub`."""
    with _hub(repository) as hub:
        api = hub.HfApi(token=token)
        api.create_repo(repository, repo_type=kind, private=private, exist_ok=True)
        if revision is not None:
            api.create_branch(repository, repo_type=kind, branch=revision, exist_ok=True)
        commit = api.upload_folder(
            repo_id=repository,
            folder_path=folder,
            repo_type=kind,
            revision=revision,
            commit_message=message or f"Upload {Path(folder).name} with rulerag",
            ignore_patterns=[".*", "**/.*"],
        )
    return str(commit.commit_url)


@contextmanager
def _hub(place: str) -> Iterator[Any]:
    """The Hub's library; its errors get our names."""
    with needs_package("huggingface-hub", "hub"):
        import huggingface_hub as hub

        errors: Any = importlib.import_module("huggingface_hub.errors")
    try:
        yield hub
    except errors.GatedRepoError as error:
        how = "accept its terms on its page, then hf auth login"
        raise _refused(place, "is gated", how) from error
    except errors.RepositoryNotFoundError as error:
        what = "there is no such repository, or it is private and not yours"
        raise _refused(place, what, "check the name; hf auth login for a private one") from error
    except errors.RevisionNotFoundError as error:
        raise _refused(place, "has no such revision", "a branch, tag or commit") from error
    except errors.LocalEntryNotFoundError as error:
        what = "is not in the cache here, and the Hub cannot be reached"
        raise _refused(place, what, "download it once where there is a network") from error
    except (errors.HTTPError, errors.HFValidationError, OSError, RuntimeError) as error:
        status = getattr(getattr(error, "response", None), "status_code", None)
        hint = "hf auth login, with a token that may write" if status in (401, 403) else None
        reason = str(error).strip().split("\n")[0]
        what = f"the Hub did not take or give it ({type(error).__name__}: {reason})"
        raise _refused(place, what, hint or "nothing is half done: try again") from error


def _refused(place: str, what: str, hint: str) -> DataError:
    return DataError(f"{place}: {what}", hint=hint)
