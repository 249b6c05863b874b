"""`workbench open FILE...`: imports log files, finds goals, scores, and says what to read first, in one command.

Quick results come first: the goals, and scores by words, take seconds and no model. Then the model reads the logs,
first those that the words leave open, and the scores change each time the number of read logs has doubled. Hidden
states are stored, so no log is read twice, and the same command continues where it was stopped.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.base.errors import Cancelled, UnknownFormat, WorkbenchError
from engine.base.number_format import counted, duration, probability, trouble
from engine.base.text import message_safe, one_line
from engine.completeness.scoring_request import ScoringRequest
from engine.completeness.service.runs import ScoringRun
from engine.completeness.stages.fitting import FittingStage
from engine.conversations.records import DEFAULT_IMPORT, ImportRequest
from engine.conversations.service import account_lines
from engine.conversations.stages import CheckStage, ImportStage
from engine.formats.records import SourceReport
from engine.goals.clustering_request import ClusteringRequest
from engine.jobs.contract import Stage
from engine.jobs.progress import TimeLeft
from engine.opener.jobs import import_stages
from engine.opener.key_figures import (
    MAX_TO_READ,
    UNLIKELY,
    FirstReading,
    conversations_to_read,
    success_probe,
)
from engine.opener.open_project import OpenProject
from workbench.command_result import EXIT_DONE, EXIT_INCOMPLETE
from workbench.commands.goal_runs import group_lines, shown_clustering
from workbench.commands.importing import map_hint, opened_for_import, refusal_lines
from workbench.narration import Narrator, narrate, print_json, print_text, run_stages
from workbench.text_tables import counts_json, headline, rate_line, set_lines, sets_json

if TYPE_CHECKING:
    # only the demo needs it, and it imports the texts of the samples
    from engine.opener.demo_check import DemoCheck

MAX_GOALS_SHOWN = 12
"""Most groups of goals that are printed."""

SCORING = ScoringRequest(remaining=False)
"""The scoring request: without remaining tasks, which take longer than all the rest; `run complete` writes them."""

CLUSTERS = ClusteringRequest(labels=False, decide="auto")
"""The clustering request: phrases name the groups and the merge probability merges them, so that no model is asked."""

Check = Callable[[OpenProject], "DemoCheck"]
"""A function that says how right the result is, for conversations whose truth is known."""

Further = Callable[[OpenProject], Sequence[Stage]]
"""A function that makes stages to run after the scores."""


@dataclass(frozen=True, slots=True)
class FirstResult:
    """The result of a first look.

    Attributes:
        code: Exit code: done, or done with gaps.
        start_rest: Starts the remaining stages in the background; None where nothing remains.
    """

    code: int
    start_rest: Callable[[OpenProject], None] | None = None


def show_rest(path: Path, result: FirstResult, theme: str | None = None) -> None:
    """Opens the screens after a first result; the remaining stages run in the background."""
    from workbench import launcher

    launcher.show_project(path, theme=theme, start=result.start_rest)


def first_look(
    paths: Sequence[Path],
    project: Path,
    *,
    as_json: bool,
    screens: bool = False,
    further: Further | None = None,
    importing: ImportRequest = DEFAULT_IMPORT,
    minutes: int | None = None,
    check: Check | None = None,
) -> FirstResult:
    """Imports, clusters and scores, and prints each result at once; work that was done before is not repeated.

    Args:
        paths: The log files and folders.
        project: The project file, which is made if it is missing.
        as_json: Whether only one JSON document is printed at the end.
        screens: Whether the screens are opened next; then only the first result is made here.
        further: Makes the stages to run after the scores.
        importing: How the files are read.
        minutes: For how many minutes the model reads; 0 keeps the scores by words, None reads all logs.
        check: Says how right the result is, where the truth is known.

    Raises:
        WorkbenchError: A file cannot be read, or a stage failed; what was committed stays. If nothing was read, a new
            project is removed.
        Cancelled: The command was cancelled from the keyboard; what was committed stays.
    """
    try:
        with opened_for_import(project) as workspace:
            look = _FirstLook(workspace, paths, project, as_json, further, minutes, check)
            return look.run(screens, importing)
    except (Cancelled, KeyboardInterrupt) as error:
        reason_text = error.message if isinstance(error, Cancelled) else "Cancelled."
        raise Cancelled(
            reason_text,
            f"What is done is in {project}. The same command goes on from there;"
            f" `workbench {shlex.quote(str(project))}` opens what there is.",
        ) from None


def _nothing_read(sources: Sequence[SourceReport]) -> UnknownFormat:
    """Returns the error for sources that hold no conversation: why the first of them was not read."""
    first, *others = sources
    reason = next(iter(first.reasons), first.detection.why)
    where = "" if reason.startswith(first.label) else f"{first.label}: "
    more = f" {counted(len(others), 'more source')} had none either." if others else ""
    return UnknownFormat(
        f"No conversation was read. {where}{reason.rstrip('.')}.{more}", first.label
    )


@dataclass
class _FirstLook:
    """One run of `first_look` on the open project `_workspace`; the other attributes are arguments of `first_look`."""

    _workspace: OpenProject
    _paths: Sequence[Path]
    _project: Path
    _json: bool
    _further: Further | None
    _minutes: int | None
    _check: Check | None

    def __post_init__(self) -> None:
        """Starts the clock."""
        self._time_left = TimeLeft()
        self._narrator = Narrator(self._time_left)
        self._start = time.monotonic()

    def run(self, screens: bool, importing: ImportRequest) -> FirstResult:
        """Imports, then scores by words and clusters, then lets a model read; arguments as in `first_look`."""
        workspace = self._workspace
        paths = [str(path) for path in self._paths]
        import_stage, signs, _ = import_stages(workspace.project, paths, importing)
        self._time_left.expect("read", None)
        self._run([import_stage])
        if not workspace.conversations.counts().conversations:
            raise _nothing_read(import_stage.sources)
        clustering = workspace.goal_stages().cluster_stages(CLUSTERS, keep_labels=True)
        self._expect_stages([signs, *clustering])
        self._run([signs])
        # it takes seconds, and is left out where there are too few conversations
        self._run([FittingStage(workspace.project, "words", required=False)])
        self._run(clustering)
        groups = shown_clustering(workspace)["groups"]
        self._say(
            f"{import_stage.summary()}\n\nFirst result, {self._after()}, before a model has read anything:",
            headline(workspace.conversations.counts(), workspace.conversations.rule()),
            *set_lines(workspace.score_sets.all()),
            *self._unscored_lines(),
            f"\nWhat users wanted, {counted(len(groups), 'group')}:",
            *group_lines(groups, MAX_GOALS_SHOWN),
            *self._badly_read(import_stage),
        )
        if screens:
            self._say(*([] if self._check is None else ["", *self._check(workspace).lines()]))
            return FirstResult(self._code(import_stage), self._start_rest)
        if self._minutes != 0:
            self._read_and_score()
            rows = workspace.conversations
            self._say(
                f"\nAfter the model has read, {self._after()}:",
                rate_line(rows.counts(), rows.rule()),
                *set_lines(workspace.score_sets.all()),
            )
        self._run(self._further_stages(workspace))
        self._print_end(groups)
        return FirstResult(self._code(import_stage))

    def _print_end(self, groups: Sequence[dict[str, Any]]) -> None:
        """Prints what to read first, how right the result is and each step by hand; or all as one JSON document."""
        check = self._check(self._workspace) if self._check else None
        check_lines = ["", *check.lines()] if check else []
        to_read = conversations_to_read(self._workspace)
        if self._json:
            document = self._document(groups, to_read)
            if check is not None:
                document["check"] = {**asdict(check), "seconds": document["seconds"]}
            print_json(document)
        self._say(*self._to_read_lines(to_read), *check_lines, *self._steps_by_hand())
        narrate(f"{self._project} is ready, {self._after()}.")

    def _document(
        self, groups: Sequence[dict[str, Any]], to_read: Sequence[FirstReading]
    ) -> dict[str, Any]:
        """Returns the result as JSON values."""
        counts = self._workspace.conversations.counts()
        return {
            "project": str(self._project),
            "seconds": round(time.monotonic() - self._start, 1),
            **counts_json(counts, self._workspace.conversations.rule()),
            **sets_json(self._workspace.score_sets.all()),
            "groups": groups,
            "read_first_by": self._read_first_by(),
            "read_first": [
                {
                    "name": row.external_id,
                    "trouble": row.trouble,
                    "p_succeeded": row.success,
                    "p": row.p_end_normalised,
                    "why": reason,
                    "opening": row.opening,
                }
                for row, reason in to_read
            ],
        }

    # Running

    def _run(self, stages: Sequence[Stage]) -> None:
        """Runs stages one after another under the time left of the whole plan."""
        for stage in stages:
            run_stages(self._workspace, [stage], self._narrator)
            self._time_left.end(stage.name)

    def _further_stages(self, workspace: OpenProject) -> Sequence[Stage]:
        """Returns the stages to run after the scores, made for a project, since the screens open it anew."""
        further = self._further(workspace) if self._further else ()
        return [CheckStage(workspace.project), *further]

    def _expect_stages(self, clustering: Sequence[Stage]) -> None:
        """Adds the stages to the plan of the time left, with rough figures for those that take seconds."""
        count = self._workspace.conversations.counts().conversations
        for stage in clustering:
            self._time_left.expect(stage.name, 1 + count / 500)
        for stage in self._further_stages(self._workspace):
            self._time_left.expect(stage.name, 15.0)
        if self._minutes == 0:
            self._time_left.end("read")

    def _scoring(self, workspace: OpenProject) -> ScoringRun:
        """Returns the run in which the model reads."""
        return workspace.scoring_runs.make_run(replace(SCORING, minutes=self._minutes or None))

    def _read_and_score(self) -> None:
        """Lets the model read the logs that it has not read, and scores by a probe.

        If that fails, it scores without a probe: nearly all logs may be copies of others, or the model may give no
        hidden states.
        """
        scoring = self._scoring(self._workspace)
        try:
            for stage in scoring.stages:
                if scoring.reading is not None and stage.name == scoring.reading.stage.name:
                    # by now the model is tuned, so its speed is known
                    cost = self._workspace.scoring_runs.estimate(scoring)
                    self._time_left.expect(stage.name, cost.seconds)
                self._run([stage])
        except Cancelled:
            raise
        except WorkbenchError as error:
            narrate(f"{error.message} So the model is asked how each goes on (mode base).")
            base = replace(SCORING, mode="base")
            self._run(self._workspace.scoring_runs.make_run(base).stages)

    def _start_rest(self, workspace: OpenProject) -> None:
        """Starts the remaining stages in the background."""
        stages: list[Stage] = []
        if self._minutes != 0:
            scoring = self._scoring(workspace)
            waiting = 0
            if scoring.reading is not None:
                waiting = len(workspace.project.read(scoring.reading.stage.waiting))
            if isinstance(scoring.scoring_stage, FittingStage):
                waiting += scoring.scoring_stage.waiting()
            stages = scoring.stages if waiting else []
        workspace.runner.start([*stages, *self._further_stages(workspace)])

    def _code(self, import_stage: ImportStage) -> int:
        """Returns the exit code: with gaps where something is unscored, rejected or not read."""
        unscored = self._workspace.conversations.counts().unscored
        lost = any(source.account.warns for source in import_stage.sources)
        return EXIT_INCOMPLETE if unscored or import_stage.counts.quarantined or lost else EXIT_DONE

    # Texts

    def _badly_read(self, import_stage: ImportStage) -> list[str]:
        """Returns lines on sources that were badly read and on refused files, with the command that helps."""
        badly = [source for source in import_stage.sources if source.badly_read]
        lines = account_lines(badly, partial(map_hint, self._project))
        lines += refusal_lines(import_stage.refused, self._project)
        return ["\nNot well read:", *lines] if lines else []

    def _after(self) -> str:
        """Returns the time since the command began, in words."""
        return f"after {duration(time.monotonic() - self._start)}"

    def _say(self, *lines: str) -> None:
        """Prints a part of the result as text, unless the result is printed as JSON at the end."""
        if not self._json:
            print_text("\n".join(lines))

    def _unscored_lines(self) -> list[str]:
        """Returns a line on why nothing is scored; none if there are scores, or a model is to read."""
        scored = self._workspace.conversations.counts().scored
        if scored or self._minutes != 0 or self._workspace.score_sets.name_in_force():
            return []
        return [
            "no conversation is scored; there are too few for words, and with --minutes 0 no model reads"
        ]

    def _to_read_lines(self, to_read: Sequence[FirstReading]) -> list[str]:
        """Returns the conversations to read first, each with the reason."""
        lines = [f"\nRead these first, {self._read_first_by()}:"]
        if not to_read:
            return [*lines, "  none: no conversation shows a sign of trouble"]
        for row, reason in to_read:
            name, opening = one_line(row.external_id, 24), one_line(row.opening, 80)
            value = trouble(row.trouble) if row.success is None else probability(row.success)
            lines.append(f"  {value:>5}  {name}  {opening}")
            lines.append(f"         {one_line(reason, 160)}")
        return lines

    def _read_first_by(self) -> str:
        """Returns by what the conversations to read first are chosen, in words."""
        probe = success_probe(self._workspace)
        return f"{UNLIKELY}, {probe.basis}" if probe else "the most signs of trouble"

    def _steps_by_hand(self) -> list[str]:
        """Returns lines with a command for each step."""
        project = message_safe(shlex.quote(str(self._project)))
        files = message_safe(shlex.join(map(str, self._paths)))
        order = "success" if success_probe(self._workspace) else "trouble --reverse"
        return [
            "\nEach step by hand, to do it again or in another way:",
            f"  workbench import {project} {files}",
            f"  workbench run cluster {project} --no-labels --decide auto",
            f"  workbench run complete {project} --mode words",
            f"  workbench run complete {project} --no-remaining",
            f"  workbench list {project} --sort {order} --limit {MAX_TO_READ}",
            f"  workbench {project}     the screens; key 3 is triage, where O chooses this order",
        ]
