"""Answers cut into claims, and whether other words say the same."""

from __future__ import annotations

import re

import pytest

from rulerag.errors import ConfigError, PredicateError
from rulerag.explanation.claims import (
    SameClaim,
    claim_at,
    is_refusal,
    split_claims,
    split_sentences,
)

CAPITAL = "What is the capital of France?"
READ = [
    "Paris is the capital of France since 987.",
    "France's capital city is Paris, on the Seine.",
    "Lyon is a city in France with 520,774 people.",
]


@pytest.mark.parametrize(
    ("answer", "claims"),
    [
        ("Paris.", ["Paris."]),
        (
            "Dr. Smith met J. R. Ewing. He paid $3.50!",
            ["Dr. Smith met J. R. Ewing.", "He paid $3.50!"],
        ),
        ("Facts:\n- Paris is big.\n2. It rains.", ["Paris is big.", "It rains."]),
        ("He left. Facts:\n* It rains.", ["He left.", "It rains."]),
        ("It is Paris. I hope this helps! Let me know.", ["It is Paris."]),
        ("…\n---\n", []),
        ("", []),
    ],
)
def test_an_answer_is_cut_into_its_claims(answer: str, claims: list[str]) -> None:
    found = split_claims(answer)
    assert [claim.text for claim in found] == claims
    assert all(answer[claim.start : claim.end] == claim.text for claim in found)


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("Facts:\n- It rains. Thanks!", ["Facts:", "It rains.", "Thanks!"]),
        (
            "東京は首都です。大阪は\uff1f「はい。」高い。",
            ["東京は首都です。", "大阪は\uff1f", "「はい。」", "高い。"],
        ),
        ("नई दिल्ली राजधानी है। मुंबई बड़ा है।", ["नई दिल्ली राजधानी है।", "मुंबई बड़ा है।"]),
        ("القاهرة عاصمة مصر. هل هي كبيرة؟ نعم.", ["القاهرة عاصمة مصر.", "هل هي كبيرة؟", "نعم."]),
        ("。。 … \n", []),
    ],
)
def test_any_text_is_cut_into_its_sentences(text: str, sentences: list[str]) -> None:
    found = split_sentences(text)
    assert [sentence.text for sentence in found] == sentences
    assert all(text[one.start : one.end] == one.text for one in found)


def test_any_part_of_an_answer_is_a_claim_of_whole_words() -> None:
    assert claim_at("It is Paris today.", 7, 9).text == "Paris"
    assert claim_at("It is Paris today.", 5, 12).text == "Paris"
    for start, end in ((3, 3), (-1, 4), (0, 99), (17, 18)):
        with pytest.raises(ConfigError, match="say nothing"):
            claim_at("It is Paris today.", start, end)


REFUSALS = """
Unknown.
Empty Response
I don't know.
I\u2019m sorry, but I cannot find the answer in the documents.
The documents do not mention the capital of France.
There is no information about this in the provided context.
It is not possible to determine this.
The context provides no answer. I hope this helps!
I could not find that. Feel free to ask again.
"""
ANSWERS = """
Paris
He could not come to Paris.
The team has no captain.
Nobody knows more than Ann does.
I do not regret that it is Paris. I cannot find the year.
"""


def test_what_is_said_of_another_than_who_is_asked_about_is_another_claim() -> None:
    """The number of one institution is not that of another, though both are the same digits."""
    number, asked = "555-010-7719", "What is the customer service number of Larkfield Bank?"
    read = [
        "The customer service number of Larkfield Bank is printed on each card of the bank.",
        f"The directory lists Penhallow Credit Union with the customer service number {number}.",
        "A credit union belongs to its members.",
    ]
    claim = SameClaim(f"The customer service number of Larkfield Bank is {number}.", asked, read)
    for same in (number, f"It is {number}.", f"The bank Larkfield has the number {number}."):
        assert claim(same), same
    for other in ("Penhallow Credit Union", "the Penhallow union"):
        assert not claim(f"The customer service number of {other} is {number}."), other
    assert not claim(read[1])


def test_what_gives_no_answer_is_a_refusal_and_a_denial_is_none() -> None:
    for text in REFUSALS.split("\n"):  # an empty one among them
        assert is_refusal(text), text
        assert not SameClaim("It is Paris.", CAPITAL, READ)(text), text
        assert SameClaim("I don't know.", CAPITAL, READ)(text), text
    assert not any(map(is_refusal, ANSWERS.strip().split("\n")))


@pytest.mark.parametrize(
    ("output", "same", "step"),
    [
        ("The capital of France is Paris, according to 3 sources.", True, "names"),
        ("paris", True, "names"),
        ("THE CAPITAL OF FRANCE IS PARIS ACCORDING TO 5 SOURCES", True, "match"),
        ("It's Paris, which lies on the Seine. I could not find more.", True, "names"),
        ("The capital of France is Lyon, according to 5 sources.", False, "names"),
        ("It is not Paris.", False, "negation"),
        ("I could not find it.", False, "refusal"),
    ],
)
def test_a_verdict_says_which_check_decided(output: str, same: bool, step: str) -> None:
    judged = SameClaim("The capital of France is Paris, according to 5 sources.", CAPITAL, READ)
    verdict = judged.verdict(output)
    assert (verdict.same, verdict.step) == (same, step)
    assert judged.steps == {step: 1}


