"""English words for the concepts of `lexicon`.

>>> noun("mouse", plural=True), noun("box", plural=True), VERBS["give"].past
('mice', 'boxes', 'gave')
"""

from __future__ import annotations

from dataclasses import dataclass

_IRREGULAR_PLURALS = {"man": "men", "woman": "women", "child": "children", "mouse": "mice", "shelf": "shelves",
                      "knife": "knives"}


def noun(concept: str, *, plural: bool) -> str:
    """The noun for a concept, or for a key of `lexicon_rich`."""
    if ":" in concept:
        from seq2seq_suite.miniworld import lexicon_rich  # which takes the words of this module for its own

        word = lexicon_rich.noun(concept)
        return word.plural if plural else word.english
    if not plural:
        return concept
    if concept in _IRREGULAR_PLURALS:
        return _IRREGULAR_PLURALS[concept]
    if concept.endswith("y") and concept[-2] not in "aeiou":
        return concept[:-1] + "ies"
    return concept + ("es" if concept.endswith(("s", "x", "ch", "sh")) else "s")


@dataclass(frozen=True, slots=True)
class Verb:
    """The forms of a verb; the plural of the present is the base. `particle` follows it: `picks up`."""

    base: str
    third: str
    past: str
    participle: str
    particle: str = ""


VERBS: dict[str, Verb] = {
    "sleep": Verb("sleep", "sleeps", "slept", "slept"), "sing": Verb("sing", "sings", "sang", "sung"),
    "dance": Verb("dance", "dances", "danced", "danced"),
    "bark": Verb("bark", "barks", "barked", "barked"), 
    "sit_down": Verb("sit", "sits", "sat", "sat", "down"), "arrive": Verb("arrive", "arrives", "arrived", "arrived"),
    "see": Verb("see", "sees", "saw", "seen"), "watch": Verb("watch", "watches", "watched", "watched"),
    "find": Verb("find", "finds", "found", "found"), "strike": Verb("strike", "strikes", "struck", "struck"),
    "open": Verb("open", "opens", "opened", "opened"), "slice": Verb("slice", "slices", "sliced", "sliced"),
    "paint": Verb("paint", "paints", "painted", "painted"),
    "repair": Verb("repair", "repairs", "repaired", "repaired"), "eat": Verb("eat", "eats", "ate", "eaten"),
    "write": Verb("write", "writes", "wrote", "written"), "catch": Verb("catch", "catches", "caught", "caught"),
    "study": Verb("study", "studies", "studied", "studied"), "buy": Verb("buy", "buys", "bought", "bought"),
    "visit": Verb("visit", "visits", "visited", "visited"), "chase": Verb("chase", "chases", "chased", "chased"),
    "like": Verb("like", "likes", "liked", "liked"), "know": Verb("know", "knows", "knew", "known"),
    "remember": Verb("remember", "remembers", "remembered", "remembered"),
    "pick_up": Verb("pick", "picks", "picked", "picked", "up"),
    "turn_on": Verb("turn", "turns", "turned", "turned", "on"),
    "throw_away": Verb("throw", "throws", "threw", "thrown", "away"),
    "give": Verb("give", "gives", "gave", "given"), "send": Verb("send", "sends", "sent", "sent"),
    "show": Verb("show", "shows", "showed", "shown"), "sell": Verb("sell", "sells", "sold", "sold"),
    "place": Verb("place", "places", "placed", "placed"), "leave": Verb("leave", "leaves", "left", "left"),
    "carry": Verb("carry", "carries", "carried", "carried"), "go": Verb("go", "goes", "went", "gone"),
    "walk": Verb("walk", "walks", "walked", "walked"), "come": Verb("come", "comes", "came", "come"),
    "take": Verb("take", "takes", "took", "taken"),
    "tell": Verb("tell", "tells", "told", "told"), "talk": Verb("talk", "talks", "talked", "talked"),
    "say": Verb("say", "says", "said", "said"), "think": Verb("think", "thinks", "thought", "thought"),
    "ask": Verb("ask", "asks", "asked", "asked"),
}
COMPARATIVES = {"big": "bigger", "small": "smaller", "old": "older", "young": "younger", "happy": "happier",
                "heavy": "heavier"}
NAMES = {
    **{name: (name.capitalize(),) for name in
       ("anna", "maria", "lena", "tom", "peter", "paul", "weber", "novak", "rossi", "berlin", "paris",
        "vienna", "monday", "tuesday", "friday", "saturday", "sunday", "may", "july",
        "august", "october")},
    "new_york": ("New", "York"), "hong_kong": ("Hong", "Kong"),
}
PREPOSITIONS = {"part": "with", "carried": "with", "inside": "in", "at": "at", "on": "on", "under": "under",
                "behind": "behind", "origin": "from", "goal": "to", "topic": "about", "belonging": "of", "day": "on"}
NUMBERS = {2: "two", 3: "three", 4: "four", 5: "five", 10: "ten", 20: "twenty"}
AMOUNTS = {  # the words before a number, with their tags
    "more_than": (("JJR", "more"), ("IN", "than")), "fewer_than": (("JJR", "fewer"), ("IN", "than")),
    "at_least": (("IN", "at"), ("JJS", "least")), "about": (("IN", "about"),), "almost": (("RB", "almost"),),
}
PRONOUNS = {  # subject, object, possessive
    "male": ("he", "him", "his"), "female": ("she", "her", "her"), "neuter": ("it", "it", "its"),
    "plural": ("they", "them", "their"),
}
TIME_TAGS = {"yesterday": ("NP", "NN"), "today": ("NP", "NN"), "tomorrow": ("NP", "NN"), "now": ("ADVP", "RB"),
             "soon": ("ADVP", "RB")}
