"""The leak guard: finds text that reveals the outcome of a conversation (a *leak*), and hides it from models.

The content stays as imported; only `Message.model_view` and `Message.hidden` are set, and fields of the record that
state an outcome move to the truth. Rules: `stop-token`, `score-observation`, `finish-marker`, `truth-field`, and
`truth-value` for what the truth says of the outcome and one of the last two messages repeats.

Not covered: outcomes stated in ordinary words ("your order is placed", "goodbye"), which are part of the conversation,
and actions that end an episode but do something of their own (`click[Buy Now]`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from typing import Any

from engine.base.conversation import Conversation, Message, Role, ToolCall, with_calls
from engine.formats.json_values import is_nested_too_deep, storable, without_keys
from engine.formats.records import Leak

_MAX_LEAK = 200
"""Most characters that are kept of a leak."""


def guard(
    conversation: Conversation,
    fields: Mapping[str, Any] | None = None,
    truth_fields: frozenset[str] = frozenset(),
) -> tuple[Conversation, tuple[Leak, ...]]:
    """Hides leaks from the model and moves outcomes to the truth; returns the conversation and the leaks.

    Args:
        fields: The other fields of the record; those whose names state an outcome go to the truth, the rest to meta.
        truth_fields: Further names of fields that go to the truth.
    """
    leaks: list[Leak] = []
    messages = list(conversation.messages)
    _hide_stop_tokens(messages, leaks)
    _hide_score(messages, leaks)
    _hide_finish(messages, leaks)
    meta, truth = _divide_fields(fields or {}, truth_fields, leaks)
    for holder in _HOLDERS:
        if isinstance(inner := meta.get(holder), dict):
            doubles = inner.keys() & (meta.keys() | conversation.meta.keys())
            rest = {holder: {name: inner[name] for name in doubles}} if doubles else {}
            meta = {**without_keys(meta, holder), **without_keys(inner, *doubles), **rest}
    _hide_stated_outcomes(messages, {**truth, **(conversation.truth or {})}, leaks)
    if not fields and not leaks:
        return conversation, ()
    guarded = replace(
        conversation,
        messages=tuple(messages),
        meta={**conversation.meta, **meta},
        truth={**truth, **(conversation.truth or {})} if truth else conversation.truth,
    )
    return guarded, tuple(leaks)


def _with_view(message: Message, view: str) -> Message:
    """Returns a message of which models see this text; it is hidden if nothing remains."""
    view = view.rstrip()
    return replace(message, model_view=view, hidden=not view)


def _index_near_end(messages: list[Message], *roles: Role) -> int | None:
    """Returns the index of the last message of some roles if at most one message follows it; else None."""
    # the last two messages, the very last first
    near_end = range(len(messages) - 1, max(-1, len(messages) - 3), -1)
    return next((index for index in near_end if messages[index].role in roles), None)


# Fields of the record

TRUTH_FIELDS = frozenset((
    "reward", "rewards", "reward_info", "score", "scores", "success", "successful", "succeeded", "solved",
    "resolved", "passed", "correct", "is_correct", "rating", "ratings", "stars", "grade", "csat", "nps",
    "satisfaction", "feedback", "thumbs", "winner", "complete", "completed", "is_complete", "completion",
    "completion_level", "complete_basis", "task_completed", "task_success", "goal_achieved", "finished",
    "done", "outcome", "status", "exit_status", "termination_reason", "end_reason", "end_marker",
    "finish_reason", "stop_reason", "truth", "label", "labels", "gold", "ground_truth", "gold_answer",
    "expected_answer", "reference_answer", "evaluation", "eval_result", "verdict", "judgment", "judgement",
    "hallucination", "hallucinations",
))  # fmt: skip
"""Names of record fields that state an outcome, in lower case with underscores."""

_STATUS_OUTCOME = re.compile(
    r"solve|close|open|succe|fail|complet|done|finish|cancel|abandon|escalat|error|time.?out|pass|won|lost|(?<![a-z])end"
    r"|terminat|abort|stop|exit|reject|accept|approv|den[iy]|submi|limit|exceed|true|false|(?<![a-z])ok$"
)
"""Finds the stem of a word that makes a status an outcome, such as `solved` or `unresolved`; that a message is `sent`,
`delivered` or `pending` is none."""

_NESTED_FIELDS = frozenset(("metadata", "meta", "extra", "extra_info", "info"))
"""Fields within which outcomes are looked for."""


_HOLDERS = ("metadata", "meta")
"""Fields whose own fields are of the whole conversation, as if they stood beside them; those whose names stand there
stay within."""


def _divide_fields(
    fields: Mapping[str, Any], truth_fields: frozenset[str], leaks: list[Leak]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the fields that are metadata and those that state an outcome; the latter are leaks.

    An outcome of the record takes precedence over one of the same name within `metadata` and the like.
    """
    meta: dict[str, Any] = {}
    truth: dict[str, Any] = {}
    nested_truth: dict[str, Any] = {}
    for name, value in fields.items():
        if states_outcome(name, value) or name in truth_fields:
            truth[name] = value
            if value is not None:
                text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
                leaks.append(Leak(None, "truth-field", f"{name} = {text}"[:_MAX_LEAK]))
        elif name in _NESTED_FIELDS and isinstance(value, dict):
            inner_meta, inner_truth = _divide_fields(value, frozenset(), leaks)
            if inner_meta:
                meta[name] = inner_meta
            nested_truth |= inner_truth
        else:
            meta[name] = value
    return meta, nested_truth | truth


