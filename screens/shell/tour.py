"""The tour: a walk over the screens of the demo's project, one key at a time.

A step names the action of the key, so that the tour shows the key that is in force, and what the key shows. The tour
goes on when the key is pressed. All other keys work as always: whoever went elsewhere is shown the way back, by the key
of the nearest step before that works there. Escape leaves the tour.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from textual.app import RenderResult
from textual.content import Content
from textual.screen import Screen
from textual.widget import Widget

from screens.widgets.keyed import shown_key


class Step(NamedTuple):
    """One step.

    Attributes:
        action: Id of the binding whose key is to be pressed.
        shows: What the key shows, after "press KEY:".
    """

    action: str
    shows: str


TOUR = (
    Step("app.switch-mode-conversations", "the list of all conversations, with goal and score"),
    Step(
        "table.open",
        "the conversation under the cursor; the curve shows, after each turn, how likely the conversation is over",
    ),
    Step("reader.next", "the next conversation of the list"),
    Step("reader.close", "back to the list"),
    Step(
        "conversations.edit-filter",
        "a line for a filter, such as state:broken-off; tab completes it, enter takes it",
    ),
    Step(
        "app.switch-mode-triage",
        "triage: you say whether users got what they wanted, and the scores are checked against you",
    ),
    Step("triage.answer-yes", "your answer “yes” is stored, and the next one comes"),
    Step("triage.undo", "the verdict is taken back; so it is wherever something is decided"),
    Step(
        "app.switch-mode-goals",
        "what users wanted: groups of conversations, and how many of each ended",
    ),
    Step(
        "app.switch-mode-desk",
        "two groups that may be one goal, side by side: y merges them, n keeps them apart",
    ),
    Step(
        "app.switch-mode-trees",
        "response trees: all answers that a model may give, with their probabilities",
    ),
    Step("app.switch-mode-overview", "the overview: what is here, and what to do next"),
    Step("app.command-palette", "all commands by name; escape closes it"),
    Step("app.help", "the keys of the screen that you are on; that is the end of the tour"),
)
"""The steps, in order."""


def keys_of(screen: Screen[Any], action: str) -> list[str]:
    """Returns the keys that run an action now on a screen; empty where it does not work."""
    bindings = screen.active_bindings.items()
    return [key for key, each in bindings if each.enabled and each.binding.id == action]


class TourLine(Widget):
    """What the next key of the tour shows, above the footer of every screen."""

    DEFAULT_CSS = """
    TourLine { height: auto; padding: 0 1; background: $tone-tab-back; color: $tone-tab; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._step_index: int | None = 0

    def on_mount(self) -> None:
        """Follows the tour, and the keys that work now."""
        self.watch(self.app, "tour_at", self._show)
        self.screen.bindings_updated_signal.subscribe(
            self, lambda screen: self.refresh(layout=True)
        )

    def _show(self, step_index: int | None) -> None:
        """Shows a step by its index; None hides the line."""
        self._step_index = step_index
        self.display = step_index is not None
        self.refresh(layout=True)

    def render(self) -> RenderResult:
        """Returns the step, its key, and how to leave."""
        if self._step_index is None:
            return Content("")
        step = TOUR[self._step_index]
        key = next(iter(keys_of(self.screen, step.action)), None)
        parts: list[str | tuple[str, str]] = [
            (f"Tour {self._step_index + 1} of {len(TOUR)}  ", "bold")
        ]
        if key is not None:
            parts += ["press ", (f" {shown_key(key)} ", "bold reverse"), f": {step.shows}"]
        else:
            earlier_steps = reversed(TOUR[: self._step_index])
            back_key = next(
                (key for each in earlier_steps for key in keys_of(self.screen, each.action)), None
            )
            if back_key is None:
                # As in a line for a filter: there escape leaves the line, and the tour goes on.
                return Content.assemble(
                    *parts, "first leave this field: ", (" esc ", "bold reverse")
                )
            parts += [
                "the next key works elsewhere; ",
                (f" {shown_key(back_key)} ", "bold reverse"),
                " leads there",
            ]
        return Content.assemble(*parts, ("  (esc ends it)", "dim"))
