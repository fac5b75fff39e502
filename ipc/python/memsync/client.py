"""The client for threads: each call waits for its answer."""

from __future__ import annotations

import os
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Callable, Deque, Dict, List, Optional, TypeVar

import zmq

from . import requests
from .endpoint import choose_endpoint
from .errors import BadReplyError, BusyError, ClosedError, MemsyncError, NoAgentError, UnsupportedError
from .events import ALL_TOPICS, Subscription
from .link import DONTWAIT, Link
from .requests import Request
from .wire import DEFAULT_TIMEOUT, Deadline, Message, Retry, broken, decode, result_of, unanswered

if TYPE_CHECKING:
    from typing_extensions import Concatenate, ParamSpec

    P = ParamSpec("P")

T = TypeVar("T")

# Nearly all answers come sooner, and until then the monitor need not be asked.
_SOON_MS = 20
_SOON = _SOON_MS / 1000
# Connections beyond these, of threads that have called at once, are closed when they have their answers.
IDLE_MAX = 16


class _Connection(Link):
    """A socket for one request at a time."""

    __slots__ = ("poller", "last_id", "unanswered")

    def __init__(self, endpoint: str) -> None:
        super().__init__(endpoint, zmq.DEALER)
        self.socket.setsockopt(zmq.RCVTIMEO, _SOON_MS)
        self.poller = zmq.Poller()
        self.poller.register(self.socket, zmq.POLLIN)
        self.poller.register(self.monitor, zmq.POLLIN)
        self.last_id = 0
        self.unanswered = 0  # earlier requests whose answers may still come

    def is_sound(self) -> bool:
        """It is up, and always was. One that libzmq has made anew may send what its caller gave up."""
        self.read_events()
        return self.ups == 1 and not self.is_broken and not self.is_closed

    def send(self, message: Message, deadline: Deadline) -> bool:
        """Queues a request. False: the queue is full, of requests that nobody waits for any more."""
        self.last_id += 1
        try:
            self.socket.send(message.encode(self.last_id, deadline), DONTWAIT)
        except zmq.Again:
            return False
        return True

    def result(self, deadline: Deadline) -> Any:
        """Waits for the answer to what was sent last."""
        while True:
            frame = self._receive(deadline)
            if frame is None:
                self.unanswered += 1
                raise unanswered(self.endpoint, deadline)
            reply = decode(frame, self.endpoint)
            reply_id = reply["id"]
            # An error without an id is about a request that the agent could not read: ours, if no other is under way.
            if reply_id == self.last_id or (reply_id is None and "error" in reply and not self.unanswered):
                return result_of(reply)
            if self.unanswered:
                self.unanswered -= 1

    def _receive(self, deadline: Deadline) -> Optional[bytes]:
        """The next message; None: none came in time."""
        if deadline.left() > _SOON:
            try:
                return self.read(0)
            except zmq.Again:
                pass
        while True:
            left = deadline.left_ms()
            self.poller.poll(left)
            is_sound = self.is_sound()  # asked first: what came before a break is read before it is told
            try:
                return self.read(DONTWAIT)
            except zmq.Again:
                pass
            if not is_sound:
                self.close()
                raise broken(self.endpoint)
            if left == 0:
                return None


