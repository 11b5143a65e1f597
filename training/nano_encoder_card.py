"""The model card of the small encoder."""

from __future__ import annotations

from typing import Any

__all__ = ["nano_card"]


def nano_card(facts: dict[str, Any]) -> str:
    """The card in Markdown with the Hub's metadata.

    Args:
        facts: what the run wrote to ``training.json``.
    """
    graphs = "\n".join(f"- `{name}`: {n:,} facts" for name, n in facts["train_facts"].items())
    rows = "\n".join(
        f"| {name} | {int(row['queries']):,} | {int(row['documents']):,} "
        f"| {100 * row['plain']:.1f} | {100 * row['guided']:.1f} "
        f"| {100 * row['guided_union']:.1f} ({row['documents_per_query_union']:.0f}) |"
        for name, row in facts["held_out"].items()
    )
    runs = [facts]
    while runs[0].get("started_from"):
        runs.insert(0, runs[0]["started_from"])
    told = "\n".join(_told(number, run) for number, run in enumerate(runs, start=1))
    commands = "\n".join(_command(number, run, len(runs)) for number, run in enumerate(runs, 1))
    return f"""---
library_name: sentence-transformers
pipeline_tag: sentence-similarity
license: apache-2.0
tags: [sentence-transformers, retrieval, rule-guided, ruleqa]
---
# rulerag-nano-encoder

A dual encoder made from scratch: no base model, its own byte-level BPE ({facts["vocabulary"]:,}
tokens), two layers, width 128, mean pooling, cosine; questions and documents go through the same
weights. Weights are stored in half precision and opened in single: every opening gives the same
numbers, and the figures below are those of the stored weights.

## What it saw

{told}

All on {facts["worlds"]} generated worlds (three steps in ten) and on the **training facts** of

{graphs or "- no real graph"}

A question asks for the relation of a fact's subject; half of the questions ask for another relation
and name a made-up rule that leads there from the fact's, which is how it learned to read
`QUERY [Entity 1, r1, Entity 2] leads to [Entity 1, r2, Entity 2]`. No validation or test fact, no
benchmark question, no judgement and no mined rule was used; the 3,000 training facts of `nell995`
that RuleQA-N holds out for its fine-tuning questions were left out. Yet it has read the corpora of
the five RuleQA benchmarks built from these graphs: say so beside every figure of an encoder
fine-tuned from it.

## Figures on what it has not seen

Answer recall at ten in percent: plain; rule-guided, the ten best of up to eight searches; the union
of the ten best of each search (its mean size). The worlds' names, rules and facts are new to it;
the twin asks for validation facts of a corpus that it has read.

| | queries | documents | plain | guided | union |
| --- | ---: | ---: | ---: | ---: | ---: |
{rows}

## Made by

```
{commands}
```

Meant for trying things offline and as a start for fine-tuning; it knows the language of fact
sentences, and no other. Use a published encoder for text at large.
"""


def _told(number: int, run: dict[str, Any]) -> str:
    """What a run did, in words."""
    first = f"{run['masked_steps']:,} steps on masked tokens, then " if number == 1 else ""
    return (
        f"{number}. {first}{run['steps']:,} contrastive steps of {run['batch_size']} pairs of "
        f"question and document\n   ({run['pairs']}; temperature {run['temperature']:g}, "
        f"learning rate {run['learning_rate']:g}, seed {run['seed']})."
    )


def _command(number: int, run: dict[str, Any], runs: int) -> str:
    """The command of a run; those before the last write a folder to go on from."""
    out = "rulerag/models/nano-encoder" if number == runs else f"runs/nano-{number}"
    parts = [f"python -m training.nano_encoder --out {out} --twin-of DATA/icews14"]
    if number == 1:
        parts.append(f"--masked-steps {run['masked_steps']} --vocabulary {run['vocabulary']}")
    else:
        parts.append(f"--start runs/nano-{number - 1}")
    parts += [f"--graph DATA/{name}" for name in run["graphs"]]
    parts.append(
        f"--worlds {run['worlds']} --steps {run['steps']} --learning-rate {run['learning_rate']:g} "
        f"--seed {run['seed']} --threads 1"
    )
    return " \\\n  ".join(parts)
