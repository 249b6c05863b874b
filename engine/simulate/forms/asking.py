"""How every module of form filling is asked: once, then once more with what is wanted spelled out, then not at all."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal

from engine.model.chat import Call, ChatMessage, Completion, Role
from engine.model.interface import Sampling
from engine.simulate.forms.profiles import Profile, facts_for
from engine.simulate.forms.replies import TEXT, dumped, last_object, object_schema, parsed
from engine.simulate.prompt_files import filled

Asking = Generator[Call, Completion, dict[str, Any]]
Drawn = Literal["question", "run"]


@dataclass(frozen=True, slots=True)
class Module:
    """One prompt with one kind of reply.

    Attributes:
        name: In transcripts, as the source's stored runs have it.
        wording: The prompt's name among the wordings.
        expression: What a reply must match; the model is told when it did not.
        most: Longest reply, in tokens.
    """

    name: str
    wording: str
    expression: str
    most: int = 256
    role: Role = "assistant"


USER = Module("user", "user", r'\{\s*"answer"\s*:\s*".*"\s*\}', role="user")
USER_WITH_FACTS = Module("user", "user-with-facts", USER.expression, role="user")


@dataclass(frozen=True, slots=True)
class Rules:
    """How runs are played.

    Attributes:
        temperature, high: Of a module's first call; of its second and of the simulated user.
        grouping_size: Labels that are grouped at once.
        follow_ups: Further questions on one question, at most; the source sets no limit, and a weak model finds none.
        turns_per_field: A run ends after so many turns for each field of its form.
        dummies: Modules, by name, whose fallback answers for them at once.
        profile: Whether the user is drawn anew for every question, as the source does, or once for a run; only then
            does the user know the profile's answers to the form, so that what was filled can be right or wrong.
        history_tokens: How much of the dialogue the baseline keeps, in tokens of four characters.
    """

    temperature: float = 0.0
    high: float = 0.2
    grouping_size: int = 7
    follow_ups: int = 5
    turns_per_field: int = 3
    dummies: frozenset[str] = frozenset()
    profile: Drawn = "question"
    history_tokens: int = 4000


class RunOver(Exception):
    """A run ends before its manager says so; the reason is what it ended by."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(slots=True)
class FormSession:
    """The state of one run: questions, answers and the form so far.

    Attributes:
        rng: Seeded by the run; draws profiles and seeds.
        profiles: Who may answer; the first for the whole run where the profile is fixed.
        person: A person answers: the user's calls carry the question alone and the reply is taken as it is.
        length: Fields of the form.
        interactions: The transcript. `call` is the place of the reply among all replies of the run, or null where
            a fallback answered.
        again, fallbacks: Second calls and fallbacks, by module.
    """

    texts: Mapping[str, str]
    rules: Rules
    rng: Random
    topic: str
    profiles: Sequence[Profile]
    form: str
    length: int
    person: bool = False
    interactions: list[dict[str, Any]] = field(default_factory=list)
    dialogue: list[dict[str, str]] = field(default_factory=list)
    again: Counter[str] = field(default_factory=Counter)
    fallbacks: Counter[str] = field(default_factory=Counter)
    calls: int = 0

    @property
    def most_turns(self) -> int:
        """Turns that the run may have."""
        return self.rules.turns_per_field * self.length

    def ask(
        self,
        module: Module,
        values: Mapping[str, str],
        schema: str,
        fits: Callable[[dict[str, Any]], bool],
        fallback: Callable[[], dict[str, Any]],
        *,
        at_once: bool = False,
    ) -> Asking:
        """Asks a module for an object.

        Args:
            values: For the places of its prompt.
            schema: JSON schema that the reply is sampled by.
            fits: Whether an object of the right shape makes sense here.
            fallback: What holds where the module failed twice or is a dummy.
            at_once: Treats the module as a dummy this time.
        """
        if at_once or module.name in self.rules.dummies:
            return self._fall_back(module, fallback())
        prompt = filled(self.texts[module.wording], values).strip()
        temperature = self.rules.high if module.role == "user" else self.rules.temperature
        expression = filled(self.texts["again"], {"EXPRESSION": module.expression}).strip()
        for attempt in (prompt, f"{prompt}\n\n{expression}"):
            messages = (ChatMessage("system", ""), ChatMessage("user", attempt))
            said = yield from self.say(module, messages, schema, temperature)
            found = understood(module, said.text, fits)
            if found is not None:
                self.note(module.name, dumped(found))
                return found
            self.again[module.name] += attempt is prompt
            temperature = self.rules.high
        return self._fall_back(module, fallback())

    def say(
        self, module: Module, messages: tuple[ChatMessage, ...], schema: str, temperature: float
    ) -> Generator[Call, Completion, Completion]:
        """One reply, whatever it is; at temperature 0 the same request has the same seed in every run."""
        self.calls += 1
        return (
            yield Call(
                module.name,
                module.role,
                messages,
                Sampling(temperature=temperature, json_schema=schema),
                max_tokens=module.most,
                seed=self.rng.getrandbits(31) if temperature else 0,
            )
        )

    def answer(self, question: str) -> Generator[Call, Completion, str]:
        """The user's answer to a question; both are written into the dialogue.

        Raises:
            RunOver: The run has had all its turns.
        """
        if len(self.dialogue) // 2 >= self.most_turns:
            raise RunOver("turns")
        if self.person:
            self.calls += 1
            said = yield Call("user", "user", (ChatMessage("user", question),))
            text = said.text
            self.note("user", text)
        else:
            reply = yield from self._simulated(question)
            text = reply["answer"]
            self.interactions[-1]["output"] = text
        self.interactions[-1]["prompt"] = question
        self.dialogue += [{"Assistant": question}, {"User": text}]
        return text

    def note(self, module: str, output: str) -> None:
        """Writes a reply into the transcript."""
        self.interactions.append({"module": module, "call": self.calls - 1, "output": output})

    def _simulated(self, question: str) -> Asking:
        values = {"TOPIC": self.topic, "QUESTION": question}
        module = USER
        if self.rules.profile == "run":
            profile = self.profiles[0]
            if known := profile.of_form(self.form):
                values["FACTS"] = "\n".join(facts_for(question, known))
                module = USER_WITH_FACTS
        else:
            profile = self.rng.choice(self.profiles)
        return self.ask(
            module,
            values | {"PROFILE": profile.description},
            object_schema({"answer": TEXT}),
            lambda reply: isinstance(reply.get("answer"), str),
            lambda: {"answer": " "},
        )

    def _fall_back(self, module: Module, value: dict[str, Any]) -> dict[str, Any]:
        self.fallbacks[module.name] += 1
        self.interactions.append({"module": module.name, "call": None, "output": dumped(value)})
        return value


def understood(
    module: Module, reply: str, fits: Callable[[dict[str, Any]], bool]
) -> dict[str, Any] | None:
    """The object that a reply ends with, or None where it has none that the module could have meant."""
    text = last_object(reply)
    if text is None or not re.fullmatch(module.expression, text, re.DOTALL):
        return None
    value = parsed(text)
    return value if value is not None and fits(value) else None
