"""Which endpoints can be used, and whether somebody listens there."""

from __future__ import annotations

import errno
import grp
import os
import re
import socket
import stat
from typing import Any, Optional

from .errors import BadEndpointError

DEFAULT_ENDPOINT = "ipc:///run/memsync/memsyncd.sock"
PATH_BYTES_MAX = 107  # what fits into sockaddr_un beside the NUL


def choose_endpoint(endpoint: Optional[str]) -> str:
    """The one that is given, else $MEMSYNC_ENDPOINT where it is set and not empty, else the default."""
    chosen = endpoint if endpoint is not None else os.environ.get("MEMSYNC_ENDPOINT") or DEFAULT_ENDPOINT
    wrong = endpoint_error(chosen)
    if wrong:
        raise BadEndpointError(wrong)
    return chosen


def endpoint_error(endpoint: str) -> Optional[str]:
    """Why an endpoint cannot be used, or None when it can. Looks at the text only."""
    if not endpoint:
        return "the endpoint is empty"
    if any(character < " " or character == "\x7f" for character in endpoint):
        return "the endpoint has a control character in it"
    if endpoint.startswith("ipc://"):
        return _ipc_error(endpoint[6:])
    if endpoint.startswith("tcp://"):
        return _tcp_error(endpoint[6:])
    return f'unknown transport in "{endpoint[:60]}": an endpoint is ipc://PATH or tcp://HOST:PORT'


def _ipc_error(path: str) -> Optional[str]:
    size = len(os.fsencode(path))
    if path in ("", "@"):
        return "ipc:// needs the path of a socket"
    if path == "*":
        return "ipc://* can only be listened on"
    if size > PATH_BYTES_MAX:
        return f"the socket's path is too long: {size} bytes, the limit is {PATH_BYTES_MAX}"
    return None


def _tcp_error(address: str) -> Optional[str]:
    host, colon, port = address.rpartition(":")
    if not colon or not host:
        return "tcp:// needs HOST:PORT"
    if not re.fullmatch(r"[0-9]{1,5}", port) or not 1 <= int(port) <= 65535:
        return "tcp:// needs a port from 1 to 65535"
    # There is no encryption yet, so facts would cross the network in the clear.
    if host not in ("localhost", "[::1]") and not re.fullmatch(r"127\.[0-9.]{5,}", host):
        return "tcp:// works with loopback addresses only (127.0.0.1, [::1], localhost)"
    return None


def why_unserved(endpoint: str) -> Optional[str]:
    """A sentence for people: why nobody answers there. None: somebody listens, or that cannot be told."""
    path = endpoint[6:]
    if endpoint.startswith("ipc://"):
        name = os.fsencode(path)
        code = _try_connect(socket.AF_UNIX, b"\0" + name[1:] if path.startswith("@") else name)
        if code in (errno.EACCES, errno.EPERM):
            return _denial(endpoint, path)
        reason = _missing_reason(path) or _connect_reason(code)
    else:
        host, _, port = path.rpartition(":")
        kind, host = (socket.AF_INET6, host[1:-1]) if host.startswith("[") else (socket.AF_INET, host)
        code = _try_connect(kind, (host, int(port)))
        reason = "the connection was refused" if code == errno.ECONNREFUSED else None
    if reason is None:
        return None
    return f"no agent at {endpoint} ({reason}): is memsyncd running? (systemctl status memsyncd)"


def _try_connect(kind: socket.AddressFamily, address: Any) -> int:
    """The errno of a plain connect(), 0 when it worked or cannot be tried. All are of this machine, so none waits."""
    try:
        with socket.socket(kind, socket.SOCK_STREAM) as probe:
            probe.settimeout(0 if kind == socket.AF_UNIX else 1)
            return probe.connect_ex(address)
    except OSError:
        return 0


def _connect_reason(code: int) -> Optional[str]:
    if code == errno.ECONNREFUSED:
        return "the socket is dead"
    if code == errno.ENOENT:
        return "there is no socket"
    return None  # a full backlog (EAGAIN) included: somebody is there


def _missing_reason(path: str) -> Optional[str]:
    """Why a socket's path leads nowhere; None: a socket lies there, or that cannot be told."""
    if path.startswith("@"):
        return None
    try:
        mode = os.lstat(path).st_mode
    except PermissionError:
        return None
    except OSError:
        there = os.path.isdir(os.path.dirname(path) or ".")
        return "there is no socket" if there else "its directory does not exist"
    return None if stat.S_ISSOCK(mode) or stat.S_ISLNK(mode) else "that file is no socket"


def _denial(endpoint: str, path: str) -> str:
    """Permission was refused: whose group this user would have to be in. The directory is told of when it hides
    the socket."""
    hidden = False
    try:
        if path.startswith("@"):
            raise PermissionError
        try:
            gid = os.stat(path).st_gid
        except OSError:
            hidden = True
            gid = os.stat(os.path.dirname(path) or ".").st_gid
    except OSError:
        return f"{endpoint} may not be reached by this user (uid {os.geteuid()})"
    try:
        group = grp.getgrgid(gid).gr_name
    except KeyError:
        group = str(gid)
    what = f"the directory of {endpoint} may not be entered" if hidden \
        else f"the socket {endpoint} may not be opened"
    return f"{what} by this user (uid {os.geteuid()}): it belongs to group {group}"
