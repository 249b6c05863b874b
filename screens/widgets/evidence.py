"""The evidence for a verdict: the reason for showing it, the curve, the remaining tasks, the verdict, the note."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from engine.base import number_format
from engine.base.text import display_safe, one_line
from engine.questions.records.triage import EarlierActs
from screens.widgets.conversation_facts import Facts
from screens.widgets.curve import Curve, CurveData
from screens.widgets.states import STATE_LOOKS, VERDICT_LOOKS

NOTE_LIMIT = 2_000


class Evidence(VerticalScroll, can_focus=False):
    """Four short sections; `show(None)` empties them."""

    def __init__(self, title: str, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._title = title

    def compose(self) -> ComposeResult:
        """The sections, each with a title that narrow layouts hide."""
        for name, title in (
            ("why", self._title),
            ("curve", "Curve of the score"),
            ("remaining", "Remaining tasks (model)"),
            ("note", "You"),
        ):
            section = Curve(id=name) if name == "curve" else Static(id=name)
            section.add_class("section")
            section.border_title = title
            yield section

    def show(self, facts: Facts | None, why: str = "") -> None:
        """Shows the facts of one conversation; `why` is the reason why it is in the queue, if there is one."""
        empty = Content("")
        if facts is None:
            for name in ("why", "remaining", "note"):
                self.query_one(f"#{name}", Static).update(empty)
            self.query_one(Curve).show(CurveData())
            return
        self.query_one("#why", Static).update(why_content(facts, why))
        self.query_one(Curve).show(curve_data(facts))
        self.query_one("#remaining", Static).update(remaining_content(facts))
        self.query_one("#note", Static).update(note_content(facts))

    def mark(self, message: int) -> None:
        """Marks on the curve the last boundary that is not after this message."""
        self.query_one(Curve).mark_message(message)


def curve_data(facts: Facts) -> CurveData:
    """The curve of one conversation, without points where there is no score."""
    points = facts.score.curve if facts.score is not None else ()
    last_turn = facts.messages[-1].turn if facts.messages else 0
    return CurveData(points, facts.rule, facts.digits, last_turn)


def why_content(facts: Facts, why: str = "") -> Content:
    """State, score and reason of one conversation."""
    look = STATE_LOOKS[facts.row.state]
    p = facts.row.p_end_normalised
    parts: list[Content | tuple[str, str] | str] = []
    if why:
        parts.append((one_line(why) + "\n", "bold"))
    parts.append((f"{look.glyph} {look.word}", look.tone_variable))
    if p is not None:
        parts.append((f"  {number_format.bar(p)} ", look.tone_variable))
        parts.append((facts.shown(p), f"bold {look.tone_variable}"))
        threshold = number_format.probability(facts.rule.threshold)
        parts.append((f"  threshold {threshold}", "$tone-muted"))
        if words := curve_data(facts).words:
            parts.append(f"\n{words}")
    if facts.row.success is not None:
        success = facts.row.success
        parts.append((f"\n{number_format.bar(success)} ", "$tone-accent"))
        parts.append((number_format.probability(success), "bold $tone-accent"))
        parts.append(("  likely to have succeeded, by your verdicts", "$tone-muted"))
    if facts.row.reason:
        parts.append((f"\n{one_line(facts.row.reason)}", "$tone-muted"))
    if facts.score is None:
        parts.append(("\nno run has reached it yet", "$tone-muted"))
    for line in goal_lines(facts):
        parts += [("\n", ""), *line]
    return Content.assemble(*parts)


def goal_lines(facts: Facts) -> list[list[tuple[str, str]]]:
    """A line for each goal of the conversation: a check mark if a person confirmed it, label and share."""
    lines = []
    for goal in facts.goals:
        line = [("goal  " if goal.first else "also  ", "$tone-muted")]
        if goal.confirmed:
            line.append(("✓ ", "$tone-accent"))
        line.append((one_line(goal.label, 60), "bold" if goal.first else ""))
        if goal.share is not None and goal.share < 1:
            line.append((f"  {number_format.probability(goal.share)}", "$tone-muted"))
        lines.append(line)
    return lines


def requests_content(facts: Facts) -> Content:
    """A line for each request: its first turn, completeness, goal and beginning."""
    lines = []
    for one in facts.requests:
        look = STATE_LOOKS[one.state]
        p = "" if one.p is None else f" {facts.shown(one.p)}"
        lines.append(
            Content.assemble(
                (f"turn {one.turn:<3} ", "$tone-muted"),
                (f"{look.glyph}{p} ", look.tone_variable),
                (f"{one_line(one.goal, 30)}  " if one.goal else "", "bold"),
                one_line(one.opening, 60),
            )
        )
    return Content("\n").join(lines)


def remaining_content(facts: Facts) -> Content:
    """The remaining tasks as the model wrote them, or why there are none."""
    remaining = facts.remaining
    if remaining is None:
        below = facts.row.state == "incomplete"
        why = (
            "not written yet; run scoring on the overview to write them"
            if below
            else "written only below the threshold"
        )
        return Content.styled(f"remaining tasks: {why}", "$tone-muted")
    if not remaining.text.strip():
        reason = one_line(remaining.reason or "the model gave nothing usable")
        return Content.styled(f"none: {reason}", "$tone-muted")
    return Content.styled(display_safe(remaining.text.strip()[:NOTE_LIMIT]), "$tone-model")


def note_content(facts: Facts) -> Content:
    """The current verdict, the note and the tags, and what of it was said of an earlier text."""
    current = facts.current
    earlier = _earlier_line(current.earlier) if current is not None and current.earlier else ""
    if current is None or not (current.verdict or current.note or current.tags):
        return Content.styled("\n".join(filter(None, ("no verdict yet", earlier))), "$tone-muted")
    parts: list[tuple[str, str]] = []
    if current.verdict is not None:
        look = VERDICT_LOOKS[current.verdict]
        parts.append((f"{look.glyph} {look.word}", f"bold {look.tone_variable}"))
        if current.annotator:
            parts.append((f" by {one_line(current.annotator, 40)}", "$tone-muted"))
    if current.note:
        gap = "  " if parts else ""
        parts.append((gap + display_safe(current.note[:NOTE_LIMIT]), "bold"))
    for tag in current.tags:
        gap = "  " if parts else ""
        parts.append((f"{gap}#{one_line(tag, 40)}", "$tone-accent"))
    if earlier:
        parts.append((f"\n{earlier}", "$tone-muted"))
    return Content.assemble(*parts)


def _earlier_line(earlier: EarlierActs) -> str:
    said = [earlier.verdict.value] if earlier.verdict is not None else []
    said += ["the note"] if earlier.note else []
    said += [f"#{one_line(tag, 40)}" for tag in earlier.tags]
    had = number_format.counted(earlier.messages, "message")
    return f"given when it had {had}: {', '.join(said)}"
