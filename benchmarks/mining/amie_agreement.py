"""Do we find AMIE's rules with AMIE's counts? One table over graphs, skyline on and off.

``python -m benchmarks.mining.amie_agreement [--out DIR] [GRAPH …]`` mines the training facts of
each graph at AMIE 3's default thresholds and compares with the rules that AMIE 3.5 wrote. A rule
whose counts differ is counted a third time here, by plain Python sets straight from the
definitions, and shown with all three; so are ``SAMPLE`` rules of each graph whose counts agree.

``--four-atoms DIR`` does the same for rules of four atoms at the thresholds of BRINK (``-maxad 4
-minhc 0.1 -minc 0.3 -minpca 0.4``; arXiv:2508.08344), with the rules in ``DIR/GRAPH.tsv`` and
``DIR/GRAPH.all.tsv`` (``-noSkyline``). ``--growth GRAPH`` mines two, three and four atoms at these.
"""

from __future__ import annotations

import argparse
import random
import resource
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common.folders import shared_folder
from rulerag.console import guarded
from rulerag.evaluation import markdown_table
from rulerag.io import write_json, write_text
from rulerag.kg import FactTable, KnowledgeGraph
from rulerag.mining.amie import AmieMiner
from rulerag.mining.formats import load_amie
from rulerag.rules import Rule, RuleBank

Pairs = dict[str, set[tuple[str, str]]]

GRAPHS = ("nations", "umls", "kinship", "nell995")
BRINK: dict[str, Any] = {
    "min_head_coverage": 0.1,
    "min_pca_confidence": 0.4,
    "min_standard_confidence": 0.3,
}
SAMPLE = 25
# AMIE writes head coverage with six decimals.
_SIX_DECIMALS = 5.1e-7


@dataclass(frozen=True)
class Agreement:
    """One row of the table, and every rule on which the two miners differ."""

    graph: str
    skyline: bool
    ours: int
    theirs: int
    only_ours: int
    only_theirs: int
    other_counts: int
    checked_by_definition: int
    wrong_by_definition: int
    differences: list[dict[str, Any]]

    @property
    def complete(self) -> bool:
        """Whether nothing differs."""
        return not (
            self.only_ours or self.only_theirs or self.other_counts or self.wrong_by_definition
        )


def pairs_by_relation(facts: FactTable) -> Pairs:
    """The ``(subject, object)`` pairs of every relation, by raw names."""
    pairs: Pairs = {}
    for fact in facts:
        pairs.setdefault(fact.relation, set()).add((fact.subject, fact.object))
    return pairs


def count_by_definition(rule: Rule, pairs: Pairs) -> tuple[int, int, int, int]:
    """Support, head size, body size and PCA body size of a static rule, by plain sets.

    The body's bindings are built atom by atom as sets of ``(x, y, z)``; nothing is shared with the
    miner but the facts, ``pairs`` by relation.
    """
    bindings: set[tuple[tuple[str, str], ...]] = {()}
    for atom in rule.body:
        by_ends: dict[tuple[str | None, str | None], list[tuple[str, str]]] = {}
        extended = set()
        for binding in bindings:
            bound = dict(binding)
            known = _value(atom.subject, bound), _value(atom.object, bound)
            if known not in by_ends:
                by_ends[known] = [
                    pair
                    for pair in pairs.get(atom.relation, ())
                    if all(k is None or k == end for k, end in zip(known, pair, strict=True))
                ]
            for subject, object_ in by_ends[known]:
                new = dict(bound)
                for term, end in ((atom.subject, subject), (atom.object, object_)):
                    if term.startswith("?"):
                        new[term] = end
                extended.add(tuple(sorted(new.items())))
        bindings = extended
    ends = rule.head.subject, rule.head.object
    body = {tuple(dict(b).get(end, end) for end in ends) for b in bindings}
    head = pairs[rule.head.relation]
    subjects, objects = {s for s, _ in head}, {o for _, o in head}
    by_object = len(objects) > len(subjects)
    known_pairs = [p for p in body if (p[1] in objects if by_object else p[0] in subjects)]
    return len(body & head), len(head), len(body), len(known_pairs)


def _value(term: str, bound: dict[str, str]) -> str | None:
    return bound.get(term) if term.startswith("?") else term


def _counts(rule: Rule) -> tuple[int | None, int | None, int | None]:
    return rule.quality.support, rule.quality.body_size, rule.quality.pca_body_size


def _same(ours: Rule, theirs: Rule) -> bool:
    coverage = (ours.quality.head_coverage or 0.0) - (theirs.quality.head_coverage or 0.0)
    return _counts(ours) == _counts(theirs) and abs(coverage) <= _SIX_DECIMALS


def _by_definition(rule: Rule, pairs: Pairs) -> dict[str, int]:
    names = ("support", "head_size", "body_size", "pca_body_size")
    return dict(zip(names, count_by_definition(rule, pairs), strict=True))


