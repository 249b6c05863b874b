"""`workbench import`: imports files of conversations."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from engine.services.workspace import Workspace
from engine.stages.importing import ImportStage
from workbench.commands.narration import print_json, print_text, run_stages
from workbench.exits import DONE, WITH_GAPS


def import_paths_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `import_paths`."""
    parser.add_argument("project")
    parser.add_argument(
        "paths", nargs="+", metavar="PATH", help="file, folder, or - for standard input"
    )
    parser.add_argument("--format", help="format of the input (default: detected)")


def import_paths(arguments: argparse.Namespace) -> int:
    """Imports into a project, which is created if it is not there."""
    with Workspace(Path(arguments.project), create=True) as workspace:
        stage = ImportStage(workspace.project, arguments.paths, arguments.format, sys.stdin.buffer)
        run_stages(workspace, [stage])
        if arguments.json:
            print_json(
                {
                    "read": stage.read,
                    "new": stage.new,
                    "duplicate": stage.duplicate,
                    "unchanged": stage.unchanged,
                    "quarantined": stage.quarantined,
                    "leaks": stage.leaks,
                }
            )
        else:
            print_text(stage.summary())
    return WITH_GAPS if stage.quarantined else DONE