def states_outcome(name: str, value: Any = None) -> bool:
    """Returns whether a field of this name states an outcome; a status does if its word is one, unlike `delivered`."""
    plain = _normalized_name(name)
    if plain == "status" and isinstance(value, str):
        return _STATUS_OUTCOME.search(value.lower()) is not None
    return plain in TRUTH_FIELDS


@lru_cache(maxsize=1_000)
def _normalized_name(name: str) -> str:
    """Returns a name of a field as the lists here have it; cached, as all records of a log have the same fields."""
    return name.lower().replace("-", "_").replace(" ", "_")


# Tokens and marks that end a conversation

STOP_TOKENS = ("###STOP###", "###TRANSFER###", "###OUT-OF-SCOPE###")
"""Texts with which the simulated users of tau-bench end a conversation."""

_STOP_TOKEN = re.compile("|".join(map(re.escape, STOP_TOKENS)))
"""Matches any of `STOP_TOKENS`."""

_END_MARK = re.compile(
    r"(?:\s*(?:<\|(?:im_end|endoftext|end_of_text|eot_id|eom_id|end_of_turn|end|eos|return)\|>"
    r"|<(?:end_of_turn|eos|/s)>|\[(?:DONE|EOS)\]|(?<!\w)TERMINATE[.!]?))+\s*\Z"
)
"""Matches the marks at the end of a text that end it for a model or a program, as of chat templates and AutoGen."""

_LAST_MARK_CHARACTERS = frozenset(">]E.!")
"""Characters in which the marks that `_END_MARK` matches end."""

_END_MARK_CHARACTERS = 200
"""Number of characters at the end of a text in which `_END_MARK` is looked for."""


def _hide_stop_tokens(messages: list[Message], leaks: list[Leak]) -> None:
    """Hides the tokens with which simulated users end a conversation, and marks at the ends of messages.

    The marks go from all messages: one that is missing at the last alone would tell as much.
    """
    for index, message in enumerate(messages):
        text = message.content
        if text[-1:] in _LAST_MARK_CHARACTERS or text[-1:].isspace():
            first = max(0, len(text) - _END_MARK_CHARACTERS)
            if not message.tool_calls and (mark := _END_MARK.search(text, first)):
                leaks.append(Leak(index, "stop-token", mark.group().strip()))
                message = messages[index] = _with_view(message, text[: mark.start()])
        if "###" in message.content or (
            message.tool_calls and any("###" in call.arguments for call in message.tool_calls)
        ):
            tokens = _STOP_TOKEN.findall(message.seen)
            if tokens:
                leaks.extend(Leak(index, "stop-token", token) for token in tokens)
                messages[index] = _with_view(message, _STOP_TOKEN.sub("", message.seen))


# Scores in one of the last messages

_SUBMISSION = re.compile(
    r"<<SUBMISSION\|\|.*?\|\|SUBMISSION>>|<<SWE_AGENT_SUBMISSION>>.*?<<SWE_AGENT_SUBMISSION>>",
    re.DOTALL,
)
"""Matches a patch that an agent submitted, between its marks."""

_SCORE_PREFILTER = (
    "score", "reward", "episode", "success", "solved", "resolved", "passed", "completed", "exit",
)  # fmt: skip
"""Words without which neither `_SCORE_PAGE` nor `_SCORE_LINE`, which are slow, matches a text in lower case."""

_SCORE_PAGE = re.compile(r"Your score \(min [\d.]+, max [\d.]+\)", re.IGNORECASE)
"""Matches the last page of WebShop, which shows the score."""

