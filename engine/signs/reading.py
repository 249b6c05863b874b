"""Reads the signs of trouble in a conversation.

Words of refusals, sympathy, complaints, corrections, endings and errors are in `words/`, a file for each language; a
conversation is searched for those of all languages, so that it may mix them. The text is that which models read.
docs/lab/signs.md says how the signs were chosen, and what each tells on sets with truth.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Literal

from engine.base.conversation import Message, Role
from engine.base.number_format import counted
from engine.base.sign import Sign, SignReading
from engine.base.text import CJK

WordList = Literal["refusal", "sympathy", "complaint", "correction", "closing", "error"]
"""A list of words in the file of a language."""

EDGE = 1_000
"""Number of characters that are read at the beginning and at the end of a message that is longer than both."""

MAX_QUOTED = 40
"""Most characters of a user's words that a reason quotes, without the "…" where more follow."""

MIN_SAME_WORDS = 0.6
"""Least share of the words of the shorter of two messages that the longer one has too, if they say nearly the same."""

MIN_WORDS = 3
"""Fewest different words of a user's message that is compared with earlier ones."""

COMPARED_MESSAGES = 20
"""Number of earlier messages of the user with which one of them is compared."""

MAX_REPLY_WORDS = 5
"""Most different words of a short answer, which repeats no request right after a question of the assistant."""

MAX_STATED = 200
"""Most characters of the first and of the last line of a result in which a tool says how it went."""

_ACTION = re.compile(r"\bact(?:ion)?\s*:", re.IGNORECASE)
"""Finds the call of an agent that writes its calls as text, such as `Action: search`, after which the user's message is
the environment's."""

_LOG_LINE = re.compile(
    r"^[\W\d]{0,24}(?:t?\d?\d:\d\d\b|[a-z]{1,8}[\W\d]{1,16}\d?\d:\d\d:\d)", re.MULTILINE
)
"""Matches the beginning of a line of a log in lower case up to its time, after a date if it is there. After a level the
time has seconds: "Error: 10:00 is taken" is no log."""

_NEGATION = re.compile(r"(?:\b(?:not|never|nothing|nicht|pas|nie|niet|não|не)|n't)\s+(?:\w+\s+)?$")
"""Finds the word that denies what follows it, at once or after one word: `not ` and `not really ` at the end."""

_QUESTION_MARK = re.compile("[?？؟]")
"""Finds the mark of a question in the scripts that have one."""

_WORD = re.compile(rf"[{CJK}]|[^\W_{CJK}]+")
"""Matches a word; a Chinese or Japanese character is one."""

_ERROR_STATUS = re.compile(
    r"\bexit (?:code|status):? [1-9]|\bhttp[ /\d.]* [45]\d\d\b"
    r"|\"(?:status|code|status_?code)\": ?\"?[45]\d\d\b|\b[45]\d\d (?:bad|unauth|forbid|not |internal|service|too)"
)
"""Finds an exit status or a status of HTTP (RFC 9110) that stands for an error: `exit code 1`, `"status": 404`."""

_EXCEPTION = re.compile(r"\w{3,}(?:error|exception)\b")
"""Finds the name of an exception, such as `keyerror`."""

_THROWN = re.compile(r"^(?:traceback\b|[\w.]*(?:error|exception)\b)", re.MULTILINE)
"""Finds the first and the last line of what a program prints of an exception, at the beginning of a line."""

_NO_ERROR_STATED = re.compile(
    r"\berrors?\"?\s*[:=]\s*(?:null|none|false|0\b|\"\"|\[\]|\{\})|\b(?:no|0|zero|without) (?:errors?|failures?)\b"
)
"""Finds what says that there was no error: `"error": null`, `without errors`."""

_SPACELESS_CHARACTER = re.compile(rf"[{CJK}\uac00-\ud7a3]")
"""Matches a character of Chinese, Japanese or Korean, in whose texts words have no borders that a pattern can see."""

