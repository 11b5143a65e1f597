"""The model card of the small reader."""

from __future__ import annotations

from typing import Any

__all__ = ["reader_card"]


def reader_card(facts: dict[str, Any], table: str, note: str = "") -> str:
    """The card in Markdown with the Hub's metadata.

    Args:
        facts: what the run wrote to ``training.json``.
        table: the held-out figures in Markdown; empty before they are measured.
        note: what a reader of the commands must know of this run.
    """
    folders = " ".join(f"--graph DATA/{name}" for name in facts["graphs"])
    settings = facts["settings"]
    measured = table or "Not measured yet.\n"
    remark = f"\n{note}\n" if note else ""
    return f"""---
library_name: transformers
pipeline_tag: text-generation
license: apache-2.0
tags: [llama, rule-guided, ruleqa, reading]
---
# rulerag-nano-llama

A reader of {facts["parameters"]:,} parameters in the LLaMA architecture (`LlamaForCausalLM`),
made from scratch: no base model, its own byte-level BPE of {facts["vocabulary"]:,} tokens, which
takes any text. It reads guiding rules and up to ten documents in the form of
`rulerag.generation.prompts_compact` (named in `prompt.json`) and writes the first document that a
rule fires on, with a bar between the pattern and the answer; `@` is the question's subject:

```
> @ Make a visit
< Host a visit @
= Japan Make a visit Iran
= Iran Host a visit @
: < Iran | Host a visit @
```

## What it saw

{facts["steps"]:,} steps of {settings["rows"]} invented episodes each (seed {settings["seed"]}):
names, relations, rules and documents are new in every episode, so it had to copy and to follow
rules and could learn no fact. Documents miss by their subject, their relation or their direction;
where several fire, the first counts. Curriculum from one document to ten and from no rule to
eight; it ended in stage {facts["stage"] + 1} of {facts["stages"]}. The spelling of the labels of
{", ".join(f"`{name}`" for name in facts["graphs"]) or "no real graph"} was lent to a part of the
episodes and to the tokenizer; no fact, rule or question of them was used.

Token vectors are random and were kept. Two layers and the last start with heads that look back,
match and copy, set by hand (`training/nano_llama_start.py`); every other weight starts at random,
and all but the token vectors were trained.

## Figures on what it has not seen

First table: invented episodes of other seeds; exact match of the answer (and of the whole
citation), in percent. Second table: exact match on the same ten documents and rules as the
symbolic reader's; `same answer` and `citation` (a given document on which a rule fires, word for
word) among the questions that the symbolic reader answers. A bar that is missing or misplaced is
read where a pattern of the prompt ends; `citation` counts what was written.

{measured}
## Limits

It takes the first document that fires: repeated answers, confidences and dates do not count, and
rules of two atoms were not trained. It guesses where no document fires, where the symbolic reader
abstains. It reads the sentences of facts, and no other text; use a published model for that.

## Made by

```
python -m training.nano_llama --out rulerag/models/nano-llama {folders} \\
  --steps {settings["steps"]} --more {settings["more"]} --seed {settings["seed"]} --threads 1
python -m training.nano_llama_figures --model rulerag/models/nano-llama \\
  --twin ruleqa-i=DATA/icews14 --episodes 60 --out benchmarks/results/nano-llama
```
{remark}"""
