"""RAG systems by configuration: corpus, retriever, what answers, what it must not say, attacks.

Read :mod:`~rulerag.studio.systems.systems` first, then ``generators`` (what answers, the rule-based
fake among it) and ``predicates`` (target conditions that are safe to run on any text);
``own`` makes one of a form, or of a session's file.
"""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.studio.systems.attack_templates import Attack, attacks, injected
    from rulerag.studio.systems.own import FormText, OwnSystems, SystemForm, check_foreign, foreign
    from rulerag.studio.systems.predicates import SENSITIVE
    from rulerag.studio.systems.reach import Reach
    from rulerag.studio.systems.records import Message, Source, State, named
    from rulerag.studio.systems.systems import (
        OpenSystem,
        SystemSettings,
        as_json,
        benchmark_system,
        shipped_systems,
    )
else:
    __getattr__ = lazy_names(__name__)
