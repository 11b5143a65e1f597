"""Pictures of explanations, each in a few lines of SVG or HTML of its own: nothing is fetched.

``svg`` has what they share, ``flow`` draws bands, ``scale`` shades texts.
"""

from typing import TYPE_CHECKING

from rulerag.lazy import front_door

if TYPE_CHECKING:
    from rulerag.explanation.views.flow import Node, folded, sankey
    from rulerag.explanation.views.scale import Scale, percent, pieces
    from rulerag.explanation.views.svg import cut, label, picture, printable, standalone, wrapped
else:
    __getattr__ = front_door(__name__)
