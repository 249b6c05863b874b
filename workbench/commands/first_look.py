"""`workbench open FILE...`: from log files to a first result in one go: import, goals, scores, what to read first.

The cheap comes first. What is there and what users wanted takes seconds and no model. Then a random part of the logs is
read for some seconds and gives provisional scores; of long logs only two short parts of each are read for them. The
rest gives the final ones. Hidden states are kept, so no log is read whole twice, and the same command goes on where it
was stopped.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from engine.base.errors import Cancelled, UnknownFormat, WorkbenchError
from engine.base.number_format import counted, duration, probability
from engine.base.text import one_line
from engine.completeness.records import MIN_CONVERSATIONS_FOR_PROBE
from engine.completeness.scoring_request import ScoringRequest
from engine.completeness.service.runs import ScoringRun
from engine.completeness.stages.fitting import FittingStage
from engine.completeness.stages.reading_states import ReadingStage
from engine.conversations.import_request import DEFAULT_IMPORT, ImportRequest
from engine.conversations.service import account_lines, import_stages
from engine.conversations.stages import ImportStage
from engine.goals.requests import ClusteringRequest
from engine.jobs.contract import Stage
from engine.jobs.progress import TimeLeft
from engine.model.stages import TuningStage
from engine.opener.first_reading import MAX_TO_READ, FirstReading, conversations_to_read
from engine.opener.open_project import OpenProject
from engine.project.records import Estimate
from workbench.command_result import EXIT_DONE, EXIT_INCOMPLETE
from workbench.commands.goal_runs import shown_clustering
from workbench.commands.importing import map_command, with_command
from workbench.commands.summaries import counts_json, headline, rate_line, set_lines, sets_json
from workbench.narration import Narrator, narrate, print_json, print_text, run_stages

MAX_GOALS_SHOWN = 12
"""Most groups that are printed."""

PROVISIONAL_SECONDS = 40.0
"""Seconds of reading for the provisional scores."""

MAX_WAIT_FACTOR = 1.5
"""Logs that are all read within this many times `PROVISIONAL_SECONDS` get no provisional scores."""

MAX_PROBE_READING_SECONDS = 60.0
"""Seconds that whole logs for a probe may take to read; of longer ones the ends are read."""

SCORING = ScoringRequest(remaining=False)
"""The final scores. They come without remaining tasks, which take longer than all the rest; `run complete` writes those
later."""

ENDS = replace(SCORING, ends=True, context=256)
"""At most 256 tokens before the end and before an earlier boundary tell whole from cut about as well as whole logs
(docs/lab/first-look.md)."""

CLUSTERS = ClusteringRequest(labels=False, decide="auto")
"""Named by phrases of their members and merged by the merge probability, so that no model is asked."""

Further = Callable[[OpenProject], Sequence[Stage]]
"""Makes stages to run after the scores."""


@dataclass(frozen=True, slots=True)
class Looked:
    """Holds what a first look came to.

    Attributes:
        code: Exit code: done, or done with gaps.
        go_on: Starts in the background what is left to do; None where nothing is.
    """

    code: int
    go_on: Callable[[OpenProject], None] | None = None


def show_rest(path: Path, looked: Looked, theme: str | None = None, *, tour: bool = False) -> None:
    """Opens the screens after a first result, with the tour if asked; what is left to do runs in the background."""
    from workbench import launcher

    launcher.show_project(path, theme=theme, start=looked.go_on, tour=tour)


def first_look(
    paths: Sequence[Path],
    project: Path,
    *,
    as_json: bool,
    screens: bool = False,
    further: Further | None = None,
    importing: ImportRequest = DEFAULT_IMPORT,
    provisional: bool = True,
) -> Looked:
    """Imports, clusters and scores, and prints each result as soon as it is there; what is done is not done again.

    Args:
        screens: The screens are opened next, so return after the first result and leave the rest to them.
        further: Stages to run after the scores.
        importing: How the files are read.
        provisional: Whether to wait for provisional scores where reading takes long.

    Raises:
        WorkbenchError: A file cannot be read, or a stage failed; what was done is kept. Where nothing was read, no new
            project is left.
        Cancelled: It was cancelled from the keyboard; what was done is kept.
    """
    is_new = not project.exists()
    try:
        with OpenProject(project, create=True) as workspace:
            look = _FirstLook(workspace, paths, project, as_json=as_json, further=further)
            return look.run(screens, importing, provisional)
    except UnknownFormat as error:
        if is_new:
            project.unlink(missing_ok=True)
        raise with_command(error, project) from None
    except (Cancelled, KeyboardInterrupt) as error:
        reason_text = error.message if isinstance(error, Cancelled) else "Cancelled."
        raise Cancelled(
            reason_text,
            f"What is done is in {project}. The same command goes on from there;"
            f" `workbench {shlex.quote(str(project))}` opens what there is.",
        ) from None


class _FirstLook:
    """One run of `first_look` on an open project."""

    def __init__(
        self,
        workspace: OpenProject,
        paths: Sequence[Path],
        project: Path,
        *,
        as_json: bool,
        further: Further | None,
    ) -> None:
        self._workspace, self._paths, self._project = workspace, paths, project
        self._json, self._further = as_json, further
        self._time_left = TimeLeft()
        self._narrator = Narrator(self._time_left)
        self._start = time.monotonic()

    def run(self, screens: bool, importing: ImportRequest, provisional_too: bool) -> Looked:
        """See `first_look`; `provisional_too` is whether to wait for provisional scores."""
        workspace = self._workspace
        paths = [str(path) for path in self._paths]
        reading, self._check = import_stages(workspace.project, paths, importing)
        self._time_left.expect("read", None)
        try:
            self._run([reading])
        except WorkbenchError:
            for refusal in reading.refused:
                if isinstance(refusal, UnknownFormat):
                    raise refusal from None
            raise
        clustering = workspace.goal_stages().cluster_stages(CLUSTERS)
        scoring = workspace.scoring_runs.make_run(SCORING)
        self._expect_stages(clustering, scoring)
        self._run(clustering)
        goals = shown_clustering(workspace)
        self._say(
            f"{reading.summary()}\n\nFirst result, {self._after()}, before a model has read anything:",
            headline(self._workspace.conversations.counts(), self._workspace.conversations.rule()),
            _goal_lines(goals["groups"]),
            *self._badly_read(reading),
        )
        provisional = provisional_too and self._provisional(scoring)
        if screens:
            return Looked(self._code(reading), self._go_on)
        self._score(scoring)
        if not self._json and provisional:
            narrate("The scores are final now: every conversation was read.")
        self._say(f"\nFinal scores, {self._after()}:", *self._score_lines())
        self._run(self._further_stages(self._workspace))
        to_read = conversations_to_read(self._workspace)
        if self._json:
            print_json(self._document(goals["groups"], to_read))
        self._say(*self._to_read_lines(to_read), *self._steps_by_hand())
        narrate(f"{self._project} is ready, {self._after()}.")
        return Looked(self._code(reading))

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
            "read_first": [
                {
                    "name": row.external_id,
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
        """Returns what runs after the scores: a check of the import, and what the caller adds."""
        further = self._further(workspace) if self._further else ()
        return [self._check, *further]

    def _expect_stages(self, clustering: Sequence[Stage], scoring: ScoringRun) -> None:
        """Tells the estimate of the time left what is to be done, with rough figures for what takes seconds."""
        count = self._workspace.conversations.counts().conversations
        for stage in clustering:
            self._time_left.expect(stage.name, 1 + count / 500)
        for stage in scoring.stages:
            self._time_left.expect(stage.name, 2 + count / 50)
        for stage in self._further_stages(self._workspace):
            self._time_left.expect(stage.name, 15.0)
        if any(isinstance(stage, TuningStage) for stage in scoring.stages):
            self._time_left.expect("tune", 30.0)
        self._time_left.expect(scoring.reading.name, None)
        if scoring.reading.name != "read":
            self._time_left.end("read")

    def _tune(self, scoring: ScoringRun) -> Estimate:
        """Runs the stages before the reading, then counts tokens; returns what reading is expected to cost."""
        self._run(scoring.stages[: scoring.stages.index(scoring.reading)])
        cost = self._workspace.scoring_runs.estimate(scoring)
        self._time_left.expect(scoring.reading.name, cost.seconds)
        return cost

    def _provisional(self, scoring: ScoringRun) -> bool:
        """Prints provisional scores from a random part of the logs; returns whether there are any.

        Logs that are read soon, that were scored before, or of which too few are read for a probe get none. Where even
        those few would take too long, the ends of logs are read, which the final scores do without.
        """
        cost = self._tune(scoring)
        seconds = cost.seconds
        counts = self._workspace.conversations.counts()
        if not isinstance(scoring.reading, ReadingStage) or counts.scored:
            return False
        if seconds is not None and seconds <= MAX_WAIT_FACTOR * PROVISIONAL_SECONDS:
            return False
        share_for_probe = (
            min(MIN_CONVERSATIONS_FOR_PROBE, counts.conversations) / counts.conversations
        )
        only_ends = seconds is not None and seconds * share_for_probe > MAX_PROBE_READING_SECONDS
        request = replace(ENDS if only_ends else SCORING, seconds=PROVISIONAL_SECONDS)
        part = self._workspace.scoring_runs.make_run(request)
        if not isinstance(part.scoring_stage, FittingStage):
            return False
        run_stages(self._workspace, [part.reading], self._narrator)
        if only_ends and isinstance(part.reading, ReadingStage):
            seconds = at_speed(cost, part.reading.tokens_per_second())
            self._time_left.expect(scoring.reading.name, seconds)
        with self._workspace.project.reading() as conn:
            waiting_count = len(part.reading.waiting(conn))
        if not only_ends and (
            not waiting_count or part.scoring_stage.waiting() < MIN_CONVERSATIONS_FOR_PROBE
        ):
            return False
        try:
            run_stages(self._workspace, [part.scoring_stage], self._narrator)
        except Cancelled:
            raise
        except WorkbenchError as error:
            narrate(f"No provisional scores: {error.message}")
            return False
        self._time_left.expect("fit", 2 + counts.conversations / 50)
        read = counts.conversations - waiting_count
        what = f"{read:,} of {counts.conversations:,} conversations"
        if only_ends:
            what = f"the text before the end and before one earlier place of {what}"
        else:
            what += " drawn at random"
        self._say(
            f"\nProvisional scores, {self._after()}, from {what};"
            f" they change when {'all' if only_ends else 'the rest'} is read:",
            *self._score_lines(),
        )
        return True

    def _score(self, scoring: ScoringRun) -> None:
        """Reads what is left and scores it; without a probe where nearly all logs are copies of others."""
        self._run([scoring.reading])
        if scoring.scoring_stage is scoring.reading:
            return
        try:
            self._run([scoring.scoring_stage])
        except Cancelled:
            raise
        except WorkbenchError as error:
            narrate(f"{error.message} So they are scored in mode tuned.")
            self._run(self._workspace.scoring_runs.make_run(replace(SCORING, mode="tuned")).stages)

    def _go_on(self, workspace: OpenProject) -> None:
        """Starts in the background what is left to do."""
        scoring = workspace.scoring_runs.make_run(SCORING)
        with workspace.project.reading() as conn:
            waiting = bool(scoring.reading.waiting(conn))
        if isinstance(scoring.scoring_stage, FittingStage):
            waiting = waiting or bool(scoring.scoring_stage.waiting())
        waiting_count = scoring.stages if waiting else ()
        workspace.runner.start([*waiting_count, *self._further_stages(workspace)])

    def _code(self, reading: ImportStage) -> int:
        """Returns the exit code: with gaps where something is unscored, rejected or not read."""
        unscored = self._workspace.conversations.counts().unscored
        lost = any(source.account.warns for source in reading.sources)
        return EXIT_INCOMPLETE if unscored or reading.quarantined or lost else EXIT_DONE

    # Words

    def _badly_read(self, reading: ImportStage) -> list[str]:
        """Returns the accounts of sources that were badly read, and what was refused, with the command that mends
        it.
        """
        badly = [source for source in reading.sources if source.badly_read]
        lines = account_lines(badly, partial(map_command, self._project, again=True))
        for refused in reading.refused:
            refusal: WorkbenchError = refused
            if isinstance(refused, UnknownFormat):
                refusal = with_command(refused, self._project)
            lines += [refusal.message, f"  {refusal.hint}"]
        return ["\nNot well read:", *lines] if lines else []

    def _after(self) -> str:
        """Returns the time since the command began, in words."""
        return f"after {duration(time.monotonic() - self._start)}"

    def _say(self, *lines: str) -> None:
        """Prints a part of the result, unless all of it is printed as JSON at the end."""
        if not self._json:
            print_text("\n".join(lines))

    def _score_lines(self) -> list[str]:
        """Returns the lines about the scores."""
        rows = self._workspace.conversations
        line = rate_line(rows.counts(), rows.rule())
        return [line, *set_lines(self._workspace.score_sets.all())]

    def _to_read_lines(self, to_read: Sequence[FirstReading]) -> list[str]:
        """Returns the conversations to read first, each with the reason."""
        lines = ["\nRead these first, the least likely to have ended:"]
        if not self._workspace.conversations.counts().scored:
            return [*lines, "  none: no conversation is scored"]
        if not to_read:
            return [*lines, "  none: every scored conversation looks ended"]
        for row, reason in to_read:
            name, opening = one_line(row.external_id, 24), one_line(row.opening, 80)
            lines.append(f"  {probability(row.p_end_normalised):>5}  {name}  {opening}")
            lines.append(f"         {one_line(reason, 160)}")
        return lines

    def _steps_by_hand(self) -> list[str]:
        """Returns the commands that do each step by hand."""
        project = shlex.quote(str(self._project))
        files = " ".join(shlex.quote(str(path)) for path in self._paths)
        return [
            "\nEach step by hand, to do it again or in another way:",
            f"  workbench import {project} {files}",
            f"  workbench run cluster {project} --no-labels --decide auto",
            f"  workbench run complete {project} --no-remaining",
            f"  workbench list {project} --sort p --limit {MAX_TO_READ}",
            f"  workbench {project}     the screens; key 3 is triage, where O chooses this order",
        ]


def at_speed(cost: Estimate, measured: float | None) -> float | None:
    """Returns the seconds of an estimate, or more where the speed measured just now (tokens a second) is lower.

    The speed is that of shorter texts, which are read faster, so it is no reason to expect less.
    """
    if cost.seconds is None or not cost.tokens or measured is None:
        return cost.seconds
    return max(cost.seconds, cost.tokens / measured)


def _goal_lines(groups: Sequence[dict[str, Any]]) -> str:
    """Returns the largest groups, and how many smaller ones there are."""
    lines = [f"\nWhat users wanted, {counted(len(groups), 'group')}:"]
    lines += [
        f"{group['size']:>8,}  {one_line(group['label'])}" for group in groups[:MAX_GOALS_SHOWN]
    ]
    if len(groups) > MAX_GOALS_SHOWN:
        lines.append(f"          and {len(groups) - MAX_GOALS_SHOWN:,} smaller ones")
    return "\n".join(lines)
