"""What calls return: the agent's answer, with names and types for its members.

A result keeps the decoded answer as `raw` and looks a member up when it is asked for: nothing is made that nobody
reads, and members that this version does not know are in `raw`. Names are the protocol's; those of documents, which
are in camel case there, are in snake case here (`createdAt` is `created_at`).
"""

from __future__ import annotations

from typing import Any, Dict, Generic, List, Optional, Type, TypeVar, Union, overload

from .errors import BadReplyError

T = TypeVar("T")
R = TypeVar("R", bound="Result")
_REQUIRED: Any = object()


class Result:
    """An object of an answer; `raw` is that object as it was decoded."""

    __slots__ = ("raw",)
    raw: Dict[str, Any]

    def __init__(self, raw: Dict[str, Any]) -> None:
        self.raw = raw

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.raw!r})"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and isinstance(other, Result) and self.raw == other.raw

    __hash__ = None  # type: ignore[assignment]


def _member(result: Result, name: str, default: Any) -> Any:
    value = result.raw.get(name, default)
    if value is _REQUIRED:
        raise BadReplyError(f"the answer has no member {name}: {sorted(result.raw)}")
    return value


class Member(Generic[T]):
    """A member that is taken as it is. With a default it may be missing."""

    __slots__ = ("name", "default")

    def __init__(self, name: str, default: Any = _REQUIRED) -> None:
        self.name = name
        self.default = default

    @overload
    def __get__(self, result: None, owner: Any) -> Member[T]: ...

    @overload
    def __get__(self, result: Result, owner: Any) -> T: ...

    def __get__(self, result: Optional[Result], owner: Any) -> Union[Member[T], T]:
        if result is None:
            return self
        value: T = _member(result, self.name, self.default)
        return value


class One(Generic[R]):
    """A member that is an object of its own."""

    __slots__ = ("kind", "name")

    def __init__(self, kind: Type[R], name: str) -> None:
        self.kind = kind
        self.name = name

    @overload
    def __get__(self, result: None, owner: Any) -> One[R]: ...

    @overload
    def __get__(self, result: Result, owner: Any) -> R: ...

    def __get__(self, result: Optional[Result], owner: Any) -> Union[One[R], R]:
        return self if result is None else self.kind(_member(result, self.name, _REQUIRED))


class Perhaps(Generic[R]):
    """A member that is such an object, or null, or missing."""

    __slots__ = ("kind", "name")

    def __init__(self, kind: Type[R], name: str) -> None:
        self.kind = kind
        self.name = name

    @overload
    def __get__(self, result: None, owner: Any) -> Perhaps[R]: ...

    @overload
    def __get__(self, result: Result, owner: Any) -> Optional[R]: ...

    def __get__(self, result: Optional[Result], owner: Any) -> Union[Perhaps[R], R, None]:
        if result is None:
            return self
        raw = result.raw.get(self.name)
        return None if raw is None else self.kind(raw)


class Many(Generic[R]):
    """A member that is a list of such objects."""

    __slots__ = ("kind", "name")

    def __init__(self, kind: Type[R], name: str) -> None:
        self.kind = kind
        self.name = name

    @overload
    def __get__(self, result: None, owner: Any) -> Many[R]: ...

    @overload
    def __get__(self, result: Result, owner: Any) -> List[R]: ...

    def __get__(self, result: Optional[Result], owner: Any) -> Union[Many[R], List[R]]:
        if result is None:
            return self
        kind = self.kind
        return [kind(raw) for raw in _member(result, self.name, _REQUIRED)]


# ---- what answers are made of ----


class Scope(Result):
    """A scope of an answer, and how fresh it was: "fresh", "refreshed", "stale" or "unverified"."""

    __slots__ = ()
    user_id = Member[Optional[str]]("user_id")
    agent_name = Member[str]("agent_name")
    revision = Member[int]("revision")
    state = Member[str]("state")
    age_ms = Member[Optional[int]]("age_ms", None)
    reason = Member[Optional[str]]("reason", None)
    path = Member[Optional[str]]("path", None)
    unmigrated = Member[bool]("unmigrated", False)
    broken = Member[int]("broken", 0)

    @property
    def is_current(self) -> bool:
        """It contains every change that was complete when the request arrived."""
        return self.state in ("fresh", "refreshed")


