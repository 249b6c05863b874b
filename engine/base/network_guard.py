"""The run-time guard that keeps this process off the network.

What is covered: every connection, datagram and name look-up that goes through Python's sockets, in any thread and any
library. All are refused, those to this machine included, but for two: connections to, and look-ups of, an endpoint or a
hub that the user named, while it is asked (`reaching`) and no switch is on (`switch`); and what reaches nobody else, as
sockets in the file system, pairs of sockets, and look-ups of this machine's own names do. The guard is an audit hook,
which nothing in the process can take off.

What is not covered:

- native code with sockets of its own;
- child programs, which need `install` themselves (the model process and the trainer do that);
- a host name handed straight to `socket.connect`, which is looked up before the hook is asked, so that the look-up
  leaves the machine and only the connection is refused;
- being connected to, since nothing in the program listens.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

from engine.base.errors import NetworkRefused

log = logging.getLogger(__name__)

VARIABLE = "WORKBENCH_OFFLINE"
"""Environment variable that refuses even named endpoints and hubs, unless it is empty, 0, no, off or false."""

FLAG = "--offline"
"""Option of the command line that refuses the network. Then it is also the value of `VARIABLE`, so that children can
name the cause."""

SILENT = {
    "DO_NOT_TRACK": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_UPDATE_CHECK": "1",
    # Its downloads go through native sockets, which the guard cannot see.
    "HF_HUB_DISABLE_XET": "1",
}
"""Environment that keeps libraries from sending telemetry and looking for updates."""

LOCAL_ONLY = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
"""Environment that makes the libraries of a child read files only: only the program itself asks a hub."""

_OFF_VALUES = frozenset({"", "0", "no", "off", "false"})
"""Values of `VARIABLE`, in lower case, that refuse nothing."""

_SECRET_NAME = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL)S?$", re.IGNORECASE)
"""Matches the end of the name of a variable that holds a secret: `OPENAI_API_KEY`, `HF_TOKEN`."""

_SENDING_EVENTS = frozenset({"socket.connect", "socket.sendto", "socket.sendmsg"})
"""Audit events of a connection or a datagram."""

_LOOK_UP_EVENTS = frozenset(
    {"socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr", "socket.getnameinfo"}
)
"""Audit events of a look-up of a name or an address."""


class Endpoint(NamedTuple):
    """A host that may be reached (a lower-case name or an address) and its port."""

    host: str
    port: int


class Switch(NamedTuple):
    """Something that keeps the program offline.

    Attributes:
        name: As in "... is on".
        hint: How to turn it off, one sentence.
    """

    name: str
    hint: str


_BY_FLAG = Switch(f"`{FLAG}`", f"Run it again without `{FLAG}`.")
"""The switch that is on where the command line has the flag."""

_BY_VARIABLE = Switch(f"the variable {VARIABLE}", f"Unset {VARIABLE} and run it again.")
"""The switch that is on where the environment has the variable."""

_lock = threading.Lock()
"""Guards the variables of this module."""

_installed = False
"""Whether the hook is on; it cannot be taken off again."""

_records_addresses = False
"""Whether look-ups note the addresses of named hosts."""

_addresses: dict[str, set[str]] = {}
"""Addresses of each host name that was reached, as this process looked them up."""

_named: ContextVar[tuple[Endpoint, ...]] = ContextVar("named", default=())
"""The endpoints that may be reached now, by this thread or task."""


def install() -> None:
    """Refuses the network to this process from now on, and silences its libraries; a second call changes nothing.

    Whatever tries raises NetworkRefused, which is no OSError, so that no library takes it for a bad connection.
    """
    global _installed
    with _lock:
        if _installed:
            return
        _installed = True
    os.environ.update(SILENT)
    sys.addaudithook(_refuse_network)


def install_in_child() -> None:
    """Does what `install` does, and lets libraries that are imported from now on read files only."""
    os.environ.update(LOCAL_ONLY)
    install()


def is_installed() -> bool:
    """Returns whether the guard is on in this process."""
    return _installed


def off_by() -> Switch | None:
    """Returns the switch by which the network is off, so that nothing is reached; None while none is on."""
    value = os.environ.get(VARIABLE, "").strip().lower()
    if value in _OFF_VALUES:
        return None
    return _BY_FLAG if value == FLAG else _BY_VARIABLE


@contextmanager
def reaching(host: str, port: int) -> Iterator[None]:
    """Lets this thread reach one endpoint that the user named, until the block ends; other threads stay refused.

    Blocks may be nested, for a hub and where it sends a download. In code that awaits, the block holds
    for the task that opened it.

    Args:
        host: Its name, which may be looked up, or its address.
        port: The port that may be connected to.

    Raises:
        NetworkRefused: A switch is on.
    """
    if active := off_by():
        raise _switched_off(f"{host}:{port}", active)
    _record_addresses()
    before = _named.get()
    _named.set((*before, Endpoint(host.lower(), port)))
    try:
        yield
    finally:
        _named.set(before)


def child_environment() -> dict[str, str]:
    """Returns the environment for a child of this program, whose libraries send nothing and read files only.

    It is that of this process without variables that are named like secrets (key, token, ...).
    """
    harmless = {name: value for name, value in os.environ.items() if not _SECRET_NAME.search(name)}
    return harmless | SILENT | LOCAL_ONLY


def _refuse_network(event: str, args: tuple[Any, ...]) -> None:
    """Raises NetworkRefused for an audit event that would reach somebody who was not named."""
    # Called for every file opened and module imported too, so what does not concern it leaves at once.
    if event in _SENDING_EVENTS:
        connection, address = args
        if address is not None and not _may_send(event, connection.family, address):
            raise _refusal(address)
    elif event in _LOOK_UP_EVENTS:
        host, *_ = args
        if event == "socket.getnameinfo":
            host, *_ = host  # an address: host, port and more
        if host is not None and not _may_look_up(_text(host)):
            raise _refusal(host)


def _may_send(event: str, family: int, address: Any) -> bool:
    """Returns whether a connection or a datagram may go to an address."""
    import socket

    if family == socket.AF_UNIX:
        return True
    if family not in (socket.AF_INET, socket.AF_INET6) or event != "socket.connect" or off_by():
        return False
    name, port, *_ = address  # of IPv6 there is more
    host = _text(name)
    return any(
        port == endpoint.port
        and (_is_same_host(host, endpoint.host) or host in _addresses.get(endpoint.host, ()))
        for endpoint in _named.get()
    )


def _may_look_up(host: str) -> bool:
    """Returns whether a name may be looked up. Names of this machine are in a file, so nothing is sent for them."""
    if is_this_machine(host):
        return True
    return off_by() is None and any(_is_same_host(host, endpoint.host) for endpoint in _named.get())


def _is_same_host(host: str, other: str) -> bool:
    """Returns whether two names or addresses are the same, also where an address is written in another way."""
    import ipaddress

    if host.lower() == other:
        return True
    try:
        return ipaddress.ip_address(host) == ipaddress.ip_address(other)
    except ValueError:
        return False


def is_this_machine(host: str) -> bool:
    """Returns whether a name or address is that of this machine for itself."""
    import ipaddress

    if host.lower() == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)


def _record_addresses() -> None:
    """Records the addresses of named hosts from now on; only the answer of a look-up has them, no audit event."""
    import socket

    global _records_addresses
    with _lock:
        if _records_addresses:
            return
        _records_addresses = True
    look_up = socket.getaddrinfo

    def getaddrinfo(host: Any, *args: Any, **options: Any) -> Any:
        """Looks a host up, and notes its addresses if it may be reached now."""
        answers = look_up(host, *args, **options)
        name = _text(host).lower() if host is not None else ""
        if any(name == endpoint.host for endpoint in _named.get()):
            with _lock:
                earlier = _addresses.get(name, set())
                # each answer ends with an address, which begins with the host
                _addresses[name] = earlier | {str(address[0]) for *_, address in answers}
        return answers

    socket.getaddrinfo = getaddrinfo


def _text(host: str | bytes | bytearray) -> str:
    """Returns a host as text."""
    return host if isinstance(host, str) else host.decode("ascii", "replace")


def _refusal(target: object) -> NetworkRefused:
    """Returns the error for a target that is not reached, and logs it."""
    log.warning("refused to reach %r", target)
    if active := off_by():
        return _switched_off(repr(target), active)
    return NetworkRefused(
        f"Something tried to reach {target!r} over the network, which nobody asked for.",
        "Report it as a fault of the program.",
    )


def _switched_off(target: str, active: Switch) -> NetworkRefused:
    """Returns the error for a target that a switch keeps from being reached."""
    return NetworkRefused(f"{target} is not reached, because {active.name} is on.", active.hint)
