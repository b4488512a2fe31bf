"""German words for the concepts of `lexicon`, with what their inflection needs.

>>> noun("boy", "accusative"), noun("child", "dative", plural=True), noun("house", "genitive")
('Jungen', 'Kindern', 'Hauses')
"""

from __future__ import annotations

from dataclasses import dataclass

MASCULINE, FEMININE, NEUTER, PLURAL = "masculine", "feminine", "neuter", "plural"


@dataclass(frozen=True, slots=True)
class Noun:
    """A noun: `genitive` for masculines and neuters, `weak` for those in -n or -en outside the nominative."""

    gender: str
    singular: str
    plural: str
    genitive: str = ""
    weak: bool = False


def _masculine(singular: str, plural: str, genitive: str) -> Noun:
    return Noun(MASCULINE, singular, plural, genitive)


def _weak(singular: str, plural: str) -> Noun:
    return Noun(MASCULINE, singular, plural, plural, weak=True)


def _feminine(singular: str, plural: str) -> Noun:
    return Noun(FEMININE, singular, plural, singular)


def _neuter(singular: str, plural: str, genitive: str) -> Noun:
    return Noun(NEUTER, singular, plural, genitive)


NOUNS: dict[str, Noun] = {
    "man": _masculine("Mann", "Männer", "Mannes"), "woman": _feminine("Frau", "Frauen"),
    "child": _neuter("Kind", "Kinder", "Kindes"), "boy": _weak("Junge", "Jungen"),
    "girl": _neuter("Mädchen", "Mädchen", "Mädchens"), "teacher": _feminine("Lehrerin", "Lehrerinnen"),
    "doctor": _masculine("Arzt", "Ärzte", "Arztes"), "farmer": _weak("Bauer", "Bauern"),
    "student": _weak("Student", "Studenten"), "artist": _feminine("Künstlerin", "Künstlerinnen"),
    "king": _masculine("König", "Könige", "Königs"), "queen": _feminine("Königin", "Königinnen"),
    "friend": _feminine("Freundin", "Freundinnen"), "owner": _masculine("Besitzer", "Besitzer", "Besitzers"),
    "neighbor": _weak("Nachbar", "Nachbarn"), "mother": _feminine("Mutter", "Mütter"),
    "dog": _masculine("Hund", "Hunde", "Hundes"), "cat": _feminine("Katze", "Katzen"),
    "bird": _masculine("Vogel", "Vögel", "Vogels"), "horse": _neuter("Pferd", "Pferde", "Pferdes"),
    "mouse": _feminine("Maus", "Mäuse"), "cow": _feminine("Kuh", "Kühe"),
    "rabbit": _neuter("Kaninchen", "Kaninchen", "Kaninchens"),
    "ball": _masculine("Ball", "Bälle", "Balls"), "cup": _feminine("Tasse", "Tassen"),
    "box": _feminine("Schachtel", "Schachteln"), "bag": _feminine("Tasche", "Taschen"),
    "flower": _feminine("Blume", "Blumen"), "clock": _feminine("Uhr", "Uhren"),
    "book": _neuter("Buch", "Bücher", "Buches"), "letter": _masculine("Brief", "Briefe", "Briefes"),
    "story": _feminine("Geschichte", "Geschichten"),
    "hat": _masculine("Hut", "Hüte", "Hutes"), "umbrella": _masculine("Schirm", "Schirme", "Schirms"),
    "apple": _masculine("Apfel", "Äpfel", "Apfels"), "cake": _masculine("Kuchen", "Kuchen", "Kuchens"),
    "sandwich": _neuter("Butterbrot", "Butterbrote", "Butterbrots"),
    "lamp": _feminine("Lampe", "Lampen"), "radio": _neuter("Radio", "Radios", "Radios"),
    "car": _neuter("Auto", "Autos", "Autos"), "train": _masculine("Zug", "Züge", "Zuges"),
    "bus": _masculine("Bus", "Busse", "Busses"),
    "house": _neuter("Haus", "Häuser", "Hauses"), "school": _feminine("Schule", "Schulen"),
    "garden": _masculine("Garten", "Gärten", "Gartens"), "park": _masculine("Park", "Parks", "Parks"),
    "kitchen": _feminine("Küche", "Küchen"), "station": _masculine("Bahnhof", "Bahnhöfe", "Bahnhofs"),
    "table": _masculine("Tisch", "Tische", "Tisches"), "shelf": _neuter("Regal", "Regale", "Regals"),
    "bed": _neuter("Bett", "Betten", "Bettes"),
    "tail": _masculine("Schwanz", "Schwänze", "Schwanzes"), "ear": _neuter("Ohr", "Ohren", "Ohrs"),
    "leg": _neuter("Bein", "Beine", "Beins"), "door": _feminine("Tür", "Türen"),
    "window": _neuter("Fenster", "Fenster", "Fensters"), "handle": _masculine("Griff", "Griffe", "Griffs"),
    "beard": _masculine("Bart", "Bärte", "Bartes"), "eye": _neuter("Auge", "Augen", "Auges"),
    "telescope": _neuter("Fernrohr", "Fernrohre", "Fernrohrs"),
    "key": _masculine("Schlüssel", "Schlüssel", "Schlüssels"), "knife": _neuter("Messer", "Messer", "Messers"),
    "brush": _masculine("Pinsel", "Pinsel", "Pinsels"), "hammer": _masculine("Hammer", "Hämmer", "Hammers"),
    "stick": _masculine("Stock", "Stöcke", "Stocks"), "pen": _masculine("Stift", "Stifte", "Stifts"),
    "spoon": _masculine("Löffel", "Löffel", "Löffels"), "net": _neuter("Netz", "Netze", "Netzes"),
    "concert": _neuter("Konzert", "Konzerte", "Konzerts"), "party": _feminine("Feier", "Feiern"),
    "wedding": _feminine("Hochzeit", "Hochzeiten"),
    "day": _masculine("Tag", "Tage", "Tages"), "week": _feminine("Woche", "Wochen"),
    "month": _masculine("Monat", "Monate", "Monats"), "year": _neuter("Jahr", "Jahre", "Jahres"),
    "morning": _masculine("Morgen", "Morgen", "Morgens"), "evening": _masculine("Abend", "Abende", "Abends"),
}
JOBS: dict[str, dict[str, str]] = {  # what someone is, by the gender of the one who is it
    "teacher": {"male": "Lehrer", "female": "Lehrerin"}, "doctor": {"male": "Arzt", "female": "Ärztin"},
    "farmer": {"male": "Bauer", "female": "Bäuerin"}, "student": {"male": "Student", "female": "Studentin"},
    "artist": {"male": "Künstler", "female": "Künstlerin"},
}


