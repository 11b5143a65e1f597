"""The model card of a fine-tuned query encoder."""

from __future__ import annotations

from typing import Any

from training.settings import RetrieverSettings

__all__ = ["retriever_card"]

_METHODS = {
    "rgft": "query∘rule with the rule's oracle documents (RGFT)",
    "ssft": "queries with their oracle documents, without rules (SSFT)",
    "mixed": "queries and query∘rule with their oracle documents (SSFT and RGFT)",
}


def retriever_card(settings: RetrieverSettings, metrics: dict[str, Any], base: str) -> str:
    """The card in Markdown with the Hub's metadata.

    Args:
        settings: of the run.
        metrics: of the run: before, best, numbers of examples.
        base: the name of the encoder that it started from.
    """
    rows = "\n".join(
        f"| {name} | {metrics['before'][name]:.4f} | {value:.4f} |"
        for name, value in metrics["best"].items()
    )
    return f"""---
library_name: sentence-transformers
pipeline_tag: sentence-similarity
tags: [sentence-transformers, retrieval, rule-guided, ruleqa]
---
# Query encoder, {settings.method.upper()} on {metrics["dataset"]}

Fine-tuned from `{base}` on {metrics["examples"]:,} examples: {_METHODS[settings.method]},
following RuleRAG (arXiv:2410.22353, section 3.2). The document encoder was frozen and stands in
`document_encoder/`; both are compared by cosine. Guiding rules are appended to the query:
`QUERY [Entity 1, r1, Entity 2] leads to [Entity 1, r2, Entity 2]`.

```python
from sentence_transformers import SentenceTransformer

queries = SentenceTransformer("FOLDER")
documents = SentenceTransformer("FOLDER/document_encoder")
```

`rulerag answer … --retriever dense --encoder FOLDER` opens both.

| {metrics["tuning_queries"]} tuning queries | before | after |
| --- | ---: | ---: |
{rows}

Settings: learning rate {settings.learning_rate:g}, batch {settings.batch_size}, temperature
{settings.temperature:g}, {metrics["steps"]} steps (best at {metrics["best_step"]}), extra negatives
{settings.extra_negatives}, hard negatives {settings.hard_negatives}, seed {settings.seed},
{settings.precision}; dataset fingerprint `{metrics["dataset_fingerprint"]}`.

Limits: trained on one benchmark's relations and templates; other questions need training of
their own.
"""
