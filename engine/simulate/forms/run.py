"""One run of form filling as a scenario: its settings, and its result as conversation and scores.

The baseline is here: one model with the whole dialogue asks questions, chooses actions and fills the form.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, Literal

from engine.formats.form_runs import fields, form_scores
from engine.model.chat import Call, ChatMessage, Completion, Ending, Play
from engine.model.prompt_files import filled
from engine.simulate.forms.form import Form, Profile, copy_answers, right_fields
from engine.simulate.forms.form_session import (
    TEXT,
    FormSession,
    Module,
    ObjectReply,
    Rules,
    alike,
    dumped,
    object_schema,
    one_of,
    read_object,
    section_schema,
)
from engine.simulate.forms.modular import ModularRun
from engine.simulate.play import RunOver

BAD_OUTPUTS = "bad outputs"
"""How a run ends that failed because the model did not follow the instructions."""

BAD_IN_A_ROW = 10
"""Number of consecutive unusable replies that end a run."""

CHARS_PER_TOKEN = 4
"""Assumed for the length of the history, since a play has no tokenizer."""

FOLLOW_UP, FILL, STOP = "follow_up", "fill_form", "stop"
"""The actions that the baseline chooses from after an answer."""

QUESTION = Module(
    "question_generation", "baseline-question", r'\{\s*"question"\s*:\s*".*"\s*\}', most=128
)
"""Asks the first question about the open labels."""

ACTION = Module(
    "next_action",
    "baseline-action",
    rf'\{{\s*"next action"\s*:\s*"(?:{FOLLOW_UP}|{FILL}|{STOP})"\s*\}}',
    most=24,
)
"""Decides after an answer how to go on."""

NEXT_QUESTION = Module("follow_up_question", "baseline-follow-up", QUESTION.expression, most=128)
"""Asks a follow-up question."""

FORM = Module("form_filling", "baseline-fill", r"\{.*\}", most=2048)
"""Fills in the open labels."""


@dataclass(slots=True)
class BaselineRun:
    """A baseline run in progress.

    Attributes:
        content: The form with the answers so far.
        history: Prompts and replies of the model so far; the user's answers are parts of prompts.
    """

    session: FormSession
    content: dict[str, Any]
    history: list[ChatMessage] = field(default_factory=list)

    def fill(self) -> Generator[Call, Completion, str]:
        """Fills the form; returns how the run ended: `stop`, `filled`, `turns` or `bad outputs`."""
        try:
            while open_form := self._open_labels():
                prompt_values = {"FORM": dumped(open_form)}
                reply = yield from self._ask(
                    QUESTION, prompt_values, _question_schema(), _has_question
                )
                action = yield from self._ask_until_action(reply["question"])
                if action == STOP:
                    return "stop"
                schema, fits = section_schema(open_form), partial(alike, section=open_form)
                reply = yield from self._ask(FORM, prompt_values, schema, fits)
                copy_answers(reply, self.content)
            return "filled"
        except RunOver as over:
            return over.reason

    def _ask_until_action(self, question: str) -> Generator[Call, Completion, str]:
        """Asks the question and follow-ups until the model chooses another action; returns that action."""
        while True:
            answer = yield from self.session.answer(question)
            schema = object_schema({"next action": one_of((FOLLOW_UP, FILL, STOP))})
            reply = yield from self._ask(ACTION, {"ANSWER": answer}, schema, lambda reply: True)
            if reply["next action"] != FOLLOW_UP:
                return str(reply["next action"])
            reply = yield from self._ask(NEXT_QUESTION, {}, _question_schema(), _has_question)
            question = reply["question"]

    def _open_labels(self) -> dict[str, Any]:
        """Returns the top-level labels under which a field has no answer yet, with their content."""
        return {
            label: node
            for label, node in self.content.items()
            if isinstance(node, dict) and any(part.answer is None for part in fields(node))
        }

    def _ask(
        self,
        module: Module,
        values: Mapping[str, str],
        schema: str,
        fits: Callable[[dict[str, Any]], bool],
    ) -> ObjectReply:
        """Asks the model until a reply can be used; a generator that yields calls and returns the object.

        Raises:
            RunOver: `BAD_IN_A_ROW` replies could not be used.
        """
        session = self.session
        prompt = ChatMessage("user", filled(session.texts[module.wording], values).strip())
        temperature = session.rules.temperature
        for _ in range(BAD_IN_A_ROW):
            messages = (
                ChatMessage("system", ""),
                *self._recent_history(len(prompt.content)),
                prompt,
            )
            completion = yield from session.say(module, messages, schema, temperature)
            answer = read_object(module, completion.text, fits)
            if answer is not None:
                self.history += [prompt, ChatMessage("assistant", dumped(answer))]
                session.note(module.name, dumped(answer))
                return answer
            session.again[module.name] += 1
            temperature = session.rules.high
        session.failed[module.name] += 1
        raise RunOver(BAD_OUTPUTS)

    def _recent_history(self, prompt_chars: int) -> list[ChatMessage]:
        """Returns the end of the history that fits together with a prompt; begins with a prompt."""
        chars_left = self.session.rules.history_tokens * CHARS_PER_TOKEN - prompt_chars
        messages: list[ChatMessage] = []
        # From the newest pair of prompt and reply back to the oldest.
        for prompt, reply in zip(self.history[-2::-2], self.history[::-2], strict=True):
            chars_left -= len(prompt.content) + len(reply.content)
            if chars_left < 0:
                break
            messages[:0] = [prompt, reply]
        return messages


def _question_schema() -> str:
    """Returns the schema of a question."""
    return object_schema({"question": TEXT})


def _has_question(reply: dict[str, Any]) -> bool:
    """Whether a reply has a question."""
    return isinstance(reply.get("question"), str)


# A run of either variant

Variant = Literal["modular", "baseline"]
"""A way to fill a form."""

VARIANTS: tuple[Variant, ...] = ("modular", "baseline")
"""The ways to fill a form: by modules of one prompt each, or by one prompt for all."""


@dataclass(frozen=True, slots=True)
class FormRun:
    """A form to be filled once.

    Attributes:
        run: Number of the run, from 1; determines the drawn profiles and seeds.
        texts: Prompt texts by name.
        profiles: Profiles of the simulated user, at least one.
        person: Whether a person answers. The user's calls then hold the question alone, and replies are used as they
            are.
    """

    form: Form
    variant: Variant
    run: int
    rules: Rules
    texts: Mapping[str, str]
    profiles: tuple[Profile, ...]
    seed: int = 0
    person: bool = False

    @property
    def key(self) -> str:
        """The name of the run, unique in its simulation."""
        return f"forms/{self.form.key}/{self.variant}/{self.run}"

    @property
    def expected(self) -> float:
        """Rough number of replies: one for each field, more with modules."""
        replies_per_field = 3.0 if self.variant == "modular" else 1.0
        return replies_per_field * self._length

    @property
    def _length(self) -> int:
        """Number of fields of the form."""
        return sum(1 for _ in fields(self.form.content))

    def play(self) -> Play:
        """Returns a new play; its result has the scores and what the files of the run are made of."""
        profiles = self.profiles
        if self.rules.profile == "run":
            profiles = (profiles[(self.run - 1) % len(profiles)],)
        session = FormSession(
            texts=self.texts,
            rules=self.rules,
            rng=Random(f"{self.seed}/{self.form.key}/{self.run}"),
            topic=self.form.topic,
            profiles=profiles,
            form=self.form.name,
            length=self._length,
            person=self.person,
        )
        content = self.form.blank()
        of_variant: dict[str, Any] = {}
        if self.variant == "modular":
            modular = ModularRun(session, content)
            ended = yield from modular.fill()
            of_variant = {
                "left_out": modular.left_out,
                "information": modular.information,
                "manager": modular.manager_view,
                "chunks": {name: chunk.filler_view for name, chunk in modular.chunks.items()},
            }
        else:
            ended = yield from BaselineRun(session, content).fill()
        return self._ending(session, content, ended, of_variant)

    def _ending(
        self, session: FormSession, content: dict[str, Any], ended: str, of_variant: dict[str, Any]
    ) -> Ending:
        """Returns the ending of a run with its conversation, if a question was asked, and its result.

        Args:
            content: The form with the answers.
            ended: How the run ended.
            of_variant: What only runs of this variant have in their result.
        """
        modules = [line["module"] for line in session.interactions]
        known_answers = {}
        if self.rules.profile == "run" and not self.person:
            known_answers = session.profiles[0].of_form(self.form.name)
        right = right_fields(content, known_answers) if known_answers else None
        scores = form_scores(content, session.dialogue, modules, right)
        result = {
            "kind": "forms",
            "form": self.form.name,
            "variant": self.variant,
            "run": self.run,
            "profile": session.profiles[0].name if known_answers else None,
            "ended": ended,
            "calls": session.calls,
            "again": dict(session.again),
            "fallbacks": dict(session.fallbacks),
            "failed": dict(session.failed),
            **scores.figures(),
            **of_variant,
            "filled": content,
            "dialogue": session.dialogue,
            "interactions": session.interactions,
        }
        if not session.dialogue:
            return Ending(result=result)
        truth = {
            "goal": self.form.topic,
            "form": self.form.name,
            "variant": self.variant,
            **scores.truth(),
            "ended": ended,
        }
        record = {
            "id": self.key,
            "dataset": "forms",
            "messages": [
                {"role": speaker.lower(), "content": text}
                for line in session.dialogue
                for speaker, text in line.items()
            ],
            "truth": truth,
        }
        return Ending(record, "uniform", result)
