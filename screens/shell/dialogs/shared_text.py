"""The dialog with the texts that many conversations share, whole."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content

from engine.base.number_format import counted
from engine.conversations.shared_text import SharedText
from screens.shell.dialogs.reading import ReadingDialog
from screens.widgets.text.pane import TextPane


class SharedTextDialog(ReadingDialog):
    """Shows each shared text with the number of conversations that contain it, those of most words in sum first."""

    WHAT = "the texts"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Close"),
        Binding("q,B", "dismiss(None)", "Close at once"),
        Binding("slash", "find", "Find"),
        Binding("n", "hit(1)", "Next hit"),
        Binding("N", "hit(-1)", "Previous hit"),
        Binding("y", "copy", "Copy"),
    ]

    def __init__(self, shared: SharedText) -> None:
        super().__init__()
        self._shared = shared

    def title_line(self) -> Content:
        """What it is."""
        return Content("Text that many conversations share")

    def on_mount(self) -> None:
        """Shows the texts."""
        self.query_one(TextPane).show(shared_text_text(self._shared))


def shared_text_text(shared: SharedText) -> str:
    """Each text, and how many of the conversations looked at contain it."""
    if not shared:
        return "There is no text that many conversations share."
    looked_at = counted(shared.looked_at, "conversation")
    parts = [
        f"Lists, words, labels and vectors of goals leave out these texts, found in {looked_at}."
        " The reader shows them, and search finds them."
    ]
    parts += [
        f"── the {one.role}, in {one.conversations:,} of {shared.looked_at:,}\n{one.text}"
        for one in shared.shown
    ]
    return "\n\n".join(parts)
