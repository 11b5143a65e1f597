"""RuleQA: questions over one corpus with rules that guide them, built from a knowledge graph.

Read :mod:`~rulerag.ruleqa.dataset` first (what a dataset is and how its folder looks), then
:mod:`~rulerag.ruleqa.builder` (how one is made from a graph), with the choices that the paper
leaves open in :mod:`~rulerag.ruleqa.settings`; :mod:`~rulerag.ruleqa.formats` reads the benchmarks
of others.
"""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.ruleqa.builder import build, build_missing, mine
    from rulerag.ruleqa.card import card_files, size_table, table_row
    from rulerag.ruleqa.ceilings import CEILINGS
    from rulerag.ruleqa.check import check_leakage
    from rulerag.ruleqa.dataset import DatasetInfo, RuleQADataset
    from rulerag.ruleqa.formats import is_benchmark, read_benchmark
    from rulerag.ruleqa.questions import (
        QuestionParser,
        graph_labels,
        known_names,
        parse_question,
        queries_from_facts,
    )
    from rulerag.ruleqa.settings import (
        BENCHMARKS,
        GRAPHS,
        PUBLISHED,
        VARIANTS,
        RuleQASettings,
        check_settings,
        known_settings,
        read_settings,
    )
    from rulerag.ruleqa.validation_split import validation_graph, with_held_out
else:
    __getattr__ = lazy_names(__name__)
