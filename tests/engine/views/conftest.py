"""Views are tested on the clustered project of the stages below them."""

from __future__ import annotations

from tests.engine.stages.conftest import decision_log, imported, project, weights

__all__ = ["decision_log", "imported", "project", "weights"]
