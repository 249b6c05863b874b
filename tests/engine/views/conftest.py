"""Views are tested on the clustered project of the stages below them."""

from __future__ import annotations

from tests.engine.stages.conftest import desks, imported, project, weights

__all__ = ["desks", "imported", "project", "weights"]
