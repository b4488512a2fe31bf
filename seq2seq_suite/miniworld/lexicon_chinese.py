"""Chinese words for the concepts of `lexicon`, with the measure word of each noun.

>>> NOUNS["book"], NOUNS["horse"], VERBS["sleep"].after("了")
(('书', '本'), ('马', '匹'), '睡了觉')
"""

from __future__ import annotations

from dataclasses import dataclass

NOUNS: dict[str, tuple[str, str]] = {  # word, measure word
    "man": ("男人", "个"), "woman": ("女人", "个"), "child": ("孩子", "个"), "boy": ("男孩", "个"),
    "girl": ("女孩", "个"), "teacher": ("老师", "位"), "doctor": ("医生", "位"), "farmer": ("农民", "个"),
    "student": ("学生", "名"), "artist": ("艺术家", "位"), "king": ("国王", "位"), "queen": ("女王", "位"),
    "friend": ("朋友", "个"), "owner": ("主人", "个"), "neighbor": ("邻居", "个"), "mother": ("母亲", "位"),
    "dog": ("狗", "条"), "cat": ("猫", "只"), "bird": ("鸟", "只"), "horse": ("马", "匹"), "mouse": ("老鼠", "只"),
    "cow": ("牛", "头"), "rabbit": ("兔子", "只"),
    "ball": ("球", "个"), "cup": ("杯子", "个"), "box": ("盒子", "个"), "bag": ("包", "个"), "flower": ("花", "朵"),
    "clock": ("钟", "座"), "book": ("书", "本"), "letter": ("信", "封"), "story": ("故事", "个"),
    "hat": ("帽子", "顶"), "umbrella": ("雨伞", "把"), "apple": ("苹果", "个"), "cake": ("蛋糕", "个"),
    "sandwich": ("三明治", "份"), "lamp": ("灯", "盏"), "radio": ("收音机", "台"), "car": ("汽车", "辆"),
    "train": ("火车", "列"), "bus": ("公交车", "辆"),
    "house": ("房子", "栋"), "school": ("学校", "所"), "garden": ("花园", "座"), "park": ("公园", "座"),
    "kitchen": ("厨房", "间"), "station": ("车站", "座"), "table": ("桌子", "张"), "shelf": ("架子", "个"),
    "bed": ("床", "张"),
    "tail": ("尾巴", "条"), "ear": ("耳朵", "只"), "leg": ("腿", "条"), "door": ("门", "扇"), "window": ("窗户", "扇"),
    "handle": ("把手", "个"), "beard": ("胡子", "把"), "eye": ("眼睛", "只"),
    "telescope": ("望远镜", "架"), "key": ("钥匙", "把"), "knife": ("刀", "把"), "brush": ("画笔", "支"),
    "hammer": ("锤子", "把"), "stick": ("棍子", "根"), "pen": ("钢笔", "支"), "spoon": ("勺子", "把"),
    "net": ("网", "张"),
    "concert": ("音乐会", "场"), "party": ("聚会", "场"), "wedding": ("婚礼", "场"),
}


def noun(concept: str) -> tuple[str, str]:
    """The noun and its measure word, for a concept, another translator's word for it, or a key of `lexicon_rich`."""
    if concept in NOUNS:
        return NOUNS[concept]
    from seq2seq_suite.miniworld import lexicon_rich, translators  # these modules import this one

    return (lexicon_rich.noun(concept).chinese, lexicon_rich.measure(concept)) if ":" in concept else (
        translators.chinese_noun(concept))


def verb_of(key: str) -> Verb:
    """The verb for an action, or another translator's for it (`see/1`)."""
    if key in VERBS:
        return VERBS[key]
    from seq2seq_suite.miniworld import translators

    return translators.chinese_verb(key)


