"""Build the documentation site: ``python scripts/build_site.py`` writes it to ``site/``.

README and docs are copied into ``build/site``; what they link to elsewhere in the repository
(tables of results, configurations, tests) is copied beside them, so that the site needs no other
host. The pages of the command line and of the API come from the code; ``llms.txt`` lists all.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_LINK = re.compile(r"(\]\()([^)\s#]+)((?:#[^)\s]*)?\))")
_APPS = ("cli", "studio", "parallel")  # commands and pages, which nobody imports
_ADDRESS = re.compile(r"^[a-z]+:")


def stage(folder: Path) -> list[tuple[str, str]]:
    """Write all pages and the site's configuration.

    Args:
        folder: gets ``docs`` and ``mkdocs.yml``; what was there goes.

    Returns:
        Path and title of each page that is written here or stands in docs.
    """
    import yaml

    os.environ["COLUMNS"] = "100"  # of the help texts
    shutil.rmtree(folder, ignore_errors=True)
    docs = folder / "docs"
    placed = {ROOT / "README.md": "index.md", ROOT / "CHANGELOG.md": "changelog.md"}
    for file in sorted((ROOT / "docs").rglob("*")):
        if file.is_file():
            placed[file] = file.relative_to(ROOT / "docs").as_posix()
    pages = dict(placed)
    waiting = list(placed)
    while waiting:
        file = waiting.pop()
        target = docs / placed[file]
        target.parent.mkdir(parents=True, exist_ok=True)
        if file.is_dir():
            target.write_text(_listing(file, placed, waiting), encoding="utf-8")
        elif file.suffix == ".md":
            target.write_text(_relinked(file, placed, waiting), encoding="utf-8")
        else:
            shutil.copyfile(file, target)
    made = {"command-line.md": _command_line(), **dict(_api())}
    for name, text in made.items():
        (docs / name).parent.mkdir(parents=True, exist_ok=True)
        (docs / name).write_text(text, encoding="utf-8")
    listed = [*sorted(n for n in pages.values() if n.endswith(".md")), *made]
    titles = [(name, _title(docs / name)) for name in listed]
    (docs / "llms.txt").write_text(_for_models(titles, docs), encoding="utf-8")
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    config["nav"].append({"API": [n for n in made if n.startswith("api/")]})
    config |= {"docs_dir": "docs", "site_dir": "site"}
    handler = config["plugins"][1]["mkdocstrings"]["handlers"]["python"]
    handler["paths"] = [str(ROOT)]
    handler["options"]["extensions"] = [str(ROOT / "scripts" / "docstring_roles.py")]
    (folder / "mkdocs.yml").write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
    return titles


def _relinked(file: Path, placed: dict[Path, str], waiting: list[Path]) -> str:
    """A page whose links lead to where the files stand in the site."""

    def place(match: re.Match[str]) -> str:
        if _ADDRESS.match(match[2]):
            return match[0]
        to = (file.parent / match[2]).resolve()
        where = _place(to, placed, waiting)
        if where is None:
            raise SystemExit(f"{file.relative_to(ROOT)}: no file {match[2]}; mend the link")
        return match[1] + os.path.relpath(where, Path(placed[file]).parent) + match[3]

    return _LINK.sub(place, file.read_text(encoding="utf-8"))


def _place(to: Path, placed: dict[Path, str], waiting: list[Path]) -> str | None:
    """Where a file of the repository stands in the site; it is copied if it was not yet."""
    if to not in placed:
        if not to.exists() or not to.is_relative_to(ROOT):
            return None
        inside = to.relative_to(ROOT).as_posix()
        placed[to] = f"repository/{inside}" + ("/index.md" if to.is_dir() else "")
        waiting.append(to)
    return placed[to]


def _listing(folder: Path, placed: dict[Path, str], waiting: list[Path]) -> str:
    lines = [f"# {folder.relative_to(ROOT)}\n"]
    for file in sorted(folder.iterdir()):
        if file.suffix in (".md", ".json", ".jsonl", ".csv", ".yaml", ".py", ".svg", ".png"):
            where = _place(file, placed, waiting) or ""
            lines.append(f"- [{file.name}]({os.path.relpath(where, Path(placed[folder]).parent)})")
    return "\n".join(lines) + "\n"


def _command_line() -> str:
    """The help of every command."""
    from rulerag.cli import main as command_line
    from rulerag.cli.app import COMMANDS

    parts = ["# Command line\n\nWhat `--help` of each command says.\n"]
    for name in ["", *COMMANDS]:
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):
            command_line([*name.split(), "--help"])
        parts.append(
            f"## rulerag {name}".rstrip() + f"\n\n```text\n{said.getvalue().strip()}\n```\n"
        )
    return "\n".join(parts)


def _api() -> Iterator[tuple[str, str]]:
    """A page for each package: the names that it offers, by their docstrings."""
    import griffe
    from docstring_roles import as_markdown

    library = griffe.load("rulerag", search_paths=[str(ROOT)])
    for init in sorted((ROOT / "rulerag").rglob("__init__.py")):
        package = ".".join(init.parent.relative_to(ROOT).parts)
        tree = ast.parse(init.read_text(encoding="utf-8"))
        homes = {
            alias.name: node.module or ""
            for block in tree.body
            if isinstance(block, ast.If)
            for node in block.body
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        if not homes or (*package.split("."), "")[1] in _APPS:
            continue
        lines = [f"# {package}\n\n{as_markdown(ast.get_docstring(tree) or '')}\n"]
        links: list[str] = []
        for name, home in homes.items():
            place = f"{home}.{name}".removeprefix("rulerag.")
            with contextlib.suppress(KeyError):  # a name that is made when it is first used
                library[place]
                # What the library's public API takes from a package stands on the package's page.
                if package == "rulerag" and (ROOT / home.replace(".", "/")).is_dir():
                    links.append(f"- [`{name}`][{home}.{name}]")
                else:
                    lines.append(f"::: {package}.{name}\n")
        lines[1:1] = [*links, ""]
        yield f"api/{package}.md", "\n".join(lines) + "\n"


def _title(page: Path) -> str:
    found = re.search(r"^# (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return found[1] if found else page.stem


def _for_models(pages: list[tuple[str, str]], docs: Path) -> str:
    """The list of pages for language models (llmstxt.org)."""
    lines = ["# rulerag\n"]
    said = (docs / "index.md").read_text(encoding="utf-8").split("\n\n")[1]
    lines.append(f"> {said}\n\n## Docs\n")
    lines += [f"- [{title}]({name.removesuffix('.md')}.html)" for name, title in pages]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Stage and build; the status of the builder, which stops at a link that leads nowhere."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "site", help="where the site goes")
    out = parser.parse_args().out.resolve()
    folder = ROOT / "build" / "site"
    pages = stage(folder)
    builder = [str(Path(sys.executable).parent / "zensical"), "build", "--strict", "--clean"]
    done = subprocess.run(
        [*builder, "-f", str(folder / "mkdocs.yml")], env={**os.environ, "NO_COLOR": "1"}
    )
    if done.returncode:
        return done.returncode
    shutil.rmtree(out, ignore_errors=True)
    shutil.move(folder / "site", out)
    sys.stdout.write(f"{len(pages)} pages; open {out / 'index.html'}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
