"""What stages ask of a model, whichever engine answers: the model process or endpoints."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, TypeVar

from engine.jobs.contract import OnProgress
from engine.model.interface import LoadOptions
from engine.model.process.protocol import Request

T = TypeVar("T")


class ModelClient(Protocol):
    """A model that answers requests one at a time; any thread may ask."""

    def ask(self, request: Request[T], progress: OnProgress | None = None) -> T:
        """Sends a request and waits for its answer.

        Args:
            progress: Gets a count and a note now and then; the request says what is counted.

        Raises:
            Cancelled: It was cancelled.
            ModelError: The model cannot answer it.
        """

    def load(
        self,
        path: Path,
        options: LoadOptions,
        adapter: Path | None = None,
        merged: Path | None = None,
    ) -> Mapping[str, Any]:
        """Makes the model ready; `context` of what it returns is its longest sequence in tokens."""

    def spent(self) -> str:
        """Returns what the requests since `load` have cost, in words; empty where they cost nothing but time."""
