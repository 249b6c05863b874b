"""Goal runs on small projects; as a program it is killed on the way by a test. `python -m tests.engine.goals.goal_runs
PROJECT LOG` runs all goal stages and writes a line to LOG after each committed batch.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine.base.conversation import Conversation, Message
from engine.conversations.stages import ImportStage
from engine.goals.stages import labeling
from engine.goals.stages.clustering import ClusterStage
from engine.goals.stages.embedding import EmbedStage, SummarizeStage, Vectorizer
from engine.goals.stages.labeling import LabelStage
from engine.goals.stages.proposing import ProposeStage
from engine.goals.tables.texts import TextSource
from engine.goals.views.decision_log import DecisionLog
from engine.goals.views.merge_queue import MergeQueueCache
from engine.jobs.contract import Progress, Stage
from engine.jobs.runner import JobRunner, RunOutcome
from engine.model.embedders.embedder import embedder_for
from engine.model.embedders.vectors import Vectors
from engine.model.process.process import ModelProcess
from engine.model.prompt_files import Prompt, parse_prompt, prompt_text
from engine.project.project import Project
from engine.simulate.demo import write_jsonl
from tests.engine.completeness import scored
from tests.engine.project.support import NOT_CONTENT, content

GOALS = (
    "book a table at an italian restaurant for {} people",
    "reset the password of my bank account {}",
    "play some jazz music in room {}",
    "find a cheap flight to city number {}",
)
UNTOLD = "silent"
"""Name of the conversation in which the user writes nothing."""


def conversations(count: int, later: str = "") -> list[Conversation]:
    """Conversations with goals of four kinds in turn; `later` gives others with the same goals."""
    words = ("two", "three", "four", "five", "six", "seven")
    made = []
    for number in range(count):
        asked = GOALS[number % 4].format(words[number // 4 % len(words)])
        extra = "please hurry " * (number // 24)
        text = f"I want to {asked}. {extra}{later}"
        messages = (Message("user", text), Message("assistant", "Done."))
        made.append(Conversation(f"goal-{later}{number:03}", messages))
    return made


def add(project: Project, made: Sequence[Conversation], name: str) -> None:
    """Imports conversations into a project."""
    source = Path(project.path).with_name(f"{name}.jsonl")
    write_jsonl(made, source)
    JobRunner(project, lambda event: None).run(ImportStage(project, [str(source)]))


def make(path: Path, count: int = 48) -> None:
    """A project with such conversations, and one without user text."""
    silent = Conversation(UNTOLD, (Message("assistant", "Hello?"),))
    with Project.open(path, create=True) as project:
        add(project, [*conversations(count), silent], "goals")


def tfidf() -> Vectorizer:
    """The TF-IDF embedder."""
    return Vectorizer("tfidf", embedder_for("tfidf"))


def vector_stages(
    project: Project, decision_log: DecisionLog, *, k: int | None = 8
) -> tuple[EmbedStage, ClusterStage]:
    """The stages that embed first messages and cluster them."""
    embed = EmbedStage(project, tfidf(), lambda: TextSource("first-user"))
    return embed, ClusterStage(project, decision_log, embed, k=k)


def prompt(name: str, max_tokens: int) -> Prompt:
    """A shipped prompt with short replies."""
    return replace(parse_prompt(name, prompt_text(name)), max_tokens=max_tokens)


def model_stages(project: Project, process: ModelProcess) -> list[Stage]:
    """The stages from summaries to answers on pairs as in the paper, with the real model, short replies and small
    numbers."""
    decision_log = DecisionLog(project)
    summarize = SummarizeStage(project, process, scored.model(), prompt("paper-summary", 8))
    embed = EmbedStage(project, tfidf(), lambda: TextSource("summary", summarize.config_hash))
    cluster = ClusterStage(project, decision_log, embed, k=3, paper=True)
    label = LabelStage(project, process, scored.model(), prompt("paper-label", 8))
    return [summarize, embed, cluster, label, propose(project, process, decision_log)]


def propose(project: Project, process: ModelProcess, decision_log: DecisionLog) -> ProposeStage:
    """The stage that asks about two pairs at most."""
    return ProposeStage(
        project,
        process,
        scored.model(),
        MergeQueueCache(project, decision_log),
        prompt("paper-merge", 8),
        limit=2,
    )


def run(project: Project, stages: Sequence[Stage]) -> list[RunOutcome]:
    """Runs stages to their ends."""
    runner = JobRunner(project, lambda event: None)
    return [runner.run(stage) for stage in stages]


def goal_content(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    """All tables of goals in a project file except runs and times."""
    kinds = ("goal", "vector", "no_vector", "cluster", "membership", "pair", "decision")
    timed = {"clustering": "created_at", "pair_answer": "seconds"}
    found = {table: rows for table, rows in content(path).items() if table.startswith(kinds)}
    with closing(sqlite3.connect(path)) as conn:
        for table, column in timed.items():
            names = [row[1] for row in conn.execute(f"PRAGMA table_info({table})")]
            place = [name for name in names if name not in NOT_CONTENT].index(column)
            found[table] = [row[:place] + row[place + 1 :] for row in found[table]]
    return found


def _printing(stage: Stage) -> Stage:
    """The stage, which writes a line after each committed batch from now on."""
    silent_run = stage.run

    def run(run_id: int) -> Iterator[Progress]:
        for progress in silent_run(run_id):
            sys.stdout.write(f"{progress.done}\n")
            sys.stdout.flush()
            yield progress

    vars(stage)["run"] = run
    return stage


def small_blocks() -> None:
    """Two clusters and four conversations a block, so that small projects have several blocks."""
    scored.small_blocks()
    labeling.CLUSTERS_PER_BLOCK = 2


def same_vectors(first: Vectors, second: Vectors) -> bool:
    """Whether two arrays hold the same bits."""
    return first.shape == second.shape and first.tobytes() == second.tobytes()


def main(path: str, log: str) -> None:
    """Runs all stages as the command line does, in small blocks."""
    small_blocks()
    with Project.open(path) as project:
        process = ModelProcess(Path(log))
        run(project, [_printing(stage) for stage in model_stages(project, process)])
        process.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
