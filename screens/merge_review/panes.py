"""The panes of a merge proposal: one group with its figures and members, and the group that a merge would make; and the
state of the desk as text: what is decided, what is left, what the model was not asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Static

from engine.base import number_format
from engine.base.text import one_line
from engine.goals.records import (
    ClusteringSummary,
    GoalDecision,
    GoalGroup,
    GroupExamples,
    Pair,
    Proposal,
    ReviewProgress,
)
from screens.widgets.controls import LineInput, titled
from screens.widgets.empty_state import CLUSTER, EmptyState
from screens.widgets.formatting import agreement_piece
from screens.widgets.groups import (
    GLYPHS,
    LONG_LABEL_LIMIT,
    DistinctMember,
    Piece,
    decision_text,
    distinct,
    evidence_content,
    group_line,
    is_label_of_model,
    label_of,
    member_lines,
    proposed_label,
)
from screens.widgets.keyed import Keyed

MIN_PER_PAGE = 4
"""Fewest members of either kind on one page; there are more where they fit."""
MIN_MEMBER_CELLS = 8
"""Fewest cells in which the text of a member is wrapped."""


class SidePane(Vertical):
    """Shows a group with its members; the same group again keeps the scroll position."""

    DEFAULT_CSS = """
    SidePane { border: round $tone-frame; border-title-color: $tone-bright; border-title-style: bold; padding: 0 1; }
    SidePane:focus-within { border: round $tone-accent; }
    SidePane .head { height: 1; text-wrap: nowrap; text-overflow: ellipsis; }
    SidePane VerticalScroll { height: 1fr; scrollbar-gutter: stable; }
    SidePane .members { height: auto; }
    """

    def __init__(self, letter: str, *, id: str) -> None:
        super().__init__(id=id)
        self._letter = letter
        self._group: GoalGroup | None = None
        self._members = GroupExamples((), ())
        self._central: list[DistinctMember] = []
        self._doubtful: list[DistinctMember] = []
        self._page = 0
        self._page_size = MIN_PER_PAGE

    def compose(self) -> ComposeResult:
        """Yields the figures and members."""
        yield Static(classes="head")
        with VerticalScroll():
            yield Static(classes="members")

    def show(self, group: GoalGroup, members: GroupExamples) -> None:
        """Shows a group with its members."""
        is_same = self._group is not None and self._group.id == group.id
        is_changed = not is_same or self._members != members
        self._group, self._members = group, members
        self._central, self._doubtful = distinct(members.central), distinct(members.doubtful)
        titled(self, f"{self._letter}  {label_of(group, LONG_LABEL_LIMIT)}")
        self.query_one(".head", Static).update(group_line(group))
        if not is_same:
            self._page = 0
            self.query_one(VerticalScroll).scroll_home(animate=False)
        if is_changed:
            self._show_members()

    def next_page(self) -> None:
        """Shows the next page of members, after the last page the first."""
        self._page = (self._page + 1) % self._page_count
        self.query_one(VerticalScroll).scroll_home(animate=False)
        self._show_members()

    def on_resize(self) -> None:
        """Breaks the lines for the new width."""
        self.call_after_refresh(self._show_members)

    @property
    def _page_count(self) -> int:
        """Number of pages of members."""
        longest = max(len(self._central), len(self._doubtful))
        return max(1, -(-longest // self._page_size))

    def _on_page(self, members: Sequence[DistinctMember]) -> Sequence[DistinctMember]:
        """Returns those of the central or of the doubtful members that are on the present page."""
        return members[self._page * self._page_size : (self._page + 1) * self._page_size]

    def _doubtful_on_page(self) -> list[DistinctMember]:
        """Returns the doubtful members of the page, without those shown as central above them."""
        central_ids = {shown.member.conversation_id for shown in self._on_page(self._central)}
        return [
            doubtful
            for doubtful in self._on_page(self._doubtful)
            if doubtful.member.conversation_id not in central_ids
        ]

    def _show_members(self) -> None:
        """Shows as many members as fit into the pane."""
        if self._group is not None:
            room = self.query_one(VerticalScroll).scrollable_content_region
            width = max(MIN_MEMBER_CELLS, room.width)
            self._page_size = self._fitting_page_size(width, room.height)
            self._page %= self._page_count
            self.query_one(".members", Static).update(self._content(width))

    def _fitting_page_size(self, width: int, height: int) -> int:
        """Returns the most members of either kind that fit on the first page, at least `MIN_PER_PAGE`; later pages may
        have to scroll."""

        def measured(members: Sequence[DistinctMember], *, doubtful: bool) -> list[tuple[int, int]]:
            """Returns the conversation of each member, and how many lines the member fills."""
            return [
                (
                    member.conversation_id,
                    len(member_lines(member, width, doubtful=doubtful, copies=copies)),
                )
                for member, copies in members
            ]

        central = measured(self._central, doubtful=False)
        doubtful = measured(self._doubtful, doubtful=True)
        size = MIN_PER_PAGE
        while size < max(len(central), len(doubtful)):
            central_lines = dict(central[: size + 1])
            # as in `_doubtful_on_page`
            others = [lines for key, lines in doubtful[: size + 1] if key not in central_lines]
            titles = 1 + bool(others)
            if sum(central_lines.values()) + sum(others) + titles > height:
                break
            size += 1
        return size

    def _content(self, width: int) -> Content:
        """Returns the members on the page, the doubtful ones below the central ones."""
        size = self._group.size if self._group is not None else 0
        page = f" · page {self._page + 1}/{self._page_count}" if self._page_count > 1 else ""
        lines: list[Content] = []
        for name, members in (
            ("central", self._on_page(self._central)),
            ("doubtful", self._doubtful_on_page()),
        ):
            if not members:
                continue
            count = sum(copies for _, copies in members)
            which = f" {count} of {size:,}{page}" if size > count else ""
            lines.append(Content.assemble((name, "bold"), (which, "$tone-muted")))
            for member, copies in members:
                lines += member_lines(member, width, doubtful=name == "doubtful", copies=copies)
        return Content("\n").join(lines)


class LabelInput(Keyed, LineInput):
    """The line in which the label of the merged group is edited. Posts `Cancelled` on escape."""

    PLACE = "label"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Leave", tooltip="Keep the label as it was")
    ]

    class Cancelled(Message):
        """Posted when the edit is cancelled."""

    def action_leave(self) -> None:
        """Cancels the edit."""
        self.post_message(self.Cancelled())


class MergedPane(VerticalScroll):
    """Shows the evidence of a proposal under the label of the merged group; posts `Labeled` after an edit."""

    DEFAULT_CSS = """
    MergedPane { height: 1fr; }
    MergedPane #label, MergedPane #evidence { height: auto; }
    MergedPane #edit, MergedPane #edit:focus { height: 1; border: none; padding: 0; background: $panel; }
    """

    class Labeled(Message):
        """The label of a pair was edited; `label` is None where it stays as it was."""

        def __init__(self, pair: Pair, label: str | None) -> None:
            super().__init__()
            self.pair, self.label = pair, label

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id, classes="section")
        self._proposal: Proposal | None = None
        self._progress: ReviewProgress | None = None
        self._written_label: str | None = None
        self._editing: Pair | None = None

    def compose(self) -> ComposeResult:
        """Yields the label, the line to edit it, and the evidence."""
        yield Static(id="label")
        yield LabelInput(id="edit")
        yield Static(id="evidence")

    def on_mount(self) -> None:
        """Hides the input until the label is edited, and says that a pair is being read."""
        self.query_one(LabelInput).display = False
        self.wait()

    def show(
        self, proposal: Proposal, progress: ReviewProgress | None, written_label: str | None
    ) -> None:
        """Shows a proposal and keeps the scroll position.

        Args:
            written_label: The label that the person wrote; None shows the proposed one.
        """
        self._proposal, self._progress, self._written_label = proposal, progress, written_label
        label = proposed_label(proposal) if written_label is None else written_label
        whose = "yours" if written_label is not None else "that of the larger group"
        if written_label is None and is_label_of_model(proposal):
            whose = "the model's"
        titled(self, f"Merged · label: {whose}")
        tone = "bold $tone-bright" if written_label is not None else "bold"
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
        """Shows the evidence in the present width."""
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
        line.value = one_line(self._written_label or proposed_label(proposal))
        line.display = True
        self.query_one("#label").display = False
        self.scroll_home(animate=False)
        line.focus()

    def _end_edit(self, label: str | None) -> None:
        """Ends the edit and posts the new label; None leaves the label as it was."""
        pair, self._editing = self._editing, None
        self.query_one(LabelInput).display = False
        self.query_one("#label").display = True
        if pair is not None:
            self.post_message(self.Labeled(pair, label))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter takes the label, unless it is empty."""
        event.stop()
        self._end_edit(" ".join(event.value.split()) or None)

    def on_label_input_cancelled(self) -> None:
        """Escape keeps the label as it was."""
        self._end_edit(None)


