"""RuleQA: questions over one corpus with rules that guide them, built from a knowledge graph.

Read :mod:`~rulerag.ruleqa.dataset` first (what a dataset is and how its folder looks), then
:mod:`~rulerag.ruleqa.builder` (how one is made from a graph), with the choices that the paper leaves
open in :mod:`~rulerag.ruleqa.settings`.
"""
