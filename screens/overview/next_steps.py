"""The path from logs to a result: what is done of it, what comes next and how long it takes.

Pure functions, without Textual. A step is shown with its title and, beside it, how long it takes or what it waits for.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from engine.base import number_format
from engine.base.conversation import Verdict
from engine.base.statistics.intervals import Interval
from engine.base.text import one_line
from engine.completeness.records import ScoreSet
from engine.goals.records import LowestGoal
from engine.opener.conversations import Counts
from engine.project.records import Estimate, RunRow
from engine.questions.records import MIN_VERDICTS, Proposal
from screens.widgets.jobs import stage_name, work_of

Kind = Literal[
    "import",
    "resume",
    "score",
    "choose",
    "triage",
    "calibrate",
    "cluster",
    "merge",
    "lowest",
    "triage-lowest",
    "verdicts",
    "adapt",
    "compare",
    "export",
    "wait",
]
"""What a step does, or what it waits for (`wait`)."""

PATH: tuple[Kind, ...] = (
    "import",
    "score",
    "triage",
    "cluster",
    "merge",
    "lowest",
    "triage-lowest",
    "adapt",
    "compare",
    "export",
)
"""The steps of the path in order; the other kinds come up beside it."""

FIRST_VERDICTS = 20
"""Verdicts after which one has seen what goes wrong."""

LOWEST_VERDICTS = 10
"""Verdicts on the lowest goal after which one has seen what goes wrong in it."""

SECONDS_A_VERDICT = 20.0
"""Seconds that a verdict takes, until the person's own pace is known."""

SECONDS_A_DECISION = 20.0
"""Seconds that a decision on the merge desk takes."""

SECONDS_PER_HOUR = 3600
"""Seconds of an hour."""

MAX_GOAL_CHARS = 28
"""Most characters of the label of a goal in the title of a step."""

MAX_STAGE_CHARS = 40
"""Most characters of the name of a stage in the title of a step."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step, to do next or done.

    Attributes:
        kind: What it does.
        title: What it is and what it brings, in a few words; display-safe.
        time: How long it takes in words, empty when there is nothing to wait for.
        after: What has to be done before, in words; empty when it can be done now.
        why_not: Why it cannot be done now, None when it can.
        done: It is done; doing it again is possible.
        run: The run to resume, for `resume`.
    """

    kind: Kind
    title: str
    time: str = ""
    after: str = ""
    why_not: str | None = None
    done: bool = False
    run: RunRow | None = None


@dataclass(frozen=True, slots=True)
class ProjectProgress:
    """The state of the project from which the steps follow.

    Attributes:
        counts: Numbers of conversations, by state among others.
        tally: Number of conversations by verdict.
        interrupted: Runs that were interrupted and not resumed since, the newest first.
        to_score: What scoring would cost; None while that is being worked out, a text when it cannot be done.
        working: What jobs that run or wait now are part of, as `work_of` names it: `scoring`, `clustering`.
        per_hour: Verdicts an hour, None when the pace is not known.
        corrected: The rate corrected for the model's errors, with its interval; None without one.
        calibrated: The rule in force comes from verdicts, or from the person.
        proposal: The threshold that the verdicts suggest; None without one.
        better: A tested set of scores beside one in force that is not tested, or means little; None without one.
        sets: Number of sets of scores.
        goals: Number of goals, 0 before a clustering; None while that is not known.
        proposals: Merge proposals that wait for a decision; None while they are being counted.
        lowest: The goal with the lowest rate of complete conversations; None without goals that are scored.
        lowest_seen, compared: Whether the person opened the lowest goal, and the comparison of these sets of scores.
        adapted: Name of the newest training run that has an adapter, display-safe; None without one, empty while a run
            works.
        cannot_adapt: Why no model can be trained here; empty where it can.
    """

    counts: Counts
    tally: dict[str, int]
    interrupted: Sequence[RunRow] = ()
    to_score: Estimate | str | None = None
    working: frozenset[str] = frozenset()
    per_hour: float | None = None
    corrected: Interval | None = None
    calibrated: bool = False
    proposal: Proposal | None = None
    better: ScoreSet | None = None
    sets: int = 0
    goals: int | None = None
    proposals: int | None = 0
    lowest: LowestGoal | None = None
    lowest_seen: bool = False
    compared: bool = False
    adapted: str | None = None
    cannot_adapt: str = ""


def next_steps(now: ProjectProgress) -> list[Step]:
    """Returns the steps that can be done now, the next one first, then those that wait for another, then those that are
    done; of the path and what comes up beside it. Never empty.
    """
    resumed = {work_of(run.stage) for run in now.interrupted}
    steps = [_resume(run) for run in _latest_of_each_work(now.interrupted)]
    steps += [step for step in _all_steps(now) if _work(step.kind) not in resumed or step.done]
    ready = [step for step in steps if not step.done and not step.after]
    waiting = [step for step in steps if step.after]
    return [*ready, *waiting, *(step for step in steps if step.done)]


