"""Chat replies in the model process, and log-probabilities of what else a model might have replied.

Conversations are rendered by the chat template, and the oldest messages are left out if they do not fit. Control tokens
are recognized only in the text of the template. Message contents are untrusted and tokenized as plain text, so that
none of them can forge a turn.

Log-probabilities of continuations are read off the logits, so they are exact for the model: nothing is sampled. A
prefix is decoded once and forked, which makes a second sequence that shares its cells in the cache: the common
beginning of all prefixes (the instructions) is forked for each prefix, and each prefix for its continuations. Questions
whose prefixes fit into the cache at the same time are a wave.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import NamedTuple

from engine.base.errors import ContextTooSmall, ModelError
from engine.model.batched_replies import generate
from engine.model.chat import Call, ChatMessage, Completion, Speaker
from engine.model.generation import LIVE_CELLS, GenerativeModel, Reply, Task
from engine.model.interface import Span, Tokenizer, TokenModel, log_probs
from engine.model.log_windows import GAP, MIN_LOG_TOKENS, clip
from engine.model.prompt_files import sharable_length, tokenize_with_start
from engine.model.reply_forms import find_value, value_words

MAX_LOG_ODDS = 700.0
"""Log-odds against a value, in nats, above which the probability is taken as at this value; `math.exp` overflows at
710."""

_EDGE = "\x0b"
"""Whitespace that no template writes. It is put around each mark; where it is missing after rendering, the template
trims contents."""

_MARK = re.compile(f"(?P<front>{_EDGE}?)\ue000(?P<index>[0-9]+)\ue001(?P<back>{_EDGE}?)")
"""Matches the mark that stands for the content of a message while the template is rendered: the message's index between
two characters of Unicode's private use, with `_EDGE` before and after it if that was not trimmed."""

_Arrangement = list[tuple[Speaker, str]]
"""Messages as a template gets them: speaker, and a text with the marks of the contents."""

HEAD_SEQUENCE = 0
"""Number of the sequence that holds the common beginning of all prefixes of a wave."""

MIN_HEAD_TOKENS = 16
"""Shortest common beginning, in tokens, that is worth a decode of its own."""


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
        if tokens:
            tokens += tokenizer.tokenize(before, special=True)
        else:
            tokens = tokenize_with_start(tokenizer, before)
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
    """Yields the messages as they are, then with a user message first and alternating sides, which templates accept
    that refuse system messages or two messages of one side in a row."""
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
        tasks.append(Task(tokens, call.sampling, call.max_tokens, seed=call.seed))
        notes.append(note)
    replies = generate(model, tasks, progress)
    probabilities = _value_probabilities(model, calls, tasks, replies)
    return [
        Completion(reply.text, reply.stopped, note, probabilities.get(index))
        for index, (reply, note) in enumerate(zip(replies, notes, strict=True))
    ]


def _value_probabilities(
    model: TokenModel, calls: Sequence[Call], tasks: Sequence[Task], replies: Sequence[Reply]
) -> dict[int, float]:
    """Returns the probability of the value that a reply gives to the field `Call.probability_of`, rather than of its
    other values, by index of the call; calls that ask for none, and replies that give none, are absent."""
    questions: dict[int, PrefixQuestion] = {}
    for index, (call, task, reply) in enumerate(zip(calls, tasks, replies, strict=True)):
        if call.probability_of:
            question = _value_question(model, call, task.prompt, reply)
            if question is not None:
                questions[index] = question
    if not questions:
        return {}
    results = continuation_log_probs(model, list(questions.values()))
    return {
        index: 1 / sum(math.exp(min(MAX_LOG_ODDS, log_p - values[0])) for log_p in values)
        for index, values in zip(questions, results, strict=True)
    }


