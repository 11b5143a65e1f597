"""Which sentences of the documents read like the answer: cheap, and no proof of use.

Read :mod:`~rulerag.explanation.similarity.front` first; then ``scorers`` (what compares),
``records`` (what is returned) and ``page`` (how it looks).
"""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.explanation.similarity.front import similarity_attribution
    from rulerag.explanation.similarity.records import Sentence, SimilarityAttribution
    from rulerag.explanation.similarity.scorers import SCORERS, cosines
else:
    __getattr__ = lazy_names(__name__)
