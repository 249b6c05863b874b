"""The base of every screen: title line, footer, jobs bar, and error dialogs."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import ClassVar, Literal, Protocol, TypeVar, cast

from rich.cells import cell_len
from textual import events
from textual.app import ComposeResult, RenderResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input, Static

from engine.base.errors import ProjectMoved, WorkbenchError
from engine.base.events import DataChanged, Event
from engine.base.text import one_line
from engine.completeness.records.scores import Mode
from engine.conversations.filters import Filter
from engine.opener.conversations import (
    Counts,
)
from engine.opener.open_project import OpenProject
from engine.project.network import NetworkService
from engine.project.records import RunRow
from screens.shell.dialogs.basic import ErrorDialog
from screens.shell.dialogs.run import RunDialog
from screens.shell.late_events import IgnoresLateEvents
from screens.shell.offline import reason_of
from screens.shell.recent_projects import Shell
from screens.shell.routes import NamedConversations, Routes
from screens.shell.tour import TourLine
from screens.widgets.background import background
from screens.widgets.card import Card
from screens.widgets.empty_state import IMPORT, EmptyState
from screens.widgets.engine_feed import EngineFeed
from screens.widgets.jobs_bar import JobsBar
from screens.widgets.key_footer import KeyFooter
from screens.widgets.keyed import Keyed, shown_key
from screens.widgets.row_table import RowTable
from screens.widgets.text.transcript import Transcript

ResultT = TypeVar("ResultT")
T = TypeVar("T")

REFRESH_SECONDS = 0.5
"""Seconds within which several changes are combined into one refresh."""

MODES = (
    ("overview", "1", "Overview"),
    ("conversations", "2", "Conversations"),
    ("triage", "3", "Triage"),
    ("trees", "4", "Trees"),
    ("goals", "5", "Goals"),
    ("desk", "6", "Desk"),
    ("training", "7", "Training"),
    ("models", "8", "Models"),
    ("simulation", "9", "Simulation"),
)
"""The modes of the app: name, key and title."""
TABS = (*MODES, ("validation", "V", "Valid"))
"""The tabs of the title line: the modes, and validation, which opens over the mode that is present."""
SHORT_TITLES = {
    "overview": "Over",
    "conversations": "List",
    "training": "Train",
    "simulation": "Sim",
}
"""Titles of modes where the whole ones do not fit."""
TIGHT_TITLES = SHORT_TITLES | {
    "trees": "Tree",
    "goals": "Goal",
    "models": "Mod",
    "validation": "Val",
}
"""Titles of modes that leave room for the project's name, or a text of the screen, on a narrow terminal."""


FORMS = {
    **dict.fromkeys(
        ("embed", "summarise", "cluster", "label", "propose", "decide"), ("goals", "run_clustering")
    ),
    "assign": ("goals", "assign"),
    "stability": ("goals", "stability"),
    "trees": ("trees", "run_trees"),
    "grow": ("trees", "run_trees"),
}
"""The mode and its action that start an interrupted stage again, for stages that have a form or need their screen."""

NAME_WIDTH = 40
LEAST_NAME = 8
"""Cells of the project's name that are worth showing."""


