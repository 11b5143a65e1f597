"""Labels: what raw names become, and that no two ever fall together."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from rulerag.kg.labels.candidates import (
    entity_candidates,
    make_labels,
    relation_candidates,
)
from rulerag.kg.vocabulary import Vocabulary
from rulerag.text import normalize_answer


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("Citizen_(Nigeria)", "Citizen (Nigeria)"),
        ("Cabinet_/_Council_of_Ministers_(Iran)", "Cabinet / Council of Ministers (Iran)"),
        ("Xinjiang\xa0Uyghur", "Xinjiang Uyghur"),
        ("<Athletic_Park_(Vancouver)>", "Athletic Park (Vancouver)"),
        (r"<Take_the_\u0022A\u0022_Train>", 'Take the "A" Train'),
        ("concept_personcanada_matthew_bellamy", "matthew bellamy"),
        ("concept:city:ottawa", "ottawa"),
        ("concept_book_n1st_to_die", "1st to die"),
        ("concept_disease_hiv___aids", "hiv aids"),
        ("36.7425900000000,-95.9383200000000", "36.74259, -95.93832"),
        ("http://dbpedia.org/resource/S%C3%A3o_Paulo", "São Paulo"),
        ("/m/027rn", "/m/027rn"),
        ("Q42", "Q42"),
        ("a<b", "a<b"),
        ("wasHere", "wasHere"),
        ("___", "___"),
    ],
)
def test_entity_labels(name: str, label: str) -> None:
    assert make_labels([name]) == [label]


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("Arrest,_detain,_or_charge", "Arrest, detain, or charge"),
        ("<wasBornIn>", "was born in"),
        ("hasGDPValue", "has GDP value"),
        ("UNSc", "UNSc"),
        ("isA", "is a"),
        ("concept:agentbelongstoorganization", "agent belongs to organization"),
        ("concept:xyzzy", "xyzzy"),
        ("/location/country/form_of_government", "form of government"),
        ("/tv/tv_program/regular_cast./tv/regular_tv_appearance/actor", "regular cast actor"),
        (
            "/location/statistical_region/religions./location/religion_percentage/religion",
            "religion",
        ),
        ("http://dbpedia.org/ontology/birthPlace", "birth place"),
        ("location_of", "location of"),
        ("Relintergovorgs", "Relintergovorgs"),
        ("P27", "P27"),
    ],
)
def test_relation_labels(name: str, label: str) -> None:
    assert make_labels([name], relation_candidates) == [label]


def test_names_that_share_a_label_climb_together() -> None:
    names = ["concept_city_ottawa", "concept_person_ottawa", "concept_city_paris"]
    assert make_labels(names) == ["ottawa (city)", "ottawa (person)", "paris"]
    roster = "/sports/sports_team/roster./{}/position"
    paths = [
        "/film/film/country",
        "/people/person/country",
        roster.format("soccer/football_roster_position"),
        roster.format("baseball/baseball_roster_position"),
    ]
    assert make_labels(paths, relation_candidates) == [
        "country (film)",
        "country (person)",
        "roster position (sports team, football roster position)",
        "roster position (sports team, baseball roster position)",
    ]


def test_labels_are_kept_apart_as_answers_are_compared() -> None:
    assert make_labels(["Sunday_Times", "The_Sunday_Times", "A.K._Singh", "AK_Singh"]) == [
        "Sunday Times",
        "The Sunday Times (2)",
        "A.K. Singh",
        "AK Singh (2)",
    ]


def test_numbers_pass_over_labels_that_are_taken() -> None:
    names = ["new_york", "new york", "new_york_(2)", "New York"]
    assert make_labels(names) == ["new york (3)", "new york", "new york (2)", "New York (4)"]


def test_given_labels_go_before_the_name() -> None:
    given_labels = {
        "Q1": ("Kiss", "Kiss (Q1)"),
        "Q2": ("Kiss", "Kiss (Q2)"),
        "Q3": ("Q4", "Q4 (Q3)"),
    }
    names = ["Q1", "Q2", "Q3", "Q4", "Q5"]
    labels = make_labels(names, entity_candidates, given_labels)
    # A label must not be the raw name of another: Q4 would then mean two things.
    assert labels == ["Kiss (Q1)", "Kiss (Q2)", "Q4 (Q3)", "Q4", "Q5"]


_NAMES = st.text("aAb_ .-()2The<>", min_size=1, max_size=6) | st.sampled_from(
    [
        "concept_city_a",
        "concept_dog_a",
        "the",
        "a",
        "A",
        "/film/film/a",
        "/tv/tv/a",
        "<a>",
        "a_(city)",
    ]
)


@given(st.lists(_NAMES, unique=True, max_size=25), st.booleans())
def test_labels_are_always_unique_and_reversible(names: list[str], relations: bool) -> None:
    labels = make_labels(names, relation_candidates if relations else entity_candidates)
    keys = [normalize_answer(label) or label for label in labels]
    assert len(set(keys)) == len(names)
    assert all(labels)
    vocabulary = Vocabulary(names, labels)
    for i, name in enumerate(names):
        assert vocabulary.id(name) == vocabulary.id(labels[i]) == i
        assert vocabulary.name_of_label(labels[i]) == name
    assert labels == make_labels(names, relation_candidates if relations else entity_candidates)
