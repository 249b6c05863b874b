"""Dialogs that show one long text, with search and copy: the quarantine, shared text, the account of an import, what
would be sent to an endpoint, the replies to a prompt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical

from engine.base.errors import WorkbenchError
from engine.base.number_format import counted
from engine.conversations.records import QuarantineRow
from engine.conversations.service import stored_accounts
from engine.conversations.shared_text import SharedText
from engine.opener.conversations import ConversationService
from engine.opener.open_project import OpenProject
from screens.shell.dialogs import Dialog, key_hints
from screens.shell.exporting import copy
from screens.widgets.background import background
from screens.widgets.controls import titled
from screens.widgets.finding import FindLine, TextPane

if TYPE_CHECKING:
    from engine.opener.model_previews import PromptTrial

MAX_RECORDS = 200
"""Most records that are shown; `workbench status` counts all."""
MAX_RECORD_CHARACTERS = 2_000


def reading_keys(closing: str, *others: Binding) -> list[BindingType]:
    """Returns the bindings of a `ReadingDialog`. Each dialog has its own, so that a keymap can give each other keys.

    Args:
        closing: The key that opened the dialog, which closes it too.
    """
    return [
        Binding("escape", "leave", "Close"),
        Binding(f"q,{closing}", "dismiss(None)", "Close at once"),
        *others,
        Binding("slash", "find", "Find"),
        Binding("n", "hit(1)", "Next hit"),
        Binding("N", "hit(-1)", "Previous hit"),
        Binding("y", "copy", "Copy"),
    ]


class ReadingDialog(Dialog[None]):
    """Base of the dialogs that show a text: a subclass has a title and reads the text."""

    AUTO_FOCUS = "TextPane"
    TITLE: ClassVar[str] = ""
    TEXT_NAME: ClassVar[str]
    """Name of the text, for the notice after copying."""
    OWN_HINTS: ClassVar[tuple[tuple[str, str], ...]] = ()
    """Keys and meanings that this dialog adds to the last line."""

    def read_text(self) -> str:
        """Returns the text to show. Called on another thread, so it may take long.

        Raises:
            WorkbenchError: The text cannot be read; the error is shown in its place.
        """
        raise NotImplementedError

    def title_line(self) -> str:
        """Returns the title on the border."""
        return self.TITLE

    def compose(self) -> ComposeResult:
        """Yields the text, the line to find something in it, and the keys."""
        with titled(Vertical(classes="dialog tall"), self.title_line()):
            pane = TextPane()
            yield pane
            yield FindLine(pane)
            yield key_hints(
                ("escape", "closes"),
                ("↑↓", "scroll"),
                ("/", "finds"),
                ("n N", "hits"),
                *self.OWN_HINTS,
                ("y", "copies"),
            )

    def on_mount(self) -> None:
        """Reads the text."""
        show = self.query_one(TextPane).show
        background(self, self.read_text, show, self.show_error, group="text")

    def show_error(self, error: WorkbenchError) -> None:
        """Shows an error in place of the text."""
        self.query_one(TextPane).show(f"{error.message}\n{error.hint}")

    def action_find(self) -> None:
        """Opens the find line."""
        self.query_one(FindLine).open()

    def action_hit(self, delta: int) -> None:
        """Goes to another hit."""
        self.query_one(TextPane).go_to_hit(delta)

    def action_copy(self) -> None:
        """Copies the text."""
        copy(self, self.query_one(TextPane).text, self.TEXT_NAME)

    def action_leave(self) -> None:
        """Closes the find line, or the dialog where the find line is closed already."""
        line = self.query_one(FindLine)
        if line.is_open:
            line.close()
        else:
            self.dismiss(None)


class EgressDialog(ReadingDialog):
    """Shows what would be sent to another machine, with one whole request, before anything is sent."""

    TITLE = "What would leave this machine"
    TEXT_NAME = "what would be sent"
    OWN_HINTS = (("a", "allows"),)
    BINDINGS: ClassVar[list[BindingType]] = reading_keys(
        "ctrl+w", Binding("a", "allow", "Allow it for this project")
    )

    def __init__(self, services: OpenProject, address: str, allow: Callable[[], None]) -> None:
        """Makes a dialog on what would be sent to an endpoint.

        Args:
            address: URL of an endpoint.
            allow: Called when a person allows it.
        """
        super().__init__()
        self._services, self._address, self._allow = services, address, allow

    def read_text(self) -> str:
        """Returns how much would be sent, and one request."""
        from engine.opener.model_previews import egress_preview  # it brings numpy

        return "\n\n".join(egress_preview(self._services, self._address).lines())

    def action_allow(self) -> None:
        """Closes the dialog and lets the work go on."""
        self.dismiss(None)
        self._allow()


class PromptTrialDialog(ReadingDialog):
    """Shows what a model replies to a prompt on a few conversations, groups or pairs; stores nothing."""

    TEXT_NAME = "the replies"
    COUNT = 3
    """Number of conversations, groups or pairs."""
    BINDINGS: ClassVar[list[BindingType]] = reading_keys("r")

    def __init__(self, trial: PromptTrial, model: str) -> None:
        super().__init__()
        self._trial, self._model = trial, model

    def title_line(self) -> str:
        """Returns the prompt and the model."""
        return f"{self._trial.name} with {self._model}"

    def on_mount(self) -> None:
        """Shows that the model is asked, until it has replied; Textual calls that of the base too, which reads."""
        self.query_one(TextPane).show("asking …")

    def read_text(self) -> str:
        """Asks the model, and returns its replies."""
        from engine.opener.model_previews import trial_lines  # it brings numpy

        replies = self._trial.replies([self._model], self.COUNT)
        return "\n".join(trial_lines(replies)) or "There is nothing to try it on."

    def on_unmount(self) -> None:
        """Cancels the requests in flight, which nobody would read."""
        self._trial.interrupt()


class QuarantineDialog(ReadingDialog):
    """Lists the records in the quarantine, in the order of import."""

    TITLE = "Records that could not be imported"
    TEXT_NAME = "the records"
    BINDINGS: ClassVar[list[BindingType]] = reading_keys("Q")

    def __init__(self, conversations: ConversationService) -> None:
        super().__init__()
        self._conversations = conversations

    def read_text(self) -> str:
        """Returns the records as one text."""
        rows = self._conversations.quarantined(MAX_RECORDS)
        return quarantine_text(rows, self._conversations.counts().quarantined)


def quarantine_text(rows: Sequence[QuarantineRow], count: int) -> str:
    """Returns the file, line, reason and text of each record, and how many more of the `count` records there are."""
    if not rows:
        return "The quarantine is empty: every record that was read is a conversation."
    parts = []
    for row in rows:
        where = row.source if row.line is None else f"{row.source}, line {row.line:,}"
        text = row.raw.decode("utf-8", errors="replace")
        shown = text[:MAX_RECORD_CHARACTERS]
        if len(text) > MAX_RECORD_CHARACTERS:
            shown += f"\n(and {len(text) - MAX_RECORD_CHARACTERS:,} characters)"
        parts.append(f"{where}: {row.reason}\n{shown.rstrip()}")
    if count > len(rows):
        parts.append(f"and {count - len(rows):,} more")
    return "\n\n".join(parts)


class SharedTextDialog(ReadingDialog):
    """Shows each shared text, and how many conversations contain it; those that make up most words come first."""

    TITLE = "Text that many conversations share"
    TEXT_NAME = "the texts"
    BINDINGS: ClassVar[list[BindingType]] = reading_keys("B")

    def __init__(self, shared: SharedText) -> None:
        super().__init__()
        self._shared = shared

    def read_text(self) -> str:
        """Returns the shared texts as one text."""
        return shared_text_report(self._shared)


def shared_text_report(shared: SharedText) -> str:
    """Returns each shared text, and how many of the conversations that were searched contain it."""
    if not shared:
        return "There is no text that many conversations share."
    searched = counted(shared.looked_at, "conversation")
    parts = [
        f"Lists, words, labels and vectors of goals leave out these texts, found in {searched}."
        " The reader shows them, and search finds them."
    ]
    parts += [
        f"── the {text.role}, in {text.conversations:,} of {shared.looked_at:,}\n{text.text}"
        for text in shared.shown
    ]
    return "\n\n".join(parts)


class SourcesDialog(ReadingDialog):
    """Shows what was read from each source."""

    TITLE = "What was read from each source"
    TEXT_NAME = "the account"
    BINDINGS: ClassVar[list[BindingType]] = reading_keys("A")

    def __init__(self, conversations: ConversationService) -> None:
        super().__init__()
        self._conversations = conversations

    def read_text(self) -> str:
        """Returns the account of each import."""
        return stored_accounts(self._conversations.reports(), self._conversations.checks())
