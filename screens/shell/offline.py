"""Says whether the network may be used, why not, and what a change of the project's setting means."""

from __future__ import annotations

from engine.project.network import NetworkService

OWN = "this project's setting"


def reason_of(network: NetworkService) -> str | None:
    """Why no network connection is made, in one sentence; None where connections are allowed."""
    on = [*([OWN] if network.stays_offline() else []), *network.others()]
    return f"No network is used, by {' and '.join(on)}." if on else None


def offline_notice(network: NetworkService) -> str:
    """The notice after the project's setting was changed."""
    reason = reason_of(network)
    if reason is None:
        return "The network may be used, only for endpoints and hubs that you named, while you ask for them."
    if network.stays_offline():
        return "This project uses no network, not even for endpoints and hubs that you named."
    return f"This project's setting is off. {reason}"
