"""One run of form filling: asks its modules for JSON objects (two attempts, then a fallback) and records the
replies. The JSON schemas that constrain the replies are made here too.

A module is one prompt with one kind of reply; a fallback is the object that replies in its place where no reply of the
model can be used. A section is a part of a form: labels to fields or to further sections.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal

from engine.model.chat import Call, ChatMessage, Completion, Role, parsed_object
from engine.model.interface import Sampling
from engine.model.prompt_files import filled
from engine.model.reply_forms import json_objects
from engine.simulate.forms.form import Profile, facts_for
from engine.simulate.forms.form_scores import Field, fields, is_field
from engine.simulate.play import RunOver

JOINS_LINES = "; "
"""Replaces a line break within a string of a reply."""

TEXT_CHARS = 300
"""Longest text in a reply that follows a schema; a small model would write on until it is cut off."""

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
"""A string in JSON."""

Schema = dict[str, Any]
"""A JSON schema, or a part of one."""


# JSON in replies, and the schemas that constrain it


_NAME = "free--text"
"""Name of the definition of a text; no grammar rule made from a label has this name."""

TEXT: Schema = {"$ref": f"#/$defs/{_NAME}"}
"""A text of one to `TEXT_CHARS` characters, defined once however many there are."""

FREE_TOKENS = 512
"""Least limit of a reply without a schema, which may say more than its JSON object."""

ObjectReply = Generator[Call, Completion, dict[str, Any]]
"""A part of a play that yields calls of a model and returns the JSON object of its reply."""

ProfileScope = Literal["question", "run"]
"""For how long the simulated user keeps a profile; see `Rules.profile`."""


def last_object(reply: str) -> str | None:
    """Returns the last whole outermost JSON object of a reply as it is written; None without one.

    Replaces line breaks by "; " within a string and by a space elsewhere.
    """
    objects = [text for text, _ in json_objects(reply)]
    if not objects:
        return None
    joined = _STRING.sub(lambda string: string[0].replace("\n", JOINS_LINES), objects[-1])
    return joined.replace("\n", " ")


def alike(given: Any, section: Any) -> bool:
    """Whether a returned section has only labels of the form, with values of the right kinds.

    An answer may be text, a number, a list of texts or null. Labels may be missing.
    """
    if not isinstance(given, dict) or not isinstance(section, dict):
        return isinstance(given, type(section))
    if not given.keys() <= section.keys():
        return False
    return all(
        _is_answer(value)
        if label == "answer" and is_field(section)
        else alike(value, section[label])
        for label, value in given.items()
    )


def section_schema(section: Mapping[str, Any]) -> str:
    """Returns the JSON schema of a filled section: only the answer of each field, limited to its options.

    The other keys of a field are left out, because a small model would spend most of its reply on them.
    """
    return _schema_text(_node_schema(section))


def object_schema(properties: Mapping[str, Schema]) -> str:
    """Returns the schema of an object with exactly these properties."""
    return _schema_text(_object(properties))


def pairs_schema(keys: Sequence[str]) -> str:
    """Returns the schema of an object of texts under some of these keys, in this order."""
    schema = _object(dict.fromkeys(keys, TEXT))
    del schema["required"]
    return _schema_text(schema)


def groups_schema(members: Sequence[str], most: int) -> str:
    """Returns the schema of an object of lists of one to `most` of these texts, under any keys."""
    group = {"type": "array", "items": one_of(members), "minItems": 1, "maxItems": most}
    return _schema_text({"type": "object", "additionalProperties": group})


def one_of(values: Sequence[str | None]) -> Schema:
    """Returns the schema of one of these values."""
    return {"enum": list(values)}


def some_of(values: Sequence[str], most: int) -> Schema:
    """Returns the schema of a list of one to `most` of these texts."""
    return {"type": "array", "items": one_of(values), "minItems": 1, "maxItems": most}


def dumped(value: Any) -> str:
    """Formats JSON as in the prompts."""
    return json.dumps(value, ensure_ascii=False)


def _object(properties: Mapping[str, Schema]) -> Schema:
    """Returns the schema of an object with exactly these properties, in this order."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def _is_answer(value: Any) -> bool:
    """Whether a value may be the answer of a field: a text, a number, a list of texts or null."""
    if isinstance(value, list):
        return all(isinstance(option, str) for option in value)
    return value is None or isinstance(value, str | int | float)


