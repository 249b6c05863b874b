"""Proposed shards, which a person approves: each with the span of the instruction that it covers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from engine.base.text import display_safe, one_line
from engine.opener.open_project import OpenProject
from engine.simulate.draft import Candidate, Draft, State
from engine.simulate.service.sharded import DraftsFile
from screens.shell.dialogs import TextDialog
from screens.shell.title_line import TitleLine
from screens.shell.workbench_screen import WorkbenchScreen
from screens.widgets.background import write_in_order
from screens.widgets.jobs import EngineFeed
from screens.widgets.row_table import Column, ItemTable, Piece, RowTable

Placed = tuple[int, Candidate]
"""The place of a shard in its instruction, from 1, and the shard."""
AUTHORS = {"model": "model", "text": "as in the text", "person": "you"}
"""How the list names who worded a shard."""

SIGNS: dict[State, tuple[str, str]] = {
    "proposed": ("○ waits for you", "$tone-borderline"),
    "approved": ("● approved", "$tone-complete"),
    "rejected": ("✗ rejected", "$tone-incomplete"),
}
"""The sign and the tone of each state."""


class ShardsScreen(WorkbenchScreen[None]):
    """Goes through drafts: approve, edit, move, leave out, reject; every change is in the file at once."""

    PLACE = "shards"
    CSS_PATH = "simulation.tcss"
    AUTO_FOCUS = "#shards"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a", "decide('approved')", "Approve", tooltip="Approve, and go to the next open one"),
        Binding("r", "decide('rejected')", "Reject", tooltip="Reject, and go to the next open one"),
        Binding("p", "decide('proposed')", "Open again", show=False, tooltip="Take back what was decided"),
        Binding("e", "edit", "Edit", tooltip="Reword the shard under the cursor"),
        Binding("less_than_sign", "move(-1)", "Up", key_display="<", tooltip="Say this shard earlier"),
        Binding("greater_than_sign", "move(1)", "Down", key_display=">", tooltip="Say this shard later"),
        Binding("d", "leave_out", "Leave out", tooltip="Take the shard under the cursor out"),
        Binding("right,right_square_bracket,n", "go(1)", "Next", key_display="← →", tooltip="Next instruction"),
        Binding("left,left_square_bracket,N", "go(-1)", "Before", show=False, tooltip="Instruction before"),
        Binding("escape,q", "leave", "Back", tooltip="Go back; all is in the file"),
    ]  # fmt: skip

    def __init__(
        self, services: OpenProject, feed: EngineFeed, drafts: DraftsFile, mode: str
    ) -> None:
        super().__init__(services, feed, mode)
        self._drafts = drafts
        self._items = drafts.items()
        self._nth = next((n for n, draft in enumerate(self._items) if draft.state == "proposed"), 0)
        self.table = ItemTable(
            _columns(), lambda placed: (self._nth, placed[1].shard_id), id="shards"
        )

    def compose_body(self) -> ComposeResult:
        """Yields which instruction, its text, its shards, what is missing."""
        yield Static(id="summary")
        with VerticalScroll(id="around", can_focus=False):
            yield Static(id="text")
        yield self.table
        yield Static(id="missing")

    def on_mount(self) -> None:
        """Sets the title."""
        super().on_mount()
        self.query_one(TitleLine).say(Content.styled("Shards", "bold"))

    def refresh_data(self) -> None:
        """Shows the draft."""
        draft = self._draft
        if draft is None:
            self.query_one("#summary", Static).update("There is no instruction in this file.")
            return
        self.table.show_items(enumerate(draft.candidates, 1))
        self._show_draft()

    @property
    def _draft(self) -> Draft | None:
        """The instruction that is shown."""
        return self._items[self._nth] if self._items else None

    @property
    def _shard(self) -> Candidate | None:
        """The shard under the cursor."""
        return None if self.table.here is None else self.table.here[1]

    def _show_draft(self) -> None:
        """Shows the instruction, with the place of the shard under the cursor."""
        draft = self._draft
        if draft is not None:
            waiting = sum(other.state == "proposed" for other in self._items)
            self.query_one("#summary", Static).update(
                _summary(draft, self._nth, len(self._items), waiting, self._drafts.path)
            )
            self.query_one("#text", Static).update(text_content(draft, self._shard))
            self.query_one("#missing", Static).update(missing_content(draft))

    def on_row_table_highlighted(self, message: RowTable.Highlighted) -> None:
        """Marks the span of the shard under the cursor."""
        self._show_draft()

    def on_row_table_opened(self, message: RowTable.Opened) -> None:
        """Asks for another wording of the shard."""
        self.action_edit()

    # Changes

    def action_go(self, by: int) -> None:
        """Shows another instruction."""
        if self._items:
            self._nth = (self._nth + by) % len(self._items)
            self.table.action_move_to(0)
            self.refresh_data()

    def action_decide(self, state: State) -> None:
        """Decides on the instruction, and goes to the next one that waits."""
        nth = self._nth

        def then() -> None:
            order = [*range(nth + 1, len(self._items)), *range(nth)]
            waiting = next((n for n in order if self._items[n].state == "proposed"), None)
            if state != "proposed" and waiting is not None and self._nth == nth:
                self.action_go(waiting - nth)

        self._act(lambda: self._drafts.decide(nth, state), then)

    def action_edit(self) -> None:
        """Asks for another wording of the shard."""
        shard, nth = self._shard, self._nth
        if shard is None:
            return

        def chosen(text: str | None) -> None:
            if text is not None and text.strip() and text.strip() != shard.text:
                self._act(lambda: self._drafts.edit(nth, shard.shard_id, text.strip()))

        self.app.push_screen(TextDialog("New wording", value=shard.text, adding=True), chosen)

    def action_move(self, by: int) -> None:
        """Moves the shard."""
        shard, nth = self._shard, self._nth
        if shard is not None:
            self._act(lambda: self._drafts.move(nth, shard.shard_id, by))

    def action_leave_out(self) -> None:
        """Takes the shard out."""
        shard, nth = self._shard, self._nth
        if shard is not None:
            self._act(lambda: self._drafts.leave_out(nth, shard.shard_id))

    def _act(self, change: Callable[[], Draft], then: Callable[[], None] | None = None) -> None:
        """Makes a change in the file, in the order of the keys, and shows what is there then."""
        nth = self._nth

        def changed(draft: Draft) -> None:
            self._items[nth] = draft
            if then is not None:
                then()
            self.refresh_data()

        write_in_order(self, change, changed, self.show_error)

    def action_leave(self) -> None:
        """Goes back."""
        self.dismiss(None)


def _columns() -> list[Column[Placed]]:
    """Returns the columns of the list of shards."""

    def text(placed: Placed) -> Sequence[Piece]:
        return [(one_line(placed[1].text, 400) or "(empty)", "")]

    def by(placed: Placed) -> Sequence[Piece]:
        return [(AUTHORS.get(placed[1].by, placed[1].by), "tone--muted")]

    return [
        Column("nr", "", 3, lambda placed: [(str(placed[0]), "tone--muted")], right=True),
        Column("shard", "shard, the first opens", 20, text, flexible=True),
        Column("by", "worded by", 14, by, keep=3),
    ]


def _summary(draft: Draft, nth: int, many: int, waiting: int, path: str) -> Content:
    """Returns which instruction of how many this is, its state, and how many wait."""
    sign, tone = SIGNS[draft.state]
    cut = "cut by the model" if draft.segmented else "cut at its sentences"
    return Content.assemble(
        (f"{nth + 1} of {many} ", "$tone-accent"),
        (one_line(draft.task_id, 40), "bold"),
        " ",
        (sign, tone),
        (
            f" · {one_line(draft.task, 20)} · {cut} · {waiting:,} wait · {one_line(path, 60)}",
            "$tone-muted",
        ),
    )


def text_content(draft: Draft, shard: Candidate | None) -> Content:
    """Returns the instruction; the span of the shard is bright, what no shard covers is marked."""
    covered = sorted(candidate.piece for candidate in draft.candidates)
    edges = {0, len(draft.text), *(edge for span in covered for edge in span)}
    cuts = sorted(edge for edge in edges if 0 <= edge <= len(draft.text))
    parts: list[tuple[str, str]] = []
    for start, end in pairwise(cuts):
        here = shard is not None and shard.piece.start <= start and end <= shard.piece.end
        is_covered = any(first <= start and end <= other for first, other in covered)
        piece = display_safe(draft.text[start:end])
        gap = piece.strip() and not is_covered
        style = "bold $tone-tab on $tone-tab-back" if here else "$tone-incomplete" if gap else ""
        parts.append((piece, style))
    return Content.assemble(*parts)


def missing_content(draft: Draft) -> Content:
    """Returns the reasons against these shards: words that no shard covers, what the model misses, lost score."""
    parts: list[Content] = []
    if draft.lost:
        lost = one_line(", ".join(draft.lost), 300)
        parts.append(Content.assemble(("In no shard: ", "$tone-incomplete"), lost))
    if draft.missing:
        missing = one_line(draft.missing, 300)
        parts.append(Content.assemble(("The model misses: ", "$tone-borderline"), missing))
    if draft.check:
        full, concat = draft.check["full"], draft.check["concat"]
        scores = f"Played: FULL {100 * full:.0f}, CONCAT {100 * concat:.0f}"
        tone = "$tone-complete" if draft.holds else "$tone-incomplete"
        verdict = "they lose little" if draft.holds else "which is too little"
        parts.append(Content.assemble(f"{scores}, ", (verdict, tone)))
    if not parts:
        missed = "the model misses nothing" if draft.missing == "" else "the model was not asked"
        parts = [Content.styled(f"Every number and name is in a shard; {missed}.", "$tone-muted")]
    return Content("\n").join(parts)
