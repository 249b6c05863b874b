"""Commands are tested on the projects of the services below them."""

from __future__ import annotations

from tests.engine.conftest import clustered, goals, review, tuned, tuned_shallow

__all__ = ["clustered", "goals", "review", "tuned", "tuned_shallow"]
