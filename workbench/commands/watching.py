"""`workbench watch`: scores logs as they grow, and prints one line of JSON for each turn."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from engine.base.errors import Cancelled
from engine.conversations.records import ImportRequest
from engine.opener.open_project import OpenProject
from engine.results.watch.service import WatchRequest, files_to_watch
from workbench.arguments import argument, read_request, request_arguments, takes
from workbench.command_result import EXIT_DONE
from workbench.narration import narrate, run_stages


@takes(
    argument("project", help="a project with past conversations"),
    argument(
        "paths",
        nargs="+",
        metavar="PATH",
        help="files or folders that grow",
    ),
    *request_arguments(WatchRequest, ("model",)),
    *request_arguments(ImportRequest, ("format",)),
    *request_arguments(WatchRequest, ("every", "idle")),
    *request_arguments(ImportRequest, ("most_unpacked",)),
    *request_arguments(WatchRequest, ("once",)),
)
def watch(arguments: argparse.Namespace) -> int:
    """Watches until ctrl+c.

    Raises:
        UsageError: There is no such path, or there are too few past conversations.
    """
    with OpenProject(Path(arguments.project)) as workspace:
        request, logs = (
            read_request(WatchRequest, arguments),
            read_request(ImportRequest, arguments),
        )
        files = files_to_watch(arguments.paths, logs.format, logs.most_unpacked)
        stage = workspace.watches.stage(request, files, _print_event)
        try:
            run_stages(workspace, [stage])
        except Cancelled:
            if not stage.reported and not stage.ended:
                raise
    narrate(stage.summary())
    return EXIT_DONE


def _print_event(event: dict[str, Any]) -> None:
    """Prints an event as one line, at once: whoever reads it must not wait for the next."""
    sys.stdout.write(json.dumps(event, ensure_ascii=False) + "\n")
    sys.stdout.flush()
