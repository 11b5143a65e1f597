"""Work spread over threads, processes or Ray, with results in order and errors by item."""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.parallel.backends import (
        Backend,
        ProcessBackend,
        SerialBackend,
        ThreadBackend,
        backend,
        fault_handlers_kept,
    )
else:
    __getattr__ = lazy_names(__name__)
