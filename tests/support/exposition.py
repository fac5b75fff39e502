"""The text format of Prometheus: reads a page, and tells which rules it breaks.

    told = parse(page)
    told.samples[("memsyncd_searches_total", (("state", "fresh"),))]    7.0
    told.families["memsyncd_searches_total"].kind                       "counter"
    lint(told)                                                          a list of what is wrong

The rules are those of the format (help, type and samples of a family together, classes of a histogram) and those of
good names (base units, what counts ends in _total, one prefix, labels that nobody else sets).
"""

import collections
import math
import re

PREFIX = "memsyncd_"
KINDS = ("counter", "gauge", "histogram")
SUFFIXES = {"histogram": ("_bucket", "_sum", "_count"), "counter": ("",), "gauge": ("",)}
BASE_UNITS = ("seconds", "bytes", "ratio")
# Parts of names that are units, or short for one, and no base unit.
OTHER_UNITS = set("milliseconds microseconds nanoseconds minutes hours days kilobytes megabytes kib mib kb mb ms us ns "
                  "s sec secs byte second percent pct ratios".split())
# Set by whoever collects, or kept for him.
FOREIGN_LABELS = {"job", "instance", "quantile", "exported_job", "exported_instance"}

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"'
SAMPLE = re.compile(rf"({NAME})(?:\{{({LABEL}(?:,{LABEL})*)?\}})? (\S+)")
ESCAPES = {"n": "\n", '"': '"', "\\": "\\"}


class Family:
    """What belongs together: one help, one type, the samples in their order."""

    def __init__(self, name):
        self.name = name
        self.kind = None
        self.help = None
        self.samples = []  # name and labels


class Told:
    """A whole page."""

    def __init__(self):
        self.families = {}
        self.samples = {}
        self.faults = []

    def family_of(self, name):
        """The family that a sample's name belongs to; None where none was told of."""
        for suffix in ("_bucket", "_sum", "_count"):
            family = self.families.get(name.removesuffix(suffix)) if name.endswith(suffix) else None
            if family and family.kind == "histogram":
                return family
        return self.families.get(name)


def unescape(text):
    return re.sub(r'\\(["\\n])', lambda match: ESCAPES[match[1]], text)


def take_comment(told, line, current):
    match = re.fullmatch(rf"# (HELP|TYPE) ({NAME})(?: (.*))?", line)
    if not match:
        raise ValueError(f"no line of the format: {line!r}")
    what, name, rest = match.groups()
    family = told.families.setdefault(name, Family(name))
    field = "help" if what == "HELP" else "kind"
    if getattr(family, field) is not None:
        told.faults.append(f"{name}: {what} twice")
    if family.samples:
        told.faults.append(f"{name}: {what} behind its samples")
    setattr(family, field, rest or "")
    if current is not family and family.kind is not None and family.help is not None and current is not None:
        told.faults.append(f"{name}: {what} apart from the rest")
    return family


def take_sample(told, line, current):
    match = SAMPLE.fullmatch(line)
    if not match:
        raise ValueError(f"no line of the format: {line!r}")
    labels = tuple(sorted((label, unescape(value)) for label, value in re.findall(LABEL, match[2] or "")))
    sample = match[1], labels
    family = told.family_of(match[1])
    if family is None:
        told.faults.append(f"{match[1]}: neither help nor type")
        family = told.families.setdefault(match[1], Family(match[1]))
    elif family is not current:
        told.faults.append(f"{match[1]}: its samples do not follow it")
    if sample in told.samples:
        told.faults.append(f"{line}: twice")
    told.samples[sample] = float(match[match.lastindex].replace("+Inf", "inf"))
    family.samples.append(sample)
    return family


def parse(page):
    """Reads a page; ValueError for a line that is none of the format."""
    told = Told()
    current = None
    if not page.endswith("\n"):
        raise ValueError("the last line does not end")
    for line in page.split("\n")[:-1]:
        take = take_comment if line.startswith("#") else take_sample
        current = take(told, line, current)
    return told


# ---- rules: each yields what is wrong with one family ----

def lint_text(_, family):
    if family.help is None or not re.search(r"\S", family.help):
        yield "no help"
    elif not family.help.endswith("."):
        yield "its help is no sentence"
    if family.kind not in KINDS:
        yield f"no type that there is: {family.kind}"
    if not family.samples:
        yield "no samples"


def lint_name(_, family):
    name = family.name
    if not name.startswith(PREFIX):
        yield f"it does not begin with {PREFIX}"
    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name):
        yield "not lower case with single underscores"
    if (family.kind == "counter") != name.endswith("_total"):
        yield "what counts ends in _total, and nothing else does"
    if re.search(r"_(count|sum|bucket)$", name):
        yield "it ends as a histogram's samples do"
    parts = name.removesuffix("_total").split("_")
    if OTHER_UNITS & set(parts):
        yield "a unit that is no base unit"
    for unit in BASE_UNITS:
        if unit in parts[:-1]:
            yield f"{unit} stands in the middle"
    if family.kind == "histogram" and parts[-1] not in BASE_UNITS:
        yield "a histogram without a unit"
    for word in (family.kind or "", "gauge", "counter", "metric"):
        if word in parts:
            yield "its type is in its name"


def lint_info(told, family):
    if family.name.endswith("_info") and (
            family.kind != "gauge" or any(told.samples[sample] != 1 for sample in family.samples)):
        yield "what tells by its labels is a gauge of 1"


def lint_labels(_, family):
    sets = set()
    for _, labels in family.samples:
        names = [label for label, _ in labels]
        sets.add(tuple(name for name in names if name != "le"))
        for name, value in labels:
            if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or name in FOREIGN_LABELS:
                yield f"a label of the name {name}"
            if name == "le" and family.kind != "histogram":
                yield "le without a histogram"
            if not value:
                yield f"an empty {name}"
        if len(set(names)) != len(names):
            yield "a label twice"
    if len(sets) > 1:
        yield "samples with other labels than others"


def lint_values(told, family):
    for sample in family.samples:
        value = told.samples[sample]
        if math.isnan(value) or math.isinf(value):
            yield f"{value} as a value"
        if family.kind in ("counter", "histogram") and value < 0:
            yield "less than nothing was counted"


def lint_histogram(told, family):
    if family.kind != "histogram":
        return
    classes = collections.defaultdict(list)
    for name, labels in family.samples:
        if name == f"{family.name}_bucket":
            bound = dict(labels)["le"].replace("+Inf", "inf")
            rest = tuple(pair for pair in labels if pair[0] != "le")
            classes[rest].append((float(bound), told.samples[name, labels]))
    for rest, pairs in classes.items():
        bounds, counts = zip(*pairs)
        if list(bounds) != sorted(set(bounds)):
            yield "bounds that do not ascend"
        if list(counts) != sorted(counts):
            yield "classes that are not cumulative"
        if bounds[-1] != math.inf:
            yield "no class for all"
        elif counts[-1] != told.samples.get((f"{family.name}_count", rest)):
            yield "another count than all classes have"
        if (f"{family.name}_sum", rest) not in told.samples:
            yield "no sum"
    if not classes:
        yield "no classes"


RULES = (lint_text, lint_name, lint_info, lint_labels, lint_values, lint_histogram)


def lint(told):
    """What is wrong with the page, as texts; an empty list is what one wants."""
    return told.faults + [f"{family.name}: {fault}" for family in told.families.values()
                          for rule in RULES for fault in rule(told, family)]
