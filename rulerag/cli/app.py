"""The table of commands: a name, a function and an example each; cyclopts reads their arguments."""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rulerag import __version__
from rulerag.errors import ConfigError, did_you_mean


@dataclass(frozen=True)
class Command:
    """A command, imported when it runs or shows its own help.

    Args:
        place: where its function is, ``module:name``; its docstring is the help.
        help: one line for the list of commands, the first of the docstring.
        example: what its help shows.
        settings: the class of the settings that it takes as ``KEY=VALUE``, ``module:name``.
    """

    place: str
    help: str
    example: str
    settings: str = ""

    @property
    def work(self) -> Callable[..., None]:
        """The function."""
        return _imported(self.place)  # type: ignore[no-any-return]

    @property
    def epilogue(self) -> str:
        """The end of its help: the settings, if it has some, and the example."""
        if not self.settings:
            return f"Example: {self.example}"
        about = str(inspect.getdoc(_imported(self.settings))).partition("Args:\n")[2]
        about = about.partition("\n\n")[0].replace("``", "")  # what is raised is of no use here
        return f"Settings (KEY=VALUE):\n{about}\n\nExample: {self.example}"


def _imported(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


COMMANDS: dict[str, Command] = {
    "demo": Command(
        "rulerag.cli.running:demo",
        "Mine, retrieve, read and explain on embedded worlds that know their own truth.",
        "rulerag demo --out demo-out",
    ),
    "inspect": Command(
        "rulerag.cli.datasets:inspect",
        "Show what is understood of a graph or dataset: columns, dates, facts, what was left out.",
        "rulerag inspect facts.csv",
    ),
    "mine": Command(
        "rulerag.cli.graphs:mine",
        "Mine a rule bank from a graph.",
        "rulerag mine demo-out/temporal/world --out rules.jsonl",
    ),
    "rules": Command(
        "rulerag.cli.graphs:rules",
        "Look into a rule bank, join it with others, make it smaller.",
        "rulerag rules rules.jsonl --head visits --top 5",
    ),
    "index": Command(
        "rulerag.cli.corpora:index",
        "Build an index that `--index` opens; of texts of your own, it keeps the texts too.",
        "rulerag index runs/ruleqa-i --retriever lucene --out index",
    ),
    "extract": Command(
        "rulerag.cli.extracting:extract",
        "Find facts in texts: a graph folder that every other command reads, with its sentences.",
        "rulerag extract notes --seeds facts.csv --out graph",
    ),
    "retrieve": Command(
        "rulerag.cli.corpora:retrieve",
        "Run retrieval for the queries of a dataset.",
        "rulerag retrieve runs/ruleqa-i --retriever bm25 --rules guided --out run.trec",
    ),
    "answer": Command(
        "rulerag.cli.answering:answer",
        "Answer a question, or the queries of a dataset, with the evidence.",
        'rulerag answer "Time 2014-12-01 what does China Consult ?" --dataset runs/ruleqa-i',
    ),
    "explain": Command(
        "rulerag.cli.explaining:explain",
        "Explain answers: what they rest on, in a dataset or in a system of your own.",
        'rulerag explain "Who wrote it?" --documents notes --answerer rag.py:answer',
    ),
    "evaluate": Command(
        "rulerag.cli.running:evaluate",
        "Run one experiment; a rerun resumes what was interrupted.",
        "rulerag evaluate symbolic__symbolic --dataset runs/ruleqa-i query_set=full "
        "--out runs/symbolic",
    ),
    "link-prediction": Command(
        "rulerag.cli.running:link_prediction",
        "Filtered MRR and Hits@1, 3 and 10 of a rule bank, both directions of every test fact.",
        "rulerag link-prediction demo-out/temporal/world --miner tlogic --out links",
        settings="rulerag.evaluation.link_prediction:LinkPredictionSettings",
    ),
    "studio": Command(
        "rulerag.cli.running:studio",
        "The web app: ask a RAG system, see which sources made it answer so, and break it.",
        "rulerag studio --port 8080 --data studio-data",
    ),
    "redteam": Command(
        "rulerag.cli.running:redteam",
        "Attack a system in every source of every question; status 1 where it breaks.",
        "rulerag redteam finance --generator weak-reader --out red-team",
    ),
    "ruleqa build": Command(
        "rulerag.cli.datasets:build",
        "Make questions, corpus, rules and judgements from a knowledge graph.",
        "rulerag ruleqa build --kg facts.csv --out dataset",
        settings="rulerag.ruleqa:RuleQASettings",
    ),
    "ruleqa check": Command(
        "rulerag.cli.datasets:check",
        "Prove that a dataset does not leak its answers.",
        "rulerag ruleqa check runs/ruleqa-i",
    ),
    "ruleqa table": Command(
        "rulerag.cli.datasets:table",
        "Sizes and ceilings of built datasets, beside the published sizes.",
        "rulerag ruleqa table runs/ruleqa-i runs/ruleqa-y",
    ),
    "data fetch": Command(
        "rulerag.cli.datasets:fetch",
        "Download one data set, every file checked by its SHA-256.",
        "rulerag data fetch icews14 --out data",
    ),
    "models list": Command(
        "rulerag.cli.models:list_models",
        "Models that go by a name here: size, licence, and whether they are in place.",
        "rulerag models list",
    ),
    "models fetch": Command(
        "rulerag.cli.models:fetch",
        "Get a model, every file checked by its SHA-256; its terms are shown first.",
        "rulerag models fetch smollm2-135m-instruct",
    ),
    "models info": Command(
        "rulerag.cli.models:info",
        "What a model is, where it came from and what it takes.",
        "rulerag models info all-minilm-l6-v2",
    ),
    "cache": Command(
        "rulerag.cli.models:cache",
        "Show or clear what is kept between commands: indexes, vectors, checksums.",
        "rulerag cache clear bm25",
    ),
}
"""The commands by name; those of two words belong to a group."""

_HELP = ("--help", "-h")


def parse(words: Sequence[str]) -> Callable[[], object]:
    """The work that the arguments ask for, ready to run; help and the version are work, too.

    Args:
        words: the arguments.

    Raises:
        ConfigError: there is no such command, or its arguments are wrong.
    """
    if list(words) == ["--version"]:
        return functools.partial(sys.stdout.write, f"rulerag {__version__}\n")
    group = words[0] if words and any(name.startswith(f"{words[0]} ") for name in COMMANDS) else ""
    size = 2 if group else 1
    if not words[size - 1 :] or words[size - 1] in _HELP:
        return functools.partial(sys.stdout.write, _overview(group))
    name, rest = " ".join(words[:size]), words[size:]
    if name not in COMMANDS:
        raise ConfigError(f"there is no command {name!r}", hint=did_you_mean(name, COMMANDS))
    # Imported here: the list of commands is shown at once.
    from rulerag.cli.arguments import bind_arguments

    command = COMMANDS[name]
    return bind_arguments(f"rulerag {name}", command.work, rest, epilogue=command.epilogue)


def _overview(group: str) -> str:
    """The list of all commands, or of those of a group."""
    listed = {n: c.help for n, c in COMMANDS.items() if not group or n.startswith(f"{group} ")}
    width = max(map(len, listed))
    lines = [
        f"Usage: rulerag {group}{' ' if group else ''}COMMAND [ARGUMENTS]",
        "",
        "Retrieval-augmented generation that follows rules and shows why it answered.",
        "",
        *(f"  {name:{width}}  {help}" for name, help in listed.items()),
        "",
        "rulerag COMMAND --help says more, with an example; rulerag --version tells the version.",
        "Start here: rulerag demo --out demo-out",
    ]
    return "\n".join(lines) + "\n"