_EPISODE_OVER = r"episode[ \t]+(?:is[ \t]+)?(?:finished|done|over|ended)[ \t]*[,.;:!]*[ \t]*"
"""Matches words that say that an episode has ended."""

_SCORE_LINE = re.compile(
    rf"^[ \t*>\[(]*(?:observation:[ \t]*)?{_EPISODE_OVER}\Z|"
    r"^[ \t*>\[(]*(?:observation:[ \t]*)?(?:(?:agent|task|episode|run|final)[ \t]+)?exit[ _]?(?:status|reason)"
    r"[ \t]*(?::|=|is)[ \t]*[a-z_][\w() -]{1,40}[.\])]*\s*\Z|"
    rf"^[ \t*>\[(]*(?:observation:[ \t]*)?(?:{_EPISODE_OVER})?"
    r"(?:(?:(?:your|the|final|total|task|episode|overall)[ \t]+)+score|"
    r"(?:(?:your|the|final|total|task|episode|overall)[ \t]+)*"
    r"(?:reward|success|solved|resolved|passed|completed))"
    r"[ \t]*(?:\([^)\n]*\)[ \t]*)?(?::|=|is)[ \t]*(?:[-+]?\d+(?:\.\d+)?|true|false)"
    r"(?:[ \t]*(?:/|out of)[ \t]*\d+(?:\.\d+)?)?[ \t*.,!\])]*"
    r"(?:\s*(?:done|success|finished)[ \t]*[:=][ \t]*\w+[ \t.]*)?\s*\Z",
    re.IGNORECASE | re.MULTILINE,
)
"""Matches a last line that states a score or the end of the episode."""

_OUTCOME_KEYS = frozenset((
    "reward", "rewards", "score", "success", "successful", "succeeded", "solved", "resolved", "passed",
    "won", "correct", "is_correct", "complete", "completed", "is_complete", "completion_level",
    "task_completed", "task_success", "goal_achieved", "finished", "done", "outcome", "status",
    "exit_status", "exit_code", "exit_reason", "termination_reason", "terminate_reason", "terminated",
    "truncated", "end_reason", "stop_reason", "verdict",
))  # fmt: skip
"""Names whose values say how a conversation ended, in lower case with underscores."""


def _hide_score(messages: list[Message], leaks: list[Leak]) -> None:
    """Hides a submitted patch and a score in the last message of a tool or user, if at most one message follows it."""
    index = _index_near_end(messages, "tool", "user")
    if index is None:
        return
    message = messages[index]
    if submission := _SUBMISSION.search(message.seen):
        leaks.append(Leak(index, "finish-marker", submission.group()[:_MAX_LEAK]))
        message = messages[index] = _with_view(message, _SUBMISSION.sub("", message.seen))
    body = message.seen
    if _has_only_outcomes(body):
        leaks.append(Leak(index, "score-observation", body[:_MAX_LEAK]))
        messages[index] = _with_view(message, "")
        return
    lower = body.lower()
    if not any(word in lower for word in _SCORE_PREFILTER):
        return
    if page := _SCORE_PAGE.search(body):
        leaks.append(Leak(index, "score-observation", body[page.start() :][:_MAX_LEAK]))
        messages[index] = _with_view(message, "")
    elif line := _SCORE_LINE.search(body):
        leaks.append(Leak(index, "score-observation", line.group().strip()))
        messages[index] = _with_view(message, _SCORE_LINE.sub("", body))


def _has_only_outcomes(body: str) -> bool:
    """Returns whether a text is a JSON object of outcomes, at least two: one alone may be a tool's answer."""
    try:
        value = json.loads(body) if body.lstrip()[:1] == "{" else None
    except (ValueError, RecursionError):
        return False
    if not isinstance(value, dict) or len(value) < 2:
        return False
    return all(
        _normalized_name(name) in _OUTCOME_KEYS and not isinstance(entry, dict | list)
        for name, entry in value.items()
    )


# What the truth says of the outcome, in one of the last messages

_END_NAMES = ("exit_status", "exit_reason", "termination_reason", "terminate_reason", "end_reason")
"""Outcomes that some programs write as the last message, as a word."""

_STATEMENT = re.compile(
    r"^[ \t*>#\[({\"'`-]*(?:observation:[ \t]*)?(?P<name>[A-Za-z][A-Za-z_ -]{1,30}?)[ \t*\"'`]*[:=]"
    r"[ \t*\"'`]*(?P<value>[^\n]{1,80}?)[ \t*\"'`.,;\])}]*$",
    re.MULTILINE,
)
"""Matches a line that gives an outcome a value, as `Reward: 1`."""

