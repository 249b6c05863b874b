"""Compares the verdicts of a project with its scores, and the people who gave them with each other.

The verdicts suggest a threshold for the scores, and say how often the scores err; from that follows the rate of
complete conversations.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import numpy.typing as npt

from engine.base.conversation import SUCCEEDED, State, Verdict
from engine.base.number_format import counted, figure, figure_range
from engine.base.statistics import agreement
from engine.base.statistics.intervals import Interval
from engine.base.statistics.ranking import auroc
from engine.completeness.records import DecisionRule
from engine.completeness.tables import score_sets
from engine.conversations.filters import ListQuery
from engine.conversations.tables import selecting
from engine.project.project import Project
from engine.project.sql import snapshot
from engine.questions import calibration
from engine.questions.records import (
    MIN_VERDICTS,
    NO_NAME,
    Agreement,
    CalibrationReport,
    Proposal,
    doubt_about,
    explain_no_share,
    format_threshold,
)
from engine.questions.tables import answers, machine_answers, opinions, triage_queue
from engine.signs import tables as sign_tables

MAX_RATE_INTERVAL_WIDTH = 0.5
"""Largest width of the interval of the corrected completion rate with which a threshold is suggested."""

MUCH_TROUBLE, MOST = 0.75, 0.5
"""Share of the conversations that have less trouble than those with much, and share of verdicts from which on most are
on these."""

FIELDS_BY_SCORE = ("state", "p", "success", SUCCEEDED)
"""Fields that select conversations by score or verdict; the error rates of the sample do not apply to what such a
filter selects."""

CHOSEN_BY_SCORE = "the filter goes by the score"
"""Reason why the rate of a filter by one of `FIELDS_BY_SCORE` is not corrected."""

PICKED_BY_TROUBLE = (
    "most verdicts are on conversations with much trouble, which fail more often than others of their score."
    f" {MIN_VERDICTS} drawn at random are needed: “calibration sample” (O in triage) draws"
)
"""Reason why such verdicts suggest no threshold, and no rate without the errors of the scores."""

MIN_CONVERSATIONS_FOR_KAPPA = 10
"""Fewest conversations in common for which sentences state kappa; JSON always has it."""


@dataclass(frozen=True, slots=True)
class _Judged:
    """The conversations that have both a score and a verdict: the score of each, and whether it was judged complete."""

    scores: list[float]
    complete: list[bool]

    @property
    def counts(self) -> tuple[int, int]:
        """Number of conversations that were judged complete, and incomplete."""
        return sum(self.complete), len(self.complete) - sum(self.complete)


@dataclass(frozen=True, eq=False, slots=True)
class ScoredConversations:
    """The scores in force, and what the verdicts say of their errors.

    Attributes:
        ids, scores: Id and normalized score of each scored conversation, by rising score; shape (conversations,).
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
        judged = _read_judged(conn)
        ids, values = answers.scored_values(conn)
        scores = np.asarray(values, float)
        calibrated = calibration.calibrate(
            judged.scores,
            judged.complete,
            scores,
            None if calibration.explain_shortage(*judged.counts) else rule.threshold,
        )
        if not calibrated.why and _are_picked_by_trouble(conn):
            nothing = calibrated.errors[:0]
            calibrated = replace(calibrated, why=PICKED_BY_TROUBLE, best=None, errors=nothing)
        return cls(rule, judged, np.asarray(ids, np.int64), scores, calibrated)


