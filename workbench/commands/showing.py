"""The screens after a first result, for the commands that end in them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workbench.commands.first_look import Looked


def show_rest(path: Path, looked: Looked, theme: str | None = None, *, tour: bool = False) -> None:
    """Opens the screens after a first result, with the tour if asked; what is left to do runs in the background."""
    from workbench import launcher

    launcher.show_project(path, theme=theme, start=looked.go_on, tour=tour)
