"""Imports one file into a project and prints a line after each committed batch; a test kills it on the way."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from engine.conversations import stages as importing
from engine.conversations.stages import ImportStage
from engine.jobs.contract import Progress
from engine.jobs.runner import JobRunner
from engine.project.project import Project


class _PrintingImportStage(ImportStage):
    def run(self, run_id: int) -> Iterator[Progress]:
        for progress in super().run(run_id):
            sys.stdout.write("batch\n")
            sys.stdout.flush()
            yield progress


def main(project_path: str, path: str) -> None:
    """Runs the import as the command line does, in many small batches."""
    importing.BATCH_RECORDS = 20
    with Project.open(project_path, create=True) as project:
        JobRunner(project, lambda event: None).run(_PrintingImportStage(project, [path]))


if __name__ == "__main__":
    main(*sys.argv[1:])
