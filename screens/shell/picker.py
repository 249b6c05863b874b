"""The first screen where no project is named: the demo, logs to open, or a project, recent or by its path.

It is an app of its own, because no project is open yet. What the person chose is done after it has ended.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from engine.base import number_format
from engine.base.errors import WorkbenchError
from engine.base.text import NAME_LIMIT, PATH_LIMIT, one_line
from screens.shell.app_interface import RecentProject, Shell
from screens.shell.base_app import BaseApp
from screens.shell.dialogs import ErrorDialog, TextDialog, ask
from screens.shell.palette import HelpScreen
from screens.widgets.background import background
from screens.widgets.controls import Choices, titled
from screens.widgets.keyed import Keyed, KeyFooter

SUFFIX = ".wb"
"""The ending of project files."""
BEGINNING_WIDTH = 16
"""Cells for the name of a way to begin."""
NAME_WIDTH = 28
"""Cells for the name of a project."""
SIZE_WIDTH = 18
"""Cells for the size of a project."""

Kind = Literal["project", "demo", "logs"]
"""What a person can begin with."""

BEGINNINGS: dict[Kind, tuple[str, str]] = {
    "demo": ("See the demo", "300 made-up conversations, in the folder workbench-demo"),
    "logs": ("Open your logs", "a file, an archive or a folder; makes a project here"),
}
"""Ways to begin without a project, each with what it is."""


@dataclass(frozen=True, slots=True)
class Beginning:
    """What a person chose to begin with.

    Attributes:
        kind: What it is.
        path: Path of the project or of the logs; empty for the demo.
        format: Format in which logs are read; None detects it.
    """

    kind: Kind
    path: str = ""
    format: str | None = None


class PickerApp(Keyed, BaseApp[Beginning | None], inherit_bindings=False):
    """Lists ways to begin and recent projects; returns the chosen one, or None if it is closed without a choice."""

    TITLE = "Conversation Workbench"
    CSS_PATH = ["common.tcss", "picker.tcss"]  # noqa: RUF012 - Textual declares it
    PLACE = "picker"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("e", "begin('demo')", "Demo", tooltip="Make the demo's project and look at it"),
        Binding("l", "begin('logs')", "Your logs", tooltip="Open logs: read, group and score them"),
        Binding("o", "other", "Other file", tooltip="Open a project by its path"),
        Binding("n", "new", "New", tooltip="Make a new project"),
        Binding("d", "forget", "Forget", tooltip="Take it off this list; the file stays"),
        Binding("question_mark", "help", "Help"),
        Binding("q,escape,ctrl+q", "leave", "Quit"),
        Binding("ctrl+z", "suspend_process", "Suspend", show=False),
    ]
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, shell: Shell) -> None:
        super().__init__(shell)
        self._projects: list[RecentProject] = []

    def compose(self) -> ComposeResult:
        """Yields what the program is for, ways to begin, recent projects."""
        yield Static(
            Content.assemble(
                (" Conversation Workbench", "bold"),
                ("  what users wanted, and whether it ended", "$tone-muted"),
            ),
            id="title",
        )
        with titled(Vertical(classes="card"), "Where to begin"):
            yield Choices(id="projects", markup=False, compact=True)
        yield KeyFooter()

    def on_mount(self) -> None:
        """Reads which project files still exist."""
        self.begin_session()
        self._read_projects()

    def _read_projects(self) -> None:
        """Reads the recent projects in the background."""
        background(
            self.screen,
            self.shell.recent,
            self._show_projects,
            lambda error: self.push_screen(ErrorDialog(error)),
            group="recent",
        )

    def _show_projects(self, projects: list[RecentProject]) -> None:
        """Lists the ways to begin and the projects; the cursor stays where it was."""
        self._projects = projects
        choices = self.query_one("#projects", Choices)
        options = [
            Option(
                Content.assemble((f"{name:<{BEGINNING_WIDTH}}", "bold"), (help, "$tone-muted")),
                id=kind,
            )
            for kind, (name, help) in BEGINNINGS.items()
        ]
        first = 0
        if projects:
            heading = Content.styled("Projects that were open before", "$tone-accent")
            options += [Option("", disabled=True), Option(heading, disabled=True)]
            first = len(options)
        options += [Option(project_content(project)) for project in projects]
        index = choices.highlighted
        choices.set_options(options)
        choices.highlighted = first if index is None else min(index, len(options) - 1)
        choices.focus()

    def _project_at(self, index: int) -> RecentProject | None:
        """Returns the project in a line of the list, by the index of the line; None for a way to begin."""
        lines = len(self.query_one("#projects", Choices).options)
        project_index = index - (lines - len(self._projects))  # the projects are the last lines
        return self._projects[project_index] if project_index >= 0 else None

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Enter or a click begins in the chosen way, or opens the chosen project."""
        project = self._project_at(event.option_index)
        if project is None:
            self.action_begin(str(event.option_id))
        elif project.size is None:
            self._show_problem(
                f"{project.path} is not there any more.", "d removes it from the list."
            )
        else:
            self.exit(Beginning("project", project.path))

    def action_begin(self, kind: str) -> None:
        """Begins with the demo, or asks for logs."""
        if kind == "logs":

            def open_logs(answer: tuple[str, str | None]) -> None:
                self.exit(Beginning("logs", *answer))

            from screens.shell.importing import ImportDialog  # it brings the readers of all formats

            ask(self, ImportDialog(), open_logs)
        else:
            self.exit(Beginning("demo"))

    def _show_problem(self, message: str, hint: str) -> None:
        """Shows why a project cannot be opened or made."""
        self.push_screen(ErrorDialog(WorkbenchError(message, hint), "This cannot be opened"))

    def action_other(self) -> None:
        """Asks for the path of a project, and opens it."""

        def open_project(path: Path) -> None:
            if os.path.isfile(path):
                self.exit(Beginning("project", os.fspath(path.absolute())))
            else:
                self._show_problem(f"There is no file {path}.", "n makes a new project.")

        self._ask_path("Open a project", f"path of a {SUFFIX} file", open_project)

    def action_new(self) -> None:
        """Asks for the path of a new project, and makes it."""

        def make_project(path: Path) -> None:
            """Ends with the new project, unless something is in its place, or there is no such folder."""
            path = path.absolute()
            if path.name and not path.suffix:
                path = path.with_suffix(SUFFIX)
            if os.path.exists(path):
                self._show_problem(
                    f"{path} is there already.", "o opens it, or choose another name."
                )
            elif not os.path.isdir(path.parent):
                self._show_problem(
                    f"There is no folder {path.parent}.", "Choose one that is there."
                )
            else:
                self.exit(Beginning("project", os.fspath(path)))

        self._ask_path("New project", f"name or path, {SUFFIX}", make_project)

    def _ask_path(self, title: str, placeholder: str, then: Callable[[Path], None]) -> None:
        """Asks for a path, and calls `then` with it unless it is empty."""

        def on_text(text: str) -> None:
            if text.strip():
                then(Path(os.path.expanduser(text.strip())))

        ask(self, TextDialog(title, placeholder=placeholder), on_text)

    def action_forget(self) -> None:
        """Takes the project under the cursor off the list."""
        index = self.query_one("#projects", Choices).highlighted
        project = None if index is None else self._project_at(index)
        if project is not None:
            self.shell.forget_project(project.path)
            self._read_projects()

    def action_help(self) -> None:
        """Shows the keys."""
        self.push_screen(HelpScreen(self.screen))

    def action_leave(self) -> None:
        """Leaves without a project."""
        self.exit(None)


def project_content(project: RecentProject) -> Content:
    """Returns the name, folder, size and day of a project, or that its file is gone."""
    path = Path(project.path)
    name = one_line(path.name, NAME_LIMIT)
    is_gone = project.size is None
    size = (
        "not there any more" if project.size is None else f"{number_format.amount(project.size)}B"
    )
    return Content.assemble(
        (f"{name:<{NAME_WIDTH}} ", "$tone-muted" if is_gone else "bold"),
        (f"{size:<{SIZE_WIDTH}}  ", "$tone-incomplete" if is_gone else ""),
        (f"{one_line(project.opened_at[: len('2026-01-01')])}  ", "$tone-muted"),
        (one_line(str(path.parent), PATH_LIMIT), "$tone-muted"),
    )
