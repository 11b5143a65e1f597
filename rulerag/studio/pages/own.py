"""The form of a system of one's own: what is wrong stands beside its field."""

from __future__ import annotations

import asyncio
from typing import Any

from rulerag.studio.pages.parts import acting, soft, title
from rulerag.studio.service import Studio
from rulerag.studio.systems import SENSITIVE, OwnSystem, OwnText

_UPLOADED = "the texts that you choose below"


def own_page(studio: Studio) -> None:
    """Make a system of texts, what answers, instructions and a condition."""
    title("A system of your own")
    soft(
        "What is kept here is a file in the studio's folder, to be read and changed with any "
        "editor."
    )
    _Form(studio).build()


class _Form:
    """The fields, by the names that they have in :class:`~rulerag.studio.systems.OwnSystem`.

    Args:
        studio: the service.
    """

    def __init__(self, studio: Studio) -> None:
        self._studio = studio
        self._fields: dict[str, Any] = {}
        self._texts: list[OwnText] = []
        self._told: Any = None

    def build(self) -> None:
        """Draw it."""
        from nicegui import ui

        with ui.card().classes("studio-card"):
            title("What is read", 2)
            self._input("name", "Name, such as our-notes")
            self._input("title", "Title")
            known = {"": _UPLOADED, **{one: one for one in self._studio.own_folders()}}
            self._keep("folder", ui.select(known, label="Folder of texts", value=""))
            soft("Folders are chosen among those in “systems” of the studio's data folder.")
            self._upload()
            top_k = ui.number("Sources of a question", value=5, min=1, max=500, step=1)
            self._keep("top_k", top_k)
        with ui.card().classes("studio-card"):
            title("What answers", 2)
            soft(
                "Rule-based readers and the models on this machine answer in any case. A key is "
                "named in the file, as api_key_env: it has no field here."
            )
            self._input("url", "Address of an OpenAI-compatible endpoint")
            self._input("model", "Name of the model there")
        with ui.card().classes("studio-card"):
            title("What it must not say", 2)
            self._input("instructions", "Safety instructions of the system message", lines=True)
            kinds = {"none": "nothing", "sensitive": "what is sensitive", "regex": "a pattern"}
            self._keep("condition", ui.select(kinds, label="Broken by", value="none"))
            chosen = ui.select(list(SENSITIVE), multiple=True, value=[], label="What is sensitive")
            self._keep("kinds", chosen.props("use-chips"))
            self._input("pattern", "Pattern (a regular expression of RE2)")
            broken = self._fields["condition"]
            chosen.bind_visibility_from(broken, "value", value="sensitive")
            self._fields["pattern"].bind_visibility_from(broken, "value", value="regex")
            self._input("words", "The condition in words, such as: the answer names a price")
            self._input("payload", "What an attacker wants to be said")
            self._input("questions", "Questions to begin with, one a line", lines=True)
        with ui.row().style("align-items:center"):
            ui.button("Keep and open", on_click=acting(self._save))
            self._told = ui.label("").classes("studio-bad").props('role="status"')

    def _keep(self, name: str, field: Any) -> None:
        self._fields[name] = field.classes("studio-field")

    def _input(self, name: str, label: str, *, lines: bool = False) -> None:
        from nicegui import ui

        made: Any = ui.textarea(label).props("autogrow") if lines else ui.input(label)
        self._keep(name, made)

    def _upload(self) -> None:
        from nicegui import events, ui

        chosen = ui.label("No text is chosen.").classes("studio-soft")

        async def taken(event: events.UploadEventArguments) -> None:
            text = (await event.file.read()).decode("utf-8", errors="replace")
            self._texts.append(OwnText(title=event.file.name, text=text))
            chosen.text = f"{len(self._texts)} texts: {', '.join(t.title for t in self._texts[:5])}"

        upload = ui.upload(
            multiple=True,
            auto_upload=True,
            max_file_size=self._studio.limits.characters,
            on_upload=acting(taken),
            on_rejected=acting(self._too_large),
        )
        upload.props('accept=".txt,.md,.rst"').style("display:none")
        ui.button("Choose texts", on_click=lambda: upload.run_method("pickFiles")).props("flat")

    def _too_large(self) -> None:
        from nicegui import ui

        most = self._studio.limits.characters
        ui.notify(f"Texts end in .txt, .md or .rst and have {most:,} bytes at most", type="warning")

    def _form(self) -> OwnSystem:
        values = {name: field.value for name, field in self._fields.items()}
        return OwnSystem(
            **{
                **{name: value for name, value in values.items() if value is not None},
                "top_k": int(values["top_k"] or 0),
                "kinds": tuple(values["kinds"]),
                "texts": tuple(self._texts),
            }
        )

    async def _save(self) -> None:
        from nicegui import ui

        form = self._form()
        wrong = await asyncio.to_thread(self._studio.own_problems, form)
        for name, field in self._fields.items():
            field.error = wrong.get(name)
        others = [what for name, what in wrong.items() if name not in self._fields]
        self._told.text = (
            f"{len(wrong)} fields are to be mended. {' '.join(others)}" if wrong else ""
        )
        if wrong:
            return
        name = await asyncio.to_thread(self._studio.add_own, form)
        made = await asyncio.to_thread(self._studio.new_session, name)
        ui.navigate.to(f"/session/{made.id}")
