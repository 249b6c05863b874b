"""The dialogs of the watch: what to watch, and which signals are in force."""

from __future__ import annotations

import os
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, Static

from engine.results.watch.service import RulesInForce, WatchRequest
from engine.results.watch.signals import PRECISION
from screens.shell.dialogs.basic import Dialog, hint_line
from screens.shell.dialogs.importing import PathSuggester
from screens.watch.formatting import rules_lines
from screens.widgets.line_input import LineInput

IDLE = 10.0
"""Minutes without growth after which a conversation has ended, at first."""

HELP = "New conversations of these logs, and new turns of old ones, are imported, scored and listed as they come."


class WatchDialog(Dialog[tuple[str, WatchRequest] | None]):
    """Asks what to watch; answers with the path and the request. What cannot be understood stays, to be mended."""

    PLACE = "watch-dialog"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Leave"),
        Binding("down", "app.focus_next", "Next field", show=False),
        Binding("up", "app.focus_previous", "Field before", show=False),
    ]

    def __init__(self, path: str = "") -> None:
        super().__init__()
        self._path = path

    def compose(self) -> ComposeResult:
        """Three fields, what is wrong with them, keys."""
        with Vertical(classes="dialog") as box:
            box.border_title = Content("Watch logs as they grow")
            yield Static("File or folder", classes="field")
            yield LineInput(self._path, placeholder="logs/", suggester=PathSuggester(), id="path")
            yield Static(
                "A conversation has ended after so many minutes without growth", classes="field"
            )
            yield LineInput(f"{IDLE:g}", id="idle")
            yield Static("Least precision of a signal on past conversations", classes="field")
            yield LineInput(f"{PRECISION:g}", id="precision")
            yield Static(Content.styled(HELP, "$tone-muted"), id="problem")
            yield Static(
                hint_line(
                    ("enter", "starts"), ("↑↓", "field"), ("→", "completes"), ("escape", "cancels")
                )
            )

    def on_input_submitted(self) -> None:
        """Enter answers if every field can be understood."""
        path = self.query_one("#path", Input).value.strip()
        idle, precision = (
            _number(self.query_one(f"#{name}", Input).value) for name in ("idle", "precision")
        )
        if not path or not os.path.exists(os.path.expanduser(path)):
            self._refuse("There is no such file or folder. Make it first; it may be empty.")
        elif idle is None or idle <= 0:
            self._refuse("The minutes are a number above 0.")
        elif precision is None or not 0 < precision <= 1:
            self._refuse("The precision is a number above 0 and at most 1.")
        else:
            self.dismiss((path, WatchRequest(idle=60 * idle, precision=precision)))

    def _refuse(self, why: str) -> None:
        self.query_one("#problem", Static).update(Content.styled(why, "$tone-incomplete"))


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


class RulesDialog(Dialog[None]):
    """Shows the signals in force, and why the others are not."""

    PLACE = "watch-signals"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,enter,q,space", "dismiss(None)", "Go on")
    ]

    def __init__(self, rules: RulesInForce) -> None:
        super().__init__()
        self._rules = rules

    def compose(self) -> ComposeResult:
        """The rules, keys."""
        with Vertical(classes="dialog") as box:
            box.border_title = Content("Signals")
            yield Static(Content("\n".join(rules_lines(self._rules))))
            yield Static(hint_line(("enter", "goes on")))
