"""Whether anything may be reached, in memory."""

from __future__ import annotations

from engine.errors import ProjectReadOnly


class FakeNetwork:
    """The port `Network` as plain attributes."""

    def __init__(self) -> None:
        self.own = False
        self.on: list[str] = []
        self.read_only: str | None = None

    def stays_offline(self) -> bool:
        return self.own

    def others(self) -> list[str]:
        return self.on

    def stay_offline(self, on: bool) -> None:
        if self.read_only is not None:
            raise ProjectReadOnly(self.read_only)
        self.own = on
