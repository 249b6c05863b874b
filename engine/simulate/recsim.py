"""Simulates conversations between a user with a profile and a situation, and an assistant; each side is a model.

Follows RecUserSim: its loop, its closing line and its ending phrase. Two things differ: the instructions of the
simulated user are one system message, because not every chat template accepts several in a row, and the wording of
rules, greeting and adviser is this program's own (prompts/recsim).
"""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import product
from random import Random
from typing import Any, Literal, NamedTuple

from engine.model.chat import Call, ChatMessage, Completion, Ending, Play, Role, seed_from
from engine.model.interface import Sampling
from engine.model.prompt_files import filled

TASKS = (
    "travel planning",
    "new travel planning",
    "preparing gifts",
    "recipe planning",
    "skills learning planning",
)
"""The tasks that the simulated people plan."""

ADVISED = "new travel planning"
"""The task in which the assistant gets a system message with its role."""

FORMAT = "recllmsim"
"""The import format of the records."""

MAX_TURNS = 10
"""Most answers of the assistant, by default."""

TEMPERATURE = 0.5
"""Temperature of both models, by default."""

USER_TOKENS, ASSISTANT_TOKENS = 200, 512
"""Longest reply of the user and of the assistant in tokens."""


class Profile(NamedTuple):
    """A person: the number in the bundled file, and numbered lines such as `1. Gender: Male`."""

    id: int
    text: str


class Situation(NamedTuple):
    """A task of `TASKS`, and its description addressed to the simulated person ("You want to ...")."""

    id: int
    task: str
    text: str


@cache
def profiles() -> Sequence[Profile]:
    """Returns the bundled profiles."""
    return [
        Profile(
            number,
            "\n".join(
                f"{line}. {name}: {words}" for line, (name, words) in enumerate(record.items(), 1)
            ),
        )
        for number, record in enumerate(_data("recsim_profiles.json"))
    ]


@cache
def situations() -> Sequence[Situation]:
    """Returns the bundled situations; some for each task."""
    return [Situation(**record) for record in _data("recsim_situations.json")]


def _data(name: str) -> Any:
    """Returns the parsed JSON of a file in this folder."""
    # Imported here: the command line needs only the names of the tasks, and starts faster without it.
    from importlib import resources

    return json.loads((resources.files(__package__) / name).read_text("utf-8"))


@dataclass(frozen=True, slots=True)
class Setting:
    """The settings of all conversations of one simulation.

    Attributes:
        texts: The prompts, by name.
        max_turns: Most answers of the assistant.
        temperature: Temperature of both models.
        seed: Determines which profiles and situations meet, and the seeds of all calls.
    """

    texts: Mapping[str, str]
    max_turns: int = MAX_TURNS
    temperature: float = TEMPERATURE
    seed: int = 0


@dataclass(frozen=True, slots=True)
class RecSimScenario:
    """One conversation to simulate.

    Attributes:
        profile: The person that the user plays.
        situation: What the user wants to plan.
        run: Number of the conversation among those of the same person in the same situation, from 0.
    """

    setting: Setting
    profile: Profile
    situation: Situation
    run: int = 0

    @property
    def key(self) -> str:
        """The name of the scenario, unique in its simulation."""
        return (
            f"recsim/{self.situation.task.replace(' ', '-')}/profile-{self.profile.id}/situation-{self.situation.id}"
            f"/{self.run}"
        )

    def play(self) -> Play:
        """Starts a play; the record of its ending is in the RecLLMSim schema."""
        return (yield from _Conversation(self).play())


