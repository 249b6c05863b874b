"""Writes a sample conversation: the opening, the requests one after another, and the ending that its outcome asks for.

Texts are templates: one of each `{a|b}` is chosen, and `$name` is replaced by a value (`wording.expand`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal

import msgspec

from engine.base.conversation import Message, ToolCall
from engine.simulate.demo.wording import Voice, expand, words_of

Outcome = Literal["complete", "broken_off", "failed"]
"""How a conversation ends: all that was asked for is done; it stops before; something fails and the user gives up."""

Size = Literal["usual", "long", "huge"]
"""How long a conversation is; a huge one has tool results of many lines."""

_THANKS = re.compile(r"\b(?:thanks|thank you|thx|cheers)\b", re.IGNORECASE)
"""Matches words of thanks in a message of the user."""

_ASKING = re.compile(
    r"\?$|^(?:Sure|I can help|Let me look).*(?:need|tell me)|\bgive me\b|\bI need\b"
)
"""Matches a message of the assistant that asks the user for something."""

SideQuestion = tuple[str, str]
"""A question of the user about a result that was just reported, and its answer; templates with no `$name` in them."""


class _UserWords(msgspec.Struct, frozen=True):
    """What users say in all domains; templates, of the section `user` of `words.toml`.

    Attributes:
        greeting: Before some openings.
        openings: Frames of the first message; `$list` is replaced by the requests in running text.
        openings_with_list: Frames in which `$lines` is replaced by the requests as a list.
        reminders: Before some later requests; `$noun` is the request as a noun phrase.
        by_the_way: Before a side question.
        leaving: The last message of some users who break off.
    """

    greeting: str
    openings: tuple[str, ...]
    openings_with_list: tuple[str, ...]
    reminders: tuple[str, ...]
    by_the_way: str
    leaving: tuple[str, ...]


class _AssistantWords(msgspec.Struct, frozen=True):
    """What the assistant says around a result; templates, of the section `assistant` of `words.toml`.

    Attributes:
        grants: Before a result that answers a request.
        returns: Before a result that follows a message that is not of the user, such as a tool's.
        welcomes: Before a result that follows thanks.
        tails: After a result.
    """

    grants: tuple[str, ...]
    returns: tuple[str, ...]
    welcomes: tuple[str, ...]
    tails: tuple[str, ...]


_USER = words_of("user", _UserWords)
"""The words of users."""

_ASSISTANT = words_of("assistant", _AssistantWords)
"""The words of the assistant."""


@dataclass(frozen=True, slots=True)
class Request:
    """One thing that the user asks for in the opening.

    Attributes:
        command: The request as an imperative without a full stop: `add a bag to my booking`.
        noun: The request as a noun phrase: `the extra bag`.
        run: Adds the messages in which the assistant fulfils the request and reports it.
        fail: Adds the messages in which the assistant tries, fails and reports that.
        side_questions: Returns questions about the result; called after `run`.
    """

    command: str
    noun: str
    run: Callable[[], None]
    fail: Callable[[], None]
    side_questions: Callable[[], Sequence[SideQuestion]] = tuple


@dataclass(slots=True)
class Script:
    """The conversation that is being written, with the voice of its user.

    Attributes:
        rng: The only random generator, so that a seed determines the conversation.
        outcome: How the conversation ends.
        unfinished: Number of messages after which some request was still open; a broken-off conversation ends there or
            earlier.
        voice: The style of the user.
    """

    rng: Random
    outcome: Outcome
    size: Size = "usual"
    messages: list[Message] = field(default_factory=list)
    unfinished: int = 0
    voice: Voice = field(init=False)
    _courtesy: float = field(init=False)
    _calls: int = 0

    def __post_init__(self) -> None:
        self.voice = Voice(self.rng)
        self._courtesy = self.rng.choice((0.0, 0.1, 0.2, 0.3))

    def chance(self, probability: float) -> bool:
        """Returns True with the given probability."""
        return self.rng.random() < probability

    def words(self, template: str, **values: object) -> str:
        """Returns `template` with choices made and values filled in, for use within another template."""
        return expand(self.rng, template, **values).replace("$", "$$")

    def system(self, text: str) -> None:
        """Adds the system message."""
        self.messages.append(Message("system", text))

    def user(self, template: str, **values: object) -> None:
        """Adds a message of the user."""
        self.messages.append(Message("user", self.voice.say(template, **values)))

    def reply(self, template: str, **values: object) -> None:
        """Adds a message of the user that sometimes begins with thanks or a short reaction to the message before."""
        to_question = _ASKING.search(self.messages[-1].content) is not None
        self.messages.append(Message("user", self.voice.reply(template, to_question, **values)))

    def say(self, template: str, **values: object) -> None:
        """Adds a message of the assistant."""
        self.messages.append(Message("assistant", expand(self.rng, template, **values)))

    def report(self, template: str, **values: object) -> None:
        """Adds a message of the assistant with a result. The wording is drawn alike in the middle and at the end of a
        conversation, so that it does not reveal whether the conversation is complete."""
        text = expand(self.rng, template, **values)
        if self.chance(self._courtesy):
            text = f"{expand(self.rng, self.rng.choice(self._leads()))} {text}"
        if self.chance(self._courtesy):
            gap = "\n\n" if "\n" in text else " "
            text = f"{text}{gap}{expand(self.rng, self.rng.choice(_ASSISTANT.tails))}"
        self.messages.append(Message("assistant", text))

    def _leads(self) -> tuple[str, ...]:
        """Returns what the assistant may say before a result, by the message before."""
        before = self.messages[-1]
        if before.role != "user":
            return _ASSISTANT.returns
        return _ASSISTANT.welcomes if _THANKS.search(before.content) else _ASSISTANT.grants

    def act(self, action: str, observation: str) -> None:
        """Adds an action that the assistant writes as text, and its observation as a tool message."""
        self.messages += [Message("assistant", action), Message("tool", observation)]

    def call(self, name: str, arguments: dict[str, Any], result: Any, text: str = "") -> None:
        """Adds a tool call and its result; a `result` that is not text is written as JSON."""
        self._calls += 1
        call_id = f"call_{self.rng.getrandbits(32):08x}{self._calls:02d}"
        call = ToolCall(name, json.dumps(arguments, ensure_ascii=False), call_id)
        shown = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
        self.messages += [
            Message("assistant", text, tool_calls=(call,)),
            Message("tool", shown, name=name, tool_call_id=call_id),
        ]

    def mark_unfinished(self) -> None:
        """Records that a request is still open after the last message, so that the conversation may be cut here."""
        self.unfinished = len(self.messages)

    def users(self, upto: int | None = None) -> int:
        """Returns the number of user messages among the first `upto` messages, or among all."""
        return sum(message.role == "user" for message in self.messages[:upto])


def write_opening(script: Script, commands: Sequence[str], preface: str = "") -> None:
    """Adds the user's first message, which names all requests, as a list or in running text."""
    rng = script.rng
    if len(commands) > 1 and script.chance(0.3):
        mark = rng.choice(("1. ", "1) ", "- "))
        lines = "\n".join(
            f"{mark.replace('1', str(number))}{command}"
            for number, command in enumerate(commands, 1)
        )
        frame = rng.choice(_USER.openings_with_list)
    else:
        lines = ""
        frame = rng.choice(_USER.openings)
    running = commands[0]
    if len(commands) > 1:
        links = [
            rng.choice((", ", ", then ", ", after that ", ", also ", " and "))
            for _ in commands[1:-1]
        ]
        last = rng.choice((" and ", ", and then ", " and finally ", ", plus ", ". Then "))
        for link, command in zip([*links, last], commands[1:], strict=True):
            running += link + command
    framed = frame.replace("$list", running).replace("$lines", lines)
    greeting = _USER.greeting if script.chance(0.5) else ""
    script.user(f"{greeting} {preface} {framed}".strip())


