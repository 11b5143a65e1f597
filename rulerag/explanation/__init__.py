"""Why an answer came out: its evidence is cut into sources and the generator asked without some.

From the ground up: ``lattice`` (sets of sources), ``wording`` (English for them), ``records`` (what
is returned, in words), ``probing`` (the only way to a model), ``source_rules`` (minimal retention
and omission rules), ``attribution`` (a number for each source), ``faithfulness`` (how good an
explanation is) and ``report`` (everything about one answer). ``similarity`` compares texts and asks
nothing; ``views`` has what pictures are made of. Start with
:func:`rulerag.explain_answer`.
"""
