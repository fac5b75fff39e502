"""The methods of docs/protocol.md, each once: what it takes and what it gives. Both clients are made from these.

`user_id` is a string, or None for the scope without a user; `agent_name` None is the user's default bucket.
`freshness` says how much of what others changed must be seen: "strict", "bounded" or "local" (docs/freshness.md).
`timeout` is in seconds; without it the client's counts.
"""

from __future__ import annotations

import inspect
from typing import Any, Callable, Dict, Generic, Iterable, List, Mapping, Optional, Sequence, TypeVar, Union

from .errors import ProtocolError
from .results import (Applied, Capabilities, Cleared, Created, Deleted, Fact, FactList, Imported, Memory, MemoryResult,
                      Migrated, OneFact, Pong, Refreshed, ScopeList, SearchResult, Status, Summaries,
                      SummariesWritten, Updated, Verified)
from .wire import PROTOCOL

T = TypeVar("T")
Document = Mapping[str, Any]


class Request(Generic[T]):
    """A call that is ready to be made, and how its result is read."""

    __slots__ = ("method", "params", "read", "timeout")

    def __init__(self, method: str, params: Dict[str, Any], read: Callable[[Any], T],
                 timeout: Optional[float]) -> None:
        self.method = method
        self.params = params
        self.read = read
        self.timeout = timeout


def describe(method: Callable[..., Any], build: Callable[..., Any]) -> None:
    """Gives a client's method the words and the signature of what builds its request, for help() and the like."""
    signature = inspect.signature(build)
    itself = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    returned = str(build.__annotations__["return"])[len("Request["):-1]
    setattr(method, "__signature__", signature.replace(
        parameters=[itself, *signature.parameters.values()], return_annotation=returned))
    method.__name__, method.__doc__ = build.__name__, build.__doc__
    method.__qualname__ = build.__qualname__


def _given(**params: Any) -> Dict[str, Any]:
    """Those that are not None: the agent's own defaults count for the others."""
    return {name: value for name, value in params.items() if value is not None}


def _of(user_id: Optional[str], **params: Any) -> Dict[str, Any]:
    """The same with the user, whom every call must name, be it as null."""
    given = _given(**params)
    given["user_id"] = user_id
    return given


# ---- about the agent ----


def _read_pong(raw: Any) -> Pong:
    pong = Pong(raw)
    if pong.protocol != PROTOCOL:
        raise ProtocolError(f"the agent speaks version {pong.protocol} of the protocol, this client version {PROTOCOL}")
    return pong


def ping(*, timeout: Optional[float] = None) -> Request[Pong]:
    """Who answers. ProtocolError: an agent that this client cannot work with."""
    return Request("ping", {}, _read_pong, timeout)


def capabilities(*, timeout: Optional[float] = None) -> Request[Capabilities]:
    """Which methods the agent serves."""
    return Request("capabilities", {}, Capabilities, timeout)


def status(*, timeout: Optional[float] = None) -> Request[Status]:
    """Counters and settings, for operators."""
    return Request("status", {}, Status, timeout)


def all_scopes(*, offset: Optional[int] = None, limit: Optional[int] = None,
               timeout: Optional[float] = None) -> Request[ScopeList]:
    """What the agent knows of all users, for operators."""
    return Request("scopes", _given(offset=offset, limit=limit), ScopeList, timeout)


def scopes(*, user_id: Optional[str], offset: Optional[int] = None, limit: Optional[int] = None,
           timeout: Optional[float] = None) -> Request[ScopeList]:
    """What the agent knows of one user."""
    return Request("scopes", _of(user_id, offset=offset, limit=limit), ScopeList, timeout)


# ---- reading ----


def search(query: str, *, user_id: Optional[str], agent_name: Optional[str] = None, top_k: Optional[int] = None,
           category: Optional[str] = None, filters: Optional[Document] = None, freshness: Optional[str] = None,
           max_staleness_ms: Optional[int] = None, timeout: Optional[float] = None) -> Request[SearchResult]:
    """The facts of a scope that fit the query, best first."""
    return Request("search", _of(
        user_id, query=query, agent_name=agent_name, top_k=top_k, category=category, filters=filters,
        freshness=freshness, max_staleness_ms=max_staleness_ms), SearchResult, timeout)


def search_scopes(query: str, scopes: Sequence[Document], *, top_k: Optional[int] = None,
                  category: Optional[str] = None, filters: Optional[Document] = None,
                  freshness: Optional[str] = None, max_staleness_ms: Optional[int] = None,
                  timeout: Optional[float] = None) -> Request[SearchResult]:
    """The same in up to 64 scopes at once: {"user_id": ..., "agent_name": ...} each."""
    return Request("search", _given(
        query=query, scopes=scopes, top_k=top_k, category=category, filters=filters, freshness=freshness,
        max_staleness_ms=max_staleness_ms), SearchResult, timeout)


