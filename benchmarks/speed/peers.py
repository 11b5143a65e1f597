"""Hot paths beside other programs, where those are installed; named and passed over where not."""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common.folders import shared_folder
from benchmarks.speed.paths import child_seconds, made_up_texts, ruleqa_i
from benchmarks.speed.timing import Timing, check_equal, hot_path, timed
from rulerag.errors import MissingDependencyError, needs_package
from rulerag.kg import KnowledgeGraph
from rulerag.mining.formats import load_amie
from rulerag.retrieval.dense.encoders import load_encoder
from rulerag.retrieval.lexical import BM25Retriever
from rulerag.rules import RuleBank


@hot_path("mining, whole command", "AMIE 3.5, whose class path RULERAG_AMIE is")
def mining_command() -> Iterator[Timing]:
    """From a file of facts to a file of rules, at AMIE's default thresholds."""
    if "RULERAG_AMIE" not in os.environ:
        raise MissingDependencyError("AMIE 3.5 (RULERAG_AMIE=its class path)")
    amie = ["java", "-Xmx6g", "-cp", os.environ["RULERAG_AMIE"], "amie.mining.AMIE"]
    for name in ("fb15k237", "nell995"):
        facts = KnowledgeGraph.load(shared_folder("data", name)).train
        with tempfile.TemporaryDirectory() as folder:
            graph, ours, theirs = (Path(folder) / one for one in ("facts.tsv", "ours", "theirs"))
            names = ("\t".join(fact[:3]) + "\n" for fact in facts)
            graph.write_text("".join(names), encoding="utf-8")
            command = [sys.executable, "-m", "rulerag.cli", "mine", str(graph), "--out", str(ours)]
            child_seconds(command)  # compiles the kernels
            seconds = child_seconds(command)
            baseline = child_seconds(
                [*amie, "-enstd", "-minc", "0", "-ofile", str(theirs), str(graph)]
            )
            bank = RuleBank.load(ours)
            check_equal(name, len(bank), len(load_amie(theirs)))
        yield Timing(f"{name}, {len(bank):,} rules", "run", 1, seconds, baseline)


@hot_path("loading", "pyarrow's CSV reader, a dictionary for each column")
def loading(size: int = 10**6) -> Iterator[Timing]:
    """A file of facts of names; ours leaves out copies, numbers entities and checks every line."""
    with needs_package("pyarrow", "ray"):
        arrow, csv = (importlib.import_module(one) for one in ("pyarrow", "pyarrow.csv"))

    rng, columns = np.random.default_rng(0), ("subject", "relation", "object")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "facts.tsv"
        ids = zip(
            *(rng.integers(0, most, size) for most in (size // 4, 40, size // 4)), strict=True
        )
        file.write_text("".join(f"entity_{s}\trel_{p}\tentity_{o}\n" for s, p, o in ids))
        form = arrow.dictionary(arrow.int32(), arrow.string())

        def theirs() -> Any:
            read = csv.ReadOptions(column_names=columns, use_threads=False)
            parse = csv.ParseOptions(delimiter="\t", quote_char=False)
            kinds = csv.ConvertOptions(column_types=dict.fromkeys(columns, form))
            return csv.read_csv(file, read, parse, kinds).unify_dictionaries()

        _, _, *seconds = timed(lambda: KnowledgeGraph.load(file), theirs)
    yield Timing("names, one file", "facts", size, *(one / size for one in seconds))


@hot_path("BM25", "bm25s, which leaves ties open")
def bm25() -> Iterator[Timing]:
    """The balanced questions of RuleQA-I, ten documents each."""
    with needs_package("bm25s"):
        import bm25s

    dataset = ruleqa_i()
    queries, index = dataset.query_set("balanced"), BM25Retriever(dataset.corpus, threads=1)
    words = [index.tokenizer(document.text) for document in dataset.corpus]
    peer = bm25s.BM25(k1=index.k1, b=index.b, method="lucene")
    peer.index(words, show_progress=False)

    def theirs() -> Any:
        asked = [index.tokenizer(query.text) for query in queries]
        return peer.retrieve(asked, k=10, show_progress=False, n_threads=1).scores

    def ours() -> Any:
        return index.search(queries, 10).scores

    index.search(queries, 10)  # loads the kernel
    found, expected, *seconds = timed(ours, theirs)
    check_equal("scores", np.allclose(found, expected, rtol=1e-4), True)
    size = len(queries)
    yield Timing("RuleQA-I", "queries", size, *(one / size for one in seconds))


@hot_path("encoding, all-MiniLM-L6-v2", "ONNX Runtime with its own optimization")
def encoding_onnx(size: int = 512) -> Iterator[Timing]:
    """Vectors that agree to 1e-6; the other way has its tokens cut and padded beforehand."""
    with needs_package("onnxruntime onnx"):
        onnxruntime, _ = (importlib.import_module(one) for one in ("onnxruntime", "onnx"))
    import torch

    encoder = load_encoder("all-minilm-l6-v2")
    ordered = sorted(made_up_texts(size), key=len, reverse=True)
    step, keys = encoder.batch_size, ("input_ids", "attention_mask", "token_type_ids")
    batches: list[Any] = []
    for start in range(0, size, step):
        part = encoder.model.tokenizer(ordered[start : start + step], padding=True)
        batches.append({key: np.array(part[key], np.int64) for key in keys})
    bert: Any = load_encoder("all-minilm-l6-v2").model[0].auto_model
    for module in bert.modules():
        vars(module).pop("forward", None)  # plain operators, which the export knows
    bert.set_attn_implementation("eager")

    class Hidden(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bert = bert

        def forward(self, *inputs: Any) -> Any:
            return self.bert(**dict(zip(keys, inputs, strict=True))).last_hidden_state

    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/model.onnx"
        axes: Any = {key: {0: "batch", 1: "token"} for key in (*keys, "hidden")}
        example = tuple(torch.tensor(batches[0][key]) for key in keys)
        names = {"input_names": list(keys), "output_names": ["hidden"], "dynamic_axes": axes}
        torch.onnx.export(Hidden(), example, file, dynamo=False, **names)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(file, options)

    def theirs() -> Any:
        vectors = []
        for batch in batches:
            mask = batch["attention_mask"][:, :, None]
            total = (session.run(None, batch)[0] * mask).sum(axis=1)
            vectors.append(total / np.linalg.norm(total, axis=1, keepdims=True))
        return np.concatenate(vectors)

    found, expected, *seconds = timed(lambda: encoder.encode(ordered), theirs)
    check_equal("vectors", np.allclose(found, expected, atol=1e-5), True)
    yield Timing("made-up sentences", "texts", size, *(one / size for one in seconds))
