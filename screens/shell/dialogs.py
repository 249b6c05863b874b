"""Dialogs with a typed answer: a line of text, a choice, several choices; and the one that shows an error."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from textual.app import ComposeResult
from textual.await_complete import AwaitComplete
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.dom import DOMNode
from textual.geometry import Offset
from textual.screen import ModalScreen, Screen
from textual.widget import Widget
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from engine.base.errors import WorkbenchError
from engine.base.text import display_safe, one_line
from screens.widgets.controls import Choices, LineInput, titled
from screens.widgets.keyed import Keyed
from screens.widgets.row_table import ItemTable

T = TypeVar("T")
"""What a dialog answers with, where it is not closed without an answer."""

MAX_MESSAGE_CHARACTERS = 4_000
"""Most characters that a dialog shows of an error; more than a screen holds."""


class IgnoresLateEvents:
    """Keeps late events from ending the program, as they do in Textual; to be listed before a screen class.

    A second key that closes the screen does nothing. Neither does a click on a widget that was just removed, such as a
    notice.
    """

    def dismiss(self, result: Any = None) -> AwaitComplete:
        """Closes the screen with a result, if it is still in front."""
        closed: AwaitComplete
        closed = super().dismiss(result) if self.is_active else AwaitComplete()  # type: ignore[misc, attr-defined]
        return closed

    def get_widget_and_offset_at(self, x: int, y: int) -> tuple[Widget | None, Offset | None]:
        """Returns the widget at a place as Textual does, but none that was removed.

        A removed widget is drawn until the next layout, but it has no parent to look up.
        """
        widget: Widget | None
        widget, offset = super().get_widget_and_offset_at(x, y)  # type: ignore[misc]
        return (widget, offset) if widget is None or widget.is_attached else (None, None)


class Dialog(Keyed, IgnoresLateEvents, ModalScreen[T | None], Generic[T]):
    """Base of the dialogs: a question with one answer. Closed without an answer, it is dismissed with None."""

    def show_error(self, error: WorkbenchError) -> None:
        """Shows an error in a dialog over this one."""
        self.app.push_screen(ErrorDialog(error))


def ask(node: DOMNode, dialog: Dialog[T], then: Callable[[T], object]) -> None:
    """Shows a dialog, and calls `then` with its answer, unless it is closed without one."""

    def on_answer(answer: T | None) -> None:
        if answer is not None:
            then(answer)

    node.app.push_screen(dialog, on_answer)


def confirm(
    node: DOMNode, title: str, act: Callable[[], object], *, yes: str, no: str = "keep it"
) -> None:
    """Asks a person, and calls `act` if the answer is `yes`; the answer `no`, which changes nothing, comes first."""
    choices = [(False, no), (True, yes)]
    ask(node, ChoiceDialog(title, choices), lambda is_sure: act() if is_sure else None)


def key_hints(*pairs: tuple[str, str]) -> Static:
    """Returns the last line of a dialog: keys and what they do."""
    parts: list[tuple[str, str]] = []
    for key, meaning in pairs:
        parts += [(key, "bold $tone-accent"), (f" {meaning}   ", "$tone-muted")]
    return Static(Content.assemble(*parts))


class TextDialog(Dialog[str]):
    """Asks for one line of text; returns None when it is closed without an answer."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "Leave")]

    def __init__(
        self, title: str, *, value: str = "", placeholder: str = "", help: Content | None = None
    ) -> None:
        """Makes a dialog for one line of text.

        Args:
            value: The text that is there at first; the first key replaces it.
            help: Stands below the line.
        """
        super().__init__()
        self._title, self._value, self._placeholder = title, value, placeholder
        self._help = help

    def compose(self) -> ComposeResult:
        """Yields the title, input, keys."""
        with titled(Vertical(classes="dialog"), one_line(self._title)):
            # The value may come from a file that another program wrote.
            value = display_safe(" ".join(self._value.split()))
            yield LineInput(value, placeholder=self._placeholder)
            if self._help is not None:
                yield Static(self._help)
            yield key_hints(("enter", "accepts"), ("escape", "cancels"))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter answers."""
        self.dismiss(event.value)


class ChoiceDialog(Dialog[T], Generic[T]):
    """Asks for one of several values; returns None when it is closed without a choice."""

    HINTS: ClassVar[tuple[tuple[str, str], ...]] = (("enter", "chooses"), ("escape", "cancels"))
    """Keys and what they do, in the last line."""
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "Leave")]

    def __init__(
        self, title: str, choices: Sequence[tuple[T, str | Content]], chosen: T | None = None
    ) -> None:
        """Makes a dialog with a list of values to choose one from.

        Args:
            choices: The values, each with how it is shown.
            chosen: The value that the cursor is on at first; None is the first one.
        """
        super().__init__()
        self._title, self._choices, self._chosen = title, choices, chosen

    def compose(self) -> ComposeResult:
        """Yields the title, list, keys."""
        with titled(Vertical(classes="dialog"), one_line(self._title)):
            prompts = [
                prompt if isinstance(prompt, Content) else Content(display_safe(prompt))
                for _, prompt in self._choices
            ]
            yield Choices(*[Option(prompt) for prompt in prompts], markup=False)
            yield key_hints(*self.HINTS)

    def on_mount(self) -> None:
        """Highlights the present value."""
        values = [value for value, _ in self._choices]
        if self._chosen in values:
            self.query_one(OptionList).highlighted = values.index(self._chosen)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Enter or a click answers."""
        value, _ = self._choices[event.option_index]
        self.dismiss(value)


