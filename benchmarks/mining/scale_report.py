"""The growth of mining as a Markdown table, a plot and one HTML page."""

from __future__ import annotations

import base64
from html import escape
from pathlib import Path
from typing import Any

from benchmarks.common.plotting import pyplot
from rulerag.io import atomic_write

_STYLE = {
    "amie": ("AMIE, 3 atoms", "#1f6f8b", "o"),
    "tlogic-1": ("TLogic, length 1", "#c8553d", "s"),
    "tlogic-123": ("TLogic, lengths 1-3", "#588157", "^"),
}
_HEADER = (
    "miner",
    "facts",
    "entities",
    "rules",
    "planted rules found",
    "joins",
    "CPU s",
    "µs per join",
    "exponent",
    "peak MB",
    "bytes per fact",
    "world CPU s",
    "world MB",
)

Row = dict[str, Any]


def write_reports(result: Row, folder: Path) -> str:
    """Write ``scale.md``, ``growth.png`` and ``scale.html``; return the Markdown."""
    text = _markdown(result)
    with atomic_write(folder / "scale.md") as file:
        file.write(text)
    done = [row for row in result["rows"] if "refused" not in row]
    _plot(done, folder / "growth.png")
    with atomic_write(folder / "scale.html") as file:
        file.write(_html(result, folder / "growth.png"))
    return text


def _cells(result: Row) -> list[list[str]]:
    lines, place = [], dict.fromkeys(result["exponents"], -1)
    for row in result["rows"]:
        name = row["miner"]
        words = _STYLE[name][0]
        if "refused" in row:
            refused = [words, f"{row['size']:,}", "", "", f"refused: {row['refused']}"]
            lines.append(refused + [""] * (len(_HEADER) - len(refused)))
            continue
        growth = result["exponents"][name][place[name]] if place[name] >= 0 else None
        place[name] += 1
        lines.append(
            [
                words,
                f"{row['size']:,}",
                f"{row['entities']:,}",
                f"{row['rules']:,}",
                f"{row['planted_found']} of {row['planted']}",
                f"{row['joins']:,}",
                f"{row['cpu']:.2f}",
                f"{1e6 * row['cpu'] / row['joins']:.2f}",
                "" if growth is None else f"{growth:.2f}",
                f"{row['memory_mb']:,.0f}",
                f"{1e6 * row['memory_mb'] / row['size']:,.0f}",
                f"{row['world_cpu']:.2f}",
                f"{row['world_mb']:,.0f}",
            ]
        )
    return lines


def _markdown(result: Row) -> str:
    lines = [
        "# Mining the embedded world at growing size",
        "",
        "`python -m benchmarks.mining.scale --out benchmarks/results/scale-mining`; one thread, a "
        "fresh process for each row, kernels cached. What a join is stands in the benchmark's "
        "docstring. The exponent compares the growth of CPU time with that of the joins from the "
        "row above: 1 is linear. Peak memory is that of the whole process with the world in it.",
        "",
        "| " + " | ".join(_HEADER) + " |",
        "| --- |" + " ---: |" * (len(_HEADER) - 1),
        *("| " + " | ".join(line) + " |" for line in _cells(result)),
        "",
        "![growth](growth.png)",
        "",
    ]
    return "\n".join(lines)


def _html(result: Row, image: Path) -> str:
    picture = base64.b64encode(image.read_bytes()).decode("ascii")
    head = "".join(f"<th>{escape(name)}</th>" for name in _HEADER)
    body = "\n".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in line) + "</tr>"
        for line in _cells(result)
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        "<title>Mining at growing size</title>\n<style>\n"
        "body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 76rem; }\n"
        "table { border-collapse: collapse; display: block; overflow-x: auto; }\n"
        "td, th { padding: .25rem .6rem; text-align: right; border-bottom: 1px solid #ddd; }\n"
        "td:first-child, th:first-child { text-align: left; }\nimg { max-width: 100%; }\n"
        "</style></head><body>\n<h1>Mining the embedded world at growing size</h1>\n"
        f'<img alt="CPU time and memory against facts" src="data:image/png;base64,{picture}">\n'
        f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table>\n</body></html>\n"
    )


def _plot(rows: list[Row], path: Path) -> None:
    """Time and memory against facts, both logarithmic, with a line that is linear in the joins."""
    plt = pyplot()
    figure, (left, right) = plt.subplots(1, 2, figsize=(10.4, 4.2), layout="constrained")
    for name, (words, color, marker) in _STYLE.items():
        mine = [row for row in rows if row["miner"] == name]
        if not mine:
            continue
        sizes = [row["size"] for row in mine]
        style = {"color": color, "marker": marker}
        left.plot(sizes, [row["cpu"] for row in mine], label=words, **style)
        last = mine[-1]
        linear = [last["cpu"] * row["joins"] / last["joins"] for row in mine]
        left.plot(sizes, linear, ":", color=color, alpha=0.8)
        right.plot(sizes, [row["memory_mb"] for row in mine], label=words, **style)
    left.plot([], [], ":", color="#444444", label="linear in the joins to be done")
    worlds: dict[int, float] = {}
    for row in rows:
        worlds[row["size"]] = max(worlds.get(row["size"], 0.0), row["world_mb"])
    sizes = sorted(worlds)
    right.plot(sizes, [worlds[s] for s in sizes], "--", color="#777777", label="world alone")
    left.set(xscale="log", yscale="log", xlabel="facts", ylabel="mining, CPU seconds")
    right.set(xscale="log", yscale="log", xlabel="facts", ylabel="peak memory of the process, MB")
    for axis in (left, right):
        axis.grid(alpha=0.3)
        axis.legend(fontsize=9)
    figure.savefig(path, dpi=130, metadata={"Software": None})
    plt.close(figure)
