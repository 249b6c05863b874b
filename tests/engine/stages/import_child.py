"""Imports one file into a project and says when it begins; a test kills it on the way."""

from __future__ import annotations

import sys

from engine.jobs import JobRunner
from engine.stages.importing import ImportStage
from engine.store.project import Project


def main(project_path: str, path: str) -> None:
    """Runs the import like the command line does."""
    with Project.open(project_path, create=True) as project:
        sys.stdout.write("importing\n")
        sys.stdout.flush()
        JobRunner(project, lambda event: None).run(ImportStage(project, [path]))


if __name__ == "__main__":
    main(*sys.argv[1:])
