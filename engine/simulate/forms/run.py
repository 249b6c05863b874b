"""One run of form filling as a scenario: its settings, and its result as conversation and scores.

The baseline is here: one model with the whole dialogue asks questions, chooses actions and fills the form. The modular
variant gives each of these tasks to a *module*, which is one prompt with one kind of reply. A *fallback* is the object
that replies in place of a module that failed, and a *label* is a key of the form, above a field or a section.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, Literal

from engine.model.chat import Call, ChatMessage, Completion, Ending, Play
from engine.model.interface import CHARS_PER_TOKEN
from engine.model.prompt_files import filled
from engine.simulate.forms.form import Form, Profile, copy_answers, right_fields
from engine.simulate.forms.form_scores import FormScores, fields_of_form, form_scores
from engine.simulate.forms.form_session import (
    TEXT,
    FormSession,
    Module,
    ObjectReply,
    Rules,
    fits_section,
    object_schema,
    one_of,
    section_schema,
    to_json_text,
)
from engine.simulate.forms.modular import ModularRun
from engine.simulate.play import RunOver

STOPPED, ALL_FILLED, BAD_OUTPUTS = "stop", "filled", "bad outputs"
"""The ends of a baseline run: the model chose to stop, every field has an answer, or the model did not follow the
instructions. A run of either variant can also end with the reason of a `RunOver` of its session, such as `turns`."""

BAD_IN_A_ROW = 10
"""Number of consecutive unusable replies that end a baseline run."""

RECORD_FORMAT = "uniform"
"""Import format of the conversation of a run: one object with `messages` and `truth`."""

FOLLOW_UP, FILL, STOP = "follow_up", "fill_form", "stop"
"""The actions that the baseline chooses from after an answer."""

QUESTION_SCHEMA = object_schema({"question": TEXT})

QUESTION = Module("question_generation", "baseline-question", max_tokens=128)
"""Asks the first question about the open labels."""

ACTION = Module("next_action", "baseline-action", max_tokens=24)
"""Decides after an answer how to go on."""

NEXT_QUESTION = Module("follow_up_question", "baseline-follow-up", max_tokens=128)
"""Asks a follow-up question."""

FORM = Module("form_filling", "baseline-fill", max_tokens=2048)
"""Fills in the open labels."""


Variant = Literal["modular", "baseline"]
"""A way to fill a form."""

VARIANTS: tuple[Variant, ...] = ("modular", "baseline")
"""The ways to fill a form: by modules of one prompt each, or by one model that has the whole dialogue."""


@dataclass(slots=True)
class BaselineRun:
    """A baseline run in progress.

    Attributes:
        session: Asks the user, and counts calls and failures.
        content: The form with the answers so far.
        history: Prompts and replies of the model so far; the user's answers are parts of prompts.
    """

    session: FormSession
    content: dict[str, Any]
    history: list[ChatMessage] = field(default_factory=list)

    def fill(self) -> Generator[Call, Completion, str]:
        """Fills the form; returns how the run ended: `STOPPED`, `ALL_FILLED`, or the reason of a `RunOver`.

        The reason is `BAD_OUTPUTS`, or `turns` where the session reached its limit of questions.
        """
        try:
            while open_form := self._open_labels():
                prompt_values = {"FORM": to_json_text(open_form)}
                reply = yield from self._ask(
                    QUESTION, prompt_values, QUESTION_SCHEMA, _has_question
                )
                action = yield from self._ask_until_action(reply["question"])
                if action == STOP:
                    return STOPPED
                schema, fits = section_schema(open_form), partial(fits_section, section=open_form)
                reply = yield from self._ask(FORM, prompt_values, schema, fits)
                copy_answers(reply, self.content)
            return ALL_FILLED
        except RunOver as over:
            return over.reason

    def _ask_until_action(self, question: str) -> Generator[Call, Completion, str]:
        """Asks the question and follow-ups until the model chooses another action; returns that action."""
        while True:
            answer = yield from self.session.answer(question)
            schema = object_schema({"next action": one_of((FOLLOW_UP, FILL, STOP))})
            reply = yield from self._ask(ACTION, {"ANSWER": answer}, schema, _has_action)
            if reply["next action"] != FOLLOW_UP:
                return str(reply["next action"])
            reply = yield from self._ask(NEXT_QUESTION, {}, QUESTION_SCHEMA, _has_question)
            question = reply["question"]

    def _open_labels(self) -> dict[str, Any]:
        """Returns the top-level labels under which a field has no answer yet, with their content."""
        return {
            label: node
            for label, node in self.content.items()
            if isinstance(node, dict) and any(part.answer is None for part in fields_of_form(node))
        }

    def _ask(
        self,
        module: Module,
        values: Mapping[str, str],
        schema: str,
        fits: Callable[[dict[str, Any]], bool],
    ) -> ObjectReply:
        """Asks the model until a reply can be used; a generator that yields calls and returns the object.

        Args:
            values: Values for the places of the module's prompt.
            schema: JSON schema of the reply.
            fits: Whether an object of the right shape is acceptable.

        Raises:
            RunOver: `BAD_IN_A_ROW` replies could not be used.
        """
        session = self.session
        prompt = ChatMessage("user", filled(session.texts[module.wording], values).strip())
        messages = (*self._recent_history(len(prompt.content)), prompt)
        # At temperature 0 the same prompt would bring the same unusable reply again.
        temperatures = (session.rules.temperature, *[session.rules.high] * (BAD_IN_A_ROW - 1))
        answer = yield from session.request_object(module, messages, schema, fits, temperatures)
        if answer is None:
            raise RunOver(BAD_OUTPUTS)
        self.history += [prompt, ChatMessage("assistant", to_json_text(answer))]
        return answer

    def _recent_history(self, prompt_chars: int) -> list[ChatMessage]:
        """Returns the end of the history that fits together with a prompt; begins with a prompt.

        Args:
            prompt_chars: Length of that prompt in characters.
        """
        # A play has no tokenizer.
        chars_left = self.session.rules.history_tokens * CHARS_PER_TOKEN - prompt_chars
        messages: list[ChatMessage] = []
        # From the newest pair of prompt and reply back to the oldest.
        for prompt, reply in zip(self.history[-2::-2], self.history[::-2], strict=True):
            chars_left -= len(prompt.content) + len(reply.content)
            if chars_left < 0:
                break
            messages[:0] = [prompt, reply]
        return messages


def _has_action(reply: dict[str, Any]) -> bool:
    """Returns whether a reply has one of the actions."""
    return reply.get("next action") in (FOLLOW_UP, FILL, STOP)


def _has_question(reply: dict[str, Any]) -> bool:
    """Returns whether a reply has a question."""
    return isinstance(reply.get("question"), str)


# A run of either variant


@dataclass(frozen=True, slots=True)
class FormRun:
    """A form to be filled once.

    Attributes:
        variant: The way to fill the form.
        run_number: Number of the run, from 1; determines, with `seed`, the drawn profiles and the seeds of calls.
        rules: Temperatures, limits, and for how long the simulated user keeps a profile.
        texts: Prompt texts by name.
        profiles: Profiles of the simulated user, at least one.
        seed: Seed of the simulation.
    """

    form: Form
    variant: Variant
    run_number: int
    rules: Rules
    texts: Mapping[str, str]
    profiles: tuple[Profile, ...]
    seed: int = 0

    @property
    def key(self) -> str:
        """The name of the run, unique in its simulation."""
        return f"forms/{self.form.key}/{self.variant}/{self.run_number}"

    @property
    def _has_one_profile(self) -> bool:
        """Whether the simulated user is one profile for the whole run, not another one for each question."""
        return self.rules.profile == "run"

    def play(self) -> Play:
        """Returns a new play; its result has the scores."""
        profiles = self.profiles
        if self._has_one_profile:
            profiles = (profiles[(self.run_number - 1) % len(profiles)],)
        session = FormSession(
            texts=self.texts,
            rules=self.rules,
            rng=Random(f"{self.seed}/{self.form.key}/{self.run_number}"),
            topic=self.form.topic,
            profiles=profiles,
            form=self.form.name,
            length=sum(1 for _ in fields_of_form(self.form.content)),
        )
        content = self.form.blank()
        variant_result: dict[str, Any] = {}
        if self.variant == "modular":
            modular = ModularRun(session, content)
            ended = yield from modular.fill()
            variant_result = {"left_out": modular.left_out}
        else:
            ended = yield from BaselineRun(session, content).fill()
        return self._ending(session, content, ended, variant_result)

    def _ending(
        self,
        session: FormSession,
        content: dict[str, Any],
        ended: str,
        variant_result: Mapping[str, Any],
    ) -> Ending:
        """Returns the ending of a run with its conversation, if a question was asked, and its result.

        The result has, beside the scores and what says which run it is:

        - `profile`: name of the profile whose answers were compared; null if none were.
        - `ended`: how the run ended.
        - `calls`: number of calls of models.
        - `fallbacks`: number of fallbacks, by module.
        - `filled`: the form with its answers.
        - `dialogue`, `interactions`: the questions and answers, and the replies, as `FormSession` has them.

        Args:
            content: The form with the answers.
            ended: How the run ended.
            variant_result: What only runs of this variant have in their result: of a modular one `left_out`, the labels
                that are in no chunk, a group of labels that are filled together.
        """
        modules = [line["module"] for line in session.interactions]
        known_answers = {}
        # Answers are known of one profile only: of several each answers as itself.
        if self._has_one_profile:
            known_answers = session.profiles[0].of_form(self.form.name)
        right = right_fields(content, known_answers) if known_answers else None
        scores = form_scores(content, session.dialogue, modules, right)
        result = {
            "kind": "forms",
            "form": self.form.name,
            "variant": self.variant,
            "run": self.run_number,
            "profile": session.profiles[0].name if known_answers else None,
            "ended": ended,
            "calls": session.calls,
            "fallbacks": dict(session.fallbacks),
            **scores.figures(),
            **variant_result,
            "filled": content,
            "dialogue": session.dialogue,
            "interactions": session.interactions,
        }
        if not session.dialogue:
            return Ending(result=result)
        record = self._conversation_record(session.dialogue, scores, ended)
        return Ending(record, format=RECORD_FORMAT, result=result)

    def _conversation_record(
        self, dialogue: Sequence[Mapping[str, str]], scores: FormScores, ended: str
    ) -> dict[str, Any]:
        """Returns the conversation of a run as a record of `RECORD_FORMAT`, with what is known about it as `truth`."""
        return {
            "id": self.key,
            "dataset": "forms",
            "messages": [
                {"role": speaker.lower(), "content": text}
                for line in dialogue
                for speaker, text in line.items()
            ],
            "truth": {
                "goal": self.form.topic,
                "form": self.form.name,
                "variant": self.variant,
                **scores.truth(),
                "ended": ended,
            },
        }
