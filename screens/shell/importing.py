"""The dialogs of an import: the file or folder, a tree to browse for it, and where a file has its messages.

A mapping file tells which fields of a file have the role and the text of its messages. It defines a format, and has the
name of that format. A guess is a mapping file that the program proposes.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import ClassVar

from rich.text import Text, TextType
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import DirectoryTree, Input, Static, TextArea

from engine.base.errors import FormatError, WorkbenchError
from engine.base.text import PATH_LIMIT, display_safe, end_of_path, one_line, short_name
from engine.formats.mapping_draft import MappingDraft, Trial, refusal_of
from engine.formats.records import PLACES
from screens.shell.dialogs import ChoiceDialog, Dialog, ask, key_hints
from screens.widgets.background import DelayedCall, background
from screens.widgets.controls import LineInput, titled

TYPING_REST_SECONDS = 0.25
"""Seconds without a key before a mapping is tried out."""
_MAX_MESSAGES_SHOWN = 8
"""Most messages that are shown of a conversation read with a mapping."""
_ROLE_COLUMNS = 9
_MAX_NAME_CHARACTERS = 60
"""Most characters that are shown of the name of a file or a conversation, and of the path of a folder."""
_SHOWN_OF_BEGINNING = 20
"""Characters of the beginning of a longer name that are shown; the others are of its end."""
READABLE_FILES = Content.styled(
    "JSON, CSV, Parquet, SQLite, text; compressed or in archives. The format is detected and shown.",
    "$tone-muted",
)
"""What kinds of files can be imported."""


class ImportDialog(Dialog[tuple[str, str | None]]):
    """Asks for a file or folder; answers with its path and the format to read it in, where None detects the format.

    A path that does not exist stays in the line, so that the person can correct it.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Leave"),
        Binding("ctrl+t", "map", "Say where", tooltip="Say where the messages are, in a file of any format"),
        Binding("down", "browse", "Browse", tooltip="Choose a file or a folder in a tree"),
    ]  # fmt: skip

    def compose(self) -> ComposeResult:
        """Yields the line for the path, what can be imported or what is wrong with the path, and the keys."""
        with titled(Vertical(classes="dialog"), "Import conversations"):
            yield LineInput(placeholder="a file, an archive or a folder of logs")
            yield Static(READABLE_FILES, id="problem")
            keys = (("enter", "imports"), ("↓", "browses"), ("^t", "maps"), ("escape", "cancels"))
            yield key_hints(*keys)

    @property
    def _path(self) -> str:
        """The path that is typed; empty before anything is typed."""
        return os.path.expanduser(self.query_one(Input).value.strip())

    def on_input_changed(self) -> None:
        """Shows what can be imported in place of what was wrong with the path before."""
        self.query_one("#problem", Static).update(READABLE_FILES)

    def on_input_submitted(self) -> None:
        """Enter answers if the path can be read; else it shows why not."""
        path = self._path
        if not path:
            self.dismiss(None)
        elif not os.path.exists(path):
            self._show_problem(f"There is no file or folder {path}.")
        elif not os.path.isfile(path):
            self.dismiss((path, None))
        else:

            def answer(refusal: str | None) -> None:
                """Answers with the file if it can be read."""
                if refusal is None:
                    self.dismiss((path, None))
                else:
                    hint = "^t shows its fields, and asks where the messages are."
                    self._show_problem(f"{refusal} {hint}")

            background(self, lambda: refusal_of(path), answer, self.show_error, group="check")

    def action_browse(self) -> None:
        """Shows the folder of the path that is typed, or the nearest one above it that exists, to choose in."""
        typed = Path(self._path).absolute()
        folder = next(path for path in (typed, *typed.parents) if os.path.isdir(path))

        def put_path(path: str) -> None:
            """Puts the chosen path into the line; enter imports it."""
            line = self.query_one(Input)
            line.value = path
            line.cursor_position = len(path)
            line.focus()

        ask(self, BrowseDialog(folder), put_path)

    def action_map(self) -> None:
        """Asks where the messages of the file are, whether it can be read without that or not."""
        path = self._path
        if os.path.isfile(path):
            ask(self, MappingDialog(path), lambda format: self.dismiss((path, format)))
        else:
            self._show_problem(
                "Type the path of a file first; of a folder, that of one of its files."
            )

    def _show_problem(self, problem: str) -> None:
        """Shows what is wrong with the path."""
        text = Content.styled(display_safe(problem), "$tone-incomplete")
        self.query_one("#problem", Static).update(text)


