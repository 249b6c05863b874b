"""`workbench run complete`, `watch`, `scores` and `calibrate`: scores conversations, also of logs that grow, lists sets
of scores, and says what verdicts show about them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from itertools import zip_longest
from pathlib import Path
from typing import Any

from engine.base.errors import Cancelled, NotFound, WorkbenchError
from engine.base.number_format import probability, signed
from engine.base.report_table import Cell, CellKind
from engine.base.text import as_json, short_name
from engine.completeness.records import DecisionRule, ScoreSet
from engine.completeness.scoring_request import ScoringRequest
from engine.completeness.service.sets import in_force
from engine.completeness.word_reasons import Reason, ScoreReasons, reason_text
from engine.conversations.filters import ListQuery
from engine.conversations.records import ImportRequest
from engine.model.service.run_setup import use_adapter
from engine.opener.open_project import OpenProject
from engine.project.records import estimate_lines
from engine.results.watch.service import WatchRequest, files_to_watch
from workbench import text_tables
from workbench.arguments import (
    FILTER,
    PROJECT,
    argument,
    number,
    one_of,
    only_with,
    read_request,
    request_arguments,
    switch,
    takes,
)
from workbench.command_result import EXIT_DONE, EXIT_INCOMPLETE, CommandResult
from workbench.commands.goals import conversation
from workbench.narration import narrate, run_stages


@takes(
    PROJECT,
    *request_arguments(ScoringRequest),
    switch("--estimate", "estimate the cost and stop"),
)
def run_complete(arguments: argparse.Namespace) -> CommandResult:
    """Scores what is not scored yet and writes the remaining tasks."""
    request = read_request(ScoringRequest, arguments)
    with OpenProject(Path(arguments.project)) as workspace:
        run = workspace.scoring_runs.make_run(request)
        model = None if run.reading is None else run.reading.model
        adapter = None if model is None else model.adapter_reference
        if adapter and request.adapter is None:
            narrate(f"With the adapter {adapter}; --adapter takes another.")
        if arguments.estimate:
            estimate = workspace.scoring_runs.estimate(run)
            return CommandResult(estimate_lines(estimate), asdict(estimate))
        if model is not None and model.tokens_per_s:
            narrate(*estimate_lines(workspace.scoring_runs.estimate(run)))
        run_stages(workspace, run.stages)
        if adapter and request.adapter is not None:
            use_adapter(workspace.project, adapter)
        counts, rule = workspace.conversations.counts(), workspace.conversations.rule()
        sets = workspace.score_sets.all()
        new_set = next(
            (score_set for score_set in sets if score_set.config_hash == run.config_hash), None
        )
        generated = workspace.score_sets.as_generated(run.config_hash) if request.paper else None
    lines = [text_tables.headline(counts, rule), *text_tables.set_lines(sets)]
    document: dict[str, Any] = {
        **text_tables.counts_json(counts, rule),
        "scored_set": new_set and asdict(new_set),
        **text_tables.sets_json(sets),
    }
    if generated is not None:
        document["as_generated"] = asdict(generated)
        lines.append(
            f"By what {generated.model} writes next: {generated.complete:,} ended (the end tag),"
            f" {generated.incomplete:,} broken off"
        )
    notes: list[str] = []
    if new_set is not None and new_set is not in_force(sets):
        unscored = counts.conversations - new_set.scored
        notes = [
            f"Stored beside the scores in force: set {new_set.number}, {text_tables.set_text(new_set, sets)}.",
            f"`workbench scores {arguments.project} --use {new_set.number}` shows them.",
        ]
    elif unscored := counts.unscored:
        notes = [f"{unscored:,} conversations are not scored; `export scores` says why."]
    return CommandResult(lines, document, EXIT_INCOMPLETE if unscored > 0 else EXIT_DONE, notes)


@takes(
    PROJECT,
    argument(
        "--use", metavar="N", help="put this set in force: its number, or the start of its hash"
    ),
    argument("--why", metavar="ID", help="the words for and against the end of this conversation"),
    number("--at", "with --why: at the last place up to message N, from 1 (default: the end)"),
)
def list_scores(arguments: argparse.Namespace) -> CommandResult:
    """Lists the sets of scores; with --use puts one of them in force first. With --why takes a score apart into words.

    Raises:
        UsageError: --use names no set, or more than one; --why names no conversation, or
            its score is not by words.
    """
    only_with(arguments, "--why ID", arguments.why, "at")
    with OpenProject(Path(arguments.project), read_only=arguments.use is None) as workspace:
        score_sets = workspace.score_sets
        sets = score_sets.all()
        if arguments.use is not None:
            score_sets.use(_set_named(arguments.use, sets).config_hash)
            sets = score_sets.all()
        if arguments.why is not None:
            key = conversation(workspace, arguments.why)
            message = None if arguments.at is None else arguments.at - 1
            return _reasons_result(workspace.word_reasons.of_conversation(key, message))
    lines = [
        f"{'*' if score_set.in_force else ' '} {score_set.number:>2}  {score_set.config_hash[:8]}"
        f"  {text_tables.set_text(score_set, sets)}"
        for score_set in sets
    ]
    lines.append("* in force; --use N puts another in force" if sets else "No scores yet.")
    return CommandResult(
        lines, {"sets": [text_tables.set_json(score_set, sets) for score_set in sets]}
    )


def _set_named(which: str, sets: Sequence[ScoreSet]) -> ScoreSet:
    """Returns the set with this number, else the one whose configuration hash begins like this.

    Raises:
        NotFound: No hash begins so, or several do.
    """
    numbers = [str(score_set.number) for score_set in sets]
    if which in numbers:
        return sets[numbers.index(which)]
    named = [score_set for score_set in sets if which and score_set.config_hash.startswith(which)]
    if len(named) == 1:
        return named[0]
    beginning = (
        "Several sets of scores have hashes that begin with" if named else "No set of scores is"
    )
    raise NotFound(f"{beginning} {which!r}.", f"Numbers of sets: {', '.join(numbers) or 'none'}.")


def _reasons_result(reasons: ScoreReasons) -> CommandResult:
    """Returns the result with the reasons of a score: those for an end on the left, those against it on the right."""
    titled_sides = [("for an end", reasons.for_end), ("against", reasons.against_end)]
    columns: list[tuple[str, CellKind]] = []
    for title, _ in titled_sides:
        columns += [(title, "share"), ("", "percent"), ("", "text"), ("message", "text")]
    rows = zip_longest(*(map(_reason_cells, side) for _, side in titled_sides), fillvalue=("",) * 4)
    others = [f"before any word {signed(reasons.intercept)}", f"other words {signed(reasons.rest)}"]
    others += [] if reasons.states is None else [f"the model's states {signed(reasons.states)}"]
    lines = [
        f"score {probability(reasons.p)} after message {reasons.message + 1};"
        f" log-odds before calibration {signed(reasons.log_odds)}",
        *text_tables.cell_lines(columns, [(*first, *second) for first, second in rows]),
        ", ".join(others),
    ]
    return CommandResult(lines, asdict(reasons))


def _reason_cells(reason: Reason) -> tuple[Cell, ...]:
    """Returns the weight of a reason, its share, its words, and the message with its speaker."""
    message = f"{reason.message + 1} {reason.role}"
    return reason.weight, reason.share, short_name(reason_text(reason)), message


# What verdicts say of scores


@takes(
    PROJECT,
    FILTER,
    one_of(
        switch("--apply", "use the threshold that the verdicts suggest"),
        switch("--free", "go back to the threshold that is used by default"),
    ),
)
def calibrate(arguments: argparse.Namespace) -> CommandResult:
    """Says what the verdicts show about the scores; --apply uses the threshold they give, --free the default.

    Raises:
        UsageError: The filter cannot be understood.
        WorkbenchError: --apply, and the verdicts suggest no threshold.
    """
    query = ListQuery(arguments.filter)
    changes = arguments.apply or arguments.free
    with OpenProject(Path(arguments.project), read_only=not changes) as workspace:
        calibration = workspace.calibration
        if arguments.free:
            calibration.use(DecisionRule())
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
        text_tables.narrate_set(workspace.score_sets)
    return CommandResult(text_tables.fact_lines(report.facts()), asdict(report))


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
        request = read_request(WatchRequest, arguments)
        importing = read_request(ImportRequest, arguments)
        files = files_to_watch(arguments.paths, importing.format, importing.most_unpacked)
        stage = workspace.watches.stage(request, files, print_event)
        try:
            run_stages(workspace, [stage])
        except Cancelled:
            if not stage.reported and not stage.ended:
                raise
    narrate(stage.summary())
    return EXIT_DONE


def print_event(event: dict[str, Any]) -> None:
    """Prints an event as one line, at once: whoever reads it must not wait for the next."""
    sys.stdout.write(as_json(event) + "\n")
    sys.stdout.flush()
