"""Chat replies in the model process: conversations are rendered by the chat template, and the oldest messages are left
out if they do not fit.

Control tokens are recognized only in the text of the template. Message contents are untrusted and tokenized as plain
text, so that none of them can forge a turn.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from engine.base.errors import ContextTooSmall, ModelError
from engine.model.batched_replies import generate
from engine.model.chat import Call, ChatMessage, Completion, Speaker
from engine.model.generation import GenerativeModel, Task
from engine.model.interface import Tokenizer
from engine.model.log_windows import GAP, SMALLEST_ROOM, clip
from engine.model.prompt_files import started

# Whitespace that no template writes is put around each mark: if it is missing, the template trims contents.
_EDGE = "\x0b"


_MARK = re.compile(f"({_EDGE}?)\ue000([0-9]+)\ue001({_EDGE}?)")


_Arrangement = list[tuple[Speaker, str]]


def chat_tokens(
    tokenizer: Tokenizer, messages: Sequence[ChatMessage], opening: str = ""
) -> list[int]:
    """The tokens that a model reads before it writes the next assistant message.

    If the template refuses system messages or wants alternating roles, the system message becomes a user message and
    consecutive messages of one role are joined.

    Args:
        opening: Beginning of the reply, written for the model.

    Raises:
        ModelError: The model has no chat template, or one that takes no such messages.
    """
    rendered = _rendered(tokenizer, [message.speaker for message in messages])
    tokens: list[int] = []
    at = 0
    for found in _MARK.finditer(rendered):
        before = rendered[at : found.start()]
        tokens += tokenizer.tokenize(before, special=True) if tokens else started(tokenizer, before)
        content = messages[int(found.group(2))].content
        content = content if found.group(1) else content.lstrip()
        content = content if found.group(3) else content.rstrip()
        tokens += tokenizer.tokenize(content) if content else []
        at = found.end()
    tokens += tokenizer.tokenize(rendered[at:], special=True)
    return tokens + (tokenizer.tokenize(opening) if opening else [])


def _rendered(tokenizer: Tokenizer, speakers: Sequence[Speaker]) -> str:
    """The rendered template, with a mark in place of each message content."""
    refused: ModelError | None = None
    for arranged in _arrangements(speakers):
        try:
            rendered = tokenizer.render_chat(
                [{"role": speaker, "content": content} for speaker, content in arranged]
            )
        except ModelError as error:
            refused = refused or error
            continue
        if [int(found.group(2)) for found in _MARK.finditer(rendered)] == [*range(len(speakers))]:
            return rendered
    raise refused or ModelError("The model's chat template leaves messages out.")


def _arrangements(speakers: Sequence[Speaker]) -> Iterator[_Arrangement]:
    """The messages as they are, then in the simplest form, which all templates accept."""
    marked: _Arrangement = [
        (speaker, f"{_EDGE}\ue000{number}\ue001{_EDGE}") for number, speaker in enumerate(speakers)
    ]
    yield marked
    simple: _Arrangement = []
    for speaker, content in marked:
        side: Speaker = "assistant" if speaker == "assistant" else "user"
        if simple and simple[-1][0] == side:
            simple[-1] = side, f"{simple[-1][1]}\n\n{content}"
        else:
            simple.append((side, content))
    if simple[0][0] == "assistant":
        simple.insert(0, ("user", ""))
    yield simple


def chat_replies(
    model: GenerativeModel, calls: Sequence[Call], progress: Callable[[int], None] | None = None
) -> list[Completion]:
    """Writes the reply to each call in one batch; a reply depends on its own call alone.

    Args:
        progress: Called now and then with the number of replies that are done.

    Raises:
        ModelError: The model has no chat template, or no room for a conversation beside the reply.
        Cancelled: The request was cancelled.
    """
    tasks, notes = [], []
    for call in calls:
        tokens, note = fitted(model, call, model.longest)
        tasks.append(Task(tokens, call.sampling, call.max_tokens, call.stop, call.seed))
        notes.append(note)
    replies = generate(model, tasks, progress)
    return [
        Completion(one.text, one.stopped, note) for one, note in zip(replies, notes, strict=True)
    ]


def fitted(tokenizer: Tokenizer, call: Call, context: int) -> tuple[list[int], str | None]:
    """The tokens of a call's conversation and opening, shortened to leave room for the reply.

    Returns:
        Tokens, and a note when something was left out.

    Raises:
        ModelError: There is no room for a conversation beside the reply.
    """
    room = context - call.max_tokens
    if room < SMALLEST_ROOM:
        raise ContextTooSmall(
            f"A reply of {call.max_tokens:,} tokens leaves no room for a conversation in a context "
            f"of {context:,}.",
            "Use a larger context or shorter replies.",
        )
    kept, left_out = list(call.messages), 0
    while len(tokens := chat_tokens(tokenizer, kept, call.opening)) > room:
        following = without_oldest(kept)
        if following is None:
            return _shortened(tokenizer, call, kept, left_out, room)
        left_out += len(kept) - len(following)
        kept = following
    return tokens, left_out_note(left_out, len(call.messages)) or None


def without_oldest(messages: Sequence[ChatMessage]) -> list[ChatMessage] | None:
    """Messages without the oldest one after the system message, and without the replies to it; None if only the last
    message is left."""
    first = next((at for at, one in enumerate(messages) if one.speaker != "system"), len(messages))
    last = len(messages) - 1
    if first >= last:
        return None
    after = first + 1
    while after < last and messages[after].speaker == "assistant":
        after += 1
    return [*messages[:first], *messages[after:]]


def left_out_note(left_out: int, count: int) -> str:
    """A note on the number of messages left out; empty if none were."""
    return f"{left_out} of {count} messages left out" if left_out else ""


def _shortened(
    tokenizer: Tokenizer, call: Call, kept: Sequence[ChatMessage], left_out: int, room: int
) -> tuple[list[int], str]:
    """The tokens of the messages with the middle of each long one left out, and a note."""
    bare = [replace(message, content="") for message in kept]
    longest = (room - len(chat_tokens(tokenizer, bare, call.opening))) // len(kept)
    gap = tokenizer.tokenize(GAP)
    while longest > len(gap):
        cut = [
            replace(message, content=_cut(tokenizer, message.content, longest, gap))
            for message in kept
        ]
        tokens = chat_tokens(tokenizer, cut, call.opening)
        if len(tokens) <= room:
            count = sum(one.content != other.content for one, other in zip(cut, kept, strict=True))
            notes = [left_out_note(left_out, len(call.messages)), f"{count} shortened"]
            return tokens, ", ".join(note for note in notes if note)
        # Where a text was cut, its ends may become a few more tokens.
        longest -= len(tokens) - room
    raise ContextTooSmall(
        "The context of this model has no room for the messages beside the reply.",
        "Use a larger context or shorter replies.",
    )


def _cut(tokenizer: Tokenizer, text: str, limit: int, gap: Sequence[int]) -> str:
    tokens = tokenizer.tokenize(text)
    if len(tokens) <= limit:
        return text
    data = b"".join(tokenizer.token_bytes(token) for token in clip(tokens, limit, gap))
    return data.decode("utf-8", "ignore")
