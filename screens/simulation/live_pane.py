"""What is being said in simulations now, as it comes."""

from __future__ import annotations

from textual.widgets import Static

from engine.services.simulation.records import Simulations
from screens.simulation import formatting as words

LISTEN_SECONDS = 0.4
"""Between two looks at what is being said."""


class LivePane(Static):
    """The newest replies of the newest plays, looked at now and then while it is in sight."""

    def __init__(self, simulations: Simulations, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._simulations = simulations
        self._said: object = None

    def on_mount(self) -> None:
        """Begins to listen."""
        self.set_interval(LISTEN_SECONDS, self.listen)

    def listen(self) -> None:
        """Draws what is being said, if it is another than before, or has another room."""
        size = self.content_size
        if not self.display or not size.height or not self.screen.is_active:
            return
        plays = self._simulations.live()
        said = [(play.key, play.replies) for play in plays], size
        if said != self._said:
            self._said = said
            self.update(words.live_content(plays, size.height, size.width))
