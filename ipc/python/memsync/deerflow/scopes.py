"""Scopes as DeerFlow tells them, and as the agent takes them.

DeerFlow's {"userId": ..., "agentName": ...} may lack an agent. That is no bucket of facts but the summaries alone,
while memsyncd takes a missing name for the default bucket: a scope without an agent is never sent.
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, Mapping, Optional, Sequence, Tuple

Scope = Mapping[str, Optional[str]]
# By user and agent, whose case does not count.
Key = Tuple[Optional[str], str]


def _text(scope: Scope, name: str) -> Optional[str]:
    value = scope.get(name)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"a scope's {name} is text or null, not {value!r}")
    return value


def of_facts(scopes: Sequence[Scope]) -> Iterator[Dict[str, Any]]:
    """Those that can have facts, as parameters of a call."""
    for scope in scopes:
        user_id, agent_name = _text(scope, "userId"), _text(scope, "agentName")
        if agent_name is not None:
            yield {"user_id": user_id, "agent_name": agent_name}


def key(user_id: Optional[str], agent_name: str) -> Key:
    """By which a scope is told from others."""
    return user_id, agent_name.lower()
