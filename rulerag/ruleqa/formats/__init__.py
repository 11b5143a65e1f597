"""Benchmarks of others as datasets: BEIR, FlashRAG, HotpotQA, WebQSP and CWQ.

:mod:`~rulerag.ruleqa.formats.detect` knows a format by the keys of its files and makes the
dataset of what its reader read (:mod:`~rulerag.ruleqa.formats.records`); there is one module
for each family of formats.
"""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.ruleqa.formats.detect import (
        FORMATS as FORMATS,
        is_benchmark as is_benchmark,
        open_folder as open_folder,
        read_benchmark as read_benchmark,
    )
else:
    __getattr__ = lazy_names(__name__)