def entry(concept: str) -> Noun:
    """The noun for a concept, for another translator's word for it (`car/1`), or for a key of `lexicon_rich`."""
    if concept in NOUNS:
        return NOUNS[concept]
    from seq2seq_suite.miniworld import lexicon_rich, translators  # these modules import this one

    return lexicon_rich.noun(concept).german if ":" in concept else translators.german_noun(concept)


def noun(concept: str, case: str, *, plural: bool = False) -> str:
    """The noun for a concept in a case: nominative | accusative | dative | genitive."""
    word = entry(concept)
    if plural:
        return word.plural + ("n" if case == "dative" and word.plural[-1] not in "ns" else "")
    if word.weak:
        return word.singular if case == "nominative" else word.plural
    return word.genitive if case == "genitive" else word.singular


@dataclass(frozen=True, slots=True)
class Verb:
    """The forms of a verb; the plural of the present is the infinitive.

    Args:
        infinitive, third, preterite: without the prefix that is split off.
        participle: the whole word.
        prefix: split off in main clauses: `hebt ... auf`.
        reflexive: with `sich`.
        patient: the case of the patient.
        preposition: what comes before the patient.
    """

    infinitive: str
    third: str
    preterite: str
    participle: str
    prefix: str = ""
    reflexive: bool = False
    patient: str = "accusative"
    preposition: str = ""


VERBS: dict[str, Verb] = {
    "sleep": Verb("schlafen", "schläft", "schlief", "geschlafen"), "sing": Verb("singen", "singt", "sang", "gesungen"),
    "dance": Verb("tanzen", "tanzt", "tanzte", "getanzt"), "bark": Verb("bellen", "bellt", "bellte", "gebellt"),
    "sit_down": Verb("setzen", "setzt", "setzte", "hingesetzt", "hin", reflexive=True),
    "arrive": Verb("kommen", "kommt", "kam", "angekommen", "an"),
    "see": Verb("sehen", "sieht", "sah", "gesehen"),
    "watch": Verb("beobachten", "beobachtet", "beobachtete", "beobachtet"),
    "find": Verb("finden", "findet", "fand", "gefunden"),
    "strike": Verb("schlagen", "schlägt", "schlug", "geschlagen"),
    "open": Verb("öffnen", "öffnet", "öffnete", "geöffnet"),
    "slice": Verb("schneiden", "schneidet", "schnitt", "geschnitten"),
    "paint": Verb("malen", "malt", "malte", "gemalt"),
    "repair": Verb("reparieren", "repariert", "reparierte", "repariert"),
    "eat": Verb("essen", "isst", "aß", "gegessen"),
    "write": Verb("schreiben", "schreibt", "schrieb", "geschrieben"),
    "catch": Verb("fangen", "fängt", "fing", "gefangen"),
    "study": Verb("studieren", "studiert", "studierte", "studiert"),
    "buy": Verb("kaufen", "kauft", "kaufte", "gekauft"),
    "visit": Verb("besuchen", "besucht", "besuchte", "besucht"), "chase": Verb("jagen", "jagt", "jagte", "gejagt"),
    "like": Verb("mögen", "mag", "mochte", "gemocht"), "know": Verb("kennen", "kennt", "kannte", "gekannt"),
    "remember": Verb("erinnern", "erinnert", "erinnerte", "erinnert", reflexive=True, preposition="an"),
    "pick_up": Verb("heben", "hebt", "hob", "aufgehoben", "auf"),
    "turn_on": Verb("schalten", "schaltet", "schaltete", "eingeschaltet", "ein"),
    "throw_away": Verb("werfen", "wirft", "warf", "weggeworfen", "weg"),
    "give": Verb("geben", "gibt", "gab", "gegeben"), "send": Verb("schicken", "schickt", "schickte", "geschickt"),
    "show": Verb("zeigen", "zeigt", "zeigte", "gezeigt"),
    "sell": Verb("verkaufen", "verkauft", "verkaufte", "verkauft"),
    "place": Verb("legen", "legt", "legte", "gelegt"), "leave": Verb("lassen", "lässt", "ließ", "gelassen"),
    "carry": Verb("tragen", "trägt", "trug", "getragen"), "go": Verb("gehen", "geht", "ging", "gegangen"),
    "walk": Verb("laufen", "läuft", "lief", "gelaufen"), "come": Verb("kommen", "kommt", "kam", "gekommen"),
    "take": Verb("nehmen", "nimmt", "nahm", "genommen"),
    "tell": Verb("erzählen", "erzählt", "erzählte", "erzählt", patient="dative"),
    "talk": Verb("sprechen", "spricht", "sprach", "gesprochen"), "say": Verb("sagen", "sagt", "sagte", "gesagt"),
    "think": Verb("denken", "denkt", "dachte", "gedacht"), "ask": Verb("fragen", "fragt", "fragte", "gefragt"),
    "be": Verb("sein", "ist", "war", "gewesen"), "exist": Verb("geben", "gibt", "gab", "gegeben"),
}
def verb_of(key: str) -> Verb:
    """The verb for an action, or another translator's for it (`see/1`)."""
    if key in VERBS:
        return VERBS[key]
    from seq2seq_suite.miniworld import translators

    return translators.german_verb(key)