_MAX_WORD = 40
"""Most characters of a value of an outcome that is looked for in messages."""


def _hide_stated_outcomes(
    messages: list[Message], truth: Mapping[str, Any], leaks: list[Leak]
) -> None:
    """Hides what the last two messages that are not hidden say of the outcome, if the truth says the same."""
    outcomes = dict(_stated_outcomes(truth))
    if not outcomes:
        return
    end_words = {outcomes[name] for name in _END_NAMES if name in outcomes}
    backwards = range(len(messages) - 1, -1, -1)
    last_shown = [*islice((index for index in backwards if not messages[index].hidden), 2)]
    for index in reversed(last_shown):
        body = messages[index].seen
        if body.strip().lower() in end_words:
            leaks.append(Leak(index, "truth-value", body.strip()))
            messages[index] = _with_view(messages[index], "")
            continue
        plain_body = body.lower().replace("-", "_").replace(" ", "_")
        if not any(name in plain_body for name in outcomes):  # the expression below is slow
            continue
        statements = [
            statement
            for statement in _STATEMENT.finditer(body)
            if outcomes.get(_normalized_name(statement["name"].strip()))
            == _value_as_word(statement["value"])
        ]
        if statements and not messages[index].tool_calls:
            for statement in reversed(statements):
                leaks.append(Leak(index, "truth-value", statement.group().strip()))
                body = body[: statement.start()] + body[statement.end() :]
            messages[index] = _with_view(messages[index], body)


