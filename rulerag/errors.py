"""The exceptions of rulerag, drawn as the tree that they form.

::

    RuleRAGError
    ├── ConfigError                 an experiment file or an argument is wrong
    ├── DataError                   an input file or folder is wrong
    │   ├── DataFormatError         a line or a layout cannot be read
    │   ├── UnknownNameError        an id, relation or entity that the data does not hold
    │   ├── EmptyDataError          a split, corpus or query set without a row
    │   └── FingerprintError        content is not what a manifest says it is
    ├── OutputError                 an output place cannot be written
    ├── MissingDependencyError      an optional package is not installed
    ├── MiningError                 rule mining cannot start or go on
    ├── RetrievalError              an index or a search failed
    ├── GenerationError             a reader or a model provider failed
    │   ├── EmptyCompletionError    a completion holds no answer
    │   ├── CutCompletionError      a completion was cut before its answer ended
    │   ├── RefusedCompletionError  the model or a content filter refused to answer
    │   └── EndpointChangedError    another model answers under the same name
    ├── EditConflictError           a session of the studio was changed meanwhile
    └── ExplanationError            an explanation cannot be computed
        ├── ProbeBudgetError        the number of allowed probes is used up
        ├── PredicateError          an output predicate raised
        ├── DroppedDocumentsError   the generator does not read every document
        └── SamplingError           the generator answers by chance

Every error says what was wrong, where (file, line, key) and what would work.
The command line prints the message and exits with status 2.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path


def did_you_mean(name: str, known: Iterable[str], *, limit: int = 3) -> str:
    """Return a hint that names the closest known names, or lists some of them.

    Args:
        name: what was given.
        known: every name that would have worked.
        limit: how many names the hint shows at most.
    """
    names = sorted(set(known))
    close = difflib.get_close_matches(name, names, n=limit, cutoff=0.6)
    if close:
        return "did you mean " + " or ".join(repr(c) for c in close) + "?"
    if not names:
        return "none are known here"
    shown = ", ".join(repr(n) for n in names[: 4 * limit])
    more = len(names) - 4 * limit
    return f"known: {shown}" + (f", and {more} more" if more > 0 else "")


class RuleRAGError(Exception):
    """Base of every error that rulerag raises on purpose.

    Args:
        message: what was wrong.
        path: the file or folder it was found in.
        line: the line of that file, from 1.
        key: the configuration key, column or argument.
        hint: what would work.
    """

    def __init__(
        self,
        message: str,
        *,
        path: str | Path | None = None,
        line: int | None = None,
        key: str | None = None,
        hint: str | None = None,
    ) -> None:
        self.message = message
        self.path = Path(path) if path is not None else None
        self.line = line
        self.key = key
        self.hint = hint
        super().__init__(str(self))

    def __str__(self) -> str:
        """One readable sentence: place, what was wrong, what would work."""
        place = str(self.path) if self.path is not None else ""
        if self.line is not None:
            place += f", line {self.line}" if place else f"line {self.line}"
        if self.key is not None:
            place += f", key '{self.key}'" if place else f"key '{self.key}'"
        text = f"{place}: {self.message}" if place else self.message
        return f"{text} — {self.hint}" if self.hint else text


class ConfigError(RuleRAGError):
    """An experiment file, an override or an argument is wrong."""


class DataError(RuleRAGError):
    """An input file or folder is missing or wrong."""


class DataFormatError(DataError):
    """A line, a file or a folder layout cannot be read."""


class UnknownNameError(DataError):
    """An id, a relation or an entity that the data does not hold."""


class EmptyDataError(DataError):
    """A split, a corpus or a query set holds no row."""


class FingerprintError(DataError):
    """Content differs from the fingerprint that its manifest states."""


class OutputError(RuleRAGError):
    """An output file or folder cannot be written."""


class MissingDependencyError(RuleRAGError):
    """An optional package is not installed; the hint is the pip line."""

    def __init__(self, package: str, extra: str | None = None) -> None:
        target = f"'rulerag[{extra}]'" if extra else package
        super().__init__(
            f"the package '{package}' is needed for this and is not installed",
            hint=f"pip install {target}",
        )
        self.package = package
        self.extra = extra


@contextmanager
def needs_package(package: str, extra: str | None = None) -> Iterator[None]:
    """Imports of an optional package, which is named where they fail.

    Args:
        package: as pip calls it.
        extra: the extra of rulerag that installs it.

    Raises:
        MissingDependencyError: something inside could not be imported.
    """
    try:
        yield
    except ImportError as error:
        raise MissingDependencyError(package, extra) from error


class MiningError(RuleRAGError):
    """Rule mining cannot start or go on."""


class RetrievalError(RuleRAGError):
    """An index or a search failed."""


class GenerationError(RuleRAGError):
    """A reader or a model provider failed.

    Args:
        message: what was wrong.
        provider: the reader or endpoint that failed.
        retryable: whether the same call may succeed later.
        hint: what would work.
    """

    def __init__(
        self,
        message: str,
        *,
        provider: str | None = None,
        retryable: bool = False,
        hint: str | None = None,
    ) -> None:
        self.provider = provider
        self.retryable = retryable
        super().__init__(f"{provider}: {message}" if provider else message, hint=hint)


class EmptyCompletionError(GenerationError):
    """A completion holds no answer: it is empty, null, or nothing can be read out of it.

    A reader that abstains returns a :class:`~rulerag.Completion` without a text; that is an
    answer and no error.
    """


class CutCompletionError(GenerationError):
    """A completion was cut at the limit of new tokens before its answer ended."""


class RefusedCompletionError(GenerationError):
    """The model refused to answer, or a content filter kept the question or the answer back."""


class EndpointChangedError(GenerationError):
    """Another model, or another build of it, answers under the same name in the middle of a run.

    Answers of two models explain neither of them.
    """


class EditConflictError(RuleRAGError):
    """Somebody else changed what was to be edited since it was last seen; nothing was written."""


class ExplanationError(RuleRAGError):
    """An explanation cannot be computed from what was given."""


class ProbeBudgetError(ExplanationError):
    """The number of probes that the caller allowed is used up.

    Args:
        message: what was wrong.
        partial: what the explainer had found by then, where it can say so.
        hint: what would work.
    """

    def __init__(
        self, message: str, *, partial: object | None = None, hint: str | None = None
    ) -> None:
        self.partial = partial
        super().__init__(message, hint=hint)


class PredicateError(ExplanationError):
    """An output predicate raised; the message names the output."""


class DroppedDocumentsError(ExplanationError):
    """Documents do not fit the generator's prompt, so that it never reads what is explained."""


class SamplingError(ExplanationError):
    """The generator answers by chance: its outputs say as much about chance as about sources."""
