"""What retrievers share: the corpus, index folders, runs, and wrappers that know no rules."""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.retrieval.base.corpus import (
        CorpusIndex,
        RetrievedRows,
        Rows,
        RowSearcher,
        check_documents,
        check_threads,
        check_top_k,
        corpus_fingerprint,
        indexed_text,
        scored_documents,
    )
    from rulerag.retrieval.base.deduplicate import latest_of, latest_statements
    from rulerag.retrieval.base.fusion import FusedRetriever, check_method, fuse
    from rulerag.retrieval.base.groups import group_of, rank_in_group
    from rulerag.retrieval.base.index_folder import (
        broken_index,
        check_manifest,
        index_lock,
        new_index_folder,
    )
    from rulerag.retrieval.base.known_answers import known_answers_first
    from rulerag.retrieval.base.runs import write_run
    from rulerag.retrieval.base.time_aware import (
        TimeAwareRetriever,
        document_times,
        row_searcher,
    )
else:
    __getattr__ = lazy_names(__name__)
