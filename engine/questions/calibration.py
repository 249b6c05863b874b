"""Calibration: estimates the errors of all scores from verdicts on some conversations.

Verdicts are not a random sample: the queue prefers conversations near the threshold. Every estimate here is therefore
post-stratified (Holt & Smith 1979, Post Stratification, J. R. Stat. Soc. A 142): the scored conversations are divided
into strata by the rank of their score, and the weight of a verdict is the number of conversations per verdict in its
stratum. Within a stratum, verdicts are treated as a random sample. Strata without enough verdicts are merged with
their neighbors, which assumes that these are alike. In simulations with verdicts only near the threshold this misled:
95% intervals of sensitivity covered the truth in 7 to 77 of 100 runs. So below `MIN_COVERED_SHARE` nothing is
estimated.

In arrays, `p` are the normalized scores of the judged conversations and `truth` whether their verdicts say complete,
both of shape (verdicts,), as are the weights and strata of verdicts; `population` are the scores of all scored
conversations, ascending, shape (conversations,). Positive means complete: sensitivity is the share of the complete
ones that reach the threshold, specificity the share of the others that do not.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from engine.base.arrays import Bools, Floats, Ints
from engine.base.statistics.intervals import Interval, wilson
from engine.completeness.records import DecisionRule, StateCounts
from engine.questions.records import MIN_OF_EACH, MIN_VERDICTS, Agreement, CompletionRate

_TRUE_POSITIVE, _FALSE_NEGATIVE, _FALSE_POSITIVE, _TRUE_NEGATIVE = range(4)
"""Kinds of a verdict at a threshold: it says complete or not, for a score at or above the threshold or below."""

ROUNDING = 1e-12
"""Greatest difference of two shares (0 to 1) that is taken for an error of rounding."""

JEFFREYS = 0.5
"""Prior count of each of two outcomes (Jeffreys)."""

STRATA = 10
"""Number of strata of equal size into which the scored conversations are divided."""

MIN_VERDICTS_IN_STRATUM = 4
"""Smallest number of verdicts in a stratum, so that the bootstrap has a spread to draw from."""

MIN_COVERED_SHARE = 0.5
"""Smallest coverage (share of the population in tenths with a verdict) for weighted estimates."""

MAX_INTERVAL_WIDTH = 0.9
"""Largest width of the interval of a corrected rate that is told; a wider one says nothing."""

DRAWS = 2_000
"""Number of bootstrap draws of sensitivity and specificity."""

SEED = 20_240_917
"""Seed of all draws, so that equal verdicts give equal figures."""

LOW_QUANTILE, HIGH_QUANTILE = 0.025, 0.975
"""Shares of the draws below the ends of an interval of 95%."""


def measure_agreement(pairs: Sequence[tuple[Hashable, Hashable]]) -> Agreement:
    """Returns how often the two answers of each pair are the same, and kappa (Cohen 1960, Educ. Psychol. Meas. 20).

    kappa = (observed - expected) / (1 - expected), expected from the two margins.
    """
    n = len(pairs)
    if n == 0:
        return Agreement(0)
    agreeing = sum(first == second for first, second in pairs)
    firsts = [first for first, _ in pairs]
    seconds = [second for _, second in pairs]
    by_chance = sum(firsts.count(value) * seconds.count(value) for value in set(firsts))
    if by_chance == n * n:
        return Agreement(n, wilson(agreeing, n))
    return Agreement(n, wilson(agreeing, n), (agreeing * n - by_chance) / (n * n - by_chance))


def explain_shortage(complete: int, incomplete: int) -> str:
    """Returns why this many verdicts are not enough for a threshold; empty if they are."""
    if min(complete, incomplete) < MIN_OF_EACH:
        kind, number = min(("yes", complete), ("no", incomplete), key=lambda pair: pair[1])
        return f"needs {MIN_OF_EACH} verdicts that say {kind}, has {number}"
    if complete + incomplete < MIN_VERDICTS:
        return f"needs {MIN_VERDICTS} verdicts, has {complete + incomplete}"
    return ""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Calibration of scores by verdicts, weighted to the population of all scored conversations.

    Attributes:
        why: Why there is no best threshold; empty if there is one.
        best: Threshold with the largest weighted Youden's J; None if there is none.
        covered: Share of the population in tenths of the scores with at least one verdict.
        errors: Sensitivity and specificity as the verdicts have them, weighted, and draws of both, shape
            (1 + DRAWS, 2), at the threshold that was asked for, else at `best`; empty if they cannot be estimated.
    """

    why: str
    best: float | None
    covered: float
    errors: Floats


