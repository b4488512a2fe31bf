"""A scene in English, as a constituency tree in the style of the Penn Treebank."""

from __future__ import annotations

from functools import cache

from seq2seq_suite.common.trees import Tree
from seq2seq_suite.miniworld import lexicon
from seq2seq_suite.miniworld.lexicon_english import (
    AMOUNTS,
    COMPARATIVES,
    NAMES,
    NUMBERS,
    PREPOSITIONS,
    PRONOUNS,
    TIME_TAGS,
    VERBS,
    noun,
)
from seq2seq_suite.miniworld.tree_parts import capitalised, first_word, leaf, length
from seq2seq_suite.miniworld.world import (
    Description,
    Entity,
    Event,
    Group,
    Participant,
    Relation,
    Scene,
    Time,
    is_plural,
)

LABELS = ("TOP", "S", "NP", "VP", "PP", "SBAR", "WHNP", "WHADVP", "ADJP", "ADVP", "QP", "PRT")
TAGS = (
    "DT",
    "JJ",
    "JJR",
    "JJS",
    "NN",
    "NNS",
    "NNP",
    "VB",
    "VBZ",
    "VBP",
    "VBD",
    "VBN",
    "MD",
    "IN",
    "TO",
    "CC",
    "CD",
    "WP",
    "WDT",
    "WRB",
    "PRP",
    "PRP$",
    "POS",
    "RB",
    "RP",
    "EX",
    ".",
    ",",
)


STATES = ("be", "exist")  # actions without semantic roles


def english(scene: Scene) -> Tree:
    """The sentence for a scene with its brackets.

    Args:
        scene: to express.

    Returns:
        A tree rooted in `TOP` over one `S`.

    >>> anna, telescope = Entity("anna", reference="named"), Entity("telescope")
    >>> scene = Scene((Event("see", agent=anna, patient=Entity("man"), instrument=telescope),))
    >>> for part in english(scene).children[0].children:
    ...     print(part)
    (NP (NNP Anna))
    (VP (VBZ sees) (NP (DT the) (NN man)) (PP (IN with) (NP (DT the) (NN telescope))))
    (. .)
    >>> man = Entity("man", detail=Relation("carried", telescope))
    >>> print(english(Scene((Event("strike", tense="past", agent=anna, patient=man),))).children[0].children[1])
    (VP (VBD struck) (NP (NP (DT the) (NN man)) (PP (IN with) (NP (DT the) (NN telescope)))))
    """
    first = scene.events[0]
    if len(scene.events) == 1:
        parts = clause_parts(first)
    elif scene.link == "and" and first.agent is not None and first.agent == scene.events[1].agent:
        parts = _told_in_one_breath(first, scene.events[1])
    elif scene.link in ("and", "but"):
        parts = [_clause(first), leaf(",", ","), leaf("CC", scene.link), _clause(scene.events[1])]
    else:
        parts = clause_parts(first)
        linked = _subordinate(scene.link, scene.events[1])
        if scene.second_first:
            parts = [linked, leaf(",", ","), *parts]
        else:
            parts[-1] = Tree("VP", (*parts[-1].children, linked))
    sentence = Tree("S", (*parts, leaf(".", ".")))
    return Tree("TOP", (capitalised(sentence),))


def _subject(event: Event) -> Participant | None:
    return event.patient if event.about == "patient" else event.agent


def _clause(event: Event) -> Tree:
    return Tree("S", tuple(clause_parts(event)))


def clause_parts(event: Event) -> list[Tree]:
    """The children of an S, without the full stop; the verb phrase comes last."""
    parts: list[Tree] = []
    if event.time is not None and event.time_first:
        parts += [_time(event.time), leaf(",", ",")]
    if event.action == "exist":
        plural = is_plural(event.patient)  # type: ignore[arg-type]
        return [
            *parts,
            Tree("NP", (leaf("EX", "there"),)),
            Tree("VP", (_be(event, plural), _np(event.patient), _pp(event.place))),
        ]
    subject = _subject(event)
    assert subject is not None
    parts.append(_np(subject, subject=True))
    return [*parts, *_predicate(event, is_plural(subject))]


