"""What is left of rebuilding an index when it is the agent's: to have files read again that were changed by hand."""

from __future__ import annotations

from collections import Counter
from typing import Any, Dict, Iterable, Iterator, List, Sequence, Tuple

from ..client import Client
from ..results import KnownScope, Refreshed
from .documents import facts_of
from .scopes import Key, Scope, key, of_facts

# Reading a scope anew takes long on a slow volume, and nobody waits for it but who asked for it.
TIMEOUT = 120.0
_PAGE = 1000
_Record = Tuple[Dict[str, Any], Scope, str]


def reread(client: Client, scopes: Iterable[Dict[str, Any]]) -> List[Refreshed]:
    """Has every file of these read."""
    return [client.refresh(full=True, timeout=TIMEOUT, **scope) for scope in scopes]


def known_scopes(client: Client) -> Iterator[KnownScope]:
    """All scopes that the agent knows."""
    offset = 0
    while True:
        page = client.all_scopes(offset=offset, limit=_PAGE).scopes
        yield from page
        offset += len(page)
        if len(page) < _PAGE:
            return


def reread_edited(client: Client, records: Sequence[_Record], scopes: Sequence[Scope]) -> None:
    """Has every file read of those scopes of which DeerFlow has read other facts than the index holds in step."""
    found: Dict[Key, Dict[str, Any]] = {}
    for fact, scope, _ in records:
        for each in of_facts([scope]):
            found.setdefault(key(**each), {})[fact["id"]] = fact
    for each in of_facts(scopes):
        held = facts_of(client.list_facts(timeout=TIMEOUT, **each).facts)
        if {fact["id"]: fact for fact in held} != found.get(key(**each), {}):
            reread(client, [each])


def reread_differing(client: Client, records: Sequence[_Record]) -> None:
    """Has every user compared, and every file read of those scopes in which DeerFlow has found another number of facts
    than the index holds in step: there somebody put or removed files by hand, which no revision tells."""
    client.refresh_all()
    counts: Counter[Key] = Counter(key(**each) for each in of_facts([scope for _, scope, _ in records]))
    reread(client, [{"user_id": known.user_id, "agent_name": known.agent_name} for known in known_scopes(client)
                    if known.state == "synced" and known.facts != counts[key(known.user_id, known.agent_name)]])
