"""One list from several searches: each way is registered as ``merge``.

``hits`` is what a way to merge reads and the seam that it fits; ``rank`` takes turns; ``groups``
shares the ranks out, by the pairs of entities of ``evidence`` or the candidate answers of
``learned``; ``control`` merges a search without rules the same way.
"""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.retrieval.guided.merging.control import (
        DiversifiedRetriever as DiversifiedRetriever,
        check_rows as check_rows,
        make_merger as make_merger,
    )
    from rulerag.retrieval.guided.merging.hits import (
        Merger as Merger,
        RuleSearch as RuleSearch,
        SearchHits as SearchHits,
    )
    from rulerag.retrieval.guided.merging.learned import (
        FEATURES as FEATURES,
        LearnedMerger as LearnedMerger,
        MergeWeights as MergeWeights,
    )
    from rulerag.retrieval.guided.merging.rank import RankMerger as RankMerger, union_of as union_of
else:
    __getattr__ = lazy_names(__name__)
