"""RAG systems by configuration: corpus, retriever, what answers, what it must not say, attacks.

Read :mod:`~rulerag.studio.systems.systems` first, then ``answerers`` (what answers, the rule-based
fake among it) and ``predicates`` (target conditions that are safe to run on any text);
``own`` makes one of a form, or of a session's file.
"""

from typing import TYPE_CHECKING

from rulerag.lazy import front_door

if TYPE_CHECKING:
    from rulerag.studio.systems.answerers import (
        NOTHING,
        Answerer,
        Documents,
        EndpointReader,
        EndpointSettings,
    )
    from rulerag.studio.systems.attack_templates import Attack, attacks, injected
    from rulerag.studio.systems.own import (
        OwnSystem,
        OwnText,
        adopted,
        check_foreign,
        folders,
        problems,
        save,
    )
    from rulerag.studio.systems.predicates import (
        SENSITIVE,
        JudgedCondition,
        RegexCondition,
        compiled,
        predicate_of,
    )
    from rulerag.studio.systems.sources import FoundBy, Record, Source
    from rulerag.studio.systems.systems import (
        OpenSystem,
        SystemSettings,
        as_json,
        benchmark_system,
        read_system,
        shipped_systems,
    )
else:
    __getattr__ = front_door(__name__)