def _node_schema(section: Mapping[str, Any]) -> Schema:
    """Returns the schema of a filled section, or of a field."""
    if is_field(section):
        (only_field,) = fields(section)
        return _object({"answer": _answer_schema(only_field)})
    nodes = {label: _node_schema(node) for label, node in section.items() if isinstance(node, dict)}
    return _object(nodes)


def _answer_schema(of_field: Field) -> Schema:
    """Returns the schema of the answer to a field, which may be null; to an optional one also the empty text."""
    empty_values = [None] if of_field.required else [None, ""]
    options = of_field.options
    if not options:
        return {"anyOf": [TEXT, one_of(empty_values)]}
    if of_field.type == "multi-choice":
        return {"anyOf": [some_of(options, len(options)), one_of(empty_values)]}
    return one_of([*options, *empty_values])


def _schema_text(schema: Schema) -> str:
    """Returns a schema as JSON text, with the definition of `TEXT`."""
    text = {"type": "string", "minLength": 1, "maxLength": TEXT_CHARS}
    return json.dumps({**schema, "$defs": {_NAME: text}}, ensure_ascii=False)


# The session


@dataclass(frozen=True, slots=True)
class Module:
    """One prompt with one kind of reply.

    Attributes:
        name: Name in transcripts, as in the stored runs of Hakimov et al. (2024).
        wording: Name of its prompt text.
        expression: Regular expression that a reply must match; shown to the model when its first reply did not.
        max_tokens: Longest reply.
        role: The role whose model replies.
    """

    name: str
    wording: str
    expression: str
    max_tokens: int = 256
    role: Role = "assistant"


USER = Module("user", "user", r'\{\s*"answer"\s*:\s*".*"\s*\}', role="user")
"""The simulated user, who knows who they are."""

USER_WITH_FACTS = Module("user", "user-with-facts", USER.expression, role="user")
"""The simulated user with the facts that the question seems to be about."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules by which runs are played.

    Attributes:
        temperature, high: Temperature of a module's first call; and of its second and of the simulated user.
        grouping_size: Number of labels that are grouped at once.
        follow_ups: Most follow-up questions to one question. Hakimov et al. set no limit; weak models would not stop.
        turns_per_field: A run ends after this many turns for each field of its form.
        dummies: Names of modules that are never called; their fallback replies for them.
        profile: `question` draws the user's profile for every question, as Hakimov et al. do; `run` draws it once. Only
            with `run` does the user know the profile's answers, so that correctness can be measured.
        history_tokens: How much of the dialogue the baseline keeps, in tokens of four characters.
        schemas: Whether replies must follow a JSON schema. Without one, as in Hakimov et al., a model may write any
            text and choose any action that the prompt names, so that following the instructions can fail.
    """

    temperature: float = 0.0
    high: float = 0.2
    grouping_size: int = 7
    follow_ups: int = 5
    turns_per_field: int = 3
    dummies: frozenset[str] = frozenset()
    profile: ProfileScope = "question"
    history_tokens: int = 4000
    schemas: bool = True


