"""The line in which a filter is written: it applies while typing, completes fields and values, and marks mistakes.

A completion goes on with what is typed at the cursor: the name of a field, or one of its values. A mistake is why a
text is no filter. Both are drawn in a box below the line, over what the screen shows there.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from typing import ClassVar

from rich.cells import cell_len
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from engine.base.errors import FilterError, WorkbenchError
from engine.base.text import ERROR_LIMIT, display_safe, one_line, short_name
from engine.conversations.filter_completion import Completion, completions, term_at_cursor
from engine.conversations.filters import Filter, parse_filter
from screens.widgets.background import DelayedCall, background
from screens.widgets.controls import MAX_TYPED_CHARACTERS, LineInput
from screens.widgets.keyed import Keyed

TYPING_REST_SECONDS = 0.2
"""Seconds without a key before the typed filter is applied."""
PROMPT = "▽ "
"""Stands before the filter."""
TEXT_WIDTH = 18
"""Least cells of a completion; what the completion is follows after them."""
LINE_PADDING = 1
"""Cells before the prompt, as the style of the line says."""


class FilterInput(LineInput):
    """The input of the line; a slash is typed into it, not taken as a key of the screen."""

    def check_consume_key(self, key: str, character: str | None) -> bool:
        """Returns whether a key types a character here; Textual leaves out the slash."""
        return key == "slash" or super().check_consume_key(key, character)


class FilterLine(Keyed, Vertical):
    """The line in which a filter is written, with the keys of the list of completions.

    It is visible while it has the focus or holds a filter; completions and mistakes are drawn over the list below.

    Attributes:
        read_values: Reads the values of a field with the number of conversations of each.
    """

    PLACE = "filter"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "take", "Complete", tooltip="Take the completion"),
        Binding("down", "choose(1)", "Next completion", show=False),
        Binding("up", "choose(-1)", "Previous completion", show=False),
        Binding("escape", "leave", "Back", tooltip="Back to the list"),
    ]
    DEFAULT_CSS = """
    FilterLine { height: 1; display: none; }
    FilterLine.-used { display: block; }
    FilterLine > Horizontal { height: 1; background: $panel; padding: 0 1; }
    FilterLine Input, FilterLine Input:focus {
        border: none; height: 1; padding: 0; background: $panel; width: 1fr;
    }
    FilterLine .prompt { width: 2; color: $tone-accent; background: $panel; }
    FilterLine #under {
        display: none; overlay: screen; constrain: none inside; height: auto; width: 100%;
        background: $panel;
    }
    FilterLine #under.-shown { display: block; }
    FilterLine #caret, FilterLine #mistake { display: none; height: auto; background: $panel; }
    FilterLine #caret { color: $tone-incomplete; }
    FilterLine #mistake { padding: 0 1; }
    FilterLine #caret.-shown, FilterLine #mistake.-shown { display: block; }
    FilterLine OptionList, FilterLine OptionList:focus {
        display: none; height: auto; max-height: 8; border: none; padding: 0 1; background: $panel;
        scrollbar-size-vertical: 1;
    }
    FilterLine OptionList.-shown { display: block; }
    FilterLine OptionList > .option-list--option-highlighted {
        background: $tone-cursor; color: $tone-bright; text-style: none;
    }
    """

    class Applied(Message):
        """Posted with a valid filter to apply."""

        def __init__(self, filter: Filter) -> None:
            super().__init__()
            self.filter = filter

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.read_values: Callable[[str], Sequence[tuple[str, int | None]]] | None = None
        self._field_read: str | None = None  # the field whose values were read last
        self._values: Sequence[tuple[str, int | None]] = ()  # its values, with their counts
        self._apply_later = DelayedCall(self, TYPING_REST_SECONDS, self._apply_typed)
        self._applied = Filter()  # the last filter that was posted or put
        self._completions: list[Completion] = []
        self._is_completion_chosen = False  # a key moved the cursor to a completion
        self._has_completion_keys = False  # the keys of the completions work
        self._mistake: FilterError | None = None  # in what is being typed
        self._complaint: WorkbenchError | None = None  # why the applied filter cannot be answered

    def compose(self) -> ComposeResult:
        """Yields the line, and below it the mistake and the completions."""
        with Horizontal():
            yield Static(PROMPT, classes="prompt")
            yield FilterInput(
                placeholder='words, state:broken-off, turns>5, -tag:spam, "a phrase"',
                select_on_focus=False,
            )
        with Vertical(id="under"):
            yield Static("^", id="caret")
            yield Static(id="mistake")
            completions = OptionList(markup=False)
            completions.can_focus = False
            yield completions

    def on_mount(self) -> None:
        """Watches the cursor, whose position decides what can be completed."""
        self.watch(self._input, "selection", self._offer_completions, init=False)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Returns whether an action works now: those of the completions only while there are some."""
        return self._has_completion_keys or action not in ("take", "choose")

    @property
    def _input(self) -> FilterInput:
        """The input in which the filter is written."""
        return self.query_one(FilterInput)

    def put(self, filter: Filter) -> None:
        """Writes a filter that the screen applies already."""
        if filter != self._applied:
            self._applied, self._complaint = filter, None
        self._write(str(filter))
        self._show_mistake(None)

    def edit(self, *, words: bool = False) -> None:
        """Puts the cursor behind the present filter; for `words` behind a space."""
        if words and self._input.value and not self._input.value.endswith(" "):
            self._write(self._input.value + " ")
        self.add_class("-used")
        self._field_read = None  # the counts may have changed since
        self._input.focus()
        self._input.cursor_position = len(self._input.value)
        self.call_after_refresh(self._offer_completions)

    def complain(self, error: WorkbenchError | None) -> None:
        """Shows why the applied filter cannot be answered, until another is applied; None shows nothing.

        A mistake in the text that is being typed is shown in place of it.
        """
        self._complaint = error
        self._show_mistake(self._mistake)

    def _write(self, value: str) -> None:
        """Puts a text into the line as if it had been applied."""
        value = display_safe(" ".join(value.split("\n")))[:MAX_TYPED_CHARACTERS]
        with self._input.prevent(Input.Changed):
            self._input.value = value
            self._input.cursor_position = len(value)
        self.set_class(bool(value) or self._input.has_focus, "-used")

    # Typing

    def on_input_changed(self, event: Input.Changed) -> None:
        """Applies the filter once no key was pressed for a moment."""
        event.stop()
        self._apply_later.restart()
        self._offer_completions()

    def _apply_typed(self) -> None:
        """Applies what was typed, and shows a mistake in it."""
        mistake = self._apply()
        # An unfinished term that can be completed is no mistake yet.
        is_unfinished = (
            mistake is not None
            and bool(self._completions)
            and mistake.at >= self._completions[0].start
        )
        self._show_mistake(None if is_unfinished else mistake)

    def _apply(self) -> FilterError | None:
        """Posts the typed filter if it is another one than before; returns the mistake in it, if there is one."""
        self._apply_later.cancel()
        try:
            filter = parse_filter(display_safe(self._input.value))
        except FilterError as error:
            return error
        if filter != self._applied:
            self._applied, self._complaint = filter, None
            self.post_message(self.Applied(filter))
        return None

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter inserts the completion that a key chose; without one it applies the filter and leaves the line."""
        event.stop()
        if self._is_completion_chosen and self._completions:
            self.action_take()
            return
        mistake = self._apply()
        self._show_mistake(mistake)
        if mistake is None:
            self._leave()

    def action_leave(self) -> None:
        """Leaves the line; a text that is no filter is replaced by the last filter that was applied."""
        if self._apply() is not None:
            self._write(str(self._applied))
        self._show_mistake(None)
        self._leave()

    def _leave(self) -> None:
        """Puts the focus where the screen has it at first."""
        self.screen.query_one(str(self.screen.AUTO_FOCUS)).focus()

    def on_descendant_blur(self, event: events.DescendantBlur) -> None:
        """Hides completions and mistakes once the line has lost the focus."""
        self._completions, self._is_completion_chosen = [], False
        self._show_completions()
        self._show_mistake(None)
        self.set_class(bool(self._input.value), "-used")

    # Completions

    def _offer_completions(self, *_: object) -> None:
        """Lists what can be completed at the cursor. As a watcher it is called with values that it does not need."""
        # The input may be removed already: this is also called after the last refresh of a screen that closes.
        if not self.query(FilterInput) or not self._input.has_focus:
            return
        text, cursor = self._input.value, self._input.cursor_position
        values = {self._field_read: self._values} if self._field_read is not None else {}
        self._completions = [
            completion
            for completion in completions(text, cursor, values)
            if display_safe(completion.text) == completion.text  # not those with control characters
        ]
        self._read_values(text, cursor)
        options = self.query_one(OptionList)
        options.clear_options()
        with_counts = any(completion.count is not None for completion in self._completions)
        options.add_options(
            Option(_completion_content(completion, self.size.width, with_count=with_counts))
            for completion in self._completions
        )
        options.highlighted = None
        self._is_completion_chosen = False
        self._show_completions()

    def _read_values(self, text: str, cursor: int) -> None:
        """Reads the values of the field at the cursor, unless they were read already."""
        term, read = term_at_cursor(text, cursor), self.read_values
        if term is None or read is None or (term.field is None and not term.typed):
            return
        field = term.field_to_count
        if field == self._field_read:
            return
        self._field_read, self._values = field, ()

        def offer(values: Sequence[tuple[str, int | None]]) -> None:
            """Offers the values, unless the cursor is at another field now."""
            if self._field_read == field:
                self._values = values
                self._offer_completions()

        background(self, lambda: read(field), offer, lambda _: None, group="values")

    def _show_completions(self) -> None:
        """Shows the list of completions, or hides it while there are none; its keys work while it is shown."""
        has_completions = bool(self._completions)
        if self._has_completion_keys != has_completions:
            self._has_completion_keys = has_completions
            self.refresh_bindings()
        self.query_one(OptionList).set_class(has_completions, "-shown")
        self._show_box()

    def _show_box(self) -> None:
        """Shows the box below the line while there is something in it."""
        under = self.query_one("#under")
        under.set_class(
            bool(self._completions) or self.query_one("#mistake").has_class("-shown"), "-shown"
        )

    def action_choose(self, by: int) -> None:
        """Goes `by` lines on in the completions, from the last one to the first."""
        options = self.query_one(OptionList)
        index = options.highlighted
        first = 0 if by > 0 else len(self._completions) - 1
        options.highlighted = first if index is None else (index + by) % len(self._completions)
        self._is_completion_chosen = True

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """A click inserts a completion."""
        event.stop()
        event.option_list.highlighted = event.option_index
        self.action_take()
        self._input.focus()

    def action_take(self) -> None:
        """Inserts the completion under the cursor, else the first."""
        if not self._completions:
            return
        completion = self._completions[self.query_one(OptionList).highlighted or 0]
        value, cursor = self._input.value, self._input.cursor_position
        # A field goes on with its value; after a value the next term may follow.
        beginning = value[: completion.start] + completion.text
        beginning += "" if completion.is_partial else " "
        self._input.value = beginning + value[cursor:].lstrip()
        self._input.cursor_position = len(beginning)

    # Mistakes

    def _show_mistake(self, mistake: FilterError | None) -> None:
        """Shows a mistake in what is typed, with a caret below the character where it is.

        Without a mistake it shows why the applied filter cannot be answered, or nothing.
        """
        self._mistake, error = mistake, mistake or self._complaint
        caret, message = self.query_one("#caret", Static), self.query_one("#mistake", Static)
        message.set_class(error is not None, "-shown")
        caret.set_class(isinstance(error, FilterError), "-shown")
        if error is not None:
            message.update(
                Content.assemble(
                    (one_line(error.message, ERROR_LIMIT), "$tone-incomplete"),
                    (f" {one_line(error.hint, ERROR_LIMIT)}", "$tone-muted"),
                )
            )
        if isinstance(error, FilterError):
            cells_before = cell_len(display_safe(self._input.value)[: error.at])
            left = LINE_PADDING + cell_len(PROMPT) + cells_before
            caret.styles.padding = (0, 0, 0, max(0, left - round(self._input.scroll_offset.x)))
        self._show_box()


def _completion_content(completion: Completion, cells: int, *, with_count: bool) -> Content:
    """Returns a completion: its text, its count if the list has counts, and what it is, wrapped beside them, `cells`
    wide."""
    count = "" if completion.count is None else f"{completion.count:,}"
    text = f"{short_name(completion.text):<{TEXT_WIDTH}}"
    counts = f" {count:>9} " if with_count else ""
    margin = TEXT_WIDTH + len(counts) + 1
    room = max(1, cells - margin - 2 * LINE_PADDING - 1)
    meaning = f"\n{'':{margin}}".join(textwrap.wrap(completion.help, room))
    return Content.assemble(
        (text, "bold"), (counts, "$tone-accent"), (f" {meaning}", "$tone-muted")
    )
