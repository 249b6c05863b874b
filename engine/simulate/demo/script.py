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

from engine.base.conversation import Message, ToolCall
from engine.simulate.demo.wording import Voice, expand

Outcome = Literal["complete", "broken_off", "failed"]
Size = Literal["usual", "long", "huge"]

_THANKS = re.compile(r"\b(?:thanks|thank you|thx|cheers)\b", re.IGNORECASE)
_ASKING = re.compile(
    r"\?$|^(?:Sure|I can help|Let me look).*(?:need|tell me)|\bgive me\b|\bI need\b"
)

SideQuestion = tuple[str, str]
"""A question of the user about a result that was just reported, and its answer; templates with no `$name` in them."""

_GRANTS = ("{Sure|Of course|Certainly|No problem|Okay|Alright}{.|!}",)
_RETURNS = ("{Okay|Alright|Right|So}.", "{Thank you|Thanks} for {waiting|your patience}{.|!}")
_WELCOMES = ("{You're welcome|Glad to help|My pleasure|Welcome}{.|!}",)
_TAILS = (
    "{Let me know|Tell me} if {anything|something} {looks off|is not as you expected|needs "
    "changing}.",
    "{Is there anything|Anything} {else|} {you want me to check here|I should know|unclear "
    "about this}?",
    "{I hope|Hope} {that helps|this is what you needed}.",
    "{Have a look|Please check} and {shout|say so} if {it's wrong|a detail is missing}.",
    "{All good so far|Does that work for you|Is that okay}?",
    "{Glad|Happy} {to help with this|I could look that up|to have that sorted}.",
)


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
        asked = _ASKING.search(self.messages[-1].content) is not None
        self.messages.append(Message("user", self.voice.reply(template, asked, **values)))

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
            text = f"{text}{gap}{expand(self.rng, self.rng.choice(_TAILS))}"
        self.messages.append(Message("assistant", text))

    def _leads(self) -> tuple[str, ...]:
        before = self.messages[-1]
        if before.role != "user":
            return _RETURNS
        return _WELCOMES if _THANKS.search(before.content) else _GRANTS

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


_GREETING = "{Hi|Hello|Hey|Hi there|Hello there|Good morning|Good afternoon|Good day}{.|!}"
_FRAMES = (
    "{could you|can you|would you} {please|} $list?",
    "{I need you to|I'd like you to|please|would you mind helping me:} $list.",
    "$list{. That's it.|.|. That's all.| please.|. Nothing else.}",
    "{I'm hoping|I was hoping} you {can|could} $list.",
    "{could|can} {somebody|someone|you} $list{?|, please?|? {Would|It would|That would} be "
    "{a big help|very kind|great}.}",
    "{what I need is this|my request|the task for today}: $list.",
)
_LISTED = (
    "{a few things|some things for today|here is what I need|my list}:\n$lines",
    "{please|can you} {take care of|handle|help with} {these|the following}:\n$lines",
    "{for today:|to do:|tasks:|}\n$lines\n"
    "{In that order please.|Order does not matter.|All of it by {today|noon|Friday}, please.|}",
)


def write_opening(script: Script, commands: Sequence[str], preface: str = "") -> None:
    """Adds the user's first message, which names all requests, as a list or in running text."""
    rng = script.rng
    if len(commands) > 1 and script.chance(0.3):
        mark = rng.choice(("1. ", "1) ", "- "))
        lines = "\n".join(
            f"{mark.replace('1', str(number))}{command}"
            for number, command in enumerate(commands, 1)
        )
        frame = rng.choice(_LISTED)
    else:
        lines = ""
        frame = rng.choice(_FRAMES)
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
    greeting = _GREETING if script.chance(0.5) else ""
    script.user(f"{greeting} {preface} {framed}".strip())


_REMINDERS = (
    "{And|Now|Next|So,|Then} $noun{.|?| please.|, please.| then.}",
    "{What about|How about|And what about|Can we do} $noun {now|next|}?",
    "{Let's|We can|You can} {go on with|move on to|do|continue with} $noun.",
    "{Still open|Next|To do}: $noun{.|, please.|, if you can.}",
    "$noun{ next.| please.| then?}",
    "{Go ahead with|On to|Carry on with|Please see to} $noun{.|!}",
    "{I'm still waiting for|Don't forget|You haven't done} $noun{.|, yes?}",
)


_ASKED_BY_THE_WAY = (
    "{||||{By the way|Quick question|Just so I know|One thing|Before I forget|While you are at it}"
    ":|{Out of curiosity|Only to be sure|For my notes|My colleague asks}:}"
)


def write_requests(script: Script, requests: Sequence[Request]) -> None:
    """Adds the requests one after another; with the outcome `failed`, a random one fails and the user gives up."""
    failing = script.rng.randrange(len(requests)) if script.outcome == "failed" else None
    asked: set[str] = set()
    for number, request in enumerate(requests):
        if number and script.chance(0.75):
            script.reply(script.rng.choice(_REMINDERS).replace("$noun", request.noun))
        script.mark_unfinished()
        if number == failing:
            request.fail()
            give_up(script, [other.noun for other in requests[number + 1 :]])
            return
        request.run()
        last = number == len(requests) - 1
        open_questions = {
            pair[0]: pair for pair in request.side_questions() if pair[0] not in asked
        }
        if open_questions and script.chance(0.2 if script.size == "usual" else 0.3):
            question, answer = script.rng.choice(list(open_questions.values()))
            asked.add(question)
            script.reply(f"{_ASKED_BY_THE_WAY} {question}")
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


_LEAVE = (
    "{Sorry|Oh}, {I have to|need to|must} {run|go|take a call|leave}{.|, back "
    "{later|tomorrow}.|. The rest {another time|tomorrow}, thanks.}",
    "{Phone is ringing|Meeting starts|My battery is at 2%|The kids are up}{, one sec.|, brb.|. "
    "Thank you so far!|. Talk later.}",
    "{Hold on|One moment|Wait}{, {let me|I'll} {look|check} {that|it} {up|first}.|, someone at "
    "the door.}",
)


def break_off(script: Script) -> None:
    """Cuts the conversation at a random place where a request is still open, and sometimes adds a user who leaves."""
    rng = script.rng
    messages = script.messages
    roles = [message.role for message in messages]
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
        script.user(rng.choice(_LEAVE))
        if script.chance(0.5):
            script.say(
                "{No problem|Sure|Of course|Okay}{, I'll be here.|. I'll keep it as it is.|, "
                "thanks for letting me know.|. Have a good day!}"
            )
