"""`workbench calibrate`: what the verdicts show about the scores."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

from engine.base.errors import WorkbenchError
from engine.base.number_format import percent_range
from engine.base.statistics.intervals import Interval, Share
from engine.base.text import one_line
from engine.conversations.filters import ListQuery
from engine.opener.open_project import OpenProject
from engine.questions.records import CalibrationReport, CompletionRate
from workbench.arguments import FILTER, PROJECT, argument, one_of, switch, takes, unit_interval
from workbench.command_result import CommandResult
from workbench.commands.summaries import narrate_set
from workbench.narration import narrate
from workbench.text_tables import agreement_text


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
    return CommandResult(_calibration_lines(report), asdict(report))


def _calibration_lines(report: CalibrationReport) -> list[str]:
    """Returns what the verdicts show about the scores, a fact a line."""
    best = "none" if report.best is None else f"{report.best:.3f}"
    lines = [
        f"verdicts           {report.complete} complete, {report.incomplete} incomplete,"
        f" in tenths of the scores that hold {report.covered:.0%} of them",
        f"threshold          {report.rule.threshold:.3f} in force ({report.rule.source}),"
        f" by the verdicts {best}" + (f": {report.why}" if report.why else ""),
    ]
    if report.proposal is not None:
        now, then = report.proposal.now, report.proposal.then
        lines.append(
            f"suggested          {report.proposal.rule.threshold:.3f}:"
            f" {now:.0%} -> {then:.0%} ended; --apply takes it over"
        )
    elif report.not_proposed:
        lines.append(f"not suggested      {report.not_proposed}")
    accuracy = report.accuracy
    if accuracy is not None:
        lines += [
            f"recall             {_estimate_text(accuracy.sensitivity)}{_raw_share_text(accuracy.raw_sensitivity)}",
            f"precision          {_estimate_text(accuracy.precision)}{_raw_share_text(accuracy.raw_precision)}",
            f"specificity        {_estimate_text(accuracy.specificity)}{_raw_share_text(accuracy.raw_specificity)}",
        ]
        if accuracy.why:
            lines.append(f"                   {accuracy.why}")
    if report.calibration_error is not None:
        lines.append(f"calibration error  {report.calibration_error:.1%}")
    lines += [
        f"you and the model  {agreement_text(report.model)}",
        *(
            f"  {one_line(each.answers, 40):<40} {agreement_text(each.agreement)}"
            for each in report.models
        ),
        f"you, blind again   {agreement_text(report.itself)}",
        f"complete           {_rate_text(report.rate)}",
    ]
    return lines + [
        f"  {one_line(saved.name, 16):<16} {_rate_text(saved.rate)}  ({one_line(saved.filter)})"
        for saved in report.filters
    ]


def _estimate_text(estimate: Interval | None) -> str:
    """Returns an estimate with its interval; a dash for None."""
    if estimate is None:
        return "–"
    return f"{estimate.value:.1%} ({percent_range(estimate.low, estimate.high)})"


def _raw_share_text(share: Share | None) -> str:
    """Returns the uncorrected share of the verdicts, as the end of a line; empty for None."""
    if share is None:
        return ""
    interval = percent_range(share.low, share.high)
    return f"; of the verdicts alone {share.part} of {share.of} ({interval})"


def _rate_text(rate: CompletionRate) -> str:
    """Returns the corrected rate of complete conversations, or why there is none."""
    text = _estimate_text(rate.corrected) if rate.corrected else f"– {rate.why}"
    seen = "" if rate.apparent is None else f"; {rate.apparent:.1%} score at or above the threshold"
    return f"{text}{seen}; {rate.scored:,} of {rate.conversations:,} scored"
