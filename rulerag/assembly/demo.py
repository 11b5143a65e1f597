"""The main job on embedded worlds: mine, retrieve, read, explain, checked against the truth."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from rulerag.assembly.build import make_miner, make_pipeline
from rulerag.assembly.presets import preset
from rulerag.composition import Config
from rulerag.evaluation import results_table, run_experiment
from rulerag.evaluation.page import rule_rows, write_report
from rulerag.explanation.explaining import Explanation, explain_answer, explanation_lines
from rulerag.folders import output_folder
from rulerag.io import read_jsonl, write_json, write_jsonl
from rulerag.kg import Verbalizer
from rulerag.pipeline import RuleRAGPipeline
from rulerag.ruleqa import DatasetInfo, RuleQADataset, graph_labels, queries_from_facts
from rulerag.rules import RuleBank
from rulerag.synthetic import World
from rulerag.text import exact_match
from rulerag.types import Answer

# A rule counts as found from these on; the worlds hold no other rule of one atom above them.
_LEAST_CONFIDENCE, _LEAST_SUPPORT = 0.3, 20
_METHODS = {
    "BM25": ("bm25", "none"),
    "BM25, rule-guided": ("bm25", "guided"),
    "symbolic": ("symbolic", "guided"),
}
_SHOWN = 2
_SHOWN_METHOD = "BM25, rule-guided"


@dataclass(frozen=True)
class MiningCheck:
    """How mined rules compare with planted ones.

    Args:
        planted: number of planted rules.
        mined: number of mined rules.
        precision: share of the mined rules that were planted.
        recall: share of the planted rules that were mined.
        max_error: largest distance of a mined confidence from the planted one, a fraction.
        seconds: what mining took.
    """

    planted: int
    mined: int
    precision: float
    recall: float
    max_error: float
    seconds: float


def mine_world(world: World) -> tuple[RuleBank, float]:
    """The rules of a world's training facts, and the seconds that mining took."""
    if world.kind == "temporal":
        miner = make_miner("tlogic", min_confidence=_LEAST_CONFIDENCE, min_support=_LEAST_SUPPORT)
    else:
        least = {"min_pca_confidence": _LEAST_CONFIDENCE, "min_head_size": 1}
        miner = make_miner("amie", max_atoms=2, **least)
    started = time.perf_counter()
    bank = miner.mine(world.graph.train)
    seconds = time.perf_counter() - started
    return bank.filter(min_support=_LEAST_SUPPORT), seconds


def check_mining(world: World, bank: RuleBank, seconds: float = 0.0) -> MiningCheck:
    """Compare a bank with the rules that the world was made with."""
    planted = {p.rule.id: p.confidence for p in world.planted if len(p.rule.body) == 1}
    found = {rule.id: rule.ranking_confidence for rule in bank}
    both = planted.keys() & found.keys()
    return MiningCheck(
        planted=len(planted),
        mined=len(found),
        precision=len(both) / len(found) if found else 0.0,
        recall=len(both) / len(planted) if planted else 0.0,
        max_error=max((abs(planted[i] - found[i]) for i in both), default=0.0),
        seconds=seconds,
    )


def world_dataset(world: World, rules: RuleBank) -> RuleQADataset:
    """A world as a dataset: training facts are the corpus, test facts the queries.

    The query set ``supported`` holds the queries that some planted rule leads to; their
    judgements are the documents of the true supporting facts.
    """
    graph = world.graph
    words = Verbalizer(graph)
    corpus = words.corpus(graph.train)
    document_of = {fact: document.id for document in corpus for fact in document.facts}
    queries = queries_from_facts(graph.test, words, "q")
    qrels = {}
    for query in queries:
        truth = world.find(query.subject, query.relation, query.timestamp)
        if truth is not None and truth.supports:
            facts = [fact for support in truth.supports for fact in support]
            qrels[query.id] = {document_of[fact]: 1 for fact in facts}
    return RuleQADataset(
        corpus=corpus,
        queries={"test": queries},
        qrels={"test": qrels},
        rules=rules,
        query_sets={"supported": list(qrels)},
        labels=graph_labels(graph),
        info=DatasetInfo(
            name=f"world-{world.kind}",
            calendar=asdict(graph.calendar) if graph.is_temporal else None,
            seed=world.seed,
            settings={"facts": world.num_facts, "kind": world.kind},
        ),
    )


