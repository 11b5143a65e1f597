"""The settings of rule-guided retrieval."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from rulerag.composition import Settings
from rulerag.retrieval.guided.merging import MergeWeights
from rulerag.retrieval.guided.query_text import Compose


class GuidedSettings(Settings):
    """The settings of :class:`~rulerag.retrieval.guided.RuleGuidedRetriever`.

    Args:
        compose: how query and rule become one text: ``append`` (``q∘r`` of the paper),
            ``substitute`` (the body relation in place of the query's), ``both`` (a search each),
            or a function of query and rule that returns one text or several.
        merge: how the searches become one list, a name of the family ``merge``: ``rank``, where
            they take turns; ``evidence``, which looks deeper than the union and gives each of the
            k ranks to another pair of entities
            (:mod:`~rulerag.retrieval.guided.merging.evidence`); or ``learned``, which gives them to
            candidate answers by learned weights (:mod:`~rulerag.retrieval.guided.merging.learned`).
        weights: those of ``merge="learned"``, or their file, as ``training.merging``
            writes it.
        per_rule_k: documents kept of each search; as many as the whole list has when None.
        skip_stated: of predictions, leave out documents that lead only to answers which the corpus
            states as they are, as facts of the query's relation: the filtered setting of link
            prediction (Bordes et al. 2013), for questions that ask what a static graph lacks.
        include_plain: search the plain query as well, before its rules.
        plain_weight: the confidence that the plain search counts with.
        pool: the search depth: documents that ``evidence`` and ``learned`` look at in each search.
        power: the exponent of a score's fraction of the search's best score, in ``evidence``.
        beam_width: how many entities of a hop the next one searches for; with 0 a rule with several
            body atoms is searched as one text.
        bridge_weight: how much a document counts that leads to the next hop and does not name an
            answer itself.
        max_hops: the longest body that is followed hop by hop; longer ones are searched as one
            text.
        whole_chains: chain completion: how many of the first documents that name an answer by a
            chain bring the documents that lead to it to the ranks behind them.

    Raises:
        ConfigError: an option is unknown, of another kind or out of range.
    """

    compose: str | Compose = "append"
    merge: str = "rank"
    weights: MergeWeights | str | Path | None = None
    per_rule_k: int | None = Field(default=None, ge=1)
    skip_stated: bool = False
    include_plain: bool = False
    plain_weight: float = Field(default=1.0, ge=0, le=1)
    pool: int = Field(default=200, ge=1)
    power: float = Field(default=8.0, gt=0)
    beam_width: int = Field(default=3, ge=0)
    bridge_weight: float = Field(default=0.1, ge=0, le=1)
    max_hops: int = Field(default=3, ge=1)
    whole_chains: int = Field(default=1, ge=0)
