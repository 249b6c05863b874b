"""The terminal app: modes, themes, keys, and the actions that work on every screen.

A *mode* is one of the main screens between which the keys 1 to 8 switch, with the screens opened from it.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from textual.binding import Binding, BindingType
from textual.command import Provider
from textual.screen import Screen

import screens
from engine.base.errors import ProjectMoved, WorkbenchError
from engine.base.events import FileChanged, JobEnded, Listener, ModelRestarted
from engine.base.text import one_line
from engine.conversations.filters import Filter
from engine.opener.open_project import OpenProject
from engine.results.associations.records import Split
from screens.shell.app_interface import Routes, Shell
from screens.shell.base_app import BaseApp
from screens.shell.dialogs import ChoiceDialog, ErrorDialog, TextDialog
from screens.shell.themes import THEMES, theme_name
from screens.shell.title_line import MODES, TitleLine
from screens.shell.workbench_screen import WorkbenchScreen
from screens.widgets.background import all_written, in_thread
from screens.widgets.jobs import EngineFeed, EngineMessage
from screens.widgets.keyed import Keyed

QUIT_SECONDS = 2.0
"""Seconds that quitting waits for verdicts that are being written; it does not wait for jobs."""


@dataclass(frozen=True)
class ScreenOpener:
    """Makes the screens of one project, with a method for each mode, which has its name, and for each of `Routes`."""

    services: OpenProject
    feed: EngineFeed

    # Modes

    def overview(self) -> Screen[Any]:
        """Makes the overview."""
        from screens.overview.screen import OverviewScreen

        return OverviewScreen(self.services, self.feed)

    def conversations(self) -> Screen[Any]:
        """Makes the list of conversations."""
        from screens.conversations.screen import ConversationsScreen

        return ConversationsScreen(self.services, self.feed)

    def triage(self) -> Screen[Any]:
        """Makes the triage."""
        from screens.triage.screen import TriageScreen

        return TriageScreen(self.services, self.feed)

    def trees(self) -> Screen[Any]:
        """Makes the list of response trees."""
        from screens.trees.list_screen import TreeSetScreen

        return TreeSetScreen(self.services, self.feed)

    def goals(self) -> Screen[Any]:
        """Makes the list of goal groups."""
        from screens.goals.screen import GoalsScreen

        return GoalsScreen(self.services, self.feed)

    def desk(self) -> Screen[Any]:
        """Makes the merge desk."""
        from screens.merge_review.screen import MergeDeskScreen

        return MergeDeskScreen(self.services, self.feed)

    def training(self) -> Screen[Any]:
        """Makes the list of training runs."""
        from screens.training.screen import TrainingScreen

        return TrainingScreen(self.services, self.feed)

    def models(self) -> Screen[Any]:
        """Makes the list of models."""
        from screens.models import ModelsScreen

        return ModelsScreen(self.services, self.feed)

    # Screens that several others open

    def reader(self, order: array[int], at: int, mode: str, words: Sequence[str]) -> Screen[int]:
        """Makes the reader; see `Routes.reader`."""
        from screens.reader import ReaderScreen

        return ReaderScreen(self.services, self.feed, order, at, mode, words)

    def tree(self, conversation_id: int, step: int, mode: str) -> Screen[Any]:
        """Makes the response tree at a step of a conversation."""
        from screens.trees.screen import TreeScreen

        return TreeScreen(self.services, self.feed, conversation_id, step, mode)

    def calibration(self, mode: str) -> Screen[Any]:
        """Makes the screen with what the verdicts say of the scores."""
        from screens.triage.calibration_screen import CalibrationScreen

        return CalibrationScreen(self.services, self.feed, mode)

    def conversations_behind(self, filter: Filter, mode: str) -> Screen[Any]:
        """Makes the list of the conversations behind a figure."""
        from screens.conversations.screen import ConversationsBehindScreen

        return ConversationsBehindScreen(self.services, self.feed, filter, mode)

    def egress(self, address: str, allow: Callable[[], None]) -> Screen[None]:
        """Makes the dialog with what would be sent to an address on another machine."""
        from screens.shell.reading_dialogs import EgressDialog

        return EgressDialog(self.services, address, allow)

    def why(self, split: Split | None, mode: str) -> Screen[Any]:
        """Makes the list of the features that go with one of two sides."""
        from screens.associations import AssociationScreen

        return AssociationScreen(self.services, self.feed, split, mode)

    def members(self, group_id: str | None, mode: str) -> Screen[Any]:
        """Makes the list of the conversations of a goal group; None for the outliers."""
        from screens.goals.members_screen import GoalMembersScreen

        return GoalMembersScreen(self.services, self.feed, group_id, mode)


Subscribe = Callable[[Listener], Callable[[], None]]
"""Adds a listener to the engine's events and returns the function that removes it."""