def _predicate(event: Event, plural: bool, gap: str = "") -> list[Tree]:
    """The verb phrase, and before it an adverb that no auxiliary takes in."""
    phrase, adverb_is_in = _vp(event, plural, gap)
    if event.frequency and not adverb_is_in:
        return [_adverb(event.frequency), phrase]
    return [phrase]


def _told_in_one_breath(first: Event, second: Event) -> list[Tree]:
    """A subject with two verb phrases; two bare verbs are coordinated directly."""
    subject = first.agent
    assert subject is not None
    phrases = []
    for event in (first, second):
        *adverb, phrase = _predicate(event, is_plural(subject))
        phrases.append(Tree("VP", (*adverb, *phrase.children)))
    if all(len(phrase.children) == 1 for phrase in phrases):
        phrases = [phrase.children[0] for phrase in phrases]  # type: ignore[misc]
    return [_np(subject, subject=True), Tree("VP", (phrases[0], leaf("CC", "and"), phrases[1]))]


def _subordinate(link: str, event: Event) -> Tree:
    opening = Tree("WHADVP", (leaf("WRB", link),)) if link == "when" else leaf("IN", link)
    return Tree("SBAR", (opening, _clause(event)))


def _content(action: str, event: Event) -> Tree:
    """What is said or thought; `that` is dropped after `think` before a pronoun."""
    subject = _subject(event)
    if action == "think" and isinstance(subject, Entity) and subject.reference == "given":
        return Tree("SBAR", (_clause(event),))
    return Tree("SBAR", (leaf("IN", "whether" if action == "ask" else "that"), _clause(event)))


def _be(event: Event, plural: bool) -> Tree:
    if event.tense == "past":
        return leaf("VBD", "were" if plural else "was")
    return leaf("VBP", "are") if plural else leaf("VBZ", "is")


def _vp(event: Event, plural: bool, gap: str) -> tuple[Tree, bool]:
    """The verb phrase, and whether the adverb of frequency is in it."""
    negation = [leaf("RB", "not")] if event.negated else []
    adverb = [_adverb(event.frequency)] if event.frequency else []
    modal = event.modality or ("will" if event.tense == "future" else "")
    if event.action == "be":
        return Tree("VP", (_be(event, plural), *negation, *adverb, *_state(event))), True
    verb = VERBS[event.action]
    rest = _after_verb(event, gap)
    if event.about == "patient":
        inner = Tree("VP", (leaf("VBN", verb.participle), *rest))
        if modal:
            inner = Tree("VP", (leaf("VB", "be"), inner))
            return Tree("VP", (leaf("MD", modal), *negation, *adverb, inner)), True
        return Tree("VP", (_be(event, plural), *negation, *adverb, inner)), True
    if modal or event.negated:
        auxiliary = (
            leaf("MD", modal)
            if modal
            else leaf("VBD", "did")
            if event.tense == "past"
            else leaf("VBP", "do")
            if plural
            else leaf("VBZ", "does")
        )
        return Tree("VP", (auxiliary, *negation, *adverb, Tree("VP", (leaf("VB", verb.base), *rest)))), True
    finite = (
        leaf("VBD", verb.past)
        if event.tense == "past"
        else leaf("VBP", verb.base)
        if plural
        else leaf("VBZ", verb.third)
    )
    return Tree("VP", (finite, *rest)), False


def _state(event: Event) -> list[Tree]:
    """What follows `is`."""
    if event.than is not None:
        than = Tree("PP", (leaf("IN", "than"), _np(event.than)))
        return [Tree("ADJP", (leaf("JJR", COMPARATIVES[event.quality[0]]), than))]
    if event.quality:
        return [Tree("ADJP", tuple(_linked_adjectives(event.quality)))]
    return [_np(event.patient) if event.patient is not None else _pp(event.place)]


def _after_verb(event: Event, gap: str) -> list[Tree]:
    """Particle, objects, and where, how, with what and when."""
    return [phrase for _, phrase in complements(event, gap)]


