"""Old module names: each says in one error where its code is now."""

from __future__ import annotations

import importlib
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

import rulerag
from rulerag.lazy import MovedFinder

ROOT = Path(rulerag.__file__).parents[1]
TABLE = tomllib.loads((ROOT / "rulerag" / "moved.toml").read_text(encoding="utf-8"))
MOVED = [(old, new) for new, names in TABLE["moved"].items() for old in names]


def exists(name: str) -> bool:
    place = ROOT / name.replace(".", "/")
    return place.with_suffix(".py").is_file() or (place / "__init__.py").is_file()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("rulerag.mining.tlogic", "rulerag.mining.temporal"),
        ("rulerag.explanation.provenance", "rulerag.explanation.report"),
        ("rulerag.registry", "rulerag.composition"),
        ("rulerag.build", "rulerag.assembly"),
        ("rulerag.dataset", "rulerag.ruleqa"),
        ("training.nano_llama", "training.shipped.reader"),
    ],
)
def test_an_old_module_names_the_new_one(old: str, new: str) -> None:
    importlib.import_module(old.partition(".")[0])
    with pytest.raises(ModuleNotFoundError, match=f"^{old} has moved to {new}$"):
        importlib.import_module(old)
    package, _, name = old.rpartition(".")
    with pytest.raises(ModuleNotFoundError, match=f"has moved to {new}$"):
        exec(f"from {package} import {name}", {})


def test_a_module_without_a_successor_says_why() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"amie_constants is gone: .* constants"):
        importlib.import_module("rulerag.mining.amie_constants")


def test_a_name_that_never_was_is_as_unknown_as_anywhere() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"^No module named 'rulerag\.nosuch'$"):
        importlib.import_module("rulerag.nosuch")


def test_the_table_leads_from_what_is_gone_to_what_is_there() -> None:
    assert len(MOVED) == len(dict(MOVED)) > 150
    for old, new in MOVED:
        assert not old.startswith("rulerag.") or not exists(old), old
        assert not new.startswith("rulerag.") or exists(new), new


def test_an_old_command_of_a_checkout_is_named_too() -> None:
    command = [sys.executable, "-m", "training.nano_llama"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode and "has moved to training.shipped.reader" in done.stderr


def test_it_costs_nothing_until_an_import_fails() -> None:
    finder = next(one for one in sys.meta_path if isinstance(one, MovedFinder))
    assert sum(isinstance(one, MovedFinder) for one in sys.meta_path) == 1
    began = time.process_time()
    for _ in range(100):
        finder.find_spec("numpy.nosuch")
    assert time.process_time() - began < 0.05