def calibrate(
    scores: Sequence[float] | Floats,
    complete: Sequence[bool] | Bools,
    population: Sequence[float] | Floats,
    threshold_in_force: float | None = None,
) -> Calibration:
    """Calibrates scores on verdicts.

    Args:
        scores, complete: Normalized score and verdict of each judged conversation, in any order.
        population: Scores of all scored conversations, the judged ones among them; in any order.
        threshold_in_force: The threshold at which errors are estimated; None takes the best one.
    """
    p, truth = np.asarray(scores, float), np.asarray(complete, bool)
    everything = np.sort(np.asarray(population, float))
    n_complete = int(truth.sum())
    n_incomplete = len(truth) - n_complete
    why = explain_shortage(n_complete, n_incomplete)
    nothing = np.empty((0, 2))
    if len(truth) == 0:
        return Calibration(why, None, 0.0, nothing)
    weights, _, covered = _stratify(p, everything, None)
    best = None if why else find_best_threshold(p, truth, weights)
    if not why and best is None:
        why = "no threshold tells yes from no better than chance"
    threshold = best if threshold_in_force is None else threshold_in_force
    measurable = min(n_complete, n_incomplete) >= MIN_OF_EACH and covered >= MIN_COVERED_SHARE
    if threshold is None or not measurable:
        return Calibration(why, best, covered, nothing)
    return Calibration(why, best, covered, _estimate_errors(p, truth, everything, threshold))


def find_best_threshold(p: Floats, truth: Bools, weights: Floats) -> float | None:
    """Returns the threshold with the largest J = sensitivity + specificity - 1 (Youden 1950, Cancer 3), weighted.

    Between two neighboring scores J is the same: 0.5 is taken where it lies there, else the middle. Of equal maxima
    the one nearest 0.5 is taken. None when no threshold is better than chance.
    """
    order = np.argsort(p, kind="stable")
    p, truth, weights = p[order], truth[order], weights[order]
    # Entry k is the weight below a threshold just above the first k scores; J is specificity less missed sensitivity.
    negatives_below = np.concatenate([[0.0], np.cumsum(np.where(truth, 0.0, weights))])
    positives_below = np.concatenate([[0.0], np.cumsum(np.where(truth, weights, 0.0))])
    j = negatives_below / negatives_below[-1] - positives_below / positives_below[-1]
    gaps = [k for k in range(1, len(p)) if p[k - 1] < p[k]]
    if not gaps:
        return None
    highest = max(j[k] for k in gaps)
    if highest <= ROUNDING:
        return None
    thresholds = [
        _threshold_between(float(p[k - 1]), float(p[k])) for k in gaps if j[k] >= highest - ROUNDING
    ]
    return min(thresholds, key=lambda threshold: (abs(threshold - 0.5), threshold))


def _threshold_between(low: float, high: float) -> float:
    """Returns a threshold t with low < t <= high: 0.5 if it lies there, else the middle."""
    if low < 0.5 <= high:
        return 0.5
    middle = (low + high) / 2
    # Between two neighboring floating-point numbers the middle is rounded to one of them.
    return middle if low < middle else high


