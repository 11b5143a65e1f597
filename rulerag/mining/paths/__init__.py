"""Rules as paths through a graph: coded as columns, walked by compiled code, written one way."""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.mining.paths.body_paths import (
        Reached as Reached,
        new_reached as new_reached,
        reach as reach,
    )
    from rulerag.mining.paths.canonical import (
        labelled_rule as labelled_rule,
        merge_rules as merge_rules,
        normal_form as normal_form,
        place_of as place_of,
    )
    from rulerag.mining.paths.coded_rules import (
        CodedRules as CodedRules,
        atoms_of_walk as atoms_of_walk,
        code_rules as code_rules,
        code_static_rules as code_static_rules,
        walks_of as walks_of,
    )
    from rulerag.mining.paths.two_hop_times import Frontier as Frontier, frontier_of as frontier_of
else:
    __getattr__ = lazy_names(__name__)
