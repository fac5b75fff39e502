"""Subscriptions to what the agent tells about changes."""

from __future__ import annotations

import json
import os
import threading
import urllib.parse
from typing import Any, Dict, Iterator, Optional, Tuple

import zmq

from .endpoint import endpoint_error
from .errors import BadEndpointError, BadReplyError, ClosedError
from .link import DONTWAIT, Link
from .results import Event
from .wire import DEFAULT_TIMEOUT, Deadline

ALL_TOPICS = "scope/"
DEFAULT_AGENT = "__default__"
RECONNECTED = "reconnected"


def user_topics(user_id: Optional[str]) -> str:
    """The prefix of the topics of all of a user's agents; None: of the scopes without a user."""
    return f"{ALL_TOPICS}{urllib.parse.quote(user_id or '', safe='')}/"


def topic(user_id: Optional[str], agent_name: Optional[str] = None) -> str:
    """The topic of a scope."""
    name = DEFAULT_AGENT if agent_name is None else agent_name
    lower = "".join(character.lower() if character.isascii() else character for character in name)
    return f"{user_topics(user_id)}{urllib.parse.quote(lower, safe='')}/"


class Stream:
    """What comes over one connection after another: events, and whether some may have been missed."""

    def __init__(self, endpoint: str, prefix: str) -> None:
        wrong = endpoint_error(endpoint)
        if wrong:
            raise BadEndpointError(wrong)
        self.endpoint = endpoint
        self.prefix = prefix
        self._ups = 1  # handshakes that were told
        self._seen: Dict[bytes, Tuple[Any, Any]] = {}

    def connect(self) -> Link:
        """A new connection, which is not up yet."""
        return Link(self.endpoint, zmq.SUB, self.prefix)

    def lost(self) -> None:
        """There will be another connection, so its first handshake is to be told."""
        self._ups = 0

    def take(self, link: Link) -> Optional[Event]:
        """The next event, if there is one now."""
        link.read_events()
        if link.ups > self._ups:
            self._ups = link.ups
            self._seen.clear()
            return Event({"event": RECONNECTED, "user_id": None, "agent_name": None}, missed=True)
        try:
            name, body = link.socket.recv_multipart(DONTWAIT)
            raw = json.loads(body)
            return self._read(name, raw)
        except zmq.Again:
            return None
        except (ValueError, KeyError, TypeError) as error:
            raise BadReplyError(f"what publishes at {self.endpoint} does not speak memsyncd's protocol: {error!r}") \
                from None

    def _read(self, name: bytes, raw: Dict[str, Any]) -> Event:
        """Events of one topic are counted; where the count jumps or begins anew, some may be missing."""
        epoch, number = raw["epoch"], raw["n"]
        last = self._seen.get(name)
        self._seen[name] = (epoch, number)
        return Event(raw, name.decode(), missed=last is not None and last != (epoch, number - 1))


class Subscription:
    """Events, one after another; it waits for each.

        with client.events(topic("u1")) as events:
            for event in events:
                print(event.event, event.user_id, event.revision)

    Events can be lost: `missed` tells of it. It goes on after a restart of the agent, with an event "reconnected" that
    says so. Used by one thread at a time; close() may come from another one, and ends the wait of the first. A child
    process that goes on with its parent's makes a connection of its own.
    """

    def __init__(self, endpoint: str, prefix: str = ALL_TOPICS, *, timeout: float = DEFAULT_TIMEOUT) -> None:
        self._is_closed = True
        self._stream = Stream(endpoint, prefix)
        self._link = self._stream.connect()
        self._link.wait_up(Deadline(timeout))
        self._lock = threading.Lock()
        self._wake = os.pipe()
        self._is_closed = False

    def next(self, timeout: Optional[float] = None) -> Optional[Event]:
        """The next event. None: none came within so many seconds (without a number it waits for ever)."""
        if self._is_closed:
            raise ClosedError("the subscription is closed")
        if self._link.pid != os.getpid():
            self._adopt()
        deadline = None if timeout is None else Deadline(max(timeout, 1e-9))
        try:
            with self._lock:
                return self._wait(deadline)
        finally:
            if self._is_closed:  # by another thread, meanwhile
                self._close_idle()

    def _wait(self, deadline: Optional[Deadline]) -> Optional[Event]:
        poller = zmq.Poller()
        for each in (self._link.socket, self._link.monitor, self._wake[0]):
            poller.register(each, zmq.POLLIN)
        while not self._is_closed:
            event = self._stream.take(self._link)
            if event is not None:
                return event
            left = None if deadline is None else deadline.left_ms()
            if left == 0:
                return None
            poller.poll(left)
        raise ClosedError("the subscription was closed")

    def _adopt(self) -> None:
        """In a child: the lock may have been held, and the connection and the pipe are the parent's."""
        self._lock = threading.Lock()
        for descriptor in self._wake:
            os.close(descriptor)
        self._wake = os.pipe()
        self._link.close()
        self._link = self._stream.connect()
        self._stream.lost()

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        """Ends when it is closed."""
        try:
            event = self.next()
        except ClosedError:
            raise StopIteration from None
        assert event is not None
        return event

    def close(self) -> None:
        """Ends it, and a wait in another thread."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._link.pid == os.getpid():
            os.write(self._wake[1], b"x")
        self._close_idle()

    def _close_idle(self) -> None:
        """Closes everything, unless a thread waits: then it does so itself."""
        is_mine = self._link.pid == os.getpid()
        if is_mine and not self._lock.acquire(blocking=False):
            return
        if not self._link.is_closed:
            self._link.close()
            for descriptor in self._wake:
                os.close(descriptor)
        if is_mine:
            self._lock.release()

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if not self._is_closed:
            self.close()
