"""Views are tested on the clustered project of the stages."""

from __future__ import annotations

from tests.engine.goals.stages.conftest import decision_log, imported, project, weights

__all__ = ["decision_log", "imported", "project", "weights"]