def _method(build: Callable[P, Request[T]]) -> Callable[Concatenate[Client, P], T]:
    """A method of the client, of what builds its request."""
    def method(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> T:
        request = build(*args, **kwargs)
        return request.read(self._ask(request.method, request.params, request.timeout))
    requests.describe(method, build)
    return method


class Client:
    """A client of one agent.

        with Client() as client:
            for hit in client.search("green tea", user_id="u1").hits:
                print(hit.score, hit.fact.content)

    It may be used by any number of threads, and by child processes after a fork: a connection serves one request at
    a time and is kept for the next one, of whatever thread, and a child makes its own. Nothing is connected before
    the first call. After a restart of the agent it connects anew.

    `endpoint` None: $MEMSYNC_ENDPOINT where it is set and not empty, else ipc:///run/memsync/memsyncd.sock.
    `timeout`, in seconds, is that of calls that name none, and bounds everything that a call does.
    """

    def __init__(self, endpoint: Optional[str] = None, *, timeout: float = DEFAULT_TIMEOUT) -> None:
        self.endpoint = choose_endpoint(endpoint)
        self.timeout = Deadline(timeout).timeout
        # Appending and popping need no lock, which a fork could catch held. The last one in is the first one out.
        self._idle: Deque[_Connection] = deque()
        self._is_closed = False

    ping = _method(requests.ping)
    capabilities = _method(requests.capabilities)
    status = _method(requests.status)
    scopes = _method(requests.scopes)
    all_scopes = _method(requests.all_scopes)
    search = _method(requests.search)
    search_scopes = _method(requests.search_scopes)
    list_facts = _method(requests.list_facts)
    get_fact = _method(requests.get_fact)
    get_memory = _method(requests.get_memory)
    export_memory = _method(requests.export_memory)
    reload_memory = _method(requests.reload_memory)
    get_summaries = _method(requests.get_summaries)
    refresh = _method(requests.refresh)
    refresh_all = _method(requests.refresh_all)
    verify = _method(requests.verify)
    create_fact = _method(requests.create_fact)
    remember_memory = _method(requests.remember_memory)
    update_fact = _method(requests.update_fact)
    delete_fact = _method(requests.delete_fact)
    apply_changes = _method(requests.apply_changes)
    update_summaries = _method(requests.update_summaries)
    clear_memory = _method(requests.clear_memory)
    delete_memory = _method(requests.delete_memory)
    import_memory = _method(requests.import_memory)
    migrate = _method(requests.migrate)

    def call(self, method: str, /, *, timeout: Optional[float] = None, **params: Any) -> Any:
        """Any method by its name, with the parameters of docs/protocol.md; the result as it was decoded."""
        return self._ask(method, params, timeout)

    def events(self, prefix: str = ALL_TOPICS, *, timeout: Optional[float] = None) -> Subscription:
        """Subscribes to what the agent tells about changes. Events from the return on arrive, but for those of its
        first instant. `prefix`: all, topic() for one scope, user_topics() for one user."""
        endpoint = self.ping(timeout=timeout).events
        if not endpoint:
            raise UnsupportedError("the agent publishes no events (ipc.events)")
        return Subscription(endpoint, prefix, timeout=self.timeout if timeout is None else timeout)

    def close(self) -> None:
        """Closes what is connected. Calls that are under way in other threads end as they would have."""
        self._is_closed = True
        self._drop_idle()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- calls ----

    def _ask(self, method: str, params: Dict[str, Any], timeout: Optional[float]) -> Any:
        deadline = Deadline(self.timeout if timeout is None else timeout)
        message = Message(method, params)
        try:
            return self._attempt(message, deadline)
        except (NoAgentError, BusyError) as error:
            retry = Retry(method, deadline)
            pause = retry.pause(error)
        while True:
            time.sleep(pause)
            try:
                return self._attempt(message, deadline)
            except (NoAgentError, BusyError) as error:
                pause = retry.pause(error)

    def _attempt(self, message: Message, deadline: Deadline) -> Any:
        connection = self._take(deadline)
        try:
            if not connection.send(message, deadline):
                connection.close()
                connection = self._connect(deadline)
                connection.send(message, deadline)
            result = connection.result(deadline)
        except BaseException as error:
            # After a signal's, for one, it cannot be told what was read.
            if isinstance(error, BadReplyError) or not isinstance(error, MemsyncError):
                connection.close()
            self._give_back(connection)
            raise
        self._give_back(connection)
        return result

    # ---- connections ----

    def _take(self, deadline: Deadline) -> _Connection:
        """A connection that is up and that nobody else uses."""
        if self._is_closed:
            raise ClosedError("the client is closed")
        pid = os.getpid()
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return self._connect(deadline)
            if connection.pid == pid and connection.is_sound():
                return connection
            connection.close()

    def _connect(self, deadline: Deadline) -> _Connection:
        connection = _Connection(self.endpoint)
        try:
            connection.wait_up(deadline)
        except BaseException:
            connection.close()
            raise
        return connection

    def _give_back(self, connection: _Connection) -> None:
        if connection.is_closed or len(self._idle) >= IDLE_MAX:
            connection.close()
            return
        self._idle.append(connection)
        if self._is_closed:  # by another thread, meanwhile
            self._drop_idle()

    def _drop_idle(self) -> None:
        dropped: List[_Connection] = []
        while True:
            try:
                dropped.append(self._idle.pop())
            except IndexError:
                break
        for connection in dropped:
            connection.close()
