"""RAG systems by configuration: corpus, retriever, what answers, what it must not say, attacks.

Read :mod:`~rulerag.studio.systems.systems` first, then ``generators`` (what answers, the rule-based
fake among it) and ``predicates`` (target conditions that are safe to run on any text);
``own`` makes one of a form, or of a session's file.
"""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.studio.systems.attack_templates import (
        Attack as Attack,
        attacks as attacks,
        injected as injected,
    )
    from rulerag.studio.systems.own import (
        FormText as FormText,
        OwnSystems as OwnSystems,
        SystemForm as SystemForm,
        check_foreign as check_foreign,
        foreign as foreign,
    )
    from rulerag.studio.systems.predicates import SENSITIVE as SENSITIVE
    from rulerag.studio.systems.reach import Reach as Reach
    from rulerag.studio.systems.records import (
        Message as Message,
        Source as Source,
        State as State,
        named as named,
    )
    from rulerag.studio.systems.systems import (
        OpenSystem as OpenSystem,
        SystemSettings as SystemSettings,
        as_json as as_json,
        benchmark_system as benchmark_system,
        shipped_systems as shipped_systems,
    )
else:
    __getattr__ = lazy_names(__name__)