def _stratify(p: Floats, population: Floats, cut: float | None) -> tuple[Floats, Ints, float]:
    """Returns the weight of each verdict (their sum is 1), the stratum of each, and the share of the population in
    cells with a verdict.

    Strata are tenths of the population by score, cut once more at `cut`; those with too few verdicts are merged with
    the next on the same side of it, as long as that side has any. A cell is a stratum before merging.
    """
    edges = np.unique(population[[len(population) * k // STRATA for k in range(1, STRATA)]])
    if cut is not None:
        edges = np.unique(np.append(edges, cut))
    cell = np.searchsorted(edges, p, side="right")
    cells = len(edges) + 1
    population_counts = np.bincount(
        np.searchsorted(edges, population, side="right"), minlength=cells
    )
    judged = np.bincount(cell, minlength=cells)
    covered = float(population_counts[judged > 0].sum() / population_counts.sum())
    # The first cell above the cut, which is an edge.
    first_above = cells if cut is None else int(np.searchsorted(edges, cut)) + 1
    merged = np.zeros(cells, np.int64)
    group = -1
    for side in (range(first_above), range(first_above, cells)):
        verdict_count = MIN_VERDICTS_IN_STRATUM  # so that the first cell begins a group
        start = group + 1
        for index in side:
            if verdict_count >= MIN_VERDICTS_IN_STRATUM:
                group, verdict_count = group + 1, 0
            merged[index] = group
            verdict_count += int(judged[index])
        # The last group of a side has no next one: it joins the one before, unless it is the only one of its side.
        if 0 < group != start and verdict_count < MIN_VERDICTS_IN_STRATUM:
            merged[merged == group] = group - 1
            group -= 1
    stratum = merged[cell]
    groups = group + 1
    stratum_weights = np.bincount(merged, weights=population_counts, minlength=groups)
    stratum_verdicts = np.bincount(stratum, minlength=groups)
    stratum_weights[stratum_verdicts == 0] = 0.0  # a side without a verdict has no weight
    weights = (stratum_weights / stratum_weights.sum() / np.maximum(stratum_verdicts, 1))[stratum]
    return weights, stratum, covered


def _estimate_errors(p: Floats, truth: Bools, population: Floats, threshold: float) -> Floats:
    """Returns sensitivity and specificity at a threshold and draws of both, shape (1 + DRAWS, 2).

    The draws are a stratified bootstrap (Efron & Tibshirani 1993, An Introduction to the Bootstrap, 8.3): in each
    stratum as many verdicts are drawn with replacement as it has. To each share a right and a wrong pseudo-verdict
    are added whose weights are Gamma(1/2) times the mean weight, the Bayesian bootstrap (Rubin 1981, Ann. Stat. 9) of
    a Jeffreys prior, so that verdicts without an error do not claim certainty.
    """
    above = p >= threshold
    kinds = np.where(
        truth,
        np.where(above, _TRUE_POSITIVE, _FALSE_NEGATIVE),
        np.where(above, _FALSE_POSITIVE, _TRUE_NEGATIVE),
    )
    weights, stratum, _ = _stratify(p, population, threshold)
    random = np.random.default_rng(SEED)
    sums, drawn_sums = np.zeros(4), np.zeros((DRAWS, 4))
    for index in np.unique(stratum):
        inside = stratum == index
        weight = weights[inside][0]  # the same for all of a stratum
        counts = np.bincount(kinds[inside], minlength=4)
        sums += weight * counts
        drawn_sums += weight * random.multinomial(counts.sum(), counts / counts.sum(), size=DRAWS)
    counts = np.bincount(kinds, minlength=4)
    columns = []
    for right, wrong in ((_TRUE_POSITIVE, _FALSE_NEGATIVE), (_TRUE_NEGATIVE, _FALSE_POSITIVE)):
        mean = (sums[right] + sums[wrong]) / (counts[right] + counts[wrong])
        prior_right, prior_wrong = mean * random.gamma(JEFFREYS, size=(2, DRAWS))
        good = drawn_sums[:, right] + prior_right
        draws = good / (good + drawn_sums[:, wrong] + prior_wrong)
        columns.append(np.append(sums[right] / (sums[right] + sums[wrong]), draws))
    return np.column_stack(columns)


def _interval_around(value: float, lows: Floats, highs: Floats) -> Interval:
    """Returns an interval of 95% around a value; `lows` and `highs` are the draws for each end, shape (draws,)."""
    low, high = float(np.quantile(lows, LOW_QUANTILE)), float(np.quantile(highs, HIGH_QUANTILE))
    return Interval(value, min(low, value), max(high, value))


def count_states(scores: Floats, rule: DecisionRule) -> StateCounts:
    """Returns the states of normalized scores, shape (conversations,), as `DecisionRule.state` gives them; NaN is
    unscored."""
    scored = scores[~np.isnan(scores)]
    near = np.abs(scored - rule.threshold) < rule.band
    above = scored >= rule.threshold
    borderline, complete = int(near.sum()), int((above & ~near).sum())
    return StateCounts(
        complete=complete,
        incomplete=len(scored) - borderline - complete,
        borderline=borderline,
        unscored=len(scores) - len(scored),
        above=int(above.sum()),
    )


def estimate_completion_rate(
    calibration: Calibration, states: StateCounts, not_corrected: str = ""
) -> CompletionRate:
    """Returns `StateCounts.rate`, and the rate without the classifier's errors, truncated to [0, 1].

    Rogan & Gladen (1978, Am. J. Epidemiol. 107):
    rate = (apparent + specificity - 1) / (sensitivity + specificity - 1), where apparent is the share of the scored
    conversations at or above the threshold, and the other two are as the verdicts have them: that the threshold was
    chosen on the same verdicts takes itself out, because the same choice made the apparent rate. The interval is that
    of the draws of sensitivity and specificity with a draw of the apparent rate for each (Jeffreys); a draw that is no
    better than chance says nothing and counts as 0 below and as 1 above. For a part of the project it assumes that
    errors are as frequent there as everywhere; where that cannot be, there is no number.

    Args:
        not_corrected: Why the errors that verdicts show are not those of these conversations; empty where they are.
    """
    apparent, scored = states.rate, states.scored
    if apparent is None:
        return CompletionRate(states.unscored, 0, None, None, "nothing is scored")
    rate = partial(
        CompletionRate,
        conversations=scored + states.unscored,
        scored=scored,
        apparent=apparent.value,
        low=apparent.low,
        high=apparent.high,
        borderline=states.borderline,
    )
    if not_corrected:
        return rate(corrected=None, why=not_corrected)
    if len(calibration.errors) == 0:
        why = calibration.why or (
            f"verdicts reach only {calibration.covered:.0%} of the scores: draw a calibration sample"
        )
        return rate(corrected=None, why=why)
    sensitivity, specificity = map(float, calibration.errors[0])
    draws = calibration.errors[1:]
    if sensitivity + specificity <= 1 + ROUNDING:
        return rate(corrected=None, why="at this threshold the score is no better than chance")
    value = min(1.0, max(0.0, (apparent.value + specificity - 1) / (sensitivity + specificity - 1)))
    random = np.random.default_rng([SEED, states.above, scored])
    # Jeffreys: that all of a few were called complete does not mean that all of many are.
    apparent_draws = random.beta(
        states.above + JEFFREYS, scored - states.above + JEFFREYS, size=len(draws)
    )
    gain = draws.sum(axis=1) - 1
    is_better = gain > 0  # than chance
    rates = np.clip((apparent_draws + draws[:, 1] - 1) / np.where(is_better, gain, 1.0), 0.0, 1.0)
    interval = _interval_around(
        value, np.where(is_better, rates, 0.0), np.where(is_better, rates, 1.0)
    )
    if interval.high - interval.low > MAX_INTERVAL_WIDTH:
        return rate(corrected=None, why="too few verdicts")
    if interval.low == interval.high:
        why = "these errors give no such share: they must be others here"
        return rate(corrected=None, why=why)
    return rate(corrected=interval)


def estimate_rate_change(
    calibration: Calibration, first: tuple[int, int], second: tuple[int, int]
) -> Interval | None:
    """Returns the change of the completion rate without the errors of the scores, see `estimate_completion_rate`;
    None if it is unknown.

    The errors cancel out of a difference but for its scale: (apparent2 - apparent1) / (sensitivity + specificity - 1).
    It assumes that they are as frequent in the one part as in the other.

    Args:
        first, second: Of each part the number of scored conversations at or above the threshold, and of all scored.
    """
    if len(calibration.errors) == 0 or not (first[1] and second[1]):
        return None
    gain = calibration.errors.sum(axis=1) - 1
    if gain[0] <= ROUNDING:
        return None
    apparent_change = second[0] / second[1] - first[0] / first[1]
    random = np.random.default_rng([SEED, *first, *second])
    before, after = (
        random.beta(called + JEFFREYS, scored - called + JEFFREYS, size=len(gain) - 1)
        for called, scored in (first, second)
    )
    is_better = gain[1:] > 0  # than chance
    change = np.clip((after - before) / np.where(is_better, gain[1:], 1.0), -1.0, 1.0)
    return _interval_around(
        min(1.0, max(-1.0, apparent_change / float(gain[0]))),
        np.where(is_better, change, -1.0),
        np.where(is_better, change, 1.0),
    )
