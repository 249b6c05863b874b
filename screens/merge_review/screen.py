"""The merge desk: one pair of groups at a time, one key for each decision.

A proposal is a pair of groups that may have one goal, with the evidence for that. The proposal in front is shown; those
ahead are read in advance, so that the next one is shown at once while the decision on the last one is being stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar, Literal, TypeVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical
from textual.content import Content
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from engine.base import number_format
from engine.base.errors import UsageError, WorkbenchError
from engine.base.text import short_name
from engine.goals.records import (
    ClusteringSummary,
    GoalDecision,
    GroupExamples,
    Pair,
    Proposal,
    ReviewProgress,
)
from engine.goals.service.merge_review import MergeReviewService
from engine.opener.open_project import OpenProject
from screens.merge_review import panes
from screens.merge_review.history_screen import MergeHistoryScreen
from screens.merge_review.panes import MergedPane, SidePane
from screens.shell.dialogs import Dialog, ask, key_hints
from screens.shell.goal_dialogs import DecisionScreen
from screens.shell.run_form import refusal_content
from screens.shell.title_line import TitleLine
from screens.widgets.background import background, write_in_order
from screens.widgets.controls import Choices, LineInput, titled
from screens.widgets.groups import proposed_label
from screens.widgets.jobs import EngineFeed

AHEAD = 3
"""Proposals that are read in advance."""
MAX_MEMBERS = 24
"""Most members of a group that are read, of each kind; space shows the next ones."""
MAX_RECENT = 12
"""Most decisions that are shown beside the proposal on a wide terminal."""
MAX_LISTED = 500
"""Most pairs that are listed to be merged at once; the count above the list is of all pairs."""
FIRST_PROBABILITY = 0.9
"""Merge probability from which pairs are listed to be merged at once, until another is typed."""

T = TypeVar("T")
"""What storing a decision returns."""


@dataclass(frozen=True, slots=True)
class ShownProposal:
    """A proposal with the members of both groups that are shown beside it."""

    proposal: Proposal
    a: GroupExamples
    b: GroupExamples

    def shares_group(self, pair: Pair) -> bool:
        """Returns whether one of its groups is in `pair`; such a proposal is void once the pair is merged."""
        return bool({*self.proposal.pair} & {*pair})


@dataclass(frozen=True, slots=True)
class ReviewSnapshot:
    """The state of the merge desk when it was read.

    Attributes:
        clustering: The clustering that is reviewed; None before there is one.
        front: The proposal to show; None when none is left.
        ahead: The proposals that follow when the one in front is refused or skipped, in order.
        starts_over: Whether the skipped pairs come again, because only they are left.
        recent: The latest decisions, newest first.
    """

    clustering: ClusteringSummary | None = None
    progress: ReviewProgress | None = None
    front: ShownProposal | None = None
    ahead: tuple[ShownProposal, ...] = ()
    starts_over: bool = False
    recent: tuple[GoalDecision, ...] = ()


@dataclass
class ReviewCursor:
    """The proposals of the merge desk as the person goes through them.

    Attributes:
        front: The proposal that is shown; None while none is.
        ahead: The proposals that follow, in order.
        skipped: The pairs that the person skipped.
        label: The label that the person wrote for the pair in front; None keeps the proposed one.
        front_number: Rises whenever another pair comes to the front; a snapshot that was read before is not shown.
    """

    front: ShownProposal | None = None
    ahead: tuple[ShownProposal, ...] = ()
    skipped: list[Pair] = field(default_factory=list)
    label: str | None = None
    front_number: int = 0

    @property
    def pair(self) -> Pair | None:
        """Ids of the two groups in front."""
        return None if self.front is None else self.front.proposal.pair

    def put(self, shown: ShownProposal | None) -> None:
        """Puts a proposal in front. A pair that is in front already keeps its label and the reason for the proposal."""
        if shown is None or self.front is None or self.pair != shown.proposal.pair:
            self.front_number += 1
            self.label = None
        else:
            why = self.front.proposal.why
            shown = replace(shown, proposal=replace(shown.proposal, why=why))
        self.front = shown

    def decide(self, *, merged: bool) -> None:
        """Puts the next proposal in front after a decision; a merge drops those that share a group with the pair."""
        ahead = self.ahead
        if merged and self.pair is not None:
            ahead = tuple(shown for shown in ahead if not shown.shares_group(self.pair))
        self.ahead = ahead[1:]
        self.put(ahead[0] if ahead else None)

    def skip(self) -> None:
        """Skips the pair in front; it comes again when only skipped pairs are left."""
        if self.pair is not None:
            self.skipped.append(self.pair)
            self.decide(merged=False)


def read_review(
    review: MergeReviewService, skipped: Sequence[Pair], preferred: Pair | None
) -> ReviewSnapshot:
    """Reads the state of the merge desk; not quick.

    Args:
        skipped: Pairs that come only when no other pair is left.
        preferred: The pair to put in front if both of its groups exist.
    """
    goals = review.goals
    clustering = goals.shown()
    if clustering is None:
        return ReviewSnapshot()
    starts_over = False
    proposal = None
    if preferred is not None:
        with suppress(UsageError):  # one of its groups does not exist any more
            proposal = review.pair(*preferred)
    if proposal is None:
        proposal = review.proposal(skipped)
        if proposal is None and skipped:
            starts_over, skipped = True, ()
            proposal = review.proposal(())
    examples: dict[str, GroupExamples] = {}
    shown: list[ShownProposal] = []
    left_out = list(skipped)
    while proposal is not None and len(shown) <= AHEAD:
        for key in proposal.pair:
            if key not in examples:
                examples[key] = goals.examples(key, MAX_MEMBERS)
        shown.append(ShownProposal(proposal, *(examples[key] for key in proposal.pair)))
        left_out.append(proposal.pair)
        proposal = review.proposal(left_out)
    return ReviewSnapshot(
        clustering,
        review.progress(),
        shown[0] if shown else None,
        tuple(shown[1:]),
        starts_over and bool(shown),
        tuple(review.history()[:MAX_RECENT]),
    )


class MergeDeskScreen(DecisionScreen):
    """Two groups side by side with the evidence for merging them; a decision is stored while the next pair is shown."""

    MODE = "desk"
    PLACE = "desk"
    FIRST_KEYS = ("desk.merge", "desk.apart", "desk.undo")
    AUTO_FOCUS = "#side-a VerticalScroll"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "merge", "Merge", tooltip="Merge both under the label shown"),
        Binding("n", "apart", "Apart", tooltip="Keep them apart"),
        Binding("N", "never", "Never", tooltip="Never merge these, not in later clusterings either"),
        Binding("s", "skip", "Skip", tooltip="Skip; it comes again at the end"),
        Binding("e", "edit", "Label", tooltip="Edit the label of the merged group"),
        Binding("space", "swap", "More", tooltip="Show other members of both groups"),
        Binding("a", "open('a')", "Open", key_display="a b", tooltip="Members of A", id="desk.open-a"),
        Binding("b", "open('b')", "Members of B", tooltip="Members of B", id="desk.open-b", show=False),
        Binding("u", "undo", "Undo"),
        Binding("H", "history", "Acts", tooltip="What was decided, step by step"),
        Binding("A", "accept", "All", tooltip="Merge all pairs above a probability", show=False),
        Binding("g", "ask", "Ask", tooltip="Ask the model about the undecided pairs", show=False),
        Binding("q", "app.quit", "Quit", show=False),
    ]  # fmt: skip

    def __init__(self, services: OpenProject, feed: EngineFeed) -> None:
        super().__init__(services, feed)
        self.review = services.merge_review
        self.cursor = ReviewCursor()
        self.progress: ReviewProgress | None = None
        self._clustering: ClusteringSummary | None = None
        self._recent: tuple[GoalDecision, ...] = ()
        self._writes = 0  # number of decisions that are being stored
        self._preferred: Pair | None = None  # the pair to put in front after the next read

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Returns whether an action works now: `ask` does where a model can be asked about pairs."""
        if action == "ask":
            return self.progress is not None and self.progress.can_ask
        return super().check_action(action, parameters)

    def compose_body(self) -> ComposeResult:
        """Yields the counts, status, both groups, evidence and latest decisions; or why there is no proposal."""
        yield Static(id="summary")
        yield Static(id="status")
        with Container(id="main"):
            yield SidePane("A", id="side-a")
            yield SidePane("B", id="side-b")
            with Vertical(id="right"):
                yield MergedPane(id="merged")
                yield titled(Static(id="recent", classes="section"), "Latest decisions")
        yield Static(classes="empty")

    # Reading and writing

    def refresh_data(self) -> None:
        """Reads the proposals again; the pair in front stays."""
        self.read(None)

    def read(self, preferred: Pair | None) -> None:
        """Reads the proposals, once all decisions are stored; `preferred` is the pair to put in front."""
        self._preferred = preferred or self._preferred
        if self._writes:  # the last one reads
            return
        pair = self._preferred or self.cursor.pair
        front_number, skipped = self.cursor.front_number, tuple(self.cursor.skipped)

        def on_result(snapshot: ReviewSnapshot) -> None:
            if front_number == self.cursor.front_number:
                self._preferred = None
                self._show(snapshot)
            else:  # the person decided meanwhile, so this answer is outdated
                self.read(None)

        def on_failure(error: WorkbenchError) -> None:
            self._preferred = None
            self.show_error(error)

        self.in_background(
            lambda: read_review(self.review, skipped, pair),
            on_result,
            group="desk",
            on_error=on_failure,
        )

    def write(
        self,
        work: Callable[[], T],
        then: Callable[[T], None] = lambda _: None,
        back: Pair | None = None,
    ) -> None:
        """Stores a decision by `work`, after earlier ones, and reads the proposals again.

        Args:
            then: Called with what `work` returned.
            back: The pair to put in front when the decision cannot be stored.
        """
        self._writes += 1

        def on_done(result: T) -> None:
            self._writes -= 1
            then(result)
            self.read(None)

        def on_failure(error: WorkbenchError) -> None:
            self._writes -= 1
            self.show_error(error)
            self.read(back)

        write_in_order(self, work, on_done, on_failure)

    # Showing

    def _show(self, snapshot: ReviewSnapshot) -> None:
        """Shows the merge desk as it was read."""
        if snapshot.starts_over:
            self.cursor.skipped.clear()
            self.notify("Only skipped pairs are left; they come again.", markup=False)
        self._clustering, self.progress = snapshot.clustering, snapshot.progress
        self._recent = snapshot.recent
        self.cursor.put(snapshot.front)
        self.cursor.ahead = snapshot.ahead
        self.show_front(complete=True)

    def show_front(self, *, complete: bool = False) -> None:
        """Shows the proposal in front, or why there is none.

        Args:
            complete: Whether no proposal is left where there is none in front; else it is still being read.
        """
        shown = self.cursor.front
        self.set_class(complete and shown is None, "-empty")
        self.set_class(shown is None, "-waiting")
        self._show_progress()
        if shown is not None:
            self._show_proposal(shown)
        elif complete:
            self.show_empty(panes.empty_state(self._clustering, self.progress))
        else:
            self.query_one(MergedPane).wait()
        if self.focused is None and shown is not None:
            self.query_one("#side-a VerticalScroll").focus()

    def _show_proposal(self, shown: ShownProposal) -> None:
        """Shows both groups and the evidence."""
        proposal = shown.proposal
        self.query_one("#side-a", SidePane).show(proposal.a, shown.a)
        self.query_one("#side-b", SidePane).show(proposal.b, shown.b)
        self.query_one(MergedPane).show(proposal, self.progress, self.cursor.label)

    def _show_progress(self) -> None:
        """Shows how many pairs are decided and left, and the latest decisions."""
        progress = self.progress
        summary, status = self.query_one("#summary", Static), self.query_one("#status", Static)
        if progress is None:
            summary.update("")
            status.update("")
            return
        front = self.cursor.front
        title = ""
        if front is not None and front.proposal.reviewed_decision is not None:
            title = f"review, {progress.to_review:,} left"
        elif front is not None:
            by_rule = progress.merged_by_rule + progress.refused_by_rule
            by_model = progress.merged_by_model + progress.refused_by_model
            title = f"proposal {progress.merged + progress.refused + by_rule + by_model + 1:,}"
        self.query_one(TitleLine).say(Content.styled(title, "bold"))
        groups = 0 if self._clustering is None else self._clustering.groups
        summary.update(panes.counts_content(progress, groups, len(self.cursor.skipped)))
        about_model = panes.status_content(progress)
        status.display = bool(about_model)
        status.update(about_model)
        self.query_one("#recent", Static).update(panes.recent_content(self._recent))

    # Decisions on the pair in front

    def _decide(
        self, decision: Callable[[Proposal], Callable[[], GoalDecision]], *, merged: bool
    ) -> None:
        """Decides on the proposal in front and shows the next one; where none is in front, it notifies of that.

        Args:
            decision: Returns the function that stores the decision on a proposal.
            merged: Whether the pair is merged.
        """
        shown = self.cursor.front
        if shown is None:
            if not self.has_class("-empty"):
                self.notify("The next pair is still being read; nothing was decided.", markup=False)
            return
        if not self.may_write():
            return
        work = decision(shown.proposal)
        self.cursor.decide(merged=merged)
        self.write(work, back=shown.proposal.pair)
        self.show_front()

    def action_merge(self) -> None:
        """Merges both groups."""
        written_label = self.cursor.label

        def merge(proposal: Proposal) -> Callable[[], GoalDecision]:
            label = proposed_label(proposal) if written_label is None else written_label
            return partial(self.review.merge, proposal, label)

        self._decide(merge, merged=True)

    def action_apart(self) -> None:
        """Refuses the pair."""
        self._decide(lambda shown: partial(self.review.apart, shown), merged=False)

    def action_never(self) -> None:
        """Refuses the pair, in later clusterings too."""
        self._decide(lambda shown: partial(self.review.apart, shown, never=True), merged=False)

    def action_skip(self) -> None:
        """Shows the next pair without a decision."""
        if self.cursor.front is not None:
            self.cursor.skip()
            self.show_front()
            self.refresh_data()

    def action_edit(self) -> None:
        """Edits the label of the merged group in place."""
        if self.cursor.front is not None:
            self.query_one(MergedPane).edit_label()

    def on_merged_pane_labeled(self, message: MergedPane.Labeled) -> None:
        """Keeps the label for its pair, and puts the focus back on the members."""
        shown = self.cursor.front
        if shown is not None and message.label and message.pair == self.cursor.pair:
            self.cursor.label = message.label
            self._show_proposal(shown)
        self.query_one("#side-a VerticalScroll").focus()

    def action_swap(self) -> None:
        """Shows other members of both groups."""
        for pane in self.query(SidePane):
            pane.next_page()

    # Decisions on many pairs

    def action_accept(self) -> None:
        """Lists the pairs above a probability, to merge them all."""
        if not self.may_write():
            return

        def merge_all(listed: ListedPairs) -> None:
            self.cursor.put(None)  # the pair that is shown may be among them
            self.write(
                lambda: self.review.merge_all(listed.pairs, listed.probability),
                lambda count: self.notify(
                    f"Merged {number_format.counted(count, 'pair')}; u undoes all of it.",
                    markup=False,
                ),
            )

        ask(self, MergeAllDialog(self.review), merge_all)

    def after_undo(self, decision: GoalDecision) -> None:
        """Brings the pair that the decision was about to the front again."""
        if decision.kind in ("merge", "apart", "never", "agree") and len(decision.sides) == 2:
            self.read((decision.sides[0], decision.sides[1]))

    # The model

    def action_ask(self) -> None:
        """Asks the model about the likely pairs that it was not asked about."""
        if not self.may_write():
            return

        def on_start(job: int | None) -> None:
            state = "The model was asked about every pair." if job is None else "Asking the model."
            self.notify(state, markup=False)

        self.in_background(self.review.start_asking, on_start, group="ask")

    # Other screens

    def action_open(self, side: Literal["a", "b"]) -> None:
        """Opens the members of one of the two groups; the pair stays in front."""
        shown = self.cursor.front
        if shown is not None:
            group = shown.proposal.a if side == "a" else shown.proposal.b
            self.app.push_screen(self.routes.members(group.id, self.MODE))

    def action_history(self) -> None:
        """Opens the history of decisions."""
        self.app.push_screen(MergeHistoryScreen(self.services, self.feed, self.MODE))


