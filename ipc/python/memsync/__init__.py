"""The Python client of memsyncd: searches, reads and writes agents' memories through the agent of this node.

    from memsync import Client

    with Client() as client:
        for hit in client.search("green tea", user_id="u1").hits:
            print(hit.score, hit.fact.content)

Methods, parameters and results: docs/protocol.md of memsyncd.
"""

from .aio import AsyncClient, AsyncSubscription
from .client import Client
from .endpoint import DEFAULT_ENDPOINT, endpoint_error
from .errors import (AgentError, BadEndpointError, BadReplyError, BusyError, ClosedError, ConflictError, CorruptError,
                     DeniedError, InternalError, InvalidParamsError, InvalidRequestError, MemsyncError, NoAgentError,
                     NoMethodError, NotFoundError, ParseError, ProtocolError, RequestTimeoutError, StorageFullError,
                     TooLargeError, UnavailableError, UnsupportedError)
from .events import ALL_TOPICS, DEFAULT_AGENT, RECONNECTED, Subscription, topic, user_topics
from .results import (Applied, BrokenFile, Capabilities, Cleared, Created, Deleted, Event, Fact, FactList, Hit,
                      Imported, KnownScope, Memory, MemoryResult, Migrated, OneFact, Pong, Refreshed, Result, Scope,
                      ScopeList, SearchResult, Status, Summaries, SummariesWritten, Updated, Verified, Written)
from .values import from_wire
from .wire import PROTOCOL

__all__ = [
    "ALL_TOPICS", "AgentError", "Applied", "AsyncClient", "AsyncSubscription", "BadEndpointError", "BadReplyError",
    "BrokenFile", "BusyError", "Capabilities", "Cleared", "Client", "ClosedError", "ConflictError", "CorruptError",
    "Created", "DEFAULT_AGENT", "DEFAULT_ENDPOINT", "Deleted", "DeniedError", "Event", "Fact", "FactList", "Hit",
    "Imported", "InternalError", "InvalidParamsError", "InvalidRequestError", "KnownScope", "Memory", "MemoryResult",
    "MemsyncError", "Migrated", "NoAgentError", "NoMethodError", "NotFoundError", "OneFact", "PROTOCOL", "ParseError",
    "Pong", "ProtocolError", "RECONNECTED", "Refreshed", "RequestTimeoutError", "Result", "Scope", "ScopeList",
    "SearchResult", "Status", "StorageFullError", "Subscription", "Summaries", "SummariesWritten", "TooLargeError",
    "UnavailableError", "UnsupportedError", "Updated", "Verified", "Written", "endpoint_error", "from_wire", "topic",
    "user_topics",
]
