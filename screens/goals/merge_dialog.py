"""The dialog that merges two groups by hand: both groups, the evidence, the label."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, Static

from engine.base.text import one_line
from engine.goals.records import Proposal
from screens.shell.dialogs import Dialog, hint_line
from screens.widgets.controls import LineInput
from screens.widgets.groups import NARROW, evidence_content, group_line, label_of, proposed_label


class MergeDialog(Dialog[str | None]):
    """Shows two groups and the evidence for merging them; answers with the label of the merged group."""

    PLACE = "merge"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "Leave")]

    def __init__(self, proposal: Proposal) -> None:
        super().__init__()
        self._proposal = proposal

    def compose(self) -> ComposeResult:
        """Both groups, the label, the evidence, the keys."""
        proposal = self._proposal
        with Vertical(classes="dialog") as box:
            box.border_title = "Merge by hand"
            lines = [
                Content.assemble(
                    (f"{letter}  {label_of(group, 60)}  ", "bold"),
                    group_line(group),
                )
                for letter, group in (("A", proposal.a), ("B", proposal.b))
            ]
            yield Static(Content("\n").join(lines))
            yield LineInput(one_line(proposed_label(proposal)), placeholder="label of both")
            yield Static(evidence_content(proposal, None, NARROW))
            yield Static(hint_line(("enter", "merges; u undoes it"), ("escape", "cancels")))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter answers, unless the label is empty."""
        label = " ".join(event.value.split())
        if label:
            self.dismiss(label)