# The state of the desk


def counts_content(progress: ReviewProgress, groups: int, skipped: int) -> Content:
    """Returns how many pairs are decided, of how many groups pairs are left, how many of those are probably to be
    merged, and how many are skipped."""
    parts: list[Piece] = [_decided(progress)]
    if progress.asking:
        parts.append((" · asking …", "$tone-accent"))
    if progress.to_review and not progress.left:
        parts.append((f" · {progress.to_review:,} of the model to review", "bold"))
    else:
        parts += [
            (f" · {number_format.counted(progress.left, 'pair')} left", "bold"),
            f" of {number_format.counted(groups, 'group')}, about {progress.to_merge:,.0f} to merge",
        ]
    if skipped:
        parts.append((f" · {skipped} skipped", "$tone-muted"))
    return Content.assemble(*parts)


def _decided(progress: ReviewProgress) -> str:
    """Returns how many pairs were merged and refused; where the rule or a model merged or refused any, who merged."""
    refused = progress.refused + progress.refused_by_rule + progress.refused_by_model
    merged_by = []
    if progress.merged_by_rule + progress.refused_by_rule:
        merged_by.append((progress.merged_by_rule, "the rule"))
    if progress.merged_by_model + progress.refused_by_model:
        merged_by.append((progress.merged_by_model, "the model"))
    if not merged_by:
        return f"{progress.merged:,} merged, {refused:,} refused"
    (first_count, first), *others = [*merged_by, (progress.merged, "you")]
    parts = [
        f"{first_count:,} merged by {first}",
        *(f"{count:,} by {who}" for count, who in others),
    ]
    return f"{', '.join(parts)}, {refused:,} refused"


