"""Work spread over threads or a Ray cluster, with results in order and errors by item."""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.parallel.backends import (
        LOCAL as LOCAL,
        Backend as Backend,
        RayBackend as RayBackend,
        SerialBackend as SerialBackend,
        ThreadBackend as ThreadBackend,
        fault_handlers_kept as fault_handlers_kept,
    )
    from rulerag.parallel.copies import Copies as Copies
else:
    __getattr__ = lazy_names(__name__)