_EMPTY_RESULTS = frozenset(
    ("", "none", "null", "[]", "{}", '""', "no results", "no output", "no results found")
)
"""Results that say nothing, in lower case."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """A message that models read.

    Attributes:
        index: Its position in the conversation, from 0.
        message: The message itself.
        raw: Its text as models read it.
        text: That in lower case, a long one without its middle (`_shortened`).
    """

    index: int
    message: Message
    raw: str
    text: str


@cache
def _patterns(name: WordList) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Returns two patterns that find the phrases of a list, of all languages, in text in lower case.

    The first is for phrases between borders of words, where one that ends in `*` is a beginning; the second for those
    of Chinese, Japanese and Korean (`_SPACELESS_CHARACTER`).
    """
    phrases: set[str] = set()
    for file in (resources.files("engine.signs") / "words").iterdir():
        phrases.update(tomllib.loads(file.read_text("utf-8")).get(name, ()))
    spaceless = {phrase for phrase in phrases if _SPACELESS_CHARACTER.match(phrase)}
    # by their first letter, so that few are compared at each word
    by_letter: dict[str, list[str]] = {}
    for phrase in sorted(phrases - spaceless):
        end = "" if phrase.endswith("*") else r"\b"
        by_letter.setdefault(phrase[0], []).append(re.escape(phrase[1:].removesuffix("*")) + end)
    words = "|".join(f"{letter}(?:{'|'.join(rest)})" for letter, rest in by_letter.items())
    return re.compile(rf"\b(?:{words})"), re.compile("|".join(map(re.escape, spaceless)) or "(?!)")


def _find(name: WordList, text: str) -> re.Match[str] | None:
    """Returns where a phrase of a list stands in a text in lower case; None where none does."""
    words, spaceless = _patterns(name)
    return words.search(text) or (None if text.isascii() else spaceless.search(text))


def _shortened(text: str) -> str:
    """Returns a text in lower case and with straight apostrophes, a long one without its middle (`EDGE`)."""
    if len(text) > 2 * EDGE:
        text = f"{text[:EDGE]}\n{text[-EDGE:]}"
    return text.lower().replace("’", "'")


def _find_outside(name: WordList, harmless: WordList, text: str) -> re.Match[str] | None:
    """Returns where a phrase of a list stands in a text in lower case from which the phrases of a list of harmless ones
    are taken out first; None where none does."""
    if not _find(name, text):
        return None
    for pattern in _patterns(harmless):
        text = pattern.sub(" ", text)
    return _find(name, text)


def _closes(text: str) -> bool:
    """Returns whether a message of the user, in lower case, thanks, is content or says goodbye, and asks nothing."""
    if _QUESTION_MARK.search(text):
        return False
    hits = (hit.start() for pattern in _patterns("closing") for hit in pattern.finditer(text))
    return any(not _NEGATION.search(text, 0, start) for start in hits)


def _mentions_error(text: str) -> bool:
    """Returns whether a text in lower case has a word of errors, a status or the name of an exception."""
    return bool(_find("error", text) or _ERROR_STATUS.search(text) or _EXCEPTION.search(text))


def _is_error(entry: _Entry) -> bool:
    """Returns whether a tool says in a result that it failed; an error that the result only quotes or lists does not
    count."""
    if not _mentions_error(entry.text):
        return False
    return any(map(_mentions_error, _own_words(entry.raw)))


def _own_words(result: str) -> Iterator[str]:
    """Yields what a tool says itself in a result, in lower case: of an object of JSON what its fields say and those of
    objects in it, but not those in lists, which are data; of other text what `_own_lines` yields."""
    try:
        fields = json.loads(result) if result.lstrip().startswith("{") else None
    except (ValueError, RecursionError):
        fields = None
    if fields is None:
        yield from _own_lines(result)
        return
    waiting = [("", fields)]
    while waiting:
        name, value = waiting.pop()
        if "error" in name:  # a field of that name that is not empty says so, whatever it holds
            if value:
                yield "error"
        elif isinstance(value, dict):
            waiting += [(str(key).lower(), field) for key, field in value.items()]
        elif isinstance(value, str) and not value.isdecimal():
            yield from _own_lines(value)
        elif not isinstance(value, list):
            yield f'"{name}": {value}'.lower()  # `"status": 404`, as `_ERROR_STATUS` finds it


