"""What two groups would be as one: the label, edited where it stands, and what speaks for and against."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Static

from engine.records.goals import Pair, Proposal, ReviewProgress
from engine.text import one_line
from screens.goals import formatting
from screens.widgets.keyed import Keyed


class LabelInput(Keyed, Input):
    """The proposed label while it is edited, where it stands."""

    PLACE = "label"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Leave", tooltip="Leave the label as it was")
    ]

    class Left(Message):
        """The label stays as it was."""

    def action_leave(self) -> None:
        """Gives up."""
        self.post_message(self.Left())


class MergedPane(VerticalScroll):
    """Shows a proposal; what is written as its label is told by `Labelled`."""

    DEFAULT_CSS = """
    MergedPane { height: 1fr; }
    MergedPane #label, MergedPane #evidence { height: auto; }
    MergedPane #edit, MergedPane #edit:focus { height: 1; border: none; padding: 0; background: $panel; }
    """

    class Labelled(Message):
        """The label was written, for the pair that it was asked for; None when it was left as it was."""

        def __init__(self, pair: Pair, label: str | None) -> None:
            super().__init__()
            self.pair, self.label = pair, label

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id, classes="section")
        self._proposal: Proposal | None = None
        self._progress: ReviewProgress | None = None
        self._own: str | None = None
        self._edited: Pair | None = None

    def compose(self) -> ComposeResult:
        """Label, its input, evidence."""
        yield Static(id="label")
        yield LabelInput(id="edit")
        yield Static(id="evidence")

    def on_mount(self) -> None:
        """Nothing is edited yet."""
        self.query_one(LabelInput).display = False

    def show(self, proposal: Proposal, progress: ReviewProgress | None, own: str | None) -> None:
        """Shows a proposal, under the person's own label if there is one; the place in the text stays."""
        self._proposal, self._progress, self._own = proposal, progress, own
        label = formatting.label_for(proposal) if own is None else own
        whose = "yours" if own is not None else "the larger one's"
        if own is None and formatting.named_by_model(proposal):
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
        """Breaks the lines again."""
        self._show_evidence()

    def _show_evidence(self) -> None:
        if self._proposal is not None:
            width = self.scrollable_content_region.width
            evidence = formatting.evidence_content(self._proposal, self._progress, width)
            self.query_one("#evidence", Static).update(evidence)

    # The label

    def edit_label(self) -> None:
        """Puts the cursor into the label."""
        proposal = self._proposal
        if proposal is None:
            return
        self._edited = proposal.pair
        line = self.query_one(LabelInput)
        line.value = one_line(self._own or formatting.label_for(proposal))
        line.display = True
        self.query_one("#label").display = False
        self.scroll_home(animate=False)
        line.focus()

    def _leave(self, label: str | None) -> None:
        pair, self._edited = self._edited, None
        self.query_one(LabelInput).display = False
        self.query_one("#label").display = True
        if pair is not None:
            self.post_message(self.Labelled(pair, label))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter takes the label; an empty one leaves it as it was."""
        event.stop()
        self._leave(" ".join(event.value.split()) or None)

    def on_label_input_left(self) -> None:
        """Escape leaves it as it was."""
        self._leave(None)