def ask_order(
    screen: Screen[Any],
    choices: Sequence[tuple[T, str | Content]],
    now: T | None,
    sort: Callable[[T], None],
) -> None:
    """Asks for the column to sort a list by.

    Args:
        now: The column that the list is sorted by.
        sort: Sorts the list by a column; by the same one again, the other way round.
    """
    ask(screen, ChoiceDialog("Sort by (the same again reverses it)", choices, now), sort)


def ask_column(
    screen: Screen[Any], table: ItemTable[Any], show_items: Callable[[], object]
) -> None:
    """Asks for the column to sort a table of items by, and calls `show_items`, which lists them again."""

    def sort(key: str) -> None:
        table.sort_by(key)
        show_items()

    ask_order(screen, table.orders(), table.sort[0] if table.sort else None, sort)


def ask_which_first(
    screen: Screen[Any],
    orders: Mapping[T, tuple[str, str]],
    now: T,
    choose: Callable[[T], None],
) -> None:
    """Asks for the order of a queue.

    Args:
        orders: The name of each order, and what it is good for.
        now: The present order.
        choose: Called with the order that is chosen.
    """
    choices = [
        (order, Content.assemble(name, (f"  {reason}", "$tone-muted")))
        for order, (name, reason) in orders.items()
    ]
    ask(screen, ChoiceDialog("Which first", choices, now), choose)


class TicksDialog(Dialog[list[T]], Generic[T]):
    """Asks for any number of values; answers with the ticked ones in the order of the list."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Leave"),
        Binding("space", "tick", "Tick or untick"),
        # before the list, where enter would choose a single line
        Binding("enter", "done", "Take it", priority=True),
    ]

    def __init__(
        self, title: str, choices: Sequence[tuple[T, str]], ticked: Collection[T] = ()
    ) -> None:
        """Makes a dialog with a list of values to tick.

        Args:
            choices: The values, each with its name.
            ticked: The values that have a tick at first.
        """
        super().__init__()
        self._title, self._choices = title, choices
        self._ticked = set(ticked)

    def compose(self) -> ComposeResult:
        """Yields the title, list, keys."""
        with titled(Vertical(classes="dialog"), one_line(self._title)):
            yield Choices(
                *[Option(self._line(index)) for index in range(len(self._choices))], markup=False
            )
            yield key_hints(("space", "ticks"), ("enter", "accepts"), ("escape", "cancels"))

    def _line(self, index: int) -> Content:
        """Returns a value of the list with its tick."""
        value, name = self._choices[index]
        sign = "✓" if value in self._ticked else " "
        return Content.assemble((f"{sign} ", "bold $tone-accent"), display_safe(name))

    def action_tick(self) -> None:
        """Ticks the line under the cursor, or takes its tick away."""
        index = self.query_one(Choices).highlighted
        if index is not None:
            self._tick(index)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """A click ticks."""
        self._tick(event.option_index)

    def _tick(self, index: int) -> None:
        """Ticks a value by its index, or takes its tick away."""
        value, _ = self._choices[index]
        self._ticked.symmetric_difference_update((value,))
        self.query_one(Choices).replace_option_prompt_at_index(index, self._line(index))

    def action_done(self) -> None:
        """Answers with the values that are ticked."""
        self.dismiss([value for value, _ in self._choices if value in self._ticked])


class ErrorDialog(Dialog[None]):
    """Shows an error: what happened, and what to do."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,enter,q,space", "dismiss(None)", "Go on")
    ]

    def __init__(self, error: WorkbenchError, title: str = "That did not work") -> None:
        super().__init__()
        self._error, self._title = error, title

    def compose(self) -> ComposeResult:
        """Yields the title, message, hint, keys."""
        with titled(Vertical(classes="dialog error"), one_line(self._title)):
            yield Static(Content(display_safe(self._error.message[:MAX_MESSAGE_CHARACTERS])))
            if self._error.hint:
                yield Static(
                    Content.styled(
                        display_safe(self._error.hint[:MAX_MESSAGE_CHARACTERS]), "$tone-accent"
                    )
                )
            more = f"{self._error.code}: `workbench help {self._error.code}` says more"
            yield Static(Content.styled(more, "$tone-muted"))
            if log := getattr(self.app, "log_path", ""):
                yield Static(Content.styled(f"Log: {display_safe(log)}", "$tone-muted"))
            yield key_hints(("enter", "goes on"))
