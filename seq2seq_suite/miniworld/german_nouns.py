"""German noun phrases: articles, endings, genitives, prepositions, relative pronouns."""

from __future__ import annotations

from seq2seq_suite.miniworld import lexicon
from seq2seq_suite.miniworld.entity_features import is_definite, is_person, pronoun_gender
from seq2seq_suite.miniworld.lexicon_german import (
    ADJECTIVES,
    ADJECTIVES_OF_PEOPLE,
    AMOUNTS,
    COMPANIONS,
    FEMININE,
    MASCULINE,
    NAMES,
    NEUTER,
    NOUNS,
    NUMBERS,
    PLACE_EXCEPTIONS,
    PLACES,
    PLURAL,
    PRONOUNS,
    STEMS,
    TIME_WORDS,
    entry,
    noun,
)
from seq2seq_suite.miniworld.world import Entity, Group, Participant, Relation, Time

CASES = ("nominative", "accusative", "dative", "genitive")
_GENDERS = (MASCULINE, FEMININE, NEUTER, PLURAL)


def _table(rows: str) -> dict[tuple[str, str], str]:
    """Four cases by four genders; `-` is no ending."""
    forms = [form.replace("-", "") for form in rows.split()]
    places = [(case, gender) for case in CASES for gender in _GENDERS]
    return dict(zip(places, forms, strict=True))


ARTICLE = _table("der die das die  den die das die  dem der dem den  des der des der")
RELATIVE = _table("der die das die  den die das die  dem der dem denen  dessen deren dessen deren")
_LIKE_DIESER = _table("er e es e  en e es e  em er em en  es er es er")
_LIKE_EIN = _table("- e - e  en e - e  em er em en  es er es er")
_STRONG = _table("er e es e  en e es e  em er em en  en er en er")
_WEAK = _table("e e e en  en e e en  en en en en  en en en en")
_CONTRACTED = {
    ("in", "dem"): "im",
    ("an", "dem"): "am",
    ("von", "dem"): "vom",
    ("zu", "dem"): "zum",
    ("zu", "der"): "zur",
    ("in", "das"): "ins",
}


def gender_of(entity: Entity) -> str:
    """The grammatical gender that articles and relative pronouns agree with."""
    if entity.plural:
        return PLURAL
    if entity.reference == "named":
        return {"male": MASCULINE, "female": FEMININE}.get(lexicon.GENDERS.get(entity.kind, ""), NEUTER)
    return entry(entity.noun).gender


def adjective(concept: str, entity: Entity) -> str:
    """The bare adjective, which depends on what it describes: a tail is `kurz`, a man `klein`."""
    return (ADJECTIVES_OF_PEOPLE if is_person(entity) else {}).get(concept, ADJECTIVES[concept])


def is_pronoun(participant: Participant | None) -> bool:
    """Whether it is expressed by a pronoun."""
    return isinstance(participant, Entity) and participant.reference == "given"


def noun_phrase(participant: Participant | None, case: str, *, subject: bool = False, none: bool = False) -> list[str]:
    """The words for a participant in a case.

    Args:
        participant: an entity or a group.
        case: one of `CASES`.
        subject: an open number of new ones is `einige` as a subject and bare elsewhere.
        none: `kein` in place of the indefinite article.

    Returns:
        Words and commas; a relative clause has a comma before and after it.

    >>> box, mouse = Entity("box", attributes=("old",)), Entity("mouse", reference="new", attributes=("tired",))
    >>> noun_phrase(Group((box, mouse)), "dative")
    ['der', 'alten', 'Schachtel', 'und', 'einer', 'müden', 'Maus']
    """
    assert participant is not None
    if isinstance(participant, Group):
        return _group(participant, case, subject=subject, none=none)
    if participant.reference == "given":
        return [PRONOUNS[pronoun_gender(participant)][CASES.index(case)]]
    if participant.reference == "named":
        first = (participant.word,) if participant.word else NAMES[participant.kind]
        return [*first, *(NAMES[participant.family] if participant.family else ())]
    return [*_core(participant, case, participant.attributes, subject=subject, none=none), *after_noun(participant)]


def after_noun(entity: Entity) -> list[str]:
    """Whose it is, which one, and the relative clause."""
    from seq2seq_suite.miniworld.german import relative_clause  # clauses hold nouns, and nouns hold clauses

    words: list[str] = []
    if entity.owner is not None and entity.owner.reference not in ("given", "named"):
        words += _genitive(entity.owner)
    if entity.detail is not None:
        words += relation_phrase(entity.detail)
    if entity.event is not None:
        words += relative_clause(entity, entity.event)
    return words


def _genitive(entity: Entity) -> list[str]:
    """An attribute in the genitive, with `von` where no word would show the case."""
    counted = entity.amount is not None or entity.plural
    if entity.reference in ("named", "given") or (not is_definite(entity) and counted):
        return prepositional("von", "dative", entity)
    return noun_phrase(entity, "genitive")


def _group(group: Group, case: str, *, subject: bool, none: bool) -> list[str]:
    conjunction = "oder" if group.choice else "und"
    shared = bool(group.attributes)
    if shared and all(member.plural for member in group.members):
        first, *rest = group.members
        words = _core(first, case, group.attributes, subject=subject, none=none)
        return words + [word for member in rest for word in (conjunction, noun(member.noun, case, plural=True))]
    phrases = [
        _core(member, case, group.attributes, subject=subject, none=none)
        if shared
        else noun_phrase(member, case, subject=subject, none=none)
        for member in group.members
    ]
    words = phrases[0]
    for phrase in phrases[1:-1]:
        words = [*words, ",", *phrase]
    return [*words, conjunction, *phrases[-1]]


