"""Public data sets, every file checked; see :mod:`~rulerag.data.download`."""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.data.download import (
        fetch as fetch,
        known_sources as known_sources,
        source_of as source_of,
    )
else:
    __getattr__ = lazy_names(__name__)