def write_requests(script: Script, requests: Sequence[Request]) -> None:
    """Adds the requests one after another; with the outcome `failed`, a random one fails and the user gives up."""
    failing = script.rng.randrange(len(requests)) if script.outcome == "failed" else None
    asked_before: set[str] = set()
    for number, request in enumerate(requests):
        if number and script.chance(0.75):
            script.reply(script.rng.choice(_USER.reminders).replace("$noun", request.noun))
        script.mark_unfinished()
        if number == failing:
            request.fail()
            give_up(script, [other.noun for other in requests[number + 1 :]])
            return
        request.run()
        last = number == len(requests) - 1
        open_questions = {
            question: answer
            for question, answer in request.side_questions()
            if question not in asked_before
        }
        if open_questions and script.chance(0.2 if script.size == "usual" else 0.3):
            question, answer = script.rng.choice(list(open_questions.items()))
            asked_before.add(question)
            script.reply(f"{_USER.by_the_way} {question}")
            script.report(answer)
            if not last:
                script.mark_unfinished()


def give_up(script: Script, left: Sequence[str]) -> None:
    """Adds how the user gives up after a failure; the requests `left`, given as noun phrases, stay undone."""
    rng = script.rng
    style = rng.randrange(0 if script.users() > 1 else 1, 5)
    if style == 0:
        return
    rest = f" {{Leave|Forget|Skip}} {left[0]} {{too|as well}}." if left and style < 3 else ""
    if style == 1:
        script.user(
            "{That's a pity|What a shame|That doesn't help me|Then there is no point}{.|, really.}"
            + rest
        )
    elif style == 2:
        script.user(
            "{I'll {try|look} elsewhere|I'll sort it out myself|I'll call them|Never mind "
            "then}{.|, thanks anyway.}" + rest
        )
        script.say(
            "{I'm sorry|Sorry|I apologise} {I couldn't|that I was not able to} {get this "
            "done|do more here}{.|. Have a good day.|. You are welcome to come back.}"
        )
    elif style == 3:
        script.user(
            "{Really|Seriously}? {Is there no other way|Nothing you can do|Can you retry|No chance at all|Not even "
            "later today|Is that final}?"
        )
        script.say(
            "{Unfortunately not|I'm afraid not|No, sorry}{.|, I have no way around it.|; it "
            "stays as it is.} {I understand that is frustrating.|}"
        )
    else:
        script.user(
            "{Okay, drop it|Leave it|Stop here then|Cancel the whole thing}{.|, thank you for "
            "trying.|!}"
        )