class TitleLine(Widget):
    """The modes, a text of the screen, whether the project is offline or read-only, and its name.

    Where they do not fit, the titles of the modes become short, then as short as they can be read, then lose the space
    after their keys and the project's name; only then those of other modes shrink to their keys.
    """

    DEFAULT_CSS = "TitleLine { height: 1; }"

    def __init__(self, project: OpenProject, network: NetworkService, mode: str) -> None:
        super().__init__()
        self._project = project
        self._network = network
        self._mode = mode
        self._middle = Content("")
        self._titles = titles_of(mode, "whole")

        self.show_state()

    def show_state(self) -> None:
        """Shows whether the project is offline or read-only now."""
        why = self._project.read_only
        self.tooltip = None if why is None else Content(one_line(why))
        self.refresh()

    def say(self, middle: Content) -> None:
        """Shows a text between the modes and the project's name."""
        self._middle = middle
        self.refresh()

    def render(self) -> RenderResult:
        """Draws the line; the text in the middle is cut first."""
        width = self.size.width
        right = self._right(width)
        wanted = self._middle.cell_length + 2 if self._middle.cell_length else 0
        least = min(right.cell_length, self._least(right))
        badges = self._badges(width)
        for length in LENGTHS:
            self._titles = titles_of(self._mode, length)
            keyed = int(length == "tight")  # where no space parts key and title, a colour does
            needed = badges.cell_length if length == "tight" else least
            if sum(len(title) for title in self._titles) <= width - wanted - needed:
                break
        tabs = Content("").join(
            Content.styled(title, "bold $tone-tab on $tone-tab-back")
            if name == self._mode
            else Content.assemble((title, "$tone-muted")).stylize("$tone-accent", 0, keyed)
            for title, (name, _, _) in zip(self._titles, TABS, strict=True)
        )
        room = width - tabs.cell_length
        if room - wanted < least:
            right = badges
        right = right.truncate(max(0, room - wanted), ellipsis=True)
        room -= right.cell_length
        middle = Content.assemble("  ", self._middle).truncate(max(0, room), ellipsis=True)
        return Content.assemble(tabs, middle, " " * (room - middle.cell_length), right)

    def _right(self, width: int) -> Content:
        """The right end: offline, read-only with the reason, and the project's name."""
        name = one_line(self._project.name, NAME_WIDTH)
        return Content.assemble(self._badges(width), (f" {name} ", "$tone-muted"))

    def _badges(self, width: int) -> Content:
        """Offline, and read-only with the reason."""
        offline = Content("")
        if reason_of(self._network) is not None:
            offline = Content.styled(" offline ", "bold $tone-accent")
        why = self._project.read_only
        if why is None:
            warning = Content("")
        elif width >= 120:
            warning = Content.styled(f" read-only: {one_line(why, 48)} ", "bold $tone-incomplete")
        else:
            warning = Content.styled(" read-only ", "bold $tone-incomplete")
        return Content.assemble(offline, warning)

    def _least(self, right: Content) -> int:
        """Cells of the right end that are always shown: all but the end of a long name."""
        name = cell_len(one_line(self._project.name, NAME_WIDTH))
        return right.cell_length - max(0, name - LEAST_NAME)

    def on_click(self, event: events.Click) -> None:
        """A click on a mode goes there; one on the right says why the project is read-only or offline."""
        end = 0
        for title, (name, _, _) in zip(self._titles, TABS, strict=True):
            end += len(title)
            if event.x < end:
                action = "validation" if name == "validation" else f"switch_mode('{name}')"
                # Not awaited here: the action may remove this screen, which waits until this handler has ended.
                self.app.call_later(self.app.run_action, action)
                return
        why = self._project.read_only
        if why is not None:
            self.notify(one_line(why), title="Read-only", severity="warning", markup=False)
        reason = reason_of(self._network)
        if reason is not None:
            self.notify(one_line(reason), title="Offline", markup=False)


Length = Literal["whole", "short", "shorter", "tight", "key"]
LENGTHS: tuple[Length, ...] = ("whole", "short", "shorter", "tight", "key")


def titles_of(mode: str, length: Length) -> list[str]:
    """The titles of the tabs; `key` leaves of other modes only their keys."""
    titles = []
    for name, key, title in TABS:
        if length == "whole" or (length == "key" and name == mode):
            titles.append(f" {key} {title} ")
        elif length == "key":
            titles.append(f" {key} ")
        elif length == "shorter":
            titles.append(f"{key} {TIGHT_TITLES.get(name, title)} ")
        elif length == "tight":
            titles.append(f"{key}{TIGHT_TITLES.get(name, title)} ")
        else:
            titles.append(f"{key} {SHORT_TITLES.get(name, title)} ")
    return titles


class RoutedApp(Protocol):
    """What screens know of the app.

    Attributes:
        routes: Makes the screens of other folders.
        tour_at: The step of the tour, None without one.
        shell: Its `keymap` has the keys that a person chose.
    """

    routes: Routes
    tour_at: int | None
    shell: Shell

    def tell_moved(self, moved: ProjectMoved) -> None:
        """Says that the project is no longer written, and offers what can be done."""


