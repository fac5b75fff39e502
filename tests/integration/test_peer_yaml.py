#!/usr/bin/python3
"""What this program writes as YAML, read back by the loader that the peers use.

A small program writes whatever it is given as lines of JSON; PyYAML must load the same values, of the same types,
and, apart from the few characters that this program escapes and PyYAML does not, must have written the same bytes.
"""

import base64
import collections
import datetime
import itertools
import json
import math
import os
import random
import re
import subprocess
import unittest

import yaml

import peer
import volumes
from process import BUILD, ROOT, skip

WRITE_ECHO = os.path.join(ROOT, BUILD, "tests", "tools", "write_echo")

# Every spelling that YAML 1.1 would take for something else, every indicator, every blank at every end.
HOSTILE = [
    "", " ", "  ", "\t", "\n", "\n\n", " \n", "\n ", "\n\n ", " \n ", "\r", "\r\n", "\0", "\x07", "\x08", "\x0b",
    "\x0c", "\x1b[0m", "\x1c", "\x7f", "\x80", "\x85", "\x9f", "\xa0", "\xad", "\u2028", "\u2029", "\ufeff", "\ufffd",
    "\ufffe", "\uffff", "\ufdd0", "\ufdd1", "\ufdd10041", "\ufdd012", "\U00010000", "\U0001f600", "\U0010fffe",
    "\U0010ffff", "\ud800", "\udfff", "party \ud83d", "\ude00\ud83d", "\\ud83d", "\\\\ud83d", "\uf8d0", "yes", "Yes",
    "YES", "yEs", "no", "No", "NO", "y", "Y", "n", "N", "true", "True", "TRUE", "false", "False", "FALSE", "on", "On",
    "ON", "off", "Off", "OFF", "~", "null", "Null", "NULL", "nULL", "none", "None", "undefined", "0", "00", "007",
    "08", "09", "-0", "+0", "1", "-1", "+1", "1_000", "_1", "1_", "0x1F", "0X1F", "0x", "0b101", "0b2", "0o17", "017",
    "0_17", "1:30", "1:2", "1:60", "01:30", "12:30:45", "190:20:30", "190:20:30.15", "-1:30", "1.", ".5", "-.5", "+.5",
    "1.5", "1e3", "1e+3", "1.5e3", "1.5e+3", "1.5E-3", "1.e+3", ".e3", ".", "..", "...", "._", ".inf", ".Inf", ".INF",
    "-.inf", "+.inf", ".nan", ".NaN", ".NAN", "inf", "nan", "Infinity", "1_0.5", "685_230.15", "9" * 30,
    "-" + "9" * 30, "1" + "0" * 400 + ".0", "2026-01-01", "2026-1-1", "2026-13-45", "0000-00-00",
    "2026-01-01T10:00:00Z", "2026-01-01t10:00:00", "2026-01-01 10:00:00", "2026-01-01 10:00:00.5 +2",
    "2026-01-01 1:2:3", "2001-12-14t21:59:43.10-05:00", "10:00", "=", "==", "<<", "<<<", "<", "-", "--", "---", "--- ",
    "--- x", "---x", "\n---", "\n---\n", "a\n---\nb", "a\n...\nb", "\n...", "... x", "...x", "- a", "-a", "-\ta", "?",
    "? a", "?a", "?\n", ":", ": a", ":a", "a:", "a :", "a: b", "a:b", "a: ", "a:\nb", "::", "a::b",
    "http://a.b/c?d=e&f#g", "#", "# a", "#a", "a#b", "a #b", "a# b", "a\n#b", ",", ", a", "a, b", "[", "]", "[a]", "{",
    "}", "{a: b}", "{}", "[]", "&", "&a", "*", "*a", "!", "!a", "!!str a", "!!binary x", "|", "|-", ">", "> a", ">-",
    "%", "%YAML 1.2", "@", "@a", "`", "`a`", "'", "''", "'a'", "it's", "a'", "\"", "\"a\"", "\"a", "a\"b\"", "\\",
    "\\n", "a\\", "\\x41", "$", "$date", "$pairs", " a", "a ", " a ", "a  b", "\ta", "a\t", "a\tb", "a\n", "a\n\n",
    "\na", "\n\na", "a\nb", "a\n\nb", "a \nb", "a\n b", "a\n\n b", "a\n \nb", "a\n  ", "  a\n", "a\r\nb", "a\rb",
    "a\x85b", "a\u2028b", "a\u2029b", "a\x85 b", "\xe9t\xe9", "e\u0301", "\u6c49\u5b57", "\u05e9\u05dc\u05d5\u05dd",
    "\u202eabc", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "x" * 79, "x" * 80, "x" * 81, "x" * 200, "word " * 40,
    " word" * 40, "word\n" * 40, "it's " * 40, "colon: " * 40, "a \u00e9 " * 40, "\u6c49 " * 60, "\t tab" * 30,
    "\\ " * 60, "\ud800 " * 40, "\U0001f600 \x07" * 30, "\x07" * 100, "--- " * 30, "... " * 30, "# " * 60, "- " * 60,
    "  " * 60, "x  " * 40, "\n  x" * 30, "x \n" * 30, "'" * 100,
]

