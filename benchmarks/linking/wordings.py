"""Ways to ask for the object or the subject of a relation, synonyms, and slips of the pen.

``{x}`` is the entity that is known, ``{r}`` the relation's label, ``{ing}`` and ``{past}`` the same
with its first word in another form. Every second wording of each direction is held out: neither
the settings nor the rules of the linker were chosen on it.
"""

from __future__ import annotations

import random
import re
from collections.abc import Collection

OBJECT = (
    "Who or what does {x} {r}?",
    "Tell me what {x} did {r}",
    "{x} {r} what?",
    "Can you say whom {x} is going to {r}?",
    "What will {x} {r} next?",
    "which one did {x} {r}",
    "Please name everything that {x} would {r}.",
    "I want to know who {x} {past}",
    "Who was it that {x} {past}?",
    "Do you know what {x} has been {ing}?",
    "For {x}, what is the answer to '{r}'?",
    "Looking at {x}: {r} whom?",
    "What is {x} {ing}?",
    "In the case of {x}, whom or what did it {r}?",
    "I wonder what {x} could {r}",
    "Any idea which thing {x} {r}?",
)
SUBJECT = (
    "Who or what {r} {x}?",
    "Tell me who did {r} {x}",
    "Which one will {r} {x}?",
    "By whom was {x} {past}?",
    "Please name everyone that would {r} {x}.",
    "who is {ing} {x}",
    "I want to know who {past} {x}",
    "Can you say who is going to {r} {x}?",
    "Who has been {ing} {x}?",
    "Do you know what might {r} {x}?",
    "Who was it that {past} {x}?",
    "Somebody {past} {x}, who was it?",
    "What could {r} {x}?",
    "Looking for those who {r} {x}",
    "Any idea which one {r} {x}?",
    "I wonder who {past} {x}",
)

_SYNONYMS = {
    "accuse": "blame", "actor": "performer", "affiliated": "associated", "agreement": "treaty",
    "agricultural": "farming", "aid": "assistance", "animal": "beast", "appeal": "plea",
    "arrest": "take into custody", "artists": "performers", "assault": "beat up",
    "athlete": "sportsman", "attack": "assault", "award": "prize", "awards": "prizes",
    "book": "volume", "born": "native", "capital": "chief city", "category": "class",
    "ceremony": "celebration", "chemical": "substance", "citizenship": "nationality",
    "city": "town", "clothing": "apparel", "comment": "remark", "company": "firm",
    "consult": "confer with", "contributed": "donated", "cooperate": "collaborate",
    "country": "nation", "created": "authored", "crew": "staff", "criticize": "condemn",
    "currency": "money", "demand": "call for", "denounce": "censure", "designation": "naming",
    "detain": "hold in custody", "died": "passed away", "discuss": "talk over",
    "economic": "financial", "educated": "schooled", "employer": "boss", "endorse": "back",
    "engage": "take part", "express": "voice", "fight": "combat", "film": "movie",
    "force": "power", "formal": "official", "gender": "sex", "genre": "kind",
    "graduated": "got a degree", "graduates": "alumni", "headquartered": "based",
    "headquarters": "main office", "held": "occupied", "hired": "recruited", "host": "receive",
    "influenced": "inspired", "intent": "intention", "investigate": "look into",
    "journalist": "reporter", "language": "tongue", "languages": "tongues", "leads": "heads",
    "league": "association", "lived": "resided", "located": "situated", "location": "place",
    "married": "wed", "meet": "get together with", "member": "part", "military": "armed",
    "nationality": "citizenship", "negotiate": "bargain", "negotiation": "bargaining",
    "nominated": "put forward", "nominations": "candidacies", "nominee": "candidate",
    "nominees": "candidates", "office": "bureau", "optimistic": "hopeful",
    "organization": "body", "owns": "possesses", "person": "individual", "places": "spots",
    "plays": "competes", "politician": "statesman", "position": "office", "praise": "commend",
    "prize": "award", "produced": "made", "produces": "manufactures", "product": "merchandise",
    "profession": "occupation", "provide": "supply", "proxy": "stand-in",
    "publication": "periodical", "rank": "grade", "received": "won", "reject": "turn down",
    "release": "launch", "religion": "faith", "request": "petition", "residence": "dwelling",
    "river": "stream", "role": "part", "school": "academy", "sector": "branch",
    "sign": "conclude", "significant": "important", "sports": "athletic", "spouse": "partner",
    "stadium": "arena", "statement": "declaration", "student": "pupil", "students": "pupils",
    "support": "backing", "team": "squad", "telephone": "phone", "threaten": "menace",
    "university": "college", "use": "employ", "visit": "stay with", "weapons": "arms",
    "winner": "victor", "winners": "victors", "works": "has a job", "writer": "author",
    "writes": "composes",
}  # fmt: skip
_IRREGULAR = {"make": "made", "meet": "met", "bring": "brought", "have": "had", "give": "gave"}
_NOT_VERBS = re.compile(r"(?:s|ed|of|in|at|by|to|ing)$")


def half(direction: str, *, held_out: bool) -> list[str]:
    """The wordings of a direction (``object`` or ``subject``) that are held out, or the others."""
    return list({"object": OBJECT, "subject": SUBJECT}[direction][held_out::2])


def word(template: str, entity: str, label: str, *, verb: bool) -> str:
    """A question by a template.

    Args:
        template: the wording.
        entity: the known end's label.
        label: the relation's label.
        verb: whether the label starts with the base form of a verb, which may then be inflected.
    """
    first, _, rest = label.partition(" ")
    low = first if first.isupper() else first[:1].lower() + first[1:]
    verb = verb and low.isalpha() and not _NOT_VERBS.search(low)
    stem = low.removesuffix("e")
    past = _IRREGULAR.get(low, stem[:-1] + "ied" if low.endswith("y") else stem + "ed")
    forms = {"{r}": low, "{ing}": stem + "ing" if verb else low, "{past}": past if verb else low}
    filled = re.sub(
        r"\{(?:r|ing|past)\}", lambda match: f"{forms[match.group()]} {rest}".strip(), template
    )
    return filled.replace("{x}", entity)


def other_words(label: str, *, held_out: bool) -> str:
    """A label with its words replaced by synonyms, where the table has any.

    Args:
        label: the relation in words.
        held_out: whether every word of the table is replaced, or every second one alone: with
            these the settings were chosen.
    """
    table = _SYNONYMS if held_out else dict(list(_SYNONYMS.items())[::2])
    return re.sub(r"\w+", lambda match: table.get(match.group().casefold(), match.group()), label)


def slip(name: str, known: Collection[str], rng: random.Random) -> str:
    """A name with one letter left out, doubled, changed, or swapped with its neighbour.

    Args:
        name: the name.
        known: every name, case folded: a slip makes none of them.
        rng: decides which.
    """
    places = [n for n, letter in enumerate(name) if letter.isalpha()]
    for _ in range(40):
        n = rng.choice(places)
        letter = rng.choice("abcdefghijklmnopqrstuvwxyz")
        made = rng.choice(
            (
                name[:n] + name[n + 1 :],
                name[:n] + name[n] + name[n:],
                name[:n] + letter + name[n + 1 :],
                name[:n] + name[n : n + 2][::-1] + name[n + 2 :],
            )
        )
        if made.casefold() != name.casefold() and made.casefold() not in known:
            return made
    return name
