"""Which sentences of the documents read like the answer: cheap, and no proof of use.

Read :mod:`~rulerag.explanation.similarity.front` first; then ``scorers`` (what compares),
``records`` (what is returned) and ``page`` (how it looks).
"""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.explanation.similarity.front import (
        similarity_attribution as similarity_attribution,
    )
    from rulerag.explanation.similarity.records import (
        Sentence as Sentence,
        SimilarityAttribution as SimilarityAttribution,
    )
    from rulerag.explanation.similarity.scorers import SCORERS as SCORERS, cosines as cosines
else:
    __getattr__ = lazy_names(__name__)
