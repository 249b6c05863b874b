"""The simulator: one model plays a person with a profile and a situation, another one is the assistant.

After RecUserSim (the seed's details, 5.4), with its loop, its closing line and its ending phrase. Two things are laid
out anew: what the simulated user is told before the greeting is one system message, because not every chat template
takes several in a row, and the wording of rules, greeting and adviser is this program's own (prompts/recsim).
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from random import Random
from typing import Any, Literal

from engine.model.chat import Call, ChatMessage, Completion, Role
from engine.model.interface import Sampling
from engine.simulate.play import Ending, Play
from engine.simulate.prompt_files import filled
from engine.simulate.recsim.people import ADVISED, Language, Profile, Situation
from engine.simulate.sharded.asking import seed_from

FORMAT = "recllmsim"
"""The import format of the records."""

MAX_TURNS = 10
USER_TOKENS, ASSISTANT_TOKENS = 200, 512
FAREWELLS: tuple[tuple[str, str], ...] = (("thank you", "goodbye"), ("谢谢", "再见"))
"""A reply with both words of a pair, in any case, ends the conversation and is no part of it."""

_CHINESE: Language = "zh"


@dataclass(frozen=True, slots=True)
class Setting:
    """What all conversations of one simulation share.

    Attributes:
        texts: The prompts, by name; in Chinese with `-zh` at the end.
        max_turns: Answers of the assistant at most.
        temperature: Of both models.
        user_tokens, assistant_tokens: Longest replies.
        asks: Both sides are asked at the end what came of it.
    """

    texts: Mapping[str, str]
    language: Language = "en"
    max_turns: int = MAX_TURNS
    temperature: float = 0.5
    user_tokens: int = USER_TOKENS
    assistant_tokens: int = ASSISTANT_TOKENS
    asks: bool = False
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Meeting:
    """One conversation to simulate; `run` counts those of the same person in the same situation, from 0."""

    setting: Setting
    profile: Profile
    situation: Situation
    run: int = 0

    @property
    def key(self) -> str:
        return (
            f"recsim/{self.situation.task.replace(' ', '-')}/profile-{self.profile.id}/situation-{self.situation.id}"
            f"/{self.setting.language}/{self.run}"
        )

    @property
    def expected(self) -> float:
        return 1.0

    def play(self) -> Play:
        return (yield from _Stage(self).played())


def meetings(
    setting: Setting,
    tasks: Sequence[str],
    runs: int,
    profiles: Sequence[Profile],
    situations: Sequence[Situation],
) -> list[Meeting]:
    """So many conversations of each task: every person in every situation once in an order drawn by the seed, and
    then again.

    Raises:
        ValueError: A task has no situation.
    """
    found: list[Meeting] = []
    for task in tasks:
        pairs = [*product(profiles, (one for one in situations if one.task == task))]
        if not pairs:
            raise ValueError(f"No situation is one of {task}.")
        Random(seed_from(setting.seed, task)).shuffle(pairs)
        found += [
            Meeting(setting, *pairs[number % len(pairs)], number // len(pairs))
            for number in range(runs)
        ]
    return found


def says_goodbye(reply: str) -> bool:
    """Whether a reply of the user ends the conversation."""
    lowered = reply.lower()
    return any(all(word in lowered for word in pair) for pair in FAREWELLS)


@dataclass(slots=True)
class _Stage:
    """A conversation while it is played: what each model has seen."""

    meeting: Meeting
    user: list[ChatMessage] = field(default_factory=list)
    assistant: list[ChatMessage] = field(default_factory=list)
    stand_ins: int = 0
    asked: int = 0

    def played(self) -> Play:
        """Greeting, turns, questions afterwards."""
        setting, task = self.meeting.setting, self.meeting.situation.task
        self.user = [
            ChatMessage("system", self._told()),
            ChatMessage("user", self._text("greeting")),
        ]
        self.assistant = (
            [ChatMessage("system", self._text("assistant-new-travel-planning"))]
            if task == ADVISED
            else []
        )
        history: list[dict[str, str]] = []
        ended: Literal["goodbye", "limit"] = "limit"
        for turn in range(setting.max_turns):
            wish = yield from self._spoken("user", first=turn == 0)
            if turn and says_goodbye(wish):
                ended = "goodbye"
                break
            self.assistant.append(ChatMessage("user", wish))
            answer = yield from self._spoken("assistant")
            self.user.append(ChatMessage("user", f"{answer}\n{self._text('closing')}"))
            history += [
                {"role": "user", "content": wish},
                {"role": "assistant", "content": answer},
            ]
        else:
            wish = yield from self._spoken("user")
            ended = "goodbye" if says_goodbye(wish) else "limit"
        questions = (yield from self._questions()) if setting.asks else []
        return Ending(self._record(history, ended, questions), FORMAT, self._result(history, ended))

    def _told(self) -> str:
        language = self.meeting.setting.language
        parts = (
            filled(
                self._text("user-situation"), {"SITUATION": self.meeting.situation.text[language]}
            ),
            filled(self._text("user-profile"), {"PROFILE": self.meeting.profile.text[language]}),
            self._text("user-rules"),
        )
        return "\n\n".join(parts)

    def _text(self, name: str) -> str:
        setting = self.meeting.setting
        return setting.texts[f"{name}-zh" if setting.language == _CHINESE else name].strip()

    def _spoken(self, role: Role, *, first: bool = False) -> Generator[Call, Completion, str]:
        """What one side says next, which it then has said; asked again once where that is nothing.

        Args:
            first: The first wish: a farewell is of no use yet, and the model is begun for, because a small one would
                else return the greeting.
        """
        seen = self.user if role == "user" else self.assistant
        setting = self.meeting.setting
        self.asked += 1
        call = Call(
            role,
            role,
            tuple(seen),
            Sampling(temperature=setting.temperature),
            setting.user_tokens if role == "user" else setting.assistant_tokens,
            seed=seed_from(setting.seed, self.meeting.key, self.asked),
            opening=self._text("user-opening") if first else "",
        )
        for number in range(2):
            again = replace(
                call, sampling=Sampling(temperature=1.0), seed=seed_from(call.seed, number)
            )
            said = yield again if number else call
            text = _whole(call.opening, said.text)
            if text and not (first and says_goodbye(text)):
                break
        else:
            self.stand_ins += 1
            text = (
                self.meeting.situation.text[setting.language]
                if first
                else self._text(f"{role}-speechless")
            )
        seen.append(ChatMessage("assistant", text))
        return text

    def _questions(self) -> Generator[Call, Completion, list[dict[str, str]]]:
        """What both sides say afterwards; `history` holds none of it."""
        asked: list[dict[str, str]] = []
        sides: tuple[Role, ...] = ("user", "assistant")
        for role in sides:
            seen = self.user if role == "user" else self.assistant
            for question in self._after(role):
                seen.append(ChatMessage("user", question))
                answer = yield from self._spoken(role)
                asked.append({"to": role, "question": question, "answer": answer})
        return asked

    def _after(self, role: Role) -> Iterator[str]:
        """The prompts `ROLE-asked-N`, so that a project has as many as it likes."""
        texts, number = self.meeting.setting.texts, 1
        while f"{role}-asked-{number}" in texts:
            yield self._text(f"{role}-asked-{number}")
            number += 1

    def _record(
        self, history: list[dict[str, str]], ended: str, questions: list[dict[str, str]]
    ) -> dict[str, Any]:
        """In the schema of `LLM_agent_user`, with what this simulator knows besides."""
        profile, situation = self.meeting.profile, self.meeting.situation
        said = "the simulated user said goodbye" if ended == "goodbye" else "the turns ran out"
        return {
            "id": self.meeting.key,
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
            "language": self.meeting.setting.language,
            "complete": ended == "goodbye",
            "complete_basis": said,
            **({"questions": questions} if questions else {}),
        }

    def _result(self, history: Sequence[Mapping[str, str]], ended: str) -> dict[str, Any]:
        said = {
            side: [len(one["content"]) for one in history if one["role"] == side]
            for side in ("user", "assistant")
        }
        return {
            "task": self.meeting.situation.task,
            "language": self.meeting.setting.language,
            "profile": self.meeting.profile.id,
            "situation": self.meeting.situation.id,
            "turns": len(history) // 2,
            "ended": ended,
            "stand_ins": self.stand_ins,
            "user_chars": sum(said["user"]),
            "assistant_chars": sum(said["assistant"]),
        }


def _whole(opening: str, reply: str) -> str:
    """What was said. Some endpoints do not go on from an opening but answer anew, which begins with a letter."""
    if not reply.strip():
        return ""
    return (reply if reply[:1].isalnum() else opening + reply).strip()
