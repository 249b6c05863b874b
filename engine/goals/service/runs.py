"""Makes the stages of runs on goals (clustering, asking the model, assigning, stability), and estimates what they cost.

A stage is handed the source of its texts as a function (`source`), because the texts of a run may be summaries that an
earlier stage of the same run writes: under which hash they are stored is known when that stage has begun.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.base.errors import NotYet, UsageError, WorkbenchError
from engine.conversations.selection import ALL, Selection
from engine.goals.clustering_request import MAX_ASKED_PAIRS, ClusteringRequest
from engine.goals.clusters.kmeans import range_of_proposals
from engine.goals.questions import (
    LABEL_EXAMPLES,
    LABEL_PROMPT,
    MERGE_PROMPT,
    SUMMARY_PROMPT,
    with_context,
)
from engine.goals.records import EXPLANATION, GOAL_TEXTS, GoalText
from engine.goals.stages.clustering import AssignStage, ClusterStage, GroupForecast
from engine.goals.stages.deciding import DecideStage, ThemeStage
from engine.goals.stages.embedding import EmbedStage, SummarizeStage, Vectorizer
from engine.goals.stages.labeling import LabelStage, NameStage
from engine.goals.stages.proposing import ProposeStage
from engine.goals.stages.stability import StabilityStage
from engine.goals.tables import clusterings
from engine.goals.tables.clusterings import source_of, stored_clustering
from engine.goals.tables.texts import TextSource
from engine.goals.views.merge_queue import MergeQueueCache
from engine.jobs.contract import Stage
from engine.model.catalog import LoadableModel
from engine.model.embedders.embedder import GgufEmbedder, HttpEmbedder, embedder_for
from engine.model.embedders.vectors import Vectors
from engine.model.interface import LoadOptions, Spending
from engine.model.process.requests import Embed
from engine.model.prompt_files import Prompt
from engine.model.records import ModelRequest
from engine.model.service.run_setup import RunSetup
from engine.project import runs, settings
from engine.project.records import Estimate, RunRow, StageCost
from engine.questions.tables import questions

PER_CONVERSATION = ("summarize", "embed", "cluster")
"""Names of the stages whose time grows with the number of conversations; the time of the others grows with the number
of clusters, which hardly grows."""
MODEL_TASKS = {"summarize": "summaries", "label": "labels", "propose": "merges", "decide": "merges"}
"""What the stages ask the model for, as the estimate of a run says it: "with MODEL: summaries, labels"."""
ABOUT_KEY = "goal_context"
"""Setting: a paragraph on the application, which comes before every summarizing prompt (`run cluster --about`)."""
ONE_SENTENCE_PROMPT = "summary-json"
"""Name of the prompt for a summary of one sentence, of a model that follows instructions."""
SUMMARY_LIKE_OTHERS = "The user wants to change the date of a booked flight."
"""Stands for a summary in estimates before there are any."""


@dataclass(frozen=True, slots=True)
class GoalStages:
    """Makes the stages of goal runs.

    Attributes:
        setup: Project, models, prompts and model process, which the stages share.
        queue_cache: Reads the merge queue and the decisions.
    """

    setup: RunSetup
    queue_cache: MergeQueueCache

    def model_of_run(
        self, name: str | None = None, max_cost: float | None = None, fresh: bool = False
    ) -> LoadableModel:
        """Returns the model of a run: the one of this name, for None the project's.

        Args:
            max_cost, fresh: See `Spending`.

        Raises:
            UsageError: There is no such model.
        """
        return self.setup.models.resolve(
            ModelRequest("goals", name, max_cost=max_cost, fresh=fresh)
        )

    def proposes_paper(self) -> bool:
        """Returns whether the form of a run proposes to do it as in the paper: if the clustering of goals was made so,
        or before there is one, if the model for goals follows instructions."""
        with self.setup.project.reading() as conn:
            goals_id = clusterings.goals_clustering_id(conn)
            if goals_id is not None:
                return stored_clustering(conn, goals_id).paper
        return self.follows_instructions()

    def follows_instructions(self) -> bool:
        """Returns whether the model for goals follows instructions; one that is gone or broken does not."""
        try:
            return self.model_of_run().follows_instructions
        except WorkbenchError:  # a run says what is wrong with the model
            return False

    def first_request(self, model: LoadableModel) -> Mapping[str, Any] | None:
        """Returns the body of the request for the first summary of a run over endpoints, as it would be sent; None
        without conversations. Sends nothing."""
        first = self.setup.project.read(ALL.ids)[:1]
        name = ONE_SENTENCE_PROMPT if model.follows_instructions else SUMMARY_PROMPT
        return next(iter(self._summarize(model, ALL, name).rehearse(first)), None)

    def cluster_stages(
        self, request: ClusteringRequest, *, keep_labels: bool = False
    ) -> list[Stage]:
        """Returns the stages of a clustering run, in order: tuning of a model that was not tuned yet, summaries where
        these are clustered, vectors, clusters, and those of `_after_clusters`.

        On merges `request.decided_by` says what is done: for `ask` the model is asked about pairs, and a person sees
        its answers; for `auto` the merge probability decides; for `llm` the model's answers do; for `none` nothing is
        done. A model that follows no instructions is asked as in the paper only.

        Args:
            keep_labels: Whether labels that a model wrote before stay on a clustering for which no labels are asked.

        Raises:
            UsageError: There is no such embedder, or the model cannot summarize or decide as is asked for.
            NotYet: Answers are to be explained that nobody has given.
        """
        self._check_explanations(request.text)
        selection = Selection(request.filter, limit=request.limit)
        model = self._model_for(request)
        stages = self.setup.tuning_before(model) if model else []
        summarize: SummarizeStage | None = None
        if model and request.goal_text == "summary":
            name = SUMMARY_PROMPT if request.paper else ONE_SENTENCE_PROMPT
            summarize = self._summarize(model, selection, name)
            stages.append(summarize)

        def source() -> TextSource:
            """Returns the source of the texts; the hash of the summaries is known once they are written."""
            return TextSource(request.goal_text, summarize.config_hash if summarize else None)

        project = self.setup.project
        spending = model.spending if model else Spending(request.max_cost, request.fresh)
        vectorizer = self._vectorizer(request.embedder, request.seed, spending)
        embed = EmbedStage(project, vectorizer, source, selection=selection)
        clustering = ClusterStage(
            project,
            self.queue_cache.decision_log,
            embed,
            k=request.k,
            seed=request.seed,
            paper=request.paper,
            undecided=request.decided_by == "none",
            unlabeled=not (request.labels or keep_labels),
        )
        label_model = model if request.labels else None
        return [*stages, embed, clustering, *self._after_clusters(request, label_model, clustering)]

    def _after_clusters(
        self, request: ClusteringRequest, model: LoadableModel | None, clustering: ClusterStage
    ) -> Iterator[Stage]:
        """Yields the stages of a clustering run after its clusters: labels, merges, themes. Where a person decides on
        merges, the model's answers on pairs come last, since themes do not wait for them.

        Args:
            model: What writes labels and answers on pairs; None where none is asked.
        """
        project = self.setup.project
        propose: ProposeStage | None = None
        if model:
            prompt = self.setup.prompts.prompt(LABEL_PROMPT if request.paper else "label-json")
            yield LabelStage(project, self.setup.process, model, prompt, cluster=clustering)
            if request.decided_by in ("ask", "llm"):
                limit = request.ask if request.decided_by == "ask" else None
                propose = self._propose(model, limit, clustering, paper=request.paper)
        if request.decided_by in ("auto", "llm"):
            yield DecideStage(
                project,
                self.queue_cache,
                cluster=clustering,
                asking=propose,
                threshold=request.threshold,
            )
            if not model:
                yield NameStage(project, self.queue_cache, cluster=clustering)
        if request.text in GOAL_TEXTS and not request.paper:  # the paper has no themes
            yield self.theme_stage(clustering)
        if request.decided_by == "ask" and propose is not None:
            yield propose

    def _check_explanations(self, text: GoalText) -> None:
        """Raises NotYet if a text explains the answers to a question that nobody has answered."""
        question = text.removeprefix(EXPLANATION)
        if question == text:
            return
        with self.setup.project.reading() as conn:
            if question not in questions.answered(conn):
                raise NotYet(
                    f"Nobody has answered “{question}”.",
                    f"`workbench ask PROJECT {question}` asks it.",
                )

    def _model_for(self, request: ClusteringRequest) -> LoadableModel | None:
        """Returns the model that a run asks; None if it asks none.

        Raises:
            UsageError: There is no such model, or it cannot summarize or decide as is asked for.
        """
        summarizes = request.goal_text == "summary"
        model = None
        if request.labels or summarizes:
            model = self.model_of_run(request.model, request.max_cost, request.fresh)
            if not (request.paper or model.follows_instructions):
                self.setup.endpoints.check_fields(model, "summaries, labels and answers on pairs")
                if summarizes:
                    raise _follows_none(model, "summarizes only as in the paper", "add --paper")
                model = None
        if request.decided_by == "llm" and not (model and request.labels):
            raise UsageError(
                "The model's answers cannot decide when no model is asked.",
                "Choose a --model that follows instructions."
                if request.labels
                else "Leave out --no-labels.",
            )
        return model

    def theme_stage(self, cluster: ClusterStage | None = None) -> ThemeStage:
        """Returns the stage that puts goals under themes, for None those of the clustering that is open."""
        return ThemeStage(self.setup.project, self.queue_cache, cluster=cluster)

    def estimate(self, request: ClusteringRequest) -> Estimate:
        """Returns how many conversations a clustering run would select by its filter and limit, what the model is asked
        for, and the seconds it takes by the last runs of its stages in this project; None for the seconds where one of
        them never ran.

        Raises:
            UsageError: As `cluster_stages` does.
        """
        stages = self.cluster_stages(request)
        with self.setup.project.reading() as conn:
            count = len(Selection(request.filter, limit=request.limit).ids(conn))
            earlier_runs = runs.all_runs(conn)
        seconds = [_estimate_seconds(stage.name, count, earlier_runs) for stage in stages]
        known_seconds = [value for value in seconds if value is not None]
        # The vectors of a GGUF file are made in the model's lane too, and ask it nothing.
        tasks = [MODEL_TASKS.get(stage.name) for stage in stages if stage.lane == "model"]
        asked = tuple(filter(None, tasks))
        return Estimate(
            costs=self._costs(request, stages),
            items=count,
            tokens=None,  # of a clustering neither tokens nor speed are estimated
            tokens_per_second=None,
            seconds=sum(known_seconds) if len(known_seconds) == len(seconds) else None,
            model=self.model_of_run(request.model).label if asked else request.embedder,
            asked=asked,
        )

    def _costs(self, request: ClusteringRequest, stages: Sequence[Stage]) -> tuple[StageCost, ...]:
        """Returns the cost of each stage that asks endpoints, by the requests for a sample of its items. Labels and
        pairs of a clustering that is still to be made cost as much as those of the fewest to the most groups."""
        costs: list[StageCost] = []
        groups: GroupForecast | None = None
        for stage in stages:
            if isinstance(stage, ClusterStage) and not stage.is_stored():
                groups = self._group_forecast(request)
            if not isinstance(stage, SummarizeStage | LabelStage | ProposeStage | DecideStage):
                continue
            if not stage.asks_endpoints:
                continue
            if groups and not isinstance(stage, SummarizeStage):
                costs.append(stage.estimate_ahead(groups))
            elif isinstance(stage, SummarizeStage | LabelStage):
                costs.append(stage.estimate(stage.waiting()))
            else:
                costs.append(stage.estimate_waiting())
        return tuple(cost for cost in costs if cost.requests)

    def _group_forecast(self, request: ClusteringRequest) -> GroupForecast:
        """Returns what is known of the groups of a run that was not made yet."""
        with self.setup.project.reading() as conn:
            ids = Selection(request.filter, limit=request.limit).ids(conn)
            entries = TextSource(request.goal_text).shown.read(conn, ids[:LABEL_EXAMPLES])
        texts = [entry.text for entry in entries if entry.text]
        texts = texts or [SUMMARY_LIKE_OTHERS] * LABEL_EXAMPLES
        least, most = (request.k, request.k) if request.k else range_of_proposals(len(ids))
        return GroupForecast(least, max(least, most), len(ids), texts)

    def bodies(self, model: LoadableModel, prompt: Prompt, count: int) -> dict[str, str]:
        """Returns the texts that would be inserted into the prompt `label-json` or `merge-json` for the first groups or
        pairs of the clustering that is open, by the labels of these.

        Args:
            count: Most groups or pairs.

        Raises:
            NotYet: Nothing was clustered yet.
        """
        project, process = self.setup.project, self.setup.process
        if prompt.name == "label-json":
            return LabelStage(project, process, model, prompt).bodies(count)
        return ProposeStage(project, process, model, self.queue_cache, prompt).bodies(count)

    def ask_stages(self, model: str | None = None) -> list[Stage]:
        """Returns the stages that ask a model about the next `MAX_ASKED_PAIRS` undecided pairs of the clustering that
        is open, as in the paper where it was made so.

        Raises:
            NotYet: Nothing was clustered yet.
            UsageError: There is no such model, or it cannot answer such questions.
        """
        run_model = self.model_of_run(model)
        with self.setup.project.reading() as conn:
            paper = stored_clustering(conn, clusterings.open_id(conn)).paper
        propose = self._propose(run_model, MAX_ASKED_PAIRS, paper=paper)
        return [*self.setup.tuning_before(run_model), propose]

    def assign_stages(self, model: str | None = None) -> list[Stage]:
        """Returns the stages that embed conversations that came after the clustering of goals, and assign them to
        its groups.

        Args:
            model: The model that wrote the summaries, where the clustering is of summaries.

        Raises:
            UsageError: Nothing was clustered yet, or the summaries were made with another model or prompt.
        """
        with self.setup.project.reading() as conn:
            stored = stored_clustering(conn, clusterings.goals_clustering_id(conn))
        stages: list[Stage] = []
        if stored.text == "summary":
            run_model = self.model_of_run(model)
            # New conversations need summaries by the same prompt, which only the stored hash tells.
            names = (ONE_SENTENCE_PROMPT, SUMMARY_PROMPT)
            candidates = [self._summarize(run_model, ALL, name) for name in names]
            summarize = next(
                (stage for stage in candidates if stage.config_hash == stored.goal_config), None
            )
            if summarize is None:
                raise UsageError(
                    "The summaries of this clustering were made with another model or prompt.",
                    "Name that model with --model, or cluster again.",
                )
            stages.append(summarize)
        embed = EmbedStage(
            self.setup.project,
            self._vectorizer(stored.embedder, stored.seed),
            lambda: source_of(stored),
            vector_config=stored.vector_config,
        )
        return [
            *stages,
            embed,
            AssignStage(self.setup.project, self.queue_cache.decision_log, stored),
        ]

    def stability_stage(self) -> StabilityStage:
        """Returns the stage that measures the stability of the clustering that is open."""
        return StabilityStage(self.setup.project)

    def _propose(
        self,
        model: LoadableModel,
        limit: int | None,
        cluster: ClusterStage | None = None,
        *,
        paper: bool,
    ) -> ProposeStage:
        """Returns the stage that asks about pairs; raises UsageError if the model cannot answer such questions.

        Args:
            limit: Most pairs to ask about; None asks about all.
            cluster: The stage before that makes the clustering; None takes the one that is open.
            paper: Whether it asks in the words of the paper.
        """
        prompt = self.setup.prompts.prompt(MERGE_PROMPT if paper else "merge-json")
        if paper:
            self.setup.endpoints.check_writing(model, prompt)
        else:
            self.setup.endpoints.check_fields(model, "answers to merge questions")
            if not model.follows_instructions:
                raise _follows_none(model, "is not asked about pairs", "decide yourself")
        return ProposeStage(
            self.setup.project,
            self.setup.process,
            model,
            queue_cache=self.queue_cache,
            prompt=prompt,
            limit=limit,
            cluster=cluster,
        )

    def _summarize(self, model: LoadableModel, selection: Selection, name: str) -> SummarizeStage:
        """Returns the stage that writes summaries with the prompt of this name."""
        context = str(self.setup.project.read(settings.get, ABOUT_KEY, ""))
        prompt = with_context(self.setup.prompts.prompt(name), context)
        self.setup.endpoints.check_writing(model, prompt)
        return SummarizeStage(
            self.setup.project,
            self.setup.process,
            model,
            prompt,
            selection=selection,
        )

    def _vectorizer(self, name: str, seed: int, spending: Spending | None = None) -> Vectorizer:
        """Returns the embedder of a name; a GGUF file runs in the model process. It is made now, so that a wrong name
        is refused before anything runs."""
        entry = self.setup.endpoints.entry_at(name)
        embedder = embedder_for(
            name,
            seed=seed,
            start_gguf=self._gguf_embedder,
            key=entry.optional_key if entry else "",
            prices=entry.prices if entry else None,
        )
        if isinstance(embedder, HttpEmbedder):
            embedder.sender.spending = spending or Spending()
            address = embedder.address
            redacted = not address.local and not (entry and entry.as_is)
            self.setup.endpoints.guard(embedder.sender, address, redacted)
            return Vectorizer(
                name, embedder, cancel=embedder.sender.cancel, spent=embedder.sender.spent
            )
        if name.endswith(".gguf"):
            return Vectorizer(name, embedder, lane="model", cancel=self.setup.process.cancel)
        return Vectorizer(name, embedder)

    def _gguf_embedder(self, path: Path) -> GgufEmbedder:
        """Returns an embedding model that runs in the model process."""
        options = LoadOptions(embedding=True)

        def embed(texts: Sequence[str]) -> Vectors:
            """Returns the vectors of texts, shape (texts, d); loads the model first, unless it is loaded."""
            self.setup.process.load(path, options)
            return self.setup.process.ask(Embed(texts))

        return GgufEmbedder(self.setup.catalog.sha256(path), embed)


def _follows_none(model: LoadableModel, so: str, otherwise: str) -> UsageError:
    """Returns the error that a model follows no instructions; `so` says what it does or not, `otherwise` what one can
    do besides choosing another one."""
    return UsageError(
        f"{model.label} follows no instructions, so it {so}.",
        f"Choose another one with --model or `workbench models use`, or {otherwise}.",
    )


def _estimate_seconds(
    stage: str, conversations: int, earlier_runs: Sequence[RunRow]
) -> float | None:
    """Returns the seconds that a stage takes, by its newest finished run; None where it never finished one.

    Args:
        stage: Name of the stage.
        conversations: Number of conversations that it will work on.
        earlier_runs: All runs of the project, newest first.
    """
    for run in earlier_runs:
        if run.stage == stage and run.state == "done" and run.finished_at and run.done:
            started_at, finished_at = map(
                datetime.datetime.fromisoformat, (run.started_at, run.finished_at)
            )
            seconds = (finished_at - started_at).total_seconds()
            return seconds / run.done * conversations if stage in PER_CONVERSATION else seconds
    return None
