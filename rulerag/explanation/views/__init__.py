"""Pictures of explanations, each in a few lines of SVG or HTML of its own: nothing is fetched.

``svg`` has what they share; a :class:`Picture` carries the table that says the same, and so do
:class:`Highlights`, texts with their marks (``context``). ``flow`` draws bands, ``scale`` says
which number gets which shade; the other modules draw one picture each.
"""

from typing import TYPE_CHECKING

from rulerag.lazy import front_door

if TYPE_CHECKING:
    from rulerag.explanation.views.bars import bars_picture
    from rulerag.explanation.views.certainty import Curve, certainty_picture
    from rulerag.explanation.views.context import (
        Highlights,
        Kind,
        Mark,
        MarkedText,
        scale_legend,
        shaded,
    )
    from rulerag.explanation.views.figure import Picture, folded_table
    from rulerag.explanation.views.flow import Node, folded, sankey
    from rulerag.explanation.views.lattice import lattice_picture
    from rulerag.explanation.views.rule_flow import Link, rule_flow_picture
    from rulerag.explanation.views.scale import Scale, percent, pieces
    from rulerag.explanation.views.svg import cut, label, picture, printable, standalone, wrapped
    from rulerag.explanation.views.templates import rendered
else:
    __getattr__ = front_door(__name__)
