"""The merge desk without its keys: reads the proposals, keeps the place, shows what is in front."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, TypeVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Static

from engine.errors import WorkbenchError
from engine.goal_rows import ClusteringRow, DeskProgress, GoalDecision, Pair, Proposal
from engine.text import one_line
from screens import goal_words
from screens.background import write_in_order
from screens.base import TitleLine, WorkbenchScreen
from screens.bridge import EngineFeed
from screens.desk_place import DeskPlace, Page, Reading, read_desk
from screens.desk_sides import SidePane
from screens.keyed import Keyed
from screens.ports import Services

T = TypeVar("T")


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


class DeskView(WorkbenchScreen[None]):
    """Two groups side by side, what speaks for merging them beside or below."""

    MODE = "desk"

    def __init__(self, services: Services, feed: EngineFeed) -> None:
        super().__init__(services, feed)
        self.goals = services.goals
        self.place = DeskPlace()
        self.progress: DeskProgress | None = None
        self._clustering: ClusteringRow | None = None
        self._recent: tuple[GoalDecision, ...] = ()
        self._writing = 0
        self._wanted: Pair | None = None
        self._editing: Pair | None = None

    def compose_body(self) -> ComposeResult:
        """Counts, standing, both sides, evidence; or that nothing is left."""
        yield Static(id="summary")
        yield Static(id="standing")
        with Container(id="main"):
            yield SidePane("A", id="side-a")
            yield SidePane("B", id="side-b")
            with Vertical(id="right"):
                with VerticalScroll(id="proposed", classes="section"):
                    yield Static(id="label")
                    yield LabelInput(id="edit")
                    yield Static(id="evidence")
                recent = Static(id="recent", classes="section")
                recent.border_title = "What came last"
                yield recent
        yield Static(classes="empty")

    def on_mount(self) -> None:
        """Nothing is edited yet."""
        self.query_one(LabelInput).display = False

    # Reading

    def refresh_data(self) -> None:
        """Reads the desk again; what is in front of the person stays."""
        self.read(None)

    def read(self, wanted: Pair | None) -> None:
        """Reads the desk, with `wanted` in front if it stands; while something is being written, afterwards."""
        self._wanted = wanted or self._wanted
        if self._writing:
            return
        asked = self._wanted or self.place.pair
        turn, passed = self.place.turn, tuple(self.place.passed)

        def arrived(found: Reading) -> None:
            if turn == self.place.turn:
                self._wanted = None
                self._show(found)
            else:
                self.read(None)

        self.in_background(
            lambda: read_desk(self.goals, passed, asked), arrived, group="desk", failed=self._failed
        )

    def _failed(self, error: WorkbenchError) -> None:
        self._wanted = None
        self.show_error(error)

    def write(
        self, work: Callable[[], T], then: Callable[[T], None], back: Pair | None = None
    ) -> None:
        """Writes what the person decided, in order, and reads the desk afterwards.

        Args:
            back: The pair to put in front when it cannot be written.
        """
        self._writing += 1

        def done(result: T) -> None:
            self._writing -= 1
            then(result)
            self.read(None)

        def failed(error: WorkbenchError) -> None:
            self._writing -= 1
            self.show_error(error)
            self.read(back)

        write_in_order(self, work, done, failed)

    # Showing

    def _show(self, found: Reading) -> None:
        if found.again:
            self.place.passed.clear()
            self.notify("Only what you skipped is left; it comes again.", markup=False)
        self._clustering, self.progress = found.shown, found.progress
        self._recent = found.recent
        self.place.put(found.front)
        self.place.ahead = found.ahead
        self.show_place(settled=True)

    def show_place(self, *, settled: bool = False) -> None:
        """Shows what is in front; unless the desk was just read, nothing there means that it is being read."""
        page = self.place.front
        self.set_class(settled and page is None, "-empty")
        self.set_class(page is None, "-waiting")
        self._show_standing()
        if page is not None:
            self._show_page(page)
        elif settled:
            empty = goal_words.desk_empty_content(self._clustering, self.progress)
            self.query_one(".empty", Static).update(empty)
        else:
            label = Content.styled("reading the next pair …", "$tone-muted")
            self.query_one("#label", Static).update(label)
        if self.focused is None and page is not None:
            self.query_one("#side-a VerticalScroll").focus()

    def _show_page(self, page: Page) -> None:
        proposal = page.proposal
        a, b = proposal.a, proposal.b
        self.query_one("#side-a", SidePane).show(a, page.a, proposal.near_a, b.label)
        self.query_one("#side-b", SidePane).show(b, page.b, proposal.near_b, a.label)
        self._show_label(proposal)
        width = self.query_one("#proposed", VerticalScroll).scrollable_content_region.width
        if width > 0:
            evidence = goal_words.evidence_content(proposal, self.progress, width)
            self.query_one("#evidence", Static).update(evidence)
        else:  # it has no place on the screen yet
            self.call_after_refresh(self._show_page, page)

    def _show_label(self, proposal: Proposal) -> None:
        own = self.place.label
        label = goal_words.label_for(proposal) if own is None else own
        whose = "yours" if own is not None else "the larger one's"
        if own is None and proposal.evidence.label.strip():
            whose = "the model's"
        tone = "bold $tone-bright" if own is not None else "bold"
        self.query_one("#label", Static).update(Content.styled(one_line(label), tone))
        title = Content.styled(f"Merged, it would be · label {whose}", "")
        self.query_one("#proposed").border_title = title

    def on_resize(self) -> None:
        """Breaks the lines of the evidence again."""
        if self.place.front is not None:
            self.call_after_refresh(self._show_page, self.place.front)

    def _show_standing(self) -> None:
        progress = self.progress
        summary, standing = self.query_one("#summary", Static), self.query_one("#standing", Static)
        if progress is None:
            summary.update("")
            standing.update("")
            return
        number = progress.merged + progress.refused + 1
        told = f"proposal {number:,}" if self.place.front is not None else ""
        self.query_one(TitleLine).say(Content.styled(told, "bold"))
        summary.update(goal_words.counts_content(progress, len(self.place.passed)))
        standing.update(goal_words.standing_content(progress))
        lines = [
            Content.assemble(
                (
                    f"{goal_words.GLYPHS[given.kind]} ",
                    "$tone-accent" if given.stands else "$tone-muted",
                ),
                (
                    goal_words.decision_words(given) + ("" if given.stands else " (taken back)"),
                    "" if given.stands else "$tone-muted",
                ),
            )
            for given in self._recent
        ]
        self.query_one("#recent", Static).update(Content("\n").join(lines))

    # The label, edited where it stands

    def edit_label(self) -> None:
        """Puts the cursor into the label."""
        page = self.place.front
        if page is None:
            return
        self._editing = page.proposal.pair
        line = self.query_one(LabelInput)
        line.value = one_line(self.place.label or goal_words.label_for(page.proposal))
        line.display = True
        self.query_one("#label").display = False
        line.focus()

    def _leave_label(self) -> None:
        self._editing = None
        self.query_one(LabelInput).display = False
        self.query_one("#label").display = True
        self.query_one("#side-a VerticalScroll").focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter takes the label, for the pair that it was written for."""
        event.stop()
        page = self.place.front
        text = " ".join(event.value.split())
        if page is not None and text and self.place.pair == self._editing:
            self.place.label = text
            self._show_label(page.proposal)
        self._leave_label()

    def on_label_input_left(self) -> None:
        """Escape leaves it as it was."""
        self._leave_label()
