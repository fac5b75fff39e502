"""The history of a soak: one operation a line, as JSON, and the facts that it speaks of.

Every content of a fact is made from a token that is used once, so an answer tells who wrote each of its
facts. Times are nanoseconds of the monotonic clock, which all processes of a machine share.

The first line is the header; the others are told apart by `kind`:

    begin   seed, nodes (how many agents), locks (whom they keep out: see --locks), late_s (how long after its end an
            operation whose answer was lost may still be done)
    read    who, node, begin, end, user, agent, what, freshness, max_staleness_ms (with "bounded"), word (null: all
            facts were asked for), limit (null: all that there are), id (one fact was asked for), and as answered:
            state, revision, age_ms, reason, broken (how many facts could not be read), facts ([[id, token], ...]),
            summary (only with get_memory). Or error (a kind) instead of these.
    write   who, node (null: a third party), begin, end (null: killed), user, agent (null: summaries only), what,
            effect, needs, outcome, revision, index, error, kept (ids of facts that it left, since they could not be
            read)
    event   what (calm, index deleted, killed, fail, ...), node, begin, end; with "calm" bound_s; with "fail" where (a
            node or "all"), operation, words (the error)
    files   user, revision, summary, agents ({agent: [[id, token], ...]}): what lay on the volume at the end

`effect` of a write: set ({id: token}; the id "" is made up by the agent), remove ([id, ...], those that are there),
replace (true: `set` becomes all of the agent's facts), old (tokens in `set` that an import brings back to where they
were), summary (a token). `needs`, without which it must be refused:
revision (the user's, before), facts ({id: token, or true: is there, or null: must not be}), if_there ({id: token}).
`outcome`: "done" at `revision`, "nothing" to be done, "refused" (certainly not done), "unknown".
"""

import json
import re
import threading
import zlib

WORD = "harvest"  # every fact contains it, so that a search finds all
WORDS = ("amber", "bridge", "copper", "dragon", "engine", "forest", "garden", "hammer", "island", "jungle",
         "kettle", "lantern", "marble", "needle", "orchid", "pepper", "quartz", "ribbon", "silver", "tunnel")
TEXT = re.compile(WORD + r" (\S+) (\S+) (\S+) \w+ \w+ \w+")


def words_of(token):
    """The words that only some facts have."""
    number = zlib.crc32(token.encode())
    return [WORDS[number // step % len(WORDS)] for step in (1, 31, 997)]


def text_of(user, agent, token):
    """The content of a fact."""
    return f"{WORD} {user} {agent} {token} {' '.join(words_of(token))}"


def token_of(user, agent, content):
    """What the content was made from. Where it is not a fact of this scope, the whole content."""
    match = TEXT.fullmatch(content)
    if match and text_of(user, agent, match[3]) == content:
        return match[3]
    return content


def where_from(content):
    """User, agent and token of a fact of any scope; None: nobody here has written such a content."""
    match = TEXT.fullmatch(content)
    if match and text_of(*match.groups()) == content:
        return match.groups()
    return None


class Recorder:
    """Writes down operations of one process; its threads share it."""

    def __init__(self, path):
        self.path = path
        self.file = open(path, "w", encoding="utf-8")
        self.lock = threading.Lock()

    def write(self, **operation):
        line = json.dumps(operation, separators=(",", ":"))
        with self.lock:
            self.file.write(line + "\n")

    def close(self):
        self.file.close()


def read_history(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def join_histories(header, parts, path):
    """One history of the parts of all processes, in the order in which the operations began."""
    operations = [operation for part in parts for operation in read_history(part)]
    operations.sort(key=lambda operation: operation["begin"])
    with open(path, "w", encoding="utf-8") as file:
        for operation in [header, *operations]:
            file.write(json.dumps(operation, separators=(",", ":")) + "\n")