def recsim_scenarios(
    setting: Setting,
    tasks: Sequence[str],
    runs: int,
    profiles: Sequence[Profile],
    situations: Sequence[Situation],
) -> list[RecSimScenario]:
    """Returns `runs` scenarios for each task: every pair of person and situation once in random order, then again.

    Raises:
        ValueError: A task has no situation.
    """
    scenarios: list[RecSimScenario] = []
    for task in tasks:
        meetings = [
            *product(profiles, (situation for situation in situations if situation.task == task))
        ]
        if not meetings:
            raise ValueError(f"No situation is one of {task}.")
        Random(seed_from(setting.seed, task)).shuffle(meetings)
        scenarios += [
            RecSimScenario(setting, *meetings[index % len(meetings)], run=index // len(meetings))
            for index in range(runs)
        ]
    return scenarios


def says_goodbye(reply: str) -> bool:
    """Returns whether a reply of the user ends the conversation; it is no part of it then."""
    lowered = reply.lower()
    return "thank you" in lowered and "goodbye" in lowered


@dataclass(slots=True)
class _Conversation:
    """A conversation in progress.

    Attributes:
        user_history, assistant_history: The messages that each model has seen; its own have the role `assistant`, those
            of the other side the role `user`.
        stand_ins: Number of fixed messages that replaced empty replies.
        calls_made: Number of messages that were asked for; second attempts are not counted.
    """

    scenario: RecSimScenario
    user_history: list[ChatMessage] = field(default_factory=list)
    assistant_history: list[ChatMessage] = field(default_factory=list)
    stand_ins: int = 0
    calls_made: int = 0

    def play(self) -> Play:
        """Plays greeting and turns; the generator of the play."""
        setting, task = self.scenario.setting, self.scenario.situation.task
        self.user_history = [
            ChatMessage("system", self._instructions()),
            ChatMessage("user", self._text("greeting")),
        ]
        self.assistant_history = (
            [ChatMessage("system", self._text("assistant-new-travel-planning"))]
            if task == ADVISED
            else []
        )
        history: list[dict[str, str]] = []
        ended: Literal["goodbye", "limit"] = "limit"
        for turn in range(setting.max_turns):
            request = yield from self._next_message("user", first=turn == 0)
            # At turn 0 `_next_message` has replaced a farewell already.
            if turn and says_goodbye(request):
                ended = "goodbye"
                break
            self.assistant_history.append(ChatMessage("user", request))
            answer = yield from self._next_message("assistant")
            self.user_history.append(ChatMessage("user", f"{answer}\n{self._text('closing')}"))
            history += [
                {"role": "user", "content": request},
                {"role": "assistant", "content": answer},
            ]
        else:
            # The limit of turns is reached; the user may still say goodbye.
            request = yield from self._next_message("user")
            ended = "goodbye" if says_goodbye(request) else "limit"
        return Ending(self._record(history, ended), FORMAT, self._result(history, ended))

    def _instructions(self) -> str:
        """Returns the system message of the user: situation, profile and rules."""
        parts = (
            filled(self._text("user-situation"), {"SITUATION": self.scenario.situation.text}),
            filled(self._text("user-profile"), {"PROFILE": self.scenario.profile.text}),
            self._text("user-rules"),
        )
        return "\n\n".join(parts)

    def _text(self, name: str) -> str:
        """Returns a prompt."""
        return self.scenario.setting.texts[name].strip()

    def _next_message(self, role: Role, *, first: bool = False) -> Generator[Call, Completion, str]:
        """Returns the next message of one side and adds it to its history; an empty reply is retried once.

        Args:
            first: Whether this is the first request: a farewell is retried too, and the reply gets a fixed opening,
                because a small model would otherwise repeat the greeting.
        """
        history = self.user_history if role == "user" else self.assistant_history
        setting = self.scenario.setting
        self.calls_made += 1
        call = Call(
            module=role,
            role=role,
            messages=tuple(history),
            sampling=Sampling(temperature=setting.temperature),
            max_tokens=USER_TOKENS if role == "user" else ASSISTANT_TOKENS,
            seed=seed_from(setting.seed, self.scenario.key, self.calls_made),
            opening=self._text("user-opening") if first else "",
        )
        # The second attempt has another temperature and seed, or an equal call would get the same reply again.
        second_call = replace(
            call, sampling=Sampling(temperature=1.0), seed=seed_from(call.seed, 1)
        )
        for attempt in (call, second_call):
            completion = yield attempt
            text = _with_opening(call.opening, completion.text)
            if text and not (first and says_goodbye(text)):
                break
        else:
            self.stand_ins += 1
            text = self.scenario.situation.text if first else self._text(f"{role}-speechless")
        history.append(ChatMessage("assistant", text))
        return text

    def _record(self, history: list[dict[str, str]], ended: str) -> dict[str, Any]:
        """Returns the record in the RecLLMSim schema `LLM_agent_user`, with the additional truth of the simulation.

        `conflict` belongs to the schema and is always False here. Whether the conversation is `complete`, and
        the reason in words (`complete_basis`), are truth that this program adds.
        """
        profile, situation = self.scenario.profile, self.scenario.situation
        basis = "the simulated user said goodbye" if ended == "goodbye" else "the turns ran out"
        return {
            "id": self.scenario.key,
            "task": situation.task,
            "preference_id": profile.id,
            "preference": profile.text,
            "task_context_id": situation.id,
            "task_context": situation.text,
            "history": history,
            "conflict": False,
            "complete": ended == "goodbye",
            "complete_basis": basis,
        }

    def _result(self, history: Sequence[Mapping[str, str]], ended: str) -> dict[str, Any]:
        """Returns the counts of the conversation; lengths are in characters."""
        lengths = {
            side: [len(message["content"]) for message in history if message["role"] == side]
            for side in ("user", "assistant")
        }
        return {
            "task": self.scenario.situation.task,
            "profile": self.scenario.profile.id,
            "situation": self.scenario.situation.id,
            "turns": len(history) // 2,
            "ended": ended,
            "stand_ins": self.stand_ins,
            "user_chars": sum(lengths["user"]),
            "assistant_chars": sum(lengths["assistant"]),
        }


def _with_opening(opening: str, reply: str) -> str:
    """Joins opening and reply. Some endpoints ignore the opening and start anew; then the reply begins with a
    letter."""
    if not reply.strip():
        return ""
    whole = reply if reply[:1].isalnum() else opening + reply
    return whole.strip()
