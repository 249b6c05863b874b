"""The run-time guard that keeps this process off the network.

What is covered: every connection, datagram and name look-up that goes through Python's sockets, in any thread and
any library, to anything but this machine itself and an endpoint that the user named, while it is asked (`reaching`). It
is an audit hook, which nothing in the process can take off.

What is not covered: native code with sockets of its own; child programs, which need `install` themselves (the model
process does that); a host name handed straight to `socket.connect`, which is looked up before the hook is asked, so
the look-up leaves the machine and only the connection is refused; while an endpoint with a host name is asked, other
machines on its port, for what its name stands for is known only after it was looked up.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from engine.errors import NetworkRefused

_SENDING = frozenset({"socket.connect", "socket.sendto", "socket.sendmsg"})
_ASKING = frozenset(
    {"socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr", "socket.getnameinfo"}
)
_installed = False
_named = threading.local()


def install() -> None:
    """Refuses the network to this process from now on; a second call changes nothing.

    Whatever tries raises NetworkRefused, which is no OSError, so that no library takes it for a bad connection.
    """
    global _installed
    if not _installed:
        _installed = True
        sys.addaudithook(_refuse_network)


@contextmanager
def reaching(host: str, port: int) -> Iterator[None]:
    """Lets this thread reach one endpoint that the user named, until the block ends; other threads stay refused.

    Args:
        host: Its name, which may be looked up, or its address.
        port: The port that may be connected to.
    """
    before = getattr(_named, "endpoint", None)
    _named.endpoint = (host.lower(), port)
    try:
        yield
    finally:
        _named.endpoint = before


def _refuse_network(event: str, args: tuple[Any, ...]) -> None:
    # Called for every file opened and module imported too, so what does not concern it leaves at once.
    if event in _SENDING:
        connection, address = args
        if (
            address is not None
            and not _is_local_socket(connection.family, address)
            and not (event == "socket.connect" and _is_named_address(connection.family, address))
        ):
            raise _refusal(address)
    elif event in _ASKING:
        host = args[0][0] if event == "socket.getnameinfo" else args[0]
        if host is not None and not _is_this_machine(host) and not _is_named_host(host):
            raise _refusal(host)


def _is_local_socket(family: int, address: Any) -> bool:
    import socket

    if family == socket.AF_UNIX:
        return True
    if family not in (socket.AF_INET, socket.AF_INET6):
        return False
    return _is_this_machine(address[0])


def _is_this_machine(host: str | bytes | bytearray) -> bool:
    import ipaddress

    name = host if isinstance(host, str) else host.decode("ascii", "replace")
    if name.lower() == "localhost":
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)


def _is_named_host(host: str | bytes | bytearray) -> bool:
    name = host if isinstance(host, str) else host.decode("ascii", "replace")
    endpoint = getattr(_named, "endpoint", None)
    return endpoint is not None and name.lower() == endpoint[0]


def _is_named_address(family: int, address: Any) -> bool:
    """Whether it may be that of the endpoint: its address where one was named, else any on its port."""
    import ipaddress
    import socket

    endpoint = getattr(_named, "endpoint", None)
    if endpoint is None or family not in (socket.AF_INET, socket.AF_INET6):
        return False
    if address[1] != endpoint[1]:
        return False
    try:
        named = ipaddress.ip_address(endpoint[0])
    except ValueError:
        return True
    return bool(ipaddress.ip_address(address[0]) == named)


def _refusal(target: object) -> NetworkRefused:
    return NetworkRefused(
        f"Something tried to reach {target!r} over the network, which this program does not use.",
        "Report it as a fault of the program.",
    )