def list_facts(*, user_id: Optional[str], agent_name: Optional[str] = None, category: Optional[str] = None,
               offset: Optional[int] = None, limit: Optional[int] = None, freshness: Optional[str] = None,
               max_staleness_ms: Optional[int] = None, timeout: Optional[float] = None) -> Request[FactList]:
    """The facts of a scope, sorted by id, and the files that cannot be served."""
    return Request("list_facts", _of(
        user_id, agent_name=agent_name, category=category, offset=offset, limit=limit, freshness=freshness,
        max_staleness_ms=max_staleness_ms), FactList, timeout)


def get_fact(fact_id: str, *, user_id: Optional[str], agent_name: Optional[str] = None,
             freshness: Optional[str] = None, max_staleness_ms: Optional[int] = None,
             timeout: Optional[float] = None) -> Request[OneFact]:
    """One fact. NotFoundError: there is none of that id."""
    return Request("get_fact", _of(
        user_id, fact_id=fact_id, agent_name=agent_name, freshness=freshness, max_staleness_ms=max_staleness_ms),
        OneFact, timeout)


def _memory(method: str, user_id: Optional[str], agent_name: Optional[str], freshness: Optional[str],
            max_staleness_ms: Optional[int], timeout: Optional[float]) -> Request[MemoryResult]:
    return Request(method, _of(user_id, agent_name=agent_name, freshness=freshness,
                               max_staleness_ms=max_staleness_ms), MemoryResult, timeout)


def get_memory(*, user_id: Optional[str], agent_name: Optional[str] = None, freshness: Optional[str] = None,
               max_staleness_ms: Optional[int] = None, timeout: Optional[float] = None) -> Request[MemoryResult]:
    """A memory whole: facts and summaries of one commit."""
    return _memory("get_memory", user_id, agent_name, freshness, max_staleness_ms, timeout)


def export_memory(*, user_id: Optional[str], agent_name: Optional[str] = None, freshness: Optional[str] = None,
                  max_staleness_ms: Optional[int] = None, timeout: Optional[float] = None) -> Request[MemoryResult]:
    """The same, by the name that import_memory() has a counterpart in."""
    return _memory("export_memory", user_id, agent_name, freshness, max_staleness_ms, timeout)


def reload_memory(*, user_id: Optional[str], agent_name: Optional[str] = None, freshness: Optional[str] = None,
                  max_staleness_ms: Optional[int] = None, timeout: Optional[float] = None) -> Request[MemoryResult]:
    """The same, after everything of the scope was read from the volume anew."""
    return _memory("reload_memory", user_id, agent_name, freshness, max_staleness_ms, timeout)


def get_summaries(*, user_id: Optional[str], agent_name: Optional[str] = None, freshness: Optional[str] = None,
                  max_staleness_ms: Optional[int] = None, timeout: Optional[float] = None) -> Request[Summaries]:
    """A user's summaries."""
    return Request("get_summaries", _of(user_id, agent_name=agent_name, freshness=freshness,
                                        max_staleness_ms=max_staleness_ms), Summaries, timeout)


def refresh(*, user_id: Optional[str], agent_name: Optional[str] = None, full: bool = False, wait: bool = True,
            timeout: Optional[float] = None) -> Request[Refreshed]:
    """Brings the index of a scope in step with the volume; `full` reads files again that look unchanged."""
    return Request("refresh", _of(user_id, agent_name=agent_name, full=full, wait=wait), Refreshed, timeout)


def refresh_all(*, accept_volume: bool = False, timeout: Optional[float] = None) -> Request[Refreshed]:
    """Asks for a compare of every user. `accept_volume`: another volume than before is at the path, on purpose."""
    return Request("refresh", {"all": True, "accept_volume": accept_volume}, Refreshed, timeout)


def verify(*, user_id: Optional[str], agent_name: Optional[str] = None,
           timeout: Optional[float] = None) -> Request[Verified]:
    """Compares index and volume, fact by fact, and changes nothing."""
    return Request("verify", _of(user_id, agent_name=agent_name), Verified, timeout)


# ---- writing ----


def _created(method: str, content: str, user_id: Optional[str], timeout: Optional[float],
             params: Dict[str, Any]) -> Request[Created]:
    return Request(method, _of(user_id, content=content, **params), Created, timeout)


def create_fact(content: str, *, user_id: Optional[str], agent_name: Optional[str] = None,
                category: Optional[str] = None, confidence: Optional[float] = None,
                topics: Optional[Sequence[str]] = None, source: Union[str, Document, None] = None,
                source_error: Optional[str] = None, memory: Optional[bool] = None,
                timeout: Optional[float] = None) -> Request[Created]:
    """Stores a new fact. ConflictError with the reason "duplicate_fact": the scope has that content already."""
    return _created("create_fact", content, user_id, timeout, dict(
        agent_name=agent_name, category=category, confidence=confidence, topics=topics, source=source,
        source_error=source_error, memory=memory))


