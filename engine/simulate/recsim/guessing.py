"""Lets a model guess profile fields from a user's words; a JSON schema limits its replies to the choices."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.model.chat import Call, ChatMessage, Completion
from engine.model.interface import Sampling
from engine.simulate.play import Ending, Play
from engine.simulate.prompt_files import filled
from engine.simulate.recsim.behaviour import cut
from engine.simulate.sharded.json_replies import ask_json, object_schema, seed_from

WORDS_CHARS = 3_600
"""Most characters of a user's words in the prompt."""
_TOKENS = 160


@dataclass(frozen=True, slots=True)
class GuessingScenario:
    """One user's words, of which a model guesses profile fields.

    Attributes:
        choices: Field -> answers to choose from.
        single: Fields with exactly one answer.
    """

    conversation: int
    words: str
    choices: Mapping[str, Sequence[str]]
    single: frozenset[str]
    texts: Mapping[str, str]
    seed: int = 0
    most: int = 3

    @property
    def key(self) -> str:
        return f"profile/{self.conversation}"

    @property
    def expected(self) -> float:
        return float(len(self.choices))

    def play(self) -> Play:
        guessed: dict[str, list[str]] = {}
        for name, choices in self.choices.items():
            guessed[name] = yield from self._guessed(name, choices)
        return Ending(result={"conversation": self.conversation, "guessed": guessed})

    def _guessed(self, name: str, choices: Sequence[str]) -> Generator[Call, Completion, list[str]]:
        """Returns the chosen answers; [] if no reply could be used, which counts as wrong."""
        one = name in self.single
        enum = {"enum": [*choices]}
        many = {"type": "array", "items": enum, "minItems": 0, "maxItems": self.most}
        shape = object_schema(answer=enum) if one else object_schema(answers=many)
        asked = filled(
            self.texts["guess" if one else "guess-many"],
            {
                "WORDS": cut(self.words, WORDS_CHARS),
                "FIELD": name,
                "CHOICES": "; ".join(choices),
                "MOST": str(self.most),
            },
        )

        def accept(reply: Mapping[str, Any]) -> list[str] | None:
            found = [reply.get("answer")] if one else reply.get("answers")
            if not isinstance(found, list) or any(word not in choices for word in found):
                return None
            return [str(word) for word in dict.fromkeys(found)]

        call = Call(
            name,
            "judge",
            (ChatMessage("system", self.texts["system"].strip()), ChatMessage("user", asked)),
            Sampling(),
            _TOKENS,
            seed=seed_from(self.seed, self.key, name),
        )
        return (yield from ask_json(call, shape, accept, (0.0, 0.7))) or []
