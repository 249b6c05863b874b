"""Annotates conversations of users with a model, in the fields that RecLLMSim publishes: seven ratings, the intent of
each message of the user, hallucination of each answer, and a summary of the user's preferences.

The rubric (`rubric.txt`) has the README's words, letter for letter, for three ratings (detail, diversity, usefulness);
the README names the other four without a rubric.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from engine.model.chat import Call, ChatMessage, Completion
from engine.model.interface import Sampling
from engine.questions.rating_scales import RATING, RATINGS
from engine.simulate.play import Ending, Play
from engine.simulate.prompt_files import filled
from engine.simulate.recsim.behaviour import LANGUAGES, USER_CHARS, Label, Turns, cut, dialogue
from engine.simulate.sharded.json_replies import TRIES, ask_json, object_schema, seed_from

T = TypeVar("T")

Part = Literal["ratings", "intents", "hallucination", "preferences"]
PARTS: tuple[Part, ...] = ("ratings", "intents", "hallucination", "preferences")

INTENTS = ("Planning", "Search", "Recommendation", "Search & Recommendation", "Others")
MOST_PREFERENCES = 12
_TOKENS = 160
_ANSWER_CHARS = 4_000
"""Length of the answer that is judged; of earlier ones only the beginning is shown."""
_UNKNOWN = "not known"


@dataclass(frozen=True, slots=True)
class RatingScenario:
    """One conversation to annotate.

    Attributes:
        conversation: Its id in the project.
        profile, situation: What the user was told to play; empty where it is not known.
        texts: The prompts `system`, `rubric` and one for each part.
        temperature: Of the first attempt; a second one has 0.5, a third one 1.
    """

    conversation: int
    turns: Turns
    language: str
    profile: str
    situation: str
    texts: Mapping[str, str]
    parts: tuple[Part, ...] = PARTS
    temperature: float = TRIES[0]
    seed: int = 0

    @property
    def key(self) -> str:
        return f"ratings/{self.conversation}"

    @property
    def expected(self) -> float:
        """Number of replies: one a conversation for ratings and preferences, one a message for the others."""
        sides = [role for role, _ in self.turns]
        each = {"intents": sides.count("user"), "hallucination": sides.count("assistant")}
        return float(sum(each.get(part, 1) for part in self.parts))

    def play(self) -> Play:
        """Returns a new play; what the model could not say is null, or missing among the ratings."""
        result: dict[str, Any] = {"conversation": self.conversation, "labels": {}}
        if "ratings" in self.parts:
            found = yield from self._asked("ratings", self.turns, _RATED, _ratings)
            result["labels"] = {RATING: {"final": found or {}}}
        if "intents" in self.parts:
            result["user_intents"] = yield from self._each("user", "intent", _INTENT, _intent)
        if "hallucination" in self.parts:
            judged = yield from self._each("assistant", "hallucination", _WRONG, _wrong)
            result["hallucination"] = [one and one[0] for one in judged]
            result["hallucination_memo"] = [one and one[1] for one in judged]
        if "preferences" in self.parts:
            listed = yield from self._asked("preferences", self.turns, _LISTED, _preferences)
            result["preference_summary"] = listed
        return Ending(result=result)

    def _each(
        self,
        side: str,
        prompt: str,
        shape: Mapping[str, Any],
        accept: Callable[[Mapping[str, Any]], T | None],
    ) -> Generator[Call, Completion, list[Any]]:
        """What the model says of each message of a side; it sees the conversation up to that message."""
        found: list[Any] = []
        for at, (role, _) in enumerate(self.turns):
            if role == side:
                found.append(
                    (yield from self._asked(prompt, self.turns[: at + 1], shape, accept, at))
                )
        return found

    def _asked(
        self,
        prompt: str,
        turns: Turns,
        shape: Mapping[str, Any],
        accept: Callable[[Mapping[str, Any]], T | None],
        at: int = 0,
    ) -> Generator[Call, Completion, T | None]:
        *before, (role, last) = turns
        told = dialogue(before)
        limit = USER_CHARS if role == "user" else _ANSWER_CHARS
        asked = filled(
            self.texts[prompt],
            {
                "LANGUAGE": LANGUAGES.get(self.language, self.language),
                "DIALOGUE": f"{told}\n\n{role.upper()}: {cut(last, limit)}".strip(),
                "PROFILE": self.profile or _UNKNOWN,
                "SITUATION": self.situation or _UNKNOWN,
                "RUBRIC": self.texts["rubric"].strip(),
            },
        )
        call = Call(
            prompt,
            "judge",
            (ChatMessage("system", self.texts["system"].strip()), ChatMessage("user", asked)),
            Sampling(),
            _TOKENS,
            seed=seed_from(self.seed, self.key, prompt, at),
        )
        return (yield from ask_json(call, shape, accept, (self.temperature, *TRIES[1:])))


_RATED = object_schema(**{name: {"enum": [*grades]} for name, grades in RATINGS.items()})
_INTENT = object_schema(intent={"enum": [*INTENTS]})
_WRONG = object_schema(hallucination={"type": "boolean"}, memo={"type": "string", "maxLength": 200})
_LISTED = object_schema(
    preferences={
        "type": "array",
        "items": {"type": "string", "maxLength": 60},
        "maxItems": MOST_PREFERENCES,
    }
)


def _ratings(reply: Mapping[str, Any]) -> dict[str, Label] | None:
    if any(reply.get(name) not in grades for name, grades in RATINGS.items()):
        return None
    return {name: int(reply[name]) for name in RATINGS}


def _intent(reply: Mapping[str, Any]) -> str | None:
    found = reply.get("intent")
    return found if found in INTENTS else None


def _wrong(reply: Mapping[str, Any]) -> tuple[bool, str] | None:
    found, memo = reply.get("hallucination"), reply.get("memo", "")
    return (found, memo.strip()) if isinstance(found, bool) and isinstance(memo, str) else None


def _preferences(reply: Mapping[str, Any]) -> list[str] | None:
    found = reply.get("preferences")
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        return None
    return list(dict.fromkeys(one.strip() for one in found if one.strip()))[:MOST_PREFERENCES]
