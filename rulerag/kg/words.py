"""Words run together: NELL writes ``agentbelongstoorganization``; readers need the spaces back."""

from __future__ import annotations

from functools import lru_cache

__all__ = ["split_words"]

# The words of NELL-995's 200 relations and 270 categories. A piece that cannot be cut into these
# words without a rest stays as it is, so a graph with other words loses nothing.
_LEXICON = frozenset(
    """
    academic accident acquired acronym action actions actor acts affiliated africa against
    age agent agricultural airport album algorithm also america amphibian and animal
    aquarium arachnid archaea architect area art artery arthropod artist as asia associated
    astronaut at athlete attract attraction attribute australia author automaker automobile
    award bacteria baked bank bathroom beach beat bedroom belongs beverage bill biotech bird
    blog board body bone book bordered born bought brain bridge building by called came can
    canada candy capital car card care causative cause cave celebrity cell ceo championship
    character characteristic charge charged cheese chef chemical citizenship city clothing
    coach coaches code cognitive collaborates color comedian coming company competes concept
    concerns condiment condition conference conflict consumer contain contains continent
    contributed controls convention cooked country county created creative credit crime
    criminal crustacean currency cut dataset date day dealers decreases develop died
    directed director disease dissolved drug eat economic effect election electronic emotion
    empties endorsed engine equipment ethnic europe event every fans farm father feature
    features feed female festival field film fish floor fly food for form found from fruit
    fungus furniture game genre genres geolocatable geometric geopolitical go good
    government graduated grain grand group growing grown hallway has headquartered highway
    hired his hobbies hobby holds home hospital hotel household human husband in include
    including injured insect instrument integer into invertebrate involved is island issue
    item job journalist judge kitchen known label lake landscape language latitude leads
    league led legume lies literal located location longitude lymph made magazine maker male
    mall mammal material meat media medical member metric mexico military ml model mollusk
    monarch month monument mother mountain moved movement movie multiple muscle museum music
    musician mutual name national neg nerve network newspaper node non nondisease nongov
    nonprofit north nut object of office olympics on or organization other out outcome
    parent park parlour part participated party perception person personal petroleum
    phenomenon physical physics physiological place planet plant plays political politician
    politics position possibly prerequisite preys prix procedure produces product profession
    professional professor program programming project promoted protein province proxy
    publication race radio range recipe record refinery refining religion represent
    represents reptile research residence restaurant retail risk river road room scene
    school scientific scientist sector served shape shopping show sibling side ski
    skyscraper sociopolitical software song south specialization sport sports spouse stadium
    stadiums starred state station store street subject subpart such synonym system table
    taller team television term terminated terrorist than that the thing time tissue to tool
    top tourist tournament trade traditional trail train trait transportation treats trophy
    type union university us uses vegetable vehicle vein venue vertebrate victim video virus
    visual visualizable wall weapon weapons weather website week wife wine winery winner
    wins with within won work worked works worship writer writes year zip zoo
    """.split()  # noqa: SIM905 (quoting 450 words one by one reads worse)
)


@lru_cache(maxsize=4096)
def split_words(text: str) -> str:
    """Put spaces into lower-case words run together; the text itself when a rest would stay.

    Of all ways to cut, the one with the fewest words wins, then the one whose first word is
    longest: ``stadiumoreventvenue`` becomes ``stadium or event venue``.
    """
    best: list[tuple[int, int] | None] = [None] * len(text) + [(0, 0)]
    for start in range(len(text) - 1, -1, -1):
        for end in range(len(text), start, -1):
            rest = best[end]
            if rest is None or text[start:end] not in _LEXICON:
                continue
            found = best[start]
            if found is None or rest[0] + 1 < found[0]:
                best[start] = (rest[0] + 1, end)
    words, start = [], 0
    while start < len(text):
        cut = best[start]
        if cut is None:
            return text
        words.append(text[start : cut[1]])
        start = cut[1]
    return " ".join(words)
