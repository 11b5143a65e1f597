"""Texts as people have them, as documents: Markdown, HTML, PDF, plain text, JSON lines, folders.

:mod:`~rulerag.texts.corpus` reads a file or a folder, :mod:`~rulerag.texts.formats` takes one file
apart into headings and paragraphs, and :mod:`~rulerag.texts.chunks` makes documents of these.
"""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.texts.chunks import ChunkSettings as ChunkSettings
    from rulerag.texts.corpus import TextCorpus as TextCorpus, read_texts as read_texts
    from rulerag.texts.formats import ENDINGS as ENDINGS
else:
    __getattr__ = lazy_names(__name__)