def done_of_path(steps: Sequence[Step]) -> int:
    """Returns how many steps of `PATH` are done."""
    return sum(step.done for step in steps if step.kind in PATH)


def _work(kind: Kind) -> str:
    """Returns the work of jobs that a step starts, as `work_of` names it; empty for steps that start none."""
    return {"score": "scoring", "cluster": "clustering"}.get(kind, "")


def _all_steps(now: ProjectProgress) -> Iterator[Step]:
    """Yields the steps of the path in its order, each with what comes up beside it."""
    yield _import(now.counts)
    yield from _score(now)
    if now.better is not None:
        title = f"Choose the scores of set {now.better.number}, which are tested"
        yield Step("choose", title)
    yield _check(now)
    if now.proposal is not None and not now.calibrated:
        proposal = now.proposal
        threshold = number_format.probability(proposal.rule.threshold)
        title = f"Take over the threshold {threshold} from your verdicts"
        yield Step("calibrate", title, f"{proposal.now:.0%} → {proposal.then:.0%} ended")
    yield from _goals(now)
    yield from _more_verdicts(now)
    yield _adapt(now)
    yield _compare(now)
    after = "" if now.counts.scored else "after scoring"
    yield Step("export", "Export scores, verdicts or goals", after=after)


def _import(counts: Counts) -> Step:
    """Returns the step of importing conversations."""
    if not counts.conversations:
        return Step("import", "Import conversations: a file or a folder")
    number = number_format.counted(counts.conversations, "conversation")
    return Step("import", f"Import: {number}", done=True)


def _score(now: ProjectProgress) -> Iterator[Step]:
    """Yields the step of scoring, with its cost."""
    unscored, cost = now.counts.unscored, now.to_score
    number = number_format.counted(unscored, "conversation")
    if not now.counts.conversations:
        yield Step("score", "Score: which ended", after="after an import")
    elif "scoring" in now.working:
        yield Step("wait", "Scoring is at work; the bottom line tells how far it is")
    elif unscored == 0 or (isinstance(cost, Estimate) and cost.items == 0):
        gap = f", {unscored:,} cannot be" if unscored else ""
        yield Step("score", f"Score: {now.counts.scored:,} scored{gap}", done=True)
    elif cost is None:
        yield Step("score", f"Score {number}", "estimating …")
    elif isinstance(cost, str):
        yield Step("score", f"Score {number}", why_not=one_line(cost))
    else:
        time = "time unknown"
        if cost.seconds is not None:
            time = "about " + number_format.duration(cost.seconds)
        yield Step("score", f"Score {number_format.counted(cost.items, 'conversation')}", time)


def _check(now: ProjectProgress) -> Step:
    """Returns the step of giving the first verdicts."""
    given = sum(now.tally.values())
    needed = min(FIRST_VERDICTS, now.counts.conversations)
    if not now.counts.scored:
        title = f"Judge {FIRST_VERDICTS} in triage: did they get what they wanted?"
        return Step("triage", title, after="after scoring")
    if given >= needed:
        return Step("triage", f"Judge: {number_format.counted(given, 'verdict')}", done=True)
    more = needed - given
    title = f"Judge {more}{' more' if given else ''} in triage: did they get what they wanted?"
    return Step("triage", title, _verdict_time(now, more))


def _verdict_time(now: ProjectProgress, verdicts: int) -> str:
    """Returns the time that so many verdicts take, in words."""
    seconds = SECONDS_PER_HOUR / now.per_hour if now.per_hour else SECONDS_A_VERDICT
    return "about " + number_format.duration(verdicts * seconds)


def _goals(now: ProjectProgress) -> Iterator[Step]:
    """Yields the steps of clustering, of merging, and of the goal that does worst; nothing while it is not known
    whether there are goals.
    """
    if now.goals is None:
        return
    if not now.goals:
        number = number_format.counted(now.counts.conversations, "conversation")
        after = "" if now.counts.conversations else "after an import"
        if "clustering" in now.working:
            yield Step("wait", "Clustering is at work; the bottom line tells how far it is")
        else:
            yield Step("cluster", f"Cluster {number} by what was wanted", after=after)
        yield Step("merge", "Decide which groups are one goal", after="after clustering")
        yield Step("lowest", "Look at the goal that does worst", after="after clustering")
        yield Step("triage-lowest", "Triage what goes wrong in it", after="after clustering")
        return
    yield Step("cluster", f"Cluster: {number_format.counted(now.goals, 'goal')}", done=True)
    if now.proposals is None:
        yield Step("merge", "Decide which groups are one goal", "counting …")
    elif now.proposals:
        time = "about " + number_format.duration(now.proposals * SECONDS_A_DECISION)
        title = f"Decide {number_format.counted(now.proposals, 'merge proposal')}"
        yield Step("merge", title, time)
    else:
        yield Step("merge", "Merge: no proposal waits", done=True)
    if now.lowest is None:
        yield Step("lowest", "Look at the goal that does worst", after="after scoring")
        yield Step("triage-lowest", "Triage what goes wrong in it", after="after scoring")
    else:
        yield from _lowest(now, now.lowest)


