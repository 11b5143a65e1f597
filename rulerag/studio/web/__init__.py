"""The studio over HTTP: REST with server-sent events, its documentation, and tools for assistants.

``app`` puts them together; ``guards`` stand before all of it.
"""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.studio.web.app import create_app as create_app
    from rulerag.studio.web.guards import Guards as Guards, is_loopback as is_loopback
else:
    __getattr__ = lazy_names(__name__)
