"""The dialog that asks for a file or folder to import, with completion of paths and a tree to browse."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from rich.cells import cell_len
from rich.text import Text, TextType
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.suggester import Suggester
from textual.widgets import DirectoryTree, Input, Static
from textual.widgets.option_list import Option

from engine.base.errors import FormatError
from engine.base.text import display_safe, end_of_path, one_line
from engine.conversations.service.mapping_draft import Line, MappingDraft, format_name, refusal_of
from engine.conversations.service.mapping_trial import Trial
from engine.formats.records import PLACES
from screens.shell.dialogs import ChoiceDialog, Dialog, TextDialog, hint_line
from screens.widgets.background import background, in_thread
from screens.widgets.controls import Choices, LineInput

# The dialog in which a person says where a file of an unknown format has its messages.

_MESSAGES_SHOWN = 8
_TITLE = 27
_VALUE = 22
_LEAST_FINDS = 12
_FRAME = 15
"""Columns of the dialog's frame and paddings."""

_CHOICE = 64
"""Columns of a choice and its example, in the dialog that asks for it."""

_ROLE_COLUMNS = 9


class MappingDialog(Dialog[str | None]):
    """Shows a guess line by line, and two conversations as it reads them; answers with the name of the saved format."""

    PLACE = "mapping"
    VERTICAL_BREAKPOINTS = [(0, "-short"), (30, "-high")]  # noqa: RUF012 - Textual declares it
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("p", "type_path", "Path", tooltip="Type the path of this line"),
        Binding("u", "undo", "Undo", tooltip="Take the last change back"),
        Binding("s", "save", "Save", tooltip="Save the mapping and import the file"),
        Binding("escape", "leave", "Leave", tooltip="Leave; asks first if lines were changed"),
    ]

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path
        self._draft: MappingDraft | None = None
        self._lines: list[Line] = []

    def compose(self) -> ComposeResult:
        """Lines, the one under the cursor in full, what is read with them, keys."""
        with Vertical(classes="dialog tall mapping") as box:
            box.border_title = Content("Where are the messages?")
            yield Choices(id="lines", markup=False)
            yield Static(id="line")
            with VerticalScroll(id="trial"):
                yield Static("reading the file…", id="read")
            keys = (("enter", "changes"), ("p", "path"), ("u", "undoes"), ("tab", "scrolls"))
            yield Static(hint_line(*keys, ("s", "saves"), ("esc", "leaves")))

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
        self.query_one("#trial").scroll_home(animate=False)

    def on_option_list_option_highlighted(self, event: Choices.OptionHighlighted) -> None:
        """The line under the cursor is shown in full, since lists cut what is long."""
        if event.option_index < len(self._lines):
            line = self._lines[event.option_index]
            shown = Content.assemble(
                (one_line(line.words, 120), "bold"),
                ("  " + one_line(line.finds, 120), "$tone-muted"),
            )
            self.query_one("#line", Static).update(shown)

    def on_option_list_option_selected(self, event: Choices.OptionSelected) -> None:
        """Enter asks what the line may be, with an example of each."""
        draft, line = self._draft, self._lines[event.option_index]
        if draft is None:
            return
        found = draft.choices(line.key)
        widest = min(_VALUE + 10, max((cell_len(choice.words) for choice in found), default=0))
        choices = [
            (
                choice.value,
                f"{choice.words:<{widest}}  {one_line(choice.example, _CHOICE - widest)}",
            )
            for choice in found
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
        if self._draft is None or value is None or value == line.value:
            return
        try:
            self._draft.change(line.key, value)
        except FormatError as error:
            self.show_error(error)
        self._try_out()

    def action_undo(self) -> None:
        """Takes the last change back."""
        if self._draft is not None and self._draft.undo():
            self._try_out()
        else:
            self.notify("No line was changed.", markup=False)

    def action_save(self) -> None:
        """Saves the mapping file under a name that is asked for, and answers with it."""
        self._ask_name(then=self.dismiss)

    def _ask_name(self, then: Callable[[str | None], object]) -> None:
        draft = self._draft
        if draft is None:
            return

        def named(name: str | None) -> None:
            if not name:
                return
            if draft.known_as is None:
                self._save(draft, format_name(name), False, then)
                return
            self.app.push_screen(
                ChoiceDialog("Read already without it; when is it used?", use_choices(draft)),
                lambda by_name: (
                    None if by_name is None else self._save(draft, format_name(name), by_name, then)
                ),
            )

        self.app.push_screen(TextDialog("Name of the format", value=draft.suggested_name), named)

    def _save(
        self, draft: MappingDraft, name: str, by_name: bool, then: Callable[[str | None], object]
    ) -> None:
        try:
            draft.save(name, by_name)
        except FormatError as error:
            self.show_error(error)
        else:
            then(name)

    def action_leave(self) -> None:
        """Leaves; asks first what becomes of the changes, if there are some."""
        draft = self._draft
        if draft is None or not draft.changes:
            self.dismiss(None)
            return
        choices = [
            ("stay", "Go on here"),
            ("save", "Save the mapping file, and import nothing now"),
            ("leave", "Leave, and forget the changes"),
        ]

        def chosen(what: str | None) -> None:
            if what == "leave":
                self.dismiss(None)
            elif what == "save":
                self._ask_name(then=lambda _: self.dismiss(None))

        title = (
            f"Lines were changed {draft.changes:,} times"
            if draft.changes > 1
            else "A line was changed"
        )
        self.app.push_screen(ChoiceDialog(title, choices), chosen)


def use_choices(draft: MappingDraft) -> list[tuple[bool, str]]:
    """When a mapping is used for files that are read without it: for this import only, or always."""
    return [
        (True, f"For this import; other files stay {draft.known_as}"),
        (False, f"For all files that it fits, in place of {draft.known_as}"),
    ]


def line_content(line: Line, columns: int) -> Content:
    """A line of the draft, in so many columns: the question, its answer, what is found there."""
    value = one_line(line.words, _VALUE)
    rest = max(_LEAST_FINDS, columns - _TITLE - _VALUE - 4)
    return Content.assemble(
        (f"{one_line(line.title, _TITLE):<{_TITLE}} ", "$tone-muted"),
        (f"{value:<{_VALUE}} ", "bold"),
        (one_line(line.finds, rest), "$tone-muted"),
    )


def trial_content(trial: Trial) -> Content:
    """What is read with the draft: counts, what looks wrong, where the text goes, two conversations."""
    parts: list[Content | str | tuple[str, str]] = [(trial.counts, "bold")]
    parts += [("\n" + one_line(doubt, 200), "$tone-incomplete") for doubt in trial.doubts]
    shares = [
        f"{place} {trial.account.share(place):.0%}"
        for place in PLACES
        if trial.account.chars.get(place) or place == "nowhere"
    ]
    if trial.account.total:
        parts.append(("\nIts text goes to: " + ", ".join(shares), "$tone-muted"))
    if trial.remark:
        parts.append(("\n" + one_line(trial.remark, 74), "$tone-borderline"))
    for conversation in trial.shown:
        parts.append((f"\n\n{one_line(conversation.external_id, 60)}", "$tone-accent"))
        for message in conversation.messages[:_MESSAGES_SHOWN]:
            parts.append((f"\n{message.role:>{_ROLE_COLUMNS}}  ", "$tone-muted"))
            parts.append(one_line(message.content, 120))
            parts += [
                (f" calls {one_line(call.name, 40)}", "$tone-call") for call in message.tool_calls
            ]
        more = len(conversation.messages) - _MESSAGES_SHOWN
        if more > 0:
            parts.append((f"\n{'':>{_ROLE_COLUMNS}}  and {more:,} more", "$tone-muted"))
    return Content.assemble(*parts)


# The dialog that browses the folders for a file or a folder.

_LONGEST_NAME = 60
_KEPT_OF_BEGINNING = 20


class FileTree(DirectoryTree):
    """Files and folders, with names of one line; of a long name both ends are shown, which tell it from others."""

    def process_label(self, label: TextType) -> Text:
        """The name as it is shown."""
        name = display_safe(str(label))
        if len(name) > _LONGEST_NAME:
            end = name[_KEPT_OF_BEGINNING + 1 - _LONGEST_NAME :]
            name = f"{name[:_KEPT_OF_BEGINNING]}…{end}"
        return Text(name)


class BrowseDialog(Dialog[str | None]):
    """Shows the files and folders of a folder; answers with the path of the one that is taken, or with None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Leave"),
        Binding(
            "space", "take", "Take", tooltip="Take the file or the whole folder", priority=True
        ),
        Binding("backspace", "up", "Up", tooltip="Show the folder that this one is in"),
    ]

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder.absolute()

    def compose(self) -> ComposeResult:
        """The tree, keys."""
        with Vertical(classes="dialog browse") as box:
            box.border_title = self._title()
            tree = FileTree(self._folder)
            tree.guide_depth = 2
            yield tree
            keys = (("enter", "opens"), ("space", "takes the file or folder"))
            yield Static(hint_line(*keys, ("backspace", "up"), ("escape", "back")))

    def _title(self) -> Content:
        return Content(end_of_path(str(self._folder), 60))

    def action_take(self) -> None:
        """Answers with what the cursor is on, be it a file or a folder."""
        node = self.query_one(FileTree).cursor_node
        if node is not None and node.data is not None:
            self.dismiss(str(node.data.path))

    def action_up(self) -> None:
        """Shows the folder above."""
        self._folder = self._folder.parent
        self.query_one(FileTree).path = self._folder
        self.query_one(".browse").border_title = self._title()

    def on_directory_tree_file_selected(self, event: DirectoryTree.FileSelected) -> None:
        """Enter on a file takes it."""
        self.dismiss(str(event.path))


class PathSuggester(Suggester):
    """Completes a path with the first file or folder that begins so; a folder ends with a slash."""

    def __init__(self) -> None:
        super().__init__(use_cache=False, case_sensitive=True)

    async def get_suggestion(self, value: str) -> str | None:
        """The completed path as it is typed, with `~` kept; None when nothing begins so."""
        return await in_thread(lambda: completed(value))


def completed(value: str) -> str | None:
    """The path that completes what is typed; None when nothing begins so, or when it has no safe name."""
    folder, begun = os.path.split(value)
    if not begun:
        return None
    try:
        with os.scandir(os.path.expanduser(folder) or os.curdir) as entries:
            found = sorted(
                entry.name + (os.sep if entry.is_dir() else "")
                for entry in entries
                if entry.name.startswith(begun)
            )
    except (OSError, ValueError):  # ValueError: a zero byte or a lone surrogate was pasted
        return None
    if not found or display_safe(found[0]) != found[0]:
        return None
    return os.path.join(folder, found[0])


class ImportDialog(Dialog[tuple[str, str | None] | None]):
    """Asks for a file or folder; answers with its path and the format to read it in (None: that which is detected), or
    with None. A path that is not there stays, to be mended."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Leave"),
        Binding(
            "ctrl+t",
            "map",
            "Say where",
            tooltip="Say where the messages are, in a file of any format",
        ),
        Binding("down", "browse", "Browse", tooltip="Choose a file or a folder in a tree"),
        # before the next field, of which there is none
        Binding("tab", "complete", "Complete the path", priority=True),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._refused: str | None = None

    def compose(self) -> ComposeResult:
        """Path, what is wrong with it, what is read, keys."""
        with Vertical(classes="dialog") as box:
            box.border_title = Content("Import conversations")
            yield LineInput(
                placeholder="a file, an archive or a folder of logs", suggester=PathSuggester()
            )
            yield Static(self._formats(), id="problem")
            keys = (
                ("enter", "imports"),
                ("tab", "completes"),
                ("↓", "browses"),
                ("^t", "maps"),
            )
            yield Static(hint_line(*keys, ("escape", "cancels")))

    def _formats(self) -> Content:
        return Content.styled(
            "JSON, CSV, Parquet, SQLite, text; compressed or in archives. The format is detected and shown.",
            "$tone-muted",
        )

    def on_input_changed(self) -> None:
        """What was wrong may be mended now."""
        self._refused = None
        self.query_one("#problem", Static).update(self._formats())

    def action_complete(self) -> None:
        """Takes the completion over."""
        self.query_one(Input).action_cursor_right()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter answers if the path can be read; else it says why not, and again asks where the messages are."""
        path = os.path.expanduser(event.value.strip())
        if not path:
            self.dismiss(None)
        elif not os.path.exists(path):
            self._tell(f"There is no file or folder {path}.")
        elif not os.path.isfile(path):
            self.dismiss((path, None))
        elif path == self._refused:
            self._map(path)
        else:
            background(
                self,
                lambda: refusal_of(path),
                lambda refusal: self._checked(path, refusal),
                self.show_error,
                group="check",
            )

    def action_browse(self) -> None:
        """Shows the folder of the path that is typed, or the nearest one above it that exists, to choose in."""
        typed = Path(os.path.expanduser(self.query_one(Input).value.strip())).absolute()
        folder = next(one for one in (typed, *typed.parents) if os.path.isdir(one))
        self.app.push_screen(BrowseDialog(folder), self._browsed)

    def _browsed(self, path: str | None) -> None:
        """Puts the path that was taken into the field; enter imports it."""
        if path is not None:
            field = self.query_one(Input)
            field.value = path
            field.cursor_position = len(path)
            field.focus()

    def action_map(self) -> None:
        """Asks where the messages of the file are, whether it can be read without that or not."""
        path = os.path.expanduser(self.query_one(Input).value.strip())
        if os.path.isfile(path):
            self._map(path)
        else:
            self._tell("Type the path of a file first; of a folder, that of one of its files.")

    def _map(self, path: str) -> None:
        self.app.push_screen(MappingDialog(path), lambda saved: self._mapped(path, saved))

    def _checked(self, path: str, refusal: str | None) -> None:
        if refusal is None:
            self.dismiss((path, None))
            return
        self._refused = path
        self._tell(f"{refusal} Enter again shows its fields, and asks where the messages are.")

    def _mapped(self, path: str, saved: str | None) -> None:
        if saved is not None:
            self.dismiss((path, saved))

    def _tell(self, problem: str) -> None:
        shown = Content.styled(display_safe(problem), "$tone-incomplete")
        self.query_one("#problem", Static).update(shown)
