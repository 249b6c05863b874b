"""`workbench calibrate`: compares verdicts with scores."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

from engine.base.errors import WorkbenchError
from engine.base.interval import Interval, Share
from engine.base.number_format import percent_range
from engine.base.text import one_line
from engine.conversations.filters import ListQuery
from engine.opener.open_project import OpenProject
from engine.questions.records.calibration import Agreement, CalibrationReport, CompletionRate
from workbench.commands.narration import narrate, print_json
from workbench.commands.options import add_filter, probability, read_filter
from workbench.commands.scores import narrate_set


def calibrate_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `calibrate`."""
    parser.add_argument("project")
    add_filter(parser)
    threshold = parser.add_mutually_exclusive_group()
    threshold.add_argument(
        "--apply", action="store_true", help="use the threshold that the verdicts suggest"
    )
    threshold.add_argument(
        "--pin", type=probability, metavar="T", help="use the threshold T (0 to 1) from now on"
    )
    threshold.add_argument(
        "--free", action="store_true", help="go back to the threshold that is used by default"
    )


def calibrate(arguments: argparse.Namespace) -> int:
    """Prints what the verdicts show about the scores; --apply uses the threshold they give, --pin another.

    Raises:
        UsageError: The filter cannot be understood.
        WorkbenchError: --apply, and the verdicts suggest no threshold.
    """
    query = ListQuery(read_filter(arguments.filter))
    pins = arguments.free or arguments.pin is not None
    changes = arguments.apply or pins
    with OpenProject(Path(arguments.project), read_only=not changes) as workspace:
        calibration = workspace.calibration
        if pins:
            calibration.pin(arguments.pin)
        report = calibration.report(query)
        if arguments.apply:
            if why := report.why or report.not_proposed:
                raise WorkbenchError(
                    f"The verdicts suggest no threshold: {why}.", "Give more in triage."
                )
            if report.proposal is not None:
                calibration.use(report.proposal.rule)
                report = calibration.report(query)
        if changes:
            narrate(f"The threshold is {report.rule.threshold:.3f}, {report.rule.source}.")
        narrate_set(workspace.score_sets)
    if arguments.json:
        print_json(asdict(report))
    else:
        print("\n".join(_lines(report)))
    return 0


def _lines(report: CalibrationReport) -> list[str]:
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
            f" {now:.0%} -> {then:.0%} complete; --apply takes it over"
        )
    elif report.not_proposed:
        lines.append(f"not suggested      {report.not_proposed}")
    accuracy = report.accuracy
    if accuracy is not None:
        lines += [
            f"recall             {_estimate(accuracy.sensitivity)}{_share(accuracy.raw_sensitivity)}",
            f"precision          {_estimate(accuracy.precision)}{_share(accuracy.raw_precision)}",
            f"specificity        {_estimate(accuracy.specificity)}{_share(accuracy.raw_specificity)}",
        ]
        if accuracy.why:
            lines.append(f"                   {accuracy.why}")
    if report.calibration_error is not None:
        lines.append(f"calibration error  {report.calibration_error:.1%}")
    lines += [
        f"you and the model  {_agreement(report.model)}",
        f"you, blind again   {_agreement(report.itself)}",
        f"completion rate    {_rate(report.rate)}",
    ]
    lines += [
        f"  {one_line(one.name, 16):<16} {_rate(one.rate)}  ({one_line(one.filter)})"
        for one in report.filters
    ]
    return lines


def _estimate(estimate: Interval | None) -> str:
    if estimate is None:
        return "–"
    return f"{estimate.value:.1%} ({percent_range(estimate.low, estimate.high)})"


def _share(share: Share | None) -> str:
    if share is None:
        return ""
    interval = percent_range(share.low, share.high)
    return f"; of the verdicts alone {share.part} of {share.of} ({interval})"


def _agreement(found: Agreement) -> str:
    if found.same is None:
        return "–"
    kappa = "" if found.kappa is None else f", kappa {found.kappa:.2f}"
    return f"{found.same.part / found.same.of:.0%} of {found.n}{kappa}"


def _rate(rate: CompletionRate) -> str:
    text = _estimate(rate.corrected) if rate.corrected else f"– {rate.why}"
    seen = "" if rate.apparent is None else f"; {rate.apparent:.1%} score at or above the threshold"
    return f"{text}{seen}; {rate.scored:,} of {rate.conversations:,} scored"
