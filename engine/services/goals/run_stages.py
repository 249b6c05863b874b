"""The stages of goal runs: clustering, asking the model, assigning, stability, holding out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.errors import UsageError
from engine.filters import ListQuery
from engine.goals.embedders.embedder import Served, embedder_for
from engine.goals.embedders.vectors import Vectors
from engine.goals.questions.questions import with_context
from engine.jobs.contract import Stage
from engine.model.catalog import Catalog, RunnableModel
from engine.model.interface import LoadOptions
from engine.model.prompt_files import Prompt
from engine.services.run_requests import ASK, ClusteringRequest
from engine.stages.assigning import AssignStage
from engine.stages.clustering import ClusterStage
from engine.stages.deciding import DecideStage
from engine.stages.embedding import EmbedStage, Vectoriser
from engine.stages.holding_out import HoldOutStage
from engine.stages.labelling import LabelStage
from engine.stages.model_work import RunModel
from engine.stages.proposing import ProposeStage
from engine.stages.stabilising import BOOTSTRAPS, SEEDS, StabilityStage
from engine.stages.summarising import SummariseStage
from engine.store import settings
from engine.store.project import Project
from engine.views.goal_inputs import TextSource, source_of, stored_clustering
from engine.views.merge_queue_cache import MergeQueueCache
from engine.worker.client import ModelProcess

GOAL_STAGES = (
    "summarise", "embed", "cluster", "label", "propose", "decide", "assign", "stability", "hold-out"
)  # fmt: skip

ABOUT_KEY = "goal_context"
"""Key of the project setting with a paragraph on the application, which comes before every summarising prompt."""


def _accept(model: RunnableModel, prompt: Prompt) -> None:
    """Refuses nothing: models of this machine answer every prompt."""


@dataclass(frozen=True, slots=True)
class GoalModels:
    """The prompts and models of a project, as goal runs use them.

    Attributes:
        prompt: Returns a prompt by its name, as the project has it.
        resolve: Returns the model of a run: the one of the name, for None the project's.
        tuning: Returns the stages that tune a run's model, none where it was tuned.
        check_writing, check_reading: Raise UsageError for a model that cannot write replies to a prompt, or cannot give
            the probabilities of given answers to it.
        key_for: Returns the key for an embedder's URL, empty where it needs none.
    """

    prompt: Callable[[str], Prompt]
    resolve: Callable[[str | None], RunModel]
    tuning: Callable[[RunModel], list[Stage]]
    check_writing: Callable[[RunnableModel, Prompt], None] = _accept
    check_reading: Callable[[RunnableModel, Prompt], None] = _accept
    key_for: Callable[[str], str] = lambda url: ""


@dataclass(frozen=True, slots=True)
class GoalStages:
    """Makes the stages of goal runs."""

    project: Project
    process: ModelProcess
    catalog: Catalog
    queue_cache: MergeQueueCache
    models: GoalModels

    def cluster(self, request: ClusteringRequest) -> list[Stage]:
        """The stages of a clustering run: texts, vectors, clusters, labels, and questions or decisions about merges.

        Raises:
            UsageError: There is no such embedder, or the model is to decide about merges and labels nothing.
        """
        query = ListQuery(request.filter)
        needs_model = request.labels or request.text == "summary"
        model = self.models.resolve(request.model) if needs_model else None
        stages = self.models.tuning(model) if model else []
        summarise: SummariseStage | None = None
        if model and request.text == "summary":
            summarise = self._summarise(model, query, request.limit)
            stages.append(summarise)

        def source() -> TextSource:
            return TextSource(request.text, summarise.config_hash if summarise else None)

        embed = EmbedStage(
            self.project,
            self._vectoriser(request.embedder, request.seed),
            source,
            query=query,
            limit=request.limit,
        )
        cluster = ClusterStage(
            self.project,
            self.queue_cache.decision_log,
            lambda: embed.vector_key,
            lambda: embed.ids,
            k=request.k,
            seed=request.seed,
            largest=request.largest,
        )
        stages += [embed, cluster]
        asking: ProposeStage | None = None
        if model and request.labels:
            self.models.check_writing(model.model, self.models.prompt("label"))
            stages.append(
                LabelStage(
                    self.project,
                    self.process,
                    model.current,
                    self.models.prompt("label"),
                    near=request.near,
                    clustering_id=lambda: cluster.clustering_id,
                )
            )
            asking = self._propose(model, request.ask, lambda: cluster.clustering_id)
        if request.decide == "ask" and asking is not None:
            stages.append(asking)
        elif request.decide in ("auto", "llm"):
            stages.append(
                DecideStage(
                    self.project,
                    self.queue_cache.decision_log,
                    self.queue_cache,
                    "auto" if request.decide == "auto" else "llm",
                    lambda: cluster.clustering_id,
                    asking=asking,
                    threshold=request.threshold,
                )
            )
        return stages

    def ask(self, model: str | None = None, most: int = ASK) -> list[Stage]:
        """The stages that ask a model about at most `most` undecided pairs of the clustering that is shown."""
        chosen = self.models.resolve(model)
        return [*self.models.tuning(chosen), self._propose(chosen, most, lambda: None)]

    def assign(self, model: str | None = None) -> list[Stage]:
        """The stages that embed conversations that came after the clustering that is shown, and assign them to its
        groups.

        Args:
            model: The model that wrote the summaries, where the clustering is of summaries.

        Raises:
            UsageError: Nothing was clustered yet, or the summaries were made with another model or prompt.
        """
        with self.project.reading() as conn:
            stored = stored_clustering(conn, None)
        stages: list[Stage] = []
        if stored.text == "summary":
            summarise = self._summarise(self.models.resolve(model), ListQuery(), None)
            if summarise.config_hash != stored.goal_config:
                raise UsageError(
                    "The summaries of this clustering were made with another model or prompt.",
                    "Name that model with --model, or cluster anew.",
                )
            stages.append(summarise)
        embed = EmbedStage(
            self.project,
            self._vectoriser(stored.embedder, stored.seed),
            lambda: source_of(stored),
            into=lambda: stored.vector_config,
        )
        return [
            *stages,
            embed,
            AssignStage(self.project, self.queue_cache.decision_log, lambda: stored.id),
        ]

    def stability(self, seeds: int = SEEDS, bootstraps: int = BOOTSTRAPS) -> StabilityStage:
        """The stage that measures the stability of the clustering that is shown."""
        return StabilityStage(self.project, seeds=seeds, bootstraps=bootstraps)

    def hold_out(self, share: float, seed: int = 0) -> HoldOutStage:
        """The stage that measures how well a share of the conversations can be assigned to clusters of the others."""
        return HoldOutStage(
            self.project, lambda name, own: self._vectoriser(name, own).make(), share, seed
        )

    def _propose(
        self, model: RunModel, most: int, clustering_id: Callable[[], int | None]
    ) -> ProposeStage:
        merge, reason = self.models.prompt("merge"), self.models.prompt("merge-reason")
        self.models.check_reading(model.model, merge)
        self.models.check_writing(model.model, reason)
        return ProposeStage(
            self.project,
            self.process,
            model.current,
            self.queue_cache,
            merge,
            reason,
            most=most,
            clustering_id=clustering_id,
        )

    def _summarise(self, model: RunModel, query: ListQuery, limit: int | None) -> SummariseStage:
        with self.project.reading() as conn:
            about = str(settings.get(conn, ABOUT_KEY, ""))
        prompt = with_context(self.models.prompt("summary"), about)
        self.models.check_writing(model.model, prompt)
        return SummariseStage(
            self.project,
            self.process,
            model.current,
            prompt,
            query=query,
            limit=limit,
        )

    def _vectoriser(self, name: str, seed: int) -> Vectoriser:
        """The embedder of a name; a GGUF file runs in the model process. It is made now, so that a wrong name is
        refused before anything runs."""
        made = embedder_for(name, seed=seed, serve=self._serve, key=self.models.key_for(name))
        if name.endswith(".gguf"):
            return Vectoriser(name, lambda: made, "model", self.process.cancel)
        return Vectoriser(name, lambda: made)

    def _serve(self, path: Path) -> Served:
        options = LoadOptions(embedding=True)

        def embed(texts: Sequence[str]) -> Vectors:
            self.process.load(path, options)
            return self.process.embed(texts)

        return Served(self.catalog.sha256(path), embed)