def _commands() -> type[Provider]:
    """Returns the commands of the palette, which are imported when it is opened first."""
    from screens.shell.palette import WorkbenchCommands

    return WorkbenchCommands


def _style_sheets() -> Sequence[Path]:
    """Returns the style sheets of all screens, the common one first.

    If a screen brought its own style sheet when it is visited first, Textual would parse the earlier ones once more.
    """
    folder = Path(screens.__file__).parent
    common = folder / "shell" / "common.tcss"
    of_screens = sorted({*folder.rglob("*.tcss")} - {common, folder / "shell" / "picker.tcss"})
    return [common, *of_screens]


class WorkbenchApp(Keyed, BaseApp[None], inherit_bindings=False):
    """Works on every screen, unless a dialog is open. The caller closes the services after the app has quit.

    The first sentence is what the table of keys says of the bindings.

    Attributes:
        next_project: Path of the project to open when this one has been closed; None to end.
        routes: Makes the screens that screens of other folders open.
    """

    TITLE = "Conversation Workbench"
    CSS_PATH = [*_style_sheets()]  # noqa: RUF012 - Textual declares it
    COMMANDS: ClassVar[set[type[Provider] | Callable[[], type[Provider]]]] = {_commands}
    PLACE = "app"
    """Section of the keymap."""
    BINDINGS: ClassVar[list[BindingType]] = [
        *[
            Binding(
                mode.key,
                f"switch_mode('{mode.name}')",
                mode.title,
                show=False,
                tooltip=f"Go to {mode.title}",
            )
            for mode in MODES
        ],
        Binding("ctrl+p,colon", "command_palette", "Palette", show=False, tooltip="All commands"),
        Binding("x", "cancel_job", "Cancel job", show=False, tooltip="Cancel the job that runs"),
        Binding(
            "exclamation_mark",
            "why",
            "Why",
            key_display="!",
            show=False,
            tooltip="What goes with failure, or with what is listed",
        ),
        Binding("L", "watch", "Watch", show=False, tooltip="Watch logs as they grow"),
        Binding(
            "at",
            "annotator",
            "Your name",
            key_display="@",
            show=False,
            tooltip="Your name, stored with your verdicts",
        ),
        Binding("T", "next_theme", "Theme", show=False, tooltip="Next theme"),
        Binding("question_mark", "help", "Help", key_display="?"),
        Binding("q", "quit", "Quit", show=False, id="app.quit"),
        Binding(
            "ctrl+q",
            "quit_at_once",
            "Quit at once",
            show=False,
            priority=True,
            id="app.quit-at-once",
            tooltip="Quit without asking; a job stops and can be resumed",
        ),
        Binding("ctrl+z", "suspend_process", "Suspend", show=False, tooltip="Back to the shell"),
        Binding("ctrl+c", "help_quit", "How to quit", show=False, system=True),
    ]
    COMMAND_PALETTE_BINDING = "ctrl+p"

    def __init__(
        self,
        services: OpenProject,
        subscribe: Subscribe,
        *,
        shell: Shell | None = None,
    ) -> None:
        """Draws nothing yet.

        Args:
            services: The open project.
            subscribe: Adds the listener for the engine's events.
            shell: What the app starts with, such as the theme; None for defaults.
        """
        super().__init__(shell or Shell())
        self.next_project: str | None = None
        self._services = services
        services.triage.annotator = self.shell.annotator
        self._subscribe = subscribe
        self._unsubscribe: Callable[[], None] | None = None
        self._moved: ProjectMoved | None = (
            None  # what became of the file, once it is not there any more
        )
        self._may_save = False  # whether the moved project can be saved elsewhere
        self._feed = EngineFeed(self)
        opener = ScreenOpener(services, self._feed)
        self.routes = Routes(
            reader=opener.reader,
            tree=opener.tree,
            calibration=opener.calibration,
            conversations=opener.conversations_behind,
            why=opener.why,
            members=opener.members,
            egress=opener.egress,
        )
        for mode in MODES:
            self.add_mode(mode.name, getattr(opener, mode.name))

    async def on_mount(self) -> None:
        """Subscribes to the events of the engine and shows the first mode."""
        self._unsubscribe = self._subscribe(self._feed.receive)
        await self.switch_mode("overview")
        self.begin_session()

    def on_unmount(self) -> None:
        """Unsubscribes from the events of the engine."""
        if self._unsubscribe is not None:
            self._unsubscribe()

    def on_engine_message(self, message: EngineMessage) -> None:
        """Passes an event to the screens, and tells the person of moved files, ended jobs and a restarted model."""
        event = message.event
        self._feed.publish(event)
        if isinstance(event, FileChanged):
            if (moved := self._services.file.moved) is not None:
                self.tell_moved(moved)
            else:
                self._offer_to_write()
        if isinstance(event, JobEnded):
            if event.outcome == "failed":
                error = WorkbenchError(event.message, event.hint, event.code)
                self.push_screen(ErrorDialog(error, f"{event.title} failed"))
            else:
                self.notify(one_line(event.message), title=one_line(event.title), markup=False)
        elif isinstance(event, ModelRestarted):
            title = "The model process was started anew"
            self.notify(one_line(event.reason), title=title, severity="warning", markup=False)

    def tell_moved(self, moved: ProjectMoved) -> None:
        """Says, once, that the project is no longer written, and offers to save it elsewhere or to open another
        file."""
        project = self._services
        if self._moved is not None:
            return
        self._moved = moved
        self._may_save = project.read_only is None and not moved.overwritten
        project.read_only = f"{moved.cause} while it was open"
        for line in self.query(TitleLine):
            line.show_state()
        self.notify(moved.message, severity="error", markup=False, timeout=15)
        self._offer_other_files(moved, ("stay", "Stay here, read-only"))

    def _offer_other_files(self, moved: ProjectMoved, last_choice: tuple[str, str]) -> None:
        """Offers to save a project that was moved elsewhere, or to open another file.

        Args:
            last_choice: What else a person can choose: `stay` or `quit`, with how it is shown.
        """
        project = self._services
        choices = []
        if self._may_save:
            choices.append(("save", "Save all that is stored here as a new file, and open that"))
        if moved.where is not None:
            choices.insert(0, ("where", f"Open {one_line(moved.where, 200)}"))
        else:
            choices.append(("again", f"Open what {one_line(project.name, 60)} is now"))
        choices.append(last_choice)
        offer_again = partial(self._offer_other_files, moved, last_choice)

        async def act_on_choice(choice: str | None) -> None:
            """Asks where to save the project, or opens another file."""
            if choice == "save":
                self.push_screen(TextDialog("Save as", placeholder="a new file"), save)
            elif choice == "quit":
                await self.action_quit_at_once()
            elif choice in ("where", "again"):
                await self.open_project(
                    moved.where if choice == "where" and moved.where else project.path
                )

        async def save(path: str | None) -> None:
            """Saves the project as a new file, and opens that file."""
            if path is None or not path.strip():
                offer_again()
                return
            target = os.path.expanduser(path.strip())
            try:
                await in_thread(lambda: self._services.project.save_copy(target))
            except WorkbenchError as error:
                self.push_screen(ErrorDialog(error), lambda _: offer_again())
                return
            await self.open_project(target)

        title = f"Read-only from now on: {moved.cause}"
        self.push_screen(ChoiceDialog(title, choices), act_on_choice)

    def _offer_to_write(self) -> None:
        """Offers to open the project anew for writing, after the process that wrote it has ended."""
        project = self._services

        async def take_over_if(yes: bool | None) -> None:
            """Opens the project again if the person agrees."""
            if yes:
                await self.open_project(project.path)

        choices = [(True, "Take over: open it again, for writing"), (False, "Stay read-only")]
        title = f"Nobody else writes {one_line(project.name, 60)} any more"
        self.push_screen(ChoiceDialog(title, choices), take_over_if)

    @property
    def log_path(self) -> str:
        """The path of the log file, which error dialogs show."""
        return self.shell.log

    # Actions

    async def action_switch_mode(self, mode: str) -> None:
        """Goes to a mode, or back to the first screen of the present mode."""
        if mode != self.current_mode:
            await self.switch_mode(mode)
            return
        while (depth := len(self.screen_stack)) > 1:
            if not await self.run_action("leave", self.screen):
                await self.pop_screen()
            # the screen asks the person first, or only left a state of its own
            if len(self.screen_stack) >= depth:
                return

    def action_cancel_job(self) -> None:
        """Asks the job that runs to stop."""
        job = next(iter(self._services.jobs.active()), None)
        if job is not None:
            self._services.jobs.cancel(job.job_id)
        else:
            self.notify("No job is running.", markup=False)

    def action_annotator(self) -> None:
        """Asks for the name that is stored with the verdicts of the person, and remembers it."""
        triage = self._services.triage

        def take_name(text: str | None) -> None:
            """Stores the name, and tells the person."""
            if text is None:
                return
            triage.annotator = one_line(text.strip(), 80)
            self.shell.remember_annotator(triage.annotator)
            name = triage.annotator
            name_text = f"with the name {name}" if name else "without a name"
            self.notify(f"Your verdicts are stored {name_text} from now on.", markup=False)
            if isinstance(self.screen, WorkbenchScreen):
                self.screen.refresh_data()

        title = "Your name, stored with your verdicts (empty: none)"
        self.push_screen(TextDialog(title, value=triage.annotator), take_name)

    def action_next_theme(self) -> None:
        """Changes to the next theme."""
        names = list(THEMES)
        present = theme_name(self.current_theme)
        next_index = (names.index(present) + 1) % len(names) if present in names else 0
        self.use_theme(names[next_index])

    def use_theme(self, name: str) -> None:
        """Changes the theme and remembers it."""
        self.theme = THEMES[name].name
        self.shell.remember_theme(name)

    def action_compare(self) -> None:
        """Asks what to compare, and shows what differs."""
        from screens.comparison import ComparisonScreen

        self.push_screen(ComparisonScreen(self._services, self._feed, self.current_mode))

    def action_why(self) -> None:
        """Shows what goes with one of the two sides into which the present screen divides conversations."""
        if isinstance(self.screen, WorkbenchScreen):
            self.screen.open_why(self.screen.sides())

    def action_watch(self) -> None:
        """Opens the screen of watches, unless it is open."""
        from screens.watch import WatchScreen

        if not any(isinstance(screen, WatchScreen) for screen in self.screen_stack):
            self.push_screen(WatchScreen(self._services, self._feed, self.current_mode))

    def action_command_palette(self) -> None:
        """Opens the palette, unless it is open."""
        from screens.shell.palette import Palette

        if not isinstance(self.screen, Palette):
            self.push_screen(Palette())

    def action_help(self) -> None:
        """Shows the keys that work here."""
        from screens.shell.palette import HelpScreen

        self.push_screen(HelpScreen(self.screen))

    async def open_project(self, path: str) -> None:
        """Quits, so that the caller opens another project; asks first if that stops a job."""

        async def leave() -> None:
            """Quits, with the path of the project to open next."""
            self.next_project = path
            await self.action_quit_at_once()

        await self._ask_to_stop_jobs_then(leave)

    async def action_quit(self) -> None:
        """Quits; asks first if that stops a job, or loses a project whose file is gone."""
        if self._moved is not None and self._moved.where is None and self._may_save:
            self._offer_other_files(
                self._moved, ("quit", "Quit. What was stored in the file is lost.")
            )
            return
        await self._ask_to_stop_jobs_then(self.action_quit_at_once)

    async def action_quit_at_once(self) -> None:
        """Quits without waiting for jobs; verdicts that are being written are finished first."""
        await all_written(QUIT_SECONDS)
        self.exit()

    async def _ask_to_stop_jobs_then(self, leave: Callable[[], Awaitable[None]]) -> None:
        """Calls `leave`; if jobs run or wait, only after the person agrees."""
        job = next(iter(self._services.jobs.active()), None)
        if job is None:
            await leave()
            return

        async def leave_if(yes: bool | None) -> None:
            """Leaves if the person agrees."""
            if yes:
                await leave()

        done = f"{job.done:,}" if job.total is None else f"{job.done:,} of {job.total:,}"
        choices = [
            (True, "Quit. The job stops, what it did is kept, and it can be resumed."),
            (False, "Stay"),
        ]
        title = f"{one_line(job.title, 40)} is running: {done} {one_line(job.unit)}".rstrip()
        self.push_screen(ChoiceDialog(title, choices), leave_if)
