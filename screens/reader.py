"""The reader: the turns of one conversation, and beside them the completeness curve.

It reads through an order of conversations, such as a list; the place is the index of the present one in that order.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Static

from engine.base import number_format
from engine.base.conversation import with_calls, without_surrogates
from engine.base.sign import in_words
from engine.base.text import NAME_LIMIT, end_of_path, one_line
from engine.conversations.records import MessageRow
from engine.opener.conversations import ConversationService
from engine.opener.open_project import OpenProject
from screens.shell.exporting import copy
from screens.shell.reading_dialogs import ReadingDialog, reading_keys
from screens.shell.title_line import TitleLine
from screens.shell.workbench_screen import WorkbenchScreen
from screens.widgets.controls import titled
from screens.widgets.curve import Curve
from screens.widgets.evidence import Facts, curve_data, load_facts, note_content, remaining_content
from screens.widgets.finding import FindLine, words_pattern
from screens.widgets.formatting import STATE_LOOKS, fitting
from screens.widgets.jobs import EngineFeed
from screens.widgets.transcript import Transcript
from screens.widgets.word_reasons import WordPanel

MAX_SOURCE_CHARACTERS = 30
"""Most characters of the path of the source on the first line, which has more important things."""


class ReaderScreen(WorkbenchScreen[int]):
    """Shows conversations one after another; returns the id of the last one when it is closed."""

    FIRST_KEYS = ("reader.next", "reader.find", "reader.leave")
    AUTO_FOCUS = "#text"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "right,J",
            "go(1)",
            "Next",
            key_display="← →",
            tooltip="Next conversation of the list",
            id="reader.next",
        ),
        Binding("left,K,p", "go(-1)", "Previous", show=False, tooltip="Previous conversation of the list"),
        Binding("slash", "find", "Find", tooltip="Find in this conversation"),
        Binding(
            "n",
            "hit(1)",
            "Next hit",
            show=False,
            tooltip="Next hit, or the next conversation when nothing is looked for",
        ),
        Binding("N", "hit(-1)", "Previous hit", show=False),
        Binding("t", "tree", "Tree", show=False, tooltip="The response tree grown at this turn"),
        Binding("w", "words", "Words", tooltip="The words for and against an end at this turn, or no longer"),
        Binding("o", "original", "Original", tooltip="The record as imported"),
        Binding("m", "raw", "Raw", tooltip="Styled and laid out, or as imported"),
        Binding("y", "copy_message", "Copy", tooltip="Copy this message"),
        Binding("v", "view", "Curve", tooltip="Turns or curve, on a narrow terminal"),
        Binding("escape", "leave", "Back", tooltip="Give up finding, or go back"),
        Binding("q", "close", "Close", show=False, tooltip="Go back"),
    ]  # fmt: skip

    def __init__(
        self,
        services: OpenProject,
        feed: EngineFeed,
        order: array[int],
        place: int,
        mode: str,
        words: Sequence[str] = (),
    ) -> None:
        """Opens the conversation at a place in `order`, with `words` highlighted."""
        super().__init__(services, feed, mode)
        self._facts: Facts | None = None
        self._order = order
        self._place = place
        self._words = tuple(words)

    @property
    def conversation_id(self) -> int:
        """Id of the conversation that is shown."""
        return self._order[self._place]

    def compose_body(self) -> ComposeResult:
        """Yields the summary, the turns, what is beside them, and the find line."""
        yield Static(id="summary")
        with Horizontal(id="main"):
            transcript = Transcript(id="text")
            yield transcript
            with Vertical(id="side"):
                yield titled(Curve(id="curve", classes="section"), "Curve of the score")
                yield Static(id="reach")
                for name, title in (
                    ("remaining", "Remaining tasks (model)"),
                    ("note", "You"),
                ):
                    yield titled(Static(id=name, classes="section"), title)
            yield WordPanel(self.services.word_reasons, transcript)
        yield FindLine(transcript)

    def on_mount(self) -> None:
        """Highlights the words that the conversation was opened with."""
        pattern = words_pattern(self._words)
        if pattern is not None:
            self.query_one(FindLine).show_words(" ".join(self._words))
            self.query_one(Transcript).look_for(pattern)

    def refresh_data(self) -> None:
        """Reads the conversation and what is known about it."""
        conversation_id = self.conversation_id
        self.in_background(
            lambda: load_facts(self.services, conversation_id), self._show_facts, group="facts"
        )

    def _show_facts(self, facts: Facts) -> None:
        """Shows a conversation and what is known about it; the transcript of the same one keeps its place."""
        same = self._facts is not None and self._facts.row.id == facts.row.id
        self._facts = facts
        self.query_one("#summary", Static).update(summary_content(facts, self.size.width))
        place = f"{self._place + 1:,} of {len(self._order):,}"
        self.query_one(TitleLine).say(Content.styled(place, "$tone-muted"))
        data = curve_data(facts)
        curve = self.query_one(Curve)
        curve.show(data)
        self.query_one("#reach", Static).update(Content(data.sentence))
        self.query_one("#remaining", Static).update(remaining_content(facts))
        self.query_one("#note", Static).update(note_content(facts))
        transcript = self.query_one(Transcript)
        if not same:
            transcript.show(facts.messages, facts.leaks, facts.row.signs, facts.machine_answers)
        elif transcript.message is not None:
            curve.mark_message(transcript.last_of_turn)
            self._follow_words()

    def _follow_words(self) -> None:
        """Shows the words at the current turn, while their panel is open."""
        self.query_one(WordPanel).follow(self.conversation_id)

    def on_transcript_turn_changed(self, message: Transcript.TurnChanged) -> None:
        """Marks the turn on the curve."""
        self.query_one(Curve).mark_message(message.message)
        self._follow_words()

    # Search

    def action_find(self) -> None:
        """Opens the find line."""
        self.query_one(FindLine).open()

    def action_hit(self, delta: int) -> None:
        """Goes to another hit; when nothing is looked for, to the next conversation."""
        if self.query_one(FindLine).is_open:
            self.query_one(Transcript).go_to_hit(delta)
        elif delta > 0:
            self.action_go(delta)
        else:
            self.notify("Nothing is looked for: / finds.", markup=False)

    # Keys

    def action_raw(self) -> None:
        """Changes between styled, laid-out text and text as imported."""
        transcript = self.query_one(Transcript)
        transcript.show_raw(not transcript.raw)
        self._follow_words()

    def action_go(self, delta: int) -> None:
        """Reads the next or the previous conversation of the order."""
        place = self._place + delta
        if 0 <= place < len(self._order):
            self._place = place
            self.refresh_data()
        else:
            word = "last" if delta > 0 else "first"
            self.notify(f"This is the {word} conversation of the list.", markup=False)

    def action_tree(self) -> None:
        """Opens the response tree at the current turn, or at the nearest step that has one."""
        if self._facts is None or self.query_one(Transcript).message is None:
            return
        conversation_id, end = self.conversation_id, self.query_one(Transcript).last_of_turn + 1
        # A step is the number of messages before a tree, without those that are kept from models.
        step = sum(not message.hidden for message in self._facts.messages[:end])

        def open_nearest(steps: list[int]) -> None:
            if not steps:
                self.notify(
                    "No response tree was grown here; 4 and then r grows them.", markup=False
                )
                return
            nearest = min(steps, key=lambda tree_step: abs(tree_step - step))
            self.app.push_screen(self.routes.tree(conversation_id, nearest, self.MODE))

        read_steps = self.services.trees.steps
        self.in_background(lambda: read_steps(conversation_id), open_nearest, group="trees")

    def action_words(self) -> None:
        """Opens or closes the words for and against an end at the current turn."""
        self.query_one(WordPanel).toggle(self.conversation_id)

    def action_original(self) -> None:
        """Shows the record as imported."""
        self.app.push_screen(OriginalDialog(self.services.conversations, self.conversation_id))

    def action_copy_message(self) -> None:
        """Copies the current message."""
        message = self.query_one(Transcript).message
        if message is not None:
            copy(self, message_text(message), f"message {message.index + 1}, {message.role}")

    def action_view(self) -> None:
        """Changes between the turns and what is beside them, where both have no room."""
        self.toggle_class("-side")
        if not self.has_class("-side"):
            self.query_one(Transcript).focus()

    def action_leave(self) -> None:
        """Gives up finding, and goes back when nothing is looked for."""
        line = self.query_one(FindLine)
        if line.is_open:
            line.close()
        else:
            self.action_close()

    def action_close(self) -> None:
        """Goes back."""
        self.dismiss(self.conversation_id)


class OriginalDialog(ReadingDialog):
    """Shows the record of a conversation as it was imported, made safe for the terminal."""

    TEXT_NAME = "the record"
    TITLE = "The record as imported"
    BINDINGS: ClassVar[list[BindingType]] = reading_keys("o")

    def __init__(self, conversations: ConversationService, conversation_id: int) -> None:
        super().__init__()
        self._conversations = conversations
        self._conversation_id = conversation_id

    def read_text(self) -> str:
        """Returns the record; a byte that is not UTF-8 becomes a replacement character."""
        return self._conversations.original(self._conversation_id).decode(errors="replace")


def summary_content(facts: Facts, width: int) -> Content:
    """Returns what a conversation is on one line, and on further lines its goal and its signs of trouble, if any."""
    lines = [_first_line(facts, width - 2)]
    if facts.goal is not None:
        goal = one_line(facts.goal, NAME_LIMIT)
        lines.append(Content.assemble(("goal  ", "$tone-muted"), (goal, "bold")))
    if facts.row.signs:
        words = fitting(in_words(facts.row.signs).split(" · "), width - len(" ! ") - 1)
        lines.append(Content.styled(f"! {words}", "$tone-borderline"))
    return Content("\n").join(lines)


def _first_line(facts: Facts, cells: int) -> Content:
    """Returns the state, score, reason and name of a conversation, and what of turns and source fits into `cells`
    cells."""
    row = facts.row
    look = STATE_LOOKS[row.state]
    p = row.p_end_normalised
    score = f" {number_format.bar(p)} {facts.score_text(p)}" if p is not None else ""
    reason = f" ({one_line(row.reason, NAME_LIMIT)})" if row.reason else ""
    first = Content.assemble(
        (f"{look.glyph} {look.word}{score}", look.tone_variable),
        (f"{reason} · ", "$tone-muted"),
        (one_line(row.external_id, NAME_LIMIT), "bold"),
    )
    source = end_of_path(row.source, MAX_SOURCE_CHARACTERS)
    more = [number_format.counted(row.turns, "turn"), source]
    room = max(1, cells - first.cell_length - len(" · "))
    return Content.assemble(first, (f" · {fitting(more, room)}", "$tone-muted"))


def message_text(message: MessageRow) -> str:
    """Returns a message as imported, its tool calls below it, for the clipboard."""
    text = message.content
    return without_surrogates(with_calls(text, message.tool_calls) if message.tool_calls else text)
