"""The doctor's checks of the network: which hosts the program may reach, and which switches forbid it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from engine.base import network_guard
from engine.base.errors import WorkbenchError
from engine.base.text import one_line
from engine.model.http.endpoint_book import EndpointBook
from engine.model.hub.access import DEFAULT_HUB
from engine.project import settings
from engine.project.network import KEY
from engine.project.project import Project
from workbench.doctor import Check

SWITCHES = f"`{network_guard.FLAG}`, {network_guard.VARIABLE}=1 or `workbench offline PROJECT on` refuse these too"


def network_checks(data: Path, project: Path | None = None) -> Iterator[Check]:
    """Whether the guard is on, which hosts it allows while they are used, and which switches forbid them.

    Args:
        data: The folder with the list of endpoints.
        project: A project whose own setting counts too.
    """
    if network_guard.is_installed():
        yield Check("guard", "ok", "on, here and in the processes that are started from here")
    else:
        yield Check("guard", "bad", "off", "Start the program as `workbench`.")
    try:
        hosts = [_hub(), *_endpoints(data)]
    except (WorkbenchError, ValueError) as error:
        yield Check("network", "warn", f"the allowed hosts cannot be determined: {error}")
        return
    on = [switch.name for switch in network_guard.switches()]
    if project is not None and _stays_offline(project):
        on.append("this project's setting")
    if on:
        verb = "is" if len(on) == 1 else "are"
        found = f"no network is used: {' and '.join(on)} {verb} on; otherwise {', '.join(hosts)}"
    else:
        found = f"used only for {', '.join(hosts)}, while you ask for them; {SWITCHES}"
    yield Check("network", "ok", found)


def _hub() -> str:
    url = os.environ.get("HF_ENDPOINT", "").strip() or DEFAULT_HUB
    return f"{_host(url)} (the hub)"


def _endpoints(data: Path) -> list[str]:
    return [
        f"{_host(entry.url)} (endpoint {one_line(entry.name, 40)})"
        for entry in EndpointBook(data).entries()
    ]


def _host(url: str) -> str:
    parts = urlsplit(url)
    host = one_line(parts.hostname or "?", 80)
    return host if parts.port is None else f"{host}:{parts.port}"


def _stays_offline(path: Path) -> bool:
    """Whether the project's own setting is on; False for a file that cannot be read, which another check reports."""
    try:
        with Project.open(path, read_only=True) as project, project.reading() as conn:
            return bool(settings.get(conn, KEY, False))
    except WorkbenchError:
        return False
