"""The house rules that a linter cannot keep: sizes, light imports, one package, pins that fit."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import rulerag

ROOT = Path(__file__).resolve().parent.parent
FILE_BUDGET = 600
FUNCTION_BUDGET = 40
FOLDERS = ("rulerag", "benchmarks", "training", "tests")

# Never loaded by an import, only by the call that needs it.
ALWAYS_LAZY = {
    "bm25s",
    "datasets",
    "faiss",
    "fastapi",
    "jnius",
    "mcp",
    "nicegui",
    "openai",
    "pymilvus",
    "pyserini",
    "ray",
    "sentence_transformers",
    "torch",
    "transformers",
}

# By the module of rulerag.integrations that imports it at its top.
FRAMEWORKS = {
    "deepeval": "deepeval",
    "haystack": "haystack",
    "langchain": "langchain_core",
    "llama_index": "llama_index",
    "ragas": "ragas",
}


@cache
def sources() -> tuple[Path, ...]:
    """Every Python file that git knows or would know; without git, every one outside `.venv`."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.py"]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    if listing.returncode == 0:
        names = [ROOT / name for name in listing.stdout.decode().split("\0") if name]
    else:
        names = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    found = tuple(sorted(path for path in names if path.is_file()))
    assert len(found) > 20, "the listing itself is broken"
    return found


def test_no_file_is_over_its_budget() -> None:
    lengths = {path: path.read_text(encoding="utf-8").count("\n") for path in sources()}
    too_long = {str(p.relative_to(ROOT)): n for p, n in lengths.items() if n > FILE_BUDGET}
    assert not too_long, f"split these by concept: {too_long}"


def _length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function from its `def`, without its docstring."""
    lines = (function.end_lineno or function.lineno) - function.lineno + 1
    if ast.get_docstring(function, clean=False) is not None:
        text = function.body[0]
        lines -= (text.end_lineno or text.lineno) - text.lineno + 1
    return lines


@pytest.mark.parametrize("folder", FOLDERS)
def test_functions_are_short(folder: str) -> None:
    lengths = sorted(
        (_length(node), f"{path.relative_to(ROOT)}:{node.lineno} {node.name}")
        for path in sources()
        if path.relative_to(ROOT).parts[0] == folder
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    at_95 = lengths[int(0.95 * len(lengths))][0] if lengths else 0
    assert at_95 <= FUNCTION_BUDGET, f"the longest: {lengths[-5:]}"


def test_folders_hold_twelve_modules_at_most() -> None:
    folders = Counter(
        path.parent.relative_to(ROOT)
        for path in sources()
        if path.name not in ("__init__.py", "__main__.py")
        and path.relative_to(ROOT).parts[0] in ("rulerag", "benchmarks", "training")
    )
    assert {str(folder): n for folder, n in folders.items() if n > 12} == {}


def test_signatures_are_short() -> None:
    """Eight parameters of a constructor, twelve of a function; settings hold the rest."""
    long = []
    for path in sources():
        if path.relative_to(ROOT).parts[0] != "rulerag":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                taken = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                own = bool(taken) and taken[0].arg in ("self", "cls")
                if len(taken) - own > (8 if node.name == "__init__" else 12):
                    long.append(f"{path.relative_to(ROOT)}:{node.lineno} {node.name}")
    assert long == []


def _package(name: str) -> str:
    return name.rpartition(".")[0]


@pytest.mark.parametrize("folder", ["rulerag", "benchmarks", "training"])
def test_no_two_folders_import_each_other(folder: str) -> None:
    files = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts): path
        for path in sources()
        if path.relative_to(ROOT).parts[0] == folder
    }
    between = set()
    for name, path in files.items():
        if path.name == "__init__.py":  # it names what lies inside
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                # A name of a public API, or a module of the package.
                for imported in (node.module, *(f"{node.module}.{a.name}" for a in node.names)):
                    package = imported if f"{imported}.__init__" in files else _package(imported)
                    between.add((_package(name), package))
    # What lies in the library's own folder stands on several layers.
    between = {(a, b) for a, b in between if folder not in (a, b)}
    assert {(a, b) for a, b in between if a < b and (b, a) in between} == set()


def test_every_module_says_what_it_is() -> None:
    silent = [
        str(path.relative_to(ROOT))
        for path in sources()
        if path.relative_to(ROOT).parts[0] != "tests"
        and not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert silent == []


# --- light imports -----------------------------------------------------------------------------


def _loaded_after(code: str, environment: dict[str, str] | None = None) -> set[str]:
    """Top-level modules of a fresh interpreter after running the code in it."""
    report = """
