"""Runs of form filling against scripted replies."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from engine.model.chat import Call, Completion
from engine.model.prompt_files import prompt_texts
from engine.simulate.forms.form import Form, Profile, read_form
from engine.simulate.forms.form_scores import fields_of_form
from engine.simulate.forms.form_session import Rules
from engine.simulate.forms.run import FormRun, Variant
from engine.simulate.play import EndedPlay
from tests.engine.simulate.playing import play_all

Replies = Mapping[str, Callable[[Call], str] | Sequence[str] | str]
"""By module: what is said to each call, one after another with the last repeated, or always the same; a module without
a reply writes nothing, so that its fallback replies."""

ANNA = Profile("anna", "a weaver called Anna", {})


def leaf(required: bool = True, options: Sequence[str] = (), type: str = "text") -> dict[str, Any]:
    """One field of a form."""
    field = {"type": type, "required": required, "answer": None}
    return {**field, "options": list(options)} if options else field


def small_form() -> Form:
    """Five fields under four labels, three of them required."""
    content = {
        "Name": {"First": leaf(), "Middle": leaf(required=False)},
        "Town": leaf(),
        "Colour": leaf(options=["red", "blue"]),
        "Remark": leaf(required=False),
    }
    return read_form("small", "a small matter", content)


@dataclass
class Script:
    """A scripted model: gives the replies in order and records its calls."""

    replies: Replies
    asked: list[Call] = field(default_factory=list)

    def __call__(self, calls: Sequence[Call]) -> list[Completion]:
        """The next reply."""
        return [self._said(call) for call in calls]

    def of(self, module: str) -> list[Call]:
        """The calls of one module."""
        return [call for call in self.asked if call.module == module]

    def _said(self, call: Call) -> Completion:
        reply = self.replies.get(call.module, "")
        before = len(self.of(call.module))
        self.asked.append(call)
        if callable(reply):
            return Completion(reply(call), "end")
        if isinstance(reply, str):
            return Completion(reply, "end")
        return Completion(reply[min(before, len(reply) - 1)], "end")


def played(
    script: Script,
    *,
    form: Form | None = None,
    variant: Variant = "modular",
    profiles: tuple[Profile, ...] = (ANNA,),
    run: int = 1,
    **rules: Any,
) -> EndedPlay:
    """The result of a whole run."""
    scenario = FormRun(
        form or small_form(),
        variant,
        run,
        Rules(**rules),
        prompt_texts("forms"),
        profiles,
    )
    (one,) = play_all([scenario], script, parallel=1)
    assert one.reason is None
    return one


def prompt_of(call: Call) -> str:
    """The prompt of a module's call."""
    return call.messages[-1].content


def as_reply(value: Any) -> str:
    """An object as a model writes it."""
    return json.dumps(value)


ANSWERS = {"First": "Anna", "Town": "Ulm", "Colour": "red"}


def town_only() -> Form:
    """A form of one field."""
    return read_form("one", "a town", {"Town": leaf()})


def answer_by_label(call: Call) -> str:
    """The answer to a question that begins with a label."""
    question = prompt_of(call).split("QUESTION:\n")[-1]
    label = next((one for one in ANSWERS if question.startswith(one)), None)
    return as_reply({"answer": ANSWERS[label] if label else "none"})


def result(script: Script, **how: Any) -> dict[str, Any]:
    """The result event of a run."""
    return dict(played(script, **how).ending.result)


def answers_of(found: dict[str, Any]) -> dict[str, Any]:
    """The answers of a filled form by label."""
    return {one.path[-1]: one.answer for one in fields_of_form(found["filled"])}
