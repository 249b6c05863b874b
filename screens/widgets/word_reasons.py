"""The words for and against an end: a panel that shows how much each counts, and their marks in the transcript.

A reason is a word or another feature of the messages that makes the score of a conversation higher or lower.
"""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import Container, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from engine.base.errors import WorkbenchError
from engine.base.number_format import bar, probability, signed
from engine.base.text import ERROR_LIMIT, one_line
from engine.completeness.service.word_reasons import WordReasons
from engine.completeness.word_reasons import Reason, ScoreReasons, reason_text
from engine.conversations.records import MessageRow
from screens.widgets.background import background
from screens.widgets.messages import Span, message_parts, safe_text
from screens.widgets.transcript import AGAINST, FOR, Transcript
from screens.widgets.transcript_layout import ROLE_LABELS

BAR_CELLS = 5
"""Cells of the bar of a share, which is full for the strongest reason."""
MAX_WORD_CHARACTERS = 24
"""Most characters that are shown of a reason."""

Marks = dict[tuple[int, int], list[Span]]
"""Spans in the parts of messages, by the message and its part; the spans of a part are in order."""


class WordPanel(VerticalScroll, can_focus=False):
    """Shows the words for and against an end at the current turn, while the screen has the class `-why`."""

    def __init__(self, word_reasons: WordReasons, transcript: Transcript) -> None:
        super().__init__()
        self._word_reasons, self._transcript = word_reasons, transcript

    def compose(self) -> ComposeResult:
        """Yields the sum of all words, those for an end, and those against it."""
        yield Static(id="words-sum")
        with Container():
            yield Static(id="words-for")
            yield Static(id="words-against")

    def toggle(self, conversation_id: int) -> None:
        """Opens the panel and brings the end of the current turn into sight, or closes it."""
        if self.screen.toggle_class("-why").has_class("-why"):
            self._transcript.call_after_refresh(self._transcript.reveal_turn)
        self.follow(conversation_id)

    def follow(self, conversation_id: int) -> None:
        """Shows the words at the current turn and marks them while the panel is open; else removes the marks."""
        transcript = self._transcript
        if not self.screen.has_class("-why") or transcript.message is None:
            transcript.mark({})
            return
        message, messages, raw = transcript.last_of_turn, transcript.messages, transcript.raw

        def read() -> tuple[ScoreReasons, Marks]:
            """Returns the reasons at the turn, and where their words stand."""
            reasons = self._word_reasons.of_conversation(conversation_id, message)
            return reasons, mark_spans(messages, reasons.reasons, raw=raw)

        def show(result: tuple[ScoreReasons, Marks]) -> None:
            reasons, marks = result
            self._show(sum_content(reasons), reasons.for_end, reasons.against_end)
            transcript.mark(marks)

        def on_failure(error: WorkbenchError) -> None:
            self._show(Content(one_line(str(error), ERROR_LIMIT)))
            transcript.mark({})

        background(self, read, show, on_failure, group="words")

    def _show(
        self, sentence: Content, for_end: Sequence[Reason] = (), against_end: Sequence[Reason] = ()
    ) -> None:
        """Shows a sentence, and below it the reasons."""
        strongest = max((reason.share for reason in (*for_end, *against_end)), default=1.0)
        self.query_one("#words-sum", Static).update(sentence)
        for name, title, tone, reasons in (
            ("for", "for an end", "$tone-complete", for_end),
            ("against", "against", "$tone-incomplete", against_end),
        ):
            lines = [Content.styled(title if reasons else "", f"bold {tone}")]
            lines += [reason_content(reason, strongest, tone) for reason in reasons]
            self.query_one(f"#words-{name}", Static).update(Content("\n").join(lines))


def sum_content(reasons: ScoreReasons) -> Content:
    """Returns the score after a message, and what makes it apart from the words that are listed."""
    others = [f"before any word {signed(reasons.intercept)}", f"other words {signed(reasons.rest)}"]
    if reasons.states is not None:
        others.append(f"the model's states {signed(reasons.states)}")
    return Content.assemble(
        (f"{probability(reasons.p)} after message {reasons.message + 1}", "bold"),
        (
            f"  all parts add up to {signed(reasons.log_odds)}: {', '.join(others)}",
            "$tone-muted",
        ),
    )


def reason_content(reason: Reason, strongest: float, tone: str) -> Content:
    """Returns a reason as a line: its share as a bar and in percent, its words, and the message that has them.

    Args:
        strongest: The share whose bar is full.
    """
    text, place = one_line(reason_text(reason), MAX_WORD_CHARACTERS), ROLE_LABELS[reason.role]
    if reason.kind == "speakers":
        text, place = reason_text(reason), ""
        for role, label in ROLE_LABELS.items():
            text = text.replace(role, label)
    elif reason.distance:
        place += f" {reason.distance} back"
    return Content.assemble(
        (bar(reason.share / strongest, BAR_CELLS), tone),
        (f" {reason.share:>4.0%} ", tone),
        text,
        (f"  {place}", "$tone-muted"),
    )


def mark_spans(messages: Sequence[MessageRow], reasons: Sequence[Reason], *, raw: bool) -> Marks:
    """Returns where the words of reasons stand in the parts of messages as they are drawn.

    A drawn text differs from the content in its blanks, and JSON in little else, so characters that are not blank are
    counted. Words of tool calls, whose places are not known, are marked wherever the call has them.
    """
    marks: Marks = {}
    for reason in reasons:
        if not reason.text or reason.kind == "speakers":
            continue
        message, style = messages[reason.message], FOR if reason.weight > 0 else AGAINST
        words, _ = _without_blanks(safe_text(reason.text))
        for number, part in enumerate(message_parts(message, raw=raw)):
            if part.reasoning or (part.call and reason.places):
                continue
            text, indices = _without_blanks(safe_text(part.text))
            if part.call:
                starts = _occurrences(text, words)
            else:
                places = (message.content[:start] for start, _ in reason.places)
                starts = [len(_without_blanks(before)[0]) for before in places]
                starts = [start for start in starts if text.startswith(words, start)]
            spans = [
                (indices[start], indices[start + len(words) - 1] + 1, style) for start in starts
            ]
            marks.setdefault((reason.message, number), []).extend(spans)
    return {part: sorted(spans) for part, spans in marks.items()}


def _without_blanks(text: str) -> tuple[str, Sequence[int]]:
    """Returns a text in small letters without blanks, and the index in `text` of each of its characters."""
    indices = [index for index, character in enumerate(text) if not character.isspace()]
    # A letter whose small form has several characters would move those after it.
    small = [text[index].lower() for index in indices]
    return "".join(letter if len(letter) == 1 else "?" for letter in small), indices


def _occurrences(text: str, words: str) -> list[int]:
    """Returns the indices at which words begin in a text, without overlaps."""
    starts = []
    start = text.find(words)
    while start >= 0 and words:
        starts.append(start)
        start = text.find(words, start + len(words))
    return starts
