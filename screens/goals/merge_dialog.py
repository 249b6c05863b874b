"""Merging two groups by hand, away from the desk: what speaks for it, and under which label."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, Static

from engine.records.goals import Proposal
from engine.text import one_line
from screens.goals import formatting
from screens.shell.dialogs import Dialog, hint_line


class MergeDialog(Dialog[str | None]):
    """Shows two groups and what they would be as one; answers with the label of the merged group."""

    PLACE = "merge"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "Leave")]

    def __init__(self, proposal: Proposal) -> None:
        super().__init__()
        self._proposal = proposal

    def compose(self) -> ComposeResult:
        """Both groups, the label, the evidence, keys."""
        proposal = self._proposal
        with Vertical(classes="dialog") as box:
            box.border_title = "Merge by hand"
            lines = [
                Content.assemble(
                    (f"{letter}  {formatting.label_of(group, 60)}  ", "bold"),
                    formatting.group_line(group),
                )
                for letter, group in (("A", proposal.a), ("B", proposal.b))
            ]
            yield Static(Content("\n").join(lines))
            yield Input(one_line(formatting.label_for(proposal)), placeholder="label of both")
            yield Static(formatting.evidence_content(proposal, None, formatting.NARROW))
            yield Static(hint_line(("enter", "merges; u undoes it"), ("escape", "leaves it")))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter answers; not without a label."""
        label = " ".join(event.value.split())
        if label:
            self.dismiss(label)
