"""Chinese noun phrases: measure words, modifiers before the noun, places, times."""

from __future__ import annotations

from seq2seq_suite.miniworld import lexicon
from seq2seq_suite.miniworld.entity_features import is_living, is_person, pronoun_gender
from seq2seq_suite.miniworld.lexicon_chinese import (
    ADJECTIVES,
    ADJECTIVES_OF_PEOPLE,
    ADJECTIVES_OF_THE_LIVING,
    AMOUNTS,
    CARRYING,
    COMPANIONS,
    EVERY,
    LAST,
    LOCALIZERS,
    NAMES,
    NOUNS,
    NUMBERS,
    PRONOUNS,
    TIME_WORDS,
    UNITS,
    noun,
    transcribed,
)
from seq2seq_suite.miniworld.world import Description, Entity, Group, Participant, Relation, Time


def adjective(concept: str, entity: Entity) -> str:
    """The bare adjective, which depends on what it describes: a man is `老` and `矮`, a stick `旧` and `短`."""
    if is_person(entity) and concept in ADJECTIVES_OF_PEOPLE:
        return ADJECTIVES_OF_PEOPLE[concept]
    if is_living(entity) and concept in ADJECTIVES_OF_THE_LIVING:
        return ADJECTIVES_OF_THE_LIVING[concept]
    return ADJECTIVES[concept]


def noun_phrase(participant: Participant | None, *, none: bool = False) -> str:
    """The characters for a participant: whose, how many, which, of what kind, what; `none` for `not any` of it.

    >>> noun_phrase(Entity("horse", reference="new", attributes=("white",))), noun_phrase(Entity("book", plural=True))
    ('一匹白色的马', '那些书')
    """
    assert participant is not None
    if isinstance(participant, Group):
        return _group(participant, none=none)
    if participant.reference == "given":
        return PRONOUNS[pronoun_gender(participant)]
    if participant.reference == "named":
        first = transcribed(participant.word) if participant.word else NAMES[participant.kind]
        return first + (f"·{NAMES[participant.family]}" if participant.family else "")
    return _before_attributes(participant, none=none) + described(participant, participant.attributes)


def described(entity: Entity, attributes: tuple[str, ...]) -> str:
    """Attributes and noun, nothing else."""
    words = [adjective(concept, entity) for concept in attributes]
    if entity.linked:
        return f"又{words[0]}又{words[1]}的{noun(entity.noun)[0]}"
    colours = [lexicon.ATTRIBUTES[concept][0] == lexicon.COLOUR for concept in attributes]
    shown = "".join(word + ("色的" if colour else "的") for word, colour in zip(words, colours, strict=True))
    return ("很" if entity.intense else "") + shown + noun(entity.noun)[0]


def _before_attributes(entity: Entity, *, none: bool) -> str:
    """Owner, determiner and number, the clause and the detail that say which one."""
    from seq2seq_suite.miniworld.chinese import relative_clause  # clauses hold nouns, and nouns hold clauses

    belongs = entity.detail is not None and entity.detail.kind == "belonging"
    owner = entity.owner or (entity.detail.entity if belongs else None)  # type: ignore[union-attr]
    whose = f"{noun_phrase(owner)}的" if owner is not None else ""
    words = whose + ("任何" if none else _determiner(entity, owned=owner is not None))
    if entity.event is not None:
        clause = relative_clause(entity, entity.event)
        words = words + clause if begins_with_verb(entity.event) else clause + words
    if entity.detail is not None and not belongs:
        words += _detail(entity.detail) + "的"
    return words


def begins_with_verb(description: Description) -> bool:
    """Whether the describing clause has no agent in front: `那些在睡觉的狗`, but `安娜看见的那些狗`."""
    return description.role == "agent" or description.event.about == "patient"


def _determiner(entity: Entity, *, owned: bool) -> str:
    measure = noun(entity.noun)[1]
    reference = "known" if owned else entity.reference
    if entity.amount is not None:
        which = {"near": "这", "known": "" if owned else "那"}.get(reference, "")
        return which + AMOUNTS[entity.amount.relation] + NUMBERS[entity.amount.number] + measure
    match reference:
        case "near":
            return "这些" if entity.plural else "这" + measure
        case "every":
            return "每" + measure
        case "new":
            return "一些" if entity.plural else "一" + measure
    return "那些" if entity.plural else ""


def _detail(relation: Relation) -> str:
    """What singles a thing out, without the `的` after it."""
    entity = relation.entity
    match relation.kind:
        case "part":
            return COMPANIONS["part"] + described(entity, entity.attributes)
        case "carried":
            return CARRYING.get(entity.kind, COMPANIONS["carried"]) + noun_phrase(entity)
        case "day":
            return NAMES[entity.kind]
        case "inside" | "at" | "on" | "under" | "behind":
            return "在" + location(relation)
    return COMPANIONS[relation.kind] + noun_phrase(entity)


def location(relation: Relation) -> str:
    """A place with the word after it that says where: `桌子上`, `花园里`, `柏林`."""
    named = relation.entity.reference == "named"
    return noun_phrase(relation.entity) + ("" if named else LOCALIZERS[relation.kind])


def end_point(entity: Entity) -> str:
    """Where something goes to or comes from; a house is entered."""
    return noun_phrase(entity) + (LOCALIZERS["inside"] if entity.kind == "house" else "")


def _group(group: Group, *, none: bool) -> str:
    """Members with `和` or `或`, before the last one only."""
    conjunction = "或" if group.choice else "和"
    if group.attributes and all(member.plural for member in group.members):
        first, *rest = group.members
        words = _before_attributes(first, none=none) + described(first, group.attributes)
        return words + "".join(conjunction + noun(member.noun)[0] for member in rest)
    if group.attributes:
        phrases = [
            _before_attributes(member, none=none) + described(member, group.attributes) for member in group.members
        ]
    else:
        phrases = [noun_phrase(member, none=none) for member in group.members]
    return "、".join(phrases[:-1]) + conjunction + phrases[-1]


def time_phrase(time: Time) -> str:
    """When: `星期一`, `每天`, `两周前`, `音乐会之后`."""
    match time.kind:
        case "adverb":
            return TIME_WORDS[time.value]
        case "every":
            return EVERY[time.value]
        case "last":
            return LAST[time.value]
        case "ago":
            return NUMBERS[time.number] + UNITS[time.value] + "前"
        case "day" | "month":
            return NAMES[time.value]
    return NOUNS[time.value][0] + ("之后" if time.kind == "occasion_after" else "之前")