# Short strings of these are tried one and all.
ALPHABET = "a0 \n\t'\"#:-?,[&*!|%.=~<\\_\xe9\x85\ud83d\U0001f600"

RANDOM_CHARACTERS = list("aA0129 \n\t'\"#:-?,.[]{}&*!|>%@`=~<\\_/eExXbon") + [
    "\0", "\r", "\x07", "\x7f", "\x85", "\xa0", "\xe9", "\u2028", "\u2029", "\u3000", "\u6c49", "\ufdd0", "\ufdd1",
    "\ufeff", "\ufffe", "\ud83d", "\ude00", "\U0001f600", "\U0010ffff", "  ", "\n\n", ": ", " #", "---", "...", "yes",
    "null", "1:3", "2026-02-10", "0x", "1e+5", "word ", "word word ", "it's ", "x" * 30]

# PyYAML leaves these as they are, where they count as line breaks; here they are escaped.
DIFFERENT = re.compile("[\x85\u2028\u2029]")


def paired(text):
    """The text with the halves of surrogate pairs that meet made one, as JSON makes them."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def random_text(rng, most):
    return paired("".join(rng.choice(RANDOM_CHARACTERS) for _ in range(rng.randrange(most + 1))))


def random_float(rng):
    return rng.choice([rng.random(), rng.uniform(-1e20, 1e20), 10.0 ** rng.randrange(-320, 309), 0.0, -0.0, 5e-324,
                       float(rng.randrange(-10 ** 6, 10 ** 6)), 2.0 ** rng.randrange(-1070, 1024), math.inf, -math.inf])


def random_time(rng):
    shift = datetime.timedelta(minutes=rng.randrange(-800, 800))
    zone = rng.choice([None, datetime.timezone.utc, datetime.timezone(shift)])
    return datetime.datetime(rng.randrange(1, 9999), rng.randrange(1, 13), rng.randrange(1, 29), rng.randrange(24),
                             rng.randrange(60), rng.randrange(60), rng.choice([0, 5, 500000, 123456]), tzinfo=zone)


def random_scalar(rng):
    return rng.choice([
        lambda: random_text(rng, 12), lambda: random_text(rng, 60), lambda: rng.choice(HOSTILE),
        lambda: rng.randrange(-10 ** 6, 10 ** 6), lambda: rng.randrange(-10 ** 40, 10 ** 40), lambda: random_float(rng),
        lambda: None, lambda: True, lambda: False, lambda: random_time(rng), lambda: random_time(rng).date(),
        lambda: rng.randbytes(rng.choice([0, 1, 2, 3, 20, 57, 58, 200]))])()


def random_key(rng):
    """Anything that hashes, and that JSON's keys do not confuse with a mark of its own."""
    while True:
        key = random_scalar(rng) if rng.random() < 0.2 else random_text(rng, 140 if rng.random() < 0.1 else 8)
        if not (isinstance(key, str) and key.startswith("$")):
            return key


def random_value(rng, depth):
    kind = rng.random()
    if depth == 0 or kind < 0.4:
        return random_scalar(rng)
    if kind < 0.6:
        return [random_value(rng, depth - 1) for _ in range(rng.randrange(4))]
    if kind < 0.65:
        return {random_key(rng) for _ in range(rng.randrange(4))}
    return random_mapping(rng, depth - 1)


def random_mapping(rng, depth):
    return {random_key(rng): random_value(rng, depth) for _ in range(rng.randrange(5))}


