"""The newest replies of the simulations that run."""

from __future__ import annotations

from textual.widgets import Static

from engine.simulate.service.service import SimulationService
from screens.simulation import formatting

LISTEN_SECONDS = 0.4
"""Seconds between two reads of the replies."""


class LivePane(Static):
    """Shows the newest replies of the newest plays while it is visible."""

    def __init__(self, simulations: SimulationService, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._simulations = simulations
        self._drawn: object = None

    def on_mount(self) -> None:
        """Looks at the replies every `LISTEN_SECONDS`."""
        self.set_interval(LISTEN_SECONDS, self.listen)

    def listen(self) -> None:
        """Draws the replies where there are new ones, or the pane has another size."""
        size = self.content_size
        if not self.display or not size.height or not self.screen.is_active:
            return
        plays = self._simulations.live()
        drawn = [(play.key, play.replies) for play in plays], size
        if drawn != self._drawn:
            self._drawn = drawn
            self.update(formatting.live_content(plays, size.height, size.width))
