"""Chat replies in the model process: conversations are rendered by the chat template, and the oldest messages are left
out if they do not fit.

Control tokens are recognized only in the text of the template. Message contents are untrusted and tokenized as plain
text, so that none of them can forge a turn.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate

from engine.base.errors import ContextTooSmall, ModelError
from engine.model.batched_replies import generate
from engine.model.chat import Call, ChatMessage, Completion, Speaker
from engine.model.generation import GenerativeModel, Reply, Task
from engine.model.interface import Tokenizer
from engine.model.log_windows import GAP, MIN_LOG_TOKENS, clip
from engine.model.process.log_probs import PrefixQuestion, continuation_log_probs
from engine.model.prompt_files import started
from engine.model.reply_forms import find_value, value_words

MAX_LOG_ODDS = 700.0
"""Log-odds against a value, in nats, above which the probability is taken as at this value; `math.exp` overflows at
710."""

_EDGE = "\x0b"
"""Whitespace that no template writes. It is put around each mark; if it is missing, the template trims contents."""

_MARK = re.compile(f"(?P<front>{_EDGE}?)\ue000(?P<index>[0-9]+)\ue001(?P<back>{_EDGE}?)")
"""The mark that stands for the content of a message while the template is rendered: the message's index between two
characters of Unicode's private use, and the edges before and after it if they were not trimmed."""

_Arrangement = list[tuple[Speaker, str]]
"""Messages as a template gets them: speaker, and a text with the marks of the contents."""


def chat_tokens(
    tokenizer: Tokenizer, messages: Sequence[ChatMessage], opening: str = ""
) -> list[int]:
    """Returns the tokens that a model reads before it writes the next assistant message.

    If the template refuses system messages or wants alternating roles, the system message becomes a user message and
    consecutive messages of one role are joined.

    Args:
        opening: Beginning of the reply, written for the model.

    Raises:
        ModelError: The model has no chat template, or one that takes no such messages.
    """
    rendered = _render_with_marks(tokenizer, [message.speaker for message in messages])
    tokens: list[int] = []
    position = 0
    for mark in _MARK.finditer(rendered):
        before = rendered[position : mark.start()]
        tokens += tokenizer.tokenize(before, special=True) if tokens else started(tokenizer, before)
        content = messages[int(mark["index"])].content
        content = content if mark["front"] else content.lstrip()
        content = content if mark["back"] else content.rstrip()
        tokens += tokenizer.tokenize(content) if content else []
        position = mark.end()
    tokens += tokenizer.tokenize(rendered[position:], special=True)
    return tokens + (tokenizer.tokenize(opening) if opening else [])


def _render_with_marks(tokenizer: Tokenizer, speakers: Sequence[Speaker]) -> str:
    """Returns the rendered template with a mark in place of each message content.

    Raises:
        ModelError: The model has no chat template, or the template takes no such messages.
    """
    refusal: ModelError | None = None
    for arrangement in _possible_arrangements(speakers):
        try:
            rendered = tokenizer.render_chat(
                [{"role": speaker, "content": content} for speaker, content in arrangement]
            )
        except ModelError as error:
            refusal = refusal or error
            continue
        written_indices = [int(mark["index"]) for mark in _MARK.finditer(rendered)]
        if written_indices == list(range(len(speakers))):
            return rendered
    raise refusal or ModelError("The model's chat template leaves messages out.")


def _possible_arrangements(speakers: Sequence[Speaker]) -> Iterator[_Arrangement]:
    """Yields the messages as they are, then in the simplest form, which all templates accept."""
    as_given: _Arrangement = [
        (speaker, f"{_EDGE}\ue000{index}\ue001{_EDGE}") for index, speaker in enumerate(speakers)
    ]
    yield as_given
    alternating: _Arrangement = []
    for speaker, content in as_given:
        side: Speaker = "assistant" if speaker == "assistant" else "user"
        last_side, last_content = alternating[-1] if alternating else (None, "")
        if last_side == side:
            alternating[-1] = side, f"{last_content}\n\n{content}"
        else:
            alternating.append((side, content))
    first_side, _ = alternating[0]
    if first_side == "assistant":
        alternating.insert(0, ("user", ""))
    yield alternating


def chat_replies(
    model: GenerativeModel, calls: Sequence[Call], progress: Callable[[int], None] | None = None
) -> list[Completion]:
    """Returns the reply to each call, written in one batch; a reply depends on its own call alone.

    Args:
        progress: Called now and then with the number of finished replies.

    Raises:
        ModelError: The model has no chat template, or no room for a conversation beside the reply.
        Cancelled: The request was cancelled.
    """
    tasks, notes = [], []
    for call in calls:
        tokens, note = fit_into_context(model, call, model.longest_sequence)
        tasks.append(Task(tokens, call.sampling, call.max_tokens, call.stop, call.seed))
        notes.append(note)
    replies = generate(model, tasks, progress)
    # The first continuation is the value that the reply gives, the others are those that it could have given.
    questions = {
        index: question
        for index, (call, task) in enumerate(zip(calls, tasks, strict=True))
        if call.probability_of
        and (question := _value_question(model, call, task.prompt, replies[index]))
    }
    log_probs = continuation_log_probs(model, list(questions.values())) if questions else []
    probabilities = {
        index: 1 / sum(math.exp(min(MAX_LOG_ODDS, log_p - values[0])) for log_p in values)
        for index, values in zip(questions, log_probs, strict=True)
    }
    return [
        Completion(reply.text, reply.stopped, note, probabilities.get(index))
        for index, (reply, note) in enumerate(zip(replies, notes, strict=True))
    ]


