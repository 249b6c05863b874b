"""The path from logs to a result: what is done of it, and what comes next. Knows nothing of Textual.

A step is something that a person can do, such as scoring. It is shown with what it costs, or with what it waits for. A
step starts a work of jobs, such as `scoring`, or none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from engine.base import number_format
from engine.base.conversation import Verdict
from engine.base.text import one_line
from engine.completeness.records import ScoreSet
from engine.goals.records import ReviewProgress
from engine.opener.conversations import Counts
from engine.project.records import Estimate, RunRow
from engine.questions.records import Proposal
from screens.widgets.jobs import interruption, stage_name, work_of

Kind = Literal[
    "import",
    "resume",
    "score",
    "choose",
    "triage",
    "calibrate",
    "cluster",
    "merge",
    "export",
    "wait",
]
"""What a step does, or what it waits for (`wait`)."""

PATH: tuple[Kind, ...] = ("import", "score", "triage", "cluster", "merge", "export")
"""The steps of the path in order; steps of other kinds come up beside it."""

FIRST_VERDICTS = 20
"""Number of verdicts after which a person has seen what goes wrong."""

MAX_STAGE_CHARS = 40
"""Most characters of the name of a stage in the title of a step."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step, to do next or done.

    Attributes:
        kind: What it does.
        title: What it is and what it brings, in a few words; display-safe.
        time: How long it takes, or what it changes, in words; empty where that is not known.
        after: What has to be done before, in words; empty when it can be done now.
        why_not: Why it cannot be done at all; None when it can.
        done: Whether it is done; it can be done again.
        run: The run that the kind `resume` resumes.
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
        counts: Numbers of conversations, such as those in each state.
        tally: Number of conversations by verdict.
        interrupted: Runs that were interrupted and not resumed since, the newest first.
        to_score: What scoring would cost; None while that is estimated, a text that tells why it cannot be done.
        working: The work of the jobs that run or wait, as `work_of` names it: `scoring`, `clustering`.
        calibrated: Whether the rule in force comes from verdicts, or from the person.
        proposal: The threshold that the verdicts suggest; None without one.
        better: A tested set of scores, where the set in force is not tested or means little; None without one.
        goals: Number of goals, 0 before a clustering; None while that is not known.
        merges: How far the decisions on pairs of goals are; None while that is counted.
    """

    counts: Counts
    tally: dict[str, int]
    interrupted: Sequence[RunRow] = ()
    to_score: Estimate | str | None = None
    working: frozenset[str] = frozenset()
    calibrated: bool = False
    proposal: Proposal | None = None
    better: ScoreSet | None = None
    goals: int | None = None
    merges: ReviewProgress | None = None


def next_steps(now: ProjectProgress) -> list[Step]:
    """Returns the steps of the path and those beside it; there is at least one.

    First come the steps that can be done now, of which the first is the next one; then those that wait for another
    step; then those that are done. A step whose work was interrupted is replaced by one that resumes it.
    """
    interrupted_works = {work_of(run.stage) for run in now.interrupted}
    steps = [_resume(run) for run in _latest_of_each_work(now.interrupted)]
    steps += [
        step for step in _all_steps(now) if _work(step.kind) not in interrupted_works or step.done
    ]
    ready = [step for step in steps if not step.done and not step.after]
    waiting = [step for step in steps if step.after]
    return [*ready, *waiting, *(step for step in steps if step.done)]


def count_done_of_path(steps: Sequence[Step]) -> int:
    """Returns how many steps of `PATH` are done."""
    return sum(step.done for step in steps if step.kind in PATH)


def _work(kind: Kind) -> str:
    """Returns the work that steps of a kind start, as `work_of` names it; empty for those that start none."""
    return {"score": "scoring", "cluster": "clustering"}.get(kind, "")


def _all_steps(now: ProjectProgress) -> Iterator[Step]:
    """Yields the steps of the path in its order, each followed by those that come up beside it."""
    yield _import(now.counts)
    yield from _score(now)
    if now.better is not None:
        title = f"Choose the scores of set {now.better.number}, which are tested"
        yield Step("choose", title)
    yield _judge(now)
    if now.proposal is not None and not now.calibrated:
        proposal = now.proposal
        threshold = number_format.probability(proposal.rule.threshold)
        title = f"Take over the threshold {threshold} from your verdicts"
        yield Step("calibrate", title, f"{proposal.now:.0%} → {proposal.then:.0%} ended")
    yield from _goals(now)
    after = "" if now.counts.scored else "after scoring"
    yield Step("export", "Export scores, answers or clusters", after=after)


def _import(counts: Counts) -> Step:
    """Returns the step of importing conversations."""
    if not counts.conversations:
        return Step("import", "Import conversations: a file or a folder")
    number = number_format.counted(counts.conversations, "conversation")
    return Step("import", f"Import: {number}", done=True)


def _score(now: ProjectProgress) -> Iterator[Step]:
    """Yields the step of scoring, with its cost, or that scoring runs."""
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


def _judge(now: ProjectProgress) -> Step:
    """Returns the step of giving the first verdicts."""
    given = sum(now.tally.values())
    needed = min(FIRST_VERDICTS, now.counts.conversations)
    if not now.counts.scored:
        title = f"Judge {FIRST_VERDICTS} in triage: did they get what they wanted?"
        return Step("triage", title, after="after scoring")
    if given >= needed:
        unsure = now.tally.get(Verdict.UNSURE, 0)
        title = f"Judge: {number_format.counted(given, 'verdict')}"
        return Step("triage", f"{title}, {unsure:,} unsure" if unsure else title, done=True)
    more = needed - given
    title = f"Judge {more}{' more' if given else ''} in triage: did they get what they wanted?"
    return Step("triage", title)


def _goals(now: ProjectProgress) -> Iterator[Step]:
    """Yields the steps of clustering and of merging; nothing while it is not known whether there are goals."""
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
        return
    yield Step("cluster", f"Cluster: {number_format.counted(now.goals, 'goal')}", done=True)
    if now.merges is None:
        yield Step("merge", "Decide which groups are one goal", "counting …")
    elif now.merges.likely:
        left = number_format.counted(now.merges.left, "pair")
        yield Step(
            "merge",
            f"Decide on {left} of groups that may be one goal",
            f"about {now.merges.to_merge:,.0f} will be",
        )
    else:
        yield Step("merge", "Merge: no proposal waits", done=True)


def _latest_of_each_work(runs: Sequence[RunRow]) -> list[RunRow]:
    """Returns the first of the runs of each work, which are ordered newest first: it resumes the whole work."""
    latest: dict[str, RunRow] = {}
    for run in runs:
        latest.setdefault(work_of(run.stage), run)
    return list(latest.values())


def _resume(run: RunRow) -> Step:
    """Returns the step of resuming an interrupted run."""
    stage = one_line(stage_name(run.stage), MAX_STAGE_CHARS)
    return Step("resume", f"Resume {stage}, {interruption(run)}", run=run)
