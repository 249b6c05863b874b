"""One run of form filling: asks its modules for JSON objects and records the replies.

A *module* is one prompt with one kind of reply. It has two attempts; where no reply of the model can be used, an object
that is made here, the *fallback*, takes its place. A *section* is a part of a form: labels to fields or to further
sections. The JSON schemas that the replies follow are made here too.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal

from engine.model.chat import Call, ChatMessage, Completion, Role
from engine.model.prompt_files import filled
from engine.model.reply_forms import UnreadableReply, json_objects
from engine.model.structured_replies import ask_until_read
from engine.simulate.forms.form import Profile, facts_for
from engine.simulate.forms.form_scores import Field, fields_of_form, is_field
from engine.simulate.play import RunOver

TEXT_CHARS = 300
"""Longest text in a reply that follows a schema; a small model would write on until it is cut off."""

Schema = dict[str, Any]
"""A JSON schema, or a part of one."""


# The schemas of replies


_TEXT_DEFINITION = "free--text"
"""Name of the definition of a text; no grammar rule made from a label has this name."""

TEXT: Schema = {"$ref": f"#/$defs/{_TEXT_DEFINITION}"}
"""A text of one to `TEXT_CHARS` characters, defined once however many there are."""

ObjectReply = Generator[Call, Completion, dict[str, Any]]
"""A part of a play that yields calls of a model and returns the JSON object of its reply."""

ProfileScope = Literal["question", "run"]
"""For how long the simulated user keeps a profile; see `Rules.profile`."""


def fits_section(given: Any, section: Any) -> bool:
    """Returns whether a reply has only labels of a section, with values of the right kinds.

    An answer may be a text, a number, a list of texts or null. Labels may be missing.
    """
    if not isinstance(given, dict) or not isinstance(section, dict):
        return isinstance(given, type(section))
    if not given.keys() <= section.keys():
        return False
    return all(
        _is_answer(value)
        if label == "answer" and is_field(section)
        else fits_section(value, section[label])
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
    return _schema_text({"type": "object", "additionalProperties": some_of(members, most)})


def one_of(values: Sequence[str | None]) -> Schema:
    """Returns the schema of one of these values."""
    return {"enum": list(values)}


def some_of(values: Sequence[str], most: int) -> Schema:
    """Returns the schema of a list of one to `most` of these texts."""
    return {"type": "array", "items": one_of(values), "minItems": 1, "maxItems": most}


def to_json_text(value: Any) -> str:
    """Returns a value as JSON text, as prompts and records have it."""
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
    """Returns whether a value may be the answer of a field: a text, a number, a list of texts or null."""
    if isinstance(value, list):
        return all(isinstance(option, str) for option in value)
    return value is None or isinstance(value, str | int | float)


def _node_schema(section: Mapping[str, Any]) -> Schema:
    """Returns the schema of a filled section, or of a field."""
    if is_field(section):
        (only_field,) = fields_of_form(section)
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
    return json.dumps({**schema, "$defs": {_TEXT_DEFINITION: text}}, ensure_ascii=False)


# The session


@dataclass(frozen=True, slots=True)
class Module:
    """One prompt with one kind of reply.

    Attributes:
        name: Name in records, as in the stored runs of Hakimov et al. (2024).
        wording: Name of its prompt text.
        max_tokens: Longest reply.
        role: The role whose model replies.
    """

    name: str
    wording: str
    max_tokens: int = 256
    role: Role = "assistant"


USER = Module("user", "user", role="user")
"""The simulated user, who knows who they are."""

USER_WITH_FACTS = Module("user", "user-with-facts", role="user")
"""The simulated user with the facts that the question seems to be about."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules by which runs are played.

    Attributes:
        temperature, high: Temperature of a module's first call; and of its further ones and of the simulated user.
        grouping_size: Number of labels that are grouped at once.
        follow_ups: Most follow-up questions to one question. Hakimov et al. set no limit; weak models would not stop.
        turns_per_field: A run ends after this many turns for each field of its form.
        profile: `question` draws the user's profile for every question, as Hakimov et al. do; `run` draws it once. Only
            with `run` does the user know the profile's answers, so that correctness can be measured.
        history_tokens: How much of the dialogue the baseline keeps, in tokens of four characters.
    """

    temperature: float = 0.0
    high: float = 0.2
    grouping_size: int = 7
    follow_ups: int = 5
    turns_per_field: int = 3
    profile: ProfileScope = "question"
    history_tokens: int = 4000


@dataclass(slots=True)
class FormSession:
    """The state of one run: questions, answers and the form so far.

    Attributes:
        texts: The prompts, by name.
        rules: The rules by which the run is played.
        rng: Random generator, seeded by the run; draws profiles and seeds.
        topic: What the form is about, for the simulated user.
        profiles: Profiles of the simulated user; with a fixed profile the first one is used.
        form: Name of the form.
        length: Number of fields of the form.
        interactions: The replies of modules and user. `call` is the index of the reply among all of the run; null for
            a fallback.
        dialogue: Questions `{"Assistant"}` and answers `{"User"}` so far, in turn.
        fallbacks: Number of fallbacks, by module.
        calls: Number of replies so far.
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
    fallbacks: Counter[str] = field(default_factory=Counter)
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
    ) -> ObjectReply:
        """Asks a module for an object; a generator that yields calls and returns the object.

        Args:
            values: Values for the places of its prompt.
            schema: JSON schema of the reply.
            fits: Whether an object of the right shape is acceptable.
            fallback: Makes the object if no reply of the module can be used.
        """
        prompt = ChatMessage("user", filled(self.texts[module.wording], values).strip())
        first = self.rules.high if module.role == "user" else self.rules.temperature
        answer = yield from self.request_object(
            module, (prompt,), schema, fits, (first, self.rules.high)
        )
        return self.fall_back(module, fallback()) if answer is None else answer

    def request_object(
        self,
        module: Module,
        messages: Sequence[ChatMessage],
        schema: str,
        fits: Callable[[dict[str, Any]], bool],
        temperatures: Sequence[float],
    ) -> Generator[Call, Completion, dict[str, Any] | None]:
        """Yields calls until a reply is an object that fits, one for each temperature; returns the object, None if
        there is none."""

        def read(reply: str) -> dict[str, Any]:
            """Returns the last object of a reply.

            Raises:
                UnreadableReply: There is no object, or the last one does not have the shape that was asked for.
            """
            self.calls += 1
            objects = [value for _, value in json_objects(reply)]
            if not objects or not fits(objects[-1]):
                raise UnreadableReply("The reply is not what was asked for")
            return objects[-1]

        call = Call(
            module.name,
            module.role,
            # An empty system message, so that no default of the model's chat template takes its place.
            (ChatMessage("system", ""), *messages),
            max_tokens=module.max_tokens,
            seed=self.rng.getrandbits(31),
        )
        answer = yield from ask_until_read(call, schema, read, temperatures)
        if answer is not None:
            self._note(module, answer, self.calls - 1)
        return answer

    def answer(self, question: str) -> Generator[Call, Completion, str]:
        """Returns the user's answer to a question, and adds both to the dialogue.

        Raises:
            RunOver: The run has reached its limit of turns.
        """
        if len(self.dialogue) // 2 >= self.most_turns:
            raise RunOver("turns")
        reply = yield from self._ask_simulated_user(question)
        text = str(reply["answer"])
        # The record has the bare answer and question, in place of the object.
        self.interactions[-1]["output"] = text
        self.interactions[-1]["prompt"] = question
        self.dialogue += [{"Assistant": question}, {"User": text}]
        return text

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

    def fall_back(self, module: Module, value: dict[str, Any]) -> dict[str, Any]:
        """Records that a fallback replies in place of a module, and returns this reply."""
        self.fallbacks[module.name] += 1
        self._note(module, value, None)
        return value

    def _note(self, module: Module, value: dict[str, Any], call: int | None) -> None:
        """Records a reply; `call` is its index among those of the run, None for a fallback."""
        self.interactions.append(
            {"module": module.name, "call": call, "output": to_json_text(value)}
        )
