"""Which project to open: a recent one, a path, or a new file. An app of its own, because no project is open yet."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.filter import LineFilter
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from engine import number_format
from engine.errors import WorkbenchError
from engine.text import one_line
from screens.shell.control_guard import CONTROL_GUARD
from screens.shell.dialogs.basic import ErrorDialog, TextDialog
from screens.shell.fault_reporting import FaultReportingApp
from screens.shell.help import HelpScreen
from screens.shell.recent_projects import RecentProject, Shell
from screens.shell.suspension import draw_when_continued
from screens.shell.themes import DARK_TONES, LIGHT_TONES, THEMES, register_themes
from screens.widgets.background import background
from screens.widgets.choices import Choices
from screens.widgets.key_footer import KeyFooter
from screens.widgets.keyed import Keyed

SUFFIX = ".wb"


class PickerApp(Keyed, FaultReportingApp[str | None], inherit_bindings=False):
    """Lists recent projects; returns the path of the one to open, None when it is closed without a choice."""

    TITLE = "Conversation Workbench"
    CSS_PATH = ["common.tcss", "picker.tcss"]  # noqa: RUF012 - Textual declares it
    PLACE = "picker"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("o", "other", "Other file", tooltip="Open a project by its path"),
        Binding("n", "new", "New", tooltip="Make a new project"),
        Binding("d", "forget", "Forget", tooltip="Take it off this list; the file stays"),
        Binding("question_mark", "help", "Help"),
        Binding("q,escape,ctrl+q", "leave", "Quit"),
        Binding("ctrl+z", "suspend_process", "Suspend", show=False),
    ]
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, shell: Shell) -> None:
        super().__init__()
        self.shell = shell
        self.animation_level = "none"
        self._projects: list[RecentProject] = []
        register_themes(self)
        self.theme = THEMES[shell.theme].name
        self.set_keymap(shell.keymap)

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """The colours of the tones, needed before the theme is set."""
        return DARK_TONES if self.current_theme.dark else LIGHT_TONES

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Textual's own filters and the guard against control bytes."""
        return [*super().get_line_filters(), CONTROL_GUARD]

    def compose(self) -> ComposeResult:
        """Recent projects, or what to do without any."""
        yield Static(Content.styled(" Conversation Workbench", "bold"), id="title")
        with Vertical(classes="card") as box:
            box.border_title = Content("Open a project")
            yield Choices(id="projects", markup=False, compact=True)
            yield Static(id="none")
        yield KeyFooter()

    def on_mount(self) -> None:
        """Reads which project files are still there."""
        draw_when_continued(self)
        for problem in self.shell.problems:
            self.notify(one_line(problem, 400), severity="warning", markup=False, timeout=15)
        self._look()

    def _look(self) -> None:
        def failed(error: WorkbenchError) -> None:
            self.push_screen(ErrorDialog(error))

        background(self.screen, self.shell.recent, self._show, failed, group="recent")

    def _show(self, projects: list[RecentProject]) -> None:
        self._projects = projects
        choices = self.query_one("#projects", Choices)
        choices.set_options([Option(project_content(project)) for project in projects])
        choices.display = bool(projects)
        if projects:
            choices.highlighted = min(choices.highlighted or 0, len(projects) - 1)
            choices.focus()
        self.query_one("#none", Static).update(
            Content("")
            if projects
            else Content.assemble(
                "No project was open before.\n\n",
                ("n", "bold $tone-accent"),
                " makes a new one, ",
                ("o", "bold $tone-accent"),
                " opens one by its path; `workbench demo` builds one to look at.",
            )
        )

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Enter or a click opens."""
        project = self._projects[event.option_index]
        if project.size is None:
            self._show_problem(
                f"{project.path} is not there any more.", "d removes it from the list."
            )
        else:
            self.exit(project.path)

    def _show_problem(self, what: str, hint: str) -> None:
        self.push_screen(ErrorDialog(WorkbenchError(what, hint), "This cannot be opened"))

    def action_other(self) -> None:
        """Asks for the path of a project."""

        def chosen(text: str | None) -> None:
            if not text or not text.strip():
                return
            path = Path(text.strip()).expanduser()
            if path.is_file():
                self.exit(os.fspath(path.absolute()))
            else:
                self._show_problem(f"There is no file {path}.", "n makes a new project.")

        self.push_screen(
            TextDialog("Open a project", placeholder=f"path of a {SUFFIX} file"), chosen
        )

    def action_new(self) -> None:
        """Asks for the path of a new project."""

        def chosen(text: str | None) -> None:
            if not text or not text.strip():
                return
            path = Path(text.strip()).expanduser().absolute()
            if not path.suffix:
                path = path.with_suffix(SUFFIX)
            if path.exists():
                self._show_problem(
                    f"{path} is there already.", "o opens it, or choose another name."
                )
            elif not path.parent.is_dir():
                self._show_problem(
                    f"There is no folder {path.parent}.", "Choose one that is there."
                )
            else:
                self.exit(os.fspath(path))

        self.push_screen(TextDialog("New project", placeholder=f"name or path, {SUFFIX}"), chosen)

    def action_forget(self) -> None:
        """Takes the project under the cursor off the list."""
        at = self.query_one("#projects", Choices).highlighted
        if at is not None and at < len(self._projects):
            self.shell.forget_project(self._projects[at].path)
            self._look()

    def action_help(self) -> None:
        """Shows the keys."""
        self.push_screen(HelpScreen(self.screen))

    def action_leave(self) -> None:
        """Leaves without a project."""
        self.exit(None)


def project_content(project: RecentProject) -> Content:
    """Name, folder, size and day of a project, or that its file is gone."""
    path = Path(project.path)
    name = one_line(path.name, 60)
    gone = project.size is None
    size = (
        "not there any more" if project.size is None else f"{number_format.amount(project.size)}B"
    )
    return Content.assemble(
        (f"{name:<28} ", "$tone-muted" if gone else "bold"),
        (f"{size:<18}  ", "$tone-incomplete" if gone else ""),
        (f"{one_line(project.opened_at[:10])}  ", "$tone-muted"),
        (one_line(str(path.parent), 120), "$tone-muted"),
    )
