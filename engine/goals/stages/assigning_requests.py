"""The stage that assigns each request of conversations with several to a goal of the clustering that is shown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from engine.base.errors import UsageError
from engine.base.number_format import counted
from engine.completeness.request_view import requests_of
from engine.completeness.tables import requests
from engine.completeness.tables.requests import RequestGoal
from engine.conversations.selection import ALL, Selection
from engine.conversations.tables import shared_text
from engine.goals.clusters.clustering import Membership, assign
from engine.goals.stages.assigning import ToGroupsStage
from engine.goals.stages.embedding import QUICK_BATCH, SLOW_BATCH, Vectoriser
from engine.goals.tables import texts, vectors
from engine.goals.views.decision_log import DecisionLog
from engine.jobs.contract import Progress
from engine.jobs.threaded_work import OnProgress
from engine.model.embedders.embedder import Embedder, embedder_from_state
from engine.model.embedders.vectors import same_space
from engine.project.project import Project
from engine.project.sql import id_pages

_PAGE = 200
Place = tuple[int, int, int]
"""A request: the id of its conversation, and the indices of its first and last message."""


class AssignRequestsStage(ToGroupsStage):
    """Assigns the requests that are not assigned, with the kind of goal text and the embedder of the clustering."""

    name = "assign-requests"
    unit = "requests"

    def __init__(
        self,
        project: Project,
        vectoriser: Vectoriser,
        decision_log: DecisionLog,
        selection: Selection = ALL,
    ) -> None:
        """Reads nothing yet.

        Args:
            vectoriser: With the embedder of the clustering.
            selection: The conversations whose requests are assigned.
        """
        super().__init__(project, decision_log)
        self._vectoriser, self._selection = vectoriser, selection
        self.lane = vectoriser.lane

    @property
    def title(self) -> str:
        """Title of the run, for screens and logs."""
        return "Assigning requests to goals"

    def interrupt(self) -> None:
        """Abandons the batch that is being embedded."""
        super().interrupt()
        self._vectoriser.cancel()

    def run(self, run_id: int) -> Iterator[Progress]:
        """Finds the requests, then assigns them in batches.

        Raises:
            NotYet: Nothing was clustered yet.
            UsageError: Summaries were clustered, or the embedder is not that of the clustering.
            Cancelled: `interrupt` was called.
        """
        self._check()
        if self._stored.text == "summary":
            raise UsageError(
                "This clustering is of summaries, and single requests have none.",
                "`workbench run cluster PROJECT --text all` clusters what was said.",
            )
        missing = self._missing()
        if not missing:
            return
        embedder = self._embedder()
        size = QUICK_BATCH if embedder.kind == "tfidf" else SLOW_BATCH
        yield from self._in_batches(
            run_id, missing, size, partial(self._assign, embedder), requests.put_goals
        )

    def summary(self) -> str:
        """The result in one sentence with counts."""
        some = counted(self.assigned, "request")
        return f"Assigned {some} to goals; {self.novel:,} like no goal."

    def _missing(self) -> list[Place]:
        found: list[Place] = []
        with self._project.reading() as conn:
            for page in id_pages(conn, self._selection.ids(conn), _PAGE):
                several = list(requests.starts(conn, page))
                known = requests.goals(conn, self._stored.id, several)
                for key, parts in requests_of(conn, several):
                    places = ((key, one.first, one.last) for one in parts)
                    found += [place for place in places if place not in known]
        return found

    def _embedder(self) -> Embedder:
        with self._project.reading() as conn:
            config = vectors.config(conn, self._stored.vector_config)
        assert config is not None
        embedder = self._vectoriser.embedder
        if config.state is not None:
            embedder = embedder_from_state(config.embedder, config.state)
        same_space(config.fingerprint, embedder.fingerprint)
        return embedder

    def _assign(
        self,
        embedder: Embedder,
        places: Sequence[Place],
        groups: Sequence[str],
        membership: Membership,
        _report: OnProgress,
    ) -> list[RequestGoal]:
        with self._project.reading() as conn:
            left_out = shared_text.of_vectors(conn, self._stored.vector_config)
            said = [texts.of_part(conn, *place, self._stored.text, left_out) for place in places]
        found = assign(embedder.embed(said), membership)
        return [
            RequestGoal(*place, groups[label] if label >= 0 else None, float(score))
            for place, label, score in zip(places, found.labels, found.scores, strict=True)
        ]
