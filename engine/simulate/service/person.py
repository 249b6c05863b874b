"""A form that a person fills in conversation: the job that asks, and its state for the screen."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from engine.base.errors import Cancelled
from engine.base.form_scores import FormScores
from engine.base.number_format import counted
from engine.jobs.contract import Progress
from engine.jobs.runner import JobRunner
from engine.model.asking import Ending, Play
from engine.model.chat import Call, Completion, Role
from engine.project import replies as model_replies
from engine.simulate import tables as plays
from engine.simulate.forms.form import Form, fields_under, known_profiles
from engine.simulate.forms.form_session import Rules, RunOver, parsed
from engine.simulate.forms.modules import QUESTION
from engine.simulate.forms.run import FormRun, Variant
from engine.simulate.play import (
    FailedCall,
    Line,
    Played,
    live_line,
)
from engine.simulate.records import AskedField, LiveLine, PlaySetting, SessionState
from engine.simulate.request import SimulationOptions
from engine.simulate.service.forms import KIND, rules_as_json
from engine.simulate.service.simulations import BY_SCHEMA, ProjectSimulations, Simulation
from engine.simulate.stages import PlayStage

PERSON = "a person"
"""Label in place of the model of the user."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a person; None ends the play."""

    text: str | None


class Person:
    """Passes questions of a play to a person and the answers back. Safe to use from any thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._question: str | None = None
        self._answer: Answer | None = None
        self._stopping = self._gone = False

    @property
    def question(self) -> str | None:
        """The open question; None if there is none."""
        with self._changed:
            return self._question

    def say(self, text: str) -> None:
        """Answers the open question; does nothing if there is none."""
        with self._changed:
            if self._question is not None and self._answer is None:
                self._question, self._answer = None, Answer(text)
                self._changed.notify_all()

    def stop(self) -> None:
        """Ends the play at the open question, or at the next one."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    def leave(self) -> None:
        """Makes `wait_for_answer` raise Cancelled, now and later."""
        with self._changed:
            self._gone = True
            self._changed.notify_all()

    def wait_for_answer(self, question: str) -> Answer:
        """Opens a question and waits for the answer of the person.

        Raises:
            Cancelled: `leave` was called.
        """
        with self._changed:
            self._question = question
            while self._answer is None and not self._stopping and not self._gone:
                self._changed.wait()
            self._question = None
            if self._gone:
                raise Cancelled("The person has left.")
            answer, self._answer = self._answer or Answer(None), None
            return answer


class PersonStage(PlayStage):
    """Plays one scenario with a person in the role of the user.

    Attributes:
        person: The person, who answers the calls of the role `user`.
        stopped: Returns the exception that is thrown into the play when the person ends it.
        over: The result of the play; None while it goes on.
    """

    person: Person
    stopped: Callable[[], Exception]
    over: Played | None = None

    @property
    def title(self) -> str:
        """Title of the job."""
        return f"{super().title} and {PERSON}"

    @property
    def _models(self) -> dict[str, str]:
        return {**super()._models, "user": PERSON}

    def run(self, run_id: int) -> Iterator[Progress]:
        """Plays call by call; every reply is committed as it comes.

        Raises:
            ModelError: A model cannot be loaded or cannot answer.
            Cancelled: `interrupt` was called.
        """
        yield Progress(0, None, "loading the model")
        (scenario,) = self.scenarios
        setting = PlaySetting(self.config_hash, self._kind, self.params, self._models)
        self._project.write(lambda conn: plays.register(conn, setting))
        play, key = scenario.play(), scenario.key
        lines: list[Line] = []
        answered = 0
        try:
            call = next(play)
            while True:
                if call.role == "user":
                    yield Progress(self._answering.asked, None, "waits for your answer")
                    completion = self._person_reply(
                        call, {"person": f"{self.config_hash}/{key}/{answered}"}
                    )
                    answered += 1
                    if completion is None:
                        call = play.throw(self.stopped())
                        continue
                else:
                    yield Progress(self._answering.asked, None, call.module)
                    reply = yield from self._reply(run_id, call)
                    if isinstance(reply, FailedCall):
                        self._end(run_id, play, Played(key, Ending(), tuple(lines), reply.reason))
                        return
                    completion = reply
                line = Line(call, completion)
                lines.append(line)
                self.on_reply(key, line)
                call = play.send(completion)
        except StopIteration as stop:
            self._end(run_id, play, Played(key, stop.value, tuple(lines)))

    def interrupt(self) -> None:
        """Ends the wait for the person too."""
        super().interrupt()
        self.person.leave()

    def _reply(self, run_id: int, call: Call) -> Generator[Progress, None, Completion | FailedCall]:
        replies: list[Completion | FailedCall] = []
        for count in self._answering.answers(run_id, [call], replies.extend, None):
            yield Progress(self._answering.asked + count, None, call.module)
        return replies[0]

    def _person_reply(self, call: Call, who: Mapping[str, str]) -> Completion | None:
        """The person's answer, or the one stored before an interruption; None if the person ends the play."""
        kept = call.key(who)
        with self._project.reading() as conn:
            known = model_replies.replies(conn, [kept])
        if kept in known:
            return Completion(known[kept][0], "end")
        answer = self.person.wait_for_answer(call.messages[-1].content)
        if answer.text is None:
            return None
        self._project.write(
            partial(model_replies.add_replies, given=[(kept, (answer.text, "end", None))])
        )
        return Completion(answer.text, "end")

    def _end(self, run_id: int, play: Play, played: Played) -> None:
        play.close()
        self._keep(run_id, played, self._answering.asked)
        self.over = played