def compare(
    graph: str, skyline: bool, ours: RuleBank, theirs: RuleBank, facts: FactTable
) -> Agreement:
    """Compare two banks rule by rule; what differs is settled by the definitions."""
    pairs = pairs_by_relation(facts)
    our_rules, their_rules = {r.id: r for r in ours}, {r.id: r for r in theirs}
    shared = [i for i in our_rules if i in their_rules]
    groups = {
        "only ours": [r for i, r in our_rules.items() if i not in their_rules],
        "only theirs": [r for i, r in their_rules.items() if i not in our_rules],
        "other counts": [our_rules[i] for i in shared if not _same(our_rules[i], their_rules[i])],
    }
    differences = [
        {
            "kind": kind,
            "rule": rule.text,
            "ours": asdict(our_rules[rule.id].quality) if rule.id in our_rules else None,
            "theirs": asdict(their_rules[rule.id].quality) if rule.id in their_rules else None,
            "by_definition": _by_definition(rule, pairs),
        }
        for kind, rules in groups.items()
        for rule in rules
    ]
    rules = list(ours)
    sample = random.Random(0).sample(rules, min(SAMPLE, len(rules)))
    wrong = 0
    for rule in sample:
        support, head_size, body_size, pca_body_size = count_by_definition(rule, pairs)
        counted = (support, body_size, pca_body_size)
        wrong += counted != _counts(rule) or support / head_size != rule.quality.head_coverage
    return Agreement(
        graph,
        skyline,
        len(ours),
        len(theirs),
        len(groups["only ours"]),
        len(groups["only theirs"]),
        len(groups["other counts"]),
        len(sample),
        wrong,
        differences,
    )


def _table(rows: Sequence[Agreement]) -> str:
    heads = ("graph", "skyline", "rules ours", "rules AMIE", "only ours", "only AMIE")
    cells = [
        [row.graph, "on" if row.skyline else "off", f"{row.ours:,}", f"{row.theirs:,}"]
        + [str(one) for one in (row.only_ours, row.only_theirs, row.other_counts)]
        + [
            f"{row.checked_by_definition - row.wrong_by_definition} of "
            f"{row.checked_by_definition} right"
        ]
        for row in rows
    ]
    return markdown_table((*heads, "other counts", "sample by definition"), cells, "llrrrrrl")


def main(
    out: Path | None = None, graphs: Sequence[str] = GRAPHS, four_atoms: Path | None = None
) -> list[Agreement]:
    """Print the table; write ``agreement.json`` and ``agreement.md`` into ``out`` when given.

    Args:
        out: a folder.
        graphs: by name.
        four_atoms: AMIE's rules of up to four atoms; those at its own thresholds when None.

    Raises:
        DataError: a graph or AMIE's rules are missing.
    """
    rows = []
    known = four_atoms or shared_folder("reference", "amie")
    settings = {"max_atoms": 4, **BRINK} if four_atoms else {}
    for name in graphs:
        facts = KnowledgeGraph.load(shared_folder("data", name)).train
        for skyline in (True, False):
            file = known / f"{name}{'' if skyline else '.all'}.tsv"
            if four_atoms and not file.exists():
                continue
            theirs = load_amie(file)
            ours = AmieMiner(skyline=skyline, **settings).mine(facts)
            rows.append(compare(name, skyline, ours, theirs, facts))
    table = _table(rows)
    print(table, end="")
    for row in rows:
        for difference in row.differences:
            print(f"{row.graph}: {difference}")
    if out is not None:
        write_json(out / "agreement.json", [asdict(row) for row in rows])
        thresholds = "up to four atoms, BRINK's thresholds" if four_atoms else "default thresholds"
        text = (
            f"# Agreement with AMIE 3.5\n\nTraining facts, {thresholds}; made by "
            "`python -m benchmarks.mining.amie_agreement`.\n\n"
        )
        write_text(out / "agreement.md", text + table)
    return rows


def growth(name: str, out: Path | None) -> None:
    """Rules, CPU seconds and memory of two to four atoms, each in a process of its own."""
    facts = KnowledgeGraph.load(shared_folder("data", name)).train
    AmieMiner(max_atoms=4, min_head_size=1).mine(facts.select(np.arange(200)))  # compiled
    rows = []
    for atoms in (2, 3, 4):
        with ProcessPoolExecutor(1, get_context("fork")) as pool:
            rows.append([str(atoms), *pool.submit(_mined, facts, atoms).result()])
    table = markdown_table(["atoms", "rules", "CPU s", "peak MB"], rows, "rrrr")
    print(table, end="")
    if out is not None:
        command = f"`python -m benchmarks.mining.amie_agreement --growth {name}`"
        write_text(out / "growth.md", f"# Rules of more atoms, {name}\n\n{command}\n\n{table}")


def _mined(facts: FactTable, atoms: int) -> tuple[str, str, str]:
    before = time.process_time()
    rules = AmieMiner(max_atoms=atoms, threads=1, **BRINK).mine(facts)
    seconds = time.process_time() - before
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return f"{len(rules):,}", f"{seconds:.1f}", f"{megabytes:.0f}"


def _command(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.mining.amie_agreement", description=__doc__
    )
    parser.add_argument("graphs", nargs="*", default=list(GRAPHS), help="default: all four")
    parser.add_argument("--out", type=Path, help="folder for agreement.json and agreement.md")
    parser.add_argument("--four-atoms", type=Path, metavar="DIR", help="AMIE's rules of four atoms")
    parser.add_argument("--growth", metavar="GRAPH", help="mine two, three and four atoms instead")
    given = parser.parse_args(arguments)
    if given.growth:
        return guarded(lambda: growth(given.growth, given.out))
    rows: list[Agreement] = []
    status = guarded(lambda: rows.extend(main(given.out, given.graphs, given.four_atoms)))
    return status or int(not all(row.complete for row in rows))


if __name__ == "__main__":
    sys.exit(_command())
