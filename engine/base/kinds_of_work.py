"""The kinds of work that a project uses a model for."""

from __future__ import annotations

from typing import Final, Literal

Work = Literal["scoring", "goals", "trees", "simulation"]
WORKS: Final[dict[Work, str]] = {
    "scoring": "scores and remaining tasks",
    "goals": "summaries, labels and merges",
    "trees": "response trees",
    "simulation": "conversations that are played",
}
"""The kinds of work that a project can choose a model for, each with a description."""
