"""A scene in Chinese: time and place before the verb, `把` and `被`, aspect, clauses before the noun they describe.

What English leaves open is settled by what the sentence shows: `they` is `他们`, and a described thing `seen by Anna`
has no tense. An action of the past has `了`; what lasted, or was said or thought, has `当时`; in a clause before a noun
the past is `之前`.
"""

from __future__ import annotations

from dataclasses import replace

from seq2seq_suite.miniworld import lexicon
from seq2seq_suite.miniworld.chinese_nouns import adjective, end_point, location, noun_phrase, time_phrase
from seq2seq_suite.miniworld.entity_features import can_be_none, is_definite, is_person, is_vehicle
from seq2seq_suite.miniworld.lexicon_chinese import (
    ACTIVITIES,
    ATTEND,
    DRIVE,
    FREQUENCIES,
    KNOW_WELL,
    LASTING,
    MANNERS,
    MODALS,
    NOUNS,
    REPORTING,
    SEE_SIGHTS,
    VERBS,
    Verb,
    verb_of,
)
from seq2seq_suite.miniworld.world import Description, Entity, Event, Group, Participant, Scene

_PAST_TIMES = ("yesterday", "last", "ago")


def chinese(scene: Scene) -> str:
    """The Chinese sentence for a scene, without spaces and with full-width punctuation.

    Args:
        scene: to express.

    Returns:
        The sentence.

    >>> from seq2seq_suite.miniworld.world import Relation
    >>> anna, book = Entity("anna", reference="named"), Entity("book", reference="new", attributes=("red",))
    >>> chinese(Scene((Event("place", "past", anna, book, goal=Relation("on", Entity("table"))),)))
    '安娜把一本红色的书放在了桌子上。'
    """
    first = scene.events[0]
    if len(scene.events) == 1:
        return _clause(first) + "。"
    second = scene.events[1]
    if scene.link == "and" and first.agent is not None and first.agent == second.agent:
        both = [_predicate(replace(event, time_first=False)) for event in scene.events]
        return f"{noun_phrase(first.agent)}{both[0]}，并且{both[1]}。"
    match scene.link:
        case "and":
            return f"{_clause(first)}，而{_clause(second)}。"
        case "but":
            return f"{_clause(first)}，但是{_clause(second)}。"
        case "because" if scene.second_first:
            return f"因为{_clause(second)}，所以{_clause(first)}。"
        case "because":
            return f"{_clause(first)}，因为{_clause(second)}。"
        case "when":
            return f"当{_clause(second)}的时候，{_clause(first)}。"
    return f"如果{_clause(second)}，{_clause(first)}。"


def _clause(event: Event, *, whether: bool = False) -> str:
    """A clause; `whether` puts `是否` after its subject."""
    front = f"{time_phrase(event.time)}，" if event.time is not None and event.time_first else ""
    if event.action == "exist":
        assert event.place is not None
        return front + location(event.place) + _predicate(event, whether=whether)
    subject = event.patient if event.about == "patient" else event.agent
    return front + noun_phrase(subject) + _predicate(event, whether=whether)


def _predicate(event: Event, *, whether: bool = False, inside: bool = False, gap: bool = False) -> str:
    """All that follows the subject.

    Args:
        event: to express.
        whether: it is asked.
        inside: it stands before a noun that it describes.
        gap: the patient is that noun.
    """
    if event.modality and event.action not in ("be", "exist"):
        event = replace(event, tense="present")
    subject = event.patient if event.about == "patient" else event.agent
    words = time_phrase(event.time) if event.time is not None and not event.time_first else ""
    words += "是否" if whether else ""
    if isinstance(subject, Entity) and subject.reference == "every" and subject.owner is None:
        words += "都"
    words += _past_word(event, inside=inside)
    words += FREQUENCIES[event.frequency] if event.frequency else ""
    if event.action == "be":
        return words + _state(event)
    words += _auxiliary(event)
    progressive = _is_going_on(event)
    words += "正在" if progressive else ""
    if event.about == "patient":
        words += f"被{noun_phrase(event.agent)}"
    if event.place is not None and event.action != "exist":
        words += ("" if words.endswith("正在") else "在") + location(event.place)
    how = [
        MANNERS[event.manner] if event.manner else "",
        f"用{noun_phrase(event.instrument)}" if event.instrument is not None else "",
    ]
    words += "".join(reversed(how) if event.circumstances_first else how)
    done = event.tense == "past" and not event.negated and not inside
    aspect = "了" if done and event.action not in (*LASTING, *REPORTING) else ""
    return words + _core(event, aspect, gap=gap)


def _past_word(event: Event, *, inside: bool) -> str:
    """A word for the past where neither `了` nor a time marks it."""
    if event.tense != "past":
        return ""
    if inside:
        return "之前"
    marked = event.time is not None and (event.time.kind in _PAST_TIMES or event.time.value in _PAST_TIMES)
    return "当时" if event.action in (*LASTING, *REPORTING) and not marked else ""


def _auxiliary(event: Event) -> str:
    """What is possible, needed or to come, and negation."""
    if event.action == "exist":
        return ""
    if event.tense == "future":
        return "不会" if event.negated else "会"
    if event.modality:
        return MODALS[event.modality][event.negated]
    if not event.negated:
        return ""
    if event.tense == "past" and event.action not in LASTING:
        return "没有"
    return "" if _negates_itself(event) else "不"


def _negates_itself(event: Event) -> bool:
    """Whether `不` stands inside the verb: `看不见`."""
    plain = event.negated and event.tense == "present" and not event.modality
    return plain and event.about == "agent" and event.action != "exist" and bool(verb_of(event.verb_key).negated)