def transcribed(name: str) -> str:
    """A first name of `lexicon_rich` in characters."""
    from seq2seq_suite.miniworld import lexicon_rich

    return lexicon_rich.sounds(name.lower())


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb, what comes after its aspect (`睡`, `觉`), and its forms after `被` and for `不` where they are others."""

    word: str
    rest: str = ""
    passive: str = ""
    negated: str = ""

    def after(self, aspect: str) -> str:
        """The verb with its aspect, which may be empty."""
        return self.word + aspect + self.rest


VERBS: dict[str, Verb] = {
    "sleep": Verb("睡", "觉"), "sing": Verb("唱", "歌"), "dance": Verb("跳", "舞"), "bark": Verb("吠叫"),
    "sit_down": Verb("坐下"), "arrive": Verb("到达"), "see": Verb("看见", negated="看不见"),
    "watch": Verb("观察"), "find": Verb("找到", negated="找不到"),
    "strike": Verb("打"), "open": Verb("打开"), "slice": Verb("切", passive="切开"), "paint": Verb("画"),
    "repair": Verb("修理"), "eat": Verb("吃", passive="吃掉"), "write": Verb("写"), "catch": Verb("抓住"),
    "study": Verb("研究"), "buy": Verb("买", passive="买走"), "visit": Verb("拜访"), "chase": Verb("追赶"),
    "like": Verb("喜欢"), "know": Verb("认识"), "remember": Verb("记得"), "pick_up": Verb("捡起"),
    "turn_on": Verb("启动"), "throw_away": Verb("扔掉"), "give": Verb("给"), "send": Verb("寄给"), "show": Verb("展示"),
    "sell": Verb("卖给"), "place": Verb("放在"), "leave": Verb("留在"), "carry": Verb("带到"), "go": Verb("去"),
    "walk": Verb("走到"), "come": Verb("来"), "take": Verb("拿走"), "tell": Verb("讲"), "talk": Verb("谈论"),
    "say": Verb("说"), "think": Verb("认为"), "ask": Verb("问"), "be": Verb("是"), "exist": Verb("有"),
}
DRIVE = Verb("开到")  # how a vehicle goes
SEE_SIGHTS, ATTEND, KNOW_WELL = Verb("参观"), Verb("参加"), Verb("熟悉")  # to visit or know what is no person
LASTING = ("be", "exist", "like", "know", "remember", "think")  # no `了`: a word says that it was then
REPORTING = ("say", "think", "ask")
ACTIVITIES = ("sleep", "sing", "dance", "bark", "watch", "strike", "slice", "paint", "repair", "eat", "write", "study",
              "buy", "visit", "chase", "tell", "talk")  # those that can be going on: `正在`

ADJECTIVES: dict[str, str] = {
    "big": "大", "small": "小", "tall": "高", "long": "长", "short": "短", "old": "旧", "young": "年轻", "new": "新",
    "happy": "快乐", "tired": "疲倦", "hungry": "饥饿", "famous": "有名", "beautiful": "漂亮", "heavy": "重",
    "dirty": "脏", "expensive": "贵", "red": "红", "blue": "蓝", "green": "绿", "yellow": "黄", "black": "黑",
    "white": "白", "brown": "棕",
}
ADJECTIVES_OF_THE_LIVING = {"old": "老"}
ADJECTIVES_OF_PEOPLE = {"short": "矮"}
NAMES: dict[str, str] = {
    "anna": "安娜", "maria": "玛丽亚", "lena": "莉娜", "tom": "汤姆", "peter": "彼得", "paul": "保罗", "weber": "韦伯",
    "novak": "诺瓦克", "rossi": "罗西", "berlin": "柏林", "paris": "巴黎", "vienna": "维也纳", "new_york": "纽约",
    "hong_kong": "香港", "monday": "星期一", "tuesday": "星期二", "friday": "星期五", "saturday": "星期六",
    "sunday": "星期日", "may": "五月", "july": "七月", "october": "十月",
}
NUMBERS = {2: "两", 3: "三", 4: "四", 5: "五", 10: "十", 20: "二十"}
AMOUNTS = {"exactly": "", "more_than": "超过", "fewer_than": "不到", "at_least": "至少", "about": "大约",
           "almost": "将近"}
PRONOUNS = {"male": "他", "female": "她", "neuter": "它", "plural": "他们"}
LOCALIZERS = {"inside": "里", "at": "", "on": "上", "under": "下面", "behind": "后面"}
CARRYING = {"hat": "戴着", "bag": "背着"}  # `拿着` for the rest
COMPANIONS = {"part": "有", "carried": "拿着", "origin": "来自", "goal": "开往", "topic": "关于"}
TIME_WORDS = {"yesterday": "昨天", "today": "今天", "tomorrow": "明天", "now": "现在", "soon": "很快"}
EVERY = {"day": "每天", "week": "每周", "month": "每月", "year": "每年", "morning": "每天早上", "evening": "每天晚上"}
LAST = {"day": "前一天", "week": "上周", "month": "上个月", "year": "去年", "morning": "昨天早上",
        "evening": "昨天晚上"}
UNITS = {"day": "天", "week": "周", "month": "个月", "year": "年", "morning": "个早上", "evening": "个晚上"}
MANNERS = {"quickly": "快速地", "slowly": "慢慢地", "quietly": "安静地", "carefully": "仔细地"}
FREQUENCIES = {"often": "经常", "always": "总是", "sometimes": "有时"}
MODALS = {"can": ("能", "不能"), "must": ("必须", "不得")}  # plain, negated
