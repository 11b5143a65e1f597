"""The screens for trainers: the rule bank of a benchmark, and runs query by query."""

from __future__ import annotations

import asyncio
from typing import Any

from rulerag.errors import RuleRAGError
from rulerag.studio.benchmarks import FAILURES, RunRow, compared
from rulerag.studio.pages.parts import acting, copy_button, soft, table, text_label, title
from rulerag.studio.service import Studio, bench_snippets, run_snippets

_MOST = 200


def rules_page(studio: Studio, system: str) -> None:
    """Search the bank of a benchmark; see what its documents say for and against a rule."""
    from nicegui import ui

    title("Rule bench")
    known = [one["name"] for one in studio.systems() if "symbolic" in _types(one)]
    if not known:
        soft("No benchmark is open: start the studio with --dataset FOLDER.")
        return
    name = system if system in known else known[0]
    ui.select(known, label="Benchmark", value=name).on_value_change(
        lambda event: ui.navigate.to(f"/rules/{event.value}")
    )
    words = ui.input("Words that the rule holds").style("width:100%")

    async def search() -> None:
        found = await asyncio.to_thread(studio.search_rules, name, words.value or "")
        area.clear()
        with area:
            soft(f"{len(found)} rules, the most confident first; 50 at most")
            for row in found:
                _rule(studio, name, row)

    with ui.row():
        ui.button("Search", on_click=acting(search))
        copy_button(lambda: bench_snippets(name, words.value or ""))
    area = ui.column().style("width:100%")
    words.on("keydown.enter", acting(search))


def _types(system: dict[str, Any]) -> set[str]:
    return {str(one["type"]) for one in system["generators"]}


def _rule(studio: Studio, system: str, row: dict[str, Any]) -> None:
    from nicegui import ui

    with ui.card().classes("studio-card"):
        text_label(row["text"])
        measured = [
            f"{name.replace('_', ' ')} {value:.3f}"
            if isinstance(value, float)
            else f"{name} {value}"
            for name in ("confidence", "pca_confidence", "head_coverage", "support")
            if (value := row.get(name)) is not None
        ]
        soft(", ".join(measured))
        area = ui.column()

        async def show() -> None:
            found = await asyncio.to_thread(studio.rule_examples, system, row["id"])
            area.clear()
            with area:
                soft(f"In the facts of the documents, {found['looked_at']} subjects looked at:")
                for line in found["holds"]:
                    text_label(f"+ {line}")
                for line in found["fails"]:
                    text_label(f"− {line}")
                if not found["holds"] and not found["fails"]:
                    soft("no grounding")

        ui.button("Groundings and counterexamples", on_click=acting(show)).props("flat dense")


def runs_page(studio: Studio) -> None:
    """A run of `rulerag evaluate` by query; a second one beside it."""
    from nicegui import ui

    title("Runs")
    names = studio.runs()
    if not names:
        soft("No run is open: start the studio with --run FOLDER.")
        return
    with ui.row().style("gap:12px;align-items:end"):
        first = ui.select(names, label="Run", value=names[0])
        second = ui.select({"": "none", **{one: one for one in names}}, label="Beside", value="")
        outcomes = {"": "any", **{one: one for one in FAILURES}}
        outcome = ui.select(outcomes, label="Outcome", value="")
        words = ui.input("Words of the question")
        rule = ui.input("Rule (id)")

    async def show() -> None:
        try:
            run = await asyncio.to_thread(studio.run, str(first.value))
            other = await asyncio.to_thread(studio.run, second.value) if second.value else None
        except RuleRAGError:
            area.clear()
            raise
        rows = run.filtered(
            outcome=outcome.value or "", rule=(rule.value or "").strip(), words=words.value or ""
        )
        area.clear()
        with area:
            table(
                ("outcome", "queries", "how it is decided"),
                [(name, str(n), FAILURES[name]) for name, n in run.outcomes.items()],
                f"{run.name}: {len(run.rows)} queries",
            )
            if other is None:
                _rows(rows)
                return
            kept = {row.query_id for row in rows}
            pairs = [pair for pair in compared(run, other) if pair[0].query_id in kept]
            table(
                ("question", run.name, other.name),
                [
                    (
                        one.question,
                        f"{one.outcome}: {one.answer or '(none)'}",
                        f"{two.outcome}: {two.answer or '(none)'}",
                    )
                    for one, two in pairs[:_MOST]
                ],
                f"{len(pairs)} queries came out otherwise; {min(len(pairs), _MOST)} are shown",
            )

    with ui.row():
        ui.button("Show", on_click=acting(show))
        copy_button(lambda: run_snippets(str(first.value), outcome.value or ""))
    area = ui.column().style("width:100%")


def _rows(rows: list[RunRow]) -> None:
    table(
        ("question", "answer", "accepted", "outcome"),
        [
            (row.question, row.answer or "(none)", ", ".join(row.answers[:5]), row.outcome)
            for row in rows[:_MOST]
        ],
        f"{len(rows)} queries; {min(len(rows), _MOST)} are shown",
    )