class FileTree(DirectoryTree):
    """Files and folders, each name on one line; of a long name both ends are shown, which tell it from others."""

    def process_label(self, label: TextType) -> Text:
        """Returns the name of a file or folder as it is shown."""
        name = display_safe(str(label))
        if len(name) > _MAX_NAME_CHARACTERS:
            shown_of_end = _MAX_NAME_CHARACTERS - _SHOWN_OF_BEGINNING - len("…")
            name = f"{name[:_SHOWN_OF_BEGINNING]}…{name[-shown_of_end:]}"
        return Text(name)


class BrowseDialog(Dialog[str]):
    """Shows the files and folders of a folder; answers with the path of the one that is chosen, or with None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Leave"),
        Binding("space", "take", "Take", tooltip="Take the file or the whole folder", priority=True),
        Binding("backspace", "up", "Up", tooltip="Show the folder that this one is in"),
    ]  # fmt: skip

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder.absolute()

    def compose(self) -> ComposeResult:
        """Yields the tree, keys."""
        with titled(Vertical(classes="dialog browse"), self._title()):
            tree = FileTree(self._folder)
            tree.guide_depth = 2
            yield tree
            keys = (("enter", "opens"), ("space", "takes the file or folder"))
            yield key_hints(*keys, ("backspace", "up"), ("escape", "back"))

    def _title(self) -> str:
        """Returns the end of the path of the folder."""
        return end_of_path(str(self._folder), _MAX_NAME_CHARACTERS)

    def action_take(self) -> None:
        """Answers with what the cursor is on, be it a file or a folder."""
        node = self.query_one(FileTree).cursor_node
        if node is not None and node.data is not None:
            self.dismiss(str(node.data.path))

    def action_up(self) -> None:
        """Shows the folder above."""
        self._folder = self._folder.parent
        self.query_one(FileTree).path = self._folder
        titled(self.query_one(".browse"), self._title())

    def on_directory_tree_file_selected(self, event: DirectoryTree.FileSelected) -> None:
        """Enter on a file chooses it."""
        self.dismiss(str(event.path))


class MappingDialog(Dialog[str]):
    """Shows a guessed mapping file to edit, and what it reads; answers with the name of the saved format."""

    PLACE = "mapping"
    VERTICAL_BREAKPOINTS = [(0, "-short"), (30, "-high")]  # noqa: RUF012 - Textual declares it
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+n", "guess", "Guess", tooltip="Another guess of where the messages are"),
        Binding("ctrl+s", "save", "Save", tooltip="Save the mapping and import the file"),
        Binding("escape", "leave", "Leave", tooltip="Leave; asks first if the mapping was changed"),
    ]

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path
        self._draft: MappingDraft | None = None
        self._guess_index = 0
        self._try_out_later = DelayedCall(self, TYPING_REST_SECONDS, self._try_out)

    def compose(self) -> ComposeResult:
        """Yields the mapping file, what is read with it, keys."""
        with titled(Vertical(classes="dialog tall mapping"), "Where are the messages?"):
            yield TextArea(id="mapping", compact=True)
            with VerticalScroll(id="trial"):
                yield Static("reading the file…", id="read")
            keys = (("ctrl+n", "another guess"), ("tab", "scrolls"), ("ctrl+s", "saves"))
            yield key_hints(*keys, ("esc", "leaves"))

    def on_mount(self) -> None:
        """Reads the beginning of the file, and shows the first guess."""

        def show(draft: MappingDraft) -> None:
            self._draft = draft
            self.query_one(TextArea).focus()
            self._show_guess()

        background(
            self, lambda: MappingDraft.of_file(self._path), show, self._show_refusal, group="map"
        )

    def _show_guess(self) -> None:
        """Puts the present guess into the field."""
        if self._draft is not None:
            self.query_one(TextArea).text = self._draft.texts[self._guess_index]

    def action_guess(self) -> None:
        """Shows the next guess; the first one follows the last."""
        if self._draft is not None:
            self._guess_index = (self._guess_index + 1) % len(self._draft.texts)
            self._show_guess()

    def on_text_area_changed(self) -> None:
        """Tries the mapping out once no key was pressed for a moment."""
        self._try_out_later.restart()

    def _try_out(self) -> None:
        """Reads the beginning of the file with the mapping that is typed."""
        draft, text = self._draft, self.query_one(TextArea).text
        if draft is not None:
            background(
                self, lambda: draft.try_out(text), self._show_trial, self._show_refusal, group="map"
            )

    def _show_trial(self, trial: Trial) -> None:
        """Shows what the mapping reads."""
        self.query_one("#read", Static).update(trial_content(trial))
        self.query_one("#trial").scroll_home(animate=False)

    def _show_refusal(self, error: WorkbenchError) -> None:
        """Shows why the file cannot be read, or why the mapping cannot be used."""
        text = Content.styled(display_safe(error.message), "$tone-incomplete")
        self.query_one("#read", Static).update(text)

    def action_save(self) -> None:
        """Saves the mapping file, and answers with the name in it."""
        if (name := self._save()) is not None:
            self.dismiss(name)

    def _save(self) -> str | None:
        """Saves the mapping file and returns its name; None where it cannot be saved, and a dialog tells why."""
        if self._draft is None:
            return None
        try:
            return self._draft.save(self.query_one(TextArea).text)
        except FormatError as error:
            self.show_error(error)
            return None

    def action_leave(self) -> None:
        """Leaves; asks first what becomes of the changes, if there are some."""
        if self._draft is None or self.query_one(TextArea).text in self._draft.texts:
            self.dismiss(None)
            return
        choices = [
            ("stay", "Go on here"),
            ("save", "Save the mapping file, and import nothing now"),
            ("leave", "Leave, and forget the changes"),
        ]

        def on_choice(answer: str) -> None:
            if answer == "leave" or (answer == "save" and self._save() is not None):
                self.dismiss(None)

        ask(self, ChoiceDialog("The mapping was changed", choices), on_choice)


def trial_content(trial: Trial) -> Content:
    """Returns what is read with the draft: counts, what looks wrong, where the text goes, two conversations."""
    parts: list[Content | str | tuple[str, str]] = [(trial.counts, "bold")]
    parts += [("\n" + one_line(doubt), "$tone-incomplete") for doubt in trial.doubts]
    shares = [
        f"{place} {trial.account.share(place):.0%}"
        for place in PLACES
        if trial.account.chars.get(place) or place == "nowhere"
    ]
    if trial.account.total:
        parts.append(("\nIts text goes to: " + ", ".join(shares), "$tone-muted"))
    for conversation in trial.shown:
        name = one_line(conversation.external_id, _MAX_NAME_CHARACTERS)
        parts.append((f"\n\n{name}", "$tone-accent"))
        for message in conversation.messages[:_MAX_MESSAGES_SHOWN]:
            parts.append((f"\n{message.role:>{_ROLE_COLUMNS}}  ", "$tone-muted"))
            parts.append(one_line(message.content, PATH_LIMIT))
            parts += [
                (f" calls {short_name(call.name)}", "$tone-call") for call in message.tool_calls
            ]
        more = len(conversation.messages) - _MAX_MESSAGES_SHOWN
        if more > 0:
            parts.append((f"\n{'':>{_ROLE_COLUMNS}}  and {more:,} more", "$tone-muted"))
    return Content.assemble(*parts)
