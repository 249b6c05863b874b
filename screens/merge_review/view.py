"""The merge desk without its keys: reads the proposals, keeps the place, shows what is in front."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from textual.app import ComposeResult
from textual.containers import Container, Vertical
from textual.content import Content
from textual.widgets import Static

from engine.errors import WorkbenchError
from engine.records.goals import ClusteringRow, GoalDecision, Pair, ReviewProgress
from engine.services.services import Services
from screens.goals import formatting
from screens.merge_review.cursor import Page, Reading, ReviewCursor, read_desk
from screens.merge_review.group_pane import SidePane
from screens.merge_review.merged_pane import MergedPane
from screens.shell.workbench_screen import TitleLine, WorkbenchScreen
from screens.widgets.background import write_in_order
from screens.widgets.engine_feed import EngineFeed

T = TypeVar("T")


class DeskView(WorkbenchScreen[None]):
    """Two groups side by side, what speaks for merging them beside or below."""

    MODE = "desk"

    def __init__(self, services: Services, feed: EngineFeed) -> None:
        super().__init__(services, feed)
        self.goals = services.goals
        self.place = ReviewCursor()
        self.progress: ReviewProgress | None = None
        self._clustering: ClusteringRow | None = None
        self._recent: tuple[GoalDecision, ...] = ()
        self._writing = 0
        self._wanted: Pair | None = None

    def compose_body(self) -> ComposeResult:
        """Counts, standing, both sides, evidence; or that nothing is left."""
        yield Static(id="summary")
        yield Static(id="standing")
        with Container(id="main"):
            yield SidePane("A", id="side-a")
            yield SidePane("B", id="side-b")
            with Vertical(id="right"):
                yield MergedPane(id="merged")
                recent = Static(id="recent", classes="section")
                recent.border_title = "What came last"
                yield recent
        yield Static(classes="empty")

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
            empty = formatting.desk_empty_content(self._clustering, self.progress)
            self.query_one(".empty", Static).update(empty)
        else:
            self.query_one(MergedPane).wait()
        if self.focused is None and page is not None:
            self.query_one("#side-a VerticalScroll").focus()

    def _show_page(self, page: Page) -> None:
        proposal = page.proposal
        a, b = proposal.a, proposal.b
        self.query_one("#side-a", SidePane).show(a, page.a, proposal.near_a, b.label)
        self.query_one("#side-b", SidePane).show(b, page.b, proposal.near_b, a.label)
        self.query_one(MergedPane).show(proposal, self.progress, self.place.label)

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
        summary.update(formatting.counts_content(progress, len(self.place.passed)))
        standing.update(formatting.standing_content(progress))
        lines = [
            Content.assemble(
                (
                    f"{formatting.GLYPHS[given.kind]} ",
                    "$tone-accent" if given.stands else "$tone-muted",
                ),
                (
                    formatting.decision_words(given) + ("" if given.stands else " (taken back)"),
                    "" if given.stands else "$tone-muted",
                ),
            )
            for given in self._recent
        ]
        self.query_one("#recent", Static).update(Content("\n").join(lines))

    def on_merged_pane_labelled(self, message: MergedPane.Labelled) -> None:
        """Keeps the label for its pair, and goes back to what speaks for and against."""
        page = self.place.front
        if page is not None and message.label and message.pair == self.place.pair:
            self.place.label = message.label
            self._show_page(page)
        self.query_one("#side-a VerticalScroll").focus()
