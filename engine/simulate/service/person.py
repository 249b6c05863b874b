"""A form that a person fills in conversation: the job that asks, and its state for the screen."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from engine.base.number_format import counted
from engine.formats.form_runs import FormScores
from engine.jobs.runner import JobRunner
from engine.model.chat import Role, parsed_object
from engine.simulate.forms.form import Form, fields_under, known_profiles
from engine.simulate.forms.form_session import Rules
from engine.simulate.forms.modules import QUESTION
from engine.simulate.forms.run import FormRun, Variant
from engine.simulate.live import Person, live_line
from engine.simulate.play import EndedPlay, Line
from engine.simulate.records import AskedField, LiveLine, SessionState
from engine.simulate.request import SimulationOptions
from engine.simulate.service.forms import KIND, rules_as_json
from engine.simulate.service.simulations import BY_SCHEMA, ProjectSimulations, Simulation
from engine.simulate.stages import BY_PERSON


class PersonSession:
    """A form that a person and the modules fill in a job. Every method returns at once."""

    def __init__(
        self,
        simulations: ProjectSimulations,
        runner: JobRunner,
        form: Form,
        variant: Variant,
        model: str | None,
        on_reply: Callable[[str, Line], None],
    ) -> None:
        """Starts the job: the run that was interrupted goes on, otherwise a new one begins.

        Args:
            model: Name of the model of the modules; None for the one that the project uses for simulations.
            on_reply: Called with the key of the play and every reply.

        Raises:
            UsageError: The model cannot do this.
            ProjectReadOnly: Nothing can be run on this project.
        """
        self._simulations, self._runner, self._form = simulations, runner, form
        self._on_reply = on_reply
        self._person = Person()
        self._guard = threading.Lock()
        self._lines: list[LiveLine] = []  # guarded, since the thread of the job adds to them
        self._ended: SessionState | None = None  # the last state, once the form is over
        simulation = self._simulation(variant, model)
        self._play = simulation.play
        self._play.on_reply = self._add_line
        self._titles = {stage.title for stage in simulation.stages}
        self._job_id = runner.start(simulation.stages)

    def _simulation(self, variant: Variant, model: str | None) -> Simulation:
        """Returns the simulation of the only run, in which the person plays the user."""
        rules, profiles, texts = Rules(), known_profiles(), self._simulations.texts(KIND)

        def next_run(labels: Mapping[Role, str]) -> list[FormRun]:
            """Returns the first run that has not ended, by number: an interrupted one, or else a new one."""
            rows = self._simulations.rows(simulation.play.config_hash)
            ended_keys = {row.key for row in rows if row.reason is None}
            numbered = (
                FormRun(
                    self._form,
                    variant,
                    number,
                    rules=rules,
                    texts=texts,
                    profiles=profiles,
                    person=True,
                )
                for number in count(1)
            )
            return [next(run for run in numbered if run.key not in ended_keys)]

        params: dict[str, Any] = {"seed": 0, "rules": rules_as_json(rules), "person": True}
        options = SimulationOptions(model=model)
        simulation = self._simulations.simulation(
            KIND,
            scenarios=next_run,
            params=params,
            asks={"assistant": BY_SCHEMA},
            options=options,
            texts=texts,
            person=self._person,
        )
        return simulation

    @property
    def job_id(self) -> int:
        """Id of the job that plays the run."""
        return self._job_id

    def state(self) -> SessionState:
        """Returns the state now."""
        # The order matters: a job that is no longer active has already stored its result.
        job_is_active = any(job.title in self._titles for job in self._runner.active())
        ended_play = self._play.newest
        with self._guard:
            if self._ended is None:
                question = self._person.question
                fields = () if question is None else asked_fields(self._form, self._lines)
                now = SessionState(tuple(self._lines), question, fields)
                if ended_play is not None:
                    self._ended = self._with_result(now, ended_play)
                elif not job_is_active:
                    text = (
                        "It was cut off. Your answers are kept: start this form again to continue."
                    )
                    self._ended = replace(now, question=None, asked=(), over=text)
                else:
                    return now
            return self._ended

    def answer(self, text: str) -> None:
        """Answers the open question."""
        self._person.say(text)

    def stop(self) -> None:
        """Ends the run with the fields that are filled so far; the conversation is stored."""
        self._person.stop()

    def _add_line(self, key: str, line: Line) -> None:
        """Takes a reply, of a module or of the person, from the thread of the job."""
        with self._guard:
            self._lines.append(live_line(line))
        self._on_reply(key, line)

    def _with_result(self, now: SessionState, played: EndedPlay) -> SessionState:
        """Returns the state with the result of the play and what was stored of it."""
        rows = self._simulations.rows(self._play.config_hash)
        row = next((play for play in rows if play.key == played.key), None)
        return replace(
            now,
            question=None,
            asked=(),
            over=_result_text(played),
            conversation_id=None if row is None else row.conversation_id,
        )


def asked_fields(form: Form, lines: Sequence[LiveLine]) -> tuple[AskedField, ...]:
    """Returns the fields that the latest question asks for, as named by the module that wrote it; empty if it named
    none."""
    question_line = next((line for line in reversed(lines) if line.module == QUESTION.name), None)
    reply = None if question_line is None else parsed_object(question_line.text, strict=False)
    labels = None if reply is None else reply.get("fields")
    if not isinstance(labels, list):
        return ()
    fields = fields_under(form.content, [label for label in labels if isinstance(label, str)])
    label_counts = Counter(field.path[-1] for field in fields)
    return tuple(
        AskedField(
            # A form may ask for a "Last Name" in several sections.
            ": ".join(field.path[-2:]) if label_counts[field.path[-1]] > 1 else field.path[-1],
            field.required,
            field.options,
        )
        for field in fields
    )


def _result_text(played: EndedPlay) -> str:
    """Returns how the play ended, and how much of the form is filled, in words."""
    if played.reason is not None:
        return f"It broke off: {played.reason}"
    result = played.ending.result
    ended = "you" if result["ended"] == BY_PERSON else f"`{result['ended']}`"
    required_filled, required_total = result["required"]
    optional_filled, optional_total = result["optional"]
    return (
        f"Ended by {ended}. Required fields filled: {required_filled} of {required_total}, optional:"
        f" {optional_filled} of {optional_total}; {counted(result['turns'], 'turn')};"
        f" {FormScores.of(result).headline}."
    )
