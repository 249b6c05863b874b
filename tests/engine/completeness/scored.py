"""A project with small conversations, and its scoring; as a program it is killed on the way by a test. `python -m
tests.engine.completeness.scored PROJECT LOG` scores a project and writes a line to LOG after each committed batch.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from engine.base.conversation import Conversation, Message
from engine.completeness.scoring import Question
from engine.completeness.stages.remaining import RemainingStage
from engine.completeness.stages.scoring import ScoringStage
from engine.completeness.tables import hidden_states
from engine.completeness.tables.hidden_states import StateEntry
from engine.conversations.stages import ImportStage
from engine.jobs import contract
from engine.jobs.contract import Progress
from engine.jobs.runner import JobRunner, RunOutcome
from engine.model.catalog import LoadableModel
from engine.model.interface import LoadOptions
from engine.model.process.process import ModelProcess
from engine.model.prompt_files import Prompt, parse_prompt, prompt_text
from engine.project.project import Project
from engine.simulate.demo import sample_conversations, write_jsonl

RULES = "You are the assistant of a library. Be brief, lend no maps, ask for the card number. " * 5
ONLY_USER = "talk-06"
WEIGHTS = "TESTED_WEIGHTS"
"""Variable of the environment with the path of the weights, for the programs that tests start too."""


def conversations() -> list[Conversation]:
    """Twelve conversations: beginnings of samples, every third under one long system prompt, one without an answer."""
    samples = [each for each in sample_conversations(60, seed=5) if len(each.messages) > 6]
    samples.sort(key=lambda sample: sum(len(message.seen) for message in sample.messages[1:6]))
    made = []
    for number, sample in enumerate(samples[:12]):
        messages = sample.messages[1 : (3, 5, 6)[number % 3]]
        if number % 3 == 0:
            messages = (Message("system", RULES), *messages)
        name = f"talk-{number:02}"
        if name == ONLY_USER:
            messages = (Message("user", "Hello?"), Message("user", "Anybody there?"))
        made.append(Conversation(name, messages))
    return made


def make(path: Path) -> None:
    """A project with these conversations, not scored."""
    source = path.with_suffix(".jsonl")
    write_jsonl(conversations(), source)
    with Project.open(path, create=True) as project:
        JobRunner(project, lambda event: None).run(ImportStage(project, [str(source)]))


def small_blocks() -> None:
    """Four conversations a block, so that small projects have several blocks."""
    contract.BLOCK_CHARS = 1


def model() -> LoadableModel:
    """The shipped model in a quick format, with a small context and figures as if measured."""
    path = Path(os.environ[WEIGHTS])
    options = LoadOptions(context=1024)
    return LoadableModel("shipped", path, options, None, {"model": path.name}, 0.01, 500.0)


def prompt() -> Prompt:
    """The shipped prompt for remaining tasks with short replies."""
    shipped = parse_prompt("remaining-tuned", prompt_text("remaining-tuned"))
    return replace(shipped, question="\n\nWhat is left?", reply=" To", max_tokens=6)


def all_entries(conn: sqlite3.Connection, config_hash: str) -> Iterator[StateEntry]:
    """The states of all conversations that were read, in the order of their ids."""
    ids = hidden_states.ids_with_entry(conn, config_hash)
    return hidden_states.entries_of_conversations(conn, config_hash, ids)


class _PrintingScoring(ScoringStage):
    def run(self, run_id: int) -> Iterator[Progress]:
        yield from _printed(super().run(run_id))


class _PrintingRemaining(RemainingStage):
    def run(self, run_id: int) -> Iterator[Progress]:
        yield from _printed(super().run(run_id))


def _printed(progress: Iterator[Progress]) -> Iterator[Progress]:
    for step in progress:
        sys.stdout.write(f"{step.done}\n")
        sys.stdout.flush()
        yield step


def stages(
    project: Project, process: ModelProcess, *, telling: bool = False
) -> tuple[ScoringStage, RemainingStage]:
    """Scoring in mode `tuned`, and the remaining tasks of the incomplete conversations."""
    scoring_kind = _PrintingScoring if telling else ScoringStage
    remaining_kind = _PrintingRemaining if telling else RemainingStage
    run_model, question = model(), Question(None)
    scoring = scoring_kind(project, process, run_model, "tuned", question)
    remaining = remaining_kind(project, process, run_model, prompt(), lambda: scoring.config_hash)
    return scoring, remaining


def run(project: Project, process: ModelProcess, *, telling: bool = False) -> list[RunOutcome]:
    """Runs both stages to their ends."""
    runner = JobRunner(project, lambda event: None)
    return [runner.run(stage) for stage in stages(project, process, telling=telling)]


def main(path: str, log: str) -> None:
    """Scores a project as the command line does, in small blocks."""
    small_blocks()
    with Project.open(path) as project:
        process = ModelProcess(Path(log))
        run(project, process, telling=True)
        process.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
