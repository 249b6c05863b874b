"""Events, signals, control charts and their figures as text."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from engine.base.conversation import State
from engine.base.number_format import bar, counted, difference, percent_range, probability
from engine.base.text import end_of_path, one_line
from engine.conversations.filters import Filter, Term
from engine.results.watch.chart import Chart
from engine.results.watch.service import LiveEvent, RulesInForce
from engine.results.watch.signals import signal_name
from screens.shell.workbench_screen import Figure
from screens.widgets.formatting import STATE_LOOKS
from screens.widgets.row_table import Column, Piece

LARGE_CHANGE = 0.1
"""Change of the probability from which on it is bright."""

MAX_EVENT_CELLS = 80
"""Most cells of a source and of a goal in the text of an event."""


def _time(row: LiveEvent) -> Sequence[Piece]:
    """Returns the time of an event, without its date."""
    _, _, time = str(row.values["at"]).partition("T")  # 2026-07-01T12:00:00Z
    return [(time[: len("12:00:00")], "tone--muted")]


def _name(row: LiveEvent) -> Sequence[Piece]:
    """Returns the name of the conversation, or why a file could not be read."""
    if row.conversation_id is None:
        return [(one_line(str(row.values["error"])), "tone--incomplete")]
    return [(one_line(str(row.values["conversation"])), "")]


def _turn(row: LiveEvent) -> Sequence[Piece]:
    """Returns the number of the turn; `end` where the conversation went quiet."""
    if row.values.get("ended"):
        return [("end", "tone--bright")]
    turn = row.values.get("turn")
    return [("" if turn is None else f"{turn}", "")]


def _p(row: LiveEvent) -> Sequence[Piece]:
    """Returns the probability that the conversation ends there."""
    return [] if row.conversation_id is None else [(probability(row.values["p"]), "")]


def _change(row: LiveEvent) -> Sequence[Piece]:
    """Returns the change of the probability since the turn before; a large one is bright."""
    change = row.values.get("change")
    if change is None:
        return []
    return [(difference(change), "tone--bright" if abs(change) >= LARGE_CHANGE else "tone--muted")]


def _state(row: LiveEvent) -> Sequence[Piece]:
    """Returns the state by the decision rule, as sign and word."""
    if row.conversation_id is None:
        return []
    look = STATE_LOOKS[State(row.values["state"])]
    return [(f"{look.glyph} {look.word}", look.tone_class)]


def _goal(row: LiveEvent) -> Sequence[Piece]:
    """Returns the goal; `novel` where the conversation is like none."""
    if row.values.get("novel"):
        return [("novel", "tone--borderline")]
    return [(one_line(str(row.values.get("goal") or "")), "")]


def _signals(row: LiveEvent) -> Sequence[Piece]:
    """Returns the signals of an event."""
    return [(signals_text(row), "tone--borderline")]


COLUMNS: list[Column[LiveEvent]] = [
    Column("time", "UTC", 8, _time, keep=4),
    Column("name", "conversation", 14, _name, flexible=True),
    Column("turn", "turn", 4, _turn, right=True),
    Column("p", "p", 4, _p, right=True),
    Column("change", "change", 6, _change, right=True),
    Column("state", "state", 12, _state),
    Column("goal", "goal", 24, _goal, keep=2),
    Column("signals", "signals", 22, _signals, keep=6),
]
"""Columns of the list of events."""


def signals_text(row: LiveEvent) -> str:
    """Returns the signals of an event, each with its precision on past conversations where it has one: `hand over
    .86`.
    """
    return ", ".join(
        f"{signal_name(signal['name'])} {probability(signal['precision'])}"
        if "precision" in signal
        else signal_name(signal["name"])
        for signal in row.values.get("signals", [])
    )


def words_of(row: LiveEvent) -> str:
    """Returns the text in which a filter of the events looks for its words, in lower case."""
    values = row.values
    kind = "end" if values.get("ended") else "turn"
    if row.conversation_id is None:
        kind = "error"
    novel = "novel" if values.get("novel") else ""
    state = State(values["state"]).word if "state" in values else ""
    parts = (
        kind, values.get("conversation"), values.get("source"), state, values.get("goal"), novel,
        signals_text(row), values.get("error"),
    )  # fmt: skip
    return " ".join(str(part) for part in parts if part).lower()


def event_text(row: LiveEvent) -> Content:
    """Returns everything about one event, on a few lines."""
    values = row.values
    if row.conversation_id is None:
        return Content(f"{one_line(str(values['error']))}\n{one_line(str(values.get('hint', '')))}")
    goal = (
        "like no goal"
        if values.get("novel")
        else one_line(str(values.get("goal") or ""), MAX_EVENT_CELLS)
    )
    source = end_of_path(str(values["source"]), MAX_EVENT_CELLS)
    lines = [f"{bar(values['p'])} {probability(values['p'])}  {source}  {goal}"]
    lines += [
        f"{signal_name(signal['name'])}: {signal['meaning']}; {signal['precision']:.0%} of the past conversations"
        f" with it were broken off ({percent_range(signal['low'], signal['high'])})"
        for signal in values["signals"]
        if "precision" in signal
    ]
    if values.get("reason"):
        lines.append(one_line(str(values["reason"])))
    return Content("\n".join(lines))


def chart_title(chart: Chart) -> list[tuple[str, str]]:
    """Returns what the plot shows, in pieces of text and tone."""
    outside = sum(point.outside for point in chart.points)
    title = [
        (" Ended, of conversations that went quiet", "tone--bright"),
        (f" · past {chart.past.share:.0%} of {chart.past.of:,}", "tone--muted"),
    ]
    if chart.points:
        first = chart.points[0]
        title.append((f" · limits {first.low:.0%} to {first.high:.0%}", "tone--muted"))
    if outside:
        title.append((f" · {counted(outside, 'point')} outside", "tone--incomplete"))
    return title


def chart_empty(chart: Chart | None) -> str:
    """Returns what the plot says before its first point."""
    if chart is None:
        return "The plot comes with conversations that go quiet."
    return f"{chart.waiting} of {chart.size} conversations went quiet for a first point"


def rules_lines(chosen: RulesInForce) -> list[str]:
    """Returns the signals in force with how often they were right, and why the others are not raised."""
    lines = [
        f"Chosen on one half of {counted(chosen.past, 'past conversation')} and tested on the other. A past"
        " conversation was broken off by your verdict no, or else by its score.",
        "",
    ]
    for rule in chosen.rules.in_force:
        interval = percent_range(rule.precision.low, rule.precision.high)
        lines.append(
            f"{signal_name(rule.name)}: {rule.meaning}. {rule.precision.part} of {rule.precision.of} were broken off"
            f" ({interval}); of all {rule.base:.0%}. It finds {rule.recall:.0%} of those."
        )
    lines += [f"{signal_name(name)}: {why}." for name, why in chosen.rules.without_rule]
    return lines


def rules_summary(chosen: RulesInForce | None) -> str:
    """Returns the signals in force, in a few words."""
    if chosen is None:
        return "signals: not chosen yet"
    names = [
        f"{signal_name(rule.name)} {probability(rule.precision.part / rule.precision.of)}"
        for rule in chosen.rules.in_force
    ]
    return "signals: " + (", ".join(names) or "none was right often enough (r says why)")


def completion_figures(chart: Chart) -> list[Figure]:
    """Returns the points, the newest first, then those that run and the past ones."""
    points = [
        Figure(
            f"{point.complete.part} of {point.complete.of} ended"
            f"{', outside the limits' if point.outside else ''}, up to {point.until[:16].replace('T', ' ')}",
            Filter((_ended(index * chart.size + 1, (index + 1) * chart.size),)),
            point.complete.of,
        )
        for index, point in enumerate(chart.points)
    ]
    return [
        Figure("still running", _watched("running"), chart.running),
        *points[::-1],
        Figure("past ones, which set the limits", _watched("past")),
    ]


def _ended(first: int, last: int) -> Term:
    """Returns the term that selects conversations by the order in which they went quiet."""
    return Term("ended", ":", (str(first), str(last)), span=True)


def _watched(value: str) -> Filter:
    """Returns the filter of one kind of watched conversations."""
    return Filter().with_choice("watched", value)