def _stated_outcomes(truth: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields the outcomes of a truth, also of objects within it, with their values as words."""
    for name, value in truth.items():
        if isinstance(value, dict):
            yield from _stated_outcomes(value)
        elif _normalized_name(str(name)) in _OUTCOME_KEYS and isinstance(value, str | int | float):
            word = _value_as_word(value)
            if word and len(word) <= _MAX_WORD:
                yield _normalized_name(str(name)), word


def _value_as_word(value: Any) -> str:
    """Returns a value in lower case; numbers without needless zeros."""
    if isinstance(value, bool):
        return "true" if value else "false"
    word = str(value).strip().lower()
    try:
        return format(float(word), "g")
    except ValueError:
        return word


# Actions that finish, in the last message of the assistant

FINISH_CALLS = frozenset((
    "finish", "finished", "done", "submit", "submit_answer", "final_answer", "complete_task",
    "task_complete", "task_completed", "finish_task", "end_task", "end_conversation", "end_chat",
    "terminate", "attempt_completion", "mark_complete", "mark_task_complete",
))  # fmt: skip
"""Names of tools whose call does nothing but end the episode, in lower case with underscores."""

_SUBMIT_MARKS = ("COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT", "MINI_SWE_AGENT_FINAL_OUTPUT")
"""What mini-SWE-agent prints to submit; the second one in older versions."""

_OUTCOME_ARGUMENTS = frozenset(("return_type", "status", "success", "reward", "score", "outcome"))
"""Arguments of a finishing call that state the outcome."""

_ANSWER_ARGUMENTS = ("answer", "final_answer", "result", "response", "message", "text", "summary")
"""Arguments of a finishing call with the text for the user, the surest first."""

_FINISH_PREFILTER = re.compile(
    r"finish|submit|terminate|exit|done|answer|attempt_completion|final_output", re.IGNORECASE
)
"""Finds words without which none of the slow patterns for actions that finish matches."""

_ACTION = r"(?:act|action)(?:[ \t]+\d+)?:\s*"
"""Matches the beginning of an action in the text of an agent."""

_FINISH_WITH_ARGUMENT = re.compile(
    rf"^(?:{_ACTION})?(?:finish|submit)[ \t]*(?:\[([^\n]*)\]|\(([^\n]*)\))[ \t.]*\Z"
    rf"|^{_ACTION}answer\(([^\n]*)\)[ \t.]*\Z"
    rf"|^{_ACTION}finish(?:\s+with)?\s+action input(?:[ \t]+\d+)?:\s*(.*)\Z"
    r"|^<function=(?:finish|submit)>(?:\s*<parameter=(?:message|answer|result)>(.*?)</parameter>)?.*</function>\Z"
    r"|^<attempt_completion>(?:\s*<result>(.*?)</result>)?.*</attempt_completion>\Z",
    re.IGNORECASE | re.MULTILINE | re.DOTALL,
)
"""Matches an action that finishes and gives an answer."""

_FINISH_ALONE = re.compile(
    rf"^(?:thought:[ \t]*exceeded max turns[^\n]*\n)?{_ACTION}(?:finish|finished|submit|done|exit|terminate)[ \t.]*\Z"
    rf"|^```\w*\s*\n(?:submit|exit|echo ['\"]?(?:{'|'.join(_SUBMIT_MARKS)})[^\n]*)\s*\n```\s*\Z"
    r"|\A(?:finish|submit|exit|terminate)\Z",
    re.IGNORECASE | re.MULTILINE,
)
"""Matches an action that only finishes."""

_ANSWER_ACTION = re.compile(
    rf"^{_ACTION}(?:final )?answer[ \t]*$\n?|^final answer:[ \t]*", re.IGNORECASE | re.MULTILINE
)
"""Matches the words before a final answer; the answer itself stays."""


def _hide_finish(messages: list[Message], leaks: list[Leak]) -> None:
    """Hides a finish marker in the last message of the assistant, if at most one message follows it."""
    index = _index_near_end(messages, "assistant")
    if index is None:
        return
    if messages[index].tool_calls:
        _hide_finish_calls(messages, index, leaks)
    elif _FINISH_PREFILTER.search(messages[index].content):
        _hide_finish_text(messages, index, leaks)


def _hide_finish_text(messages: list[Message], index: int, leaks: list[Leak]) -> None:
    """Hides a finish marker in the text of a message; the answer for the user stays."""
    body = messages[index].seen.rstrip()
    markers: list[str] = []
    if match := _FINISH_WITH_ARGUMENT.search(body):
        markers.append(match.group())
        argument = next((text for text in match.groups() if text is not None), "")
        body = body[: match.start()] + _answer_in(argument)
    elif match := _FINISH_ALONE.search(body):
        markers.append(match.group())
        body = body[: match.start()]
    else:
        markers = [match.group().strip() for match in _ANSWER_ACTION.finditer(body)]
        body = _ANSWER_ACTION.sub("", body)
    if markers:
        leaks.extend(Leak(index, "finish-marker", text[:_MAX_LEAK]) for text in markers)
        messages[index] = _with_view(messages[index], body)


def _hide_finish_calls(messages: list[Message], index: int, leaks: list[Leak]) -> None:
    """Hides the calls of a message that finish and, where it has no other calls, the answer of the tool to them."""
    message = messages[index]
    finishing = [call for call in message.tool_calls if _is_finishing(call)]
    if not finishing:
        return
    others = [call for call in message.tool_calls if call not in finishing]
    visible_text = (
        message.content if message.model_view is None else _STOP_TOKEN.sub("", message.content)
    )
    named_calls = [call for call in finishing if _normalized_name(call.name) in FINISH_CALLS]
    parts = [
        visible_text,
        *(_STOP_TOKEN.sub("", _answer_in(call.arguments)) for call in named_calls),
    ]
    view = "\n".join(part for part in parts if part)
    for call in finishing:
        call_as_text = f"{call.name}({call.arguments})"
        leaks.append(Leak(index, "finish-marker", call_as_text[:_MAX_LEAK]))
    messages[index] = _with_view(message, with_calls(view, others) if others else view)
    if index + 1 < len(messages) and messages[index + 1].role == "tool" and not others:
        leaks.append(Leak(index + 1, "finish-marker", messages[index + 1].content[:_MAX_LEAK]))
        messages[index + 1] = _with_view(messages[index + 1], "")


def _is_finishing(call: ToolCall) -> bool:
    """Returns whether a call ends the episode."""
    return _normalized_name(call.name) in FINISH_CALLS or any(
        mark in call.arguments for mark in _SUBMIT_MARKS
    )


def _answer_in(arguments: str) -> str:
    """Returns the text for the user in the arguments of a finishing call; empty if there is none."""
    try:
        value = storable(json.loads(arguments))
    except (ValueError, RecursionError):
        return arguments.strip()
    if isinstance(value, float) or is_nested_too_deep(value):  # 1e5 is not to become 100000.0
        return arguments.strip()
    if isinstance(value, dict):
        answer = next((value[key] for key in _ANSWER_ARGUMENTS if key in value), None)
        others = without_keys(value, *_OUTCOME_ARGUMENTS)
        only_other = next(iter(others.values())) if len(others) == 1 else others
        value = only_other if answer is None else answer
    if isinstance(value, str):
        return value.strip()
    return json.dumps(value, ensure_ascii=False) if value or value == 0 else ""