def _lowest(now: ProjectProgress, goal: LowestGoal) -> Iterator[Step]:
    """Yields the steps of looking at the goal that does worst, and of triage in it."""
    share = f"“{one_line(goal.label, MAX_GOAL_CHARS)}”, {goal.complete:,} of {goal.scored:,} ended"
    if goal.complete == goal.scored:
        yield Step("lowest", "Lowest goal: in every goal all ended", done=True)
    elif now.lowest_seen:
        yield Step("lowest", f"Lowest goal: {share}", done=True)
    else:
        yield Step("lowest", f"Look at the lowest goal: {share}")
    left = min(len(goal.waiting), LOWEST_VERDICTS - goal.judged)
    if left > 0:
        title = f"Triage {left} in “{one_line(goal.label, MAX_GOAL_CHARS)}”: what goes wrong?"
        yield Step("triage-lowest", title, _verdict_time(now, left))
    else:
        given = number_format.counted(goal.judged, "verdict")
        title = f"Triage of it: {given if goal.judged else 'nothing is broken off'}"
        yield Step("triage-lowest", title, done=True)


def _more_verdicts(now: ProjectProgress) -> Iterator[Step]:
    """Yields the step of giving verdicts beyond the first ones, for the rate that is corrected for the model's
    errors.
    """
    given = sum(now.tally.values())
    decided = now.tally.get(Verdict.YES, 0) + now.tally.get(Verdict.NO, 0)
    unjudged = now.counts.conversations - given
    # up to the least number that a correction needs, then as many again each time
    needed = MIN_VERDICTS - decided if decided < MIN_VERDICTS else MIN_VERDICTS
    more = min(needed, unjudged)
    if given < FIRST_VERDICTS or more <= 0 or not now.counts.scored:
        return
    number = number_format.counted(more, "more verdict")
    time = _verdict_time(now, more)
    if now.corrected is None:
        yield Step("verdicts", f"{number} to correct the rate for errors", time)
        return
    width = now.corrected.high - now.corrected.low
    then = tightened(width, decided, more)
    title = f"{number}: the corrected rate within {100 * then:.0f} points, now {100 * width:.0f}"
    yield Step("verdicts", title, time)


def tightened(width: float, verdicts: int, more: int) -> float:
    """Returns the width of an interval that rests on `verdicts` after so many more: it shrinks with `1 / √n`."""
    return width * math.sqrt(verdicts / (verdicts + more))


def _adapt(now: ProjectProgress) -> Step:
    """Returns the step of training an adapter."""
    if now.adapted:
        return Step("adapt", f"Adapt: {now.adapted} is trained", done=True)
    if now.adapted == "":  # a run works; None would be that there is none
        return Step("adapt", "Adapt: a training run is at work")
    title = "Adapt a model to these conversations"
    if now.cannot_adapt:
        return Step("adapt", title, after=one_line(now.cannot_adapt))
    return Step("adapt", title, after="" if now.counts.conversations else "after an import")


def _compare(now: ProjectProgress) -> Step:
    """Returns the step of comparing sets of scores."""
    if now.compared:
        return Step("compare", f"Compare: {now.sets} sets of scores, looked at", done=True)
    if now.sets < 2:
        after = "after a second scoring, r in another mode" if now.sets else "after scoring"
        return Step("compare", "Compare sets of scores", after=after)
    return Step("compare", f"Compare {now.sets} sets of scores")


def _latest_of_each_work(runs: Sequence[RunRow]) -> list[RunRow]:
    """Returns of runs, newest first, the newest of each work: one stage of it resumes all."""
    latest: dict[str, RunRow] = {}
    for run in runs:
        latest.setdefault(work_of(run.stage), run)
    return list(latest.values())


def _resume(run: RunRow) -> Step:
    """Returns the step of resuming an interrupted run."""
    of = f" of {run.total:,}" if run.total is not None else ""
    progress = f" at {run.done:,}{of}" if run.done else ""
    title = f"Resume {one_line(stage_name(run.stage), MAX_STAGE_CHARS)}, interrupted{progress}"
    return Step("resume", title, run=run)