class Fact(Result):
    """The document of a fact; `raw` has all of it, and can be changed and given to apply_changes()."""

    __slots__ = ()
    id = Member[str]("id")
    content = Member[str]("content")
    category = Member[str]("category", "context")
    category_extension = Member[Optional[str]]("categoryExtension", None)
    confidence = Member[float]("confidence", 0.5)
    created_at = Member[str]("createdAt", "")
    updated_at = Member[str]("updatedAt", "")
    source = Member[Any]("source", None)
    source_error = Member[Optional[str]]("sourceError", None)
    topics = Member[List[str]]("topics", ())
    revision = Member[int]("revision")
    title = Member[str]("title", "")


class Hit(Result):
    """A fact that a search found."""

    __slots__ = ()
    fact = One(Fact, "fact")
    score = Member[float]("score")
    match_type = Member[str]("matchType")
    retrieval = Member[Dict[str, float]]("retrieval")


class BrokenFile(Result):
    """A file of facts that cannot be served, or that was left where it is."""

    __slots__ = ()
    path = Member[str]("path")
    problem = Member[str]("problem")
    kind = Member[str]("kind")


class Memory(Result):
    """A memory's document: `raw` is what import_memory() takes. Of summaries alone it has no facts."""

    __slots__ = ()
    version = Member[str]("version")
    revision = Member[int]("revision", 0)
    last_updated = Member[str]("lastUpdated", "")
    user = Member[Dict[str, Any]]("user")
    history = Member[Dict[str, Any]]("history")

    @property
    def facts(self) -> List[Fact]:
        """The facts of the scope, sorted by id."""
        return [Fact(raw) for raw in self.raw.get("facts", ())]


# ---- answers of readers ----


class Pong(Result):
    """Who answers."""

    __slots__ = ()
    protocol = Member[int]("protocol")
    name = Member[str]("name")
    version = Member[str]("version")
    backend = Member[str]("backend")
    events = Member[Optional[str]]("events")
    pid = Member[int]("pid")


class SearchResult(Result):
    """What a search found, best first."""

    __slots__ = ()
    hits = Many(Hit, "results")
    count = Member[int]("count")
    top_k = Member[int]("top_k")
    clamped = Member[bool]("clamped", False)
    truncated = Member[bool]("truncated", False)
    strategy = Member[str]("strategy")
    scopes = Many(Scope, "scopes")
    took_us = Member[int]("took_us")


class FactList(Result):
    """Facts of a scope, sorted by id; `count` is of all that match."""

    __slots__ = ()
    facts = Many(Fact, "facts")
    count = Member[int]("count")
    scope = One(Scope, "scope")
    broken = Many(BrokenFile, "broken")


class OneFact(Result):
    """A fact."""

    __slots__ = ()
    fact = One(Fact, "fact")
    scope = One(Scope, "scope")


class MemoryResult(Result):
    """A memory."""

    __slots__ = ()
    memory = One(Memory, "memory")
    scope = One(Scope, "scope")


class Summaries(Result):
    """A user's summaries."""

    __slots__ = ()
    summaries = One(Memory, "summaries")
    scope = One(Scope, "scope")


class Refreshed(Result):
    """What a refresh came to. What was only asked for, without waiting, is `requested` and has no other members."""

    __slots__ = ()
    requested = Member[bool]("requested", False)
    accepted = Member[bool]("accepted", False)
    scope = Perhaps(Scope, "scope")
    facts = Member[int]("facts", 0)
    broken = Member[int]("broken", 0)
    read = Member[int]("read", 0)
    took_us = Member[int]("took_us", 0)


class Verified(Result):
    """How index and volume differ: files by their paths below the scope's facts."""

    __slots__ = ()
    ok = Member[bool]("ok")
    checked = Member[int]("checked")
    missing = Member[List[str]]("missing")
    extra = Member[List[str]]("extra")
    different = Member[List[str]]("different")
    scope = One(Scope, "scope")


class KnownScope(Result):
    """What the agent knows of a scope: "synced", "unbuilt" or "unreadable"."""

    __slots__ = ()
    user_id = Member[Optional[str]]("user_id")
    agent_name = Member[str]("agent_name")
    revision = Member[Optional[int]]("revision", None)
    state = Member[str]("state")
    facts = Member[int]("facts", 0)
    broken = Member[int]("broken", 0)
    unmigrated = Member[bool]("unmigrated", False)


