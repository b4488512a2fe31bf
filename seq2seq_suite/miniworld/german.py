"""A scene in German: verb second and verb last, cases, separable verbs, passives.

What English leaves open is settled by what the sentence shows, so that the German follows from the English: `it` is
`es`, and a described thing `seen by Anna` is in the past.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from seq2seq_suite.miniworld import lexicon
from seq2seq_suite.miniworld.entity_features import can_be_none, is_definite, is_vehicle
from seq2seq_suite.miniworld.german_nouns import (
    RELATIVE,
    adjective,
    gender_of,
    is_pronoun,
    noun_phrase,
    prepositional,
    relation_phrase,
    time_phrase,
)
from seq2seq_suite.miniworld.lexicon_german import (
    COMPARATIVES,
    DRIVE,
    FREQUENCIES,
    JOBS,
    LINKS,
    MANNERS,
    MODALS,
    SENT_TO,
    WITH_SEIN,
    Verb,
    verb_of,
)
from seq2seq_suite.miniworld.text import spaced
from seq2seq_suite.miniworld.world import (
    Description,
    Entity,
    Event,
    Group,
    Participant,
    Scene,
    is_plural,
)


def german(scene: Scene) -> list[str]:
    """The words of the German sentence for a scene; commas and the full stop are words of their own.

    Args:
        scene: to express.

    Returns:
        The tokens, the first one capitalised.

    >>> from seq2seq_suite.miniworld.world import Time
    >>> anna, ball = Entity("anna", reference="named"), Entity("ball", reference="new", attributes=("red",))
    >>> german(Scene((Event("pick_up", agent=anna, patient=ball, time=Time("day", "monday"), time_first=True),)))
    ['Am', 'Montag', 'hebt', 'Anna', 'einen', 'roten', 'Ball', 'auf', '.']
    """
    first = scene.events[0]
    if len(scene.events) == 1:
        words = _main_clause(first)
    elif scene.link == "and" and first.agent is not None and first.agent == scene.events[1].agent:
        words = _told_in_one_breath(first, scene.events[1])
    elif scene.link in ("and", "but"):
        comma = [","] if scene.link == "but" else []
        words = [*_main_clause(first), *comma, LINKS[scene.link], *_main_clause(scene.events[1])]
    else:
        second = scene.events[1]
        link = "als" if scene.link == "when" and second.tense == "past" else LINKS[scene.link]
        linked = [link, *_last_verb_clause(second)]
        words = _main_clause(first, [*linked, ","]) if scene.second_first else [*_main_clause(first), ",", *linked]
    words = _punctuated(words)
    return [words[0][0].upper() + words[0][1:], *words[1:]]


def german_text(scene: Scene) -> str:
    """The German sentence for a scene in natural spacing.

    >>> bird, telescope = Entity("bird"), Entity("telescope")
    >>> king = Entity("king", attributes=("old",))
    >>> german_text(Scene((Event("see", agent=king, patient=bird, instrument=telescope),)))
    'Der alte König sieht den Vogel mit dem Fernrohr.'
    """
    return spaced(german(scene))


def _punctuated(words: list[str]) -> list[str]:
    """With a full stop, and no comma before it or before another comma."""
    following = [*words[1:], "."]
    kept = [word for word, after in zip(words, following, strict=True) if word != "," or after not in (",", ".")]
    return [*kept, "."]


@dataclass(frozen=True, slots=True)
class _Verbs:
    """The finite verb, what stands at the end of a main clause, and both together at the end of a subordinate one."""

    finite: str
    end: list[str]
    together: list[str]


def _verbs(event: Event, plural: bool) -> _Verbs:
    verb = _verb(event)
    modal = event.modality or ("future" if event.tense == "future" else "")
    if event.action in ("be", "exist"):
        modal = ""
    if modal == "must" and event.negated:
        modal = "must not"
    if event.about == "patient":
        end = [verb.participle]
        if modal:
            end.append("werden")
        finite = (
            MODALS[modal][plural]
            if modal
            else ("wurden" if plural else "wurde")
            if event.tense == "past"
            else MODALS["future"][plural]
        )
        return _Verbs(finite, end, [*end, finite])
    if modal:
        finite, end = MODALS[modal][plural], [verb.prefix + verb.infinitive]
        return _Verbs(finite, end, [*end, finite])
    if event.tense == "past" and event.perfect and event.action not in ("be", "exist"):
        finite = ("ist", "sind")[plural] if verb.infinitive in WITH_SEIN else ("hat", "haben")[plural]
        return _Verbs(finite, [verb.participle], [verb.participle, finite])
    if event.tense == "past":
        finite = verb.preterite + (("n" if verb.preterite.endswith("e") else "en") if plural else "")
    elif plural:
        finite = "sind" if event.action == "be" else verb.infinitive
    else:
        finite = verb.third
    return _Verbs(finite, [verb.prefix] if verb.prefix else [], [verb.prefix + finite])


def _verb(event: Event) -> Verb:
    """The verb for the action; what goes by itself drives."""
    return DRIVE if event.action == "go" and is_vehicle(event.agent) else verb_of(event.verb_key)


def _active(event: Event) -> Event:
    """The same event in the active voice where the verb has no passive."""
    return replace(event, about="agent") if event.about == "patient" and verb_of(event.verb_key).reflexive else event


def _subject(event: Event) -> Participant | None:
    return event.patient if event.about == "patient" else event.agent


def _subject_words(event: Event) -> tuple[list[str], bool]:
    """The subject and whether it is plural; `es gibt` has one of its own."""
    if event.action == "exist":
        return ["es"], False
    subject = _subject(event)
    assert subject is not None
    return noun_phrase(subject, "nominative", subject=True), is_plural(subject)


def _main_clause(event: Event, front: list[str] | None = None) -> list[str]:
    """A clause with the verb second, after `front` or else after the time, the place or the subject."""
    passive, event = event.about == "patient", _active(event)
    rest = event
    if front is None and event.time is not None and event.time_first:
        front, rest = time_phrase(event.time), replace(event, time=None)
    elif front is None and event.place is not None and (event.place_first or event.action == "exist"):
        front, rest = relation_phrase(event.place), replace(event, place=None)
    elif front is None and passive and event.about == "agent":
        front, rest = _patient(event), replace(event, patient=None)
    subject, plural = _subject_words(event)
    verbs = _verbs(event, plural)
    reflexive = ["sich"] if event.about == "agent" and verb_of(event.verb_key).reflexive else []
    if front is None:
        inside = [*reflexive, *_middle(rest)]
        return [*subject, verbs.finite, *inside, *verbs.end, *_content(event)]
    opening = [*subject, *reflexive] if is_pronoun(_subject(event)) else [*reflexive, *subject]
    return [*front, verbs.finite, *opening, *_middle(rest), *verbs.end, *_content(event)]


def _last_verb_clause(event: Event) -> list[str]:
    """A clause with the verb last, without the word that opens it."""
    event = _active(event)
    subject, plural = _subject_words(event)
    return [*subject, *_after_subject(event, plural)]


def _after_subject(event: Event, plural: bool) -> list[str]:
    """What follows the subject where the verb comes last."""
    reflexive = ["sich"] if event.about == "agent" and verb_of(event.verb_key).reflexive else []
    return [*reflexive, *_middle(event), *_verbs(event, plural).together, *_content(event)]


def _told_in_one_breath(first: Event, second: Event) -> list[str]:
    """A subject with two verbs."""
    subject, plural = _subject_words(first)
    phrases = []
    for event in (first, second):
        reflexive = ["sich"] if verb_of(event.verb_key).reflexive else []
        verbs = _verbs(event, plural)
        phrases.append([verbs.finite, *reflexive, *_middle(event), *verbs.end])
    return [*subject, *phrases[0], LINKS["and"], *phrases[1]]


def _content(event: Event) -> list[str]:
    """What is said, thought or asked."""
    if event.content is None:
        return []
    return [",", "ob" if event.action == "ask" else "dass", *_last_verb_clause(event.content)]


def _patient(event: Event, *, none: bool = False) -> list[str]:
    verb = verb_of(event.verb_key)
    if verb.preposition:
        return prepositional(verb.preposition, verb.patient, event.patient)
    return noun_phrase(event.patient, verb.patient, none=none)


def _middle(event: Event) -> list[str]:
    """What stands between the finite verb or the subject and the verbs at the end.

    Pronouns come first, then the time, then what is known, `nicht`, the circumstances, what is new, and where to.
    """
    pronouns: list[list[str]] = []
    known: list[list[str]] = []
    new: list[list[str]] = []
    last: list[list[str]] = []
    negated = event.negated
    for participant, is_patient in _objects(event):
        none = negated and can_be_none(participant)
        negated = negated and not none
        words = _patient(event, none=none) if is_patient else noun_phrase(participant, "dative", none=none)
        follows_news = bool(new) or not is_definite(participant)
        (pronouns if is_pronoun(participant) else new if follows_news else known).append(words)
    if event.recipient is not None and _is_sent_to(event):
        last.append(prepositional("an", "accusative", event.recipient))
    if event.patient is not None and event.about == "agent" and verb_of(event.verb_key).preposition:
        last.append(_patient(event))
    if event.goal is not None:
        last.append(_goal(event))
    if event.action == "be":
        last.append(_state(event, negated))
    negation = [["nicht"]] if negated and event.action != "be" else []
    when = [time_phrase(event.time)] if event.time is not None else []
    often = [[FREQUENCIES[event.frequency]]] if event.frequency else []
    circumstances = _circumstances(event)
    if event.circumstances_first:
        parts = [*pronouns, *known, *reversed(circumstances), *when, *often, *negation, *new, *last]
    else:
        parts = [*pronouns, *when, *often, *known, *negation, *circumstances, *new, *last]
    return [word for part in parts for word in part]


def _objects(event: Event) -> list[tuple[Participant, bool]]:
    """The objects without a preposition and whether it is the patient, in their order.

    The recipient comes first, unless the patient is a pronoun, or is known while the recipient is the news.
    """
    objects: list[tuple[Participant, bool]] = []
    if event.recipient is not None and not _is_sent_to(event):
        objects.append((event.recipient, False))
    patient = event.patient if event.about == "agent" and event.action != "be" else None
    if patient is not None and not verb_of(event.verb_key).preposition:
        first = is_pronoun(patient) or (event.new == "recipient" and is_definite(patient))
        objects.insert(0 if first else len(objects), (patient, True))
    return objects


def _is_sent_to(event: Event) -> bool:
    """Whether the recipient has `an`; English does not mark new information where the patient is left out."""
    is_new = event.new == "recipient" and event.patient is not None
    return is_new and event.action in SENT_TO and not is_pronoun(event.recipient)


def _circumstances(event: Event) -> list[list[str]]:
    """By whom, how, with what, where."""
    parts: list[list[str]] = []
    if event.about == "patient":
        parts.append(prepositional("von", "dative", event.agent))
    if event.manner:
        parts.append([MANNERS[event.manner]])
    if event.instrument is not None:
        parts.append(prepositional("mit", "dative", event.instrument))
    if event.place is not None and event.action != "be":
        parts.append(relation_phrase(event.place))
    return parts


def _goal(event: Event) -> list[str]:
    """Where something goes, or what is talked about: it is put `auf den Tisch`, but left `auf dem Tisch`."""
    assert event.goal is not None
    if event.goal.kind == "topic" and event.action == "tell":
        return prepositional("von", "dative", event.goal.entity)
    return relation_phrase(event.goal, directed=event.action == "place")


def _state(event: Event, negated: bool) -> list[str]:
    """What follows `ist`."""
    negation = ["nicht"] if negated else []
    if event.than is not None:
        return [*negation, COMPARATIVES[event.quality[0]], "als", *noun_phrase(event.than, "nominative")]
    agent = event.agent
    if event.quality:
        assert agent is not None
        described = agent.members[-1] if isinstance(agent, Group) else agent
        words = [adjective(concept, described) for concept in event.quality]
        return [*negation, *" und ".join(words).split()]
    if event.patient is None:
        assert event.place is not None
        return [*negation, *relation_phrase(event.place)]
    if isinstance(event.patient, Entity) and event.patient.kind in JOBS and isinstance(agent, Entity):
        female = lexicon.GENDERS.get(agent.kind, "male") == "female"
        job = JOBS[event.patient.kind]["female" if female else "male"]
        return [*((["keine"] if female else ["kein"]) if negated else []), job]
    none = negated and can_be_none(event.patient)
    return [*(negation if not none else []), *noun_phrase(event.patient, "nominative", none=none)]


def relative_clause(entity: Entity, description: Description) -> list[str]:
    """The clause that an event makes after the noun it describes, between commas.

    >>> see = Event("see", agent=Entity("anna", reference="named"))
    >>> relative_clause(Entity("man"), Description("patient", see))
    [',', 'den', 'Anna', 'sieht', ',']
    """
    event = description.event
    gender = gender_of(entity)
    if description.role == "agent":
        return [",", RELATIVE["nominative", gender], *_after_subject(event, entity.plural), ","]
    if event.about == "patient":  # a bare participle in English, which shows neither tense nor frequency
        event = replace(event, tense="past", frequency="", modality="", negated=False)
        if not verb_of(event.verb_key).reflexive:
            return [",", RELATIVE["nominative", gender], *_after_subject(event, entity.plural), ","]
    verb = verb_of(event.verb_key)
    pronoun = [verb.preposition] if verb.preposition else []
    pronoun.append(RELATIVE[verb.patient, gender])
    return [",", *pronoun, *_last_verb_clause(event), ","]
