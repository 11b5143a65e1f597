"""Retrievers, pipelines and measures of rulerag as components of other frameworks.

One module a framework: :mod:`~rulerag.integrations.langchain`,
:mod:`~rulerag.integrations.llama_index`, :mod:`~rulerag.integrations.haystack` hold a retriever and
the whole pipeline, :mod:`~rulerag.integrations.ragas` and :mod:`~rulerag.integrations.deepeval` the
metric ``RuleFaithfulness``. :mod:`~rulerag.integrations.system` is what the first three share: a
dataset folder, a pipeline or a retriever that is asked in plain words. A framework is imported when
one of its classes is asked for.
"""

from typing import TYPE_CHECKING

from rulerag.lazy import front_door

if TYPE_CHECKING:
    from rulerag.integrations.system import System, open_system
else:
    __getattr__ = front_door(__name__)