import json, sys
print(json.dumps(sorted({name.split(".")[0] for name, module in sys.modules.items() if module})))
"""
    run = subprocess.run(
        [sys.executable, "-c", code + report],
        cwd=ROOT,
        env=environment or {**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return set(json.loads(run.stdout.splitlines()[-1]))


def test_importing_rulerag_loads_nothing_heavy() -> None:
    loaded = _loaded_after("import rulerag")
    assert "rulerag" in loaded
    heavy = ALWAYS_LAZY | {"jnius_config", "numba", "numpy", "pandas", "polars", "scipy", "sklearn"}
    assert loaded & heavy == set()


def _every_module() -> str:
    """All but those of other frameworks and the studio's site, the only ones to import these."""
    files = [p.relative_to(ROOT) for p in sources() if p.relative_to(ROOT).parts[0] == "rulerag"]
    modules = [".".join(file.with_suffix("").parts).removesuffix(".__init__") for file in files]
    around = {f"rulerag.integrations.{name}" for name in FRAMEWORKS}
    around |= {m for m in modules if m.startswith(("rulerag.studio.pages.", "rulerag.studio.web."))}
    assert around <= set(modules)
    names = (name for name in modules if not name.endswith(".__main__") and name not in around)
    return "import " + ", ".join(names)


def test_no_module_of_rulerag_loads_a_lazy_library_by_being_imported() -> None:
    loaded = _loaded_after(_every_module())
    assert loaded & (ALWAYS_LAZY | set(FRAMEWORKS.values())) == set()


def test_every_module_imports_with_the_packages_of_the_demo_alone(
    lean_environment: dict[str, str],
) -> None:
    loaded = _loaded_after(_every_module(), lean_environment)
    assert {"rulerag", "numpy", "numba"} <= loaded
    without = """
try:
    import torch
except ModuleNotFoundError:
    pass
else:
    raise SystemExit("the lean environment is not lean")
"""
    assert "torch" not in _loaded_after(without, lean_environment)


def test_the_demo_runs_with_its_packages_alone(
    tmp_path: Path, lean_environment: dict[str, str]
) -> None:
    run = subprocess.run(
        [sys.executable, "-c", "from rulerag.cli import main; main()", "demo", "--out", "out"],
        cwd=tmp_path,
        env=lean_environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert {"report.html", "metrics.json"} <= {path.name for path in (tmp_path / "out").iterdir()}


# --- the package -------------------------------------------------------------------------------


def _project() -> dict[str, object]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_wheel_holds_rulerag_and_nothing_else(tmp_path: Path) -> None:
    from hatchling.builders.wheel import WheelBuilder

    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (entry_points,) = (n for n in names if n.endswith("entry_points.txt"))
        assert "rulerag = rulerag.cli:main" in archive.read(entry_points).decode()
    packaged = {name.split("/")[0] for name in names}
    assert packaged == {"rulerag", f"rulerag-{rulerag.__version__}.dist-info"}
    assert {"rulerag/py.typed", "rulerag/kg/graph.py"} <= set(names)


def test_the_version_is_said_twice_and_equal() -> None:
    assert _project()["version"] == rulerag.__version__


def _requirements() -> dict[str, list[Requirement]]:
    project = _project()
    groups = {"core": project["dependencies"], **project["optional-dependencies"]}
    return {name: [Requirement(line) for line in lines] for name, lines in groups.items()}


def _pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    lines = [line for line in lines if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+", line) for line in lines), (
        "exact pins only: no host, no path, no build of one machine"
    )
    return {canonicalize_name(name): version for name, version in (x.split("==") for x in lines)}


def test_every_dependency_has_a_pin_inside_its_range() -> None:
    pins = _pins()
    for group, requirements in _requirements().items():
        for requirement in requirements:
            if requirement.name == "rulerag":
                continue
            pin = pins.get(canonicalize_name(requirement.name))
            assert pin is not None, f"{requirement.name} ({group}) has no pin"
            assert requirement.specifier, f"{requirement.name} ({group}) has no range"
            assert requirement.specifier.contains(pin), f"{requirement} excludes its pin {pin}"


def test_all_names_every_extra_that_a_user_can_ask_for() -> None:
    groups = _requirements()
    (everything,) = groups["all"]
    assert everything.extras == set(groups) - {"core", "all", "test", "dev"}


def test_the_core_is_light_and_every_dependency_is_imported() -> None:
    core = {requirement.name for requirement in _requirements()["core"]}
    heavy = {"torch", "transformers", "sentence-transformers", "datasets", "faiss-cpu", "openai"}
    assert core.isdisjoint(heavy)
    sources = "\n".join(
        file.read_text(encoding="utf-8")
        for folder in ("rulerag", "benchmarks", "training")
        for file in (ROOT / folder).rglob("*.py")
    )
    modules = {
        "beautifulsoup4": "bs4",
        "faiss-cpu": "faiss",
        "google-re2": "re2",
        "markdown-it-py": "markdown_it",
        "opentelemetry-proto": "opentelemetry.proto.collector.trace.v1.trace_service_pb2",
        "pyyaml": "yaml",
        "scikit-learn": "sklearn",
        "llama-index-core": "llama_index",
    }
    for group, requirements in _requirements().items():
        for name in {requirement.name for requirement in requirements} - {"rulerag"}:
            module = modules.get(name, name.replace("-", "_"))
            imported = rf"(import|from) {module}\b|(import_module|find_spec|\()\(?\s*\"{module}\""
            assert group in ("test", "dev") or re.search(imported, sources), name