def _core(entity: Entity, case: str, attributes: tuple[str, ...], *, subject: bool, none: bool) -> list[str]:
    """Determiner, number, adjectives and noun."""
    gender = gender_of(entity)
    determiner, endings = _determiner(entity, case, gender, subject=subject, none=none)
    words = list(determiner)
    if entity.amount is not None:
        words += [*AMOUNTS[entity.amount.relation], NUMBERS[entity.amount.number]]
    adjectives = []
    for concept in attributes:
        plain = adjective(concept, entity)
        adjectives.append(STEMS.get(plain, plain) + endings[case, gender])
    if entity.linked:
        adjectives.insert(1, "und")
    if entity.intense:
        adjectives.insert(0, "sehr")
    return [*words, *adjectives, noun(entity.noun, case, plural=entity.plural)]


def _determiner(
    entity: Entity, case: str, gender: str, *, subject: bool, none: bool
) -> tuple[tuple[str, ...], dict[tuple[str, str], str]]:
    """The determiner, and the endings of the adjectives after it."""
    place = (case, gender)
    owner = entity.owner
    if owner is not None and owner.reference == "given":
        return (PRONOUNS[pronoun_gender(owner)][3] + _LIKE_EIN[place],), _after_ein(place)
    if owner is not None and owner.reference == "named":
        *names, last = noun_phrase(owner, "nominative")
        return (*names, last + "s"), _STRONG
    if owner is not None or entity.reference == "known":
        return (ARTICLE[place],), _WEAK
    if entity.reference in ("near", "every"):
        return (("dies" if entity.reference == "near" else "jed") + _LIKE_DIESER[place],), _WEAK
    if none:
        return ("kein" + _LIKE_EIN[place],), _after_ein(place)
    if not entity.plural:
        return ("ein" + _LIKE_EIN[place],), _after_ein(place)
    if subject and entity.amount is None:
        return ("einig" + _LIKE_DIESER[place],), _STRONG
    return (), _STRONG


def _after_ein(place: tuple[str, str]) -> dict[tuple[str, str], str]:
    """An adjective shows the case where `ein`, `kein` or `sein` does not."""
    return _WEAK if _LIKE_EIN[place] else _STRONG


def prepositional(preposition: str, case: str, participant: Participant | None) -> list[str]:
    """A preposition and what it governs: `im Garten`, but `in dem Garten, den ...`; `darüber`, not `über es`."""
    assert participant is not None
    if isinstance(participant, Group):
        return [preposition, *noun_phrase(participant, case)]
    if participant.reference == "given" and case == "accusative" and pronoun_gender(participant) == "neuter":
        return ["da" + ("r" if preposition[0] in "aeiouü" else "") + preposition]
    words = noun_phrase(participant, case)
    if participant.event is None and participant.reference == "known" and (preposition, words[0]) in _CONTRACTED:
        return [_CONTRACTED[preposition, words[0]], *words[1:]]
    return [preposition, *words]


def relation_phrase(relation: Relation, *, directed: bool = False) -> list[str]:
    """How a thing stands to another, or where something happens; `directed` for where it is put.

    >>> on_the_table = Relation("on", Entity("table"))
    >>> relation_phrase(on_the_table), relation_phrase(on_the_table, directed=True)
    (['auf', 'dem', 'Tisch'], ['auf', 'den', 'Tisch'])
    """
    entity = relation.entity
    group = lexicon.GROUP_OF[entity.kind]
    match relation.kind:
        case "belonging":
            return _genitive(entity)
        case "goal":
            if group == "city":
                return ["nach", *noun_phrase(entity, "dative")]
            if lexicon.PLACE_RELATIONS.get(entity.kind) == "inside":
                return prepositional("in", "accusative", entity)
            return prepositional("zu", "dative", entity)
        case "origin":
            enclosed = entity.kind in lexicon.PLACE_RELATIONS and entity.kind not in PLACE_EXCEPTIONS
            return prepositional("aus" if enclosed else "von", "dative", entity)
        case "day":
            return ["am", *NAMES[entity.kind]]
        case "topic":
            return prepositional(COMPANIONS["topic"], "accusative", entity)
        case "part" | "carried":
            return prepositional(COMPANIONS[relation.kind], "dative", entity)
    preposition = PLACE_EXCEPTIONS.get(entity.kind, PLACES[relation.kind])
    return prepositional(preposition, "accusative" if directed else "dative", entity)


def time_phrase(time: Time) -> list[str]:
    """When: `am Montag`, `jeden Tag`, `vor zwei Wochen`, `nach dem Konzert`."""
    match time.kind:
        case "adverb":
            return [TIME_WORDS[time.value]]
        case "every" | "last":
            stem = "jed" if time.kind == "every" else "letzt"
            ending = {"masculine": "en", "feminine": "e", "neuter": "es"}[NOUNS[time.value].gender]
            return [stem + ending, noun(time.value, "accusative")]
        case "ago":
            return ["vor", NUMBERS[time.number], noun(time.value, "dative", plural=True)]
        case "day" | "month":
            return ["am" if time.kind == "day" else "im", *NAMES[time.value]]
    preposition = "nach" if time.kind == "occasion_after" else "vor"
    return prepositional(preposition, "dative", Entity(time.value))