def _own_lines(text: str) -> Iterator[str]:
    """Yields the parts of a text in which a tool says how it went, in lower case, without the log that it quotes and
    without what says that there was no error."""
    text = _NO_ERROR_STATED.sub(" ", _shortened(text)).strip()
    before_log = _LOG_LINE.split(text, maxsplit=1)[0].rstrip()
    # the first and the last line
    yield before_log.partition("\n")[0][:MAX_STATED]
    yield before_log.rpartition("\n")[2][-MAX_STATED:]
    # the name of an exception at the beginning of a line, and a status anywhere
    yield from (thrown.group() for thrown in _THROWN.finditer(before_log))
    yield from _ERROR_STATUS.findall(before_log)
    # a status in the line after the log
    last = text.rpartition("\n")[2]
    if not _LOG_LINE.match(last):
        yield from _ERROR_STATUS.findall(last)


def read_signs(messages: Sequence[Message]) -> list[SignReading]:
    """Returns the signs of a conversation but for `long`, which the others of its project decide, in the order of
    `Sign`.

    Args:
        messages: All of them, in order; those that are hidden from models are not read.
    """
    return list(_SignReader(messages).signs())


class _SignReader:
    """Reads the signs of a conversation from its messages, which it holds by who speaks.

    Attributes:
        assistant: The messages of the assistant.
        user: Those of the user.
        results: The answers of tools.
        results_of: For each message of the assistant, by its index, the texts of the results of its calls by the id of
            the call, which is "" for a call without one.
        replies: Indices of the messages of the user right after a question of the assistant.
        last_role: Who has the last word.
        ends_in_call: Whether the last message is one of the assistant that calls a tool.
    """

    def __init__(self, messages: Sequence[Message]) -> None:
        """Holds the messages that models read, by who speaks."""
        self.assistant: list[_Entry] = []
        self.user: list[_Entry] = []
        self.results: list[_Entry] = []
        self.results_of: defaultdict[int, dict[str, str]] = defaultdict(dict)
        self.replies: set[int] = set()
        self.last_role: Role = "system"
        self.ends_in_call = False
        before = ""  # what the assistant said just before
        callers: dict[str, int] = {}  # the last message with a call of an id
        for index, message in enumerate(messages):
            if message.hidden:
                continue
            raw = message.content if message.model_view is None else message.model_view
            role: Role = message.role
            if role == "user" and before and _ACTION.search(before):
                role = "tool"  # the environment answers in the user's name
            if role == "user" and _QUESTION_MARK.search(before):
                self.replies.add(index)
            before = raw if role == "assistant" else ""
            entry = _Entry(index, message, raw, _shortened(raw))
            self.last_role = role
            self.ends_in_call = role == "assistant" and bool(message.tool_calls)
            if role == "assistant":
                self.assistant.append(entry)
                callers.update((call.call_id or "", index) for call in message.tool_calls)
            elif role == "user":
                self.user.append(entry)
            elif role == "tool":
                self.results.append(entry)
                if self.assistant:
                    call = message.tool_call_id or ""
                    results = self.results_of[callers.get(call, self.assistant[-1].index)]
                    results[call] = results.get(call, "") + entry.text

    def signs(self) -> Iterator[SignReading]:
        """Yields the signs that the conversation has, in the order of `Sign`."""
        yield from self._refusals()
        yield from self._result_signs()
        yield from self._complaints()
        yield from self._repeats()
        yield from self._repeated_requests()
        yield from self._unanswered_end()

    def _unanswered_end(self) -> Iterator[SignReading]:
        """Yields the sign of a conversation in which an answer is missing at the end."""
        if self.last_role == "user" and not _closes(self.user[-1].text):
            reason = "the user has the last word"
            yield SignReading(Sign.UNANSWERED, 1, (self.user[-1].index,), reason)
        if self.last_role == "tool":
            reason = "the last message is a tool's answer"
            yield SignReading(Sign.TOOL_LAST, 1, (self.results[-1].index,), reason)
        elif self.ends_in_call:
            reason = "the last message is a call"
            yield SignReading(Sign.TOOL_LAST, 1, (self.assistant[-1].index,), reason)

    def _refusals(self) -> Iterator[SignReading]:
        """Yields the signs of answers in which the assistant is sorry or refuses; sympathy for what the user tells
        ("sorry to hear that") is neither."""
        refusals = [
            entry.index
            for entry in self.assistant
            if _find_outside("refusal", "sympathy", entry.text)
        ]
        if not refusals:
            return
        reason = f"{counted(len(refusals), 'answer')} with a refusal or an apology"
        share = len(refusals) / len(self.assistant)
        yield SignReading(Sign.REFUSED, share, tuple(refusals), reason)
        answers = [entry.index for entry in self.assistant if entry.text]
        if answers[-1] == refusals[-1]:
            reason = "refusal or apology in the last answer"
            yield SignReading(Sign.REFUSED_LAST, 1, (answers[-1],), reason)

    def _result_signs(self) -> Iterator[SignReading]:
        """Yields the signs of results of tools that are errors or empty."""
        total = len(self.results)
        errors = [entry.index for entry in self.results if _is_error(entry)]
        if errors:
            reason = f"{len(errors):,} of {counted(total, 'result')} an error"
            yield SignReading(Sign.ERRORS, len(errors) / total, tuple(errors), reason)
            if errors[-1] == self.results[-1].index:
                reason = "error in the last result"
                yield SignReading(Sign.ERROR_LAST, 1, (errors[-1],), reason)
        empty = [entry.index for entry in self.results if entry.text.strip() in _EMPTY_RESULTS]
        if empty:
            reason = counted(len(empty), "empty result")
            yield SignReading(Sign.EMPTY_RESULTS, len(empty) / total, tuple(empty), reason)

    def _complaints(self) -> Iterator[SignReading]:
        """Yields the sign of complaints of the user about the assistant, after the first request. Users who correct
        themselves ("sorry, wrong street") do not complain."""
        hits = [
            (entry, hit)
            for entry in self.user[1:]
            if (hit := _find_outside("complaint", "correction", entry.text)) is not None
        ]
        if hits:
            _, last = hits[-1]
            sentence = re.split(r"[.!?\n。！？]", last.string[last.start() :], maxsplit=1)[0]
            quoted = " ".join(sentence.split())
            if len(quoted) > MAX_QUOTED:
                quoted = f"{quoted[:MAX_QUOTED].rsplit(' ', 1)[0]}…"
            share = len(hits) / (len(self.user) - 1)
            messages = tuple(entry.index for entry, _ in hits)
            yield SignReading(Sign.COMPLAINT, share, messages, f"user: {quoted}")

    def _repeats(self) -> Iterator[SignReading]:
        """Yields the sign of answers and calls that the assistant made before and that led to the same result as then.

        Another result shows that something changed in between, or that a retry succeeded.
        """
        counts: Counter[tuple[str, str, str]] = Counter()  # tool, or "", arguments or text, result
        repeats = []
        for entry in self.assistant:
            results = self.results_of.get(entry.index, {})
            whole = "".join(results.values())
            keys = [
                (call.name, call.arguments, results.get(call.call_id or "", whole))
                for call in entry.message.tool_calls
            ] or [("", " ".join(entry.text.split()), whole)]
            if any(key in counts for key in keys):
                repeats.append(entry.index)
            counts.update(list(dict.fromkeys(keys)))  # equal calls in one message repeat nothing
        if repeats:
            ((tool, _, _), times) = counts.most_common(1)[0]
            what = f"call of {tool}" if tool else "answer"
            reason = f"the same {what} {times:,} times"
            share = len(repeats) / len(self.assistant)
            yield SignReading(Sign.REPEATS, share, tuple(repeats), reason)

    def _repeated_requests(self) -> Iterator[SignReading]:
        """Yields the sign of messages in which the user says nearly the same as in an earlier one."""
        before: list[frozenset[str]] = []
        repeats = []
        for entry in self.user:
            words = frozenset(_WORD.findall(entry.text))
            if len(words) < MIN_WORDS:
                continue
            is_short_reply = entry.index in self.replies and len(words) <= MAX_REPLY_WORDS
            if not is_short_reply and any(
                len(words & other) >= MIN_SAME_WORDS * min(len(words), len(other))
                for other in before[-COMPARED_MESSAGES:]
            ):
                repeats.append(entry.index)
            before.append(words)
        if repeats:
            times = len(repeats)
            reason = "the user says the same again" + (f" {times:,} times" if times > 1 else "")
            yield SignReading(Sign.ASKS_AGAIN, times / (len(self.user) - 1), tuple(repeats), reason)
