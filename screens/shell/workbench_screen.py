"""The base of every screen: title line, footer, jobs bar, error dialogs, and ways to other screens."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, TypeVar, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Input, OptionList, Static

from engine.base.errors import AddressNotAllowed, FilterError, ProjectMoved, WorkbenchError
from engine.base.events import DataChanged, Event
from engine.base.request_options import options_of
from engine.base.text import one_line
from engine.completeness.records import Mode
from engine.completeness.scoring_request import ScoringRequest
from engine.conversations.filters import Filter, parse_filter
from engine.conversations.records import ImportRequest
from engine.opener.conversations import Counts
from engine.opener.open_project import OpenProject
from engine.project.records import RunRow
from engine.results.associations.records import Split
from screens.shell.app_interface import NamedConversations, RoutedApp, Routes
from screens.shell.dialogs import ChoiceDialog, ErrorDialog, IgnoresLateEvents, TextDialog, ask
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
FORMS = {
    **dict.fromkeys(
        ("embed", "summarize", "cluster", "label", "propose", "decide"), ("goals", "run_clustering")
    ),
    "assign": ("goals", "assign"),
    "stability": ("goals", "stability"),
    "trees": ("trees", "run_trees"),
    "grow": ("trees", "run_trees"),
}
"""The mode and its action that start an interrupted stage again, for stages that have a form or need their screen."""


class WorkbenchScreen(Keyed, IgnoresLateEvents, Screen[ResultT], inherit_bindings=False):
    """Every screen of the program: it reads again after events of the engine while it is in front, and shows errors."""

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

    HORIZONTAL_BREAKPOINTS = [  # noqa: RUF012 - Textual declares it
        (0, "-narrow"),
        (100, "-wide"),
        (150, "-very-wide"),
    ]
    MODE: ClassVar[str]
    """Name of the mode; of a screen that is no mode itself, that from which it was opened."""
    FIRST_KEYS: ClassVar[tuple[str, ...]] = ()
    """Ids of the bindings that matter first here; help shows them above all others."""

    def __init__(self, services: OpenProject, feed: EngineFeed, mode: str = "") -> None:
        """`mode` is that of the screen from which a screen that is no mode itself is opened."""
        super().__init__()
        if mode:
            self.MODE = mode  # type: ignore[misc]
        self.services = services
        self.feed = feed
        self._stale = False  # data changed while another screen was in front
        self._refresh_due = False  # a timer for the next refresh runs
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

    def on_screen_resume(self) -> None:
        """Reads again if data changed while another screen was in front."""
        for line in self.query(TitleLine):
            line.show_state()
        if self._stale:
            self._stale = False
            self.refresh_data()

    def _handle_event(self, event: Event) -> None:
        """Reads again soon after data changed; once the screen is in front, where it is not."""
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

    def in_background(
        self,
        work: Callable[[], T],
        then: Callable[[T], None],
        *,
        group: str,
        failed: Callable[[WorkbenchError], None] | None = None,
    ) -> None:
        """Runs `work` off the UI thread; an error is shown in a dialog unless `failed` takes it. Where texts may not be
        sent to an address yet, it is run again once a person has allowed that."""

        def run_again() -> None:
            self.in_background(work, then, group=group, failed=failed)

        def show(error: WorkbenchError) -> None:
            if isinstance(error, AddressNotAllowed):
                self._ask_to_send(error.address, run_again)
            else:
                (failed or self.show_error)(error)

        background(self, work, then, show, group=group)

    def _ask_to_send(self, address: str, then: Callable[[], None]) -> None:
        """Shows what would be sent to an address on another machine; once a person allows it, calls `then`."""

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

    # Empty screens

    def show_empty(self, state: EmptyState) -> None:
        """Says what fills the screen; in a project without conversations, that they are to be imported first."""

        def show(shown: EmptyState) -> None:
            """Shows the sentence and the keys; enter works from now on."""
            self._empty_state = shown
            self.query_one(".empty", Static).update(shown.content(self._key_of))
            self.refresh_bindings()

        def show_or_offer_import(counts: Counts) -> None:
            """Shows the state, or in an empty project that of an import."""
            show(state if counts.conversations else IMPORT)

        if state.needs_no_conversations or state == self._empty_state:
            show(state)
        else:
            self.in_background(
                self.services.conversations.counts, show_or_offer_import, group="empty"
            )

    def _key_of(self, action: str) -> str:
        """Returns the key of an action as a person reads it: their own, else that of the program."""
        keymap = cast(RoutedApp, self.app).shell.keymap
        classes = (*type(self).__mro__, *type(self.app).__mro__)
        bindings = (
            binding
            for cls in classes
            for binding in Binding.make_bindings(cls.__dict__.get("BINDINGS", ()))
        )
        if action in keymap:
            key = keymap[action].partition(",")[0].strip()
        else:
            key = next(binding.key for binding in bindings if binding.id == action)
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
        """Returns whether the project can be written; says why not when it cannot."""
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

    def open_conversations(self, filter: Filter) -> None:
        """Lists the conversations behind a figure; going back leads here."""
        self.app.push_screen(self.routes.conversations(filter, self.MODE))

    def open_why(self, split: Split | None) -> None:
        """Shows what goes with one of two sides; with None, of the outcome that is known best."""
        self.app.push_screen(self.routes.why(split, self.MODE))

    def sides(self) -> Split | None:
        """Returns the sides that the screen parts conversations into: what it lists and all others; None without."""
        filter = self.listed()
        return Split(filter, Filter()) if filter else None

    def triage_only(self, name: str, ids: Sequence[int]) -> None:
        """Goes to triage of just these conversations; escape there leads back.

        Args:
            name: What they have in common, in words.
        """
        if not ids:
            self.notify("There are no conversations to judge.", markup=False)
            return
        conversations = NamedConversations(name, tuple(ids), self.MODE)

        async def go() -> None:
            """Goes to triage and hands it the conversations."""
            await self.app.run_action("switch_mode('triage')")
            if isinstance(self.app.screen, WorkbenchScreen):
                self.app.screen.judge_only(conversations)

        self.app.run_worker(go(), group="triage")

    def action_close(self) -> None:
        """Goes back; a second key while the screen closes does nothing."""
        if self.is_active:
            self.dismiss(None)

    def filter_by(self, filter: Filter) -> None:
        """Lists what a filter matches, where the screen is a list that can be filtered; others ignore it."""

    def judge_only(self, conversations: NamedConversations) -> None:
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

        def on_choice(request: ScoringRequest) -> None:
            self._start(lambda: self.services.jobs.start_scoring(request))

        from screens.shell.run_form import ScoringForm  # the first frame needs none

        ask(self, ScoringForm(self.services.jobs, first, listed or Filter()), on_choice)

    def listed(self) -> Filter | None:
        """Returns the filter of what the screen lists; None where it is no list."""
        return None

    def action_import_files(self) -> None:
        """Asks for a file or folder, and imports it."""
        if not self.may_write():
            return

        def on_choice(answer: tuple[str, str | None]) -> None:
            path, format = answer
            # what was read with another mapping is replaced
            request = ImportRequest(format, replace=format is not None)
            self._start(lambda: self.services.jobs.start_import([path], request))

        from screens.shell.importing import ImportDialog  # it brings the readers of all formats

        ask(self, ImportDialog(), on_choice)

    def resume(self, run: RunRow, mode: Mode) -> None:
        """Starts an interrupted run again, which goes on where it was; `mode` for runs that name none."""
        if not self.may_write():
            return
        if run.stage == "import":
            paths = [str(path) for path in run.params.get("paths", [])]
            names = options_of(ImportRequest)
            request = ImportRequest(
                **{name: run.params[name] for name in names if name in run.params}
            )
            self._start(lambda: self.services.jobs.start_import(paths, request))
        elif run.stage == "watch":
            self.call_later(self.app.run_action, "app.watch")
        elif run.stage in FORMS:
            self.open_form(*FORMS[run.stage])
        elif work_of(run.stage) == "scoring":
            # Only the mode `probe` reads the states of a model and fits a probe to them.
            reads_states = run.stage in ("read", "fit") and run.params.get("features") != "words"
            fallback: Mode = "words" if run.stage == "fit" else mode
            run_mode: Mode = "probe" if reads_states else run.params.get("mode", fallback)
            scoring = ScoringRequest(mode=run_mode)
            self._start(lambda: self.services.jobs.start_scoring(scoring))
        else:
            self.notify("The command that began it goes on when it is given again.", markup=False)

    def open_form(self, mode: str, action: str) -> None:
        """Goes to a mode and opens the form of its run, or starts a run that has no form."""

        async def go() -> None:
            """Goes to the mode, then opens the form there."""
            await self.app.run_action(f"switch_mode('{mode}')")
            await self.app.run_action(action, self.app.screen)

        self.app.run_worker(go(), group="form")

    def _start(self, start: Callable[[], int]) -> None:
        """Starts a job in the background; why it cannot start is shown in a dialog."""
        self.in_background(start, lambda job: None, group="start")

    def on_row_table_failed(self, message: RowTable.Failed) -> None:
        """Rows could not be read."""
        self.show_error(message.error)

    def on_transcript_failed(self, message: Transcript.Failed) -> None:
        """A conversation could not be laid out."""
        self.show_error(message.error)


def edit_filter(screen: WorkbenchScreen[Any], *, words: bool = False) -> None:
    """Opens the filter line of a screen that has one.

    Args:
        words: Puts the cursor behind the present filter, to add words to search for.
    """
    line = screen.query_one(FilterLine)
    line.read_values = partial(screen.services.conversations.values, filter=Filter())
    line.edit(words=words)


@dataclass(frozen=True, slots=True)
class Figure:
    """A number of conversations.

    Attributes:
        label: What they have in common, in words.
        filter: Selects them.
        count: How many they are; None if it is not known.
    """

    label: str
    filter: Filter
    count: int | None = None


def choose_figure(screen: WorkbenchScreen[Any], title: str, figures: Sequence[Figure]) -> None:
    """Lists figures but those of no conversation; enter on one opens the conversations behind it, `!` what goes with
    them."""
    shown = [figure for figure in figures if figure.count != 0]
    if not shown:
        screen.notify("There are no conversations behind it.", markup=False)
        return
    choices = [((index, False), _figure_line(figure)) for index, figure in enumerate(shown)]

    def on_choice(answer: tuple[int, bool]) -> None:
        """Opens the conversations behind the figure, or what goes with them."""
        index, why = answer
        if why:
            screen.open_why(Split(shown[index].filter, Filter()))
        else:
            screen.open_conversations(shown[index].filter)

    ask(screen, FigureDialog(title, choices), on_choice)


class FigureDialog(ChoiceDialog[tuple[int, bool]]):
    """Asks for a figure; answers with its index, and whether to say what goes with its conversations."""

    HINTS = (("enter", "lists them"), ("!", "says what goes with them"), ("escape", "cancels"))
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "exclamation_mark",
            "why",
            "Why",
            key_display="!",
            tooltip="What goes with the conversations of this figure",
        ),
    ]

    def action_why(self) -> None:
        """Answers with the figure under the cursor."""
        self.dismiss((self.query_one(OptionList).highlighted or 0, True))


def ask_sides(screen: WorkbenchScreen[Any], then: Callable[[Filter, Filter], None]) -> None:
    """Asks for two filters; `then` gets both. One that cannot be understood is shown as an error and ends this."""

    def ask_filter(title: str, take: Callable[[Filter], None]) -> None:
        """Asks for one of them."""

        def take_text(text: str) -> None:
            """Goes on with what was typed, if it is a filter."""
            try:
                filter = parse_filter(text)
            except FilterError as error:
                screen.show_error(error)
                return
            take(filter)

        ask(screen, TextDialog(title, placeholder="date:2026-10"), take_text)

    ask_filter(
        "The first side: a filter",
        lambda first: ask_filter(
            "The second side: a filter, or nothing for all others",
            lambda second: then(first, second),
        ),
    )


def _figure_line(figure: Figure) -> Content:
    """Returns a figure as a line of a choice."""
    number = "" if figure.count is None else f"{figure.count:,}"
    return Content.assemble((f"{number:>9}  ", "bold"), one_line(figure.label, 60))
