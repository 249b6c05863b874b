"""Commands are tested on the projects of the services below them."""

from __future__ import annotations

from tests.engine.conftest import (
    clustered,
    clustered_file,
    goals,
    quick_fits,
    review,
    tuned,
    tuned_shallow,
)

__all__ = ["clustered", "clustered_file", "goals", "quick_fits", "review", "tuned", "tuned_shallow"]
