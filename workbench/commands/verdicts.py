"""`workbench verdicts`, `calibrate`, `run success` and `run tag`: what people judged, and what can be learned of it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from engine.base.conversation import Verdict
from engine.base.errors import NotFound, NotYet, UsageError, WorkbenchError
from engine.base.number_format import counted, figure, figure_range, percent_range, probability
from engine.base.statistics.intervals import Interval, Share
from engine.base.text import one_line
from engine.conversations.filters import ListQuery, Term
from engine.opener.open_project import OpenProject
from engine.questions.records import (
    MIN_EXAMPLES_OF_EACH,
    NOT,
    SUCCESS,
    Agreement,
    CalibrationReport,
    CompletionRate,
    ExampleProbe,
    ExampleProbeChange,
    Proposed,
)
from engine.questions.service.answers import import_answers
from engine.questions.service.calibration import PeopleAgreement, people_agreement
from workbench.arguments import (
    ANNOTATOR,
    DRY_RUN,
    FILTER,
    PROJECT,
    annotator,
    argument,
    number,
    one_of,
    several,
    share,
    switch,
    takes,
    unit_interval,
)
from workbench.command_result import CommandResult
from workbench.commands.goals import conversation
from workbench.commands.summaries import intake_result, narrate_set
from workbench.narration import narrate


@takes(
    PROJECT,
    argument("conversations", nargs="*", metavar="ID", help="ids of conversations"),
    FILTER,
    argument(
        "--verdict", choices=[str(verdict) for verdict in Verdict], help="the verdict of each"
    ),
    argument("--note", help="a note on each; an empty one takes the note away"),
    several("--tag", "a tag for each", "NAME"),
    several("--untag", "take this tag away from each", "NAME"),
    ANNOTATOR,
    switch(
        "--blind",
        "the verdict was given without seeing others: it is kept beside the one in force, for agreement",
    ),
    switch("--yes", "needed to judge all that a filter matches"),
)
def give(arguments: argparse.Namespace) -> CommandResult:
    """Gives one or more conversations the same verdict, note and tags, as one act that one undo takes back.

    Raises:
        UsageError: There is nothing to give, no conversation is named, or one is not here.
    """
    if not (arguments.verdict or arguments.note is not None or arguments.tag or arguments.untag):
        raise UsageError(
            "There is no verdict, note or tag to give.",
            "Add --verdict complete, --note TEXT, --tag NAME or --untag NAME.",
        )
    if arguments.blind and not arguments.verdict:
        raise UsageError("Only a verdict is given blind.", "Add --verdict complete.")
    if bool(arguments.conversations) == bool(arguments.filter):
        raise UsageError("Name conversations by their ids, or by --filter.", "Use one of the two.")
    with OpenProject(Path(arguments.project)) as workspace:
        keys = _chosen_conversations(workspace, arguments)
        if arguments.filter and not arguments.yes:
            raise UsageError(
                f"The filter matches {counted(len(keys), 'conversation')}; nothing was stored.",
                "--yes gives it to all of them.",
            )
        workspace.triage.annotator = arguments.annotator
        stored = workspace.triage.give_all(
            keys,
            Verdict(arguments.verdict) if arguments.verdict else None,
            blind=arguments.blind,
            note=arguments.note,
            tags=arguments.tag,
            untags=arguments.untag,
        )
    changed = len({act.conversation_id for act in stored})
    return CommandResult(
        [f"Stored for {counted(changed, 'conversation')}."],
        {"conversations": len(keys), "stored": len(stored)},
    )


def _chosen_conversations(workspace: OpenProject, arguments: argparse.Namespace) -> list[int]:
    """Returns the keys of the conversations that are named, or that the filter matches."""
    if arguments.filter:
        return list(workspace.conversations.ids(ListQuery(arguments.filter)))
    return list(dict.fromkeys(conversation(workspace, name) for name in arguments.conversations))


@takes(PROJECT, switch("--redo", "give again what was taken back last"))
def undo(arguments: argparse.Namespace) -> CommandResult:
    """Takes the newest act of triage back, or gives it again.

    Raises:
        NotYet: There is none.
    """
    with OpenProject(Path(arguments.project)) as workspace:
        triage = workspace.triage
        row = triage.redo() if arguments.redo else triage.undo()
        word = "given again" if arguments.redo else "taken back"
        if row is None:
            raise NotYet(f"There is nothing to be {word}.")
    return CommandResult(
        [f"{_ACT_NAMES[row.kind]} on {counted(row.count, 'conversation')} {word}."],
        {"kind": row.kind, "conversations": row.count, "redo": arguments.redo},
    )


_ACT_NAMES = {
    "give": "Verdict",
    "repeat": "Blind verdict",
    "note": "Note",
    "tag": "Tag",
    "untag": "Removal of a tag",
}
"""What an act of triage is called, by its kind."""


@takes(
    PROJECT,
    argument(
        "file",
        help="tasks with annotations exported from Label Studio (JSON or JSON-MIN), records of Argilla (to_json), or"
        " what `export PROJECT verdicts` wrote",
    ),
    switch("--replace", "give verdicts also where there are other ones"),
    annotator("who gave the answers that have no name"),
    DRY_RUN,
)
def import_verdicts(arguments: argparse.Namespace) -> CommandResult:
    """Gives the verdicts of a file in one act, and says what became of each answer."""
    with OpenProject(Path(arguments.project), read_only=arguments.dry_run) as workspace:
        report = import_answers(
            workspace.project,
            Path(arguments.file),
            replace=arguments.replace,
            annotator=arguments.annotator,
            dry_run=arguments.dry_run,
        )
    return intake_result(report, arguments.dry_run)


@takes(PROJECT)
def agreement(arguments: argparse.Namespace) -> CommandResult:
    """Says how far the people who judged agree: by pairs Cohen's kappa, of all Krippendorff's alpha."""
    with OpenProject(Path(arguments.project), read_only=True) as workspace:
        people = people_agreement(workspace.project)
    return CommandResult(people.sentences() or [_too_few_text(people)], people.as_json())


def _too_few_text(people: PeopleAgreement) -> str:
    """Returns why there is no agreement, where fewer than two people judged, and how others come to judge."""
    judged = sum(people.people.values())
    who = "One person" if judged else "Nobody"
    return (
        f"{who} has judged {counted(judged, 'conversation')} here. Others judge in triage with `@` (their name) and"
        " `b`, or their verdicts come by `workbench verdicts import`."
    )


# Scores against verdicts


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
        f"you and the model  {_agreement_text(report.model)}",
        f"you, blind again   {_agreement_text(report.itself)}",
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


def _agreement_text(agreement: Agreement) -> str:
    """Returns the share of equal answers, Cohen's kappa and the number of pairs; a dash without pairs."""
    if agreement.same is None:
        return "–"
    kappa = "" if agreement.kappa is None else f", kappa {agreement.kappa:.2f}"
    return f"{agreement.same.part / agreement.same.of:.0%} of {agreement.n}{kappa}"


