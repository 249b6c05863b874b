"""The base of every screen that is no dialog: title line, footer, jobs bar, error dialogs, and ways to other screens.

A mode is a screen that a digit leads to, such as the overview; the other screens are opened from one. A screen is
empty while what it shows does not exist yet; then it says what fills it, and enter starts that.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar, TypeVar, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.events import ScreenResume
from textual.screen import Screen
from textual.widgets import Input, Static

from engine.base.errors import AddressNotAllowed, ProjectMoved, WorkbenchError
from engine.base.events import DataChanged, Event
from engine.base.request_options import options_of
from engine.base.text import one_line
from engine.completeness.records import Mode
from engine.conversations.filters import Filter
from engine.conversations.records import ImportRequest
from engine.opener.open_project import OpenProject
from engine.project.records import RunRow
from engine.results.associations.records import Split
from screens.shell.app_interface import NamedConversations, RoutedApp, Routes
from screens.shell.dialogs import ErrorDialog, IgnoresLateEvents, ask
from screens.shell.title_line import TitleLine
from screens.widgets.background import background
from screens.widgets.controls import Card
from screens.widgets.empty_state import IMPORT, EmptyState
from screens.widgets.filter_line import FilterLine
from screens.widgets.jobs import EngineFeed, JobsBar, work_of
from screens.widgets.keyed import Keyed, KeyFooter, shown_key
from screens.widgets.row_table import RowTable
from screens.widgets.transcript import Transcript

ResultT = TypeVar("ResultT")
"""What a screen answers with when it is closed."""
T = TypeVar("T")
"""What work in the background returns."""

REFRESH_SECONDS = 0.5
"""Seconds within which several changes are combined into one refresh."""
WIDTH_CLASSES = [(0, "-narrow"), (100, "-wide"), (150, "-very-wide")]
"""Columns of the terminal from which on a screen has a class, narrow ones first."""
FORMS = {
    "clustering": ("goals", "run_clustering"),
    "assign": ("goals", "assign"),
    "stability": ("goals", "stability"),
    "trees": ("trees", "run_trees"),
}
"""The mode, and the action of its screen, that start an interrupted work again, for work that needs its screen."""


class WorkbenchScreen(Keyed, IgnoresLateEvents, Screen[ResultT], inherit_bindings=False):
    """A screen that is no dialog. While it is in front it reads its data again after changes, and it shows errors."""

    PLACE = "screen"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "app.focus_next", "Next pane", show=False),
        Binding("shift+tab", "app.focus_previous", "Previous pane", show=False),
        # Before the list, which may have the focus though it is hidden while it is empty.
        Binding(
            "enter",
            "fill",
            "Start",
            show=False,
            priority=True,
            tooltip="Start what fills this screen, while it is empty",
        ),
    ]

    HORIZONTAL_BREAKPOINTS = [*WIDTH_CLASSES]  # noqa: RUF012 - Textual declares it
    MODE: ClassVar[str]
    """Name of the mode; of a screen that is no mode itself, that from which it was opened."""
    FIRST_KEYS: ClassVar[tuple[str, ...]] = ()
    """Ids of the bindings that matter first here; help shows them above all others."""

    def __init__(self, services: OpenProject, feed: EngineFeed, mode: str = "") -> None:
        """`mode` is that of the screen from which a screen that is no mode itself is opened."""
        app_width = self.app.size.width
        # Textual would set the class after the first layout, and compute the styles of all widgets once more.
        super().__init__(classes=[name for width, name in WIDTH_CLASSES if width <= app_width][-1])
        # A new screen has no styles to refresh. Textual would refresh those of the screen that it replaces.
        self._css_update_count = self.app._css_update_count
        if mode:
            self.MODE = mode  # type: ignore[misc]
        self.services = services
        self.feed = feed
        self._has_been_left = False  # for another screen
        self._stale = False  # data changed while another screen was in front
        self._refresh_due = False  # a timer for the next refresh runs
        self._is_reading = False
        self._must_read_again = False  # after the read that runs
        self._empty_state: EmptyState | None = None  # what the screen says while it is empty

    def compose(self) -> ComposeResult:
        """Yields the title line, the screen's own widgets, footer, jobs bar."""
        yield TitleLine(self.services, self.MODE)
        yield from self.compose_body()
        yield KeyFooter()
        yield JobsBar(self.services.jobs, self.feed)

    def compose_body(self) -> ComposeResult:
        """Yields the widgets between the title line and the footer."""
        raise NotImplementedError

    def refresh_data(self) -> None:
        """Reads and shows the data again."""
        raise NotImplementedError

    def on_mount(self) -> None:
        """Listens to the engine and reads for the first time."""
        self.feed.signal.subscribe(self, self._handle_event)
        self.refresh_data()

    def on_screen_suspend(self) -> None:
        """Notes that another screen comes to the front."""
        self._has_been_left = True

    def on_screen_resume(self, event: ScreenResume) -> None:
        """Reads again if data changed while another screen was in front."""
        # A new screen has just been given its styles. Textual would compute them twice more.
        if not self._has_been_left:
            event.refresh_styles = False
        for line in self.query(TitleLine):  # none while the screen is composed
            line.show_state()
        if self._stale:
            self._stale = False
            self.refresh_data()

    def _handle_event(self, event: Event) -> None:
        """Reads again soon after data changed, or when the screen comes to the front again."""
        if not isinstance(event, DataChanged):
            return
        if not self.is_active:
            self._stale = True
        elif not self._refresh_due:
            self._refresh_due = True
            self.set_timer(REFRESH_SECONDS, self._refresh_now)

    def _refresh_now(self) -> None:
        """Reads again, after the changes of `REFRESH_SECONDS`."""
        self._refresh_due = False
        self.refresh_data()

    def read_in_turn(
        self,
        read: Callable[[], T],
        show: Callable[[T], None],
        *,
        group: str,
        on_error: Callable[[WorkbenchError], None] | None = None,
    ) -> None:
        """Reads in the background for `refresh_data`, and shows the result; a call during a read repeats it afterwards.

        Args:
            group, on_error: As in `in_background`.
        """
        if self._is_reading:
            self._must_read_again = True
            return
        self._is_reading = True

        def end(show_end: Callable[[Any], None], result: Any) -> None:
            self._is_reading = False
            show_end(result)
            if self._must_read_again:
                self._must_read_again = False
                self.refresh_data()

        failed = partial(end, on_error or self.show_error)
        self.in_background(read, partial(end, show), group=group, on_error=failed)

    def in_background(
        self,
        work: Callable[[], T],
        then: Callable[[T], None],
        *,
        group: str,
        on_error: Callable[[WorkbenchError], None] | None = None,
    ) -> None:
        """Runs `work` off the UI thread, then calls `then` with its result on the UI thread.

        Where the work may not send texts to an address yet, a person is asked, and it runs again once that is allowed.

        Args:
            group: A later call with the same group replaces an earlier one, whose result is dropped.
            on_error: Gets any other error of the work; without it a dialog shows the error.
        """

        def run_again() -> None:
            self.in_background(work, then, group=group, on_error=on_error)

        def handle_error(error: WorkbenchError) -> None:
            if isinstance(error, AddressNotAllowed):
                self._ask_to_send(error.address, run_again)
            else:
                (on_error or self.show_error)(error)

        background(self, work, then, handle_error, group=group)

    def _ask_to_send(self, address: str, then: Callable[[], None]) -> None:
        """Shows what would be sent to an address on another machine, and calls `then` once a person allows it."""

        def allow() -> None:
            self.in_background(
                lambda: self.services.egress.allow(address), lambda _: then(), group="allow"
            )

        self.app.push_screen(self.routes.egress(address, allow))

    def show_error(self, error: WorkbenchError) -> None:
        """Shows an error in a dialog."""
        if isinstance(error, ProjectMoved):
            cast(RoutedApp, self.app).tell_moved(error)
        else:
            self.app.push_screen(ErrorDialog(error))

    def show_in_summary(self, error: WorkbenchError) -> None:
        """Shows an error in the summary line, where a dialog would come again with each read."""
        text = Content.styled(one_line(str(error)), "$tone-incomplete")
        self.query_one("#summary", Static).update(text)

    # Empty screens

    def show_empty(self, state: EmptyState) -> None:
        """Says what fills the screen; in a project without conversations, that they are to be imported first."""
        if state.needs_no_conversations or state == self._empty_state:
            self._show_empty_state(state)
        else:
            self.in_background(
                self.services.conversations.counts,
                lambda counts: self._show_empty_state(state if counts.conversations else IMPORT),
                group="empty",
            )

    def _show_empty_state(self, state: EmptyState) -> None:
        """Shows the sentence and the keys; enter works from now on."""
        self._empty_state = state
        self.query_one(".empty", Static).update(state.content(self._key_of))
        self.refresh_bindings()

    def _key_of(self, action: str) -> str:
        """Returns the key of an action, by its id, as a person reads it: the person's own, else the program's."""
        keymap = cast(RoutedApp, self.app).shell.keymap
        if action in keymap:
            key = keymap[action].partition(",")[0].strip()
        else:
            bindings = (
                binding
                for cls in (*type(self).__mro__, *type(self.app).__mro__)
                for binding in Binding.make_bindings(cls.__dict__.get("BINDINGS", ()))
            )
            key = next(binding.key for binding in bindings if binding.id == action)
        return key if key == "enter" else shown_key(key)  # a newcomer may not know ⏎

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Returns whether an action works now: `fill` does while the screen is empty and enter has no other meaning."""
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
        """Returns whether the project can be written; notifies why not when it cannot."""
        reason = self.services.read_only
        if reason is None:
            return True
        self.notify(one_line(reason), title="Read-only", severity="warning", markup=False)
        return False

    # The filter line, on screens that have one

    def action_edit_filter(self) -> None:
        """Opens the filter line behind its present filter."""
        self._edit_filter()

    def action_search(self) -> None:
        """Opens the filter line to add words to search for."""
        self._edit_filter(words=True)

    def _edit_filter(self, *, words: bool = False) -> None:
        """Opens the filter line; with `words` the cursor is behind a space after the present filter."""
        line = self.query_one(FilterLine)
        line.read_values = partial(self.services.conversations.values, filter=Filter())
        line.edit(words=words)

    # Other screens

    @property
    def routes(self) -> Routes:
        """The functions that make the screens of other folders."""
        return cast(RoutedApp, self.app).routes

    def open_reader(
        self,
        order: array[int],
        index: int,
        then: Callable[[int], None] = lambda _: None,
        *,
        words: Sequence[str] = (),
    ) -> None:
        """Opens the reader on the conversation at an index of `order`, with `words` highlighted.

        Args:
            order: Ids of the conversations to read one after another.
            then: Gets the id of the conversation that was read last, when the reader is closed.
        """

        def on_close(conversation_id: int | None) -> None:
            if conversation_id is not None:
                then(conversation_id)

        self.app.push_screen(self.routes.reader(order, index, self.MODE, words), on_close)

    def open_conversations(self, filter: Filter) -> None:
        """Lists the conversations behind a figure; going back leads here."""
        self.app.push_screen(self.routes.conversations(filter, self.MODE))

    def open_why(self, split: Split | None) -> None:
        """Shows what goes with one of two sides; None takes the sides of the outcome that is known best."""
        self.app.push_screen(self.routes.why(split, self.MODE))

    def sides(self) -> Split | None:
        """Returns what the screen lists and all others as two sides; None where it lists no part of them."""
        filter = self.listed()
        return Split(filter, Filter()) if filter else None

    def triage_only(self, name: str, ids: Sequence[int]) -> None:
        """Goes to triage of just these conversations; escape there leads back.

        Args:
            name: What the conversations have in common, in words.
        """
        if not ids:
            self.notify("There are no conversations to judge.", markup=False)
            return
        conversations = NamedConversations(name, tuple(ids), self.MODE)

        async def go_to_triage() -> None:
            await self.app.run_action("switch_mode('triage')")
            if isinstance(self.app.screen, WorkbenchScreen):
                self.app.screen.judge_only(conversations)

        self.app.run_worker(go_to_triage(), group="triage")

    def action_close(self) -> None:
        """Goes back; a second key while the screen closes does nothing."""
        if self.is_active:
            self.dismiss(None)

    def filter_by(self, filter: Filter) -> None:
        """Lists what a filter matches. Screens that can be filtered override this; the others ignore it."""

    def judge_only(self, conversations: NamedConversations) -> None:
        """Judges only these conversations. Triage overrides this; the other screens ignore it."""

    # Jobs that more than one screen starts

    def action_run_scoring(self) -> None:
        """Shows what scoring costs, and starts it."""
        if self.may_write():
            self.ask_scoring(self.services.jobs.scoring_mode(), self.listed())

    def ask_scoring(self, mode: Mode, listed: Filter | None = None) -> None:
        """Asks how to score which conversations, and starts that; `mode` and `listed` are proposed."""
        from screens.shell.run_form import ScoringForm  # the first frame needs none

        jobs = self.services.jobs
        form = ScoringForm(jobs, mode, listed or Filter())
        ask(self, form, lambda request: self._start(lambda: jobs.start_scoring(request)))

    def listed(self) -> Filter | None:
        """Returns the filter of the conversations that the screen lists; None where it is no list."""
        return None

    def action_import_files(self) -> None:
        """Asks for a file or folder, and imports it."""
        if not self.may_write():
            return

        def on_choice(answer: tuple[str, str | None]) -> None:
            path, format = answer
            # Where the person said how to read the file, what was read of it before is replaced.
            request = ImportRequest(format, replace=format is not None)
            self._start(lambda: self.services.jobs.start_import([path], request))

        from screens.shell.importing import ImportDialog  # it brings the readers of all formats

        ask(self, ImportDialog(), on_choice)

    def resume(self, run: RunRow, mode: Mode) -> None:
        """Starts an interrupted import again, or opens the form of another run: with the same values it goes on.

        Args:
            mode: The mode of scoring, for a run that does not tell its own.
        """
        if not self.may_write():
            return
        jobs, work = self.services.jobs, work_of(run.stage)
        if work == "import":
            paths = [str(path) for path in run.params.get("paths", [])]
            options = {
                name: run.params[name] for name in options_of(ImportRequest) if name in run.params
            }
            self._start(lambda: jobs.start_import(paths, ImportRequest(**options)))
        elif work == "watch":
            self.call_later(self.app.run_action, "app.watch")
        elif work in FORMS:
            self.open_form(*FORMS[work])
        elif work == "scoring":
            # The run does not tell its conversations and its model by name, so a person sees what would run.
            self.ask_scoring(_mode_of(run, mode))
        else:
            self.notify("The command that began it goes on when it is given again.", markup=False)

    def open_form(self, mode: str, action: str) -> None:
        """Goes to a mode and runs an action there, which opens the form of a run or starts a run that has no form."""

        async def go_to_mode() -> None:
            await self.app.run_action(f"switch_mode('{mode}')")
            await self.app.run_action(action, self.app.screen)

        self.app.run_worker(go_to_mode(), group="form")

    def _start(self, start: Callable[[], int]) -> None:
        """Starts a job in the background; why it cannot start is shown in a dialog."""
        self.in_background(start, lambda job: None, group="start")

    # Errors of widgets

    def on_row_table_failed(self, message: RowTable.Failed) -> None:
        """Shows why rows could not be read."""
        self.show_error(message.error)

    def on_transcript_failed(self, message: Transcript.Failed) -> None:
        """Shows why a conversation could not be laid out."""
        self.show_error(message.error)


def _mode_of(run: RunRow, fallback: Mode) -> Mode:
    """Returns the mode of an interrupted scoring run; `fallback` where the run does not tell it."""
    # Only the mode `probe` reads the states of a model and fits a probe to them.
    if run.stage in ("read", "fit") and run.params.get("features") != "words":
        return "probe"
    mode: Mode = run.params.get("mode", "words" if run.stage == "fit" else fallback)
    return mode
