"""A real project file of many conversations, and what the screens of an open one are handed."""

from __future__ import annotations

from pathlib import Path

from engine.opener.open_project import OpenProject
from engine.project.project import Project
from tests.engine.project import support
from tests.screens.project import ScreenProject


def fill(path: Path, count: int = 500) -> Project:
    """A project file with conversations that differ in words and length."""
    project = Project.open(path, create=True)
    talks = [
        support.talk(
            f"c{number}",
            f"Please find order {number}" + " lamp" * (number % 5 == 0),
            "Which name is it under?",
            "Miller.",
            "Found it; it leaves tomorrow.",
        )
        for number in range(1, count + 1)
    ]
    support.fill(project, talks)
    return project


def services(project: Project) -> OpenProject:
    """What the screens of an open project file are handed, where no model is."""
    return ScreenProject(project, "real.wb").services()
