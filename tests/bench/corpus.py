"""Texts to measure with: seeded, in English and Chinese, words as rare and as common as in real text.

A word's frequency falls with its rank (Zipf's law), so a few words are in most facts and most words in
few. Equal seeds give equal texts.
"""

import bisect
import itertools
import random

COMMON = """the of and to in is for on with prefers uses works every at by from when never always project team
server data review notes travel family plan budget deploy release test report morning evening week city coffee tea
music book bicycle garden kitchen doctor school language python kernel network storage backup database cluster
latency queue token editor keyboard screen photo camera train flight hotel ticket price order customer invoice
contract meeting friday monday spring autumn river mountain house apartment window market bread soup allergy sleep
running yoga violin piano painting winter birthday sister brother parents colleague manager branch merge commit
schema index cache worker container region account password policy draft chapter summary question answer""".split()

BEGINNINGS = "b br c cl d dr f fl g gr h j k kl l m n p pr r s st t tr v w".split()
MIDDLES = "a e i o u ai ea ou".split()
ENDS = "n r l t m ck nd st x sh".split() + [""]

COMMON_ZH = """用户 喜欢 项目 数据 工作 每天 会议 团队 服务器 部署 测试 代码 报告 早上 晚上 咖啡 绿茶 音乐 家人 旅行 计划 预算
数据库 缓存 网络 备份 延迟 队列 客户 合同 发票 城市 北京 上海 杭州 周末 春天 冬天 父母 同事 经理 孩子 学校 医生 跑步 阅读 电影
习惯 不要 必须 正在 已经 希望 决定 负责 学习 使用""".split()
CHARACTERS = "山水火木金土日月星云风雨雪花草树鸟鱼马牛羊门窗桌椅书笔纸墨刀车船桥路城村田园江河湖海石沙玉珠红黄蓝绿白黑"

PHRASES_ZH = ("，", "，", "。", "的", "和")


def make_words(rng, count):
    """Common words first, then made-up ones."""
    words = list(COMMON)
    known = set(words)
    while len(words) < count:
        word = "".join(rng.choice(BEGINNINGS) + rng.choice(MIDDLES) for _ in range(rng.randint(1, 3)))
        word += rng.choice(ENDS)
        if word not in known and len(word) > 2:
            known.add(word)
            words.append(word)
    return words


def make_words_zh(rng, count):
    words = list(COMMON_ZH)
    known = set(words)
    while len(words) < count:
        word = rng.choice(CHARACTERS) + rng.choice(CHARACTERS)
        if word in known:
            word += rng.choice(CHARACTERS)
        known.add(word)
        words.append(word)
    return words


class Vocabulary:
    def __init__(self, words):
        self.words = words
        self.weights = list(itertools.accumulate(1 / (rank + 2) for rank in range(len(words))))

    def draw(self, rng):
        return self.words[bisect.bisect(self.weights, rng.random() * self.weights[-1])]


class Corpus:
    """Draws facts and queries; `language` is en, zh or mixed."""

    def __init__(self, seed, language="mixed", words=8000):
        self.rng = random.Random(seed)
        self.language = language
        self.english = Vocabulary(make_words(random.Random(7), words))
        self.chinese = Vocabulary(make_words_zh(random.Random(8), words // 4))

    def sentence(self):
        language = self.language
        if language == "mixed":
            language = "zh" if self.rng.random() < 0.3 else "en"
        if language == "en":
            words = [self.english.draw(self.rng) for _ in range(self.rng.randint(6, 14))]
            return " ".join(words).capitalize() + "."
        parts = []
        for _ in range(self.rng.randint(6, 14)):
            parts.append(self.chinese.draw(self.rng))
            if self.rng.random() < 0.3:
                parts.append(self.rng.choice(PHRASES_ZH))
        return "".join(parts).strip("，。") + "。"

    def fact(self):
        """About 200 characters, between 60 and 400."""
        return " ".join(self.sentence() for _ in range(self.rng.choice((1, 2, 3, 3, 4, 4, 5))))

    def query(self, words=3):
        """Words as common as those of the facts, but for the few that are in every second fact."""
        chosen = []
        while len(chosen) < words:
            word = self.english.draw(self.rng)
            if word not in COMMON[:14]:
                chosen.append(word)
        return " ".join(chosen)