class ScopeList(Result):
    """Scopes that the agent knows; `count` is of all that match."""

    __slots__ = ()
    scopes = Many(KnownScope, "scopes")
    count = Member[int]("count")


class Capabilities(Result):
    """Which methods the agent serves."""

    __slots__ = ()
    backend = Member[str]("backend")
    methods = Member[Dict[str, bool]]("methods")


class Status(Result):
    """Counters and settings. What depends on the backend is in `raw`: "volume", "index", "build", ..."""

    __slots__ = ()
    version = Member[str]("version")
    protocol = Member[int]("protocol")
    pid = Member[int]("pid")
    uptime_s = Member[float]("uptime_s")
    backend = Member[str]("backend")
    endpoint = Member[str]("endpoint")
    ipc = Member[Dict[str, Any]]("ipc")
    build = Member[Optional[Dict[str, Any]]]("build", None)
    problems = Member[List[str]]("problems")


# ---- answers of writers ----


class Written(Result):
    """What all writes answer. `memory` is there when it was asked for."""

    __slots__ = ()
    revision = Member[int]("revision")
    changed = Member[bool]("changed")
    last_updated = Member[str]("last_updated")
    index = Member[str]("index")
    attempts = Member[int]("attempts")
    memory = Perhaps(Memory, "memory")


class Created(Written):
    """`fact` and `fact_id` are None where the scope is full of better facts; `refused_id` then names it."""

    __slots__ = ()
    fact_id = Member[Optional[str]]("fact_id")
    fact = Perhaps(Fact, "fact")
    evicted = Member[List[str]]("evicted")
    refused_id = Member[Optional[str]]("refused_id", None)


class Updated(Written):
    """The fact as it is now."""

    __slots__ = ()
    fact = One(Fact, "fact")


class Deleted(Written):
    """The ids that were removed."""

    __slots__ = ()
    deleted = Member[List[str]]("deleted")


class Applied(Written):
    """The facts that were written and the ids that were removed."""

    __slots__ = ()
    upserted = Many(Fact, "upserted")
    deleted = Member[List[str]]("deleted")


class SummariesWritten(Written):
    """The summaries as they are now."""

    __slots__ = ()
    summaries = One(Memory, "summaries")


class Cleared(Written):
    """How many facts went, of which agents, and what was left where it is. `erased`: files of earlier layouts."""

    __slots__ = ()
    cleared = Member[int]("cleared")
    erased = Member[int]("erased", 0)
    agents = Member[List[str]]("agents")
    kept = Many(BrokenFile, "kept")


class Imported(Written):
    """What an import did, or with `dry_run` would do."""

    __slots__ = ()
    dry_run = Member[bool]("dry_run")
    imported = Member[int]("imported")
    added = Member[int]("added")
    replaced = Member[int]("replaced")
    deleted = Member[int]("deleted")
    unchanged = Member[int]("unchanged")
    evicted = Member[List[str]]("evicted")
    replaced_summaries = Member[List[str]]("replaced_summaries")
    added_summaries = Member[List[str]]("added_summaries")
    kept = Many(BrokenFile, "kept")
    unmigrated = Member[bool]("unmigrated", False)


class Migrated(Result):
    """What a migration did; `migrated` is false where there was nothing to do."""

    __slots__ = ()
    migrated = Member[bool]("migrated")
    from_version = Member[Optional[str]]("from_version")
    to_version = Member[str]("to_version")
    facts = Member[int]("facts")
    revision = Member[int]("revision")


# ---- events ----


class Event(Result):
    """A change that the agent tells of.

    `missed`: events of this topic may have been lost before this one, so drop what you keep of its scope. With the
    event "reconnected", which has no scope, that holds for every scope.
    """

    __slots__ = ("topic", "missed")
    event = Member[str]("event")
    user_id = Member[Optional[str]]("user_id", None)
    agent_name = Member[Optional[str]]("agent_name", None)
    epoch = Member[int]("epoch", 0)
    n = Member[int]("n", 0)
    revision = Member[Optional[int]]("revision", None)
    facts = Member[Optional[int]]("facts", None)

    def __init__(self, raw: Dict[str, Any], topic: str = "", missed: bool = False) -> None:
        super().__init__(raw)
        self.topic = topic
        self.missed = missed