def _rate_text(rate: CompletionRate) -> str:
    """Returns the corrected rate of complete conversations, or why there is none."""
    text = _estimate_text(rate.corrected) if rate.corrected else f"– {rate.why}"
    seen = "" if rate.apparent is None else f"; {rate.apparent:.1%} score at or above the threshold"
    return f"{text}{seen}; {rate.scored:,} of {rate.conversations:,} scored"


# Probes fitted to verdicts and tags

_NEXT = number("--next", "list the N most informative conversations to judge next", 10)
"""The option --next, of both probes."""


@takes(
    PROJECT,
    switch("--use", "put the newly fitted probabilities in force"),
    _NEXT,
)
def run_success(arguments: argparse.Namespace) -> CommandResult:
    """Fits a probability of success to the verdicts; the completeness scores stay as they are."""
    with OpenProject(Path(arguments.project)) as workspace:
        probes = workspace.example_probes
        probe = probes.fit(SUCCESS)
        if arguments.use:
            probes.take_over()
        change, in_force = probes.change(), probes.success_in_force()
        following = probes.next(SUCCESS, arguments.next)
    document = {
        **asdict(probe),
        "change": None if change is None else {"up": change.up, "down": change.down},
        "next": [asdict(row) for row in following],
    }
    lines = _probe_lines(probe, "complete", "incomplete", "succeeded")
    if in_force is None:
        lines.append(f"not in force       {MIN_EXAMPLES_OF_EACH} verdicts of each kind are needed")
    elif not in_force.tells:
        lines.append(
            "at chance          no list shows these probabilities until more verdicts tell"
        )
        lines.append("                   the two apart")
    elif change is not None and change.then.marks != change.now.marks:
        lines.append(f"not in force       {_change_text(change)}; --use takes it over")
    else:
        lines.append("in force           the success column, `success<.3` and `--sort success`")
    return CommandResult(lines + _next_lines(following), document)


