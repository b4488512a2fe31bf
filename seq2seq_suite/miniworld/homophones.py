"""What sounds the same and is written in two ways: `the kings' mice` and `the king's mice`.

No other two sentences of the generator do: words that sound alike, such as `to` and `two` or `by` and `buy`, stand in
different places, and of the invented nouns of one kind those that do are 1 in 40,000 that are drawn.

>>> from seq2seq_suite.miniworld.text import english_text
>>> from seq2seq_suite.miniworld.world import Entity, Event, Scene
>>> mice = Entity("mouse", True, owner=Entity("king", True))
>>> kings = Scene((Event("sleep", agent=mice),))
>>> english_text(kings), english_text(one_owner_each(kings))
("The kings' mice sleep.", "The king's mice sleep.")
"""

from __future__ import annotations

from typing import Any

from seq2seq_suite.miniworld.lexicon_english import noun
from seq2seq_suite.miniworld.world import changed


def one_owner_each(part: Any) -> Any:
    """A scene, or a part of one, in which what several own one owns, where that sounds the same.

    It is the likelier one: owners are a plural in one case of five. Irregular plurals (`the men's mice`) sound apart.
    """
    if isinstance(part, tuple):
        return tuple(map(one_owner_each, part))
    if not hasattr(part, "__slots__"):
        return part
    changes = {name: one_owner_each(getattr(part, name)) for name in type(part).__slots__}
    owner = changes.get("owner")
    if owner and owner.plural and owner.reference == "known" and noun(owner.noun, plural=True).endswith("s"):
        changes["owner"] = changed(owner, plural=False)
    return changed(part, **changes)
