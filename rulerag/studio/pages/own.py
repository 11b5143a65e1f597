"""The form of a system of one's own: what is wrong stands beside its field."""

from __future__ import annotations

import asyncio
from typing import Any

from nicegui import ui

from rulerag.studio.pages.parts import acting, card, soft, title, upload, visitor
from rulerag.studio.service import Studio
from rulerag.studio.systems import SENSITIVE, FormText, SystemForm

_UPLOADED = "the texts that you choose below"


def own_page(studio: Studio) -> None:
    """Make a system of texts, what answers, instructions and a condition."""
    title("A system of your own")
    soft(
        "What is kept here is a file in the studio's folder, to be read and changed with any "
        "editor."
    )
    _Form(studio)


class _Form:
    """The fields, by the names that they have in :class:`~rulerag.studio.systems.SystemForm`.

    Args:
        studio: the service.
    """

    def __init__(self, studio: Studio) -> None:
        self._studio = studio
        self._fields: dict[str, Any] = {}
        self._texts: list[FormText] = []
        with card("What is read"):
            self._input("name", "Name, such as our-notes")
            self._input("title", "Title")
            known = {"": _UPLOADED, **{one: one for one in self._studio.own.folders()}}
            self._keep("folder", ui.select(known, label="Folder of texts", value=""))
            soft("Folders are chosen among those in “systems” of the studio's data folder.")
            self._upload()
            top_k = ui.number("Sources of a question", value=5, min=1, max=500, step=1)
            self._keep("top_k", top_k)
        with card("What answers"):
            soft(
                "Rule-based readers and the models on this machine answer in any case. A key is "
                "named in the file, as api_key_env: it has no field here."
            )
            self._input("url", "Address of an OpenAI-compatible endpoint")
            self._input("model", "Name of the model there")
        with card("What it must not say"):
            self._input("instructions", "Safety instructions of the system message", lines=True)
            kinds = {"none": "nothing", "sensitive": "what is sensitive", "regex": "a pattern"}
            broken = self._keep("condition", ui.select(kinds, label="Broken by", value="none"))
            chosen = ui.select(list(SENSITIVE), multiple=True, value=[], label="What is sensitive")
            self._keep("kinds", chosen.props("use-chips"))
            pattern = self._input("pattern", "Pattern (a regular expression of RE2)")
            chosen.bind_visibility_from(broken, "value", value="sensitive")
            pattern.bind_visibility_from(broken, "value", value="regex")
            self._input("words", "The condition in words, such as: the answer names a price")
            self._input("payload", "What an attacker wants to be said")
            self._input("questions", "Questions to begin with, one a line", lines=True)
        with ui.row():
            ui.button("Keep and open", on_click=acting(self._save))
            self._summary = ui.label("").classes("studio-bad").props('role="status"')

    def _keep(self, name: str, field: Any) -> Any:
        self._fields[name] = field.classes("studio-field")
        return field

    def _input(self, name: str, label: str, *, lines: bool = False) -> Any:
        return self._keep(name, ui.textarea(label).props("autogrow") if lines else ui.input(label))

    def _upload(self) -> None:
        chosen, most = soft("No text is chosen."), self._studio.limits.characters

        def taken(name: str, data: bytes) -> None:
            self._texts.append(FormText(title=name, text=data.decode("utf-8", errors="replace")))
            chosen.text = f"{len(self._texts)} texts: {', '.join(t.title for t in self._texts[:5])}"

        def too_large() -> None:
            sentence = f"Texts end in .txt, .md or .rst and have {most:,} bytes at most"
            ui.notify(sentence, type="warning")

        endings = ".txt,.md,.rst"
        upload("Choose texts", taken, most, accept=endings, multiple=True, rejected=too_large)

    def _form(self) -> SystemForm:
        values = {name: field.value for name, field in self._fields.items()}
        given = {name: value for name, value in values.items() if value is not None}
        return SystemForm.model_validate(
            given | {"top_k": int(values["top_k"] or 0), "texts": tuple(self._texts)}
        )

    async def _save(self) -> None:
        form = self._form()
        wrong = await asyncio.to_thread(self._studio.own_problems, form)
        for name, field in self._fields.items():
            field.error = wrong.get(name)
        others = [what for name, what in wrong.items() if name not in self._fields]
        sentence = f"{len(wrong)} fields are to be mended. {' '.join(others)}"
        self._summary.text = sentence if wrong else ""
        if not wrong:
            name = await asyncio.to_thread(self._studio.add_own, form)
            made = await asyncio.to_thread(self._studio.new_session, name, owner=visitor())
            ui.navigate.to(f"/session/{made.id}")
