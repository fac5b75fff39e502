"""The client for asyncio: many calls at once over one connection."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from typing import (TYPE_CHECKING, Any, AsyncIterator, Callable, Coroutine, Deque, Dict, List, Optional, Sequence, Set,
                    Tuple, TypeVar)

import zmq

from . import requests
from .endpoint import choose_endpoint
from .errors import BadReplyError, BusyError, ClosedError, MemsyncError, NoAgentError, UnsupportedError, agent_error
from .events import ALL_TOPICS, Stream
from .link import DONTWAIT, PROBE, PROBE_MAX, Link, is_readable
from .requests import Request
from .results import Event
from .wire import DEFAULT_TIMEOUT, Deadline, Message, Retry, broken, decode, result_of, unaccepted, unanswered

if TYPE_CHECKING:
    from typing_extensions import Concatenate, ParamSpec

    P = ParamSpec("P")
    Loop = asyncio.AbstractEventLoop
    Future = asyncio.Future

T = TypeVar("T")

# As many requests of one client may wait in the agent (ipc.queue_per_client).
IN_FLIGHT = 64
QUEUE_PER_REQUEST = 16


async def _wait(future: Future[None], left: Optional[float]) -> None:
    """Waits for a future that others may wait for as well, at most so many seconds."""
    await asyncio.wait((future,), timeout=None if left is None else max(0.0, left))


def _ring(bell: Future[None]) -> None:
    if not bell.done():
        bell.set_result(None)


class _Connection(Link):
    """A socket with several requests under way, told apart by their ids. Used in one event loop."""

    __slots__ = ("loop", "watched", "last_id", "pending", "abandoned", "suspicions", "up", "why", "waiting",
                 "is_retired")

    def __init__(self, endpoint: str, loop: Loop, in_flight: int) -> None:
        self.loop = loop
        self.watched: Tuple[int, ...] = ()
        super().__init__(endpoint, zmq.DEALER, queue=in_flight * QUEUE_PER_REQUEST)
        self.last_id = 0
        self.pending: Dict[int, Future[Any]] = {}
        self.abandoned: Set[int] = set()  # their answers may still come
        self.suspicions: List[Tuple[MemsyncError, Set[int]]] = []
        self.up: Future[None] = loop.create_future()  # done when it is up, or never will be
        self.why: Optional[str] = None  # there is nobody
        self.waiting: Deque[Future[None]] = deque()
        self.is_retired = False
        self.watched = self.descriptors()
        loop.add_reader(self.watched[0], self.take_messages)
        loop.add_reader(self.watched[1], self.look)
        self.look()
        loop.call_later(PROBE, self.probe, 2 * PROBE)

    def close(self) -> None:
        # A child's loop shares its descriptor with the parent's, so it must not be told.
        if not self.is_closed and self.pid == os.getpid() and not self.loop.is_closed():
            for descriptor in self.watched:
                self.loop.remove_reader(descriptor)
        super().close()

    def look(self) -> None:
        """Whether the connection came up or broke."""
        if self.is_closed:
            return
        self.read_events()
        if self.ups and (self.is_broken or self.ups > 1):
            self.take_messages()  # what came before the break
            self.end(lambda: broken(self.endpoint))
        elif self.ups:
            _ring(self.up)

    def probe(self, pause: float) -> None:
        """As long as it does not come up: whether there is somebody at all."""
        if self.is_closed or self.ups:
            return
        self.why = why = self.why_missing()
        if why is not None:
            self.end(lambda: NoAgentError(why or ""))
        elif self.ups:
            self.look()  # it came up just now
        else:
            self.loop.call_later(pause, self.probe, min(2 * pause, PROBE_MAX))

    def end(self, error: Callable[[], MemsyncError]) -> None:
        """Closes it; all calls that are under way end with errors of their own."""
        self.close()
        pending, self.pending = self.pending, {}
        for future in pending.values():
            if not future.done():
                future.set_exception(error())
        _ring(self.up)
        while self.waiting:
            _ring(self.waiting.popleft())

    # ---- requests ----

    def send(self, message: Message, deadline: Deadline) -> Optional[Tuple[int, Future[Any]]]:
        """Queues a request: its number, and what its answer goes to. None: the queue is full of given-up ones."""
        self.last_id += 1
        try:
            self.socket.send(message.encode(self.last_id, deadline), DONTWAIT)
        except zmq.Again:
            return None
        if is_readable(self.socket):  # sending may have taken the descriptor's signal
            self.loop.call_soon(self.take_messages)
        future: Future[Any] = self.loop.create_future()
        self.pending[self.last_id] = future
        return self.last_id, future

    def forget(self, number: int) -> None:
        """A call is over; it may have been given up."""
        if self.pending.pop(number, None) is not None:
            self.abandoned.add(number)
        if self.is_retired and not self.pending:
            self.close()
        self.free()

    def free(self) -> None:
        """There is place for one more."""
        while self.waiting:
            waiter = self.waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    async def place(self, deadline: Deadline) -> None:
        """Waits until there may be place for one more, in turn."""
        waiter: Future[None] = self.loop.create_future()
        self.waiting.append(waiter)
        try:
            await _wait(waiter, deadline.left())
        except asyncio.CancelledError:
            if waiter.done():
                self.free()
            raise
        finally:
            was_woken = waiter.done()
            waiter.cancel()
        if not was_woken:
            raise NoAgentError(f"other calls took all of the {deadline.told()}")

    # ---- answers ----

    def take_messages(self) -> None:
        """Reads until there is nothing: the descriptor tells of what comes after that."""
        while not self.is_closed:
            try:
                frame = self.read(DONTWAIT)
            except zmq.Again:
                return
            try:
                self._take(decode(frame, self.endpoint))
            except BadReplyError as error:
                message = error.message
                self.end(lambda: BadReplyError(message))
                return

    def _take(self, reply: Dict[str, Any]) -> None:
        number = reply["id"]
        if number is None and "error" in reply:
            self.suspicions.append((agent_error(reply["error"]), set(self.pending) | self.abandoned))
        elif type(number) is int:
            future = self._settle(number)
            if future is not None:
                try:
                    future.set_result(result_of(reply))
                except MemsyncError as error:
                    future.set_exception(error)
        if self.suspicions:
            self._convict()

    def _settle(self, number: int) -> Optional[Future[Any]]:
        """A request has its answer: who waits for it, if somebody does."""
        self.abandoned.discard(number)
        for _, suspects in self.suspicions:
            suspects.discard(number)
        future = self.pending.pop(number, None)
        return None if future is None or future.done() else future

    def _convict(self) -> None:
        """An error without an id is about a request that the agent could not read: that of those under way then which
        is the last one without an answer."""
        for error, suspects in self.suspicions:
            if len(suspects) == 1:
                future = self._settle(next(iter(suspects)))
                if future is not None:
                    future.set_exception(error)
                break
        else:
            self.suspicions = [each for each in self.suspicions if each[1]]
            return
        self._convict()


def _method(build: Callable[P, Request[T]]) -> Callable[Concatenate[AsyncClient, P], Coroutine[None, None, T]]:
    """A method of the client, of what builds its request."""
    async def method(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        request = build(*args, **kwargs)
        return request.read(await self._ask(request.method, request.params, request.timeout))
    requests.describe(method, build)
    return method


class AsyncClient:
    """A client of one agent, for asyncio.

        async with AsyncClient() as client:
            found = await client.search("green tea", user_id="u1")

    All calls share one connection; `in_flight` of them may be under way, others wait for their turn. It belongs to the
    event loop that it is used in first, and to another one after that was closed. A call that is cancelled is given
    up: like one that timed out, it may be carried out all the same. For everything else see Client.
    """

    def __init__(self, endpoint: Optional[str] = None, *, timeout: float = DEFAULT_TIMEOUT,
                 in_flight: int = IN_FLIGHT) -> None:
        self.endpoint = choose_endpoint(endpoint)
        self.timeout = Deadline(timeout).timeout
        if in_flight < 1:
            raise ValueError("at least one call must be allowed to be under way")
        self.in_flight = in_flight
        self._connection: Optional[_Connection] = None
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

    async def call(self, method: str, /, *, timeout: Optional[float] = None, **params: Any) -> Any:
        """Any method by its name, with the parameters of docs/protocol.md; the result as it was decoded."""
        return await self._ask(method, params, timeout)

    def events(self, prefix: str = ALL_TOPICS, *, timeout: Optional[float] = None) -> AsyncSubscription:
        """A subscription to what the agent tells about changes, for `async with` and `async for`. `prefix`: all,
        topic() for one scope, user_topics() for one user."""
        return AsyncSubscription(self, prefix, timeout=self.timeout if timeout is None else timeout)

    async def close(self) -> None:
        """Closes the connection; calls that are under way end with ClosedError."""
        self._is_closed = True
        connection, self._connection = self._connection, None
        if connection is not None and connection.pid == os.getpid():
            connection.end(lambda: ClosedError("the client was closed"))

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # ---- calls ----

    async def _ask(self, method: str, params: Dict[str, Any], timeout: Optional[float]) -> Any:
        deadline = Deadline(self.timeout if timeout is None else timeout)
        message = Message(method, params)
        try:
            return await self._attempt(message, deadline)
        except (NoAgentError, BusyError) as error:
            retry = Retry(method, deadline)
            pause = retry.pause(error)
        while True:
            await asyncio.sleep(pause)
            try:
                return await self._attempt(message, deadline)
            except (NoAgentError, BusyError) as error:
                pause = retry.pause(error)

    async def _attempt(self, message: Message, deadline: Deadline) -> Any:
        connection = await self._take(deadline)
        sent = connection.send(message, deadline)
        while sent is None:
            self._retire(connection)
            connection = await self._take(deadline)
            sent = connection.send(message, deadline)
        number, future = sent
        timer = connection.loop.call_later(max(0.0, deadline.left()), self._expire, future, deadline)
        try:
            return await future
        finally:
            timer.cancel()
            connection.forget(number)

    def _expire(self, future: Future[Any], deadline: Deadline) -> None:
        if not future.done():
            future.set_exception(unanswered(self.endpoint, deadline))

    # ---- the connection ----

    async def _take(self, deadline: Deadline) -> _Connection:
        """A connection that is up and has place for one more."""
        while True:
            connection = await self._connected(deadline)
            if len(connection.pending) < self.in_flight:
                return connection
            await connection.place(deadline)

    async def _connected(self, deadline: Deadline) -> _Connection:
        while True:
            connection = self._own()
            connection.look()
            if connection.up.done() and not connection.is_closed:
                return connection
            await _wait(connection.up, deadline.left())
            if connection.why is not None:
                raise NoAgentError(connection.why)
            if not connection.up.done():
                raise unaccepted(self.endpoint, deadline)

    def _own(self) -> _Connection:
        """The connection of this process and loop, a new one where there is none."""
        if self._is_closed:
            raise ClosedError("the client is closed")
        loop = asyncio.get_running_loop()
        connection = self._connection
        if connection is not None and not connection.is_closed:
            is_inherited = connection.pid != os.getpid()
            if connection.loop is loop and not is_inherited:
                return connection
            if not is_inherited and not connection.loop.is_closed():
                raise RuntimeError("this client belongs to another event loop, which is not closed")
            connection.close()
        self._connection = connection = _Connection(self.endpoint, loop, self.in_flight)
        return connection

    def _retire(self, connection: _Connection) -> None:
        """Its queue is full: those who wait for answers keep it, the next ones get another."""
        if self._connection is connection:
            self._connection = None
        connection.is_retired = True
        if not connection.pending:
            connection.close()


class AsyncSubscription:
    """Events, one after another, as Subscription for threads.

        async with client.events(topic("u1")) as events:
            async for event in events:
                print(event.event, event.user_id, event.revision)

    It connects when it is entered, or with the first event that is asked for. Used by one task at a time; close() may
    come from another one, and ends the wait of the first.
    """

    def __init__(self, client: AsyncClient, prefix: str, *, timeout: float = DEFAULT_TIMEOUT) -> None:
        self._client = client
        self._prefix = prefix
        self._timeout = timeout
        self._stream: Optional[Stream] = None
        self._link: Optional[Link] = None
        self._bell: Optional[Future[None]] = None
        self._is_closed = False

    async def open(self) -> None:
        """Connects, unless it is connected. Events from the return on arrive, but for those of its first instant."""
        await self._opened()

    async def _opened(self) -> Tuple[Stream, Link]:
        if self._is_closed:
            raise ClosedError("the subscription is closed")
        if self._stream is not None and self._link is not None:
            return self._stream, self._link
        deadline = Deadline(self._timeout)
        endpoint = (await self._client.ping(timeout=self._timeout)).events
        if not endpoint:
            raise UnsupportedError("the agent publishes no events (ipc.events)")
        stream = Stream(endpoint, self._prefix)
        link = stream.connect()
        try:
            await self._wait_up(link, deadline)
        except BaseException:
            link.close()
            raise
        self._stream, self._link = stream, link
        return stream, link

    async def _wait_up(self, link: Link, deadline: Deadline) -> None:
        pause = PROBE
        while not link.ups:
            left = deadline.left()
            await self._wait(link.descriptors()[1:], min(left, pause))
            why = link.why_missing()
            if why is not None:
                raise NoAgentError(why)
            if left <= 0 and not link.ups:
                raise unaccepted(link.endpoint, deadline)
            pause = min(2 * pause, PROBE_MAX)

    async def _wait(self, descriptors: Sequence[int], left: Optional[float]) -> None:
        """Until one of them is readable, or it is closed. They are watched only now: nobody else would read what
        makes them so."""
        loop = asyncio.get_running_loop()
        bell: Future[None] = loop.create_future()
        self._bell = bell
        for descriptor in descriptors:
            loop.add_reader(descriptor, _ring, bell)
        try:
            await _wait(bell, left)
        finally:
            self._bell = None
            for descriptor in descriptors:
                loop.remove_reader(descriptor)

    async def next(self, timeout: Optional[float] = None) -> Optional[Event]:
        """The next event. None: none came within so many seconds (without a number it waits for ever)."""
        stream, link = await self._opened()
        deadline = None if timeout is None else Deadline(max(timeout, 1e-9))
        try:
            while not self._is_closed:
                event = stream.take(link)
                if event is not None:
                    return event
                left = None if deadline is None else deadline.left()
                if left is not None and left <= 0:
                    return None
                await self._wait(link.descriptors(), left)
        finally:
            if self._is_closed:
                link.close()
        raise ClosedError("the subscription was closed")

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        """Ends when it is closed."""
        try:
            event = await self.next()
        except ClosedError:
            raise StopAsyncIteration from None
        assert event is not None
        return event

    async def close(self) -> None:
        """Ends it, and a wait of another task."""
        self._is_closed = True
        if self._bell is not None:
            _ring(self._bell)
        elif self._link is not None:
            self._link.close()

    async def __aenter__(self) -> AsyncSubscription:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
