"""One run of form filling as a scenario: its settings, and its result as conversation and scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Literal

from engine.base.form_scores import fields, form_scores
from engine.simulate.forms.baseline import BaselineRun
from engine.simulate.forms.correctness import right_fields
from engine.simulate.forms.form import Form
from engine.simulate.forms.form_session import FormSession, Rules
from engine.simulate.forms.modular import ModularRun
from engine.simulate.forms.profiles import Profile
from engine.model.asking import Ending, Play

Variant = Literal["modular", "baseline"]
VARIANTS: tuple[Variant, ...] = ("modular", "baseline")


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
        each = 3.0 if self.variant == "modular" else 1.0
        return each * self._length

    @property
    def _length(self) -> int:
        return sum(1 for _ in fields(self.form.content))

    def play(self) -> Play:
        """Returns a new play; its result has the scores and what the files of the run are made of."""
        rng = Random(f"{self.seed}/{self.form.key}/{self.run}")
        profiles = self.profiles
        if self.rules.profile == "run":
            profiles = (profiles[(self.run - 1) % len(profiles)],)
        session = FormSession(
            self.texts,
            self.rules,
            rng,
            self.form.topic,
            profiles,
            self.form.name,
            self._length,
            self.person,
        )
        content = self.form.blank()
        of_variant: dict[str, Any] = {}
        if self.variant == "modular":
            modular = ModularRun(session, content)
            ended = yield from modular.fill()
            of_variant = {
                "left_out": modular.left_out,
                "information": modular.information,
                "manager": modular.shown,
                "chunks": {name: chunk.shown for name, chunk in modular.chunks.items()},
            }
        else:
            ended = yield from BaselineRun(session, content).fill()
        return self._ending(session, content, ended, of_variant)

    def _ending(
        self, session: FormSession, content: dict[str, Any], ended: str, of_variant: dict[str, Any]
    ) -> Ending:
        modules = [line["module"] for line in session.interactions]
        known = {}
        if self.rules.profile == "run" and not self.person:
            known = session.profiles[0].of_form(self.form.name)
        right = right_fields(content, known) if known else None
        scores = form_scores(content, session.dialogue, modules, right)
        result = {
            "kind": "forms",
            "form": self.form.name,
            "variant": self.variant,
            "run": self.run,
            "profile": session.profiles[0].name if known else None,
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
