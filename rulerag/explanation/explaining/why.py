"""Why an answer came out: asked once, explained as far as budget and time allow, and further."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from rulerag.composition import check_choice
from rulerag.errors import ConfigError, DataFormatError, ExplanationError, needs_package
from rulerag.explanation.attribution import Attribution, rule_surrogate
from rulerag.explanation.claims import claim_at
from rulerag.explanation.explaining.records import ExplainedClaim, Explanation
from rulerag.explanation.explaining.run import Event, EventHook, ExplanationRun
from rulerag.explanation.explaining.text import cited, explanation_lines
from rulerag.explanation.units import Passage
from rulerag.folders import HubMixin
from rulerag.io import read_json, write_json, write_text
from rulerag.views import Highlights, Picture

PICTURES = "flow", "context", "lattice", "bars", "shades"


class Why(HubMixin):
    """An explained answer: prints itself, shows itself in a notebook, goes on when told to.

    Made by :func:`rulerag.explain`.

    Attributes:
        explanation: everything as a typed record.
        run: what asks; None where the explanation was read from a file.
    """

    def __init__(self, explanation: Explanation, run: ExplanationRun | None = None) -> None:
        self.explanation, self.run = explanation, run

    @property
    def text(self) -> str:
        """The answer."""
        return self.explanation.text

    @property
    def claims(self) -> tuple[ExplainedClaim, ...]:
        """Its claims, each with what it rests on."""
        return self.explanation.claims

    @property
    def documents(self) -> tuple[Passage, ...]:
        """What was read."""
        return self.explanation.documents

    @property
    def num_calls(self) -> int:
        """How many calls of the answer function were made."""
        return self.explanation.num_calls

    @property
    def cited(self) -> str:
        """The answer with the numbers of the documents behind each claim."""
        return cited(self.explanation)

    @property
    def live(self) -> ExplanationRun:
        """What asks.

        Raises:
            ConfigError: the explanation was read from a file.
        """
        return self._live("going on")

    @property
    def failure(self) -> ExplanationError | None:
        """What the answer function failed with, where that and no budget ended the search."""
        return None if self.run is None else self.run.failure

    def at(self, start: int, end: int) -> ExplainedClaim:
        """What the characters ``start`` to ``end`` of the answer rest on; asks only what is new.

        Raises:
            ConfigError: nothing is said there, or the explanation was read from a file.
        """
        claim = claim_at(self.text, start, end)
        known = [c for c in self.claims if (c.start, c.end) == (claim.start, claim.end)]
        return known[0] if known else self._live("at").explain_claim(claim)

    def proceed(self, on_event: EventHook | None = None) -> Why:
        """Explain as far as the settings allow; an explanation that asks nothing stays as it is.

        Args:
            on_event: called with what becomes known.
        """
        if self.run is None:
            return self
        seconds = self.run.settings.max_seconds
        return self.deepen(self.run.calls, max_seconds=seconds, on_event=on_event)

    def deepen(
        self,
        budget: int | None = None,
        *,
        max_seconds: float | None = None,
        on_event: EventHook | None = None,
    ) -> Why:
        """Go on where budget or time ended the search; returns itself.

        After Ctrl-C ``explanation`` holds what is certain by what was answered.

        Args:
            budget: so many further calls; without a limit when None.
            max_seconds: so many further seconds.
            on_event: called with what becomes known.
        """
        run = self._live("deepen()")
        try:
            self.explanation = run.run(budget, max_seconds, on_event)
        except KeyboardInterrupt:
            self.explanation = run.settled("interrupted")
            raise
        return self

    def finer(
        self,
        documents: Sequence[int] | None = None,
        *,
        level: str | None = None,
        budget: int | None = 500,
        max_seconds: float | None = None,
    ) -> Why:
        """The same answer explained by parts of what decides, everything else in whole pieces.

        What was answered before is not asked again. A whole document that decides only now, with a
        part of another, can be opened next: call it on what it returns.

        Args:
            documents: indices of what is opened; what stands in a set or speaks against a claim
                when None.
            level: ``document`` (for groups), ``section``, ``sentence`` or ``span``; for each the
                next that has two parts or more when None.
            budget: calls at most; None for no limit.
            max_seconds: stop after so many seconds with what is certain.

        Returns:
            A new explanation; its ``documents`` are the parts, and the rest.

        Raises:
            ConfigError: there is no such level or document, or nothing to open; or the explanation
                was read from a file.
        """
        if documents is None:
            sets = [(claim.sources, claim.spoilers) for claim in self.claims]
            deciding = {n for sources, _ in sets for n in sources}
            deciding |= {n for _, against in sets for one in against for n in one.documents}
            documents = sorted(deciding)
        run = self._live("finer()").finer(documents, level)
        return Why(run.run(budget, max_seconds), run)

    def attribution(
        self,
        claim: int = 0,
        method: str = "rules",
        *,
        samples: int | None = None,
        budget: int | None = None,
    ) -> Attribution:
        """How much each document with a text counts for one claim.

        Args:
            claim: its place.
            method: ``rules``, the Banzhaf values of the sets found, which asks nothing; or an
                explainer: ``shapley``, ``banzhaf``, ``leave-one-out``, ``linear`` … , which asks
                what is not known yet; ``similarity``, which compares texts and asks nothing.
            samples: random orders or subsets of the explainer.
            budget: so many further calls; without a limit when None.

        Raises:
            ConfigError: no explainer has this name, or there is no such claim.
            ProbeBudgetError: the budget is too small.
        """
        if not -len(self.claims) <= claim < len(self.claims):
            raise ConfigError(f"there are {len(self.claims)} claims", key="claim")
        if method == "rules":
            places = [n for n, one in enumerate(self.documents) if one.text.strip()]
            sets = [[places.index(n) for n in one] for one in self.claims[claim].retention]
            return rule_surrogate(sets, [self.documents[n].label for n in places])
        return self._live("attribution()").attribution(claim, method, samples, budget)

    def picture(self, kind: str = "flow", claim: int = 0) -> Picture | Highlights:
        """A picture: it shows itself in a notebook, and ``save`` writes SVG, PNG or a page.

        Marked texts (``context``, ``shades``) are written as pages alone.

        Args:
            kind: ``flow``, from documents to claims, and from the mined rules that found them
                where their metadata name any; ``context``, the documents with what is enough for
                one claim and what it needs; ``lattice``, the subsets that make one claim, those
                that do not and those that nobody asked; ``bars``, how much each document counts
                for it; ``shades``, the same in the documents.
            claim: its place; ``flow`` shows all.

        Raises:
            ConfigError: no picture has this name, there is no such claim or nothing to draw, or
                the explanation was read from a file, which keeps no subsets (``flow`` and
                ``context`` need none).
        """
        check_choice("kind", kind, PICTURES)
        from rulerag.explanation.explaining import page

        if kind == "flow":
            return page.flow(self.explanation)
        if not -len(self.claims) <= claim < len(self.claims):
            raise ConfigError(f"there are {len(self.claims)} claims", key="claim")
        if kind == "context":
            return page.context(self.explanation, claim)
        if kind in ("bars", "shades"):
            values, text = self.attribution(claim), self.claims[claim].text
            draw = page.shades if kind == "shades" else page.bars
            return draw(self.explanation, values, text)
        return self._live("picture()").lattice(claim)

    def to_shap(self, claim: int = 0, method: str = "rules") -> Any:
        """A ``shap.Explanation`` of one claim, for the plots of shap.

        Raises:
            MissingDependencyError: shap is not installed.
        """
        with needs_package("shap", "shap"):
            shap = import_module("shap")

        values = self.attribution(claim, method)
        texts = [document.text for document in self.documents if document.text.strip()]
        return shap.Explanation(
            values=np.array(values.values),
            base_values=values.empty or 0.0,
            data=np.array(texts, dtype=object),
            feature_names=list(values.names),
        )

    async def stream(
        self, budget: int | None = None, *, max_seconds: float | None = None
    ) -> AsyncIterator[Event]:
        """Go on, and tell what becomes known as soon as it does; leaving the loop cancels.

        Args:
            budget: so many further calls; without a limit when None.
            max_seconds: so many further seconds.
        """
        run, loop = self._live("stream()"), asyncio.get_running_loop()
        queue: asyncio.Queue[Event | BaseException | None] = asyncio.Queue()

        def tell(event: Event | BaseException | None) -> None:
            loop.call_soon_threadsafe(queue.put_nowait, event)

        def work() -> None:
            try:
                self.explanation = run.run(budget, max_seconds, tell)
                tell(Event("end", run))
                tell(None)
            except BaseException as error:  # noqa: BLE001 - raised where it is listened
                tell(error)

        thread = threading.Thread(target=work, name="rulerag-explain", daemon=True)
        thread.start()
        try:
            while (event := await queue.get()) is not None:
                if isinstance(event, BaseException):
                    raise event
                yield event
        finally:
            run.cancel()
            await asyncio.to_thread(thread.join)

    def to_json(self) -> dict[str, Any]:
        """Everything as a JSON object; :meth:`from_json` reads it."""
        return self.explanation.to_json()

    @classmethod
    def from_json(cls, row: Any) -> Why:
        """An explanation from the object, or the text, that :meth:`to_json` made.

        Raises:
            DataFormatError: it is not one.
        """
        try:
            read = json.loads(row) if isinstance(row, str) else row
        except json.JSONDecodeError as error:
            raise DataFormatError(f"not JSON: {error}", hint="what to_json() made") from error
        if not isinstance(read, Mapping):
            raise DataFormatError(f"expected an object, found {type(read).__name__}")
        return cls(Explanation.from_json(read))

    def _write_repository(self, folder: Path) -> None:
        write_json(folder / "explanation.json", self.to_json())
        self.to_html(folder / "explanation.html")
        card = (
            f"---\ntags: [rulerag, explanation]\n---\n\n# Why: {self.explanation.question}\n\n"
            f"```text\n{self.text}\n```\n\n`explanation.html` is the page.\n\n"
            '```python\nfrom rulerag import Why\n\nwhy = Why.from_pretrained("owner/name")\n```\n'
        )
        write_text(folder / "README.md", card)

    @classmethod
    def _read_repository(cls, folder: Path) -> Why:
        return cls.from_json(read_json(folder / "explanation.json"))

    def to_html(self, path: str | Path | None = None) -> str:
        """One self-contained page; written where a path is given.

        Raises:
            OutputError: it cannot be written.
        """
        from rulerag.explanation.explaining.page import page

        text = page(self.explanation).html()
        if path is not None:
            write_text(Path(path), text)
        return text

    def to_dataframe(self) -> Any:
        """A pandas table with one row for each claim and document.

        Columns: ``claim``, ``claim_text``, ``document``, ``title``, ``text``; ``source`` (stands in
        a minimal set that is enough), ``necessary`` (in each of them), ``sufficient`` (alone one of
        them) and ``spoiler``.

        Raises:
            MissingDependencyError: pandas is not installed.
        """
        with needs_package("pandas", "pandas"):
            pandas = import_module("pandas")

        columns = ["claim", "claim_text", "document", "title", "text"]
        columns += ["source", "necessary", "sufficient", "spoiler"]
        rows = []
        for number, claim in enumerate(self.claims):
            sets = claim.retention
            against = {place for one in claim.spoilers for place in one.documents}
            for document in self.documents:
                place = document.index
                about = number, claim.text, place, document.title, document.text
                necessary = bool(sets) and all(place in one for one in sets)
                alone = frozenset({place}) in sets
                rows.append((*about, place in claim.sources, necessary, alone, place in against))
        return pandas.DataFrame(rows, columns=columns)

    def __str__(self) -> str:
        return "\n".join(explanation_lines(self.explanation))

    def __repr__(self) -> str:
        return f"Why({self.text!r}, {len(self.claims)} claims, {self.num_calls} calls)"

    def _repr_html_(self) -> str:
        from rulerag.explanation.explaining.page import page

        return page(self.explanation).fragment()

    def _live(self, what: str) -> ExplanationRun:
        if self.run is None:
            raise ConfigError(
                f"{what} asks the answer function, and this explanation was read from a file",
                hint="explain again: what was answered then is not asked",
            )
        return self.run