class CalibrationService:
    """Calibrates the scores of one project against its verdicts; the decision rule changes only when asked to."""

    def __init__(self, project: Project, changed: Callable[[], None] = lambda: None) -> None:
        """Reads nothing yet.

        Args:
            changed: Called when the decision rule changes.
        """
        self._project = project
        self._changed = changed

    def is_picked_by_trouble(self) -> bool:
        """Returns whether most verdicts are on the conversations with the most signs of trouble, so that the share that
        failed of those judged is not that of all."""
        return self._project.read(_are_picked_by_trouble)

    def report(self, query: ListQuery | None = None) -> CalibrationReport:
        """Returns thresholds, AUROC and agreement from the verdicts, and the completion rate of the matching
        conversations: of all by the verdicts drawn at random where there are enough, else by the scores without their
        errors. Slow: reads all scores and draws bootstrap samples.

        Raises:
            WorkbenchError: The project cannot evaluate the filter.
        """
        query = query or ListQuery()
        with self._project.reading() as conn, snapshot(conn):
            scored = ScoredConversations.read(conn)
            rule, judged, calibrated = scored.rule, scored.judged, scored.calibration
            complete, incomplete = judged.counts
            area = None
            if complete and incomplete:
                area = auroc(judged.scores, judged.complete)
            proposal, not_proposed = _propose(calibrated.best, area, judged, scored.scores, rule)
            matching = np.asarray(selecting.ids(conn, query), np.int64)
            states = calibration.count_states(scored.scores[np.isin(scored.ids, matching)], rule)
            states = replace(states, unscored=len(matching) - states.scored)
            by_score = any(query.filter.of(field) for field in FIELDS_BY_SCORE)
            share, drawn = (None, 0) if query.filter else triage_queue.share_of_all(conn, SUCCEEDED)
            rate = calibration.estimate_completion_rate(
                calibrated, states, CHOSEN_BY_SCORE if by_score else ""
            )
            if share is not None:
                rate = replace(rate, corrected=share, why="", drawn=drawn)
            elif rate.corrected is None and not query.filter:
                rate = replace(rate, why=explain_no_share(drawn))
            return CalibrationReport(
                rule=rule,
                complete=complete,
                incomplete=incomplete,
                why=calibrated.why,
                best=calibrated.best,
                proposal=proposal,
                not_proposed=not_proposed,
                auroc=area,
                covered=calibrated.covered,
                rate=rate,
                model=_agreement_with_model(conn, rule),
                itself=_agreement_of_repeats(conn),
            )

    def agreement_of_repeats(self, question: str = SUCCEEDED) -> Agreement:
        """Returns the agreement of people's answers with their blind repeats."""
        return self._project.read(_agreement_of_repeats, question)

    def people(self, question: str = SUCCEEDED) -> PeopleAgreement:
        """Returns how far those agree who answered a question: people, patterns, models and files. Slow with many
        answers: draws bootstrap samples."""
        with self._project.reading() as conn, snapshot(conn):
            values_by_name = opinions.by_person(conn, question)
            machines = machine_answers.values_by_name(conn, question, values_by_name)
            values_by_name.update(reversed(machines.items()))
            disagreements = len(opinions.disagreements(conn, question))
        people = {name: len(values) for name, values in values_by_name.items()}
        people = dict(sorted(people.items(), key=lambda row: -row[1]))
        pairs = []
        for one, other in combinations(people, 2):
            first, second = agreement.shared_labels(values_by_name[one], values_by_name[other])
            pairs.append(
                PairAgreement(
                    one, other, agreement.agreement_of_two(first, second) if first else None
                )
            )
        pairs.sort(key=lambda pair: -(pair.found.count if pair.found else 0))
        counts = _count_values(values_by_name)
        return PeopleAgreement(
            people,
            tuple(machines),
            tuple(pairs),
            int((counts.sum(axis=1) > 1).sum()),
            agreement.krippendorff_alpha(counts),
            disagreements,
        )

    def use(self, rule: DecisionRule) -> DecisionRule:
        """Puts a rule in force, such as a proposed one, and returns it.

        Raises:
            ProjectReadOnly: The project cannot be written.
            ValueError: The threshold is outside [0, 1].
        """
        self._project.write(lambda conn: score_sets.put_rule(conn, rule))
        self._changed()
        return rule


def _make_rule(threshold: float) -> DecisionRule:
    """Returns a rule by verdicts, with the band narrowed where it would leave no room below or above it."""
    band = min(DecisionRule().band, threshold / 2, (1 - threshold) / 2)
    return DecisionRule(threshold, band, "calibrated")


def _read_judged(conn: sqlite3.Connection) -> _Judged:
    """Returns the scores and verdicts of all conversations that have both; "unsure" is no verdict here."""
    pairs = [
        (score, verdict is Verdict.YES)
        for _, verdict, score in answers.judged_pairs(conn)
        if score is not None and verdict is not Verdict.UNSURE
    ]
    return _Judged([score for score, _ in pairs], [complete for _, complete in pairs])


def _propose(
    best: float | None,
    area: Interval | None,
    judged: _Judged,
    population: npt.NDArray[np.float64],
    rule: DecisionRule,
) -> tuple[Proposal | None, str]:
    """Returns the best threshold as a proposal, or None with the reason why it is not suggested.

    The reason is empty if there is no best threshold, and if the rule already has it.

    Args:
        best: The best threshold, as in `Calibration`; None if the verdicts give none.
        area: The AUROC of the scores against the verdicts; None without verdicts of both kinds.
        population: The scores of all scored conversations.
    """
    if best is None or area is None:
        return None, ""
    if doubt := doubt_about(area):
        return None, f"AUROC of the scores: {doubt}"
    new = _make_rule(best)
    at_best = calibration.calibrate(judged.scores, judged.complete, population, best)
    then = calibration.count_states(population, new)
    rate = calibration.estimate_completion_rate(at_best, then)
    if rate.corrected is None:
        return None, rate.why
    low, high = rate.corrected.low, rate.corrected.high
    if high - low > MAX_RATE_INTERVAL_WIDTH:
        return None, f"the corrected rate would be {100 * low:.0f} to {100 * high:.0f}%: too wide"
    share = then.above / then.scored
    if not low <= share <= high:
        return None, (
            f"{share:.0%} would count as ended from {format_threshold(new)} on, where your verdicts say that"
            f" {100 * low:.0f} to {100 * high:.0f}% succeeded"
        )
    if (new.threshold, new.band) == (rule.threshold, rule.band):
        return None, ""
    now = calibration.count_states(population, rule)
    return Proposal(new, now.above / now.scored, share), ""