CASES = """
# numbers, dates, yes or no
?
- It was signed on 2 May 2014 by 3 countries.
- Lyon is a city in France with 520,774 people.
Lyon has 520,774 people. == Lyon's population is 520774.
Lyon has 520,774 people. != Lyon has 519,000 people.
It was signed on 2014-05-02. == They signed it on 2 May 2014.
It was signed on 2 May 2014. != They signed it on 3 May 2014.
Yes, it is the capital. == Yes.
Yes, it is the capital. != No, it is not.
Three rivers meet there. == There 3 rivers meet.
# a number of sources or mentions is no number of the claim
? How many engineers built the bridge?
- Two engineers built the bridge.
- It opened in 1932. The bridge is mentioned 2 times.
Two engineers built it. != The bridge is mentioned 2 times.
Two engineers built it. != According to 2 sources, it was three.
Two engineers built it. != In documents 1 and 2 it is three [2].
Two engineers built it. == It was two, mentioned 3 times [1].
Two engineers built it. == 2
It opened in 1932, two sources say. == It opened in 1932, as 3 texts say.
It opened in 1932, two sources say. != It opened in 1933.
# how often something happened is
? How often did he win the cup?
- He won the cup 3 times.
He won it 3 times. == Three times.
He won it 3 times. != He won it 2 times.
# a number that another document counts mentions with need not be there
? Who built the bridge?
- Ann Lee and Bo Li built the bridge.
- The bridge is mentioned 2 times.
Two people, Ann Lee and Bo Li, built it. == Ann Lee and Bo Li built it.
# another name in the place of the first
? Who won it?
- Curie won the Nobel Prize in Physics in 1903.
- Einstein won the Nobel Prize in Physics in 1921. Water boils at 100 degrees. Oil floats.
Curie won the prize. != Einstein won the prize.
Curie won the Nobel Prize. != Einstein won the Nobel Prize.
Curie won the Nobel Prize. != The Nobel Prize went to Einstein.
Curie won the Nobel Prize. == The Nobel Prize went to Curie.
Curie won the Nobel Prize. == Marie Curie got the Nobel Prize.
# where nobody is asked for
? Which?
- Curie won the Nobel Prize in Physics in 1903.
- Einstein won the Nobel Prize in Physics in 1921. Water boils at 100 degrees. Oil floats.
Curie won the Nobel Prize. != Planck won the Nobel Prize.
Curie won the Nobel Prize. == She won the Nobel Prize.
# what a question leaves open between two
? Was it Curie or Einstein that won the prize?
- Curie won the Nobel Prize in Physics in 1903.
- Einstein won the Nobel Prize in Physics in 1921. Water boils at 100 degrees. Oil floats.
Curie won the prize. != Einstein won the prize.
Curie won the prize. == It was Curie.
# a first word that is no name
? When does it boil?
- Curie won the Nobel Prize in Physics in 1903.
- Einstein won the Nobel Prize in Physics in 1921. Water boils at 100 degrees. Oil floats.
Water boils at 100 degrees. == At 100 degrees it does.
# without documents
? Was it Curie or Einstein that won the prize?
Curie won the prize. != Einstein won the prize.
Curie won the Nobel Prize. != Einstein won the Nobel Prize.
Curie won the Nobel Prize. == Marie Curie got the Nobel Prize.
# half of many names
? Who was there?
- Ann Lee came with Bob Ray.
It was Ann Lee with Bob Ray. == It was Ann Lee with Bob.
It was Ann Lee with Bob Ray. != It was Ann Lee.
# half of two names
? Where?
- Paris, France
It is Paris, France. == Paris it is.
# a denial in few of the words
? May I?
- I take both.
- It raises bleeding.
You must not take both: bleeding. != You can take both.
You must not take both: bleeding. == You must not take them.
# another fact about the same name
? What is the capital of France?
- Paris is the capital of France.
- The Seine flows through Paris.
Paris is the capital. != The Seine flows through Paris.
Paris is the capital. == It is Paris, according to sources 1 and 2.
Paris is the capital. == Paris, by the way.
Paris is the capital. == Paris. The Seine flows through it.
Paris is the capital. == The Seine flows through Paris, the capital.
Paris is the capital. != The Seine flows through Lyon.
"""
"""Of each case what it shows, the question, the documents, and claims beside outputs that make them
(==) or do not (!=)."""


@pytest.mark.parametrize("case", CASES.split("\n# ")[1:], ids=lambda case: case.partition("\n")[0])
def test_what_makes_a_claim(case: str) -> None:
    _, question, *lines = case.strip().split("\n")
    documents = [line[2:] for line in lines if line.startswith("- ")]
    for line in lines[len(documents) :]:
        claim, sign, output = re.split(" ([=!]=) ", line)
        assert SameClaim(claim, question[2:], documents)(output) is (sign == "=="), line


def test_models_decide_what_words_leave_open() -> None:
    claim, open_one = "Ann and Bob and Carl and Dora came.", "Bob was there."
    asked: list[str] = []

    class Half:
        def entails(self, premises: list[str], hypotheses: list[str]) -> list[float]:
            asked.extend(premises)
            return [0.4 for _ in premises]

    by_encoder = SameClaim(claim, entailment=Half())
    assert by_encoder.verdict(open_one).step == "entailment" and not by_encoder(open_one)
    assert asked == [open_one], "each output once"
    assert SameClaim(claim, judge=lambda prompt: "Yes, it does.").verdict(open_one).step == "judge"
    with pytest.raises(PredicateError, match="neither yes nor no"):
        SameClaim(claim, judge=lambda prompt: "maybe")(open_one)

    class Silent:
        def entails(self, premises: list[str], hypotheses: list[str]) -> list[float]:
            return []

    with pytest.raises(PredicateError, match="0 values for 1 pairs"):
        SameClaim(claim, entailment=Silent())(open_one)
