"""`workbench run check`: languages, personal data and near duplicates of what an earlier version imported."""

from __future__ import annotations

import argparse
from pathlib import Path

from engine.conversations.stages.checking import CheckStage
from engine.opener.open_project import OpenProject
from workbench.commands.narration import print_json, print_text, run_stages
from workbench.exits import DONE


def run_check_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `run_check`."""
    parser.add_argument("project")


def run_check(arguments: argparse.Namespace) -> int:
    """Looks at the conversations that no import has looked at."""
    with OpenProject(Path(arguments.project)) as workspace:
        stage = CheckStage(workspace.project)
        run_stages(workspace, [stage])
    if arguments.json:
        print_json(stage.as_json())
    else:
        print_text(stage.summary())
    return DONE
