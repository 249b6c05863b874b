"""The guard of the program, on for the time of a test: the real one could never be taken off this process again."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from engine import network_guard

_on = False


def _hook(event: str, args: tuple[Any, ...]) -> None:
    if _on:
        network_guard._refuse_network(event, args)


sys.addaudithook(_hook)


@pytest.fixture(autouse=True)
def guarded(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As the program runs: nothing is reached that was not named; with nothing of the developer's own hub."""
    global _on
    for name in ("HF_TOKEN", "HF_ENDPOINT", "HF_HUB_OFFLINE", network_guard.VARIABLE):
        monkeypatch.delenv(name, raising=False)
    _on = True
    yield
    _on = False
