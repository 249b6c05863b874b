"""One run of form filling: what it is played with, and the conversation and the figures that come of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from random import Random
from typing import Any, Literal

from engine.simulate.forms.asking import FormSession, Rules
from engine.simulate.forms.baseline import BaselineRun
from engine.simulate.forms.correctness import right_fields
from engine.simulate.forms.form import Form, fields
from engine.simulate.forms.modular import ModularRun
from engine.simulate.forms.profiles import Profile
from engine.simulate.forms.scores import form_scores
from engine.simulate.play import Ending, Play

Variant = Literal["modular", "baseline"]
VARIANTS: tuple[Variant, ...] = ("modular", "baseline")

COMPLETE_BASIS = "all required fields of the final form are filled"


@dataclass(frozen=True, slots=True)
class FormRun:
    """A form to be filled once.

    Attributes:
        run: From 1; runs differ in what is drawn: profiles and seeds.
        texts: The wordings, by name.
        profiles: Who may answer, at least one.
        person: A person answers. The calls of the user then carry the question and nothing else, and their replies
            are taken as they are.
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
        """Names it among the runs of one simulation."""
        return f"forms/{self.form.key}/{self.variant}/{self.run}"

    @property
    def expected(self) -> float:
        """A reply for each field; of modules, more than one."""
        each = 3.0 if self.variant == "modular" else 1.0
        return each * self._length

    @property
    def _length(self) -> int:
        return sum(1 for _ in fields(self.form.content))

    def play(self) -> Play:
        """A new play of it; its result holds the scores and the files of the run."""
        rng = Random(f"{self.seed}/{self.form.key}/{self.run}")
        profiles = self.profiles
        if self.rules.profile == "run":
            profiles = (profiles[(self.run - 1) % len(profiles)],)
        desk = FormSession(
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
            modular = ModularRun(desk, content)
            ended = yield from modular.fill()
            of_variant = {
                "left_out": modular.left_out,
                "information": modular.information,
                "manager": modular.shown,
                "chunks": {name: chunk.shown for name, chunk in modular.chunks.items()},
            }
        else:
            ended = yield from BaselineRun(desk, content).fill()
        return self._ending(desk, content, ended, of_variant)

    def _ending(
        self, desk: FormSession, content: dict[str, Any], ended: str, of_variant: dict[str, Any]
    ) -> Ending:
        modules = [line["module"] for line in desk.interactions]
        scores = form_scores(content, desk.dialogue, modules)
        known = {}
        if self.rules.profile == "run" and not self.person:
            known = desk.profiles[0].of_form(self.form.name)
        figures = {
            **asdict(scores),
            "success": scores.success,
            "efficiency": scores.efficiency,
            "score": scores.score,
            "complete": scores.complete,
            "right": right_fields(content, known) if known else None,
        }
        result = {
            "kind": "forms",
            "form": self.form.name,
            "variant": self.variant,
            "run": self.run,
            "profile": desk.profiles[0].name if known else None,
            "ended": ended,
            "calls": desk.calls,
            "again": dict(desk.again),
            "fallbacks": dict(desk.fallbacks),
            **figures,
            **of_variant,
            "filled": content,
            "dialogue": desk.dialogue,
            "interactions": desk.interactions,
        }
        if not desk.dialogue:
            return Ending(result=result)
        truth = {
            "goal": self.form.topic,
            "form": self.form.name,
            "variant": self.variant,
            "complete_basis": COMPLETE_BASIS,
            "reward": scores.score,
            "fields": scores.length,
            **figures,
            "ended": ended,
        }
        record = {
            "id": self.key,
            "dataset": "forms",
            "messages": [
                {"role": speaker.lower(), "content": text}
                for line in desk.dialogue
                for speaker, text in line.items()
            ],
            "truth": truth,
        }
        return Ending(record, "uniform", result)
