"""Pictures of explanations: what drives an answer, to look at instead of to read.

Each picture is drawn from plain values, stands alone as SVG (nothing is fetched, one style inside),
and carries the table that says the same. Read :mod:`~rulerag.explanation.views.picture` first.
"""

from typing import TYPE_CHECKING

from rulerag.lazy import front_door

if TYPE_CHECKING:
    from rulerag.explanation.views.bars import bars_picture
    from rulerag.explanation.views.certainty import certainty_picture
    from rulerag.explanation.views.flow import Link, flow_picture
    from rulerag.explanation.views.lattice import lattice_picture
    from rulerag.explanation.views.picture import Picture
else:
    __getattr__ = front_door(__name__)
