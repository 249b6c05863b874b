"""`workbench PROJECT`: the terminal screens."""

from __future__ import annotations

import argparse
import logging
from pathlib import Path

from engine.errors import UsageError
from workbench import config
from workbench.services import Workspace


def open_project(arguments: argparse.Namespace) -> int:
    """Opens a project, which is created if it is not there, and shows it until the person quits."""
    path = Path(arguments.project)
    if not path.suffix and not path.exists():
        raise UsageError(
            f"There is no project {path}, and no such command.",
            f"`workbench {path}.wb` makes a new project, `workbench --help` shows the commands.",
        )
    show_project(path, read_only=arguments.read_only)
    return 0


def show_project(path: Path, *, read_only: bool = False) -> None:
    """Runs the screens over a project; logs go to a file because the screens own the terminal."""
    log = config.log_dir() / "workbench.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    logging.basicConfig(
        filename=log, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )
    from workbench.app import WorkbenchApp

    with Workspace(path, create=not read_only, read_only=read_only) as workspace:
        WorkbenchApp(workspace.services(), workspace.subscribe).run()
