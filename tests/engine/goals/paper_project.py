"""A project on which a scripted model runs Algorithm 1 of the paper behind an endpoint."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.base.conversation import Conversation, Message
from engine.goals.clustering_request import ClusteringRequest
from engine.goals.records import Decide
from engine.goals.stages.deciding import DecideStage
from engine.opener.open_project import OpenProject
from tests.engine.goals import goal_runs
from tests.engine.model.endpoints.scripted_server import KINDS, ScriptedServer, scripted
from workbench.cli import main

WISHES = (
    "a taxi to the airport with luggage",
    "a taxi home after the party tonight",
    "a hotel near the old harbor",
    "a concert with a string quartet",
    "a table at an italian place",
)
"""What users want; the model takes taxis and hotels for one goal, and says neither yes nor no of tables."""
EACH = 12
"""Conversations with each wish: more than a question shows."""


def make(path: Path) -> None:
    """A project with such conversations, not yet clustered."""
    conversations = [
        Conversation(
            f"{wish.split()[1]}-{wish.split()[2]}-{number}",
            (Message("user", f"I need {wish} on day {number}, please."), Message("assistant", "I look.")),
        )
        for number in range(EACH)
        for wish in WISHES
    ]  # fmt: skip
    with OpenProject(path, create=True) as workspace:
        goal_runs.add(workspace.project, conversations, "talks")


@contextmanager
def scripted_model() -> Iterator[ScriptedServer]:
    """The endpoint `one`, in the catalog of the test."""
    with scripted(KINDS["vllm"]) as server:
        assert main(["models", "add", server.url, "--name", "one"]) == 0
        yield server


def run(path: Path, decide: Decide | None = None) -> DecideStage | None:
    """Runs the algorithm with the endpoint; returns the stage that decided, None where a person is to decide."""
    request = ClusteringRequest(paper=True, k=5, model="one", decide=decide)
    with OpenProject(path) as workspace:
        stages = workspace.goal_stages().cluster_stages(request)
        goal_runs.run(workspace.project, stages)
    return next((stage for stage in stages if isinstance(stage, DecideStage)), None)
