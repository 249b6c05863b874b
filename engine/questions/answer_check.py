"""The check of what a machine answered: which conversations a person is asked about, and what their answers say.

The conversations that nobody has answered are divided into strata: by what the machine answered, and where it gives
probabilities, by these into two halves. From each a number is drawn at random: of `ROUND` conversations half are
spread evenly, so that rare answers are checked, the other half as Neyman (1934, J. R. Stat. Soc. 97) does: by size and
expected spread of a stratum. What people had answered before the draw, they had chosen: it counts for itself alone.

A share is the machine's, corrected by what people say of the drawn ones: prediction-powered inference (Angelopoulos et
al. 2023, Science 382), in strata (Fisch et al. 2024, NeurIPS). It stays unbiased however people chose what else they
answered. It does not hold where some of the drawn ones are never answered because they are hard: they are counted.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import chain, zip_longest
from statistics import fmean
from statistics import variance as sample_variance

import msgspec

from engine.base.statistics.intervals import Z95, Interval, wilson_ends
from engine.questions.question import UNSURE, Question
from engine.questions.records import MEAN, CheckReport, MachineAnswer, MachineShare

ROUND = 20
"""Number of conversations that are drawn at a time."""

MAX_DRAWN = 200
"""Largest number of conversations of a stratum that can be drawn."""

MAX_STRATA = 8
"""Largest number of strata; of more answers all rare ones are one stratum."""

MIN_SPLIT = 20
"""Smallest number of conversations with an answer that its probabilities divide into two strata."""

EXPECTED_ERROR = 0.2
"""Share of wrong answers that is expected where no probability says how many are wrong."""

ERROR_RANGE = (0.05, 0.5)
"""Bounds of the share of wrong answers that probabilities let expect, since probabilities may be wrong."""

POOLED_ANSWERS = 2.0
"""Number of answers for which the errors of all strata count in each, so that a few right answers in a stratum do not
claim that it has no errors. With 2, intervals of 95% covered the truth in 92 to 98% of simulated checks."""


class Stratum(msgspec.Struct, frozen=True):
    """Conversations on which the machine gave the same answer, with about the same probability where it gives one.

    Attributes:
        size: Number of them.
        error: Share of wrong answers that is expected.
        order: Pairs of a conversation and the machine's answer, in a random order, at most `MAX_DRAWN`.
        count: Number of pairs that are drawn, from the first.
    """

    size: int
    error: float
    order: tuple[tuple[int, str], ...]
    count: int = 0

    @property
    def drawn(self) -> tuple[tuple[int, str], ...]:
        """The pairs of `order` that are drawn."""
        return self.order[: self.count]


class AnswerCheck(msgspec.Struct, frozen=True):
    """What was drawn to check the answers of a machine to a question.

    Attributes:
        by: Name of the machine.
        counts: Number of conversations by its answer, those that people had answered among them.
        known: Such pairs of the conversations that people had answered before the draw.
        strata: The strata of conversations with like answers, with what was drawn of each.
    """

    by: str
    counts: Mapping[str, int]
    known: tuple[tuple[int, str], ...]
    strata: tuple[Stratum, ...]

    @property
    def drawn(self) -> list[int]:
        """The drawn conversations, in an order in which each stratum has its turn."""
        turns = zip_longest(*(stratum.drawn for stratum in self.strata))
        return [pair[0] for turn in turns for pair in turn if pair is not None]


def draw(by: str, answers: Sequence[MachineAnswer], answered: Collection[int]) -> AnswerCheck:
    """Returns a check of which the first `ROUND` conversations are drawn.

    Args:
        answers: All answers of the machine that have a value.
        answered: The conversations that people have answered.
    """
    counts = Counter(str(answer.value) for answer in answers)
    common = [value for value, _ in counts.most_common(MAX_STRATA - 1)]
    known = []
    unanswered: dict[str, list[MachineAnswer]] = {}  # by value, all rare ones together by ""
    for answer in answers:
        value = str(answer.value)
        if answer.conversation_id in answered:
            known.append((answer.conversation_id, value))
        else:
            unanswered.setdefault(value if value in common else "", []).append(answer)
    can_split = 2 * len(unanswered) <= MAX_STRATA
    strata = []
    for value, part in sorted(unanswered.items()):
        has_p = all(answer.p is not None for answer in part)
        part.sort(key=lambda answer: (answer.p or 0.0, answer.conversation_id))
        middle = len(part) // 2 if has_p and can_split and len(part) >= MIN_SPLIT else len(part)
        halves = filter(None, (part[:middle], part[middle:]))
        strata += [_make_stratum(half, has_p, f"{by}:{value}") for half in halves]
    return extend(AnswerCheck(by, counts, tuple(known), tuple(strata)))


def _make_stratum(answers: Sequence[MachineAnswer], has_p: bool, seed: str) -> Stratum:
    """Returns the stratum of some answers, of which none is drawn yet.

    Args:
        has_p: Whether all have a probability.
        seed: Begins the seed of the random order; the first answer and the number of answers complete it.
    """
    error = EXPECTED_ERROR
    if has_p:
        error = 1 - sum(answer.p or 0.0 for answer in answers) / len(answers)
        error = min(max(error, ERROR_RANGE[0]), ERROR_RANGE[1])
    order = [(answer.conversation_id, str(answer.value)) for answer in answers]
    random.Random(f"{seed}:{order[0][0]}:{len(order)}").shuffle(order)
    return Stratum(len(order), error, tuple(order[:MAX_DRAWN]))


def restrict(check: AnswerCheck, answers: Mapping[int, str]) -> AnswerCheck:
    """Returns the check of some of the conversations: within each stratum those that were drawn are drawn at random
    among these, too.

    The size of a stratum among them is estimated where its random order does not hold all of it.

    Args:
        answers: The present answer of the machine to each of them.
    """
    strata = []
    for stratum in check.strata:
        order = tuple(pair for pair in stratum.order if pair[0] in answers)
        if order:
            size = max(len(order), round(stratum.size * len(order) / len(stratum.order)))
            count = sum(key in answers for key, _ in stratum.drawn)
            strata.append(msgspec.structs.replace(stratum, size=size, order=order, count=count))
    known = tuple(pair for pair in check.known if pair[0] in answers)
    return AnswerCheck(check.by, Counter(answers.values()), known, tuple(strata))


def is_stale(check: AnswerCheck, answers: Sequence[MachineAnswer]) -> bool:
    """Returns whether the machine answers otherwise than when the check was drawn.

    Args:
        answers: All present answers of the machine that have a value.
    """
    present = {answer.conversation_id: str(answer.value) for answer in answers}
    drawn_from = chain(check.known, *(stratum.order for stratum in check.strata))
    return Counter(present.values()) != check.counts or any(
        present.get(key) != value for key, value in drawn_from
    )


def extend(check: AnswerCheck) -> AnswerCheck:
    """Returns the check with `ROUND` more conversations drawn, or as many as there are."""
    spreads = [
        stratum.size * math.sqrt(stratum.error * (1 - stratum.error)) for stratum in check.strata
    ]
    total = sum(stratum.count for stratum in check.strata) + ROUND
    targets = [total * (spread / sum(spreads) + 1 / len(spreads)) / 2 for spread in spreads]
    counts = [
        max(stratum.count, min(int(target), len(stratum.order)))
        for stratum, target in zip(check.strata, targets, strict=True)
    ]
    while sum(counts) < min(total, sum(len(stratum.order) for stratum in check.strata)):
        not_full = [
            index
            for index, stratum in enumerate(check.strata)
            if counts[index] < len(stratum.order)
        ]
        counts[max(not_full, key=lambda index: targets[index] - counts[index])] += 1
    strata = tuple(
        msgspec.structs.replace(stratum, count=count)
        for stratum, count in zip(check.strata, counts, strict=True)
    )
    return msgspec.structs.replace(check, strata=strata)


def report(check: AnswerCheck, question: Question, people: Mapping[int, str]) -> CheckReport:
    """Returns what people's answers say of a machine.

    Args:
        people: Answers in force of people, by conversation; `UNSURE` counts as none.
    """
    decided = {key: value for key, value in people.items() if value != UNSURE}
    drawn = [pair for stratum in check.strata for pair in stratum.drawn]
    pairs = [(value, decided[key]) for key, value in drawn if key in decided]
    values = ("yes",) if question.kind == "yes-no" else question.answers
    total = sum(check.counts.values())
    shares = (_correct_mean(check, decided),) if question.kind == "number" else ()

    def share(value: str) -> MachineShare:
        """Returns the share of one answer."""

        def holds(answer: str) -> bool:
            """Returns whether an answer is the value, or of several labels has it."""
            return value in answer.split(",") if question.kind == "several" else answer == value

        apparent = sum(count for answer, count in check.counts.items() if holds(answer)) / total
        return MachineShare(value, apparent, _correct_share(check, decided, holds))

    room = sum(stratum.size for stratum in check.strata)
    more = None
    if pairs and room > len(pairs):
        # The variance goes with 1/n - 1/N: a quarter of it is half the interval.
        more = math.ceil(4 / (1 / len(pairs) + 3 / room)) - len(pairs)
    return CheckReport(
        by=check.by,
        conversations=total,
        drawn=len(drawn),
        answered=len(pairs),
        same=sum(machine == person for machine, person in pairs),
        shares=shares or tuple(map(share, values)),
        more=more,
    )


def _correct_share(
    check: AnswerCheck, people: Mapping[int, str], holds: Callable[[str], bool]
) -> Interval | None:
    """Returns the share of conversations with an answer of which something is true, with its interval of 95%; None
    while a stratum has no answer of people.

    The interval is that of Wilson with the effective number of answers, which is what surveys do (Franco et al. 2019,
    J. Surv. Stat. Methodol. 7).
    """
    known = [holds(people[key]) for key, _ in check.known if key in people]
    size = sum(stratum.size for stratum in check.strata)
    known_counts = Counter(value for _, value in check.known)
    apparent = sum(
        count - known_counts[value] for value, count in check.counts.items() if holds(value)
    )
    answered = [[pair for pair in stratum.drawn if pair[0] in people] for stratum in check.strata]
    if not all(answered):
        return None
    if size == 0:
        rate = sum(known) / len(known) if known else 0.0
        return Interval(rate, rate, rate) if known else None
    differences = [
        [int(holds(people[key])) - int(holds(value)) for key, value in pairs] for pairs in answered
    ]
    weights = [stratum.size / size for stratum in check.strata]
    share = apparent / size + sum(
        weight * sum(of_stratum) / len(of_stratum)
        for weight, of_stratum in zip(weights, differences, strict=True)
    )
    share = min(1.0, max(0.0, share))
    count = sum(map(len, differences))
    variance = _variance_of_share(check.strata, weights, differences)
    low = high = share
    if variance > 0:
        moderate = (share * count + 1) / (count + 2)
        low, high = wilson_ends(share, moderate * (1 - moderate) / variance)
        low, high = max(0.0, low), min(1.0, high)
    total = len(known) + size
    ends = [(sum(known) + size * end) / total for end in (share, low, high)]
    return Interval(*ends)


def _variance_of_share(
    strata: Sequence[Stratum], weights: Sequence[float], differences: Sequence[Sequence[int]]
) -> float:
    """Returns the variance of a corrected share, by the shares of errors in the strata.

    Args:
        weights: Share of each stratum of the conversations of all.
        differences: For each stratum, what each checked answer was off by: -1, 0 or 1.
    """
    count = sum(map(len, differences))
    pooled = (sum(map(_count_errors, differences)) + 0.5) / (count + 1)
    variance = 0.0
    for stratum, weight, of_stratum in zip(strata, weights, differences, strict=True):
        checked = len(of_stratum)
        error = (_count_errors(of_stratum) + POOLED_ANSWERS * pooled) / (checked + POOLED_ANSWERS)
        unchecked_share = 1 - checked / stratum.size
        variance += weight**2 * error * (1 - error) / checked * unchecked_share
    return variance


def _correct_mean(check: AnswerCheck, people: Mapping[int, str]) -> MachineShare:
    """Returns the mean of answers that are numbers, corrected by the mean error in each stratum, with its normal
    interval; no corrected mean while a stratum has no answer of people, or all together have only one.

    What people had answered before the draw corrects itself alone. As for shares, the errors of all strata count in
    each.
    """
    total = sum(check.counts.values())
    apparent = sum(float(value) * count for value, count in check.counts.items()) / total
    errors, *of_strata = (
        [float(people[key]) - float(value) for key, value in pairs if key in people]
        for pairs in (check.known, *(stratum.drawn for stratum in check.strata))
    )
    drawn = [error for of_stratum in of_strata for error in of_stratum]
    if not all(of_strata) or len(drawn) < 2:
        return MachineShare(MEAN, apparent, None)
    mean, variance, pooled = apparent + sum(errors) / total, 0.0, sample_variance(drawn)
    for stratum, of_stratum in zip(check.strata, of_strata, strict=True):
        weight, count = stratum.size / total, len(of_stratum)
        center = fmean(of_stratum)
        mean += weight * center
        squares = sum((error - center) ** 2 for error in of_stratum)
        spread = (squares + POOLED_ANSWERS * pooled) / (count - 1 + POOLED_ANSWERS)
        variance += weight**2 * spread / count * (1 - count / stratum.size)
    half = Z95 * math.sqrt(variance)
    return MachineShare(MEAN, apparent, Interval(mean, mean - half, mean + half))


def _count_errors(differences: Sequence[int]) -> int:
    """Returns how many differences are not 0; each is -1, 0 or 1."""
    return sum(map(abs, differences))