def remember_memory(content: str, *, user_id: Optional[str], agent_name: Optional[str] = None,
                    category: Optional[str] = None, confidence: Optional[float] = None,
                    topics: Optional[Sequence[str]] = None, source: Union[str, Document, None] = None,
                    source_error: Optional[str] = None, memory: Optional[bool] = None,
                    timeout: Optional[float] = None) -> Request[Created]:
    """The same as create_fact(), by its other name."""
    return _created("remember_memory", content, user_id, timeout, dict(
        agent_name=agent_name, category=category, confidence=confidence, topics=topics, source=source,
        source_error=source_error, memory=memory))


def update_fact(fact_id: str, *, user_id: Optional[str], agent_name: Optional[str] = None,
                content: Optional[str] = None, category: Optional[str] = None, confidence: Optional[float] = None,
                topics: Optional[Sequence[str]] = None, source_error: Optional[str] = None,
                expected_revision: Optional[int] = None, memory: Optional[bool] = None,
                timeout: Optional[float] = None) -> Request[Updated]:
    """Changes what is given; None stays as it is. `expected_revision` is the fact's."""
    return Request("update_fact", _of(
        user_id, fact_id=fact_id, agent_name=agent_name, content=content, category=category, confidence=confidence,
        topics=topics, source_error=source_error, expected_revision=expected_revision, memory=memory),
        Updated, timeout)


def delete_fact(fact_id: str, *, user_id: Optional[str], agent_name: Optional[str] = None,
                expected_revision: Optional[int] = None, memory: Optional[bool] = None,
                timeout: Optional[float] = None) -> Request[Deleted]:
    """Removes a fact. `expected_revision` is the fact's."""
    return Request("delete_fact", _of(user_id, fact_id=fact_id, agent_name=agent_name,
                                      expected_revision=expected_revision, memory=memory), Deleted, timeout)


def apply_changes(*, user_id: Optional[str], agent_name: Optional[str] = None,
                  upserts: Iterable[Union[Fact, Document]] = (), deletes: Iterable[str] = (),
                  summaries: Union[Memory, Document, None] = None, expected_revision: Optional[int] = None,
                  expected_fact_revisions: Optional[Mapping[str, Optional[int]]] = None,
                  allow_rebase: Optional[bool] = None, timeout: Optional[float] = None) -> Request[Applied]:
    """Several changes in one commit: all of them or none. `expected_revision` is the manifest's."""
    params = _of(user_id, agent_name=agent_name, summaries=summaries, expected_revision=expected_revision,
                 expected_fact_revisions=expected_fact_revisions, allow_rebase=allow_rebase)
    changed: List[Union[Fact, Document]] = list(upserts)
    removed: List[str] = list(deletes)
    if changed:
        params["upserts"] = changed
    if removed:
        params["deletes"] = removed
    return Request("apply_changes", params, Applied, timeout)


def update_summaries(summaries: Union[Memory, Document], *, user_id: Optional[str],
                     agent_name: Optional[str] = None, expected_revision: Optional[int] = None,
                     timeout: Optional[float] = None) -> Request[SummariesWritten]:
    """Replaces the sections that are named. `expected_revision` is the manifest's."""
    return Request("update_summaries", _of(
        user_id, summaries=summaries, agent_name=agent_name, expected_revision=expected_revision),
        SummariesWritten, timeout)


def clear_memory(*, user_id: Optional[str], agent_name: Optional[str] = None, all: Optional[bool] = None,
                 expected_revision: Optional[int] = None, timeout: Optional[float] = None) -> Request[Cleared]:
    """Removes an agent's facts, or with `all` every agent's and the summaries; one of the two must be said."""
    return Request("clear_memory", _of(user_id, agent_name=agent_name, all=all,
                                       expected_revision=expected_revision), Cleared, timeout)


def delete_memory(*, user_id: Optional[str], agent_name: Optional[str] = None, all: Optional[bool] = None,
                  expected_revision: Optional[int] = None, timeout: Optional[float] = None) -> Request[Cleared]:
    """The same, and what is kept of earlier layouts as well."""
    return Request("delete_memory", _of(user_id, agent_name=agent_name, all=all,
                                        expected_revision=expected_revision), Cleared, timeout)


def import_memory(memory_data: Union[Memory, Document], *, user_id: Optional[str],
                  agent_name: Optional[str] = None, expected_revision: Optional[int] = None,
                  dry_run: Optional[bool] = None, memory: Optional[bool] = None,
                  timeout: Optional[float] = None) -> Request[Imported]:
    """Makes the agent's facts those of a document; `dry_run` only tells what that would come to."""
    return Request("import_memory", _of(
        user_id, memory_data=memory_data, agent_name=agent_name, expected_revision=expected_revision,
        dry_run=dry_run, memory=memory), Imported, timeout)


def migrate(*, user_id: Optional[str], agent_name: Optional[str] = None,
            timeout: Optional[float] = None) -> Request[Migrated]:
    """Brings a memory of an earlier layout into the present one."""
    return Request("migrate", _of(user_id, agent_name=agent_name), Migrated, timeout)