def complements(event: Event, gap: str = "") -> list[tuple[str, Tree]]:
    """What follows the verb, each phrase with its semantic role; the role is empty for particles and adverbs."""
    passive = event.about == "patient"
    objects: list[tuple[str, Tree]] = []
    if event.patient is not None and not passive and gap != "patient":
        objects.append(("PATIENT", _np(event.patient)))
    if event.recipient is not None:
        recipient = _np(event.recipient)
        if event.new == "theme" and objects:
            objects.insert(0, ("RECIPIENT", recipient))
        else:
            objects.append(("RECIPIENT", Tree("PP", (leaf("TO", "to"), recipient))))
    particle = VERBS[event.action].particle
    if particle:
        short = objects and length(objects[0][1]) <= (3 if event.new == "recipient" else 1)
        objects.insert(1 if short else 0, ("", Tree("PRT", (leaf("RP", particle),))))
    if passive:
        objects.append(("AGENT", Tree("PP", (leaf("IN", "by"), _np(event.agent)))))
    rest = objects
    if event.goal is not None:
        rest.append(("GOAL", _pp(event.goal)))
    if event.content is not None:
        rest.append(("TOPIC", _content(event.action, event.content)))
    if event.manner:
        rest.append(("", _adverb(event.manner)))
    if event.instrument is not None:
        rest.append(("INSTRUMENT", Tree("PP", (leaf("IN", "with"), _np(event.instrument)))))
    if event.place is not None:
        rest.append(("PLACE", _pp(event.place)))
    if event.time is not None and not event.time_first:
        rest.append(("TIME", _time(event.time)))
    return rest


@cache
def _adverb(word: str) -> Tree:
    return Tree("ADVP", (leaf("RB", word),))


def _pp(relation: Relation | None) -> Tree:
    assert relation is not None
    word = PREPOSITIONS[relation.kind]
    return Tree("PP", (leaf("TO" if word == "to" else "IN", word), _np(relation.entity)))


def _time(time: Time) -> Tree:
    match time.kind:
        case "adverb":
            label, tag = TIME_TAGS[time.value]
            return Tree(label, (leaf(tag, time.value),))
        case "every":
            return Tree("NP", (leaf("DT", "every"), leaf("NN", time.value)))
        case "last":
            return Tree("NP", (leaf("JJ", "last"), leaf("NN", time.value)))
        case "ago":
            span = Tree("NP", (leaf("CD", NUMBERS[time.number]), leaf("NNS", noun(time.value, plural=True))))
            return Tree("ADVP", (span, leaf("RB", "ago")))
        case "day" | "month":
            name = Tree("NP", (leaf("NNP", NAMES[time.value][0]),))
            return Tree("PP", (leaf("IN", "on" if time.kind == "day" else "in"), name))
    occasion = Tree("NP", (leaf("DT", "the"), leaf("NN", time.value)))
    return Tree("PP", (leaf("IN", time.kind.removeprefix("occasion_")), occasion))


def _np(participant: Participant | None, *, subject: bool = False) -> Tree:
    assert participant is not None
    if isinstance(participant, Group):
        return _group(participant, subject=subject)
    core = Tree("NP", tuple(_core(participant, subject=subject)))
    after: list[Tree] = []
    if participant.detail is not None:
        after.append(_pp(participant.detail))
    if participant.event is not None:
        after.append(_relative(participant, participant.event))
    return Tree("NP", (core, *after)) if after else core


def _group(group: Group, *, subject: bool) -> Tree:
    """Single words and words under a shared adjective are coordinated directly, anything longer as noun phrases."""
    conjunction = leaf("CC", "or" if group.choice else "and")
    if group.attributes:
        heads = [_head(member) for member in group.members]
        inside = [*(leaf("JJ", word) for word in group.attributes), heads[0], conjunction, *heads[1:]]
        return Tree("NP", tuple(_determined(group.members[0], inside, subject=subject)))
    phrases = [_np(member, subject=subject) for member in group.members]
    if all(length(phrase) == 1 for phrase in phrases):
        phrases = [phrase.children[0] for phrase in phrases]  # type: ignore[misc]
    children = [phrases[0]]
    for phrase in phrases[1:-1]:
        children += [leaf(",", ","), phrase]
    return Tree("NP", (*children, conjunction, phrases[-1]))


