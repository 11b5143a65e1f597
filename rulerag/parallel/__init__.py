"""Work spread over threads, processes or Ray, with results in order and errors by item."""

from typing import TYPE_CHECKING

from rulerag.lazy import front_door

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
    __getattr__ = front_door(__name__)