def _value_question(
    tokenizer: Tokenizer, call: Call, prompt: Sequence[int], reply: Reply
) -> PrefixQuestion | None:
    """Returns the question for all values of the field of a call at the place where the reply gives one; None if the
    reply gives none.

    Its first continuation is the value that the reply gives, the others are those that it could have given.

    Args:
        prompt: The tokens before the reply.
    """
    words = value_words(call.sampling.json_schema, call.probability_of)
    texts = [tokenizer.token_bytes(token) for token in reply.tokens]
    place = find_value(b"".join(texts), call.probability_of, words)
    if place is None:
        return None
    ends = list(accumulate(map(len, texts)))
    index = bisect_right(ends, place.start)  # of the token in which the value begins
    token_start = ends[index] - len(texts[index])
    before_value = texts[index][: place.start - token_start].decode("utf-8", "ignore")
    values = [place.value, *(value for value in words if value != place.value)]
    answers = [tokenizer.tokenize(before_value + value + place.after) for value in values]
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
    """Returns the messages without the oldest one after the system message and without the replies to it.

    The last message always stays; None is returned if there is no other to remove.
    """
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


# Log-probabilities of continuations


@dataclass(frozen=True, slots=True)
class PrefixQuestion:
    """Asks for the probability of some continuations of a prefix.

    Attributes:
        prefix: Token ids of the prefix, at least one.
        continuations: Token ids of each continuation.
    """

    prefix: Sequence[int]
    continuations: Sequence[Sequence[int]]


class _Lookup(NamedTuple):
    """A log-probability that is looked up in one row of logits for a continuation.

    Attributes:
        question: Index of the question.
        continuation: Index of the continuation within the question.
        token: Id of the token whose log-probability is read.
    """

    question: int
    continuation: int
    token: int


def continuation_log_probs(
    model: TokenModel, questions: Sequence[PrefixQuestion]
) -> list[list[float]]:
    """Returns for each question the natural log-probability of each continuation after its prefix: the sum over its
    tokens.

    Raises:
        ModelError: A prefix with its longest continuation exceeds the context.
        Cancelled: The request was cancelled.
    """
    for question in questions:
        length = len(question.prefix) + max(map(len, question.continuations), default=0)
        if not question.prefix or length > model.capacity.context:
            raise ContextTooSmall(
                f"A question of {length:,} tokens exceeds the context of "
                f"{model.capacity.context:,}.",
                "Use a larger context or a shorter prompt.",
            )
    results = [[0.0] * len(question.continuations) for question in questions]
    model.clear()
    try:
        for wave in _waves(model, questions):
            _answer_wave(model, questions, wave, results)
    finally:
        model.clear()
    return results


def _waves(model: TokenModel, questions: Sequence[PrefixQuestion]) -> Iterator[range]:
    """Yields ranges of questions whose prefixes fit into the cache at the same time; they depend on the request and on
    the size of the cache alone."""
    capacity = model.capacity
    longest = max(
        (len(tokens) for question in questions for tokens in question.continuations), default=0
    )
    free_tokens = min(LIVE_CELLS, capacity.cells - capacity.batch - longest)
    start = prefix_tokens = 0
    for index, question in enumerate(questions):
        # Half of the sequences are for prefixes, one of them for their common beginning, and half for forks.
        is_full = (
            prefix_tokens + len(question.prefix) > free_tokens
            or index - start >= capacity.sequences // 2 - 1
        )
        if index > start and is_full:
            yield range(start, index)
            start, prefix_tokens = index, 0
        prefix_tokens += len(question.prefix)
    if questions:
        yield range(start, len(questions))


def _answer_wave(
    model: TokenModel,
    questions: Sequence[PrefixQuestion],
    wave: range,
    results: list[list[float]],
) -> None:
    """Adds the log-probabilities of the questions of a wave to `results`, which has a list for each question."""
    packer = _BatchPacker(model, results)
    # First the common beginning of all prefixes.
    prefixes = [questions[index].prefix for index in wave]
    head = sharable_length(prefixes, MIN_HEAD_TOKENS) if len(prefixes) > 1 else 0
    first_prefix, *_ = prefixes
    packer.add(HEAD_SEQUENCE, first_prefix[:head], 0, {})
    packer.flush()
    # Then the rest of each prefix, whose last row of logits gives the first token of each continuation.
    sequences = dict(zip(wave, range(HEAD_SEQUENCE + 1, model.capacity.sequences), strict=False))
    for index in wave:
        prefix, sequence = questions[index].prefix, sequences[index]
        if head:
            model.fork(HEAD_SEQUENCE, sequence, head)
        first_lookups = [
            _Lookup(index, number, first_token)
            for number, (first_token, *_) in _numbered_continuations(questions[index])
        ]
        packer.add(sequence, prefix[head:], head, {len(prefix) - 1 - head: first_lookups})
    packer.flush()
    # Then the continuations: the logits after each token give the probability of the next one.
    for index in wave:
        prefix = questions[index].prefix
        for number, tokens in _numbered_continuations(questions[index]):
            if len(tokens) > 1:
                fork = packer.fork(sequences[index], len(prefix), len(tokens) - 1)
                lookups_at = {
                    offset: [_Lookup(index, number, token)]
                    for offset, token in enumerate(tokens[1:])
                }
                packer.add(fork, tokens[:-1], len(prefix), lookups_at)
    packer.flush()
    for sequence in (HEAD_SEQUENCE, *sequences.values()):
        model.drop(sequence)


