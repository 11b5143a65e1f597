"""One page and four pictures for everything that is shown: nothing is fetched.

``page`` has the page and its blocks, made by one template; ``picture`` what drawings share, each
with the table that says the same. ``flow`` draws links between columns of boxes, ``lattice``
subsets, ``bars`` numbers; ``highlights`` are texts with their marks.
"""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.views.bars import bars_picture as bars_picture
    from rulerag.views.flow import Link as Link, Node as Node, flow_picture as flow_picture
    from rulerag.views.highlights import (
        Highlights as Highlights,
        Kind as Kind,
        Mark as Mark,
        MarkedText as MarkedText,
        Scale as Scale,
        percent as percent,
        shaded as shaded,
    )
    from rulerag.views.lattice import lattice_picture as lattice_picture
    from rulerag.views.page import (
        AnswerText as AnswerText,
        Block as Block,
        Columns as Columns,
        Page as Page,
        Pairs as Pairs,
        Piece as Piece,
        Section as Section,
        Table as Table,
        Text as Text,
    )
    from rulerag.views.picture import Picture as Picture
    from rulerag.views.svg import printable as printable
else:
    __getattr__ = lazy_names(__name__)
