"""Tuning a model on this machine before its first run: which format of it is the fastest faithful one."""

from __future__ import annotations

from engine.conversation import render_log
from engine.filters import ListQuery
from engine.jobs.contract import Stage
from engine.model.catalog import Catalog, ModelEntry
from engine.simulate.samples import sample_conversations
from engine.stages.model_work import RunModel
from engine.stages.tuning import TuningStage
from engine.store import conversations
from engine.store.project import Project
from engine.worker.client import ModelProcess

TEXT_CHARS = 24_000
"""Length of the text on which formats are compared."""

TEXT_CONVERSATIONS = 64
"""Conversations of a project that it is taken from, at most."""


class ModelTuning:
    """Makes the stages that tune the models of one project's runs."""

    def __init__(self, project: Project, process: ModelProcess, catalog: Catalog) -> None:
        self._project, self._process, self._catalog = project, process, catalog

    def before(self, model: RunModel) -> list[Stage]:
        """The stages to run before a run that loads this model; none for endpoints and for a model that was tuned on
        this machine."""
        if model.entry is None or model.entry.tuning is not None:
            return []
        return [self.stage(model.entry, model)]

    def stage(self, entry: ModelEntry, model: RunModel | None = None) -> TuningStage:
        """The stage that tunes a model of the catalogue; `model` is the run that takes the tuned file over."""
        return TuningStage(self._process, self._catalog, entry, self._text(), model)

    def _text(self) -> str:
        """The project's own logs when there are any, else sample conversations."""
        with self._project.reading() as conn:
            ids = conversations.ids(conn, ListQuery())[:TEXT_CONVERSATIONS]
            found = [messages for _, messages in conversations.conversations_for(conn, ids)]
        if not found:
            return sample_text()
        logs = (piece.text for messages in found for piece in render_log(messages))
        return "".join(logs)[:TEXT_CHARS]


def sample_text() -> str:
    """Sample conversations as logs, to measure a model on without a project."""
    logs = [render_log(c.messages) for c in sample_conversations(24)]
    return "\n\n".join("".join(piece.text for piece in log) for log in logs)[:TEXT_CHARS]