@takes(
    PROJECT,
    argument("tag", help="a tag that some conversations have"),
    argument(
        "--threshold",
        type=share,
        metavar="P",
        help="predict the tag from this probability on (default: the last one, at first .5)",
    ),
    _NEXT,
)
def run_tag(arguments: argparse.Namespace) -> CommandResult:
    """Fits a probe to the conversations that have a tag, and predicts the tag for others; tags nothing.

    Raises:
        UsageError: No conversation has the tag.
    """
    tag = arguments.tag
    with OpenProject(Path(arguments.project)) as workspace:
        tag_counts = dict(workspace.conversations.tags())
        if tag not in tag_counts:
            tags = ", ".join(one_line(name, 40) for name in tag_counts) or "none"
            raise NotFound(f"No conversation has the tag “{tag}”.", f"Tags: {tags}.")
        probe = workspace.example_probes.fit(tag, arguments.threshold)
        following = workspace.example_probes.next(tag, arguments.next)
    name = one_line(tag, 40)
    lines = _probe_lines(
        probe, f"tagged {name}", f"tagged {NOT}{name}, or judged without it", "predicted"
    )
    if probe.test is not None:
        term = Term("tag", ":", (f"{tag}?",))
        lines.append(
            f"filter             {one_line(str(term), 60)} finds what is predicted and not tagged"
        )
    document = {**asdict(probe), "next": [asdict(row) for row in following]}
    return CommandResult(lines + _next_lines(following), document)


def _probe_lines(probe: ExampleProbe, yes: str, no: str, called: str) -> list[str]:
    """Returns how well a probe tells its examples apart, a fact a line; `called` names what it finds."""
    test = probe.test
    if test is None:
        return [
            f"examples           {probe.marks}; two of each kind are needed:",
            f"                   {yes}; and {no}",
        ]
    doubt = (
        "" if test.enough else f"; fewer than {MIN_EXAMPLES_OF_EACH} of a kind, so this says little"
    )
    area = test.auroc
    lines = [
        f"examples           {test.positive} {yes}, {test.negative} {no}",
        f"told apart         AUROC {figure(area.value)} ({figure_range(area.low, area.high)}), each"
        f" by a probe that did not see it{doubt}",
        f"agreement          {test.agreement.part} of {test.agreement.of} examples at threshold"
        f" {figure(probe.threshold)}",
    ]
    if test.precision is not None:
        share_of = test.precision
        lines.append(
            f"precision          {share_of.part} of {share_of.of}"
            f" ({percent_range(share_of.low, share_of.high)})"
        )
    lines.append(
        f"{called:<18} {test.above:,} of {test.conversations:,}; {test.proposed:,} of them not examples yet"
    )
    rate = test.rate.corrected
    if rate is not None:
        lines.append(
            f"share of all       {rate.value:.0%} ({percent_range(rate.low, rate.high)}), corrected"
            " for the probe's errors"
        )
    elif test.rate.why:
        lines.append(f"share of all       – {test.rate.why}")
    return lines


def _change_text(change: ExampleProbeChange) -> str:
    """Returns what newer verdicts would change, in words."""
    text = f"{change.up:,} would come above the threshold, {change.down:,} below"
    before, after = change.now.test, change.then.test
    if before is None or after is None:
        return text
    return f"{text}; AUROC {figure(before.auroc.value)} -> {figure(after.auroc.value)}"


def _next_lines(rows: Sequence[Proposed]) -> list[str]:
    """Returns the conversations to judge next."""
    if not rows:
        return []
    lines = [f"to judge next      {counted(len(rows), 'conversation')}, the most informative first"]
    return lines + [f"  {probability(row.p)}  {one_line(row.external_id, 60)}" for row in rows]
