"""Which stages a run of goal clustering is made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from engine.errors import UsageError
from engine.filters import Filter, ListQuery
from engine.goals.embedders.embedder import Served, embedder_for
from engine.goals.embedders.vectors import Vectors
from engine.goals.questions.questions import with_context
from engine.jobs.contract import Stage
from engine.model.catalog import Catalog, RunnableModel
from engine.model.interface import LoadOptions
from engine.model.prompt_files import Prompt
from engine.records.goals import USUAL_TEXT, Decide, GoalText
from engine.stages.assigning import AssignStage
from engine.stages.clustering import ClusterStage
from engine.stages.deciding import THRESHOLD, DecideStage
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

ASK = 24
"""Pairs that one run asks about: some minutes' work, and more than a person decides meanwhile."""

ABOUT_KEY = "goal_context"
"""Setting with the paragraph on the application that stands before every summarising prompt."""


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """What a person chose for a clustering run.

    Attributes:
        embedder: `tfidf`, `minilm`, the path of a GGUF embedding model, or the URL of an endpoint.
        k: Clusters, an overestimate; None proposes one from the data.
        threshold: Merge probability from which `auto` merges.
        ask: Pairs that the model is asked about before a person decides; the desk asks about more.
        largest: Clusters of more members are split again; None leaves them.
        model: Name or path; None is the one that the project uses for goals.
        labels: Let the model label clusters; without, they are named after their words and nothing is asked.
        near: Show it the nearest texts outside a cluster; else any.
        filter: Which conversations.
        limit: The first so many of them.
    """

    text: GoalText = USUAL_TEXT
    embedder: str = "tfidf"
    k: int | None = None
    seed: int = 0
    decide: Decide = "ask"
    threshold: float = THRESHOLD
    ask: int = ASK
    largest: int | None = None
    model: str | None = None
    labels: bool = True
    near: bool = True
    filter: Filter = field(default_factory=Filter)
    limit: int | None = None


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

    def cluster(self, options: ClusterOptions) -> list[Stage]:
        """Texts, vectors, clusters, labels, and what is said or decided of merges.

        Raises:
            UsageError: There is no such embedder, or the model's word is to decide and no model is asked.
        """
        query = ListQuery(options.filter)
        needs_model = options.labels or options.text == "summary"
        model = self.models.resolve(options.model) if needs_model else None
        stages = self.models.tuning(model) if model else []
        summarise: SummariseStage | None = None
        if model and options.text == "summary":
            summarise = self._summarise(model, query, options.limit)
            stages.append(summarise)

        def source() -> TextSource:
            return TextSource(options.text, summarise.config_hash if summarise else None)

        embed = EmbedStage(
            self.project,
            self._vectoriser(options.embedder, options.seed),
            source,
            query=query,
            limit=options.limit,
        )
        cluster = ClusterStage(
            self.project,
            self.queue_cache.decision_log,
            lambda: embed.vector_key,
            lambda: embed.ids,
            k=options.k,
            seed=options.seed,
            largest=options.largest,
        )
        stages += [embed, cluster]
        asking: ProposeStage | None = None
        if model and options.labels:
            self.models.check_writing(model.model, self.models.prompt("label"))
            stages.append(
                LabelStage(
                    self.project,
                    self.process,
                    model.current,
                    self.models.prompt("label"),
                    near=options.near,
                    clustering_id=lambda: cluster.clustering_id,
                )
            )
            asking = self._propose(model, options.ask, lambda: cluster.clustering_id)
        if options.decide == "ask" and asking is not None:
            stages.append(asking)
        elif options.decide in ("auto", "llm"):
            stages.append(
                DecideStage(
                    self.project,
                    self.queue_cache.decision_log,
                    self.queue_cache,
                    "auto" if options.decide == "auto" else "llm",
                    lambda: cluster.clustering_id,
                    asking=asking,
                    threshold=options.threshold,
                )
            )
        return stages

    def ask(self, model: str | None = None, most: int = ASK) -> list[Stage]:
        """Questions about the pairs that are next on the desk of the clustering that is shown."""
        chosen = self.models.resolve(model)
        return [*self.models.tuning(chosen), self._propose(chosen, most, lambda: None)]

    def assign(self, model: str | None = None) -> list[Stage]:
        """Texts and vectors of what came after the clustering that is shown, then where it belongs.

        Args:
            model: That wrote the summaries, where the clustering is of summaries.

        Raises:
            UsageError: Nothing was clustered yet.
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
        """Repetitions of the clustering that is shown."""
        return StabilityStage(self.project, seeds=seeds, bootstraps=bootstraps)

    def hold_out(self, share: float, seed: int = 0) -> HoldOutStage:
        """Measures how well a share of the conversations can be assigned to clusters of the others."""
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
        """What embeds; a GGUF file does so in the model process. Made at once, so that a wrong name is told before
        anything runs."""
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
