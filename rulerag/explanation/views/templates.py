"""Pages from templates: one way to fill them for every page of an explanation."""

from __future__ import annotations

from functools import cache
from typing import Any

from rulerag.explanation.views.svg import printable


def rendered(package: str, template: str, **values: Any) -> str:
    """A template of a package's folder ``templates``, filled.

    Texts are escaped, and lose what no page may hold; a picture, which is ``Markup``, is left.

    Args:
        package: its name.
        template: the file.
        values: what stands in it; a missing one is an error.
    """
    return str(_environment(package).get_template(template).render(**values))


@cache
def _environment(package: str) -> Any:
    import jinja2

    return jinja2.Environment(
        loader=jinja2.PackageLoader(package),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=_finished,
    )


def _finished(value: Any) -> Any:
    return printable(value) if type(value) is str else value
