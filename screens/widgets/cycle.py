"""A field with one of several values; the arrow keys go through them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import events
from textual.app import RenderResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from engine.base.text import one_line
from screens.widgets.keyed import Keyed


class Cycle(Keyed, Widget, can_focus=True):
    """Shows one of several values, `‹ boundary ›`; in focus it is bright."""

    PLACE = "cycle"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right,space", "step(1)", "Next value", show=False),
        Binding("left", "step(-1)", "Value before", show=False),
    ]
    DEFAULT_CSS = """
    Cycle { height: 1; width: 1fr; padding: 0 1; background: $panel; color: $tone-model; }
    Cycle:focus { background: $tone-cursor; color: $tone-bright; }
    """

    class Changed(Message):
        """Another value was chosen."""

    def __init__(self, values: Sequence[str], at: int = 0, *, id: str | None = None) -> None:
        """`values` are shown as given, in this order."""
        super().__init__(id=id)
        self._values, self._at = values, at

    @property
    def at(self) -> int:
        """Index of the chosen value."""
        return self._at

    def action_step(self, by: int) -> None:
        """Goes to another value; behind the last comes the first."""
        if len(self._values) > 1:
            self._at = (self._at + by) % len(self._values)
            self.refresh()
            self.post_message(self.Changed())

    def on_click(self, event: events.Click) -> None:
        """A click on the left end goes back, elsewhere on."""
        self.action_step(-1 if event.x < 3 else 1)

    def render(self) -> RenderResult:
        """The value between the signs of both directions."""
        value = one_line(self._values[self._at], 80) if self._values else ""
        place = f"   {self._at + 1} of {len(self._values)}" if len(self._values) > 1 else ""
        line = Content.assemble(
            ("‹ ", "$tone-accent"), value, (" ›", "$tone-accent"), (place, "$tone-muted")
        )
        return line.truncate(self.size.width, ellipsis=True)
