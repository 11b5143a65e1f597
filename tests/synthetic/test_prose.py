"""Worlds as prose: every fact is in its sentence, and wordings are split as it is said."""

from __future__ import annotations

import pytest

from rulerag.errors import ConfigError
from rulerag.synthetic import PARTS, World, write_prose
from rulerag.synthetic.prose import CONSTRUCTIONS, phrases, wordings_of
from rulerag.synthetic.schema import SCHEMAS
from rulerag.types import Fact


@pytest.mark.parametrize("kind", SCHEMAS)
def test_twenty_wordings_of_every_relation_in_three_parts(kind: str) -> None:
    schema = SCHEMAS[kind]
    named = {group.head for group in schema.groups} | {one.relation for one in schema.distractors}
    named |= {clue.relation for group in schema.groups for clue in group.clues}
    assert named <= phrases(kind).keys()
    for relation, said in phrases(kind).items():
        assert len(said) == len(set(said)) == 5
        parts = [set(wordings_of(relation, part, 3)) for part in PARTS[:3]]
        assert list(map(len, parts)) == [12, 4, 4]
        assert len(set.union(*parts)) == 5 * len(CONSTRUCTIONS)
        (new,) = {one.phrase for one in parts[2]}
        assert new not in {one.phrase for one in parts[0] | parts[1]}
    with pytest.raises(ConfigError, match="part"):
        wordings_of("joins", "other")


@pytest.mark.parametrize("kind", SCHEMAS)
@pytest.mark.parametrize("part", PARTS)
def test_every_fact_stands_in_its_sentence(part: str, kind: str) -> None:
    world = World.generate(600, kind=kind, seed=2)
    facts = list(world.graph.train)
    pages = write_prose(facts, world.graph.calendar, part=part)
    stated = [one for page in pages for one in page.statements]
    assert sorted(one.fact for one in stated) == sorted(facts)
    for page in pages:
        for one in page.statements:
            sentence = page.document.text[slice(*one.span)]
            past, base, *participle = phrases(kind)[one.fact.relation][one.wording.phrase]
            assert one.fact.object in sentence
            assert sentence[0].isupper() and sentence.endswith(".")
            assert any(words in sentence for words in (past, base, *participle))
    pronouns = [
        page
        for page in pages
        if any(f"{p} " in page.document.text for p in (" he", " she", "He", "She"))
    ]
    assert pronouns or part not in ("seen", "new words")
    assert write_prose(facts, world.graph.calendar, part=part) == pages


def test_what_has_no_wording_is_refused() -> None:
    world = World.generate(600, kind="temporal", seed=2)
    with pytest.raises(ConfigError, match="no wording"):
        write_prose([Fact("a", "r", "b", 1)], world.graph.calendar)
    with pytest.raises(ConfigError, match="no wording"):
        write_prose([Fact("a", "joins", "b")], world.graph.calendar)