def _numbered_continuations(question: PrefixQuestion) -> list[tuple[int, Sequence[int]]]:
    """Returns index and tokens of the continuations that have tokens; an empty one has probability 1."""
    return [(number, tokens) for number, tokens in enumerate(question.continuations) if tokens]


@dataclass(slots=True)
class _BatchPacker:
    """Fills decode batches with tokens of many sequences and adds up the log-probabilities.

    Attributes:
        model: Decodes the batches.
        results: The sums of log-probabilities, for each question and continuation.
        _spans, _lookups: The batch, and what is read off each row of logits that it gives.
        _forks: Sequences that were forked since the last flush, from the highest number down.
        _batched_tokens: Number of tokens in the batch.
        _reserved_tokens: Tokens that the forks get in all; at most a batch, which bounds the cells that they need.
    """

    model: TokenModel
    results: list[list[float]]
    _spans: list[Span] = field(default_factory=list)
    _lookups: list[list[_Lookup]] = field(default_factory=list)
    _forks: list[int] = field(default_factory=list)
    _batched_tokens: int = 0
    _reserved_tokens: int = 0

    def fork(self, source: int, end: int, more_tokens: int) -> int:
        """Returns a sequence that shares the first `end` tokens of `source` until the next flush; `more_tokens` will be
        added to it."""
        capacity = self.model.capacity
        sequences = capacity.sequences
        is_full = self._reserved_tokens + more_tokens > capacity.batch
        if is_full or len(self._forks) == sequences // 2:
            self.flush()
        self._reserved_tokens += more_tokens
        fork = sequences - 1 - len(self._forks)
        self._forks.append(fork)
        self.model.fork(source, fork, end)
        return fork

    def add(
        self,
        sequence: int,
        tokens: Sequence[int],
        position: int,
        lookups_at: Mapping[int, list[_Lookup]],
    ) -> None:
        """Adds tokens of a sequence; `lookups_at` gives what is read off the logits after the token at an offset."""
        capacity = self.model.capacity
        start = 0
        while start < len(tokens):
            if self._batched_tokens >= capacity.batch or len(self._lookups) >= capacity.rows:
                self._decode()
            end = min(len(tokens), start + capacity.batch - self._batched_tokens)
            read_offsets = [offset for offset in range(start, end) if lookups_at.get(offset)]
            free_rows = capacity.rows - len(self._lookups)
            if len(read_offsets) > free_rows:
                end, read_offsets = read_offsets[free_rows], read_offsets[:free_rows]
            offsets = tuple(offset - start for offset in read_offsets)
            self._spans.append(Span(tokens[start:end], position + start, (sequence,), offsets))
            self._lookups.extend(lookups_at[offset] for offset in read_offsets)
            self._batched_tokens += end - start
            start = end

    def flush(self) -> None:
        """Decodes the added tokens and drops the forks."""
        self._decode()
        for fork in self._forks:
            self.model.drop(fork)
        self._forks, self._reserved_tokens = [], 0

    def _decode(self) -> None:
        """Decodes the batch and adds what is read off its logits to the results."""
        if not self._spans:
            return
        rows = self.model.decode(self._spans)
        for row, lookups in zip(rows, self._lookups, strict=True):
            values = log_probs(row, [lookup.token for lookup in lookups])
            for lookup, value in zip(lookups, values, strict=True):
                self.results[lookup.question][lookup.continuation] += float(value)
        self._spans, self._lookups, self._batched_tokens = [], [], 0
