"""`workbench open FILE...`: from log files to a first result in one go: import, goals, scores, what to read first.

The cheap comes first. What is there, what users wanted and which conversations ended takes seconds and no model: the
words tell. Then the model reads the logs, those first that the words leave open, and the scores change at each doubling
of what was read. Hidden states are kept, so no log is read twice, and the same command goes on where it was stopped.
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
from engine.base.number_format import counted, duration, trouble
from engine.base.text import one_line
from engine.completeness.scoring_request import ScoringRequest
from engine.completeness.service.runs import ScoringRun
from engine.completeness.stages.fitting import FittingStage
from engine.conversations.records import DEFAULT_IMPORT, ImportRequest
from engine.conversations.service import account_lines
from engine.conversations.stages import CheckStage, ImportStage
from engine.goals.clustering_request import ClusteringRequest
from engine.jobs.contract import Stage
from engine.jobs.progress import TimeLeft
from engine.opener.jobs import import_stages
from engine.opener.key_figures import MAX_TO_READ, FirstReading, conversations_to_read
from engine.opener.open_project import OpenProject
from workbench.command_result import EXIT_DONE, EXIT_INCOMPLETE
from workbench.commands.goal_runs import shown_clustering
from workbench.commands.importing import map_command, with_command
from workbench.narration import Narrator, narrate, print_json, print_text, run_stages
from workbench.text_tables import counts_json, headline, rate_line, set_lines, sets_json

if TYPE_CHECKING:
    # Only the demo needs it, and it brings the texts of the samples.
    from engine.opener.demo_check import DemoCheck

MAX_GOALS_SHOWN = 12
"""Most groups that are printed."""

SCORING = ScoringRequest(remaining=False)
"""Scores come without remaining tasks, which take longer than all the rest; `run complete` writes those later."""

CLUSTERS = ClusteringRequest(labels=False, decide="auto")
"""Named by phrases of their members and merged by the merge probability, so that no model is asked."""

Check = Callable[[OpenProject], "DemoCheck"]
"""Says how right a result is, where the truth is known."""

Further = Callable[[OpenProject], Sequence[Stage]]
"""Makes stages to run after the scores."""


@dataclass(frozen=True, slots=True)
class Looked:
    """What a first look came to.

    Attributes:
        code: Exit code: done, or done with gaps.
        go_on: Starts in the background what is left to do; None where nothing is.
    """

    code: int
    go_on: Callable[[OpenProject], None] | None = None


def show_rest(path: Path, looked: Looked, theme: str | None = None) -> None:
    """Opens the screens after a first result; what is left to do runs in the background."""
    from workbench import launcher

    launcher.show_project(path, theme=theme, start=looked.go_on)


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
) -> Looked:
    """Imports, clusters and scores, and prints each result as soon as it is there; what is done is not done again.

    Args:
        screens: The screens are opened next, so return after the first result and leave the rest to them.
        further: Stages to run after the scores.
        importing: How the files are read.
        minutes: For how long the model reads, in minutes; 0 stays with words, None reads all.
        check: Says how right the result is, where the truth is known.

    Raises:
        WorkbenchError: A file cannot be read, or a stage failed; what was done is kept. Where nothing was read, no new
            project is left.
        Cancelled: It was cancelled from the keyboard; what was done is kept.
    """
    is_new = not project.exists()
    try:
        with OpenProject(project, create=True) as workspace:
            look = _FirstLook(
                workspace,
                paths,
                project,
                as_json=as_json,
                further=further,
                minutes=minutes,
                check=check,
            )
            return look.run(screens, importing)
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
        minutes: int | None,
        check: Check | None,
    ) -> None:
        self._workspace, self._paths, self._project = workspace, paths, project
        self._json, self._further, self._minutes, self._check = as_json, further, minutes, check
        self._time_left = TimeLeft()
        self._narrator = Narrator(self._time_left)
        self._start = time.monotonic()

    def run(self, screens: bool, importing: ImportRequest) -> Looked:
        """Imports, then scores by words and clusters, then lets a model read; arguments as in `first_look`."""
        workspace = self._workspace
        paths = [str(path) for path in self._paths]
        import_stage, signs, _ = import_stages(workspace.project, paths, importing)
        self._time_left.expect("read", None)
        try:
            self._run([import_stage])
        except WorkbenchError:
            for refusal in import_stage.refused:
                if isinstance(refusal, UnknownFormat):
                    raise refusal from None
            raise
        clustering = workspace.goal_stages().cluster_stages(CLUSTERS)
        self._expect_stages([signs, *clustering])
        self._run([signs])
        self._score_by_words()
        self._run(clustering)
        goals = shown_clustering(workspace)
        self._say(
            f"{import_stage.summary()}\n\nFirst result, {self._after()}, before a model has read anything:",
            headline(self._workspace.conversations.counts(), self._workspace.conversations.rule()),
            *set_lines(self._workspace.score_sets.all()),
            *self._unscored_lines(),
            _goal_lines(goals["groups"]),
            *self._badly_read(import_stage),
        )
        if screens:
            self._say(*([] if self._check is None else ["", *self._check(workspace).lines()]))
            return Looked(self._code(import_stage), self._go_on)
        if self._minutes != 0:
            self._read_and_score()
            self._say(f"\nAfter the model has read, {self._after()}:", *self._score_lines())
        self._run(self._further_stages(self._workspace))
        check = self._check(workspace) if self._check else None
        check_lines = ["", *check.lines()] if check else []
        to_read = conversations_to_read(self._workspace)
        if self._json:
            document = self._document(goals["groups"], to_read)
            if check is not None:
                document["check"] = {**asdict(check), "seconds": document["seconds"]}
            print_json(document)
        self._say(*self._to_read_lines(to_read), *check_lines, *self._steps_by_hand())
        narrate(f"{self._project} is ready, {self._after()}.")
        return Looked(self._code(import_stage))

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
                    "trouble": row.trouble,
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
        # Made for the given project: the screens open it anew.
        return [CheckStage(workspace.project), *further]

    def _expect_stages(self, clustering: Sequence[Stage]) -> None:
        """Tells the estimate of the time left what is to be done, with rough figures for what takes seconds."""
        count = self._workspace.conversations.counts().conversations
        for stage in clustering:
            self._time_left.expect(stage.name, 1 + count / 500)
        for stage in self._further_stages(self._workspace):
            self._time_left.expect(stage.name, 15.0)
        if self._minutes == 0:
            self._time_left.end("read")

    def _score_by_words(self) -> None:
        """Scores by words where there are enough conversations for that, which takes seconds."""
        self._run([FittingStage(self._workspace.project, "words", required=False)])

    def _scoring(self, workspace: OpenProject) -> ScoringRun:
        """Returns the run in which the model reads."""
        return workspace.scoring_runs.make_run(replace(SCORING, minutes=self._minutes or None))

    def _read_and_score(self) -> None:
        """Lets the model read what is left. Where that fails it scores without a probe: nearly all logs may be copies
        of others, or the model may give no hidden states."""
        scoring = self._scoring(self._workspace)
        try:
            for stage in scoring.stages:
                if scoring.reading is not None and stage.name == scoring.reading.stage.name:
                    # By now the model is tuned, so that its speed is known.
                    cost = self._workspace.scoring_runs.estimate(scoring)
                    self._time_left.expect(stage.name, cost.seconds)
                self._run([stage])
        except Cancelled:
            raise
        except WorkbenchError as error:
            narrate(f"{error.message} So the model is asked how each goes on (mode base).")
            base = replace(SCORING, mode="base")
            self._run(self._workspace.scoring_runs.make_run(base).stages)

    def _go_on(self, workspace: OpenProject) -> None:
        """Starts in the background what is left to do."""
        stages: list[Stage] = []
        if self._minutes != 0:
            scoring = self._scoring(workspace)
            waiting = 0
            if scoring.reading is not None:
                with workspace.project.reading() as conn:
                    waiting = len(scoring.reading.stage.waiting(conn))
            if isinstance(scoring.scoring_stage, FittingStage):
                waiting += scoring.scoring_stage.waiting()
            stages = scoring.stages if waiting else []
        workspace.runner.start([*stages, *self._further_stages(workspace)])

    def _code(self, import_stage: ImportStage) -> int:
        """Returns the exit code: with gaps where something is unscored, rejected or not read."""
        unscored = self._workspace.conversations.counts().unscored
        lost = any(source.account.warns for source in import_stage.sources)
        return EXIT_INCOMPLETE if unscored or import_stage.counts.quarantined or lost else EXIT_DONE

    # Words

    def _badly_read(self, import_stage: ImportStage) -> list[str]:
        """Returns the accounts of sources that were badly read, and what was refused, with the command that mends
        it.
        """
        badly = [source for source in import_stage.sources if source.badly_read]
        lines = account_lines(badly, partial(map_command, self._project))
        for refused in import_stage.refused:
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

    def _unscored_lines(self) -> list[str]:
        """Returns why nothing is scored, where no model is to read either."""
        scored = self._workspace.conversations.counts().scored
        if scored or self._minutes != 0 or self._workspace.score_sets.name_in_force():
            return []
        return [
            "no conversation is scored; there are too few for words, and with --minutes 0 no model reads"
        ]

    def _score_lines(self) -> list[str]:
        """Returns the lines about the scores."""
        rows = self._workspace.conversations
        line = rate_line(rows.counts(), rows.rule())
        return [line, *set_lines(self._workspace.score_sets.all())]

    def _to_read_lines(self, to_read: Sequence[FirstReading]) -> list[str]:
        """Returns the conversations to read first, each with the reason."""
        lines = ["\nRead these first, the most signs of trouble:"]
        if not to_read:
            return [*lines, "  none: no conversation shows a sign of trouble"]
        for row, reason in to_read:
            name, opening = one_line(row.external_id, 24), one_line(row.opening, 80)
            lines.append(f"  {trouble(row.trouble):>5}  {name}  {opening}")
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
            f"  workbench run complete {project} --mode words",
            f"  workbench run complete {project} --no-remaining",
            f"  workbench list {project} --sort trouble --reverse --limit {MAX_TO_READ}",
            f"  workbench {project}     the screens; key 3 is triage, where O chooses this order",
        ]


def _goal_lines(groups: Sequence[dict[str, Any]]) -> str:
    """Returns the largest groups, and how many smaller ones there are."""
    lines = [f"\nWhat users wanted, {counted(len(groups), 'group')}:"]
    lines += [
        f"{group['size']:>8,}  {one_line(group['label'])}" for group in groups[:MAX_GOALS_SHOWN]
    ]
    if len(groups) > MAX_GOALS_SHOWN:
        lines.append(f"          and {len(groups) - MAX_GOALS_SHOWN:,} smaller ones")
    return "\n".join(lines)
