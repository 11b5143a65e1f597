"""rulerag inside other frameworks, and their chains explained: one module a framework.

:mod:`~rulerag.integrations.langchain` (with LangGraph), :mod:`~rulerag.integrations.llama_index`
and :mod:`~rulerag.integrations.haystack` hold a retriever, the whole pipeline, and how chains of
the framework are frozen for :func:`rulerag.explain`; :mod:`~rulerag.integrations.openinference`
reads logged runs, and :mod:`~rulerag.integrations.exports` writes them;
:mod:`~rulerag.integrations.ragas` and :mod:`~rulerag.integrations.deepeval` hold the metric
``RuleFaithfulness``. A module imports its framework at its top, so that none of them is imported
from here. :mod:`~rulerag.integrations.system` is what components share, a dataset folder, a
pipeline or a retriever that is asked in plain words; :mod:`~rulerag.integrations.faithfulness` what
metrics share.
"""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.integrations.exports import (
        otlp_spans as otlp_spans,
        ragas_samples as ragas_samples,
        send_spans as send_spans,
    )
    from rulerag.integrations.openinference import Trace as Trace, read_trace as read_trace
    from rulerag.integrations.system import System as System, open_system as open_system
else:
    __getattr__ = lazy_names(__name__)