def _is_going_on(event: Event) -> bool:
    """Whether it is in progress, not habitual."""
    now = event.time is None or event.time.value == "now"
    plain = not (event.modality or event.negated or event.frequency)
    return event.action in ACTIVITIES and event.tense == "present" and plain and now


def _verb(event: Event) -> Verb:
    """The verb for the action, which depends on who goes and on what is visited or known."""
    if event.action == "go" and is_vehicle(event.agent):
        return DRIVE
    patient = event.patient.members[0] if isinstance(event.patient, Group) else event.patient
    if patient is None or event.action not in ("visit", "know") or is_person(patient):
        return verb_of(event.verb_key)
    group = lexicon.GROUP_OF[patient.kind] if patient.reference != "given" else ""
    if event.action == "visit":
        return ATTEND if group == "occasion" else SEE_SIGHTS
    return KNOW_WELL if group in ("text", "building", "area") else VERBS["know"]


def _core(event: Event, aspect: str, *, gap: bool) -> str:
    """The verb with its aspect and its objects."""
    verb = _verb(event)
    none = event.negated and can_be_none(event.patient)
    patient = "" if gap or event.patient is None else noun_phrase(event.patient, none=none)
    if event.about == "patient":
        return (verb.passive or verb.word) + aspect
    goal = event.goal
    match "exist" if event.action == "exist" else lexicon.ACTION[event.action].frame:
        case "transfer":
            return _transfer(event, verb, aspect, patient)
        case "placing":
            assert goal is not None
            return f"把{patient}{verb.after(aspect)}{location(goal)}"
        case "carrying":
            assert goal is not None
            return f"把{patient}{verb.after(aspect)}{end_point(goal.entity)}"
        case "motion":
            assert goal is not None
            if goal.kind == "origin":
                return f"从{end_point(goal.entity)}{verb.after(aspect)}"
            return verb.after(aspect) + end_point(goal.entity)
        case "removal":
            assert goal is not None
            return f"从{_source(goal.entity)}{verb.after(aspect)}{patient}"
        case "telling":
            assert goal is not None
            return f"向{patient}{verb.after(aspect)}{noun_phrase(goal.entity)}的事"
        case "talking":
            assert goal is not None
            return verb.after(aspect) + noun_phrase(goal.entity)
        case "report":
            assert event.content is not None
            return verb.after(aspect) + _clause(event.content, whether=event.action == "ask")
        case "exist":
            return ("没" if event.negated else "") + verb.after(aspect) + patient
    return (verb.negated if _negates_itself(event) else verb.after(aspect)) + patient


def _source(entity: Entity) -> str:
    """The source of a movement: people have a place word of their own; of furniture it is the top."""
    return noun_phrase(entity) + ("那里" if is_person(entity) else "上")


def _transfer(event: Event, verb: Verb, aspect: str, patient: str) -> str:
    """To give: what is given comes last if it is the news; if it is known, or the recipient is the news, with `把`."""
    none = event.negated and can_be_none(event.recipient) and not can_be_none(event.patient)
    recipient = noun_phrase(event.recipient, none=none)
    if patient and (event.new == "recipient" or is_definite(event.patient)):
        to = "给" if event.action == "show" else ""
        return f"把{patient}{verb.word}{to}{aspect}{recipient}"
    if event.action == "show":
        return f"向{recipient}{verb.after(aspect)}{patient}"
    return verb.after(aspect) + recipient + patient


def _state(event: Event) -> str:
    """`是`, `很`, `比` or `在` with what follows it."""
    negation = "不" if event.negated else ""
    if event.than is not None:
        return f"{negation}比{noun_phrase(event.than)}{adjective(event.quality[0], _described(event.agent))}"
    if event.quality:
        words = [adjective(concept, _described(event.agent)) for concept in event.quality]
        if len(words) > 1:
            return ("不是" if negation else "") + "".join(f"又{word}" for word in words)
        if lexicon.ATTRIBUTES[event.quality[0]][0] == lexicon.COLOUR:
            return f"{negation}是{words[0]}色的"
        return (negation or "很") + words[0]
    if event.patient is None:
        assert event.place is not None
        return f"{negation}在{location(event.place)}"
    if negation and isinstance(event.patient, Entity) and event.patient.reference == "new":
        return f"不是{NOUNS[event.patient.kind][0]}"
    return f"{negation}是{noun_phrase(event.patient)}"


def _described(participant: Participant | None) -> Entity:
    """The entity that an adjective is fitted to; in a group the last one."""
    assert participant is not None
    return participant.members[-1] if isinstance(participant, Group) else participant


def relative_clause(entity: Entity, description: Description) -> str:
    """The clause that an event makes before the noun it describes, with `的`.

    >>> see = Event("see", agent=Entity("anna", reference="named"))
    >>> relative_clause(Entity("man"), Description("patient", see))
    '安娜看见的'
    """
    event = description.event
    if description.role == "agent":
        return _predicate(event, inside=True) + "的"
    noun = replace(entity, event=None, detail=None, owner=None, amount=None, reference="known")
    if event.about == "patient":  # a bare participle in English, which shows neither tense nor frequency
        event = replace(event, patient=noun, tense="past", frequency="", modality="", negated=False)
        return _predicate(event, inside=True).removeprefix("之前") + "的"
    return noun_phrase(event.agent) + _predicate(replace(event, patient=noun), inside=True, gap=True) + "的"
