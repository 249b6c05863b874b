"""What every screen has: the title line, the footer, the jobs bar, and a way to show an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, TypeVar

from textual.app import ComposeResult, RenderResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Footer

from engine.errors import WorkbenchError
from engine.events import DataChanged, Event
from engine.text import one_line
from screens.background import background
from screens.bridge import EngineFeed
from screens.dialogs import ErrorDialog
from screens.ports import ProjectInfo, Services
from screens.widgets.jobs_bar import JobsBar
from screens.widgets.row_table import RowTable
from screens.widgets.transcript import Transcript

ResultT = TypeVar("ResultT")
T = TypeVar("T")

REFRESH_SECONDS = 0.5
"""Changes that come closer together than this are shown together."""

MODES = (("conversations", "1", "Conversations"), ("triage", "2", "Triage"))
"""The modes of the app: name, key and title."""


class TitleLine(Widget):
    """Which mode this is, what stands in the middle, which project, and why it cannot be written."""

    DEFAULT_CSS = "TitleLine { height: 1; }"

    def __init__(self, project: ProjectInfo, mode: str) -> None:
        super().__init__()
        self._project = project
        self._mode = mode
        self._middle = Content("")

    def say(self, middle: Content) -> None:
        """Shows something else between the modes and the project."""
        self._middle = middle
        self.refresh()

    def render(self) -> RenderResult:
        """The line; what is in the middle gives way first."""
        width = self.size.width
        tabs = Content("").join(
            Content.styled(
                f" {key} {title} ",
                "bold $tone-tab on $tone-tab-back" if name == self._mode else "$tone-muted",
            )
            for name, key, title in MODES
        )
        right = Content.assemble(
            (" read-only " if self._project.read_only else "", "bold $tone-incomplete"),
            (f" {one_line(self._project.name, 40)} ", "$tone-muted"),
        )
        room = width - tabs.cell_length - right.cell_length
        middle = Content.assemble("  ", self._middle).truncate(max(0, room), ellipsis=True)
        return Content.assemble(tabs, middle, " " * (room - middle.cell_length), right)


class WorkbenchScreen(Screen[ResultT], inherit_bindings=False):
    """Base of the screens: hears the engine, refreshes when it is in sight, shows errors."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "app.focus_next", "Next pane", show=False),
        Binding("shift+tab", "app.focus_previous", "Previous pane", show=False),
    ]

    HORIZONTAL_BREAKPOINTS = [  # noqa: RUF012 - Textual declares it
        (0, "-narrow"),
        (100, "-wide"),
        (150, "-very-wide"),
    ]
    MODE: ClassVar[str]

    def __init__(self, services: Services, feed: EngineFeed) -> None:
        super().__init__()
        self.services = services
        self.feed = feed
        self._stale = False
        self._refresh_due = False

    def compose(self) -> ComposeResult:
        """The frame around what a screen shows."""
        yield TitleLine(self.services.project, self.MODE)
        yield from self.compose_body()
        yield Footer(compact=True, show_command_palette=False)
        yield JobsBar(self.services.jobs, self.feed)

    def compose_body(self) -> ComposeResult:
        """The widgets between the title line and the footer."""
        raise NotImplementedError

    def refresh_data(self) -> None:
        """Reads again what is shown."""
        raise NotImplementedError

    def on_mount(self) -> None:
        """Listens to the engine and reads for the first time."""
        self.feed.signal.subscribe(self, self._heard)
        self.refresh_data()

    def on_screen_resume(self) -> None:
        """Catches up with what changed while another screen was in front."""
        if self._stale:
            self._stale = False
            self.refresh_data()

    def _heard(self, event: Event) -> None:
        if not isinstance(event, DataChanged):
            return
        if not self.is_active:
            self._stale = True
        elif not self._refresh_due:
            self._refresh_due = True
            self.set_timer(REFRESH_SECONDS, self._refresh_now)

    def _refresh_now(self) -> None:
        self._refresh_due = False
        self.refresh_data()

    def in_background(
        self,
        work: Callable[[], T],
        then: Callable[[T], None],
        *,
        group: str,
        failed: Callable[[WorkbenchError], None] | None = None,
    ) -> None:
        """Runs `work` off the UI thread; an error is shown in a dialog unless `failed` takes it."""
        background(self, work, then, failed or self.show_error, group=group)

    def show_error(self, error: WorkbenchError) -> None:
        """Shows an error in a dialog."""
        self.app.push_screen(ErrorDialog(error))

    def may_write(self) -> bool:
        """Whether the project can be written; says why not when it cannot."""
        reason = self.services.project.read_only
        if reason is None:
            return True
        self.notify(one_line(reason), title="Read-only", severity="warning", markup=False)
        return False

    def on_row_table_failed(self, message: RowTable.Failed) -> None:
        """Rows could not be read."""
        self.show_error(message.error)

    def on_transcript_failed(self, message: Transcript.Failed) -> None:
        """A conversation could not be laid out."""
        self.show_error(message.error)
