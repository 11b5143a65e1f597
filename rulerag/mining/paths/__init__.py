"""Rules as paths through a graph: coded as columns, walked by compiled code, written one way."""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.mining.paths.body_paths import (
        Reached,
        new_reached,
        reach,
    )
    from rulerag.mining.paths.canonical import labelled_rule, merge_rules, normal_form, place_of
    from rulerag.mining.paths.coded_rules import (
        CodedRules,
        atoms_of_walk,
        code_rules,
        code_static_rules,
        walks_of,
    )
    from rulerag.mining.paths.two_hop_times import Frontier, frontier_of
else:
    __getattr__ = lazy_names(__name__)
