"""A project whose conversations are clustered without a model, on topics with words of their own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from engine.goals.clustering_request import ClusteringRequest
from engine.goals.service.groups import GoalService
from engine.goals.service.merge_review import MergeReviewService
from engine.goals.service.runs import GoalStages
from engine.goals.views.decision_log import DecisionLog
from engine.goals.views.merge_queue import MergeQueueCache
from engine.jobs.contract import Stage
from engine.jobs.runner import JobRunner
from engine.model.catalog import Catalog
from engine.model.process.process import ModelProcess
from engine.model.service.endpoints import Endpoints
from engine.model.service.run_setup import RunSetup
from engine.project.project import Project
from tests.engine.project.support import fill, give_scores, talk

TOPICS = {
    "book": (
        "book a flight ticket, plane seat to {}",
        "reserve a flight ticket, plane seat, {}",
        "flight ticket for the plane to {}",
    ),
    "bill": (
        "pay my electricity bill for {}",
        "settle the electricity bill, pay {}",
        "pay an electricity bill, {} account",
    ),
    "pizza": (
        "order a large pizza with cheese in {}",
        "pizza with extra cheese, order for {}",
        "deliver cheese pizza order {}",
    ),
    "wifi": (
        "internet router is down, wifi broken {}",
        "wifi broken, router offline in {}",
        "router and wifi internet broken {}",
    ),
}
PLACES = ("rome", "oslo", "lima", "cairo", "kyoto", "quito", "delhi", "paris")


def texts() -> list[tuple[str, str]]:
    """(topic, user text) of each conversation from id 1; the topics alternate."""
    return [
        (topic, wordings[nth % 3].format(place))
        for nth, place in enumerate(PLACES)
        for topic, wordings in TOPICS.items()
    ]


def fill_topics(project: Project) -> None:
    """Imports the conversations, dated month by month, and one without user text; scores all but the last four."""
    fill(
        project,
        [
            talk(f"{topic}-{n}", text, "ok", created_at=f"2026-0{1 + n // 12}-02")
            for n, (topic, text) in enumerate(texts(), 1)
        ],
    )
    fill(project, [talk("silent", "...")], "later.jsonl")
    give_scores(project, {n: (n * 37 % 100) / 100 for n in range(1, len(texts()) - 3)})


def stages_of(project: Project) -> GoalStages:
    """Stages of a project, without a model process."""
    folder = Path(project.path).parent
    catalog = Catalog(folder / "data", folder / "cache")
    return GoalStages(
        RunSetup(project, cast(ModelProcess, None), catalog, Endpoints(folder, folder)),
        MergeQueueCache(project, DecisionLog(project)),
    )


class RunsAtOnce(JobRunner):
    """Runs stages before `start` returns."""

    def start(self, stages: Sequence[Stage]) -> int:
        run(self._project, stages)
        return 1


def run(project: Project, stages: Sequence[Stage]) -> None:
    """Runs stages one after another; asserts that each succeeds."""
    runner = JobRunner(
        project, lambda event: None, tables_by_stage={stage.name: frozenset() for stage in stages}
    )
    for stage in stages:
        outcome = runner.run(stage)
        assert outcome.state == "done", outcome
    runner.close()


def cluster(project: Project, k: int = 8, seed: int = 0, stages: GoalStages | None = None) -> None:
    """Clusters the user texts, without labels and themes, so that no decision was made."""
    request = ClusteringRequest(k=k, seed=seed, labels=False)
    made = (stages or stages_of(project)).cluster_stages(request)
    run(project, [stage for stage in made if stage.name != "theme"])


def stored_review(project: Project) -> MergeReviewService:
    """The merge review and the goals of a project, whose jobs run before `start` returns."""
    stages = stages_of(project)
    goals = GoalService(project, stages.queue_cache, lambda: None)
    runner = RunsAtOnce(project, lambda event: None)
    return MergeReviewService(project, goals, stages, runner, lambda: None)


TOPIC = {number: topic for number, (topic, _) in enumerate(texts(), 1)}
"""What each conversation is about."""


def members(goals: GoalService, key: str | None) -> set[int]:
    """Ids of the conversations of a group."""
    return {row.conversation_id for row in goals.members(key)}


def topic_of(goals: GoalService, key: str) -> str:
    """The topic of most members of a group."""
    known = [TOPIC[member] for member in members(goals, key) if member in TOPIC]
    return Counter(known).most_common(1)[0][0]


def merge_rightly(review: MergeReviewService, most: int = 100) -> int:
    """Decides proposals by the topics until none is left; returns how many."""
    for count in range(most):
        proposal = review.proposal()
        if proposal is None:
            return count
        a, b = proposal.pair
        if topic_of(review.goals, a) == topic_of(review.goals, b):
            review.merge(proposal)
        else:
            review.apart(proposal)
    return most
