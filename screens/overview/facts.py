"""What the overview shows: it is read here, on another thread, and formatted. Knows nothing of widgets.

A card is a box of figures; a figure leads to the conversations behind it. The answers are questions on one line each,
answered by clauses, of which the most important comes first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from textual.content import Content

from engine.base import number_format
from engine.base.conversation import SUCCEEDED, State, Verdict
from engine.base.sign import Sign
from engine.base.text import display_safe, middle_cut, one_line
from engine.completeness.records import DecisionRule, ScoreSet
from engine.completeness.service.sets import doubt_in_force, in_force, name_of, reliability
from engine.conversations.filter_fields import NO_VALUE
from engine.conversations.filters import Filter, parse_filter
from engine.conversations.service import badly_read
from engine.conversations.shared_text import NOTHING_SHARED, SharedText
from engine.goals.records import GoalGroup
from engine.opener.conversations import Counts
from engine.opener.key_figures import FirstReading, KeyFigures, imported_failures, last_change
from engine.opener.open_project import OpenProject
from engine.questions.records import CalibrationReport
from screens.shell.figures import Figure
from screens.widgets.curve import BINS
from screens.widgets.formatting import STATE_LOOKS, VERDICT_LOOKS, fitting, rate_piece
from screens.widgets.groups import label_of
from screens.widgets.messages import wrap

if TYPE_CHECKING:
    from engine.results.comparison.differences import PeriodChange

Piece = str | tuple[str, str]
"""A text, or a text and its style."""

_READING_NAME_CHARACTERS = 20
"""Most characters of the name of a conversation to read first."""

_MIN_ANSWER_CELLS = 20
"""Fewest cells of the answer to a question."""

_QUESTION_CELLS = 21
"""Width of the questions that the overview answers, in cells."""

_DISAGREEMENT_NAMES = {
    "verdict": "your verdict and the score differ",
    "scores": "two sets of scores differ",
    "people": "people disagree",
}
"""How the figures name each kind of disagreement."""

MAX_GOALS = 40
"""Most goals that are listed on the card."""


@dataclass(frozen=True, slots=True)
class Overview:
    """The figures of a whole project.

    Attributes:
        counts: The counts of the project.
        tally: Number of conversations by verdict.
        dates: The first and the last date; None without dates.
        histogram: Number of conversations in each bin of the scores.
        rule: The decision rule in force.
        sets: All sets of scores.
        shared: The texts that many conversations share.
        badly_read: Number of sources that were not well read.
        trouble: Of how many conversations the signs of trouble were read, and how many of these have any.
    """

    counts: Counts
    tally: dict[str, int]
    dates: tuple[str, str] | None
    histogram: Sequence[int]
    rule: DecisionRule
    sets: list[ScoreSet]
    shared: SharedText = NOTHING_SHARED
    badly_read: int = 0
    trouble: tuple[int, int] = (0, 0)


def load_overview(services: OpenProject) -> Overview:
    """Reads the overview; takes seconds on a million conversations."""
    conversations = services.conversations
    return Overview(
        counts=conversations.counts(),
        tally=services.triage.tally(),
        dates=conversations.dates(),
        histogram=conversations.histogram(BINS),
        rule=conversations.rule(),
        sets=services.score_sets.all(),
        shared=conversations.shared_text(),
        badly_read=badly_read(conversations.reports()),
        trouble=conversations.in_trouble(Filter()),
    )


def figures_of(services: OpenProject, card: str, overview: Overview) -> list[Figure]:
    """Returns the figures of a card or an answer, by its name, with the filters of the conversations behind them."""
    values = services.conversations.values
    if card == "verdicts":
        given = [
            Figure(f"you said {verdict}", _only(SUCCEEDED, verdict), overview.tally.get(verdict))
            for verdict in Verdict
        ]
        differ = [
            Figure(_DISAGREEMENT_NAMES[kind], _only("disagreement", kind), count)
            for kind, count in values("disagreement", Filter())
        ]
        return [*given, Figure("no verdict yet", _only(SUCCEEDED, NO_VALUE)), *differ]
    if card == "trouble":
        signs = sorted(values("sign", Filter()), key=lambda sign: -(sign[1] or 0))
        return [Figure(Sign(name).words, _only("sign", name), count) for name, count in signs]
    if card == "rate":
        states = [
            Figure(State(name).word, _only("state", name), n)
            for name, n in values("state", Filter())
        ]
        return [*states, *map(_bin, range(BINS), overview.histogram)]
    everything = [Figure("all conversations", Filter(), overview.counts.conversations)]
    sources = [Figure(name, _only("source", name), n) for name, n in values("source", Filter())]
    months = [Figure(name, _only("date", name), n) for name, n in values("date", Filter())]
    return [*everything, *(sources if len(sources) > 1 else []), *months]


def _bin(index: int, count: int) -> Figure:
    """Returns one bin of the histogram as a figure, by its index; the last bin includes its upper end."""
    low, high = index / BINS, (index + 1) / BINS
    label = f"score {number_format.probability(low)} to {number_format.probability(high)}"
    below = "" if index == BINS - 1 else f" p<{high:g}"
    return Figure(label, parse_filter(f"p>={low:g}{below}"), count)


def _only(field: str, value: str) -> Filter:
    """Returns the filter of the conversations with one value of a field."""
    return Filter().with_choice(field, value)


def goals_content(groups: Sequence[GoalGroup]) -> Content:
    """Returns a bar, a label and a size for each goal, the largest first."""
    full = max((group.share for group in groups), default=0.0)  # the share whose bar is full
    return Content("\n").join(
        Content.assemble(
            (number_format.bar(group.share / full if full else 0.0), "$tone-accent"),
            (f" {group.size:>6,}  ", "bold"),
            label_of(group),
        )
        for group in groups[:MAX_GOALS]
    )


def _span(first: str, last: str) -> str:
    """Returns two days as one span, `2026-10-01 to 10-31`."""
    first, last = one_line(first[:10]), one_line(last[:10])
    if first == last:
        return first
    return f"{first} to {last.removeprefix(first[:5])}"


def reading_content(reading: FirstReading, cells: int) -> Content:
    """Returns a conversation to read first as a line of at most `cells` cells: its name and the reason."""
    name = middle_cut(reading.row.external_id, _READING_NAME_CHARACTERS)
    reason = fitting(reading.reason.split(" · "), cells - _READING_NAME_CHARACTERS - 2)
    return Content.assemble(name.ljust(_READING_NAME_CHARACTERS), ("  " + reason, "$tone-muted"))


class AnswerLine(NamedTuple):
    """A question that the overview answers on one line.

    Attributes:
        key: What the question is about: the name of a card, `trouble` or `change`.
        question: The question, in words.
        clauses: The answer, the most important clause first.
        doubtful: Whether the answer means little.
    """

    key: str
    question: str
    clauses: Sequence[str]
    doubtful: bool = False


class SlowFigures(NamedTuple):
    """Figures that take longer to read than the overview, as in `KeyFigures`; None before they are read."""

    failures: tuple[int, int] | None = None
    change: PeriodChange | None = None
    worst_judged: bool = False


def load_slow_figures(services: OpenProject) -> SlowFigures:
    """Reads these figures of all scores; takes seconds on a million conversations."""
    return SlowFigures(
        imported_failures(services, Filter()),
        last_change(services),
        services.calibration.is_picked_by_trouble(),
    )


def answer_lines(
    overview: Overview,
    groups: Sequence[GoalGroup] | None,
    report: CalibrationReport | None,
    slow_figures: SlowFigures,
) -> list[AnswerLine]:
    """Returns the questions of the overview with their answers, as far as they are known.

    Args:
        groups: The goals; None before they are read.
        report: What the verdicts say of the scores; None without verdicts, or before it is read.
    """
    now, doubt = in_force(overview.sets), doubt_in_force(overview.sets)
    no = overview.tally.get(Verdict.NO, 0)
    figures = KeyFigures(
        overview.counts,
        [(label_of(group), group.size) for group in groups or ()],
        overview.trouble,
        (no, no + overview.tally.get(Verdict.YES, 0)),
        slow_figures.failures,
        None if report is None else report.rate.corrected,
        slow_figures.change,
        "the scores mean little" if doubt and overview.counts.scored else doubt,
        slow_figures.worst_judged,
    )
    ended = figures.ending_clauses()
    if now is not None and now.read is not None and now.read < now.scored:
        # The share moves until the model has read all: words come first, then states.
        ended.insert(1, f"the model has read {now.read:,} of {now.scored:,}")
    lines = [
        AnswerLine("project", "What is here?", _contents(overview)),
        AnswerLine(
            "goals",
            "What did they want?",
            ["reading …"] if groups is None else figures.goal_clauses(),
        ),
        AnswerLine("rate", "Did it end?", ended, bool(doubt)),
        AnswerLine("trouble", "Did it go wrong?", figures.failure_clauses()),
    ]
    if slow_figures.change is not None:
        lines.append(AnswerLine("change", "What changed?", figures.change_clauses()))
    return lines


def answer_content(line: AnswerLine, cells: int) -> Content:
    """Returns a question and its answer as a line of at most `cells` cells.

    Clauses that do not fit are left out. The first one goes on below where it does not fit, since its end may be its
    figure.
    """
    tone = "$tone-borderline" if line.doubtful else ""
    question = f"{line.question:<{_QUESTION_CELLS}}"
    width = max(_MIN_ANSWER_CELLS, cells - _QUESTION_CELLS)
    first = wrap(display_safe(line.clauses[0]), width)
    answer = (
        fitting(line.clauses, width) if len(first) == 1 else f"\n{'':{_QUESTION_CELLS}}".join(first)
    )
    return Content.assemble((question, "bold"), (answer, tone))


def _contents(overview: Overview) -> list[str]:
    """Returns how many conversations there are, of which days, and what was left out, with the key that shows why."""
    counts = overview.counts
    clauses = [number_format.counted(counts.conversations, "conversation")]
    if counts.quarantined:
        records = number_format.counted(counts.quarantined, "record")
        clauses.append(f"{records} not read (Q says why)")
    if overview.badly_read:
        sources = number_format.counted(overview.badly_read, "source")
        clauses.append(f"{sources} not well read (A says why)")
    if counts.duplicates:
        clauses.append(number_format.counted(counts.duplicates, "duplicate") + " left out")
    if overview.dates is not None:
        clauses.append(_span(*overview.dates))
    if counts.leaks:
        clauses.append(f"{number_format.counted(counts.leaks, 'ending')} hidden from the model")
    if overview.shared:
        clauses.append(f"{overview.shared.shown[0].conversations:,} share a text (B shows it)")
    return clauses


def rate_content(overview: Overview) -> Content:
    """Returns the rate of ended conversations with interval, threshold and coverage, and the states; two lines.

    The rate is faint where the scores mean little or few are scored.
    """
    counts = overview.counts
    doubt = doubt_in_force(overview.sets)
    if not counts.scored:
        title, reason = "No scores yet.", "scoring says which conversations ended"
        if doubt:
            title, reason = "No scores.", doubt
        return Content.assemble((title, "bold"), (f"\n{reason}", "$tone-muted"))
    coverage = 100 * counts.scored / counts.conversations
    # With a decimal near the ends, so that a part is never written as none or all.
    shown = f"{coverage:.0f}" if coverage in (0, 100) or 1 <= coverage <= 99 else f"{coverage:.1f}"
    tone = "$tone-muted" if doubt else "bold $tone-complete"
    parts: list[Piece] = [
        rate_piece(counts.above, counts.scored, tone),
        " ended",
        (
            f", {number_format.at_least(overview.rule.threshold)}"
            f"  (n {counts.scored:,} · {shown}% scored)\n",
            "$tone-muted",
        ),
    ]
    numbers = (counts.complete, counts.incomplete, counts.borderline, counts.unscored)
    for index, (look, number) in enumerate(zip(STATE_LOOKS.values(), numbers, strict=True)):
        parts += [
            "  " if index else "",
            (f"{look.glyph} {number:,}", look.tone_variable),
            (f" {look.word}", "$tone-muted"),
        ]
    return Content.assemble(*parts)


def set_content(sets: list[ScoreSet], *, brief: bool) -> Content:
    """Returns the mode, model and adapter of the scores in force and how far they can be relied on.

    Args:
        brief: Whether only one line is returned.
    """
    now = in_force(sets)
    if now is None:
        return Content("")
    trust = reliability(now, sets)
    name = (name_of(now), "bold")
    if brief:
        tone = "$tone-borderline" if trust.doubt or trust.remedy else "$tone-muted"
        test, _, _ = trust.test.partition(",")
        summary = "scores mean little" if trust.doubt and now.scored else test
        return Content.assemble(name, (f" · {summary}", tone))
    others = len(sets) - 1
    parts: list[Piece] = [name]
    if others:
        parts += [("  S", "bold $tone-accent"), (f" chooses; {others} more", "$tone-muted")]
    parts.append((f"\n{trust.test}", "$tone-muted"))
    parts += [(f"\n{kind}", "$tone-muted") for kind in trust.kinds]
    if trust.doubt and now.scored:  # else the line of the rate says so
        parts.append((f"\n{trust.doubt}", "$tone-borderline"))
    if trust.remedy:
        parts.append((f"\nwhat would help: {trust.remedy}", "$tone-borderline"))
    return Content.assemble(*parts)


def set_choices(sets: list[ScoreSet]) -> list[tuple[str, Content]]:
    """Returns the sets of scores to choose from: config hash, and name, size and test in two lines."""
    return [
        (
            score_set.config_hash,
            Content.assemble(
                (f"{score_set.number}  {name_of(score_set)}", "bold"),
                (f"  {number_format.counted(score_set.scored, 'conversation')}", "$tone-muted"),
                (f"\n   {reliability(score_set, sets).test}", "$tone-muted"),
            ),
        )
        for score_set in sets
    ]


def verdicts_content(overview: Overview, failures: tuple[int, int] | None) -> Content:
    """Returns the numbers of verdicts; where there are none, the share of failures among the imported outcomes, if
    there are any. One line.

    Args:
        failures: As in `KeyFigures`.
    """
    if not any(overview.tally.values()):
        if failures is not None:
            failed = number_format.share_range(*failures)
            return Content.assemble((f"{failed} failed", "bold"), ", by imported outcomes")
        return Content.assemble(
            ("No verdicts yet.", "bold"), ("  Only verdicts say (3, triage).", "$tone-muted")
        )
    parts: list[Piece] = []
    for verdict, look in VERDICT_LOOKS.items():
        parts += [
            (f"{look.glyph} {overview.tally.get(verdict, 0):,}", f"bold {look.tone_variable}"),
            (f" {look.word}  ", "$tone-muted"),
        ]
    return Content.assemble(*parts)
