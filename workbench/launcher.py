"""Starts the app with the theme, the keys and the recent projects of its user."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from engine.base import folders
from engine.base.errors import Cancelled, ProgramFault
from engine.opener.open_project import OpenProject
from screens.shell.app_interface import RecentProject, Shell
from screens.shell.keymap import Place, key_table, markdown, read_keymap
from screens.shell.picker import Beginning, PickerApp
from screens.shell.themes import THEMES
from screens.widgets.keyed import shown_key
from workbench.app import WorkbenchApp
from workbench.preferences import Preferences
from workbench.terminal import require_terminal


def choose_beginning(theme: str | None = None) -> Beginning | None:
    """Asks what to begin with: the demo, logs, the tour or a project; None when nothing was chosen.

    Raises:
        UsageError: There is no terminal.
        Cancelled: A signal ended the screen.
    """
    require_terminal()
    folders.log_to_file()
    app = PickerApp(load_shell(theme))
    beginning = app.run()
    _check_end(app)
    return beginning


def show_project(
    path: Path,
    *,
    read_only: bool = False,
    theme: str | None = None,
    start: Callable[[OpenProject], None] | None = None,
    tour: bool = False,
) -> None:
    """Runs the screens on a project, and then on each project that the person opens from there.

    Args:
        start: Called with the first project before its screens are drawn, to start jobs in the background.
        tour: Begin with the tour of the keys.

    Raises:
        WorkbenchError: The project cannot be opened, there is no terminal, or an error ended the screens.
        Cancelled: A signal ended the screens; jobs stopped and can be resumed.
    """
    log = folders.log_to_file()
    preferences = Preferences(folders.preferences_file())
    following: Path | None = path
    while following is not None:
        with OpenProject(
            following, create=not read_only, read_only=read_only, upgrade=not read_only
        ) as workspace:
            require_terminal()  # after opening, since what is wrong with the project says more
            preferences.opened(following)
            if start is not None:
                start(workspace)
                start = None
            app = WorkbenchApp(
                workspace,
                workspace.subscribe,
                shell=load_shell(theme, log),
                tour=tour and following == path,
            )
            workspace.file.start()
            app.run()
        _check_end(app)
        following = Path(app.next_project) if app.next_project is not None else None
        theme = None  # the theme may have been changed in the session
        if app.return_code:
            raise ProgramFault(
                "The screens stopped because of a fault in the program; what was saved is in the project.",
                f"The log has the details: {log}",
            )


def _check_end(app: PickerApp | WorkbenchApp) -> None:
    if app.interrupted:
        raise Cancelled("The screens were ended by a signal, or their terminal is gone.")


def load_shell(theme: str | None = None, log: Path | None = None) -> Shell:
    """The settings that the app starts with; `theme` takes precedence over the remembered one."""
    preferences = Preferences(folders.preferences_file())
    chosen, problem = preferences.read()
    problems = [problem] if problem is not None else []
    keymap, wrong = load_keymap()
    named = theme or chosen.theme
    return Shell(
        theme=named if named in THEMES else next(iter(THEMES)),
        annotator=chosen.annotator,
        keymap=keymap,
        problems=[*problems, *wrong],
        log=str(log or ""),
        recent=lambda: recent_projects(preferences),
        remember_theme=preferences.choose_theme,
        remember_annotator=preferences.choose_annotator,
        forget_project=preferences.forget,
    )


def load_keymap() -> tuple[dict[str, str], list[str]]:
    """The keys of `keymap.toml` by the ids of bindings, and what is wrong with the file; both empty without a file."""
    path = folders.keymap_file()
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        return {}, []
    except (OSError, ValueError) as error:
        return {}, [f"{path} cannot be read ({error}); the default keys are in force."]

    found = read_keymap(text, path.name, key_table(WorkbenchApp))
    return dict(found.keys), list(found.problems)


def recent_projects(preferences: Preferences) -> list[RecentProject]:
    """The projects that were open, the newest first, with the size their files have now."""
    found = []
    for entry in preferences.read()[0].recent:
        try:
            size = Path(entry.path).stat().st_size
        except OSError:
            size = None
        found.append(RecentProject(entry.path, entry.at, size))
    return found


def keys_in_force() -> tuple[list[Place], dict[str, str], list[str]]:
    """All places with their keys, the keys that `keymap.toml` changes by the ids of their bindings, and what is wrong
    with that file."""
    keymap, problems = load_keymap()
    return key_table(WorkbenchApp, keymap), keymap, problems


def default_keys_page() -> str:
    """The default keys as a page of the documentation, in Markdown."""
    return markdown(key_table(WorkbenchApp))


def key_lines(place: Place, changed: dict[str, str]) -> list[str]:
    """A place and its keys as lines of text; a star marks those that `keymap.toml` changes."""
    lines = [f"{place.title}: {place.what}"]
    for action in place.actions:
        shown = " ".join(shown_key(key) for key in action.keys)
        mark = "*" if action.id in changed else " "
        lines.append(f" {mark}{shown:<20} {action.meaning:<48} {action.id}")
    return [*lines, ""]