def _value_question(
    tokenizer: Tokenizer, call: Call, prompt: Sequence[int], reply: Reply
) -> PrefixQuestion | None:
    """Returns the question for the values of the field of a call where the reply gives one; None if it gives none.

    Args:
        prompt: The tokens before the reply.
    """
    words = value_words(call.sampling.json_schema, call.probability_of)
    texts = [tokenizer.token_bytes(token) for token in reply.tokens]
    place = find_value(b"".join(texts), call.probability_of, words)
    if place is None:
        return None
    ends = list(accumulate(map(len, texts)))
    index = bisect_right(ends, place.start)
    # The value may begin within a token.
    value_start = texts[index][: place.start - ends[index] + len(texts[index])].decode(
        "utf-8", "ignore"
    )
    values = [place.value, *(value for value in words if value != place.value)]
    answers = [tokenizer.tokenize(value_start + value + place.after) for value in values]
    return PrefixQuestion([*prompt, *reply.tokens[:index]], answers)


def fit_into_context(
    tokenizer: Tokenizer, call: Call, context: int
) -> tuple[list[int], str | None]:
    """Returns the tokens of a call's conversation and opening, shortened to leave room for the reply, and a note on
    what was left out (None for nothing).

    Args:
        context: Longest sequence of the model, in tokens.

    Raises:
        ModelError: There is no room for a conversation beside the reply.
    """
    room = context - call.max_tokens
    if room < MIN_LOG_TOKENS:
        raise ContextTooSmall(
            f"A reply of {call.max_tokens:,} tokens leaves no room for a conversation in a context "
            f"of {context:,}.",
            "Use a larger context or shorter replies.",
        )
    retained, left_out = list(call.messages), 0
    while len(tokens := chat_tokens(tokenizer, retained, call.opening)) > room:
        shorter = without_oldest(retained)
        if shorter is None:
            return _shorten_messages(tokenizer, call, retained, left_out, room)
        left_out += len(retained) - len(shorter)
        retained = shorter
    return tokens, left_out_note(left_out, len(call.messages)) or None


def without_oldest(messages: Sequence[ChatMessage]) -> list[ChatMessage] | None:
    """Returns the messages without the oldest one after the system message and without the replies to it; None if only
    the last message could be removed."""
    first = next(
        (position for position, message in enumerate(messages) if message.speaker != "system"),
        len(messages),
    )
    last = len(messages) - 1
    if first >= last:
        return None
    after = first + 1
    while after < last and messages[after].speaker == "assistant":
        after += 1
    return [*messages[:first], *messages[after:]]


def left_out_note(left_out: int, count: int) -> str:
    """Returns a note on the number of messages left out; "" for none."""
    return f"{left_out} of {count} messages left out" if left_out else ""


def _shorten_messages(
    tokenizer: Tokenizer, call: Call, retained: Sequence[ChatMessage], left_out: int, room: int
) -> tuple[list[int], str]:
    """Returns the tokens of the messages with the middle of each long one left out, and a note on what was left out.

    Args:
        left_out: Number of messages that were left out before.
        room: Largest number of tokens.

    Raises:
        ContextTooSmall: Not even the ends of the messages fit.
    """
    # Each message gets an equal part of what the template leaves.
    empty = [replace(message, content="") for message in retained]
    longest = (room - len(chat_tokens(tokenizer, empty, call.opening))) // len(retained)
    gap = tokenizer.tokenize(GAP)
    while longest > len(gap):
        shortened = [
            replace(message, content=_cut_middle(tokenizer, message.content, longest, gap))
            for message in retained
        ]
        tokens = chat_tokens(tokenizer, shortened, call.opening)
        if len(tokens) <= room:
            count = sum(
                message.content != other.content
                for message, other in zip(shortened, retained, strict=True)
            )
            notes = [left_out_note(left_out, len(call.messages)), f"{count} shortened"]
            return tokens, ", ".join(note for note in notes if note)
        # The ends of a text that was cut may take a few more tokens than before.
        longest -= len(tokens) - room
    raise ContextTooSmall(
        "The context of this model has no room for the messages beside the reply.",
        "Use a larger context or shorter replies.",
    )


def _cut_middle(tokenizer: Tokenizer, text: str, limit: int, gap: Sequence[int]) -> str:
    """Returns a text with its middle replaced by `gap`, so that it has at most `limit` tokens."""
    tokens = tokenizer.tokenize(text)
    if len(tokens) <= limit:
        return text
    data = b"".join(tokenizer.token_bytes(token) for token in clip(tokens, limit, gap))
    return data.decode("utf-8", "ignore")