def disguised(value):
    """The value as JSON, with the marks that stand for what JSON lacks."""
    if isinstance(value, float) and not math.isfinite(value):
        return {"$float": "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"}
    if isinstance(value, datetime.datetime):
        return {"$datetime": value.isoformat()}
    if isinstance(value, datetime.date):
        return {"$date": value.isoformat()}
    if isinstance(value, bytes):
        return {"$binary": base64.b64encode(value).decode()}
    if isinstance(value, (set, frozenset)):
        return {"$set": [disguised(item) for item in value]}
    if isinstance(value, list):
        return [disguised(item) for item in value]
    if isinstance(value, dict):
        if all(isinstance(key, str) for key in value):
            return {key: disguised(item) for key, item in value.items()}
        return {"$pairs": [[disguised(key), disguised(item)] for key, item in value.items()]}
    return value


def typed(value):
    """Something that is equal only for equal values of the same types in the same order."""
    if isinstance(value, dict):
        return ("dict", [(typed(key), typed(item)) for key, item in value.items()])
    if isinstance(value, list):
        return ("list", [typed(item) for item in value])
    if isinstance(value, set):
        return ("set", sorted(repr(typed(item)) for item in value))
    return (type(value).__name__, repr(value))


def write_all(mode, values):
    """What the program writes for each value: (status, text)."""
    lines = "".join(json.dumps(value) + "\n" for value in values)
    done = subprocess.run([WRITE_ECHO, mode], input=lines.encode(), stdout=subprocess.PIPE, check=True, timeout=300)
    written, at = [], 0
    for _ in values:
        end = done.stdout.index(b"\n", at)
        status, size = done.stdout[at:end].decode().split()
        at = end + 1 + int(size) + 1
        written.append((status, done.stdout[end + 1:at - 1].decode()))
    assert at == len(done.stdout)
    return written


def has_different(value):
    if isinstance(value, str):
        return bool(DIFFERENT.search(value))
    if isinstance(value, dict):
        return any(has_different(key) or has_different(item) for key, item in value.items())
    return isinstance(value, (list, set)) and any(has_different(item) for item in value)


class YamlTest(unittest.TestCase):
    def setUp(self):
        self.counts = collections.Counter()

    def check(self, mappings):
        """Writes mappings, loads what came out with either loader, and compares with what PyYAML writes."""
        given = [disguised(mapping) for mapping in mappings]
        for mapping, again in zip(given, write_all("again", given)):
            self.assertEqual(again[0], "ok", mapping)
            self.assertEqual(typed(json.loads(again[1])), typed(mapping))
        for mapping, (status, text) in zip(mappings, write_all("yaml", given)):
            self.assertEqual(status, "ok")
            self.assertEqual(typed(yaml.safe_load(text)), typed(mapping), text)
            self.assertIsNone(re.search(r"^(---|\.\.\.)", text, re.M), text)
            self.assertTrue(text.endswith("\n"))
            self.counts["loaded"] += 1
            if not has_different(mapping):
                self.assertEqual(text, yaml.safe_dump(mapping, sort_keys=False, allow_unicode=True))
                self.counts["identical"] += 1

    def test_hostile_strings_stay_strings(self):
        self.check([{"value": text} for text in HOSTILE])
        self.check([{"a": HOSTILE}, {"a": {"b": [[text] for text in HOSTILE]}},
                   {"a": [{"b": text} for text in HOSTILE]}])
        self.assertGreater(self.counts["identical"], 0.8 * len(HOSTILE))

    def test_hostile_strings_are_keys(self):
        keys = [text for text in HOSTILE if not text.startswith("$")]
        self.check([{text: "x"} for text in keys])
        self.check([{"a": dict.fromkeys(keys, "x")}, {"a": [dict.fromkeys(keys, ["x"])]}, {"a": set(keys)}])

    def test_all_short_strings_stay_strings(self):
        strings = ["".join(letters) for size in (1, 2, 3) for letters in itertools.product(ALPHABET, repeat=size)]
        for at in range(0, len(strings), 2000):
            self.check([{"values": strings[at:at + 2000]}, dict.fromkeys(strings[at:at + 2000], 1)])
        self.assertEqual(self.counts["loaded"], 2 * math.ceil(len(strings) / 2000))

    def test_what_looks_like_a_mark_is_a_mapping(self):
        for value in ({"$date": "soon"}, {"$date": "2026-2-10"}, {"$date": 5}, {"$datetime": "2026-02-10"},
                      {"$float": "1"}, {"$binary": "!"}, {"$set": 5}, {"$set": [[1]]}, {"$set": [1, True]},
                      {"$pairs": 1}, {"$pairs": [[[1], 2]]}, {"$pairs": [["a", 2]]}, {"$pairs": [[1, 2, 3]]},
                      {"$pairs": []}, {"$date": "2026-02-10", "x": 1}, {"x": 1, "$pairs": [[1, 2]]}):
            (status, text), = write_all("yaml", [{"a": value}])
            self.assertEqual(status, "ok")
            self.assertEqual(typed(yaml.safe_load(text)), typed({"a": value}))

    def test_members_with_keys_that_are_no_text_stand_beside_the_others(self):
        (_, text), = write_all("yaml", [{"a": 1, "$pairs": [[5, "x"], [None, "y"], [{"$date": "2026-02-10"}, []]]}])
        self.assertEqual(yaml.safe_load(text), {"a": 1, 5: "x", None: "y", datetime.date(2026, 2, 10): []})

    def test_random_strings_stay_strings(self):
        rng = random.Random(3)
        self.check([{random_text(rng, 6): random_text(rng, 80), "b": [random_text(rng, 80) for _ in range(3)]}
                    for _ in range(3000)])

    def test_random_trees_come_back(self):
        rng = random.Random(4)
        self.check([random_mapping(rng, 5) for _ in range(3000)])
        self.assertGreater(self.counts["identical"], 1000)

    def test_nan_comes_back(self):
        (_, text), = write_all("yaml", [{"a": {"$float": "nan"}}])
        self.assertTrue(math.isnan(yaml.safe_load(text)["a"]))


