"""`workbench watch`: scores logs as they grow, and prints one line of JSON for each turn."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from engine.base.errors import Cancelled, UsageError
from engine.base.number_format import counted, percent_range
from engine.conversations.import_request import ImportRequest
from engine.opener.open_project import OpenProject
from engine.results.watch.service import WatchRequest, files_to_watch
from engine.results.watch.signals import Rules, signal_name
from engine.results.watch.watched_inputs import WatchedInput, WatchedStandardInput
from workbench.arguments import argument, read_request, request_arguments, takes
from workbench.command_result import EXIT_DONE
from workbench.narration import narrate, run_stages

STANDARD_INPUT = "-"
"""The path that stands for standard input."""


@takes(
    argument("project", help="a project with past conversations"),
    argument(
        "paths",
        nargs="+",
        metavar="PATH",
        help="files or folders that grow; - is standard input, where each line is a conversation so far",
    ),
    *request_arguments(WatchRequest, ("model",)),
    *request_arguments(ImportRequest, ("format",)),
    *request_arguments(WatchRequest, ("every", "idle", "precision")),
    *request_arguments(ImportRequest, ("most_unpacked",)),
    *request_arguments(WatchRequest, ("once",)),
)
def watch(arguments: argparse.Namespace) -> int:
    """Watches until ctrl+c, or until standard input ends.

    Raises:
        UsageError: There is no such path, `-` stands beside other paths, or there are too few past conversations.
    """
    with OpenProject(Path(arguments.project)) as workspace:
        request = read_request(WatchRequest, arguments)
        watches = workspace.watches
        stage = watches.stage(request, _watched_input(arguments), _print_event, _narrate_rules)
        try:
            run_stages(workspace, [stage])
        except Cancelled:
            if not stage.reported and not stage.ended:
                raise
    narrate(stage.summary())
    return EXIT_DONE


def _watched_input(arguments: argparse.Namespace) -> WatchedInput:
    """Returns what is watched: standard input, or files and folders.

    Raises:
        UsageError: Standard input is named with other paths.
    """
    paths, logs = list(arguments.paths), read_request(ImportRequest, arguments)
    if STANDARD_INPUT in paths:
        if len(paths) > 1:
            raise UsageError("- is standard input and stands alone.", "Leave the other paths out.")
        return WatchedStandardInput(sys.stdin.buffer, logs.format)
    return files_to_watch(paths, logs.format, logs.most_unpacked)


def _print_event(event: dict[str, Any]) -> None:
    """Prints an event as one line, at once: whoever reads it must not wait for the next."""
    sys.stdout.write(json.dumps(event, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def _narrate_rules(rules: Rules, past: int) -> None:
    """Says which signals are in force, how precise each is, and why others are not."""
    narrate(
        f"Signals, chosen and tested on {counted(past, 'past conversation')}, broken off by"
        " your verdict no, or else by the score:"
    )
    for rule in rules.in_force:
        right = percent_range(rule.precision.low, rule.precision.high)
        narrate(
            f"  {signal_name(rule.name)}: {rule.meaning}; {rule.precision.part} of {rule.precision.of} were"
            f" broken off ({right}), of all {rule.base:.0%}; finds {rule.recall:.0%} of those"
        )
    for name, why in rules.without_rule:
        narrate(f"  {signal_name(name)}: {why}")