def _are_picked_by_trouble(conn: sqlite3.Connection) -> bool:
    """Returns whether most verdicts are on the quarter of the conversations with the most signs of trouble."""
    trouble = sign_tables.trouble_by_id(conn)
    judged = [trouble[key] for key, *_ in answers.judged_pairs(conn) if key in trouble]
    if not judged:
        return False
    much = np.quantile([*trouble.values()], MUCH_TROUBLE)
    return float(np.mean(np.array(judged) > much)) > MOST


def _agreement_with_model(conn: sqlite3.Connection, rule: DecisionRule) -> Agreement:
    """Returns how the verdicts yes and no agree with the rule's decisions, without borderline and unscored
    conversations."""
    pairs = [
        (verdict is Verdict.YES, rule.state(score) is State.COMPLETE)
        for _, verdict, score in answers.judged_pairs(conn)
        if verdict is not Verdict.UNSURE and rule.state(score) in (State.COMPLETE, State.INCOMPLETE)
    ]
    return calibration.measure_agreement(pairs)


def _agreement_of_repeats(conn: sqlite3.Connection, question: str = SUCCEEDED) -> Agreement:
    """Returns how first answers agree with blind repeats by the same person."""
    return calibration.measure_agreement(
        [(first, second) for _, first, second in opinions.repeated_pairs(conn, question)]
    )


@dataclass(frozen=True, slots=True)
class PairAgreement:
    """The agreement of two who answered a question.

    Attributes:
        one, other: Their names.
        found: Their agreement on the conversations that both judged; None if there are none.
    """

    one: str
    other: str
    found: agreement.LabelAgreement | None


@dataclass(frozen=True, slots=True)
class PeopleAgreement:
    """Agreement of all who answered a question: people, patterns, models and files.

    Attributes:
        people: Number of conversations that each of them judged, by name; the name of a person may be empty.
        machines: The names of those of them that are no people.
        pairs: Every two of them, those with most conversations in common first.
        shared: Number of conversations that two or more of them judged.
        alpha: Krippendorff's alpha over those; None where there are none, or all verdicts are the same.
        disagreements: Number of conversations on which people disagree and nobody decided.
    """

    people: dict[str, int]
    machines: tuple[str, ...]
    pairs: tuple[PairAgreement, ...]
    shared: int
    alpha: Interval | None
    disagreements: int

    def of_pairs(self, name: str | None = None) -> list[str]:
        """Returns a sentence for every two who answered, or only for those pairs that include this name."""
        sentences = []
        for pair in self.pairs:
            if name is not None and name not in (pair.one, pair.other):
                continue
            both = f"{pair.one or NO_NAME} and {pair.other or NO_NAME}"
            measured = pair.found
            if measured is None:
                sentences.append(f"{both} judged no conversation in common.")
                continue
            kappa = ""
            if measured.kappa is not None and measured.count >= MIN_CONVERSATIONS_FOR_KAPPA:
                kappa = f", κ {_text_with_ends(measured.kappa)}"
            common = counted(measured.count, "conversation")
            share = f"{100 * measured.accuracy.value:.0f}%"
            sentences.append(f"{both} agree on {share} of {common}{kappa}.")
        return sentences

    def sentences(self) -> list[str]:
        """Returns the agreement in sentences; none if fewer than two answered."""
        if len(self.people) < 2:
            return []
        names = (f"{name or NO_NAME} {count:,}" for name, count in self.people.items())
        sentences = [f"Conversations judged: {', '.join(names)}.", *self.of_pairs()]
        if self.alpha is not None:
            sentences.append(
                f"Krippendorff's α {_text_with_ends(self.alpha)}, {counted(self.shared, 'conversation')}."
            )
        if self.disagreements:
            sentences.append(
                f"{counted(self.disagreements, 'conversation')} to decide on (disagreement:people)."
            )
        return sentences


def _count_values(
    values_by_name: Mapping[str, Mapping[int, str]],
) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """Returns how many gave each answer, shape (conversations, answers)."""
    given = [pair for values in values_by_name.values() for pair in values.items()]
    rows = {key: row for row, key in enumerate(dict.fromkeys(key for key, _ in given))}
    columns = {value: column for column, value in enumerate(dict.fromkeys(v for _, v in given))}
    counts = np.zeros((len(rows), len(columns)), np.int64)
    for key, value in given:
        counts[rows[key], columns[value]] += 1
    return counts


def _text_with_ends(value: Interval) -> str:
    """Returns a value with the ends of its interval, `.61 (.40 to .82)`."""
    if value.low == value.high:  # one of the two always said the same, so that no sample differs
        return figure(value.value)
    return f"{figure(value.value)} ({figure_range(value.low, value.high)})"
