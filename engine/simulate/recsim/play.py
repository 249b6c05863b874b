"""Simulates conversations between a user with a profile and a situation, and an assistant; each side is a model.

Follows RecUserSim: its loop, its closing line and its ending phrase. Two things differ: the instructions of the
simulated user are one system message, because not every chat template accepts several in a row, and the wording of
rules, greeting and adviser is this program's own (prompts/recsim).
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import product
from random import Random
from typing import Any, Literal, get_args

from engine.model.chat import Call, ChatMessage, Completion, Ending, Play, Role, seed_from
from engine.model.interface import Sampling
from engine.model.prompt_files import filled

Language = Literal["en", "zh"]
"""English or Chinese."""

LANGUAGES: tuple[Language, ...] = get_args(Language)
"""The languages that conversations can be in."""


FIELDS = {
    "Gender": "性别",
    "Age": "年龄",
    "Personality": "个性",
    "Occupation": "职业",
    "Daily Interests and Hobbies": "日常兴趣爱好",
    "Travel Habits": "旅行习惯",
    "Dining Preferences": "餐饮喜好",
    "Spending Habits": "消费习惯",
    "Other Aspects": "其他方面",
}
"""The lines of a profile, in order, with their Chinese names."""

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

MappedProfile = Mapping[str, Any]
"""A profile in the closed vocabulary: field -> {en, zh}, or a list of those."""


FORMAT = "recllmsim"
"""The import format of the records."""

MAX_TURNS = 10
"""Most answers of the assistant, by default."""

USER_TOKENS, ASSISTANT_TOKENS = 200, 512
"""Longest reply of the user and of the assistant in tokens."""

FAREWELLS: tuple[tuple[str, str], ...] = (("thank you", "goodbye"), ("谢谢", "再见"))
"""A reply with both words of a pair, in any case, ends the conversation and is not part of it."""

_CHINESE: Language = "zh"
"""The language whose prompts have names that end with `-zh`."""


@dataclass(frozen=True, slots=True)
class Profile:
    """A person.

    Attributes:
        id: Id in the bundled file.
        text: Language -> numbered lines such as `1. Gender: Male`.
        mapped: The same profile in the closed vocabulary.
    """

    id: int
    text: Mapping[Language, str]
    mapped: MappedProfile


@dataclass(frozen=True, slots=True)
class Situation:
    """A task description addressed to the simulated person ("You want to ..."), with the task of `TASKS`; `text` by
    language."""

    id: int
    task: str
    text: Mapping[Language, str]


@cache
def vocabulary() -> Mapping[str, Mapping[str, str]]:
    """Returns the allowed answers of each field but `Age`, English -> Chinese, as in RecLLMSim (Apache-2.0)."""
    words: dict[str, dict[str, str]] = _data("vocabulary.json")
    return words


@cache
def profiles() -> Sequence[Profile]:
    """Returns the bundled profiles."""
    return [_profile(record) for record in _data("profiles.json")]


@cache
def situations() -> Sequence[Situation]:
    """Returns the bundled situations; some for each task."""
    return [
        Situation(record["id"], record["task"], {"en": record["en"], "zh": record["zh"]})
        for record in _data("situations.json")
    ]


def _profile(record: Mapping[str, Any]) -> Profile:
    """Reads a profile from its record, in both languages.

    Args:
        record: `id`, `gender` and `age`; under `mapped` the English words of the vocabulary by field, one or a list;
            under `en` and `zh` the free words by English field.
    """
    gender, age = str(record["gender"]), str(record["age"])
    words = {"Gender": gender, **record["mapped"]}
    mapped: dict[str, Any] = {}
    for name in FIELDS:
        if name == "Age":
            mapped[name] = {"en": age, "zh": age}
        elif isinstance(words[name], str):
            mapped[name] = _in_both_languages(name, words[name])
        else:
            mapped[name] = [_in_both_languages(name, word) for word in words[name]]
    english = {"Gender": gender, "Age": age, **record["en"]}
    chinese = {"Gender": mapped["Gender"]["zh"], "Age": age, **record["zh"]}
    text: dict[Language, str] = {
        "en": "\n".join(
            f"{number}. {name}: {english[name]}" for number, name in enumerate(FIELDS, 1)
        ),
        "zh": "\n".join(
            f"{number}. {zh}：{chinese[en]}" for number, (en, zh) in enumerate(FIELDS.items(), 1)
        ),
    }
    return Profile(int(record["id"]), text, mapped)


def _in_both_languages(field: str, english: str) -> dict[str, str]:
    """Returns a word of the vocabulary in both languages."""
    return {"en": english, "zh": vocabulary()[field][english]}


def _data(name: str) -> Any:
    """Returns the parsed JSON of a file in this folder."""
    # Imported here: the command line needs only the names of the tasks, and starts faster without it.
    from importlib import resources

    return json.loads((resources.files(__package__) / name).read_text("utf-8"))


@dataclass(frozen=True, slots=True)
class Setting:
    """The settings of all conversations of one simulation.

    Attributes:
        texts: The prompts, by name; in Chinese with `-zh` at the end.
        language: Language of the conversations.
        max_turns: Most answers of the assistant.
        temperature: Temperature of both models.
        seed: Determines which profiles and situations meet, and the seeds of all calls.
    """

    texts: Mapping[str, str]
    language: Language = "en"
    max_turns: int = MAX_TURNS
    temperature: float = 0.5
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
            f"/{self.setting.language}/{self.run}"
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
    """Whether a reply of the user ends the conversation."""
    lowered = reply.lower()
    return any(all(word in lowered for word in pair) for pair in FAREWELLS)


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
        language = self.scenario.setting.language
        parts = (
            filled(
                self._text("user-situation"), {"SITUATION": self.scenario.situation.text[language]}
            ),
            filled(self._text("user-profile"), {"PROFILE": self.scenario.profile.text[language]}),
            self._text("user-rules"),
        )
        return "\n\n".join(parts)

    def _text(self, name: str) -> str:
        """Returns a prompt in the language of the conversation."""
        setting = self.scenario.setting
        return setting.texts[f"{name}-zh" if setting.language == _CHINESE else name].strip()

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
            text = (
                self.scenario.situation.text[setting.language]
                if first
                else self._text(f"{role}-speechless")
            )
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
            "preference": profile.text["en"],
            "preference_zh": profile.text["zh"],
            "profile_mapped": dict(profile.mapped),
            "task_context_id": situation.id,
            "task_context": situation.text["en"],
            "task_context_zh": situation.text["zh"],
            "history": history,
            "conflict": False,
            "language": self.scenario.setting.language,
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
            "language": self.scenario.setting.language,
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
    return (reply if reply[:1].isalnum() else opening + reply).strip()


@dataclass(frozen=True, slots=True)
class TaskRow:
    """All conversations of one task.

    Attributes:
        turns: Mean number of answers of the assistant.
        goodbyes: Number of conversations that the user ended; the others reached the limit of turns.
        user_chars, assistant_chars: Mean length of a message.
        stand_ins: Number of fixed messages that replaced empty replies.
    """

    task: str
    conversations: int
    turns: float
    goodbyes: int
    user_chars: float
    assistant_chars: float
    stand_ins: int


def by_task(results: Iterable[Mapping[str, Any]]) -> list[TaskRow]:
    """Returns a row for each task that was played, in the order of `TASKS`.

    Args:
        results: `Ending.result` of each play.
    """
    of_task: dict[str, list[Mapping[str, Any]]] = {}
    for result in results:
        of_task.setdefault(str(result["task"]), []).append(result)
    return [_row(task, of_task[task]) for task in TASKS if task in of_task]


def _row(task: str, results: list[Mapping[str, Any]]) -> TaskRow:
    """Returns the row of one task. There is a turn to divide by, because no farewell ends a conversation at once."""
    turns = sum(result["turns"] for result in results)
    return TaskRow(
        task=task,
        conversations=len(results),
        turns=turns / len(results),
        goodbyes=sum(result["ended"] == "goodbye" for result in results),
        user_chars=sum(result["user_chars"] for result in results) / turns,
        assistant_chars=sum(result["assistant_chars"] for result in results) / turns,
        stand_ins=sum(result["stand_ins"] for result in results),
    )
