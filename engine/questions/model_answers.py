"""What a model is asked for an answer to a question: the form of its reply, the parts of a log, and how the answers on
parts and the votes become one answer (docs/questions.md has the rules).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median_low
from typing import Annotated, Any, Literal, cast

import msgspec

from engine.base.conversation import Message, count_pinned, render_log
from engine.base.errors import UsageError
from engine.model.log_windows import last_pieces, longest_piece, plan_windows
from engine.model.prompt_files import Prompt
from engine.model.structured_replies import LEFT_OUT_MARK, StructuredReply, fenced_log
from engine.questions.question import NO, UNSURE, YES, Question
from engine.questions.records import MachineAnswer

MAX_CITED_STEPS = 12
"""Most steps that a reply names."""

MAX_EXPLANATION, MAX_TEXT = 500, 1_000
"""Most characters of an explanation, and of an answer that is a text."""

OVERLAP = 0.15
"""Share of a later part of a log that repeats the end of the part before, so that it is understood."""

TIED = 0.5
"""Probability of the answer *unsure* where as many votes say yes as no."""

LABELED = ("yes-no", "choice", "scale")
"""The kinds of questions whose answer is one of some, so that it has a probability."""


class Reply(msgspec.Struct):
    """What a model replies to a question; `reply_form` gives the type of the answer."""

    explanation: Annotated[
        str,
        msgspec.Meta(max_length=MAX_EXPLANATION, description="why, in a sentence or two"),
    ]
    cites: Annotated[
        list[int],
        msgspec.Meta(
            max_length=MAX_CITED_STEPS,
            description="numbers of the STEPs that show it, none if nothing does",
        ),
    ]
    value: Any


def reply_form(question: Question) -> type[Reply]:
    """Returns the form of the reply to a question: explanation, cited steps, answer."""
    label: Any = Literal[question.answers] if question.answers else None
    types: Mapping[str, Any] = {
        "several": list.__class_getitem__(label),
        "number": float,
        "text": str,
    }
    limits = {"several": len(question.answers), "text": MAX_TEXT}
    meta = msgspec.Meta(description="the answer", max_length=limits.get(question.kind))
    fields = [("value", Annotated[types.get(question.kind, label), meta])]
    return cast(type[Reply], msgspec.defstruct("Answer", fields, bases=(Reply,)))


def question_prompt(prompt: Prompt, question: Question) -> Prompt:
    """Returns the prompt with a question, its guidance and its labels."""
    lines = [f"Question: {question.text}", *filter(None, [question.guidance])]
    if question.roles:
        lines.append(f"It is about the messages of: {', '.join(question.roles)}.")
    lines += [f"- {answer}: {guidance}" for answer, guidance in question.labels.items()]
    if question.between:
        lines.append("The answer is from {:g} to {:g}.".format(*question.between))
    return replace(prompt, question="\n".join([f"{prompt.question}\n", *lines]))


@dataclass(frozen=True, slots=True)
class LogPart:
    """A part of a log, as a model reads it.

    Attributes:
        text: Its steps between marks.
        messages: The index of the message of each step that is shown, by the number of the step.
        note: What was left out or shortened; None for nothing.
    """

    text: str
    messages: Mapping[int, int]
    note: str | None


def log_parts(messages: Sequence[Message], room: int, *, last: bool) -> list[LogPart]:
    """Returns the parts of a log: all of it where it fits.

    Args:
        room: Most characters of a part.
        last: Whether only the last part of a log that does not fit is read.
    """
    pieces = render_log(messages)
    pinned = count_pinned(pieces)
    lengths = [len(piece.text) for piece in pieces]
    plan: list[Sequence[int]] = [range(len(pieces))]
    if sum(lengths) > room and last:
        lengths = [min(length, longest_piece(room)) for length in lengths]
        plan = [last_pieces(lengths, pinned, room - len(LEFT_OUT_MARK))]
    elif sum(lengths) > room:
        boundaries = range(pinned, len(pieces))
        windows = plan_windows(lengths, boundaries, pinned, room, overlap=OVERLAP)
        plan = [window.pieces for window in windows]
    parts = []
    for number, indices in enumerate(plan, 1):
        shown = [pieces[index] for index in indices]
        texts = [piece.text for piece in shown]
        left_out = len(pieces) - len(shown) if last else 0
        if left_out:
            texts.insert(pinned, LEFT_OUT_MARK.format(left_out))
        text, note = fenced_log(texts, pinned + bool(left_out), room)
        if len(plan) > 1:
            text = f"This is part {number} of {len(plan)} of a long log.\n\n{text}"
        if left_out:
            note = f"{left_out} of {len(pieces)} steps left out"
        parts.append(LogPart(text, {piece.step: piece.message for piece in shown}, note))
    return parts


def explain_refusal(question: Question, part: LogPart, reply: Reply) -> str:
    """Returns why a reply to a part cannot be used, in words that the model is told; empty where it can."""
    unknown = [step for step in reply.cites if step not in part.messages]
    if unknown:
        steps = ", ".join(map(str, part.messages))
        return f"There is no STEP {unknown[0]} in the log; it has the STEPs {steps}."
    try:
        _value_to_store(question, reply)
    except UsageError as error:
        return f"{error.message} {error.hint}"
    return ""


def _value_to_store(question: Question, reply: Reply) -> str:
    """Returns the answer of a reply as it is stored; empty for none of several labels.

    Raises:
        UsageError: The question cannot have this answer.
    """
    value = reply.value
    if isinstance(value, list):
        return question.answer(",".join(value)) if value else ""
    return question.answer(f"{value:.12g}" if isinstance(value, float) else str(value))


def answer_of_reply(
    conversation_id: int, question: Question, part: LogPart, reply: StructuredReply[Reply]
) -> MachineAnswer:
    """Returns the answer of a reply to a part; without a value where the reply cannot be used, whose note says why."""
    if reply.fields is None:
        return MachineAnswer(conversation_id, None, note=reply.failure)
    cites = sorted({part.messages[step] for step in reply.fields.cites})
    return MachineAnswer(
        conversation_id,
        _value_to_store(question, reply.fields),
        reply.probability,
        " ".join(reply.fields.explanation.split()),
        tuple((index, 0, 0) for index in cites),
        ", ".join(filter(None, [part.note, reply.note])),
    )


def join_part_answers(question: Question, parts: Sequence[MachineAnswer]) -> MachineAnswer:
    """Returns the answer on a log by those on its parts, in order. One that has none leaves the log without one.

    A yes-no question is answered yes where a part says so and cites a message, else unsure where one says yes or
    unsure, else no; its probability is that of the surest yes, or of the least sure no. A choice has the answer of most
    parts, the later one where they are equal; a scale the median; several the union; a number the largest; a text all.
    """
    first = next((part for part in parts if part.value is None), parts[0])
    if len(parts) == 1 or first.value is None:
        return first
    values = [part.value or "" for part in parts]
    match question.kind:
        case "yes-no" if any(part.value == YES and part.cites for part in parts):
            value = YES
        case "yes-no":
            value = UNSURE if {YES, UNSURE} & set(values) else NO
        case "choice":
            value = Counter(reversed(values)).most_common(1)[0][0]
        case "scale":
            value = question.answers[median_low(map(question.answers.index, values))]
        case "several":
            labels_of_parts = {label for text in values for label in text.split(",")}
            value = ",".join(label for label in question.answers if label in labels_of_parts)
        case "number":
            value = max(values, key=float)
        case _:
            value = " ".join(values)
    deciding = [part for part in parts if part.value == value] or parts
    known = [part.p for part in deciding if part.value == value and part.p is not None]
    surest = min if value == NO else max
    notes = dict.fromkeys(part.note for part in parts if part.note)
    return MachineAnswer(
        first.conversation_id,
        value,
        surest(known) if known and question.kind == "yes-no" else None,
        " ".join(part.explanation for part in deciding),
        tuple(sorted({cite for part in deciding for cite in part.cites})),
        ", ".join([f"read in {len(parts)} parts", *notes]),
    )


def count_votes(question: Question, votes: Sequence[MachineAnswer]) -> MachineAnswer:
    """Returns the answer that most votes give; it has their share as its probability, and the explanation of the first.

    Votes that are equal in number make a yes-no question unsure, with the probability `TIED`; other questions take the
    answer that came first. Of several labels those are taken that more than half of the votes name; of numbers the
    median.
    """
    usable_votes = [vote for vote in votes if vote.value is not None]
    if len(votes) == 1 or not usable_votes:
        return votes[0]
    values = [vote.value or "" for vote in usable_votes]
    (value, count), *rarer = Counter(values).most_common()
    tied = question.kind == "yes-no" and bool(rarer) and rarer[0][1] == count
    if tied:
        value = UNSURE
    elif question.kind == "several":
        named = Counter(label for text in values for label in text.split(","))
        value = ",".join(label for label in question.answers if named[label] > len(votes) / 2)
    elif question.kind == "number":
        value = str(sorted(values, key=float)[(len(values) - 1) // 2])
    agreeing = [vote for vote in usable_votes if vote.value == value]
    first = (agreeing or usable_votes)[0]
    share = TIED if tied else len(agreeing) / len(votes)
    return replace(
        first,
        value=value,
        p=share if question.kind in LABELED else None,
        note=", ".join(
            filter(
                None,
                ["tied votes" if tied else f"{len(agreeing)} of {len(votes)} votes", first.note],
            )
        ),
    )
