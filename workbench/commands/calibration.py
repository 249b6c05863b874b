"""`workbench calibrate`: what the verdicts show about the scores."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

from engine.base.errors import WorkbenchError
from engine.conversations.filters import ListQuery
from engine.opener.open_project import OpenProject
from workbench.arguments import FILTER, PROJECT, argument, one_of, switch, takes, unit_interval
from workbench.command_result import CommandResult
from workbench.commands.summaries import narrate_set
from workbench.narration import narrate
from workbench.text_tables import fact_lines


@takes(
    PROJECT,
    FILTER,
    one_of(
        switch("--apply", "use the threshold that the verdicts suggest"),
        argument(
            "--pin",
            type=unit_interval,
            metavar="T",
            help="use the threshold T (0 to 1) from now on",
        ),
        switch("--free", "go back to the threshold that is used by default"),
    ),
)
def calibrate(arguments: argparse.Namespace) -> CommandResult:
    """Says what the verdicts show about the scores; --apply uses the threshold they give, --pin another.

    Raises:
        UsageError: The filter cannot be understood.
        WorkbenchError: --apply, and the verdicts suggest no threshold.
    """
    query = ListQuery(arguments.filter)
    pins = arguments.free or arguments.pin is not None
    changes = arguments.apply or pins
    with OpenProject(Path(arguments.project), read_only=not changes) as workspace:
        calibration = workspace.calibration
        if pins:
            calibration.pin(arguments.pin)  # None with --free
        report = calibration.report(query)
        if arguments.apply:
            if reason := report.why or report.not_proposed:
                raise WorkbenchError(
                    f"The verdicts suggest no threshold: {reason}.", "Give more in triage."
                )
            # Without a reason and without a proposal the suggested threshold is in force already.
            if report.proposal is not None:
                calibration.use(report.proposal.rule)
                report = calibration.report(query)
        if changes:
            narrate(f"The threshold is {report.rule.threshold:.3f}, {report.rule.source}.")
        narrate_set(workspace.score_sets)
    return CommandResult(fact_lines(report.facts()), asdict(report))