def _head(entity: Entity) -> Tree:
    return leaf("NNS" if entity.plural else "NN", noun(entity.noun, plural=entity.plural))


def _core(entity: Entity, *, subject: bool) -> list[Tree]:
    """A name, a pronoun, or determiner, number, adjectives and noun."""
    if entity.reference == "named":
        first = (entity.word,) if entity.word else NAMES[entity.kind]
        return [leaf("NNP", word) for word in first + (NAMES[entity.family] if entity.family else ())]
    if entity.reference == "given":
        return [leaf("PRP", PRONOUNS[_gender(entity)][0 if subject else 1])]
    inside: list[Tree] = []
    if entity.amount is not None:
        number = leaf("CD", NUMBERS[entity.amount.number])
        before = AMOUNTS.get(entity.amount.relation, ())
        inside.append(Tree("QP", (*(leaf(tag, word) for tag, word in before), number)) if before else number)
    if entity.linked:
        inside.append(Tree("ADJP", tuple(_linked_adjectives(entity.attributes))))
    elif entity.intense:
        inside.append(Tree("ADJP", (leaf("RB", "very"), leaf("JJ", entity.attributes[0]))))
    else:
        inside += [leaf("JJ", word) for word in entity.attributes]
    return _determined(entity, [*inside, _head(entity)], subject=subject)


def _gender(entity: Entity) -> str:
    return "plural" if entity.plural else lexicon.GENDERS.get(entity.kind, "neuter")


def _linked_adjectives(words: tuple[str, ...]) -> list[Tree]:
    if len(words) == 1:
        return [leaf("JJ", words[0])]
    return [leaf("JJ", words[0]), leaf("CC", "and"), leaf("JJ", words[1])]


def _determined(entity: Entity, inside: list[Tree], *, subject: bool) -> list[Tree]:
    """`inside` with what comes before it: an owner, an article, `this`, `every`, `some`, or nothing."""
    owner = entity.owner
    if owner is not None and owner.reference == "given":
        return [leaf("PRP$", PRONOUNS[_gender(owner)][2]), *inside]
    if owner is not None:
        possessor = _core(owner, subject=False)
        sign = "'" if owner.plural and possessor[-1].children[0].endswith("s") else "'s"  # type: ignore[union-attr]
        return [Tree("NP", (*possessor, leaf("POS", sign))), *inside]
    match entity.reference:
        case "known":
            word = "the"
        case "near":
            word = "these" if entity.plural else "this"
        case "every":
            word = "every"
        case _ if not entity.plural:
            word = "an" if first_word(inside[0])[0] in "aeiou" else "a"
        case _ if subject and entity.amount is None:
            word = "some"
        case _:
            return inside
    return [leaf("DT", word), *inside]


def _relative(entity: Entity, description: Description) -> Tree:
    """The clause, or the bare participle, that an event makes after the entity it describes."""
    event = description.event
    if description.role == "agent":
        person = lexicon.GROUP_OF[entity.kind] in ("person", "relative")
        animal = lexicon.GROUP_OF[entity.kind] == "animal"
        word = leaf("WP", "who") if person else leaf("WDT", "that" if animal else "which")
        return Tree("SBAR", (Tree("WHNP", (word,)), Tree("S", tuple(_predicate(event, entity.plural, "agent")))))
    if event.about == "patient":
        return Tree("VP", (leaf("VBN", VERBS[event.action].participle), *_after_verb(event, "patient")))
    assert event.agent is not None
    clause = Tree("S", (_np(event.agent, subject=True), *_predicate(event, is_plural(event.agent), "patient")))
    if isinstance(event.agent, Entity) and event.agent.reference in ("named", "given"):
        return Tree("SBAR", (clause,))
    return Tree("SBAR", (Tree("WHNP", (leaf("WDT", "that"),)), clause))
