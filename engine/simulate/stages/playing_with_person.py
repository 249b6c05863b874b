"""Playing with a person: one play in which a person is the user, and models answer.

The answers of the person are stored like the replies of models, so that an interrupted play can be resumed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from engine.base.errors import Cancelled
from engine.jobs.contract import Progress
from engine.model.chat import Call, Completion
from engine.simulate import tables as plays
from engine.simulate.play import FailedCall, Line, Played
from engine.model.asking import Ending, Play
from engine.simulate.records import PlaySetting
from engine.simulate.stages.playing import PlayStage

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
            known = plays.replies(conn, [kept])
        if kept in known:
            return Completion(known[kept][0], "end")
        answer = self.person.wait_for_answer(call.messages[-1].content)
        if answer.text is None:
            return None
        self._project.write(partial(plays.add_replies, given=[(kept, (answer.text, "end", None))]))
        return Completion(answer.text, "end")

    def _end(self, run_id: int, play: Play, played: Played) -> None:
        play.close()
        self._keep(run_id, played, self._answering.asked)
        self.over = played
