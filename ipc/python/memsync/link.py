"""One socket of libzmq, watched by its monitor.

libzmq reconnects silently and for ever. The monitor tells when the peer was there or went away; one that does not come
is asked for with a plain connect(), which tells why. An agent that is there is not.

libzmq's thread, which all sockets of the process share, waits when a monitor is full or is gone. So a monitor is
without a limit, is told of what is rare, and ends before the socket that reads it.
"""

from __future__ import annotations

import itertools
import os
import struct
from typing import Dict, List, Optional, Tuple, cast

import zmq

from .endpoint import why_unserved
from .errors import BadEndpointError, NoAgentError
from .wire import Deadline, unaccepted

MESSAGE_BYTES_MAX = 64 << 20
RECONNECT_MS = 50
RECONNECT_MS_MAX = 500
SEND_QUEUE = 64
PROBE = 0.01
PROBE_MAX = 1.0
SOCKETS_MAX = 16384

DONTWAIT = int(zmq.DONTWAIT)
_POLLIN = int(zmq.POLLIN)
_EVENTS = zmq.EVENTS
_RCVMORE = zmq.RCVMORE
_UP = int(zmq.EVENT_HANDSHAKE_SUCCEEDED)
_WATCHED = _UP | int(zmq.EVENT_DISCONNECTED)
_EVENT = struct.Struct("=H")

_contexts: Dict[int, "zmq.Context[zmq.Socket[bytes]]"] = {}
_numbers = itertools.count()
# Sockets of a parent process: libzmq's threads exist there only, so they are kept and never touched.
_inherited: List[Tuple["zmq.Socket[bytes]", "zmq.Socket[bytes]"]] = []


def _context() -> "zmq.Context[zmq.Socket[bytes]]":
    """This process's own. No lock: one that a fork caught held would stay so in the child."""
    pid = os.getpid()
    context = _contexts.get(pid)
    if context is None:
        fresh = zmq.Context()
        fresh.set(zmq.MAX_SOCKETS, SOCKETS_MAX)
        context = _contexts.setdefault(pid, fresh)
        if context is not fresh:
            fresh.term()
    return context


def is_readable(socket: "zmq.Socket[bytes]") -> bool:
    """Whether a message can be read at once."""
    return bool(cast(int, socket.get(_EVENTS)) & _POLLIN)


class Link:
    """A socket and its monitor. Used by one thread at a time, in the process that made it.

    `ups` counts handshakes; `is_broken`: what was there went away.
    """

    __slots__ = ("endpoint", "pid", "socket", "monitor", "ups", "is_broken", "is_closed", "__weakref__")

    def __init__(self, endpoint: str, kind: int, prefix: Optional[str] = None, queue: int = SEND_QUEUE) -> None:
        self.is_closed = True
        self.endpoint = endpoint
        self.pid = os.getpid()
        self.ups = 0
        self.is_broken = False
        context = _context()
        try:
            self.socket = context.socket(kind)
        except zmq.ZMQError as error:
            raise self._unopened(error) from None
        try:
            self.monitor = context.socket(zmq.PAIR)
        except zmq.ZMQError as error:
            self.socket.close()
            raise self._unopened(error) from None
        self.is_closed = False
        try:
            self._open(prefix, queue)
        except zmq.ZMQError as error:
            self.close()
            raise self._unopened(error) from None
        self.read_events()  # the descriptor tells only of what comes after a first look

    def _unopened(self, error: zmq.ZMQError) -> Exception:
        text = f"cannot open a connection to {self.endpoint}: {error}"
        return BadEndpointError(text) if error.errno == zmq.EINVAL else NoAgentError(text)

    def _open(self, prefix: Optional[str], queue: int) -> None:
        socket, monitor = self.socket, self.monitor
        for option, value in ((zmq.LINGER, 0), (zmq.SNDHWM, queue), (zmq.RECONNECT_IVL, RECONNECT_MS),
                              (zmq.RECONNECT_IVL_MAX, RECONNECT_MS_MAX), (zmq.MAXMSGSIZE, MESSAGE_BYTES_MAX),
                              (zmq.HANDSHAKE_IVL, 0),  # the deadline is the caller's
                              (zmq.IPV6, int("[" in self.endpoint))):
            socket.setsockopt(option, value)
        if prefix is not None:
            socket.setsockopt(zmq.SUBSCRIBE, prefix.encode())
        address = f"inproc://memsync-{next(_numbers)}"
        socket.monitor(address, _WATCHED)
        monitor.setsockopt(zmq.LINGER, 0)
        monitor.setsockopt(zmq.RCVHWM, 0)
        monitor.connect(address)
        socket.connect(self.endpoint)

    def close(self) -> None:
        """What was queued is dropped. Of another process's it forgets all."""
        if self.is_closed:
            return
        self.is_closed = True
        if self.pid == os.getpid():
            self.socket.disable_monitor()
            self.monitor.close()
            self.socket.close()
        else:
            _inherited.append((self.socket, self.monitor))

    def __del__(self) -> None:
        self.close()

    def read_events(self) -> None:
        """Takes what the monitor has told since the last time."""
        monitor = self.monitor
        while is_readable(monitor):
            event, = _EVENT.unpack_from(monitor.recv_multipart(DONTWAIT)[0])
            if event == _UP:
                self.ups += 1
                self.is_broken = False
            else:
                self.is_broken = True

    def why_missing(self) -> Optional[str]:
        """Why there is nobody. None: it is up, or somebody listens."""
        self.read_events()
        return None if self.ups else why_unserved(self.endpoint)

    def wait_up(self, deadline: Deadline) -> None:
        """Waits for the handshake, so that nothing is sent to an agent that is not there. Else NoAgentError, and it
        is closed."""
        pause = PROBE
        while not self.ups:
            left = deadline.left()
            self.monitor.poll(max(0, min(left, pause)) * 1000)
            why = self.why_missing()
            if why is not None or (left <= 0 and not self.ups):
                self.close()
                raise unaccepted(self.endpoint, deadline) if why is None else NoAgentError(why)
            pause = min(2 * pause, PROBE_MAX)

    def descriptors(self) -> Tuple[int, int]:
        """Of socket and monitor. They are readable when something has come since the last look, not as long as
        something is there."""
        return cast(int, self.socket.get(zmq.FD)), cast(int, self.monitor.get(zmq.FD))

    def read(self, flags: int) -> bytes:
        """The last frame of the next message. zmq.Again: there is none."""
        socket = self.socket
        frame = socket.recv(flags)
        while socket.get(_RCVMORE):  # a message arrives whole, so the rest is there
            frame = socket.recv(DONTWAIT)
        return frame
