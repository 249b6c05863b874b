"""What is left to do in a project and how long it takes. Pure functions, without Textual."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from engine import number_format
from engine.records.calibration import MIN_VERDICTS, Proposal
from engine.records.conversations import Counts
from engine.records.runs import Estimate, RunRow
from engine.records.scores import ScoreSet
from engine.records.triage import Verdict
from engine.text import one_line
from screens.widgets.stage_names import stage_name, work_of

Kind = Literal[
    "import", "resume", "score", "choose", "triage", "calibrate", "merge", "cluster", "wait"
]

SECONDS_A_VERDICT = 20.0
"""Seconds that a verdict takes, until the person's own pace is known."""
SECONDS_A_DECISION = 20.0
"""Seconds that a decision on the merge desk takes."""
_Z95 = 1.959964


@dataclass(frozen=True, slots=True)
class Step:
    """One step to do next.

    Attributes:
        title: What it is and what it brings, in a few words; display-safe.
        time: How long it takes in words, empty when there is nothing to wait for.
        why_not: Why it cannot be done now, None when it can.
        run: The run to resume, for `resume`.
    """

    kind: Kind
    title: str
    time: str = ""
    why_not: str | None = None
    run: RunRow | None = None


@dataclass(frozen=True, slots=True)
class ProjectProgress:
    """The state of the project from which the steps follow.

    Attributes:
        to_score: What scoring would cost; None while that is being worked out, a text when it cannot be done.
        scoring: A scoring job runs or waits now.
        per_hour: Verdicts an hour, None when the pace is not known.
        half_width: Half of the 95% interval of the corrected rate, in [0, 1]; None without one.
        calibrated: The rule in force comes from verdicts, or from the person.
        proposal: The threshold that the verdicts propose; None without one.
        better: A tested set of scores beside one in force that is not tested, or means little; None without one.
        clustered: Whether there are goals; None while that is not known.
        proposals: Merge proposals that wait for a decision.
    """

    counts: Counts
    tally: dict[Verdict, int]
    interrupted: Sequence[RunRow] = ()
    to_score: Estimate | str | None = None
    scoring: bool = False
    per_hour: float | None = None
    half_width: float | None = None
    calibrated: bool = False
    proposal: Proposal | None = None
    better: ScoreSet | None = None
    clustered: bool | None = None
    proposals: int = 0


def next_steps(now: ProjectProgress) -> list[Step]:
    """What to do next, the most useful first; never empty."""
    counts = now.counts
    steps = [_resume(run) for run in _latest_of_each_work(now.interrupted)]
    resumed = {work_of(run.stage) for run in now.interrupted}
    if counts.conversations == 0:
        return [*steps, Step("import", "Import conversations: a file or a folder")]
    if "scoring" not in resumed and (score := _score(now)) is not None:
        steps.append(score)
    if now.better is not None:
        title = f"Choose the scores of set {now.better.number}, which are tested"
        steps.append(Step("choose", title))
    if now.proposals:
        steps.append(_merge_step(now.proposals))
    if counts.scored:
        steps.extend(_verdict_steps(now))
    if now.clustered is False and "clustering" not in resumed:
        number = number_format.counted(counts.conversations, "conversation")
        steps.append(Step("cluster", f"Group {number} by what was wanted"))
    if not steps:
        steps.append(Step("wait", "Nothing is left to do"))
    return steps


def verdicts_half_width(rate: float, verdicts: int) -> float:
    """Half of the 95% interval of a rate that rests on so many human verdicts, `1.96 √(p (1 - p) / n)`.

    A rate near 0 or 1 is taken as .1 or .9: the normal interval would promise too much there.
    """
    p = min(max(rate, 0.1), 0.9)
    return _Z95 * math.sqrt(p * (1 - p) / verdicts)


def tightened(half_width: float, verdicts: int, more: int) -> float:
    """The half-width of an interval that rests on `verdicts` after so many more: it shrinks with `1 / √n`."""
    return half_width * math.sqrt(verdicts / (verdicts + more))


def _latest_of_each_work(runs: Sequence[RunRow]) -> list[RunRow]:
    """Of runs, newest first, the newest of each work: one stage of it resumes all."""
    latest: dict[str, RunRow] = {}
    for run in runs:
        latest.setdefault(work_of(run.stage), run)
    return list(latest.values())


def _resume(run: RunRow) -> Step:
    of = f" of {run.total:,}" if run.total is not None else ""
    at = f" at {run.done:,}{of}" if run.done else ""
    title = f"Resume {one_line(stage_name(run.stage), 40)}, interrupted{at}"
    return Step("resume", title, run=run)


def _score(now: ProjectProgress) -> Step | None:
    unscored = now.counts.unscored
    if now.scoring or unscored == 0:
        return None
    cost = now.to_score
    if cost is None:
        return Step(
            "score", f"Score {number_format.counted(unscored, 'conversation')}", "estimating …"
        )
    if isinstance(cost, str):
        title = f"Score {number_format.counted(unscored, 'conversation')}"
        return Step("score", title, why_not=one_line(cost))
    if cost.items == 0:
        return None
    time = (
        "about " + number_format.duration(cost.seconds)
        if cost.seconds is not None
        else "time unknown"
    )
    return Step("score", f"Score {number_format.counted(cost.items, 'conversation')}", time)


def _merge_step(proposals: int) -> Step:
    wait = "proposal waits" if proposals == 1 else "proposals wait"
    time = "about " + number_format.duration(proposals * SECONDS_A_DECISION)
    return Step("merge", f"{proposals:,} merge {wait} for you", time)


def _verdict_steps(now: ProjectProgress) -> list[Step]:
    decided = now.tally.get(Verdict.COMPLETE, 0) + now.tally.get(Verdict.INCOMPLETE, 0)
    left = now.counts.conversations - sum(now.tally.values())
    steps = []
    more = min(MIN_VERDICTS - decided if decided < MIN_VERDICTS else MIN_VERDICTS, left)
    if more > 0:
        rate = now.counts.complete / now.counts.scored
        half = (
            tightened(now.half_width, decided, more)
            if now.half_width is not None and decided
            else verdicts_half_width(rate, decided + more)
        )
        seconds = 3600 / now.per_hour if now.per_hour else SECONDS_A_VERDICT
        word = "verdict" if more == 1 else "verdicts"
        steps.append(
            Step(
                "triage",
                f"{more} triage {word} would tighten the rate to ± {100 * half:.0f}",
                "about " + number_format.duration(more * seconds),
            )
        )
    found = now.proposal
    if found is not None and not now.calibrated:
        at = number_format.probability(found.rule.threshold)
        title = f"Take over the threshold {at} from your verdicts"
        steps.append(Step("calibrate", title, f"{found.now:.0%} → {found.then:.0%} complete"))
    return steps