class WorkbenchScreen(Keyed, IgnoresLateEvents, Screen[ResultT], inherit_bindings=False):
    """Every screen of the program: it reads again after events of the engine while it is in front, and shows errors."""

    PLACE = "screen"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "app.focus_next", "Next pane", show=False),
        Binding("shift+tab", "app.focus_previous", "Previous pane", show=False),
        # before the list, which may have the focus though it is hidden while it is empty
        Binding(
            "enter",
            "fill",
            "Start",
            show=False,
            priority=True,
            tooltip="Start what fills this screen, while it is empty",
        ),
    ]

    HORIZONTAL_BREAKPOINTS = [  # noqa: RUF012 - Textual declares it
        (0, "-narrow"),
        (100, "-wide"),
        (150, "-very-wide"),
    ]
    MODE: ClassVar[str]
    FIRST_KEYS: ClassVar[tuple[str, ...]] = ()
    """Ids of the bindings that matter first here; help shows them above all others."""

    def __init__(self, services: OpenProject, feed: EngineFeed) -> None:
        super().__init__()
        self.services = services
        self.feed = feed
        self._stale = False
        self._refresh_due = False
        self._empty_state: EmptyState | None = None

    def compose(self) -> ComposeResult:
        """Title line, the screen's own widgets, footer, jobs bar."""
        yield TitleLine(self.services, self.services.network, self.MODE)
        yield from self.compose_body()
        if cast(RoutedApp, self.app).tour_at is not None:
            yield TourLine()
        yield KeyFooter()
        yield JobsBar(self.services.jobs, self.feed)

    def compose_body(self) -> ComposeResult:
        """The widgets between the title line and the footer."""
        raise NotImplementedError

    def refresh_data(self) -> None:
        """Reads and shows the data again."""
        raise NotImplementedError

    def on_mount(self) -> None:
        """Listens to the engine and reads for the first time."""
        self.feed.signal.subscribe(self, self._handle_event)
        self.refresh_data()

    def on_screen_resume(self) -> None:
        """Reads again if data changed while another screen was in front."""
        for line in self.query(TitleLine):
            line.show_state()
        if self._stale:
            self._stale = False
            self.refresh_data()

    def _handle_event(self, event: Event) -> None:
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
        if isinstance(error, ProjectMoved):
            cast(RoutedApp, self.app).tell_moved(error)
        else:
            self.app.push_screen(ErrorDialog(error))

    # Empty screens

    def show_empty(self, state: EmptyState) -> None:
        """Says what fills the screen; in a project without conversations, that they are to be imported first."""

        def show(shown: EmptyState) -> None:
            self._empty_state = shown
            self.query_one(".empty", Static).update(shown.content(self._key_of))
            self.refresh_bindings()

        def counted(counts: Counts) -> None:
            show(state if counts.conversations else IMPORT)

        if state.needs_no_conversations or state == self._empty_state:
            show(state)
        else:
            self.in_background(self.services.conversations.counts, counted, group="empty")

    def _key_of(self, action: str) -> str:
        """The key of an action as a person reads it: their own, else that of the program."""
        keymap = cast(RoutedApp, self.app).shell.keymap
        classes = (*type(self).__mro__, *type(self.app).__mro__)
        every = (
            binding
            for cls in classes
            for binding in Binding.make_bindings(cls.__dict__.get("BINDINGS", ()))
        )
        named = (binding.key for binding in every if binding.id == action)
        key = keymap[action].split(",")[0].strip() if action in keymap else next(named)
        return key if key == "enter" else shown_key(key)  # a newcomer may not know ⏎

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Enter starts what fills the screen only while it is empty, and neither a field nor a card has the focus."""
        if action == "fill":
            takes_enter = isinstance(self.focused, Input | Card)
            return self._empty_state is not None and self.has_class("-empty") and not takes_enter
        return super().check_action(action, parameters)

    async def action_fill(self) -> None:
        """Starts what fills the screen."""
        if self._empty_state is None:
            return
        if self._empty_state.mode:
            self.open_form(self._empty_state.mode, self._empty_state.action)
        else:
            await self.run_action(self._empty_state.action)

    def may_write(self) -> bool:
        """Whether the project can be written; says why not when it cannot."""
        reason = self.services.read_only
        if reason is None:
            return True
        self.notify(one_line(reason), title="Read-only", severity="warning", markup=False)
        return False

    # Other screens

    @property
    def routes(self) -> Routes:
        """Makes the screens of other folders."""
        return cast(RoutedApp, self.app).routes

    def open_reader(
        self,
        order: array[int],
        at: int,
        back: Callable[[int | None], None] = lambda _: None,
        *,
        words: Sequence[str] = (),
    ) -> None:
        """Opens the reader on conversations by id; see `Routes.reader`. `back` gets the id of the last one read."""
        self.app.push_screen(self.routes.reader(order, at, self.MODE, words), back)

    def open_conversations(self, wanted: Filter) -> None:
        """Lists the conversations behind a figure; going back leads here."""
        self.app.push_screen(self.routes.conversations(wanted, self.MODE))

    def triage_only(self, name: str, ids: Sequence[int]) -> None:
        """Goes to triage of just these conversations; escape there leads back.

        Args:
            name: What they have in common, in words.
        """
        if not ids:
            self.notify("There are no conversations to judge.", markup=False)
            return
        wanted = NamedConversations(name, tuple(ids), self.MODE)

        async def go() -> None:
            await self.app.run_action("switch_mode('triage')")
            if isinstance(self.app.screen, WorkbenchScreen):
                self.app.screen.judge_only(wanted)

        self.app.run_worker(go(), group="triage")

    def action_close(self) -> None:
        """Goes back; a second key while the screen closes does nothing."""
        if self.is_active:
            self.dismiss(None)

    def filter_by(self, wanted: Filter) -> None:
        """Lists what a filter matches, where the screen is a list that can be filtered; others ignore it."""

    def judge_only(self, wanted: NamedConversations) -> None:
        """Judges only these conversations, where the screen is triage; others ignore it."""

    # Jobs that more than one screen starts

    def action_run_scoring(self) -> None:
        """Shows what scoring costs, and starts it."""
        if not self.may_write():
            return

        first = self.services.jobs.scoring_mode()
        self.ask_scoring(first, self.listed())

    def ask_scoring(self, first: Mode, listed: Filter | None = None) -> None:
        """Asks for the mode and the conversations of a scoring run, and starts it."""

        def chosen(answer: tuple[Mode, Filter] | None) -> None:
            if answer is not None:
                self._start(lambda: self.services.jobs.start_scoring(*answer))

        self.app.push_screen(RunDialog(self.services.jobs, first, listed), chosen)

    def listed(self) -> Filter | None:
        """The filter of what the screen lists; None where it is no list."""
        return None

    def action_import_files(self) -> None:
        """Asks for a file or folder, and imports it."""
        if not self.may_write():
            return

        def chosen(answer: tuple[str, str | None] | None) -> None:
            if answer is not None:
                path, form = answer
                self._start(lambda: self.services.jobs.start_import([path], form))

        from screens.shell.dialogs.importing import (
            ImportDialog,  # it brings the readers of all formats
        )

        self.app.push_screen(ImportDialog(), chosen)

    def resume(self, run: RunRow, mode: Mode) -> None:
        """Starts an interrupted run again, which goes on where it was; `mode` for runs that name none."""
        if not self.may_write():
            return
        if run.stage == "import":
            paths = [str(path) for path in run.params.get("paths", [])]
            branches, replace = (bool(run.params.get(name)) for name in ("all_branches", "replace"))
            form, most = (run.params.get(name) for name in ("format", "most_unpacked"))
            self._start(
                lambda: self.services.jobs.start_import(paths, form, branches, replace, most)
            )
        elif run.stage == "simulate":
            self._start(lambda: self.services.simulations.go_on(run.config_hash))
        elif run.stage == "watch":
            self.call_later(self.app.run_action, "app.watch")
        elif run.stage in FORMS:
            self.open_form(*FORMS[run.stage])
        else:
            reads_states = run.stage in ("read", "fit")
            named: Mode = "probe" if reads_states else run.params.get("mode", mode)
            self._start(lambda: self.services.jobs.start_scoring(named))

    def open_form(self, mode: str, action: str) -> None:
        """Goes to a mode and opens the form of its run, or starts a run that has no form."""

        async def go() -> None:
            await self.app.run_action(f"switch_mode('{mode}')")
            await self.app.run_action(action, self.app.screen)

        self.app.run_worker(go(), group="form")

    def _start(self, start: Callable[[], int]) -> None:
        self.in_background(start, lambda job: None, group="start")

    def on_row_table_failed(self, message: RowTable.Failed) -> None:
        """Rows could not be read."""
        self.show_error(message.error)

    def on_transcript_failed(self, message: Transcript.Failed) -> None:
        """A conversation could not be laid out."""
        self.show_error(message.error)
