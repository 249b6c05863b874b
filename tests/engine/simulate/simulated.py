"""Small simulated conversations; as a program they are killed on the way by a test. `python -m
tests.engine.simulate.simulated PROJECT LOG` plays them and writes a line to LOG after each committed batch.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from engine.jobs.contract import Progress
from engine.jobs.runner import JobRunner, RunOutcome
from engine.model.catalog import LoadableModel
from engine.model.chat import Call, ChatMessage, Completion, Ending, Play, Role, Scenario, Speaker
from engine.model.interface import Sampling
from engine.model.process.process import ModelProcess
from engine.project.project import Project
from engine.simulate.stages import PlayStage
from tests.engine.completeness import scored

WARM = Sampling(temperature=1.0)
SUBJECTS = ("Bread", "Rivers", "Chess", "Tea", "Owls", "Maps", "Rain", "Trains", "Salt")


@dataclass(frozen=True)
class Chat:
    """A scenario of a user and an assistant who speak in turns; its subject is the truth."""

    subject: str
    turns: int

    @property
    def key(self) -> str:
        """A key made of the subject."""
        return f"chat/{self.subject}"

    def play(self) -> Play:
        """The longer, the longer."""
        messages: list[ChatMessage] = []
        for turn in range(self.turns):
            for role in self.sides:
                said = yield self._call(role, messages, turn)
                speaker: Speaker = "user" if role == "user" else "assistant"
                messages.append(ChatMessage(speaker, said.text.strip() or "…"))
        record = {
            "id": self.key,
            "dataset": "chat",
            "messages": [{"role": one.speaker, "content": one.content} for one in messages],
            "truth": {"goal": self.subject},
        }
        return Ending(record, "uniform", {"turns": self.turns})

    sides: tuple[Role, ...] = ("user", "assistant")

    def _call(self, role: Role, messages: Sequence[ChatMessage], turn: int) -> Call:
        task = f"You {'ask' if role == 'user' else 'answer'} one short question on {self.subject}."
        swapped = {"user": "assistant", "assistant": "user"} if role == "user" else {}
        seen = [
            replace(one, speaker="assistant" if swapped[one.speaker] == "assistant" else "user")
            if swapped
            else one
            for one in messages
        ]
        first = ChatMessage("system", task)
        begin = [] if seen and seen[0].speaker == "user" else [ChatMessage("user", "Begin.")]
        return Call(role, role, (first, *begin, *seen), WARM, 6 + len(self.subject), turn)


def scenarios(labels: object = None) -> list[Scenario]:
    """Nine scenarios of one to three turns."""
    return [Chat(subject, 1 + at % 3) for at, subject in enumerate(SUBJECTS)]


class PrintingPlayStage(PlayStage):
    """The stage, which writes a line after each committed batch."""

    def run(self, run_id: int) -> Iterator[Progress]:
        """As `PlayStage.run`."""
        for step in super().run(run_id):
            sys.stdout.write(f"{step.done}\n")
            sys.stdout.flush()
            yield step


def stage(
    project: Project,
    process: ModelProcess,
    *,
    made: Callable[[object], Sequence[Scenario]] = scenarios,
    user: LoadableModel | None = None,
    kind: type[PlayStage] = PlayStage,
) -> PlayStage:
    """The stage that plays the scenarios, four at a time."""
    model = scored.model()
    models: dict[Role, LoadableModel] = {"user": user or model, "assistant": model}
    texts = {"task": "You ask one short question."}
    return kind(project, process, "chat", made, {"turns": 3}, texts, models, 4)


def run(project: Project, process: ModelProcess, *, telling: bool = False) -> RunOutcome:
    """Plays to the end."""
    kind = PrintingPlayStage if telling else PlayStage
    return JobRunner(project, lambda event: None).run(stage(project, process, kind=kind))


def main(path: str, log: str) -> None:
    """Plays as the command line does."""
    with Project.open(path, create=True) as project:
        process = ModelProcess(Path(log))
        run(project, process, telling=True)
        process.close()


__all__ = ["Chat", "Completion", "main", "run", "scenarios", "stage"]


if __name__ == "__main__":
    main(*sys.argv[1:])
