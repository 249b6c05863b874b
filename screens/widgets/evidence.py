"""The evidence for a verdict: what is known of a conversation, its curve, its remaining tasks, what a person said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from engine.base import number_format
from engine.base.conversation import State
from engine.base.errors import WorkbenchError
from engine.base.text import display_safe, one_line
from engine.completeness.records import DecisionRule, RemainingTasks, ScoreRow
from engine.conversations.records import LeakRow, MessageRow
from engine.opener.conversations import ConversationRow
from engine.opener.open_project import OpenProject
from engine.questions.question import YES
from engine.questions.records import Answerer, AnswerRow, EarlierAnswers, MachineAnswer
from screens.widgets.background import background
from screens.widgets.curve import Curve, CurveData
from screens.widgets.finding import words_pattern
from screens.widgets.formatting import STATE_LOOKS, VERDICT_LOOKS, machine_answer_text
from screens.widgets.transcript import Transcript

MAX_NOTE_CHARACTERS = 2_000
"""Most characters that are shown of a note or of the remaining tasks."""


@dataclass(frozen=True, slots=True)
class Facts:
    """A conversation with its messages, score, remaining tasks, verdict and leaks.

    Attributes:
        current: The verdict with note and tags that is in force.
        rule: Tells the state of a score.
        goal: The label of its goal; None without one.
        machine_answers: What patterns, models and files answer on it, by question.
    """

    row: ConversationRow
    messages: list[MessageRow]
    score: ScoreRow | None
    remaining: RemainingTasks | None
    leaks: list[LeakRow]
    current: AnswerRow | None
    rule: DecisionRule
    goal: str | None = None
    machine_answers: Sequence[tuple[Answerer, MachineAnswer]] = ()

    def shown(self, p: float | None) -> str:
        """Returns a score with two digits, and with three where its state needs them."""
        if p is None:
            return number_format.probability(p)
        return number_format.probability(p, self.rule.digits(p))


def load_facts(services: OpenProject, conversation_id: int) -> Facts:
    """Reads all facts; raises WorkbenchError when the conversation is gone."""
    conversations = services.conversations
    rows = conversations.rows([conversation_id])
    if not rows:
        raise WorkbenchError("This conversation is no longer in the project.", "Go on to another.")
    (row,) = rows
    return Facts(
        row=row,
        messages=conversations.messages(conversation_id),
        score=conversations.score(conversation_id),
        remaining=conversations.remaining(conversation_id),
        leaks=conversations.leaks(conversation_id),
        current=services.triage.current(conversation_id),
        rule=conversations.rule(),
        goal=conversations.goal(conversation_id),
        machine_answers=services.questions.on_conversation(conversation_id),
    )


class Evidence(VerticalScroll, can_focus=False):
    """Four short sections; `show(None)` empties them."""

    def __init__(self, title: str, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._title = title

    def compose(self) -> ComposeResult:
        """Yields the sections, each with a title that narrow layouts hide."""
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


class Preview(Vertical):
    """The conversation under the cursor of a list, to be read beside it; a terminal that is not very wide hides it."""

    def __init__(self, services: OpenProject, *, at_end: bool = False) -> None:
        """`at_end` begins at the last turn instead of the first message."""
        super().__init__()
        self._services, self._at_end = services, at_end
        self._shown: tuple[int, Sequence[str]] | None = None

    def compose(self) -> ComposeResult:
        """Yields what is known of the conversation, and its messages."""
        yield Static(classes="known")
        yield Transcript()

    def follow(self, conversation_id: int, words: Sequence[str] = ()) -> None:
        """Shows another conversation, with these words marked, as soon as there is room for it."""
        self._shown = conversation_id, words
        self.add_class("-followed")
        self._read()

    def on_show(self) -> None:
        """Reads what there was no room for."""
        self._read()

    def _read(self) -> None:
        """Reads the conversation, where it is seen."""
        if self._shown is None or not self.screen.has_class("-very-wide"):
            return
        conversation_id, words = self._shown

        def show(facts: Facts) -> None:
            """Shows it, unless the cursor went on meanwhile."""
            if self._shown is None or self._shown[0] != conversation_id:
                return
            name = one_line(facts.row.external_id, 60)
            known = [Content.styled(name, "bold"), why_content(facts), note_content(facts)]
            if facts.remaining is not None:
                known.append(remaining_content(facts))
            self.query_one(Static).update(Content("\n").join(known))
            transcript = self.query_one(Transcript)
            transcript.look_for(words_pattern(words))
            transcript.show(facts.messages, facts.leaks, facts.row.signs, at_end=self._at_end)

        def on_failure(error: WorkbenchError) -> None:
            """Says why it cannot be read."""
            self.query_one(Static).update(Content.styled(one_line(error.message), "$tone-muted"))

        background(
            self,
            lambda: load_facts(self._services, conversation_id),
            show,
            on_failure,
            group="preview",
        )


def curve_data(facts: Facts) -> CurveData:
    """Returns the curve of one conversation, without points where there is no score."""
    points = facts.score.curve if facts.score is not None else ()
    last_turn = facts.messages[-1].turn if facts.messages else 0
    return CurveData(points, facts.rule, last_turn)


def why_content(facts: Facts, why: str = "") -> Content:
    """Returns the state, score and reason of one conversation."""
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
    if facts.goal is not None:
        parts += [("\ngoal  ", "$tone-muted"), (one_line(facts.goal, 60), "bold")]
    return Content.assemble(*parts)


def remaining_content(facts: Facts) -> Content:
    """Returns the remaining tasks as the model wrote them, or why there are none."""
    remaining = facts.remaining
    if remaining is None:
        is_below = facts.row.state is State.INCOMPLETE
        why = (
            "not written yet; run scoring on the overview to write them"
            if is_below
            else "written only below the threshold"
        )
        return Content.styled(f"remaining tasks: {why}", "$tone-muted")
    if not remaining.text.strip():
        reason = one_line(remaining.reason or "the model gave nothing usable")
        return Content.styled(f"none: {reason}", "$tone-muted")
    return Content.styled(display_safe(remaining.text.strip()[:MAX_NOTE_CHARACTERS]), "$tone-model")


def note_content(facts: Facts) -> Content:
    """Returns the answers of people, and below them those of patterns, models and files."""
    machines = [f"\n{machine_answer_text(*row)}" for row in facts.machine_answers]
    return Content.assemble(_people_content(facts), ("".join(machines), "$tone-model"))


def _people_content(facts: Facts) -> Content:
    """Returns the answers of people, and what of them was said of an earlier text."""
    current = facts.current
    earlier = _earlier_line(current.earlier) if current is not None and current.earlier else ""
    if current is None or not (current.verdict or current.note or current.answers):
        return Content.styled("\n".join(filter(None, ("no verdict yet", earlier))), "$tone-muted")
    parts: list[tuple[str, str]] = []
    if current.verdict is not None:
        look = VERDICT_LOOKS[current.verdict]
        parts += [
            ("did they get it? ", "$tone-muted"),
            (f"{look.glyph} {look.word}", f"bold {look.tone_variable}"),
        ]
        if current.annotator:
            parts.append((f" by {one_line(current.annotator, 40)}", "$tone-muted"))
    if current.note:
        gap = "  " if parts else ""
        parts.append((gap + display_safe(current.note[:MAX_NOTE_CHARACTERS]), "bold"))
    for answer in current.answers:
        gap = "  " if parts else ""
        parts.append((f"{gap}{_answer_text(*answer)}", "$tone-accent"))
    if earlier:
        parts.append((f"\n{earlier}", "$tone-muted"))
    return Content.assemble(*parts)


def _answer_text(question: str, value: str) -> str:
    """Returns an answer to a question; of a yes the name of the question alone."""
    name = one_line(question, 40)
    return f"#{name}" if value == YES else f"{name}: {one_line(value, 40)}"


def _earlier_line(earlier: EarlierAnswers) -> str:
    """Returns what was said of an earlier text of the conversation."""
    acts = [earlier.verdict.value] if earlier.verdict is not None else []
    acts += ["the note"] if earlier.note else []
    acts += [_answer_text(*answer) for answer in earlier.answers]
    had = number_format.counted(earlier.messages, "message")
    return f"given when it had {had}: {', '.join(acts)}"
