"""The dialog in which a person says where a file of an unknown format has its messages."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Static
from textual.widgets.option_list import Option

from engine.errors import FormatError
from engine.number_format import counted
from engine.records.imports import PLACES
from engine.services.mapping_draft import Line, MappingDraft, Trial, format_name
from engine.text import display_safe, one_line
from screens.shell.dialogs import ChoiceDialog, Dialog, TextDialog, hint_line
from screens.widgets.background import background
from screens.widgets.choices import Choices

_MESSAGES_SHOWN = 8
_TITLE = 27
_VALUE = 20
_LEAST_FINDS = 16
_FRAME = 15
"""Columns of the dialog's frame and paddings."""


class MappingDialog(Dialog[str | None]):
    """Shows a guess line by line, and two conversations as it reads them; answers with the name of the saved format."""

    PLACE = "mapping"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("p", "type_path", "Path", tooltip="Type the path of this line"),
        Binding("s", "save", "Save", tooltip="Save the mapping and import the file"),
        Binding("escape", "dismiss(None)", "Leave"),
    ]

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path
        self._draft: MappingDraft | None = None
        self._lines: list[Line] = []

    def compose(self) -> ComposeResult:
        """Lines, what is read with them, keys."""
        with Vertical(classes="dialog tall") as box:
            box.border_title = Content("Where are the messages?")
            yield Choices(id="lines", markup=False)
            with VerticalScroll(id="trial"):
                yield Static("reading the file…", id="read")
            keys = (
                ("enter", "changes a line"),
                ("p", "types its path"),
                ("s", "saves and imports"),
            )
            yield Static(hint_line(*keys, ("escape", "leaves")))

    def on_mount(self) -> None:
        """Reads the beginning of the file and guesses."""
        background(
            self, lambda: MappingDraft.of_file(self._path), self._begin, self._refuse, group="map"
        )

    def _begin(self, draft: MappingDraft) -> None:
        self._draft = draft
        self._try_out()

    def _refuse(self, error: Exception) -> None:
        words = error.message if isinstance(error, FormatError) else str(error)
        self.query_one("#read", Static).update(
            Content.styled(display_safe(words), "$tone-incomplete")
        )

    def _try_out(self) -> None:
        draft = self._draft
        if draft is not None:
            background(
                self,
                lambda: (draft.lines(), draft.try_out()),
                lambda found: self._show(*found),
                self._refuse,
                group="map",
            )

    def _show(self, lines: list[Line], trial: Trial) -> None:
        choices = self.query_one(Choices)
        at = choices.highlighted or 0
        self._lines = lines
        choices.clear_options()
        columns = choices.size.width or self.app.size.width - _FRAME
        choices.add_options([Option(line_content(line, columns)) for line in lines])
        choices.highlighted = min(at, len(lines) - 1)
        choices.focus()
        self.query_one("#read", Static).update(trial_content(trial))

    def on_option_list_option_selected(self, event: Choices.OptionSelected) -> None:
        """Enter asks what the line may be, with an example of each."""
        draft, line = self._draft, self._lines[event.option_index]
        if draft is None:
            return
        choices = [
            (choice.value, f"{choice.value or 'none':<{_VALUE}}  {one_line(choice.example, 40)}")
            for choice in draft.choices(line.key)
        ]
        self.app.push_screen(
            ChoiceDialog(line.title, choices, line.value), lambda value: self._change(line, value)
        )

    def action_type_path(self) -> None:
        """Asks for the path of the line."""
        at = self.query_one(Choices).highlighted
        if self._draft is None or at is None:
            return
        line = self._lines[at]
        self.app.push_screen(
            TextDialog(line.title, value=line.value, placeholder="a path, such as parts[].text"),
            lambda value: self._change(line, value),
        )

    def _change(self, line: Line, value: str | None) -> None:
        if self._draft is None or value is None:
            return
        try:
            self._draft.change(line.key, value)
        except FormatError as error:
            self.show_error(error)
        self._try_out()

    def action_save(self) -> None:
        """Asks for a name, saves the mapping file, and answers."""
        draft = self._draft
        if draft is None:
            return

        def named(name: str | None) -> None:
            if not name:
                return
            try:
                draft.save(format_name(name))
            except FormatError as error:
                self.show_error(error)
            else:
                self.dismiss(format_name(name))

        self.app.push_screen(TextDialog("Name of the format", value=draft.suggested_name), named)


def line_content(line: Line, columns: int) -> Content:
    """A line of the draft, in so many columns: the question, its answer, what is found there."""
    value = one_line(line.value or "–", _VALUE)
    rest = max(_LEAST_FINDS, columns - _TITLE - _VALUE - 6)
    return Content.assemble(
        (f"{one_line(line.title, _TITLE):<{_TITLE}} ", "$tone-muted"),
        (f"{value:<{_VALUE}} ", "bold"),
        (one_line(line.finds, rest), "$tone-muted"),
    )


def trial_content(trial: Trial) -> Content:
    """What is read with the draft: counts, where the text goes, two conversations."""
    read = f"{counted(trial.conversations, 'conversation')}, {counted(trial.messages, 'message')}"
    parts: list[Content | str | tuple[str, str]] = [(f"Read so: {read}", "bold")]
    if trial.rejected:
        rejected = f"; {trial.rejected:,} not read: {one_line(trial.reason, 80)}"
        parts.append((rejected, "$tone-incomplete"))
    shares = [
        f" · {place} {trial.account.share(place):.0%}"
        for place in PLACES
        if trial.account.chars.get(place)
    ]
    parts.append(("".join(shares), "$tone-muted"))
    for conversation in trial.shown:
        parts.append((f"\n\n{one_line(conversation.external_id, 60)}", "$tone-accent"))
        for message in conversation.messages[:_MESSAGES_SHOWN]:
            parts.append((f"\n{message.role:>10}  ", "$tone-muted"))
            parts.append(one_line(message.content, 88))
    return Content.assemble(*parts)
