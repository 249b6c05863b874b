"""The baseline of form filling: one model with the whole dialogue asks questions, chooses actions and fills the
form."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from engine.base.form_scores import fields
from engine.model.chat import Call, ChatMessage, Completion
from engine.simulate.forms.form import copy_answers
from engine.simulate.forms.form_session import FormSession, Module, ObjectReply, RunOver, understood
from engine.simulate.forms.replies import (
    TEXT,
    alike,
    dumped,
    object_schema,
    one_of,
    section_schema,
)
from engine.model.prompt_texts import filled

BAD_OUTPUTS = "bad outputs"
"""How a run ends that failed because the model did not follow the instructions."""

BAD_IN_A_ROW = 10
"""Number of consecutive unusable replies that end a run."""

CHARS_PER_TOKEN = 4
"""Assumed for the length of the history, since a play has no tokenizer."""

FOLLOW_UP, FILL, STOP = "follow_up", "fill_form", "stop"

QUESTION = Module(
    "question_generation", "baseline-question", r'\{\s*"question"\s*:\s*".*"\s*\}', 128
)
ACTION = Module(
    "next_action",
    "baseline-action",
    rf'\{{\s*"next action"\s*:\s*"(?:{FOLLOW_UP}|{FILL}|{STOP})"\s*\}}',
    24,
)
NEXT_QUESTION = Module("follow_up_question", "baseline-follow-up", QUESTION.expression, 128)
FORM = Module("form_filling", "baseline-fill", r"\{.*\}", 2048)


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
            while open_form := self._open():
                shown = {"FORM": dumped(open_form)}
                reply = yield from self._ask(QUESTION, shown, _question(), _asks)
                action = yield from self._answered(reply["question"])
                if action == STOP:
                    return "stop"
                schema, fits = section_schema(open_form), partial(alike, section=open_form)
                reply = yield from self._ask(FORM, shown, schema, fits)
                copy_answers(reply, self.content)
            return "filled"
        except RunOver as over:
            return over.reason

    def _answered(self, question: str) -> Generator[Call, Completion, str]:
        """Asks the question and follow-ups until the model chooses another action; returns that action."""
        while True:
            answer = yield from self.session.answer(question)
            schema = object_schema({"next action": one_of((FOLLOW_UP, FILL, STOP))})
            reply = yield from self._ask(ACTION, {"ANSWER": answer}, schema, lambda it: True)
            if reply["next action"] != FOLLOW_UP:
                return str(reply["next action"])
            reply = yield from self._ask(NEXT_QUESTION, {}, _question(), _asks)
            question = reply["question"]

    def _open(self) -> dict[str, Any]:
        """Returns the top-level labels under which a field has no answer yet, with their content."""
        return {
            label: node
            for label, node in self.content.items()
            if isinstance(node, dict) and any(one.answer is None for one in fields(node))
        }

    def _ask(
        self,
        module: Module,
        values: Mapping[str, str],
        schema: str,
        fits: Callable[[dict[str, Any]], bool],
    ) -> ObjectReply:
        session = self.session
        prompt = ChatMessage("user", filled(session.texts[module.wording], values).strip())
        temperature = session.rules.temperature
        for _ in range(BAD_IN_A_ROW):
            messages = (ChatMessage("system", ""), *self._kept(len(prompt.content)), prompt)
            completion = yield from session.say(module, messages, schema, temperature)
            found = understood(module, completion.text, fits)
            if found is not None:
                self.history += [prompt, ChatMessage("assistant", dumped(found))]
                session.note(module.name, dumped(found))
                return found
            session.again[module.name] += 1
            temperature = session.rules.high
        session.failed[module.name] += 1
        raise RunOver(BAD_OUTPUTS)

    def _kept(self, taken: int) -> list[ChatMessage]:
        """Returns the end of the history that fits together with a prompt; begins with a prompt."""
        room = self.session.rules.history_tokens * CHARS_PER_TOKEN - taken
        kept: list[ChatMessage] = []
        for prompt, reply in zip(self.history[-2::-2], self.history[::-2], strict=True):
            room -= len(prompt.content) + len(reply.content)
            if room < 0:
                break
            kept[:0] = [prompt, reply]
        return kept


def _question() -> str:
    return object_schema({"question": TEXT})


def _asks(reply: dict[str, Any]) -> bool:
    return isinstance(reply.get("question"), str)
