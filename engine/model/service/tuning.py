"""Tunes a model before its first run on this machine: finds the fastest format that is faithful to the original."""

from __future__ import annotations

from importlib import resources

from engine.base.conversation import render_log
from engine.conversations.tables import conversations
from engine.jobs.contract import Stage
from engine.model.catalog import Catalog, ModelEntry
from engine.model.model_work import RunModel
from engine.model.process.process import ModelProcess
from engine.model.stages import TuningStage
from engine.project.idset import IdSet
from engine.project.project import Project

TEXT_CHARS = 24_000
"""Length of the text on which formats are compared."""

TEXT_CONVERSATIONS = 64
"""Most conversations of the project that the text is taken from."""


class ModelTuning:
    """Makes the stages that tune the models of one project's runs."""

    def __init__(self, project: Project, process: ModelProcess, catalog: Catalog) -> None:
        self._project, self._process, self._catalog = project, process, catalog

    def before(self, model: RunModel, *others: RunModel) -> list[Stage]:
        """Returns the stages to run before a run of this model; [] for endpoints, and for tuned models whose speed is
        still what it was.

        Args:
            others: The same weights with other adapters, for later stages of the run; they load the tuned file too.
        """
        if model.entry is None:
            return []
        if model.entry.tuning is not None and self._catalog.drift(model.entry) is None:
            return []
        return [self.stage(model.entry, model, *others)]

    def stage(self, entry: ModelEntry, *models: RunModel) -> TuningStage:
        """Returns the stage that tunes a model of the catalogue.

        Args:
            models: Models of the run that follows; they will load the tuned file.
        """
        return TuningStage(self._process, self._catalog, entry, self._text(), models)

    def _text(self) -> str:
        """Returns logs of the project, or sample conversations if it has none."""
        with self._project.reading() as conn:
            ids = IdSet.every(conn).ascending()[:TEXT_CONVERSATIONS]
            found = [messages for _, messages in conversations.conversations_for(conn, ids)]
        if not found:
            return sample_text()
        logs = (piece.text for messages in found for piece in render_log(messages))
        return "".join(logs)[:TEXT_CHARS]


def sample_text() -> str:
    """Returns the logs of some of the demo's conversations, for measuring a model without a project."""
    return (resources.files("engine.model") / "sample_logs.txt").read_text("utf-8")
