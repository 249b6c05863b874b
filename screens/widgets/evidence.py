"""The evidence for a verdict: what is known of a conversation, its curve, its remaining tasks, what a person said.

Remaining tasks are what a model says is left to do in a conversation below the threshold.
"""

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
from engine.base.text import NAME_LIMIT, display_safe, one_line, short_name
from engine.completeness.records import DecisionRule, RemainingTasks, ScoreRow
from engine.conversations.records import MessageRow
from engine.formats.records import Leak
from engine.opener.conversations import ConversationRow
from engine.opener.open_project import OpenProject
from engine.questions.question import YES
from engine.questions.records import Answerer, AnswerRow, EarlierAnswers, MachineAnswer
from screens.widgets.background import background
from screens.widgets.controls import titled
from screens.widgets.curve import Curve, CurveData
from screens.widgets.finding import words_pattern
from screens.widgets.formatting import STATE_LOOKS, VERDICT_LOOKS, machine_answer_text
from screens.widgets.transcript import Transcript

MAX_NOTE_CHARACTERS = 2_000
"""Most characters that are shown of a note or of the remaining tasks."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of a conversation.

    Attributes:
        row: The row of the conversation.
        messages: Its messages.
        score: Its score in force; None without one.
        remaining: Its remaining tasks; None without any.
        leaks: What of its text is kept from models.
        current: The verdict, note and tags in force; None without any.
        rule: Tells the state of a score.
        goal: The label of its goal; None without one.
        machine_answers: What patterns, models and files answer to questions about it.
    """

    row: ConversationRow
    messages: list[MessageRow]
    score: ScoreRow | None
    remaining: RemainingTasks | None
    leaks: list[Leak]
    current: AnswerRow | None
    rule: DecisionRule
    goal: str | None = None
    machine_answers: Sequence[tuple[Answerer, MachineAnswer]] = ()

    def score_text(self, p: float) -> str:
        """Returns a score with as many digits as its state needs."""
        return number_format.probability(p, self.rule.digits(p))


def load_facts(services: OpenProject, conversation_id: int) -> Facts:
    """Reads the facts about a conversation.

    Raises:
        WorkbenchError: The conversation is no longer in the project.
    """
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
    """Shows the evidence in four short sections."""

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
            kind = Curve if name == "curve" else Static
            yield titled(kind(id=name, classes="section"), title)

    def show(self, facts: Facts, why: str) -> None:
        """Shows the facts about a conversation.

        Args:
            why: Why the conversation is in the queue; empty where there is no reason.
        """
        self.query_one("#why", Static).update(why_content(facts, why))
        self.query_one(Curve).show(curve_data(facts))
        self.query_one("#remaining", Static).update(remaining_content(facts))
        self.query_one("#note", Static).update(note_content(facts))

    def mark(self, message: int) -> None:
        """Marks on the curve the last boundary that is not after a message, by its index."""
        self.query_one(Curve).mark_message(message)


class Preview(Vertical):
    """Shows the conversation under the cursor of a list beside it; a terminal that is not very wide hides it."""

    def __init__(self, services: OpenProject, *, at_end: bool = False) -> None:
        """`at_end` begins at the last turn instead of the first message."""
        super().__init__()
        self._services, self._at_end = services, at_end
        # The conversation that is shown, and its marked words.
        self._followed: tuple[int, Sequence[str]] | None = None

    def compose(self) -> ComposeResult:
        """Yields what is known of the conversation, and its messages."""
        yield Static(classes="known")
        yield Transcript()

    def follow(self, conversation_id: int, words: Sequence[str] = ()) -> None:
        """Shows another conversation, with these words marked, as soon as there is room for it."""
        self._followed = conversation_id, words
        self.add_class("-followed")
        self._read()

    def on_show(self) -> None:
        """Reads the conversation that there was no room for before."""
        self._read()

    def _read(self) -> None:
        """Reads and shows the conversation, unless the terminal hides it."""
        if self._followed is None or not self.screen.has_class("-very-wide"):
            return
        conversation_id, words = self._followed

        def show(facts: Facts) -> None:
            """Shows the conversation, unless the cursor is on another one now."""
            if self._followed is None or self._followed[0] != conversation_id:
                return
            name = one_line(facts.row.external_id, NAME_LIMIT)
            known = [Content.styled(name, "bold"), why_content(facts), note_content(facts)]
            if facts.remaining is not None:
                known.append(remaining_content(facts))
            self.query_one(Static).update(Content("\n").join(known))
            transcript = self.query_one(Transcript)
            transcript.look_for(words_pattern(words))
            transcript.show(facts.messages, facts.leaks, facts.row.signs, at_end=self._at_end)

        def on_failure(error: WorkbenchError) -> None:
            """Shows why the conversation cannot be read."""
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
    """Returns the state, score, reason and goal of a conversation, after why it is in the queue."""
    look = STATE_LOOKS[facts.row.state]
    p = facts.row.p_end_normalised
    parts: list[Content | tuple[str, str] | str] = []
    if why:
        parts.append((one_line(why) + "\n", "bold"))
    parts.append((f"{look.glyph} {look.word}", look.tone_variable))
    if p is not None:
        parts.append((f"  {number_format.bar(p)} ", look.tone_variable))
        parts.append((facts.score_text(p), f"bold {look.tone_variable}"))
        threshold = number_format.probability(facts.rule.threshold)
        parts.append((f"  threshold {threshold}", "$tone-muted"))
        if words := curve_data(facts).sentence:
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
        parts += [("\ngoal  ", "$tone-muted"), (one_line(facts.goal, NAME_LIMIT), "bold")]
    return Content.assemble(*parts)


def remaining_content(facts: Facts) -> Content:
    """Returns the remaining tasks as the model wrote them, or why there are none."""
    remaining = facts.remaining
    if remaining is None:
        why = "written only below the threshold"
        if facts.row.state is State.INCOMPLETE:
            why = "not written yet; run scoring on the overview to write them"
        return Content.styled(f"remaining tasks: {why}", "$tone-muted")
    if not remaining.text.strip():
        reason = one_line(remaining.reason or "the model gave nothing usable")
        return Content.styled(f"none: {reason}", "$tone-muted")
    return Content.styled(display_safe(remaining.text.strip()[:MAX_NOTE_CHARACTERS]), "$tone-model")


def note_content(facts: Facts) -> Content:
    """Returns the answers of people, and below them those of patterns, models and files."""
    answers = [f"\n{machine_answer_text(*row)}" for row in facts.machine_answers]
    return Content.assemble(_people_content(facts), ("".join(answers), "$tone-model"))


def _people_content(facts: Facts) -> Content:
    """Returns the answers of people, and those that were given to an earlier text of the conversation."""
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
            parts.append((f" by {short_name(current.annotator)}", "$tone-muted"))
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
    """Returns an answer to a question; where it is yes, only the name of the question."""
    name = short_name(question)
    return f"#{name}" if value == YES else f"{name}: {short_name(value)}"


def _earlier_line(earlier: EarlierAnswers) -> str:
    """Returns the answers that were given to an earlier text of the conversation."""
    answers = [earlier.verdict.value] if earlier.verdict is not None else []
    if earlier.note:
        answers.append("the note")
    answers += [_answer_text(*answer) for answer in earlier.answers]
    length = number_format.counted(earlier.messages, "message")
    return f"given when it had {length}: {', '.join(answers)}"
