"""A small project that validation can report on: its file is made once a test process and copied for each test."""

from __future__ import annotations

import atexit
import shutil
import tempfile
import threading
from functools import cache
from pathlib import Path
from typing import Any

from engine.base.errors import Cancelled, WorkbenchError
from engine.model.catalog import Catalog
from engine.project.project import Project
from engine.results.records import ValidationProgress, ValidationReport
from engine.results.validation.service import ValidationService
from tests.engine.goals.service.goal_project import cluster, texts
from tests.engine.project.support import fill, talk
from tests.screens.project import ScreenProject, open_copy
from tests.screens.trees.tree_project import CONFIG, run_of, store
from tests.workbench.test_validate import tree

GOLD = 6
"""Conversations whose goal is known: fewer than the intervals of a table on goals need, which take seconds."""


class HeldValidation(ValidationService):
    """Begins when a test lets it, and counts; a test can give it a report or an error in place of the project's.

    Attributes:
        asked: How often the report was asked for.
    """

    def __init__(self, project: Project, catalog: Catalog) -> None:
        super().__init__(project, catalog)
        self.asked = 0
        self.hold = threading.Event()
        self.hold.set()
        self.given: ValidationReport | WorkbenchError | None = None

    def report(self, progress: ValidationProgress) -> ValidationReport:
        self.asked += 1
        progress.step = "reward 0: leaves"
        while not self.hold.wait(0.01):
            if progress.cancelled:
                raise Cancelled("Validation was cancelled.")
        if isinstance(self.given, WorkbenchError):
            raise self.given
        return super().report(progress) if self.given is None else self.given


def validated() -> ScreenProject:
    """Conversations with rewards and a tree each, some with gold goals, all clustered; nothing is scored."""
    return open_copy(_file())


def held(made: ScreenProject) -> HeldValidation:
    """The validation of a project, which a test now holds back or counts."""
    made.validation = validation = HeldValidation(made.file, made.catalog)
    return validation


@cache
def _file() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="validation-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with Project.open(folder / "p.wb", create=True) as project:
        fill(
            project,
            [
                talk(f"{topic}-{n}", text + " please" * (n % 5), "ok", truth=_truth(n, topic))
                for n, (topic, text) in enumerate(texts(), 1)
            ],
        )
        cluster(project)
        run = run_of(project, CONFIG)
        keys = range(1, len(texts()) + 1)
        store(project, [tree(key, 2, 10 * key, run, CONFIG) for key in keys])
    return folder / "p.wb"


def _truth(number: int, topic: str) -> dict[str, Any]:
    """Later conversations, which have more leaves, fail more often."""
    failed = (number > 18) != (number % 6 == 0)
    return {"reward": float(not failed), **({"goal": topic} if number <= GOLD else {})}
