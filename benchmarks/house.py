"""How large and how tangled a checkout is: the table that a rebuilding is measured by.

``python -m benchmarks.house BEFORE AFTER`` prints one column for each checkout.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from rulerag.console import guarded
from rulerag.errors import DataError
from rulerag.evaluation.tables import Cell, Table

__all__ = ["main", "measure"]

_PRIVATE_WORDS = (
    "twin|stairs?|staircase|board|finders?|ladder|rungs?|sketch|bridges|fade|sharpness|merit|"
    "counterclaim|orderly|cure|forgiven|needless|strays?|witness(?:es)?|Scratch|Remembered"
)
_WORD = re.compile(rf"\b(?:{_PRIVATE_WORDS})\b", re.IGNORECASE)


def measure(checkout: Path) -> dict[str, str]:
    """The figures of a checkout.

    Args:
        checkout: the folder that holds ``rulerag/`` and ``configs/``.

    Returns:
        What was counted, in words, and the figure.

    Raises:
        DataError: no library lies there.
    """
    library = checkout / "rulerag"
    files = sorted(path for path in library.rglob("*.py"))
    if not files:
        raise DataError("no library lies here", path=library, hint="name a checkout of rulerag")
    trees = {_module(path, checkout): ast.parse(path.read_text(encoding="utf-8")) for path in files}
    folders = Counter(path.parent for path in files if path.name != "__init__.py")
    imports = {name: set(_imports(name, tree, trees)) for name, tree in trees.items()}
    between = {
        (one.rpartition(".")[0], other.rpartition(".")[0])
        for one, others in imports.items()
        for other in others
    }
    mutual = {(a, b) for a, b in between if a < b and (b, a) in between}
    signatures = list(_signatures(trees))
    text = "\n".join(path.read_text(encoding="utf-8") for path in files)
    yaml = [p for p in (checkout / "configs").rglob("*") if p.suffix in (".yaml", ".yml")]
    return {
        "files of the library": f"{len(files)}",
        "lines of code in it": f"{sum(_lines_of_code(path) for path in files):,}",
        "most modules in a folder": f"{max(folders.values())}",
        "files in a circle of imports": f"{len(_in_circles(imports))}",
        "folders that import each other": f"{len(mutual)}",
        "most parameters of a constructor": f"{max(n for kind, n in signatures if kind == 'new')}",
        "most parameters of a function": f"{max(n for kind, n in signatures if kind == 'def')}",
        "YAML files in configs": f"{len(yaml)}",
        "private words left": f"{len(_WORD.findall(text))}",
    }


def _module(path: Path, root: Path) -> str:
    return ".".join(path.relative_to(root).with_suffix("").parts)


def _lines_of_code(path: Path) -> int:
    """Lines that hold code: no blank ones, comments or docstrings."""
    source = path.read_text(encoding="utf-8")
    texts = {
        number
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        for number in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    skipped = {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
    }
    code = {
        number
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type not in skipped
        for number in range(token.start[0], token.end[0] + 1)
    }
    return len(code - texts)


def _imports(name: str, tree: ast.Module, modules: Mapping[str, ast.Module]) -> Iterator[str]:
    """The library's modules that a module imports, but for type checkers."""
    for node in _executed(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                for found in (f"{node.module}.{alias.name}", node.module):
                    if found in modules and found != name:
                        yield found
                        break


def _executed(node: ast.AST) -> Iterator[ast.AST]:
    """Every node outside of ``if TYPE_CHECKING`` blocks."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        yield child
        yield from _executed(child)


def _in_circles(imports: Mapping[str, set[str]]) -> set[str]:
    """Modules that reach themselves."""

    @cache
    def reached(start: str) -> frozenset[str]:
        seen: set[str] = set()
        waiting = [start]
        while waiting:
            new = imports[waiting.pop()] - seen
            seen |= new
            waiting += new
        return frozenset(seen)

    return {name for name in imports if name in reached(name)}


def _signatures(trees: Mapping[str, ast.Module]) -> Iterator[tuple[str, int]]:
    """``new`` or ``def`` and how many parameters, for every constructor and function."""
    for tree in trees.values():
        for node in ast.walk(tree):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            taken = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            own = bool(taken) and taken[0].arg in ("self", "cls")
            yield ("new" if node.name == "__init__" else "def"), len(taken) - own


def main(argv: list[str] | None = None) -> None:
    """Print the table of the checkouts named on the command line."""
    folders = [Path(word) for word in (sys.argv[1:] if argv is None else argv)]

    def work() -> None:
        measured = [measure(folder) for folder in folders or [Path()]]
        names = [folder.name or "here" for folder in folders or [Path()]]
        rows = tuple((Cell(k), *(Cell(one[k]) for one in measured)) for k in measured[0])
        sys.stdout.write(Table(("", *names), rows).to_markdown())

    sys.exit(guarded(work))


if __name__ == "__main__":
    main()
