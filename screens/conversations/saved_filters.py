"""The filters that are saved under a name: save one, apply one, delete one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from engine.base.errors import FilterError
from engine.base.text import display_safe, one_line
from engine.conversations.filters import Filter, parse_filter
from engine.conversations.service import SavedViews
from screens.shell.dialogs import Dialog, TextDialog, hint_line
from screens.shell.workbench_screen import WorkbenchScreen
from screens.widgets.background import write_in_order
from screens.widgets.controls import Choices


class SavedFiltersDialog(Dialog[str | None]):
    """A dialog that returns the text of the chosen filter; None when it is closed without a choice."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Leave"),
        Binding("d", "delete", "Delete", tooltip="Delete this saved filter"),
    ]

    def __init__(
        self, saved: SavedViews, may_write: Callable[[], bool], filters: Mapping[str, str]
    ) -> None:
        """Lists `filters`, text by name; `may_write` is `WorkbenchScreen.may_write`."""
        super().__init__()
        self._saved, self._may_write = saved, may_write
        self._filters = dict(filters)

    def compose(self) -> ComposeResult:
        """Yields the list, or how to fill it, and the keys."""
        with Vertical(classes="dialog") as box:
            box.border_title = "Saved filters"
            yield Choices(markup=False)
            yield Static(id="none")
            yield Static(hint_line(("enter", "applies"), ("d", "deletes"), ("escape", "cancels")))

    def on_mount(self) -> None:
        """Fills the list."""
        self._fill(0)

    def _fill(self, at: int) -> None:
        """Shows the saved filters, with the cursor on the chosen one."""
        listed = self.query_one(Choices)
        listed.clear_options()
        listed.add_options(Option(_line(name, text)) for name, text in self._filters.items())
        listed.display = bool(self._filters)
        nothing = self.query_one("#none", Static)
        nothing.display = not self._filters
        nothing.update(Content("No filter is saved yet. In the list, w saves the one that is set."))
        if self._filters:
            listed.highlighted = min(at, len(self._filters) - 1)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Enter or a click applies."""
        self.dismiss(list(self._filters.values())[event.option_index])

    def action_delete(self) -> None:
        """Deletes the filter under the cursor."""
        position = self.query_one(Choices).highlighted
        if position is None or not self._may_write():
            return
        name = list(self._filters)[position]

        def on_delete(_: None) -> None:
            self._filters.pop(name, None)
            self._fill(position)

        write_in_order(self, lambda: self._saved.delete_filter(name), on_delete, self.show_error)


def _line(name: str, text: str) -> Content:
    return Content.assemble(
        (f"{one_line(name, 30):<20}", "bold"), ("  " + one_line(text, 120), "$tone-muted")
    )


def ask_filter_name(screen: WorkbenchScreen[Any], wanted: Filter) -> None:
    """Asks for a name and saves the filter under it."""
    text = str(wanted)
    if not text:
        screen.notify("There is no filter to save; f writes one.", markup=False)
        return
    if not screen.may_write():
        return

    def on_choice(name: str | None) -> None:
        name = one_line(name or "", 60)
        if name:
            write_in_order(
                screen,
                lambda: screen.services.saved.save_filter(name, text),
                lambda _: screen.notify(f"Saved as {name}; W lists it.", markup=False),
                screen.show_error,
            )

    screen.app.push_screen(TextDialog("Save this filter as", placeholder="a name"), on_choice)


def choose_filter(screen: WorkbenchScreen[Any]) -> None:
    """Shows the saved filters; the screen then lists the conversations that match the chosen one."""

    def on_choice(text: str | None) -> None:
        if text is None:
            return
        try:
            wanted = parse_filter(display_safe(text))
        except FilterError as error:
            screen.show_error(error)
        else:
            screen.filter_by(wanted)

    def show(filters: dict[str, str]) -> None:
        dialog = SavedFiltersDialog(screen.services.saved, screen.may_write, filters)
        screen.app.push_screen(dialog, on_choice)

    screen.in_background(screen.services.saved.filters, show, group="saved")
