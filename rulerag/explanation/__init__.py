"""Why an answer came out: its evidence is cut into sources and the generator asked without some.

From the ground up: ``lattice`` (sets of sources), ``wording`` (English for them), ``records`` (what
is returned, in words), ``probing`` (the only way to a model), ``source_rules`` (minimal retention
and omission rules), ``attribution`` (a number for each source), ``faithfulness`` (how good an
explanation is) and ``report`` (everything about one answer). ``chains`` has what
:mod:`rulerag.integrations` makes of the chains of other frameworks. ``similarity`` compares texts
and asks nothing; ``views`` has what pictures are made of. Start with
:func:`rulerag.explain_answer`.
"""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.explanation.chains import (
        QUESTION_KEYS as QUESTION_KEYS,
        FrozenChain as FrozenChain,
        Retrieved as Retrieved,
        no_retriever as no_retriever,
        question_text as question_text,
    )
    from rulerag.explanation.claims import SameClaim as SameClaim
    from rulerag.explanation.probing import answer_text as answer_text
else:
    __getattr__ = lazy_names(__name__)