DRIVE = Verb("fahren", "fährt", "fuhr", "gefahren")  # how a vehicle goes
WITH_SEIN = ("kommen", "gehen", "laufen", "fahren", "treffen", "spazieren")  # perfect with `sein`
SENT_TO = ("send", "sell")  # `an jemanden`, if the recipient is the news

ADJECTIVES: dict[str, str] = {
    "big": "groß", "small": "klein", "tall": "groß", "long": "lang", "short": "kurz", "old": "alt", "young": "jung",
    "new": "neu", "happy": "glücklich", "tired": "müde", "hungry": "hungrig", "famous": "berühmt",
    "beautiful": "schön", "heavy": "schwer", "dirty": "schmutzig", "expensive": "teuer", "red": "rot", "blue": "blau",
    "green": "grün", "yellow": "gelb", "black": "schwarz", "white": "weiß", "brown": "braun",
}
ADJECTIVES_OF_PEOPLE = {"short": "klein"}
STEMS = {"müde": "müd", "teuer": "teur"}  # before endings, where it is not the word itself
COMPARATIVES = {"big": "größer", "small": "kleiner", "old": "älter", "young": "jünger", "happy": "glücklicher",
                "heavy": "schwerer"}
NAMES: dict[str, tuple[str, ...]] = {
    **{name: (name.capitalize(),) for name in
       ("anna", "maria", "lena", "tom", "peter", "paul", "weber", "novak", "rossi", "berlin", "paris")},
    "vienna": ("Wien",), "new_york": ("New", "York"), "hong_kong": ("Hongkong",),
    "monday": ("Montag",), "tuesday": ("Dienstag",), "friday": ("Freitag",), "saturday": ("Samstag",),
    "sunday": ("Sonntag",), "may": ("Mai",), "july": ("Juli",), "october": ("Oktober",),
}
NUMBERS = {2: "zwei", 3: "drei", 4: "vier", 5: "fünf", 10: "zehn", 20: "zwanzig"}
AMOUNTS = {"exactly": (), "more_than": ("mehr", "als"), "fewer_than": ("weniger", "als"), "at_least": ("mindestens",),
           "about": ("etwa",), "almost": ("fast",)}
PRONOUNS = {  # nominative, accusative, dative, stem of the possessive
    "male": ("er", "ihn", "ihm", "sein"), "female": ("sie", "sie", "ihr", "ihr"),
    "neuter": ("es", "es", "ihm", "sein"), "plural": ("sie", "sie", "ihnen", "ihr"),
}
PLACES = {"inside": "in", "at": "in", "on": "auf", "under": "unter", "behind": "hinter"}
PLACE_EXCEPTIONS = {"station": "an"}
COMPANIONS = {"part": "mit", "carried": "mit", "topic": "über", "day": "an"}
TIME_WORDS = {"yesterday": "gestern", "today": "heute", "tomorrow": "morgen", "now": "jetzt", "soon": "bald"}
MANNERS = {"quickly": "schnell", "slowly": "langsam", "quietly": "leise", "carefully": "vorsichtig"}
FREQUENCIES = {"often": "oft", "always": "immer", "sometimes": "manchmal"}
MODALS = {"can": ("kann", "können"), "must": ("muss", "müssen"), "must not": ("darf", "dürfen"),
          "future": ("wird", "werden")}
LINKS = {"and": "und", "but": "aber", "because": "weil", "if": "falls", "when": "wenn"}
