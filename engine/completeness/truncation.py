"""The truncation test: whole conversations against the same ones cut off, so that no labels are needed.

A boundary is a place where a conversation could end; a cut conversation ends at one before its last. The test says how
well scores tell the two apart, beside two simple rules that scores have to surpass: keywords, and position alone. The
*matched* test compares whole conversations with longer ones that are cut at the same boundary.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from engine.base.arrays import Floats, Ints
from engine.base.conversation import LogPiece
from engine.base.statistics.intervals import Z95, Interval
from engine.base.statistics.ranking import MIN_GROUPS, area_interval, auroc, count_below
from engine.completeness import probe
from engine.completeness.probe import CrossFit
from engine.completeness.records import EndingTest

MIN_WHOLE_SCORE = 0.5
"""Score from which the test calls a conversation whole."""

SEARCHED_CHARACTERS = 400
"""Number of characters at the end of a step in which the keyword rule searches."""

INVERSE_STRENGTHS = (1.0,)
"""Inverse strength of the regularization of position alone: three numbers need hardly any."""


# Where conversations are cut


def cut_at(seed: int, conversation: str, boundaries: int) -> int | None:
    """Returns the boundary after which a conversation is cut, drawn by a seed.

    All boundaries but the last are equally likely. A turn has at most one boundary (in a log of one turn a step does),
    so this draws a turn. The result depends on the arguments alone, so all scorings of a conversation cut it alike.

    Args:
        conversation: Id of the conversation in its source.
        boundaries: Number of boundaries of the conversation.

    Returns:
        The index of the boundary; None with fewer than two.
    """
    if boundaries < 2:
        return None
    digest = hashlib.sha256(f"truncation/1:{seed}:{conversation}".encode(errors="replace")).digest()
    return int.from_bytes(digest, "big") % (boundaries - 1)


def truncate(
    names: Sequence[str], curves: Sequence[Sequence[float]], seed: int
) -> tuple[list[float], list[float]]:
    """Returns the scores of whole conversations, and in the same order those of the same ones cut once.

    Conversations with fewer than two boundaries, which cannot be cut, are left out.

    Args:
        names: External id of each conversation.
        curves: For each conversation the normalized score at every boundary, in order.
        seed: Seed of the cuts.
    """
    cuts = draw_cuts(names, list(map(len, curves)), seed)
    scores = [score for curve in curves for score in curve]
    return [scores[index] for index in cuts.whole], [scores[index] for index in cuts.cut]


@dataclass(frozen=True, slots=True)
class Cuts:
    """The pairs of the truncation test, one for each conversation that can be cut.

    Attributes:
        whole: Index of the last boundary of each conversation, shape (pairs,).
        cut: Index of the boundary after which it is cut, shape (pairs,).
    """

    whole: Ints
    cut: Ints


def draw_cuts(names: Sequence[str], counts: Sequence[int], seed: int = 0) -> Cuts:
    """Returns a cut of each conversation after one boundary before its last, at the place that `cut_at` draws.

    Args:
        names: External id of each conversation.
        counts: Number of boundaries of each conversation; all boundaries stand in one sequence in this order.
        seed: Seed of the cuts.

    Returns:
        The pairs; conversations with fewer than two boundaries have none.
    """
    whole, cut = [], []
    first = 0
    for name, count in zip(names, counts, strict=True):
        place = cut_at(seed, name, count)
        if place is not None:
            whole.append(first + count - 1)
            cut.append(first + place)
        first += count
    return Cuts(np.array(whole, dtype=np.int64), np.array(cut, dtype=np.int64))


# The matched test


def matched(curves: Sequence[Floats]) -> tuple[Interval | None, int]:
    """Returns P(a whole conversation has a higher value than a longer one cut at the same boundary), ties counting
    half.

    The interval counts conversations, not pairs: its variance is the infinitesimal jackknife of the share over
    conversations (Efron 1982, "The Jackknife, the Bootstrap and Other Resampling Plans", chapter 6).

    Args:
        curves: For each conversation the value at each of its boundaries; NaN where there is none.

    Returns:
        The share over all pairs, None without any, and the number of pairs.
    """
    wins, pairs = _count_wins(curves)
    pair_count = pairs.sum() / 2  # each pair is counted by both of its conversations
    if not pair_count:
        return None, 0
    share = float(wins.sum() / 2 / pair_count)
    paired_count = int((pairs > 0).sum())
    variance = float(np.square(wins - share * pairs).sum()) / pair_count**2
    known_variance = None if paired_count < MIN_GROUPS else variance
    return area_interval(share, known_variance, paired_count, paired_count), int(pair_count)


def matched_difference(curves: Sequence[Floats], others: Sequence[Floats]) -> Interval | None:
    """Returns the share of `matched` of one scoring minus that of another, over the same pairs.

    The interval is paired: the infinitesimal jackknife of the difference over conversations, as in `matched`, so that
    what makes a conversation easy for both takes itself out. With fewer than `MIN_GROUPS` conversations it is all of
    -1 to 1.

    Args:
        curves, others: As `matched` takes them, with the same shapes and numbers at the same places.

    Returns:
        None without any pair.
    """
    (wins, pairs), (other_wins, _) = _count_wins(curves), _count_wins(others)
    pair_count = pairs.sum() / 2
    if not pair_count:
        return None
    ahead = wins - other_wins
    difference = float(ahead.sum() / 2 / pair_count)
    if int((pairs > 0).sum()) < MIN_GROUPS:
        return Interval(difference, -1.0, 1.0)
    half = Z95 * math.sqrt(float(np.square(ahead - difference * pairs).sum())) / float(pair_count)
    return Interval(difference, max(-1.0, difference - half), min(1.0, difference + half))


def _count_wins(curves: Sequence[Floats]) -> tuple[Floats, Floats]:
    """Returns two counts for each conversation, both of shape (conversations,).

    The first is of the pairs of the matched test that come out right, ties counting half; the second is of all pairs
    that the conversation is part of.
    """
    lengths = [len(curve) for curve in curves]
    # of each boundary of all curves, one after another: its conversation, its number there, and its value
    owner = np.repeat(np.arange(len(curves)), lengths)
    number = np.concatenate([np.empty(0), *map(np.arange, lengths)])
    values = np.concatenate([np.empty(0), *curves])
    is_last = number == np.repeat([length - 1 for length in lengths], lengths)
    wins, pairs = np.zeros(len(curves)), np.zeros(len(curves))
    for number_of_cut in np.unique(number):
        is_compared = (number == number_of_cut) & ~np.isnan(values)
        whole, cut = np.flatnonzero(is_compared & is_last), np.flatnonzero(is_compared & ~is_last)
        if not len(whole) or not len(cut):
            continue
        np.add.at(wins, owner[whole], count_below(values[whole], values[cut]))
        np.add.at(pairs, owner[whole], len(cut))
        np.add.at(wins, owner[cut], len(whole) - count_below(values[cut], values[whole]))
        np.add.at(pairs, owner[cut], len(whole))
    return wins, pairs


# The test of a set of scores


def ending_test(
    numbers: list[list[int]], cuts: Cuts, p: Floats, position: Floats, keywords: Floats
) -> EndingTest:
    """Returns the test of the scores of a set, beside those by position alone and by the keyword rule.

    Args:
        numbers: Of each usable conversation the numbers of the boundaries that were read, from 0.
        cuts: The pairs of a whole conversation and the same one cut, as indices of boundaries.
        p, position, keywords: Scores of all boundaries that were read, shape (boundaries,).
    """
    both = np.concatenate([cuts.whole, cuts.cut])
    is_whole = [True] * len(cuts.whole) + [False] * len(cuts.cut)
    pair = [*range(len(cuts.whole))] * 2
    hits = int((p[cuts.whole] >= MIN_WHOLE_SCORE).sum())
    false_alarms = int((p[cuts.cut] >= MIN_WHOLE_SCORE).sum())
    curves, by_position, by_keywords = (
        _curves_of(numbers, values) for values in (p, position, keywords)
    )
    share, pairs = matched(curves)
    (of_position, _), (of_keywords, _) = matched(by_position), matched(by_keywords)
    return EndingTest(
        conversations=len(cuts.whole),
        auroc=auroc(p[both].tolist(), is_whole, pair),
        f1=2 * hits / (len(cuts.whole) + hits + false_alarms),
        keywords=auroc(keywords[both].tolist(), is_whole, pair).value,
        position=auroc(position[both].tolist(), is_whole, pair).value,
        matched=share,
        matched_pairs=pairs,
        matched_keywords=None if of_keywords is None else of_keywords.value,
        matched_position=None if of_position is None else of_position.value,
        over_keywords=matched_difference(curves, by_keywords),
        over_position=matched_difference(curves, by_position),
    )


def _curves_of(numbers: list[list[int]], p: Floats) -> list[Floats]:
    """Returns the values at all boundaries of each conversation; NaN at those that were not read."""
    curves, first = [], 0
    for read_numbers in numbers:
        curve = np.full(read_numbers[-1] + 1, np.nan)
        curve[read_numbers] = p[first : first + len(read_numbers)]
        curves.append(curve)
        first += len(read_numbers)
    return curves


# Keywords


def _any_of(*patterns: str) -> re.Pattern[str]:
    """Returns a pattern that matches where one of these does, whatever the case."""
    return re.compile("|".join(patterns), re.IGNORECASE | re.MULTILINE)


_USER_FAREWELL = _any_of(
    r"\b(?:good ?)?bye\b|\bgood ?night\b|\bsee (?:you|ya)\b|\bhave a \w+ (?:day|one|night|evening|weekend)\b",
    r"\b(?:thank(?:s| you)|thx|cheers|appreciate)\b",
    r"\bthat(?:'?s| is| was| will be| would be|'?ll be) (?:all|it|everything)\b",
    r"\bno(?:pe)?,? that'?s\b|\bnothing (?:else|more)\b|\b(?:i'?m|we'?re) (?:all set|done|good)\b",
)
"""Finds farewells and thanks of a user: `Bye`, `have a nice day`, `thx`, `That's all`, `I'm all set`."""

_ASSISTANT_FAREWELL = _any_of(
    r"\b(?:good ?)?bye\b|\btake care\b|\bdrive safe|\bsafe travels\b",
    r"\byou(?:'?re| are) (?:very |most |quite )?welcome\b|\bmy pleasure\b|\bno problem\b|\banytime\b",
    r"\b(?:glad|happy|pleased) (?:\w+ ){0,3}(?:help|assist|be of)",
    r"\b(?:have|enjoy) (?:a|your) (?:\w+ ){0,2}"
    r"(?:day|time|night|evening|weekend|trip|stay|flight|ride|meal|journey|one)\b",
    r"\b(?:further|more|other|else)\b[^.?!\n]*\bfeel free to\b",
)
"""Finds farewells of an assistant: `Take care`, `You're welcome`, `enjoy your trip`, `For more, feel free to ask`."""

_SAYS_DONE = _any_of(
    r"\b(?:now|successfully|been) (?:\w+ ){0,2}(?:reserved|booked|cancell?ed)\b",
    r"\btask (?:is )?(?:complete|completed|done)\b|\bfinal answer\b",
    r"\bclick\[buy now\]|\b(?:finish|submit|answer)[\[(]|^action:\s*(?:finish|submit|answer|done)\b",
    r"\"name\": \"(?:transfer_to_human_agents|finish|submit|done)\"",
)
"""Finds words of an assistant, or actions of an agent, that say the task is done: `has been booked`, `task completed`,
`click[Buy Now]`, `Action: submit`."""

_ANYTHING_ELSE = _any_of(r"\b(?:anything|something) (?:else|more)\b")
"""Finds the question whether there is anything else, which does not keep a conversation open."""


def sounds_complete(steps: Sequence[LogPiece]) -> bool:
    """Returns whether the end of a log looks like the end of a conversation.

    It does when the last assistant step after the last user step has a farewell or says that the task is done, or when
    that user step says goodbye or thanks and the assistant asks nothing except whether there is anything else.

    It does not see what is removed from a log because it would give the end away, such as actions that only end an
    episode, and it knows no language but English.
    """
    user = answer = ""
    for step in reversed(steps):
        if step.role == "user":
            user = step.body[-SEARCHED_CHARACTERS:]
            break
        if step.role == "assistant" and not answer:
            answer = step.body[-SEARCHED_CHARACTERS:]
    if _ASSISTANT_FAREWELL.search(answer) or _SAYS_DONE.search(answer):
        return True
    asks_more = answer.rstrip().endswith("?") and not _ANYTHING_ELSE.search(answer)
    return bool(_USER_FAREWELL.search(user)) and not asks_more


# Position alone


class Position(NamedTuple):
    """Where a boundary lies.

    Attributes:
        number: Number of the boundary in its conversation, from 0.
        log_characters: Number of characters of the log up to it.
        step_characters: Number of characters of its last step.
    """

    number: int
    log_characters: int
    step_characters: int


def cross_fit_by_position(
    positions: Sequence[Sequence[Position]],
    group_ids: Ints,
    on_fold: Callable[[], None] = lambda: None,
) -> CrossFit:
    """Returns scores of every boundary by its position alone, made like the probe: out of fold and calibrated.

    Args:
        positions: The boundaries of each conversation, in order.
        group_ids: The group of each conversation, shape (conversations,); nearly equal ones share it.
        on_fold: See `probe.cross_fit`.

    Returns:
        Scores of all boundaries, those of each conversation in order.

    Raises:
        ValueError: There are too few groups for the folds.
    """
    counts = [len(conversation) for conversation in positions]
    rows = np.array(
        [position for conversation in positions for position in conversation], dtype=np.float32
    )
    is_end = np.concatenate([np.arange(count) == count - 1 for count in counts])
    return probe.cross_fit(
        np.log1p(rows), is_end, np.repeat(group_ids, counts), on_fold, INVERSE_STRENGTHS
    )