def status_content(progress: ReviewProgress) -> Content:
    """Returns the agreement of model and person, and the model calls that are left, or that no model can be asked."""
    parts: list[Piece] = []
    if progress.agreement.n:
        parts += ["model agrees ", agreement_piece(progress.agreement)]
    gap = " · " if parts else ""
    if not progress.can_ask:
        how = "choose one on screen 8 with u"
        parts.append((f"{gap}no model that follows instructions: {how}", "$tone-muted"))
    elif progress.unasked:
        calls = number_format.counted(progress.calls, "model call")
        wait = (
            f", {number_format.duration(progress.seconds)}" if progress.seconds is not None else ""
        )
        pairs = number_format.counted(progress.unasked, "pair")
        parts.append((f"{gap}model not asked about {pairs}: {calls}{wait}", "$tone-muted"))
    return Content.assemble(*parts)


def recent_content(decisions: Sequence[GoalDecision]) -> Content:
    """Returns the latest decisions, a line each; those that were undone are dimmed."""
    lines = []
    for decision in decisions:
        tone = "" if decision.active else "$tone-muted"
        undone = "" if decision.active else " (undone)"
        sign = (f"{GLYPHS[decision.kind]} ", tone or "$tone-accent")
        lines.append(Content.assemble(sign, (decision_text(decision) + undone, tone)))
    return Content("\n").join(lines)


def empty_state(shown: ClusteringSummary | None, progress: ReviewProgress | None) -> EmptyState:
    """Returns why there is no proposal, and what to do."""
    if shown is None or progress is None:
        return replace(
            CLUSTER, message="Nothing to merge: the conversations are not in groups yet."
        )
    enter_label = "shows the groups"
    if not progress.finished:
        message = "No proposal is ready yet; the next ones are being computed."
        return EmptyState(message, enter_label, "app.switch_mode('goals')")
    return EmptyState(
        f"Done: every current pair was refused.\n{_decided(progress)};"
        f" {number_format.counted(shown.groups, 'group')} remain.",
        enter_label,
        "app.switch_mode('goals')",
        others=(
            ("desk.history", "shows what was decided"),
            ("desk.undo", "undoes your newest decision"),
        ),
    )