STOPPED = "person"
"""Reason of the end of a run that the person stopped."""


@dataclass(frozen=True, slots=True)
class Filling:
    """A form that a person fills, ready to be run.

    Attributes:
        form: The form.
        simulation: Its stages; the last one is `stage`.
    """

    form: Form
    simulation: Simulation
    stage: PersonStage
    person: Person


def filling(
    simulations: ProjectSimulations, form: Form, variant: Variant, model: str | None
) -> Filling:
    """The run that fills a form with a person: the one that was interrupted, otherwise a new one.

    Raises:
        UsageError: The model cannot do this.
    """
    rules, profiles, texts = Rules(), known_profiles(), simulations.texts(KIND)
    person = Person()

    def runs(labels: Mapping[Role, str]) -> list[FormRun]:
        over = {row.key for row in simulations.rows(stage.config_hash) if row.reason is None}
        number = 1
        while (
            run := FormRun(form, variant, number, rules, texts, profiles, person=True)
        ).key in over:
            number += 1
        return [run]

    params: dict[str, Any] = {"seed": 0, "rules": rules_as_json(rules), "person": True}
    made = simulations.simulation(
        KIND,
        runs,
        params,
        {"assistant": BY_SCHEMA},
        SimulationOptions(model=model),
        texts,
        PersonStage,
    )
    stage = made.play
    assert isinstance(stage, PersonStage)
    stage.person = person
    stage.stopped = lambda: RunOver(STOPPED)
    return Filling(form, made, stage, person)


class PersonSession:
    """A form that a person and the modules fill in a job. Every method returns at once."""

    def __init__(
        self,
        begun: Filling,
        runner: JobRunner,
        simulations: ProjectSimulations,
        on_reply: Callable[[str, Line], None],
    ) -> None:
        """Starts the job; `on_reply` is called with the key of the play and every reply.

        Raises:
            ProjectReadOnly: Nothing can be run on this project.
        """
        self._filling, self._runner, self._simulations = begun, runner, simulations
        self._on_reply = on_reply
        self._guard = threading.Lock()
        self._key = ""
        self._lines: list[LiveLine] = []
        self._ended: SessionState | None = None
        begun.stage.on_reply = self._add_line
        self._titles = {stage.title for stage in begun.simulation.stages}
        self._job_id = runner.start(begun.simulation.stages)

    @property
    def job_id(self) -> int:
        """The job that runs it."""
        return self._job_id

    def state(self) -> SessionState:
        """The state now."""
        # The order matters: a job that is no longer active has already stored its result.
        runs = any(job.title in self._titles for job in self._runner.active())
        over = self._filling.stage.over
        with self._guard:
            if self._ended is None:
                question = self._filling.person.question
                asked = () if question is None else asked_fields(self._filling.form, self._lines)
                now = SessionState(self._key, tuple(self._lines), question, asked)
                if over is not None:
                    self._ended = self._with_result(now, over)
                elif not runs:
                    text = (
                        "It was cut off. Your answers are kept: start this form again to continue."
                    )
                    self._ended = replace(now, question=None, asked=(), over=text)
                else:
                    return now
            return self._ended

    def answer(self, text: str) -> None:
        """Answers the open question."""
        self._filling.person.say(text)

    def stop(self) -> None:
        """Ends the run with the fields that are filled so far; the conversation is stored."""
        self._filling.person.stop()

    def _add_line(self, key: str, line: Line) -> None:
        with self._guard:
            self._key = key
            self._lines.append(live_line(line))
        self._on_reply(key, line)

    def _with_result(self, now: SessionState, over: Played) -> SessionState:
        rows = self._simulations.rows(self._filling.stage.config_hash)
        row = next((one for one in rows if one.key == over.key), None)
        text = f"It broke off: {over.reason}" if over.reason is not None else _result_text(over)
        return replace(
            now,
            question=None,
            asked=(),
            over=text,
            play_id=None if row is None else row.id,
            conversation_id=None if row is None else row.conversation_id,
        )


def asked_fields(form: Form, lines: Sequence[LiveLine]) -> tuple[AskedField, ...]:
    """The fields that the latest question asks for, as named by the module that wrote it; empty if it named none."""
    made = next((line for line in reversed(lines) if line.module == QUESTION.name), None)
    reply = None if made is None else parsed(made.text)
    labels = None if reply is None else reply.get("fields")
    if not isinstance(labels, list):
        return ()
    found = fields_under(form.content, [label for label in labels if isinstance(label, str)])
    alike = Counter(field.path[-1] for field in found)
    return tuple(
        AskedField(
            # A form may ask for a "Last Name" in several sections.
            ": ".join(field.path[-2:]) if alike[field.path[-1]] > 1 else field.path[-1],
            field.required,
            field.options,
        )
        for field in found
    )


def _result_text(over: Played) -> str:
    result = over.ending.result
    ended = "you" if result["ended"] == STOPPED else f"`{result['ended']}`"
    required, optional = result["required"], result["optional"]
    return (
        f"Ended by {ended}. Required fields filled: {required[0]} of {required[1]}, optional:"
        f" {optional[0]} of {optional[1]}; {counted(result['turns'], 'turn')};"
        f" {FormScores.of(result).headline}."
    )
