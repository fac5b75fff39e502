#!/usr/bin/python3
"""Writes a volume to measure with: equal options give equal files.

    make_volume.py DIRECTORY [--users 1] [--facts 100] [--language mixed] [--seed 1] [--jobs 2]

Users are u0, u1, ...; each has that many facts of the default agent, f0, f1, ..., and a manifest of
revision 1. Files are written straight to their places, without fsync, lock and journal, so nobody may
use the volume meanwhile. Prints what was written as one JSON object.
"""

import argparse
import hashlib
import json
import multiprocessing
import os
import signal
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from corpus import Corpus

CATEGORIES = ("preference", "context", "goal", "behavior", "identity", "constraint", "decision")

FACT = """---
id: {id}
category: {category}
confidence: {confidence}
createdAt: '{moment}'
source:
  type: manual
  threadId: null
schemaVersion: 2
status: active
topics: []
consolidatedFrom: []
updatedAt: '{moment}'
revision: {revision}
user_id: {user}
agent_name: __default__
---

# {title}

{content}
"""


def fact_path(bucket, fact_id):
    shard = hashlib.sha256(fact_id.encode()).hexdigest()[:2]
    return os.path.join(bucket, "agents", "__default__", "facts", shard, fact_id + ".md")


def render_fact(user, number, content, revision=1):
    return FACT.format(id=f"f{number}", category=CATEGORIES[number % len(CATEGORIES)],
                       confidence=0.5 + number % 50 / 100, user=user, content=content,
                       moment=f"2026-{1 + number % 12:02}-{1 + number % 28:02}T08:00:00.000000Z",
                       title=content[:80], revision=revision)


def render_manifest(revision):
    empty = {"summary": "", "updatedAt": ""}
    return json.dumps({
        "version": "2.0", "revision": revision, "lastUpdated": "2026-03-01T08:00:00Z",
        "user": {name: empty for name in ("workContext", "personalContext", "topOfMind")},
        "history": {name: empty for name in ("recentMonths", "earlierContext", "longTermBackground")},
    }, indent=2)


def write_new(path, text, made):
    directory = os.path.dirname(path)
    if directory not in made:
        os.makedirs(directory, exist_ok=True)
        made.add(directory)
    data = text.encode()
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    os.write(fd, data)
    os.close(fd)
    return len(data)


def corpus_of(language):
    """One for all users: its vocabulary takes longer than the facts of many."""
    if language not in CORPORA:
        CORPORA[language] = Corpus(0, language)
    return CORPORA[language]


def write_user(root, number, facts, language, seed):
    """The bytes of a user's facts."""
    user = f"u{number}"
    bucket = os.path.join(root, "users", user)
    corpus = corpus_of(language)
    corpus.rng.seed(f"{seed}/{number}")
    made = set()
    total = sum(write_new(fact_path(bucket, f"f{index}"), render_fact(user, index, corpus.fact()), made)
                for index in range(facts))
    write_new(os.path.join(bucket, "memory.json"), render_manifest(1), made)
    return total


CORPORA = {}


def write_users(job):
    root, numbers, facts, language, seed = job
    return sum(write_user(root, number, facts, language, seed) for number in numbers)


def end_when_told():
    """A pool ends its processes with SIGTERM. A handler of their parent's would not run in one that waits for the
    pool's lock."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def make_volume(root, users=1, facts=100, language="mixed", seed=1, jobs=2):
    """Adds users to the volume; returns what was written."""
    begun = time.monotonic()
    os.makedirs(root, exist_ok=True)
    step = max(1, min(500, users // jobs))
    parts = [(root, range(first, min(users, first + step)), facts, language, seed)
             for first in range(0, users, step)]
    if jobs > 1 and len(parts) > 1:
        with multiprocessing.Pool(jobs, initializer=end_when_told) as pool:
            total = sum(pool.imap_unordered(write_users, parts))
    else:
        total = sum(map(write_users, parts))
    return {"users": users, "facts": users * facts, "bytes": total,
            "seconds": round(time.monotonic() - begun, 2)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("directory")
    parser.add_argument("--users", type=int, default=1)
    parser.add_argument("--facts", type=int, default=100, help="of each user")
    parser.add_argument("--language", choices=("en", "zh", "mixed"), default="mixed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2)
    options = parser.parse_args()
    print(json.dumps(make_volume(options.directory, options.users, options.facts, options.language,
                                 options.seed, options.jobs)))


if __name__ == "__main__":
    main()
