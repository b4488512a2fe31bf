"""The concepts of the small world and what goes with what; `lexicon_english` and its like hold the words.

>>> [action.key for action in ACTIONS if "telescope" in action.tools]
['see', 'watch', 'find']
>>> PARTS["house"]
('door', 'window')
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Action:
    """What can be done.

    Args:
        key: the concept.
        frame: intransitive | transitive | transfer | placing | carrying | motion | removal | telling | talking |
            report.
        agents, patients: groups or kinds that can do it or have it done to them.
        tools: kinds it is done with.
        stative: it lasts and has no place of its own, so a place beside it belongs to a participant.
    """

    key: str
    frame: str
    agents: tuple[str, ...]
    patients: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    stative: bool = False

    @property
    def has_topic(self) -> bool:
        """Whether it comes with a topic."""
        return self.frame in ("telling", "talking")


GROUPS: dict[str, tuple[str, ...]] = {
    "person": ("man", "woman", "child", "boy", "girl", "teacher", "doctor", "farmer", "student", "artist", "king",
               "queen"),
    "relative": ("friend", "owner", "neighbor", "mother"),
    "animal": ("dog", "cat", "bird", "horse", "mouse", "cow", "rabbit"),
    "thing": ("ball", "cup", "box", "bag", "flower", "clock"),
    "text": ("book", "letter", "story"),
    "wearable": ("hat", "umbrella"),
    "food": ("apple", "cake", "sandwich"),
    "device": ("lamp", "radio"),
    "vehicle": ("car", "train", "bus"),
    "building": ("house", "school"),
    "area": ("garden", "park", "kitchen", "station"),
    "furniture": ("table", "shelf", "bed"),
    "part": ("tail", "ear", "leg", "door", "window", "handle", "beard", "eye"),
    "tool": ("telescope", "key", "knife", "brush", "hammer", "stick", "pen", "spoon", "net"),
    "occasion": ("concert", "party", "wedding"),
    "first_name": ("anna", "maria", "lena", "tom", "peter", "paul"),
    "family_name": ("weber", "novak", "rossi"),
    "city": ("berlin", "paris", "vienna", "new_york", "hong_kong"),
    "day": ("monday", "tuesday", "friday", "saturday", "sunday"),
    "month": ("may", "july", "october"),
    "unit": ("day", "week", "month", "year"),
    "day_part": ("morning", "evening"),
}
GROUP_OF = {kind: group for group, kinds in GROUPS.items() for kind in kinds}
GENDERS = {
    "man": "male", "boy": "male", "king": "male", "farmer": "male", "doctor": "male", "tom": "male", "peter": "male",
    "paul": "male", "owner": "male", "neighbor": "male", "student": "male",
    "woman": "female", "girl": "female", "queen": "female", "teacher": "female", "artist": "female",
    "anna": "female", "maria": "female", "lena": "female", "mother": "female", "friend": "female", "child": "female",
}

SIZE, AGE, STATE, COLOUR = "size", "age", "state", "colour"
_BEINGS = ("person", "relative", "animal")
_OBJECTS = ("thing", "text", "wearable", "device", "vehicle", "tool")
_PLACES = ("building", "area")
ATTRIBUTES: dict[str, tuple[str, tuple[str, ...]]] = {
    "big": (SIZE, ("animal", "food", "furniture", "part", *_OBJECTS, *_PLACES)),
    "small": (SIZE, ("animal", "food", "furniture", "part", *_OBJECTS, *_PLACES)),
    "tall": (SIZE, ("person",)),
    "long": (SIZE, ("tail", "beard", "leg", "ear", "text", "stick")),
    "short": (SIZE, ("tail", "beard", "leg", "text", "stick", "person")),
    "old": (AGE, ("furniture", *_BEINGS, *_OBJECTS, *_PLACES)),
    "young": (AGE, _BEINGS),
    "new": (AGE, ("furniture", *_OBJECTS, *_PLACES)),
    "happy": (STATE, _BEINGS), "tired": (STATE, _BEINGS), "hungry": (STATE, _BEINGS),
    "famous": (STATE, ("person", "relative")),
    "beautiful": (STATE, ("animal", "part", *_OBJECTS, *_PLACES)),
    "heavy": (STATE, ("furniture", *_OBJECTS)), "dirty": (STATE, ("furniture", "animal", *_OBJECTS)),
    "expensive": (STATE, _OBJECTS),
    "red": (COLOUR, ("food", "furniture", "part", *_OBJECTS)), "blue": (COLOUR, ("furniture", "eye", *_OBJECTS)),
    "green": (COLOUR, ("furniture", "eye", *_OBJECTS)), "yellow": (COLOUR, ("furniture", *_OBJECTS)),
    "black": (COLOUR, ("animal", "part", *_OBJECTS)), "white": (COLOUR, ("animal", "part", *_OBJECTS)),
    "brown": (COLOUR, ("animal", "furniture", "part")),
}
COMPARABLE = ("big", "small", "old", "young", "happy", "heavy")

_PERSON = ("person",)
_VISIBLE = (*_BEINGS, *_OBJECTS, "building")
_MOVABLE = ("thing", "text", "wearable", "food", "tool")
ACTIONS: tuple[Action, ...] = (
    Action("sleep", "intransitive", _BEINGS), Action("sing", "intransitive", ("person", "relative", "bird")),
    Action("dance", "intransitive", ("person", "relative")),
    Action("bark", "intransitive", ("dog",)),
    Action("sit_down", "intransitive", ("person", "relative")),
    Action("arrive", "intransitive", ("person", "relative", "train", "bus")),
    Action("see", "transitive", _BEINGS, _VISIBLE, ("telescope",)),
    Action("watch", "transitive", _BEINGS, (*_BEINGS, "vehicle"), ("telescope",)),
    Action("find", "transitive", _BEINGS, (*_BEINGS, *_OBJECTS, "food"), ("telescope",)),
    Action("strike", "transitive", _PERSON, (*_BEINGS, "thing"), ("hammer", "stick", "umbrella")),
    Action("open", "transitive", _PERSON, ("door", "window", "box", "bag"), ("key", "knife")),
    Action("slice", "transitive", _PERSON, ("food",), ("knife",)),
    Action("paint", "transitive", _PERSON, (*_BEINGS, "building", "furniture", "vehicle"), ("brush",)),
    Action("repair", "transitive", _PERSON, ("vehicle", "device", "furniture", "clock"), ("hammer",)),
    Action("eat", "transitive", ("person", "animal"), ("food",), ("spoon", "knife")),
    Action("write", "transitive", _PERSON, ("text",), ("pen", "brush")),
    Action("catch", "transitive", _BEINGS, ("animal", "ball"), ("net",)),
    Action("study", "transitive", _PERSON, ("text", "flower", "animal")),
    Action("buy", "transitive", _PERSON, (*_OBJECTS, "food", "furniture", "house")),
    Action("visit", "transitive", ("person", "relative"), ("person", "relative", "building", "occasion")),
    Action("chase", "transitive", ("animal", "child", "boy", "girl"), _BEINGS),
    Action("like", "transitive", _BEINGS, (*_VISIBLE, "food", "area", "occasion"), stative=True),
    Action("know", "transitive", ("person", "relative"), (*_BEINGS, "text", *_PLACES), stative=True),
    Action("remember", "transitive", ("person", "relative"), (*_VISIBLE, "area", "occasion"), stative=True),
    Action("pick_up", "transitive", ("person",), _MOVABLE), Action("turn_on", "transitive", _PERSON, ("device",)),
    Action("throw_away", "transitive", _PERSON, _MOVABLE),
    Action("give", "transfer", ("person", "relative"), _MOVABLE), Action("send", "transfer", _PERSON, _MOVABLE),
    Action("show", "transfer", ("person", "relative"), (*_MOVABLE, "animal", "vehicle")),
    Action("sell", "transfer", _PERSON, (*_OBJECTS, "animal", "furniture")),
    Action("place", "placing", _PERSON, _MOVABLE), Action("leave", "placing", _PERSON, _MOVABLE),
    Action("carry", "carrying", ("person", "relative"), (*_MOVABLE, "cat", "rabbit", "child")),
    Action("go", "motion", ("person", "relative", "train", "bus")), Action("walk", "motion", _BEINGS),
    Action("come", "motion", ("person", "relative", "train", "bus")),
    Action("take", "removal", _PERSON, _MOVABLE),
    Action("tell", "telling", ("person", "relative"), ("person", "relative")),
    Action("talk", "talking", ("person", "relative")),
    Action("say", "report", ("person", "relative")), Action("think", "report", ("person", "relative")),
    Action("ask", "report", ("person", "relative")),
)
ACTION = {action.key: action for action in ACTIONS}

RELATIONS = ("part", "carried", "inside", "at", "on", "under", "behind", "origin", "goal", "topic", "belonging", "day")
PARTS: dict[str, tuple[str, ...]] = {
    **{kind: ("tail", "ear", "leg", "eye") for kind in GROUPS["animal"] if kind != "bird"},
    "bird": ("tail", "leg", "eye"),
    **{kind: ("beard", "eye") for kind in ("man", "king", "farmer", "doctor")},
    **{kind: ("eye",) for kind in ("woman", "girl", "queen", "artist", "child", "boy")},
    **{kind: ("door", "window") for kind in GROUPS["building"]},
    "car": ("door", "window"), "train": ("door", "window"), "bus": ("door", "window"),
    "cup": ("handle",), "bag": ("handle",), "brush": ("handle",), "knife": ("handle",), "umbrella": ("handle",),
}
PAIRED_PARTS = ("ear", "leg", "eye", "window")
SINGLE_GROUPS = ("area", "occasion")  # kinds that scenes hold one of
BOUND_FOR = ("train", "bus")  # known by where they go
CARRIED = (*GROUPS["tool"], *GROUPS["wearable"], "bag", "book")
_ENTERED = ("garden", "park", "kitchen", "house", *GROUPS["city"])
PLACE_RELATIONS = {**dict.fromkeys(_ENTERED, "inside"),
                   **dict.fromkeys(("station", "school"), "at")}
SUPPORT_RELATIONS = ("on", "under", "behind")

NUMBERS = (2, 3, 4, 5, 10, 20)
AMOUNTS = ("more_than", "fewer_than", "at_least", "about", "almost")
MANNERS = ("quickly", "slowly", "quietly", "carefully")
WITH_MANNER = ("sing", "dance", "open", "slice", "paint", "repair", "eat", "write", "catch", "study", "walk", "place",
               "pick_up", "throw_away", "take")
FREQUENCIES = ("often", "always", "sometimes")


def kinds_in(names: tuple[str, ...]) -> tuple[str, ...]:
    """The kinds that groups and single kinds stand for.

    >>> kinds_in(("device", "ball"))
    ('lamp', 'radio', 'ball')
    """
    return tuple(kind for name in names for kind in GROUPS.get(name, (name,)))


AGENTS = {action.key: kinds_in(action.agents) for action in ACTIONS}
PATIENTS = {action.key: kinds_in(action.patients) for action in ACTIONS}
_FITTING = {attribute: kinds_in(names) for attribute, (_, names) in ATTRIBUTES.items()}
ATTRIBUTES_OF = {kind: tuple(attribute for attribute in ATTRIBUTES if kind in _FITTING[attribute])
                 for kind in GROUP_OF}
FRAMES = ("intransitive", "transitive", "transfer", "placing", "carrying", "motion", "removal", "telling", "talking",
          "report")
ACTIONS_WITH_FRAME = {frame: tuple(action for action in ACTIONS if action.frame == frame) for frame in FRAMES}
_DESCRIBING = ("intransitive", "transitive", "transfer")
ACTIONS_BY_AGENT = {kind: tuple(action for action in ACTIONS
                                if action.frame in _DESCRIBING and kind in AGENTS[action.key])
                    for kind in GROUP_OF}
ACTIONS_ON_PATIENT = {kind: tuple(action for action in ACTIONS
                                  if action.frame in _DESCRIBING and kind in PATIENTS[action.key])
                      for kind in GROUP_OF}
