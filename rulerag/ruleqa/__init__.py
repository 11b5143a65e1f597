"""RuleQA: questions over one corpus with rules that guide them, built from a knowledge graph.

Read :mod:`~rulerag.ruleqa.dataset` first (what a dataset is and how its folder looks), then
:mod:`~rulerag.ruleqa.builder` (how one is made from a graph), with the choices that the paper
leaves open in :mod:`~rulerag.ruleqa.settings`; :mod:`~rulerag.ruleqa.formats` reads the benchmarks
of others.
"""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.ruleqa.builder import build as build, build_missing as build_missing, mine as mine
    from rulerag.ruleqa.card import (
        card_files as card_files,
        size_table as size_table,
        table_row as table_row,
    )
    from rulerag.ruleqa.ceilings import CEILINGS as CEILINGS
    from rulerag.ruleqa.check import check_leakage as check_leakage
    from rulerag.ruleqa.dataset import DatasetInfo as DatasetInfo, RuleQADataset as RuleQADataset
    from rulerag.ruleqa.formats import (
        is_benchmark as is_benchmark,
        read_benchmark as read_benchmark,
    )
    from rulerag.ruleqa.questions import (
        QuestionParser as QuestionParser,
        graph_labels as graph_labels,
        known_names as known_names,
        parse_question as parse_question,
        queries_from_facts as queries_from_facts,
    )
    from rulerag.ruleqa.settings import (
        BENCHMARKS as BENCHMARKS,
        GRAPHS as GRAPHS,
        PUBLISHED as PUBLISHED,
        VARIANTS as VARIANTS,
        RuleQASettings as RuleQASettings,
        check_settings as check_settings,
        known_settings as known_settings,
        read_settings as read_settings,
    )
    from rulerag.ruleqa.validation_split import (
        validation_graph as validation_graph,
        with_held_out as with_held_out,
    )
else:
    __getattr__ = lazy_names(__name__)
