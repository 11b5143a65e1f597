"""The studio: ask a RAG system, see why it answered, change what it read, and break it.

``service`` holds every action and knows no web framework; ``web`` is its REST interface, its
server-sent events and its tools for assistants; ``pages`` are its screens. Systems, their corpora
and the attack templates lie as plain files in ``shipped``.
"""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.studio.serving import serve as serve
else:
    __getattr__ = lazy_names(__name__)
