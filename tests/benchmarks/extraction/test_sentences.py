"""Facts of marked sentences, compared with what was found."""

from __future__ import annotations

import pytest

from benchmarks.extraction.__main__ import main
from benchmarks.extraction.sentences import MarkedFact, Sentences, compared
from rulerag.types import Document, Fact

TEXT = "Abraham Fischler led Nova. It is in Ohio, USA."


@pytest.mark.parametrize(
    ("fact", "open_", "right"),
    [
        (Fact("Fischler", "heads", "Nova"), False, 1),
        (Fact("Nova", "heads", "Fischler"), False, 0),
        (Fact("Fischler", "founded", "Nova"), False, 0),
        (Fact("Fischler", "leads the", "Nova"), True, 1),
        (Fact("Fischler", "saw", "Nova"), True, 0),
        (Fact("Abra", "led", "Nova"), True, 0),
    ],
)
def test_names_may_be_parts_and_words_share_a_stem(fact: Fact, open_: bool, right: int) -> None:
    first = [MarkedFact("Abraham Fischler", "led", "Nova", "heads")]
    marked = {"d": [((0, 26), first), ((27, 46), [MarkedFact("Nova", "in", "Ohio", None)])]}
    given = Sentences([Document("d", TEXT)], [], marked)
    found = compared([(fact, "d", (0, 25)), (fact, "other", (0, 25))], given, open_=open_)
    assert (found["right"], found["found"], found["stated"]) == (right, 1, 1 + open_)


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--sets", "everyday"]) == 0
    assert "| everyday | known facts | 67 |" in capsys.readouterr().out
