"""What commands that end in the screens share: whether a person is there, and the screens after a first result."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workbench.commands.first_look import Looked


def on_terminal() -> bool:
    """Whether a person is there to use screens."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def show_rest(path: Path, looked: Looked, theme: str | None = None, *, tour: bool = False) -> None:
    """Opens the screens after a first result, with the tour if asked; what is left to do runs in the background."""
    from workbench import launcher

    launcher.show_project(path, theme=theme, start=looked.go_on, tour=tour)
