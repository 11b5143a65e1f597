"""One page and four pictures for everything that is shown: nothing is fetched.

``page`` has the page and its blocks, made by one template; ``picture`` what drawings share, each
with the table that says the same. ``flow`` draws links between columns of boxes, ``lattice``
subsets, ``bars`` numbers; ``highlights`` are texts with their marks.
"""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.views.bars import bars_picture
    from rulerag.views.flow import Link, Node, flow_picture
    from rulerag.views.highlights import (
        Highlights,
        Kind,
        Mark,
        MarkedText,
        Scale,
        percent,
        shaded,
    )
    from rulerag.views.lattice import lattice_picture
    from rulerag.views.page import (
        AnswerText,
        Block,
        Columns,
        Page,
        Pairs,
        Piece,
        Section,
        Table,
        Text,
    )
    from rulerag.views.picture import Picture
    from rulerag.views.svg import printable
else:
    __getattr__ = lazy_names(__name__)
