"""The network guard for the time of a test, in place of the real one, which could not be taken off this process
again.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from engine.base import network_guard

_on = False


def _hook(event: str, args: tuple[Any, ...]) -> None:
    if _on:
        network_guard._refuse_network(event, args)


sys.addaudithook(_hook)


@pytest.fixture(autouse=True)
def guarded(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Blocks every host that was not named, as in the program, and hides the developer's own hub settings."""
    global _on
    for name in ("HF_TOKEN", "HF_ENDPOINT", "HF_HUB_OFFLINE", network_guard.VARIABLE):
        monkeypatch.delenv(name, raising=False)
    _on = True
    yield
    _on = False