def run_demo(
    out: str | Path,
    *,
    num_facts: int = 5000,
    seed: int = 0,
    progress: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Run everything on one dated and one static world; write ``report.html``, ``metrics.json``.

    Args:
        out: the folder to write.
        num_facts: facts of each world.
        seed: the seed of the worlds.
        progress: show progress bars.
        say: gets each line of the running commentary.

    Raises:
        ConfigError: a world that small or that seed cannot be. OutputError: ``out`` cannot be
            written, or another process writes there.
    """
    with output_folder(out) as folder:
        started = time.perf_counter()
        worlds = {}
        for kind in ("temporal", "static"):
            world = World.generate(num_facts, kind=kind, seed=seed, max_body_atoms=1)
            worlds[kind] = _run_world(world, folder, progress=progress, say=say)
        seconds = time.perf_counter() - started
        summary = {
            "benchmark": "embedded worlds",
            "num_facts": num_facts,
            "seed": seed,
            "seconds": {"total": round(seconds, 2)},
            "worlds": {kind: part.summary for kind, part in worlds.items()},
        }
        write_json(folder / "metrics.json", summary)
        _write_page(folder, worlds, seconds)
    say(f"\n{seconds:.0f} s in all; read {folder / 'report.html'}, figures in metrics.json")
    return summary


@dataclass(frozen=True)
class _WorldRun:
    """What running one world gave."""

    summary: dict[str, Any]
    results: list[dict[str, Any]]
    rules: RuleBank
    world: World
    explanations: list[dict[str, Any]]


def _run_world(
    world: World, folder: Path, *, progress: bool, say: Callable[[str], None]
) -> _WorldRun:
    say(f"\n{world.kind} world: {world.num_facts:,} facts, {len(world.graph.entities):,} entities")
    bank, seconds = mine_world(world)
    check = check_mining(world, bank, seconds)
    say(
        f"  mined {check.mined} rules in {check.seconds:.2f} s; planted {check.planted}: precision "
        f"{check.precision:.2f}, recall {check.recall:.2f}, confidence off by {check.max_error:.3f}"
    )
    world.save(folder / world.kind / "world")  # a graph that other commands can be tried on
    dataset = world_dataset(world, bank)
    dataset.save(folder / world.kind / "dataset")
    pipelines, results = {}, []
    for name, (retriever, rules) in _METHODS.items():
        values = preset(folder / world.kind / "dataset", retriever=retriever, rules=rules).to_dict()
        about = {"method": name, "benchmark": f"{world.kind} world"}
        config = Config({**values, "metadata": about})
        pipelines[name] = make_pipeline(config, dataset)
        queries, place = dataset.query_set("full"), _run_folder(folder, world.kind, name)
        results.append(
            run_experiment(pipelines[name], dataset, queries, place, config=config, overwrite=True)
        )
    shown = ("answer_recall@10", "answer_recall@10_union", "exact_match", "token_f1")
    say(results_table(results, shown).to_markdown())
    answers = pipelines["symbolic"].answer(dataset.query_set("supported"))
    explained = _explain(answers, pipelines["symbolic"].generator, progress=progress)
    judged = dataset.qrels("test")
    held = sum(
        any(document.id in judged[one.query_id] for document in one.supporting) for one in explained
    )
    probes = sum(explanation.num_calls for explanation in explained)
    write_jsonl(folder / world.kind / "explanations.jsonl", (e.to_json() for e in explained))
    say(
        f"  explained {len(explained)} answers with {probes:,} probes; true supporting fact in a "
        f"minimal retention rule: {held} of {len(answers)}"
    )
    examples = _examples(world, dataset, pipelines[_SHOWN_METHOD])
    for explanation in examples[:1]:
        say("\n" + "\n".join(explanation_lines(explanation)))
    summary = {
        "mining": asdict(check),
        "methods": results,
        "explained": len(explained),
        "true_support_in_minimal_retention_rule": held,
        "supported_queries": len(answers),
        "probes": probes,
    }
    return _WorldRun(summary, results, bank, world, [e.to_json() for e in examples])


def _examples(world: World, dataset: RuleQADataset, pipeline: RuleRAGPipeline) -> list[Explanation]:
    """Explanations worth a look: right answers beside wrong ones, on which rules disagree first.

    They come from text retrieval, whose ten documents hold distractors too.
    """
    found: dict[bool, dict[str, list[Answer]]] = {
        right: {kind: [] for kind in ("conflict", "agree", "plain")} for right in (True, False)
    }
    for answer in pipeline.answer(dataset.query_set("full")):
        query = answer.query
        truth = world.find(query.subject, query.relation, query.timestamp)
        if truth is not None and answer.text:
            matches = bool(exact_match(answer.text, query.answers))
            found[matches].setdefault(truth.kind, []).append(answer)
    # One right answer of a kind, and the first wrong ones, of whatever kind they are.
    right = [one for group in found[True].values() for one in group[:1]]
    wrong = [one for group in found[False].values() for one in group]
    chosen = [*right[:_SHOWN], *wrong[:_SHOWN]]
    return _explain(chosen, pipeline.generator, progress=False)


def _run_folder(folder: Path, kind: str, method: str) -> Path:
    return folder / kind / "-".join(_METHODS[method])


def _explain(answers: Sequence[Answer], generator: Any, *, progress: bool) -> list[Explanation]:
    answered = [answer for answer in answers if answer.text and answer.documents]
    bar = tqdm(answered, "explaining", disable=not progress, unit="answer")
    return [explain_answer(answer, generator).explanation for answer in bar]


def _write_page(folder: Path, worlds: dict[str, _WorldRun], seconds: float) -> None:
    both = list(worlds.values())
    places = [(kind, result) for kind, part in worlds.items() for result in part.results]
    write_report(
        folder / "report.html",
        title="rulerag demo: rules lead to documents, documents to answers",
        glance=_glance(both, seconds),
        results=[result for _, result in places],
        predictions=[
            list(read_jsonl(_run_folder(folder, kind, result["method"]) / "predictions.jsonl"))
            for kind, result in places
        ],
        rules=[
            row
            for part in both
            for row in rule_rows(part.rules, [(p.rule, p.confidence) for p in part.world.planted])
        ],
        explanations=[row for part in both for row in part.explanations],
        about=[("command", "rulerag demo")],
    )


def _glance(both: Sequence[_WorldRun], seconds: float) -> list[tuple[str, str]]:
    """The first screen of the page: asked, answered, why, how sure, cost."""
    right: dict[str, int] = {}
    for result in (result for part in both for result in part.results):
        exact = round(result["metrics"]["exact_match"] * result["num_queries"])
        right[result["method"]] = right.get(result["method"], 0) + exact
    queries = sum(part.results[0]["num_queries"] for part in both)
    facts = " and ".join(f"{part.world.num_facts:,}" for part in both)
    mined, planted = (
        sum(part.summary["mining"][key] for part in both) for key in ("mined", "planted")
    )
    held = sum(part.summary["true_support_in_minimal_retention_rule"] for part in both)
    supported = sum(part.summary["supported_queries"] for part in both)
    probes = sum(part.summary["probes"] for part in both)
    probes += sum(row["num_calls"] for part in both for row in part.explanations)
    return [
        ("asked", f"{queries:,} questions about two generated worlds of {facts} facts"),
        ("answered", "; ".join(f"{name}: {n:,} of {queries:,} right" for name, n in right.items())),
        (
            "why",
            f"{mined} rules were mined from the facts, where {planted} had been planted; they say "
            "where to look, and answers are traced to the documents that they rest on",
        ),
        (
            "how sure",
            f"for {held:,} of the {supported:,} answers that a planted rule leads to, a smallest "
            "set of documents that is enough holds the true fact behind the answer",
        ),
        (
            "cost",
            f"{seconds:.0f} s, with {probes:,} subsets of documents asked to explain the answers",
        ),
    ]
