"""Calibrates the decision rule of a project from its verdicts and scores."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from engine.base.conversation import State, Verdict
from engine.base.errors import WorkbenchError
from engine.base.number_format import figure, figure_range
from engine.base.statistics.ranking import auroc
from engine.completeness.records import DecisionRule, RuleSource
from engine.completeness.tables import score_sets
from engine.conversations.filters import ListQuery, parse_filter
from engine.conversations.service import SavedViews
from engine.conversations.tables import selecting
from engine.project.project import Project
from engine.project.sql import snapshot
from engine.questions import calibration
from engine.questions.records.calibration import (
    Agreement,
    CalibrationReport,
    CompletionRate,
    FilterRate,
    Proposal,
)
from engine.questions.service.agreement import PeopleAgreement, people_agreement
from engine.questions.tables import second_verdicts, verdicts

WIDEST = 0.5
"""Widest interval of the corrected completion rate with which a threshold is suggested."""

FIELDS_BY_SCORE = ("state", "p", "success", "verdict")
"""Filters by these fields select by score or verdict, where the error rates of the sample do not apply."""
CHOSEN_BY_SCORE = "the filter goes by the score"


@dataclass(frozen=True, slots=True)
class _Judged:
    """Scores and verdicts (complete or not) of the conversations that have both."""

    scores: list[float]
    complete: list[bool]

    @property
    def lacking(self) -> str:
        """Why they give no threshold; empty if they give one."""
        return calibration.lacking(sum(self.complete), len(self.complete) - sum(self.complete))


@dataclass(frozen=True, eq=False, slots=True)
class ScoredConversations:
    """The scores in force, and what the verdicts say of their errors.

    Attributes:
        ids, scores: Id and normalised score of each scored conversation, by rising score; shape (conversations,).
    """

    rule: DecisionRule
    judged: _Judged
    ids: npt.NDArray[np.int64]
    scores: npt.NDArray[np.float64]
    calibration: calibration.Calibration

    @classmethod
    def read(cls, conn: sqlite3.Connection) -> ScoredConversations:
        """Reads all scores and draws bootstrap samples of the verdicts: slow."""
        rule = score_sets.rule(conn)
        judged = _judged(conn)
        ids, values = verdicts.scored_values(conn)
        scores = np.asarray(values, float)
        found = calibration.calibrate(
            judged.scores,
            judged.complete,
            scores,
            rule.threshold if rule.source == "chosen" or not judged.lacking else None,
            chosen=rule.source == "calibrated",
        )
        return cls(rule, judged, np.asarray(ids, np.int64), scores, found)


class CalibrationService:
    """Calibrates the scores of one project against its verdicts; the decision rule changes only when asked to."""

    def __init__(self, project: Project, changed: Callable[[], None] = lambda: None) -> None:
        """`changed` is called when the decision rule changes."""
        self._project = project
        self._changed = changed

    def report(self, query: ListQuery | None = None) -> CalibrationReport:
        """Returns thresholds, metrics and agreement from the verdicts, and the completion rate of the matching
        conversations. Slow: reads all scores and draws bootstrap samples.

        Raises:
            WorkbenchError: The project cannot evaluate the filter.
        """
        saved = SavedViews(self._project).filters()
        with self._project.reading() as conn, snapshot(conn):
            scored = ScoredConversations.read(conn)
            rule, judged, found = scored.rule, scored.judged, scored.calibration
            proposal, not_proposed = _proposal(found.best, judged, scored.scores, rule)

            def rate(wanted: ListQuery) -> CompletionRate:
                matching = np.asarray(selecting.ids(conn, wanted), np.int64)
                inside = _member(scored.ids, matching)
                states = calibration.state_counts(scored.scores[inside], rule)
                states = replace(states, unscored=len(matching) - states.scored)
                by_score = any(wanted.filter.of(field) for field in FIELDS_BY_SCORE)
                return calibration.completion_rate(
                    found, states, CHOSEN_BY_SCORE if by_score else ""
                )

            return CalibrationReport(
                rule=rule,
                complete=sum(judged.complete),
                incomplete=len(judged.complete) - sum(judged.complete),
                enough=not judged.lacking,
                why=found.why,
                best=found.best,
                proposal=proposal,
                not_proposed=not_proposed,
                accuracy=found.accuracy,
                covered=found.covered,
                bins=found.bins,
                calibration_error=found.calibration_error,
                rate=rate(query or ListQuery()),
                filters=tuple(_filter_rates(saved, rate)),
                model=_with_model(conn, rule),
                itself=_with_itself(conn),
            )

    def agreements(self) -> tuple[Agreement, Agreement]:
        """Returns the agreement of the verdicts with the model, and with their blind repeats."""
        with self._project.reading() as conn, snapshot(conn):
            return _with_model(conn, score_sets.rule(conn)), _with_itself(conn)

    def people(self) -> PeopleAgreement:
        """Returns the agreement of the people who judged. Slow with many verdicts."""
        return people_agreement(self._project)

    def pin(self, threshold: float | None) -> DecisionRule:
        """Fixes the threshold, or returns to the default with None; returns the resulting rule.

        Raises:
            ProjectReadOnly: The project cannot be written.
            ValueError: The threshold is outside [0, 1].
        """
        return self.use(DecisionRule() if threshold is None else _rule(threshold, "chosen"))

    def use(self, rule: DecisionRule) -> DecisionRule:
        """Puts a rule in force, such as a proposed one, and returns it.

        Raises:
            ProjectReadOnly: The project cannot be written.
            ValueError: The threshold is outside [0, 1].
        """
        self._project.write(lambda conn: score_sets.put_rule(conn, rule))
        self._changed()
        return rule


def _rule(threshold: float, source: RuleSource) -> DecisionRule:
    """Returns a rule with the band narrowed where it would leave no room below or above it."""
    band = min(DecisionRule().band, threshold / 2, (1 - threshold) / 2)
    return DecisionRule(threshold, band, source)


def _judged(conn: sqlite3.Connection) -> _Judged:
    pairs = [
        (score, verdict is Verdict.COMPLETE)
        for _, verdict, score in verdicts.judged_pairs(conn)
        if score is not None and verdict is not Verdict.UNSURE
    ]
    return _Judged([score for score, _ in pairs], [complete for _, complete in pairs])


def _proposal(
    best: float | None, judged: _Judged, population: npt.NDArray[np.float64], rule: DecisionRule
) -> tuple[Proposal | None, str]:
    """The best threshold as a proposal, or None with the reason why it is none."""
    if best is None:
        return None, ""
    area = auroc(judged.scores, judged.complete)
    if area.low <= 0.5:
        interval = figure_range(area.low, area.high)
        return None, (
            "the scores agree with your verdicts no better than by chance"
            f" (AUROC {figure(area.value)}, {interval})"
        )
    new = _rule(best, "calibrated")
    at_best = calibration.calibrate(judged.scores, judged.complete, population, best, chosen=True)
    then = calibration.state_counts(population, new)
    rate = calibration.completion_rate(at_best, then)
    if rate.corrected is None:
        return None, rate.why
    low, high = rate.corrected.low, rate.corrected.high
    if high - low > WIDEST:
        return None, f"the completion rate would be {100 * low:.0f} to {100 * high:.0f}%: too wide"
    if (new.threshold, new.band) == (rule.threshold, rule.band):
        return None, ""
    now = calibration.state_counts(population, rule)
    return Proposal(new, now.above / now.scored, then.above / then.scored), ""


def _member(ids: npt.NDArray[np.int64], wanted: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """For each id whether it is wanted; by a table, because ids are small and there may be a million."""
    table = np.zeros(int(max(ids.max(initial=0), wanted.max(initial=0))) + 1, bool)
    table[wanted] = True
    found: npt.NDArray[np.bool_] = table[ids]
    return found


def _filter_rates(
    saved: dict[str, str], rate: Callable[[ListQuery], CompletionRate]
) -> list[FilterRate]:
    rates = []
    for name, text in saved.items():
        try:
            rates.append(FilterRate(name, text, rate(ListQuery(parse_filter(text)))))
        except WorkbenchError as error:
            # A filter of another version of the program is reported, not hidden.
            rates.append(FilterRate(name, text, CompletionRate(0, 0, None, None, error.message)))
    return rates


def _with_model(conn: sqlite3.Connection, rule: DecisionRule) -> Agreement:
    """Compares the verdicts complete and incomplete with the rule's decisions, without borderline and unscored ones."""
    pairs = [
        (str(verdict), str(rule.state(score)))
        for _, verdict, score in verdicts.judged_pairs(conn)
        if verdict is not Verdict.UNSURE and rule.state(score) in (State.COMPLETE, State.INCOMPLETE)
    ]
    return calibration.agreement(pairs)


def _with_itself(conn: sqlite3.Connection) -> Agreement:
    return calibration.agreement(
        [(first, second) for _, first, second in second_verdicts.repeated_pairs(conn)]
    )
