"""Real synonyms of the second translator, in German and Chinese; see `translators`."""

from __future__ import annotations

from seq2seq_suite.miniworld.lexicon_chinese import Verb as Spoken
from seq2seq_suite.miniworld.lexicon_german import FEMININE, MASCULINE, NEUTER, Noun, Verb

GERMAN_NOUNS: dict[str, Noun] = {
    "car": Noun(MASCULINE, "Wagen", "Wagen", "Wagens"),
    "letter": Noun(NEUTER, "Schreiben", "Schreiben", "Schreibens"),
    "bag": Noun(MASCULINE, "Beutel", "Beutel", "Beutels"), "house": Noun(NEUTER, "Gebäude", "Gebäude", "Gebäudes"),
    "box": Noun(FEMININE, "Kiste", "Kisten", "Kiste"), "boy": Noun(MASCULINE, "Knabe", "Knaben", "Knaben", weak=True),
    "rabbit": Noun(MASCULINE, "Hase", "Hasen", "Hasen", weak=True), "horse": Noun(NEUTER, "Ross", "Rosse", "Rosses"),
    "radio": Noun(NEUTER, "Funkgerät", "Funkgeräte", "Funkgeräts"),
    "lamp": Noun(FEMININE, "Leuchte", "Leuchten", "Leuchte"), "cake": Noun(FEMININE, "Torte", "Torten", "Torte"),
    "sandwich": Noun(FEMININE, "Schnitte", "Schnitten", "Schnitte"),
    "train": Noun(FEMININE, "Bahn", "Bahnen", "Bahn"), "bus": Noun(MASCULINE, "Omnibus", "Omnibusse", "Omnibusses"),
    "shelf": Noun(NEUTER, "Gestell", "Gestelle", "Gestells"),
    "umbrella": Noun(MASCULINE, "Regenschirm", "Regenschirme", "Regenschirms"),
    "telescope": Noun(NEUTER, "Teleskop", "Teleskope", "Teleskops"),
    "stick": Noun(MASCULINE, "Stab", "Stäbe", "Stabes"), "pen": Noun(MASCULINE, "Füller", "Füller", "Füllers"),
    "brush": Noun(FEMININE, "Bürste", "Bürsten", "Bürste"), "book": Noun(MASCULINE, "Band", "Bände", "Bandes"),
    "story": Noun(FEMININE, "Erzählung", "Erzählungen", "Erzählung"),
    "doctor": Noun(MASCULINE, "Mediziner", "Mediziner", "Mediziners"),
    "farmer": Noun(MASCULINE, "Landwirt", "Landwirte", "Landwirtes"),
    "king": Noun(MASCULINE, "Monarch", "Monarchen", "Monarchen", weak=True),
    "queen": Noun(FEMININE, "Monarchin", "Monarchinnen", "Monarchin"),
    "woman": Noun(FEMININE, "Dame", "Damen", "Dame"), "cup": Noun(MASCULINE, "Becher", "Becher", "Bechers"),
    "door": Noun(FEMININE, "Pforte", "Pforten", "Pforte"), "handle": Noun(MASCULINE, "Henkel", "Henkel", "Henkels"),
    "ball": Noun(FEMININE, "Kugel", "Kugeln", "Kugel"),
}
GERMAN_VERBS: dict[str, Verb] = {
    "see": Verb("erblicken", "erblickt", "erblickte", "erblickt"),
    "find": Verb("entdecken", "entdeckt", "entdeckte", "entdeckt"),
    "watch": Verb("betrachten", "betrachtet", "betrachtete", "betrachtet"),
    "strike": Verb("hauen", "haut", "haute", "gehauen"),
    "open": Verb("machen", "macht", "machte", "aufgemacht", "auf"),
    "repair": Verb("flicken", "flickt", "flickte", "geflickt"),
    "eat": Verb("verspeisen", "verspeist", "verspeiste", "verspeist"),
    "write": Verb("verfassen", "verfasst", "verfasste", "verfasst"),
    "catch": Verb("fangen", "fängt", "fing", "eingefangen", "ein"),
    "study": Verb("untersuchen", "untersucht", "untersuchte", "untersucht"),
    "buy": Verb("erwerben", "erwirbt", "erwarb", "erworben"),
    "chase": Verb("verfolgen", "verfolgt", "verfolgte", "verfolgt"),
    "like": Verb("lieben", "liebt", "liebte", "geliebt"),
    "pick_up": Verb("lesen", "liest", "las", "aufgelesen", "auf"),
    "turn_on": Verb("schalten", "schaltet", "schaltete", "angeschaltet", "an"),
    "throw_away": Verb("schmeißen", "schmeißt", "schmiss", "weggeschmissen", "weg"),
    "give": Verb("überreichen", "überreicht", "überreichte", "überreicht"),
    "place": Verb("stellen", "stellt", "stellte", "gestellt"),
    "walk": Verb("spazieren", "spaziert", "spazierte", "spaziert"),
    "talk": Verb("reden", "redet", "redete", "geredet"),
    "sleep": Verb("schlummern", "schlummert", "schlummerte", "geschlummert"),
    "bark": Verb("kläffen", "kläfft", "kläffte", "gekläfft"),
    "arrive": Verb("treffen", "trifft", "traf", "eingetroffen", "ein"),
    "say": Verb("erklären", "erklärt", "erklärte", "erklärt"), "think": Verb("meinen", "meint", "meinte", "gemeint"),
}
CHINESE_NOUNS: dict[str, tuple[str, str]] = {
    "car": ("轿车", "辆"), "letter": ("信件", "封"), "bag": ("袋子", "个"), "house": ("屋子", "间"),
    "box": ("箱子", "个"), "boy": ("小伙子", "个"), "rabbit": ("野兔", "只"), "horse": ("骏马", "匹"),
    "radio": ("广播机", "台"), "lamp": ("台灯", "盏"), "cake": ("糕点", "块"), "sandwich": ("夹心面包", "份"),
    "train": ("列车", "列"), "bus": ("巴士", "辆"), "shelf": ("书架", "个"), "umbrella": ("雨具", "把"),
    "telescope": ("千里镜", "架"), "stick": ("木棍", "根"), "pen": ("水笔", "支"), "brush": ("毛刷", "支"),
    "book": ("书籍", "本"), "story": ("传说", "个"), "doctor": ("大夫", "位"), "farmer": ("农夫", "个"),
    "king": ("君主", "位"), "queen": ("女皇", "位"), "woman": ("女士", "位"), "cup": ("茶杯", "个"),
    "door": ("大门", "扇"), "handle": ("握柄", "个"), "ball": ("圆球", "个"),
}
CHINESE_VERBS: dict[str, Spoken] = {
    "see": Spoken("看到", negated="看不到"), "find": Spoken("发现"), "watch": Spoken("注视"),
    "strike": Spoken("击打"), "open": Spoken("开启"), "repair": Spoken("维修"), "eat": Spoken("享用"),
    "write": Spoken("书写"), "catch": Spoken("捉住"), "study": Spoken("钻研"), "buy": Spoken("购买"),
    "chase": Spoken("追逐"), "like": Spoken("喜爱"), "pick_up": Spoken("拾起"), "turn_on": Spoken("打开"),
    "throw_away": Spoken("丢掉"), "give": Spoken("送给"), "place": Spoken("摆在"), "walk": Spoken("步行到"),
    "talk": Spoken("谈起"), "sleep": Spoken("睡眠"), "bark": Spoken("狂吠"), "arrive": Spoken("抵达"),
    "say": Spoken("表示"), "think": Spoken("觉得"),
}