def write_closing(script: Script) -> None:
    """Adds what follows when all requests are fulfilled: thanks, a goodbye, or (most often) nothing."""
    rng = script.rng
    style = rng.random()
    # A user with one message so far always says something more.
    if script.users() < 2:
        style = 0.6 + style * 0.4
    if style < 0.6:
        return
    if style < 0.75:
        script.user("{That's|This is} {all|everything|it} {I needed|for today|from me|}{.|!}")
        if script.chance(0.6):
            script.say(
                "{Okay|Great|Good|Alright}{. Take care.|, I'll leave it at that.|. Bye for now.|!}"
            )
    elif style < 0.9:
        script.user(
            "{Thanks|Thank you|Many thanks|thx} {a lot|so much|for the {help|quick "
            "work}|}{.|!|, bye.|, that was {easy|quick}.}"
        )
        if script.chance(0.6):
            script.say(
                "{You're welcome|Glad I could help|My pleasure|Any time}{.|!|, have a "
                "{nice|great} {day|evening}.}"
            )
    else:
        script.user("{Good|Fine|Lovely|Exactly what I wanted|Looks right to me}{.|!}")


def break_off(script: Script) -> None:
    """Cuts the conversation at a random place where a request is still open, and sometimes adds a user who leaves."""
    rng = script.rng
    messages = script.messages
    roles = [message.role for message in messages]
    # Two messages of the user are kept where there are two; a single one is followed by a user who leaves.
    fewest = 2 if script.users(script.unfinished) >= 2 else 1
    places: list[int] = []
    for upto in range(2, script.unfinished + 1):
        if script.users(upto) < fewest or messages[upto - 1].tool_calls:
            continue
        if fewest == 1 and roles[upto - 1] == "user":
            continue
        here, after = roles[upto - 1], roles[upto] if upto < len(roles) else "user"
        # A boundary is a likelier end than the middle of a turn, so it is drawn three times as often.
        at_boundary = here in ("assistant", "tool") and after == "user"
        places += [upto] * (3 if at_boundary else 1)
    cut = rng.choice(places) if places else script.unfinished
    del messages[cut:]
    script.unfinished = cut
    if fewest == 1 or (roles[cut - 1] == "assistant" and script.chance(0.35)):
        script.user(rng.choice(_USER.leaving))
        if script.chance(0.5):
            script.say(
                "{No problem|Sure|Of course|Okay}{, I'll be here.|. I'll keep it as it is.|, "
                "thanks for letting me know.|. Have a good day!}"
            )
