"""The screens, on NiceGUI: they show what the service knows and call its actions.

Read :mod:`~rulerag.studio.pages.frame` first. Texts of sources, answers and questions only ever go
into labels and inputs, which show them as they are: never into HTML, Markdown or options.
"""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.studio.pages.frame import add_pages as add_pages, pages_of as pages_of
else:
    __getattr__ = lazy_names(__name__)
