"""A form that describes a run, and shows what the run costs before it starts."""

from __future__ import annotations

from typing import ClassVar, Generic, TypeVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Input, Static

from engine.base.errors import WorkbenchError
from engine.base.text import display_safe, one_line
from screens.shell.dialogs.basic import Dialog, hint_line
from screens.shell.dialogs.run import refusal_content
from screens.widgets.background import background
from screens.widgets.cycle import Cycle

Request = TypeVar("Request")
Cost = TypeVar("Cost")

TYPING_REST = 0.25
"""Seconds without a key before the cost of a run is estimated."""

KEYS: list[BindingType] = [
    Binding("escape", "dismiss(None)", "Leave"),
    Binding("enter", "start", "Start", priority=True),
    Binding("down", "app.focus_next", "Next field", show=False),
    Binding("up", "app.focus_previous", "Field before", show=False),
]
"""Keys of each such dialog; each dialog lists them in its own `BINDINGS`, under its own name in the table of keys."""


class RunForm(Dialog[Request | None], Generic[Request, Cost]):
    """Asks what to run, one or two fields a line, and shows its cost, estimated again after each change."""

    ASKS: ClassVar[str]
    """The title."""
    FIRST: ClassVar[str]
    """The id of the field that has the focus at first."""
    VERTICAL_BREAKPOINTS = [(0, "-short"), (30, "-high")]  # noqa: RUF012 - Textual declares it

    def __init__(self) -> None:
        super().__init__()
        self._timer: Timer | None = None
        self._known: Request | None = None
        self._pressed = False

    # To be defined by a subclass

    def fields(self) -> ComposeResult:
        """Its lines."""
        raise NotImplementedError

    def show_lines(self) -> None:
        """Hides the lines that do not apply to what is chosen."""

    def request(self) -> Request:
        """The run that the fields describe; raises WorkbenchError where a field cannot be understood."""
        raise NotImplementedError

    def cost(self, request: Request) -> Cost:
        """Estimates the run; called in a thread. Raises WorkbenchError where it cannot be run."""
        raise NotImplementedError

    def cost_text(self, request: Request, cost: Cost) -> Content:
        """The estimate as text."""
        raise NotImplementedError

    def help_of(self, field: str) -> str:
        """Help text of a field, by its id."""
        raise NotImplementedError

    # Values of the fields

    def text(self, field: str) -> str:
        """What is written in a field."""
        return display_safe(self.query_one(f"#{field}", Input).value.strip())

    def at(self, field: str) -> int:
        """Which of its choices a field is at."""
        return self.query_one(f"#{field}", Cycle).at

    # Events

    def compose(self) -> ComposeResult:
        """Fields, help for the one in focus, cost, keys."""
        with Vertical(classes="dialog fields") as box:
            box.border_title = Content(self.ASKS)
            yield from self.fields()
            yield Static(id="help")
            yield Static(id="estimate")
            keys = (("↑↓", "field"), ("←→", "value"), ("enter", "starts"), ("escape", "cancels"))
            yield Static(hint_line(*keys))

    def on_mount(self) -> None:
        """Estimates the run that is proposed."""
        self.show_lines()
        self.query_one(f"#{self.FIRST}").focus()
        self._forget()
        self._estimate()

    def on_input_changed(self) -> None:
        """The text of a field changed: estimates again once no key was pressed for `TYPING_REST`."""
        self._forget()
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.set_timer(TYPING_REST, self._estimate)
        self._show_help()

    def on_cycle_changed(self) -> None:
        """A choice changed: estimates again."""
        self.show_lines()
        self._show_help()
        self._forget()
        self._estimate()

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """Explains the field in focus."""
        self._show_help()

    def action_start(self) -> None:
        """Answers with the request, as soon as its cost is known; a change in between cancels that."""
        if self._known is not None:
            self.dismiss(self._known)
        self._pressed = True

    def _forget(self) -> None:
        """Drops the estimate, which no longer fits the fields; nothing starts before the next one."""
        self._known, self._pressed = None, False
        self._show_estimate(Content.styled("estimating …", "$tone-muted"))

    def _estimate(self) -> None:
        try:
            request = self.request()
        except WorkbenchError as error:
            self._refuse(error)
            return
        background(
            self,
            lambda: self.cost(request),
            lambda cost: self._show_cost(request, cost),
            self._refuse,
            group="estimate",
        )

    def _refuse(self, error: WorkbenchError) -> None:
        self._pressed = False
        self._show_estimate(refusal_content(error))

    def _show_cost(self, request: Request, cost: Cost) -> None:
        self._known = request
        self._show_estimate(self.cost_text(request, cost))
        if self._pressed:
            self.dismiss(request)

    def _show_estimate(self, content: Content) -> None:
        self.query_one("#estimate", Static).update(content)

    def _show_help(self) -> None:
        at = self.focused.id if self.focused is not None else None
        help_text = one_line(self.help_of(at or ""), 400)
        self.query_one("#help", Static).update(Content.styled(help_text, "$tone-muted"))


def field_line(name: str, first: Widget, second: Widget | None = None, other: str = "") -> Widget:
    """A line of a dialog: a name and its field, and perhaps another pair beside it. Its id is that of the first field
    behind `field-`."""
    shown: list[Widget] = [_name(name), first]
    if second is not None:
        shown += [_name(other), second]
    return Horizontal(*shown, classes="field", id=f"field-{first.id}")


def _name(name: str) -> Static:
    return Static(Content.styled(f"{name:<13}", "$tone-muted"), classes="name")


def whole_number(name: str, text: str, least: int) -> int | None:
    """The number that is written in a field, None for nothing; raises WorkbenchError for anything else."""
    if not text:
        return None
    if not text.isdecimal() or int(text) < least:
        raise WorkbenchError(f"{name}: a whole number from {least} on, or nothing.")
    return int(text)