@dataclass(frozen=True, slots=True)
class ListedPairs:
    """The pairs that a dialog listed for a merge probability, as they were shown."""

    pairs: Sequence[Proposal]
    probability: float


class MergeAllDialog(Dialog[ListedPairs]):
    """Lists the pairs with at least a merge probability, to merge them all; answers with the list when it is
    accepted."""

    PLACE = "accept"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "accept", "Merge them", priority=True),
        Binding("up,down", "list", "List", show=False),
        Binding("escape", "dismiss(None)", "Leave"),
    ]

    def __init__(self, review: MergeReviewService) -> None:
        super().__init__()
        self._review, self._probability = review, FIRST_PROBABILITY
        self._pairs: Sequence[Proposal] = ()

    def compose(self) -> ComposeResult:
        """Yields the probability, the pairs, the keys."""
        title = "Merge all pairs whose merge probability is at least"
        with titled(Vertical(classes="dialog"), title):
            yield LineInput(number_format.probability(self._probability), placeholder=".90")
            yield Static(id="count")
            yield Choices(markup=False)
            keys = (("enter", "merges all"), ("u", "afterwards undoes all"), ("↓", "list"))
            yield key_hints(*keys, ("escape", "leaves"))

    def on_input_changed(self, event: Input.Changed) -> None:
        """Lists the pairs for another probability."""
        self._pairs = ()
        self.workers.cancel_group(self, "listed")  # a search for what was typed before
        p = probability_from(event.value)
        if p is None:
            self._show_count(
                Content.styled("A probability is above 0 and at most 1.", "$tone-incomplete")
            )
            self.query_one(Choices).set_options([])
            return
        self._probability = p
        self._show_count(Content.styled("searching …", "$tone-muted"))
        background(
            self,
            # Where no pair has so high a probability, the highest is said.
            lambda: self._review.above(p) or self._review.above(0)[:1],
            self._list,
            lambda error: self._show_count(refusal_content(error)),
            group="listed",
        )

    def _list(self, found: Sequence[Proposal]) -> None:
        """Lists those of the pairs that have the probability, and says what merging them makes of their groups."""
        pairs = [each for each in found if each.evidence.probability >= self._probability]
        self._pairs = pairs
        count = Content.styled("No pair of groups is undecided.", "$tone-muted")
        if pairs:
            before, after = joined_groups([proposal.pair for proposal in pairs])
            number = number_format.counted(len(pairs), "pair")
            count = Content(f"{number}: {before:,} groups become {after:,}")
        elif found:
            highest = number_format.estimate(found[0].evidence.probability)
            text = f"No pair has so high a probability; the highest is {highest}."
            count = Content.styled(text, "$tone-muted")
        self._show_count(count)
        options = [Option(_pair_line(proposal)) for proposal in pairs[:MAX_LISTED]]
        self.query_one(Choices).set_options(options)

    def _show_count(self, content: Content) -> None:
        """Shows the line above the pairs."""
        self.query_one("#count", Static).update(content)

    def action_list(self) -> None:
        """Moves the focus from the probability to the pairs."""
        self.query_one(Choices).focus()

    def action_accept(self) -> None:
        """Answers if there are pairs on the list."""
        if self._pairs:
            self.dismiss(ListedPairs(self._pairs, self._probability))

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Ignores a click on a pair, which decides nothing."""
        event.stop()


def joined_groups(pairs: Sequence[Pair]) -> tuple[int, int]:
    """Returns how many groups are in some pairs, and how many they are once all pairs are merged."""
    parts: list[set[str]] = []
    for pair in pairs:
        touched = [part for part in parts if not part.isdisjoint(pair)]
        parts = [part for part in parts if part.isdisjoint(pair)]
        parts.append({*pair}.union(*touched))
    return sum(map(len, parts)), len(parts)


def _pair_line(proposal: Proposal) -> Content:
    """Returns the merge probability of a pair, and the labels and sizes of its groups, as a line of a list."""
    groups = [f"{short_name(group.label)} ({group.size:,})" for group in (proposal.a, proposal.b)]
    probability = number_format.estimate(proposal.evidence.probability)
    return Content.assemble((f"{probability:>4}  ", "bold"), " + ".join(groups))


def probability_from(text: str) -> float | None:
    """Returns the probability in (0, 1] that was typed, `.9` or `90%`; None where the text is no such number."""
    text = text.strip()
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        return None
    return value if 0 < value <= 1 else None