def cleaned(text):
    """What reading makes of a text: its own lines, nothing around."""
    return "\n".join(re.sub("\r\n?", "\n", text).splitlines()).strip()


class FactTest(unittest.TestCase):
    def test_topics_that_look_like_other_types_are_read_as_text(self):
        topics = [text for text in HOSTILE if not re.search("[\ud800-\udfff]", text)]
        (status, text), = write_all("fact", [{"id": "f", "content": "x", "topics": topics,
                                              "source": {"type": "conversation", "threadId": "1:30"}}])
        self.assertEqual(status, "ok", text)
        front, title, content = peer.parse_fact(text)
        self.assertEqual(front["topics"], topics)
        self.assertEqual(front["source"], {"type": "conversation", "threadId": "1:30"})
        self.assertEqual((title, content), ("x", "x"))
        self.assertEqual(list(front)[-2:], ["user_id", "agent_name"])

    def test_the_shared_list_is_read_as_text(self):
        if not volumes.shared_is_there():
            skip("no shared test data")
        topics = volumes.shared_json("cases", "yaml_scalars.json")["topics"]
        (status, text), = write_all("fact", [{"content": "x", "topics": topics}])
        self.assertEqual(status, "ok", text)
        self.assertEqual(peer.parse_fact(text)[0]["topics"], topics)

    def test_random_contents_are_read_as_they_were_stored(self):
        rng = random.Random(5)
        contents = [re.sub("[\ud800-\udfff]", "", random_text(rng, 60)) for _ in range(3000)]
        refused = 0
        for given, (status, text) in zip(contents, write_all("fact", [{"content": given} for given in contents])):
            content = cleaned(given)
            if not content:
                refused += 1
                self.assertEqual(status, "invalid")
                continue
            self.assertEqual(status, "ok", repr(given))
            _, title, read = peer.parse_fact(text)
            self.assertEqual(read, content)
            self.assertEqual(title, content.split("\n")[0].strip()[:160].rstrip())
        self.assertGreater(refused, 0)

    def test_half_of_a_surrogate_pair_is_refused_by_name(self):
        half = "party \ud83d"
        facts = {"content": {"content": half}, "title": {"title": half}, "topics": {"topics": [half]},
                 "source": {"source": {"threadId": half}}, "mine": {"mine": [{half: 1}]}}
        for (name, fact), (status, text) in zip(facts.items(), write_all("fact", [{"content": "x", **fact}
                                                                                 for fact in facts.values()])):
            self.assertEqual(status, "invalid")
            self.assertIn(f" {name} ", text)


if __name__ == "__main__":
    unittest.main()
