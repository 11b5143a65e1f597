"""Data from elsewhere: public data sets, and the triples of SPARQL endpoints.

See :mod:`~rulerag.data.download`, every file checked, and :mod:`~rulerag.data.sparql`.
"""

from typing import TYPE_CHECKING

from rulerag.lazy import front_door

if TYPE_CHECKING:
    from rulerag.data.download import fetch, known_sources, source_of
    from rulerag.data.sparql import PATTERN, fetch_sparql
else:
    __getattr__ = front_door(__name__)