@dataclass(slots=True)
class FormSession:
    """The state of one run: questions, answers and the form so far.

    Attributes:
        rng: Random generator, seeded by the run; draws profiles and seeds.
        texts: The prompts, by name.
        topic: What the form is about, for the simulated user.
        profiles: Profiles of the simulated user; with a fixed profile the first one is used.
        form: Name of the form.
        length: Number of fields of the form.
        interactions: The transcript. `call` is the index of the reply among all replies of the run; null for a
            fallback.
        dialogue: Questions `{"Assistant"}` and answers `{"User"}` so far, in turn.
        retries, fallbacks: Number of second calls and of fallbacks, by module.
        failures: Number of times that no reply of a module followed its instructions, by module.
        calls: Number of calls so far.
    """

    texts: Mapping[str, str]
    rules: Rules
    rng: Random
    topic: str
    profiles: Sequence[Profile]
    form: str
    length: int
    interactions: list[dict[str, Any]] = field(default_factory=list)
    dialogue: list[dict[str, str]] = field(default_factory=list)
    retries: Counter[str] = field(default_factory=Counter)
    fallbacks: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    calls: int = 0

    @property
    def most_turns(self) -> int:
        """Most turns of the run."""
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
    ) -> ObjectReply:
        """Asks a module for an object; a generator that yields calls and returns the object.

        Args:
            values: Values for the places of its prompt.
            schema: JSON schema that constrains the reply.
            fits: Whether an object of the right shape is acceptable.
            fallback: Makes the object if the module failed twice or is a dummy.
            at_once: Use the fallback without a call this time.
        """
        if at_once or module.name in self.rules.dummies:
            return self._fall_back(module, fallback())
        prompt = filled(self.texts[module.wording], values).strip()
        temperature = self.rules.high if module.role == "user" else self.rules.temperature
        expression = filled(self.texts["again"], {"EXPRESSION": module.expression}).strip()
        for attempted_prompt in (prompt, f"{prompt}\n\n{expression}"):
            messages = (ChatMessage("system", ""), ChatMessage("user", attempted_prompt))
            completion = yield from self.say(module, messages, schema, temperature)
            answer = read_object(module, completion.text, fits)
            if answer is not None:
                self.note(module.name, dumped(answer))
                return answer
            self.retries[module.name] += attempted_prompt is prompt
            temperature = self.rules.high
        self.failures[module.name] += 1
        return self._fall_back(module, fallback())

    def say(
        self, module: Module, messages: tuple[ChatMessage, ...], schema: str, temperature: float
    ) -> Generator[Call, Completion, Completion]:
        """Yields one call and returns its reply unchecked; at temperature 0 equal requests have equal seeds in all
        runs."""
        self.calls += 1
        schemas = self.rules.schemas
        return (
            yield Call(
                module.name,
                module.role,
                messages,
                Sampling(temperature=temperature, json_schema=schema if schemas else None),
                max_tokens=module.max_tokens if schemas else max(module.max_tokens, FREE_TOKENS),
                seed=self.rng.getrandbits(31) if temperature else 0,
            )
        )

    def answer(self, question: str) -> Generator[Call, Completion, str]:
        """Returns the user's answer to a question, and adds both to the dialogue.

        Raises:
            RunOver: The run has reached its limit of turns.
        """
        if len(self.dialogue) // 2 >= self.most_turns:
            raise RunOver("turns")
        reply = yield from self._ask_simulated_user(question)
        text = str(reply["answer"])
        # The transcript has the bare answer and question, in place of the object and the whole prompt.
        self.interactions[-1]["output"] = text
        self.interactions[-1]["prompt"] = question
        self.dialogue += [{"Assistant": question}, {"User": text}]
        return text

    def note(self, module: str, output: str) -> None:
        """Adds a reply to the transcript."""
        self.interactions.append({"module": module, "call": self.calls - 1, "output": output})

    def _ask_simulated_user(self, question: str) -> ObjectReply:
        """Asks the simulated user; returns `{"answer"}`."""
        values = {"TOPIC": self.topic, "QUESTION": question}
        module = USER
        if self.rules.profile == "run":
            profile = self.profiles[0]
            if known_answers := profile.of_form(self.form):
                values["FACTS"] = "\n".join(facts_for(question, known_answers))
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
        """Records that a fallback replied in place of a module, and returns its reply."""
        self.fallbacks[module.name] += 1
        self.interactions.append({"module": module.name, "call": None, "output": dumped(value)})
        return value


def read_object(
    module: Module, reply: str, fits: Callable[[dict[str, Any]], bool]
) -> dict[str, Any] | None:
    """Returns the last JSON object of a reply; None if there is none, or if it does not match or fit."""
    text = last_object(reply)
    if text is None or not re.fullmatch(module.expression, text, re.DOTALL):
        return None
    value = parsed_object(text, strict=False)
    return value if value is not None and fits(value) else None
