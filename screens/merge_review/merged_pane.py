"""The merged group of a proposal: its label, which can be edited in place, and the evidence."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Static

from engine.base.text import one_line
from engine.goals.records import Pair, Proposal, ReviewProgress
from screens.widgets.controls import LineInput
from screens.widgets.groups import evidence_content, label_is_models, proposed_label
from screens.widgets.keyed import Keyed


class LabelInput(Keyed, LineInput):
    """The line in which the label of the merged group is edited."""

    PLACE = "label"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Leave", tooltip="Keep the label as it was")
    ]

    class Exited(Message):
        """Posted when the edit is cancelled."""

    def action_leave(self) -> None:
        """Cancels the edit."""
        self.post_message(self.Exited())


class MergedPane(VerticalScroll):
    """Shows the evidence of a proposal under the label of the merged group; posts `Labelled` after an edit."""

    DEFAULT_CSS = """
    MergedPane { height: 1fr; }
    MergedPane #label, MergedPane #evidence { height: auto; }
    MergedPane #edit, MergedPane #edit:focus { height: 1; border: none; padding: 0; background: $panel; }
    """

    class Labelled(Message):
        """The label of a pair was edited; `label` is None where it stays as it was."""

        def __init__(self, pair: Pair, label: str | None) -> None:
            super().__init__()
            self.pair, self.label = pair, label

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id, classes="section")
        self._proposal: Proposal | None = None
        self._progress: ReviewProgress | None = None
        self._own: str | None = None
        self._editing: Pair | None = None

    def compose(self) -> ComposeResult:
        """Label, its input, evidence."""
        yield Static(id="label")
        yield LabelInput(id="edit")
        yield Static(id="evidence")

    def on_mount(self) -> None:
        """Hides the input until the label is edited; says that the first pair is being read."""
        self.query_one(LabelInput).display = False
        self.wait()

    def show(self, proposal: Proposal, progress: ReviewProgress | None, own: str | None) -> None:
        """Shows a proposal and keeps the scroll position; `own` is the label that the person wrote."""
        self._proposal, self._progress, self._own = proposal, progress, own
        label = proposed_label(proposal) if own is None else own
        whose = "yours" if own is not None else "that of the larger group"
        if own is None and label_is_models(proposal):
            whose = "the model's"
        self.border_title = Content(f"Merged · label: {whose}")
        tone = "bold $tone-bright" if own is not None else "bold"
        self.query_one("#label", Static).update(Content.styled(one_line(label), tone))
        self._show_evidence()

    def wait(self) -> None:
        """Says that the next pair is being read."""
        waiting = Content.styled("reading the next pair …", "$tone-muted")
        self.query_one("#label", Static).update(waiting)

    def on_resize(self) -> None:
        """Breaks the lines for the new width."""
        self._show_evidence()

    def _show_evidence(self) -> None:
        if self._proposal is not None:
            width = self.scrollable_content_region.width
            evidence = evidence_content(self._proposal, self._progress, width)
            self.query_one("#evidence", Static).update(evidence)

    # The label

    def edit_label(self) -> None:
        """Begins to edit the label."""
        proposal = self._proposal
        if proposal is None:
            return
        self._editing = proposal.pair
        line = self.query_one(LabelInput)
        line.value = one_line(self._own or proposed_label(proposal))
        line.display = True
        self.query_one("#label").display = False
        self.scroll_home(animate=False)
        line.focus()

    def _leave(self, label: str | None) -> None:
        pair, self._editing = self._editing, None
        self.query_one(LabelInput).display = False
        self.query_one("#label").display = True
        if pair is not None:
            self.post_message(self.Labelled(pair, label))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter takes the label, unless it is empty."""
        event.stop()
        self._leave(" ".join(event.value.split()) or None)

    def on_label_input_exited(self) -> None:
        """Escape keeps the label as it was."""
        self._leave(None)
