"""What retrievers share: the corpus, index folders, runs, and wrappers that know no rules."""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.retrieval.base.corpus import (
        CorpusIndex as CorpusIndex,
        RetrievedRows as RetrievedRows,
        Rows as Rows,
        RowSearcher as RowSearcher,
        check_documents as check_documents,
        check_threads as check_threads,
        check_top_k as check_top_k,
        corpus_fingerprint as corpus_fingerprint,
        indexed_text as indexed_text,
        scored_documents as scored_documents,
    )
    from rulerag.retrieval.base.deduplicate import (
        latest_of as latest_of,
        latest_statements as latest_statements,
    )
    from rulerag.retrieval.base.fusion import (
        FusedRetriever as FusedRetriever,
        check_method as check_method,
        fuse as fuse,
    )
    from rulerag.retrieval.base.groups import group_of as group_of, rank_in_group as rank_in_group
    from rulerag.retrieval.base.index_folder import (
        broken_index as broken_index,
        check_manifest as check_manifest,
        index_lock as index_lock,
        new_index_folder as new_index_folder,
    )
    from rulerag.retrieval.base.known_answers import known_answers_first as known_answers_first
    from rulerag.retrieval.base.runs import write_run as write_run
    from rulerag.retrieval.base.time_aware import (
        TimeAwareRetriever as TimeAwareRetriever,
        document_times as document_times,
        row_searcher as row_searcher,
    )
else:
    __getattr__ = lazy_names(__name__)
